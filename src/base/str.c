/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"

size_t strv_len(char *const *v)
{
	size_t n = 0;
	while (v && v[n])
		n++;
	return n;
}

int strv_put(char ***v, size_t *n, char *s)
{
	if (!s)
		return -ENOMEM;
	/* grow in powers of two: a thousand binds must not cost a million copies */
	if (!*v || (*n & (*n - 1)) == 0) {
		size_t cap = (*n + 1) * 2;
		char **bigger = realloc(*v, cap * sizeof *bigger);
		if (!bigger) {
			free(s);
			return -ENOMEM;
		}
		*v = bigger;
	}
	(*v)[(*n)++] = s;
	(*v)[*n] = NULL;
	return 0;
}

int strv_take(char ***v, char *s)
{
	size_t n = strv_len(*v);

	return strv_put(v, &n, s);
}

int strv_append(char ***v, const char *const *more)
{
	size_t n = strv_len(*v);
	int r = 0;

	for (; more && *more && r == 0; more++)
		r = strv_put(v, &n, strdup(*more));
	return r;
}

int strv_add(char ***v, const char *s)
{
	return strv_take(v, strdup(s));
}

void strv_free(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

uint32_t str_hash(const char *s, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * 16777619u;
	return h;
}

char *str_fmt(const char *fmt, ...)
{
	big_buffer char text[256];
	char *s = NULL;
	va_list ap;

	/* most are paths and fit: formatted once, copied once */
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof text)
		return strndup(text, (size_t)n);
	va_start(ap, fmt);
	if (n >= 0)
		n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : s;
}

/* digits [ "." digits ]: the value times 1000, rounded up: a limit that was
 * asked for must not become 0, which means none. */
static int parse_thousandths(const char *s, const char **end, uint64_t *out)
{
	uint64_t v = 0;
	const char *p = s;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -ERANGE;
	if (__builtin_mul_overflow(v, 1000u, &v))
		return -ERANGE;
	if (*p == '.') {
		uint64_t unit = 100, more = 0;
		p++;
		if (*p < '0' || *p > '9')
			return -EINVAL;
		for (; *p >= '0' && *p <= '9'; p++) {
			if (!unit && *p != '0')
				more = 1;
			if (__builtin_add_overflow(
				    v, unit * (uint64_t)(*p - '0'), &v))
				return -ERANGE;
			unit /= 10;
		}
		if (__builtin_add_overflow(v, more, &v))
			return -ERANGE;
	}
	*end = p;
	*out = v;
	return 0;
}

int parse_uint(const char *s, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	}
	if (v > max)
		return -ERANGE;
	*out = v;
	return 0;
}

int parse_milli(const char *s, uint64_t max_milli, uint64_t *out)
{
	const char *end;
	uint64_t v;
	int r = parse_thousandths(s, &end, &v);

	if (r < 0)
		return r;
	if (*end)
		return -EINVAL;
	if (v > max_milli)
		return -ERANGE;
	*out = v;
	return 0;
}

int parse_size(const char *s, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *end;
	uint64_t v;
	unsigned shift = 0;
	int r = parse_thousandths(s, &end, &v);

	if (r < 0)
		return r;
	if (*end && *end != 'B') {
		char c = *end;
		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		const char *u = strchr(units, c);
		if (!u)
			return -EINVAL;
		shift = 10 * (unsigned)(u - units + 1);
		end++;
		if (end[0] == 'i' && end[1] == 'B')
			end++;
	}
	if (*end == 'B')
		end++;
	if (*end)
		return -EINVAL;
	/* v counts thousandths, so v < 2^64 and v * 2^40 fits 128 bits */
	unsigned __int128 bytes = (((unsigned __int128)v << shift) + 999) / 1000;
	if (bytes > INT64_MAX)
		return -ERANGE;
	*out = (uint64_t)bytes;
	return 0;
}

int path_normalise(const char *path, char **out)
{
	if (path[0] != '/')
		return -EINVAL;
	char *n = malloc(strlen(path) + 2);
	if (!n)
		return -ENOMEM;
	size_t len = 0;
	const char *p = path;
	while (*p) {
		while (*p == '/')
			p++;
		const char *start = p;
		while (*p && *p != '/')
			p++;
		size_t part = (size_t)(p - start);
		if (part == 0 || (part == 1 && start[0] == '.'))
			continue;
		if (part == 2 && start[0] == '.' && start[1] == '.') {
			free(n);
			return -EINVAL;
		}
		n[len++] = '/';
		memcpy(n + len, start, part);
		len += part;
	}
	if (len == 0)
		n[len++] = '/';
	n[len] = '\0';
	*out = n;
	return 0;
}

bool path_is_under(const char *path, const char *dir)
{
	size_t n = 0;

	/* mostly they differ early: no length is asked for */
	while (dir[n] && dir[n] == path[n])
		n++;
	if (dir[n])
		return false;
	return path[n] == '\0' || path[n] == '/' || (n == 1 && dir[0] == '/');
}

bool path_is_plain(const char *path)
{
	if (path[0] != '/' || !path[1])
		return false;
	for (const char *p = path; *p;) {
		size_t n = strcspn(++p, "/"); /* one component */
		if (n == 0 || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.'))))
			return false;
		p += n;
	}
	return true;
}

/* Length of the well-formed, harmless UTF-8 sequence at p, or 0: controls (C0,
 * DEL and the C1 range, which terminals obey too) are not harmless. */
static size_t harmless(const char *p)
{
	unsigned char c = (unsigned char)*p;

	if (c < 0x80)
		return c >= 0x20 && c != 0x7f;
	for (size_t n = 2; n <= 4; n++) {
		if (((unsigned char)p[n - 1] & 0xc0) != 0x80)
			return 0;
		if (utf8_valid(p, n))
			return c == 0xc2 && (unsigned char)p[1] < 0xa0 ? 0 : n;
	}
	return 0;
}

char *str_printable(const char *s)
{
	struct buf b = { 0 };

	while (*s) {
		size_t n = 0;
		for (size_t more; (more = harmless(s + n)) != 0;)
			n += more;
		buf_add(&b, s, n);
		s += n;
		if (*s)
			buf_addf(&b, "\\x%02x", (unsigned char)*s++);
	}
	return buf_take(&b, NULL);
}

void str_clean(const char *s, char *out, size_t cap)
{
	static const char hex[] = "0123456789abcdef";
	size_t at = 0;

	while (*s) {
		size_t n = harmless(s);
		unsigned char c = (unsigned char)*s;
		if (at + (n ? n : 4) >= cap)
			break; /* cut between characters, never inside one */
		if (n) {
			memcpy(out + at, s, n);
			at += n;
			s += n;
			continue;
		}
		const char esc[4] = { '\\', 'x', hex[c >> 4], hex[c & 15] };
		memcpy(out + at, esc, sizeof esc);
		at += sizeof esc;
		s++;
	}
	out[at] = '\0';
}
