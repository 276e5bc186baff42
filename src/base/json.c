/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

size_t utf8_valid_part(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s, *end = p + len;

	while (p < end) {
		const unsigned char *from = p;
		unsigned char c = *p++;
		unsigned more, min;
		if (c < 0x80)
			continue;
		if (c >= 0xc2 && c <= 0xdf)
			more = 1, min = 0x80;
		else if (c >= 0xe0 && c <= 0xef)
			more = 2, min = 0x800;
		else if (c >= 0xf0 && c <= 0xf4)
			more = 3, min = 0x10000;
		else
			return (size_t)(from - (const unsigned char *)s);
		unsigned cp = c & (0x3fu >> more);
		bool good = (size_t)(end - p) >= more;
		for (unsigned i = 0; good && i < more; i++) {
			good = (*p & 0xc0) == 0x80;
			cp = cp << 6 | (*p++ & 0x3fu);
		}
		if (!good || cp < min || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
			return (size_t)(from - (const unsigned char *)s);
	}
	return len;
}

bool utf8_valid(const char *s, size_t len)
{
	return utf8_valid_part(s, len) == len;
}

void jw_init(struct json *j, struct buf *out)
{
	*j = (struct json){ .out = out, .first = { true } };
}

static void before_value(struct json *j)
{
	if (j->after_key) {
		j->after_key = false;
		return;
	}
	if (!j->first[j->depth])
		buf_addc(j->out, ',');
	j->first[j->depth] = false;
}

static void open_level(struct json *j, char c)
{
	before_value(j);
	buf_addc(j->out, c);
	if (j->depth + 1 < (int)(sizeof j->first / sizeof j->first[0]))
		j->depth++;
	else
		j->out->failed = true;
	j->first[j->depth] = true;
}

static void close_level(struct json *j, char c)
{
	if (j->depth > 0)
		j->depth--;
	else
		j->out->failed = true;
	buf_addc(j->out, c);
}

void jw_object(struct json *j)
{
	open_level(j, '{');
}
void jw_array(struct json *j)
{
	open_level(j, '[');
}
void jw_end_object(struct json *j)
{
	close_level(j, '}');
}
void jw_end_array(struct json *j)
{
	close_level(j, ']');
}

static void quoted(struct buf *b, const char *s, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	size_t run = 0;

	buf_addc(b, '"');
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		/* DEL and the C1 range pass: they are valid JSON.  Everything
		 * below space and the two specials is escaped. */
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		buf_add(b, s + run, i - run);
		run = i + 1;
		switch (c) {
		case '"':
			buf_add(b, "\\\"", 2);
			break;
		case '\\':
			buf_add(b, "\\\\", 2);
			break;
		case '\n':
			buf_add(b, "\\n", 2);
			break;
		case '\t':
			buf_add(b, "\\t", 2);
			break;
		case '\r':
			buf_add(b, "\\r", 2);
			break;
		default: {
			char u[6] = { '\\', 'u', '0', '0', hex[c >> 4],
				      hex[c & 15] };
			buf_add(b, u, sizeof u);
		}
		}
	}
	buf_add(b, s + run, len - run);
	buf_addc(b, '"');
}

static void base64(struct buf *b, const unsigned char *p, size_t len)
{
	static const char tab[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "abcdefghijklmnopqrstuvwxyz0123456789+/";
	buf_addc(b, '"');
	for (size_t i = 0; i < len; i += 3) {
		unsigned v = (unsigned)p[i] << 16;
		size_t left = len - i;
		if (left > 1)
			v |= (unsigned)p[i + 1] << 8;
		if (left > 2)
			v |= p[i + 2];
		char q[4] = { tab[v >> 18], tab[v >> 12 & 63],
			      left > 1 ? tab[v >> 6 & 63] : '=',
			      left > 2 ? tab[v & 63] : '=' };
		buf_add(b, q, sizeof q);
	}
	buf_addc(b, '"');
}

void jw_key(struct json *j, const char *key)
{
	before_value(j);
	quoted(j->out, key, strlen(key));
	buf_addc(j->out, ':');
	j->after_key = true;
}

void jw_bytes(struct json *j, const char *s, size_t len)
{
	before_value(j);
	if (utf8_valid(s, len)) {
		quoted(j->out, s, len);
		return;
	}
	buf_adds(j->out, "{\"base64\":");
	base64(j->out, (const unsigned char *)s, len);
	buf_addc(j->out, '}');
}

void jw_string(struct json *j, const char *s)
{
	if (s)
		jw_bytes(j, s, strlen(s));
	else
		jw_null(j);
}

void jw_int(struct json *j, int64_t v)
{
	before_value(j);
	buf_addf(j->out, "%" PRId64, v);
}

void jw_uint(struct json *j, uint64_t v)
{
	before_value(j);
	buf_addf(j->out, "%" PRIu64, v);
}

void jw_fixed(struct json *j, double v, int decimals)
{
	/* not printf: the application's locale may write a comma */
	uint64_t scale = 1;
	for (int i = 0; i < decimals; i++)
		scale *= 10;
	bool negative = v < 0;
	uint64_t n = (uint64_t)((negative ? -v : v) * (double)scale + 0.5);

	before_value(j);
	buf_addf(j->out, "%s%" PRIu64, negative ? "-" : "", n / scale);
	if (decimals > 0)
		buf_addf(j->out, ".%0*" PRIu64, decimals, n % scale);
}

void jw_bool(struct json *j, bool v)
{
	before_value(j);
	buf_adds(j->out, v ? "true" : "false");
}

void jw_null(struct json *j)
{
	before_value(j);
	buf_adds(j->out, "null");
}
