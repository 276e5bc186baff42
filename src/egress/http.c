/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "egress/addr.h"
#include "egress/names.h"

static const char preface[] = "PRI * HTTP/2.0\r\n";

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_token(char c)
{
	return is_alpha(c) || is_digit(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* A decimal number of at most 18 digits; false for anything else. */
static bool read_number(const char *p, size_t len, uint64_t *out)
{
	*out = 0;
	if (len == 0 || len > 18)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_digit(p[i]))
			return false;
		*out = *out * 10 + (uint64_t)(p[i] - '0');
	}
	return true;
}

void http_read_place(const char *text, size_t len, struct http_place *out)
{
	const char *host = text, *end = text + len, *colon;
	struct eaddr a;
	size_t n;

	*out = (struct http_place){ .there = true };
	names_show(text, len, out->shown);
	if (len && text[0] == '[') {
		const char *close = memchr(text, ']', len);
		if (!close)
			return;
		host = text + 1;
		n = (size_t)(close - host);
		colon = close + 1;
	} else {
		colon = memchr(text, ':', len);
		if (!colon)
			colon = end;
		n = (size_t)(colon - host);
	}
	if (colon < end) {
		uint64_t port;
		if (*colon != ':' || end - colon > 6 ||
		    !read_number(colon + 1, (size_t)(end - colon - 1), &port) ||
		    port == 0 || port > 65535)
			return;
		out->port = (uint16_t)port;
	}
	if (n >= EG_NAME_LEN)
		return;
	memcpy(out->name, host, n);
	out->name[n] = '\0';
	if (strlen(out->name) != n)
		return;
	/* brackets are for IPv6, and IPv6 is in brackets */
	if (addr_parse(out->name, &a)) {
		out->is_addr = true;
		out->good = (a.family == AF_INET6) == (text[0] == '[');
		return;
	}
	out->good = text[0] != '[' && names_canon(host, n, out->name);
}

/* Method, target, version: "GET /path HTTP/1.1". */
static enum http_result read_line(const char *line, size_t len, struct http_request *r)
{
	const char *sp = memchr(line, ' ', len), *end = line + len;
	const char *last = memrchr(line, ' ', len);

	if (!sp || last == sp || sp == line)
		return HTTP_INVALID;
	for (const char *p = line; p < sp; p++)
		if (!is_token(*p))
			return HTTP_INVALID;
	if (end - last != 9 || (memcmp(last, " HTTP/1.1", 9) != 0 && memcmp(last, " HTTP/1.0", 9) != 0))
		return HTTP_INVALID;
	const char *target = sp + 1;
	size_t n = (size_t)(last - target);
	if (n == 0)
		return HTTP_INVALID;
	for (size_t i = 0; i < n; i++)
		if (target[i] <= ' ' || target[i] == 0x7f)
			return HTTP_INVALID;
	if (sp - line == 7 && memcmp(line, "CONNECT", 7) == 0) {
		r->connect = true;
		http_read_place(target, n, &r->target);
		return HTTP_HEAD;
	}
	if (target[0] == '/' || (n == 1 && target[0] == '*'))
		return HTTP_HEAD;
	size_t scheme = 0;
	if (n > 7 && strncasecmp(target, "http://", 7) == 0)
		scheme = 7;
	else if (n > 8 && strncasecmp(target, "https://", 8) == 0)
		scheme = 8;
	if (!scheme)
		return HTTP_INVALID;
	r->absolute = true;
	r->https = scheme == 8;
	const char *auth = target + scheme;
	size_t m = 0;
	while (m < n - scheme && !strchr("/?#", auth[m]))
		m++;
	http_read_place(auth, m, &r->target);
	r->path_at = (size_t)(auth + m - line);
	r->path_len = n - scheme - m;
	return HTTP_HEAD;
}

static bool has_word(const char *value, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i < len;) {
		size_t end = i;
		while (end < len && value[end] != ',')
			end++;
		size_t a = i, b = end;
		while (a < b && (value[a] == ' ' || value[a] == '\t'))
			a++;
		while (b > a && (value[b - 1] == ' ' || value[b - 1] == '\t'))
			b--;
		if (b - a == n && strncasecmp(value + a, word, n) == 0)
			return true;
		i = end + 1;
	}
	return false;
}

/* What a head may say once. */
struct seen {
	bool length, chunked;
};

static bool read_field(const char *head, const char *name, size_t n, const char *value,
		       size_t len, struct http_request *r, struct seen *seen)
{
	if (n == 4 && strncasecmp(name, "host", 4) == 0) {
		if (r->host.there)
			return false;
		http_read_place(value, len, &r->host);
	} else if (n == 14 && strncasecmp(name, "content-length", 14) == 0) {
		if (seen->length || !read_number(value, len, &r->length))
			return false;
		seen->length = true;
	} else if (n == 17 && strncasecmp(name, "transfer-encoding", 17) == 0) {
		if (seen->chunked || len != 7 || strncasecmp(value, "chunked", 7) != 0)
			return false;
		seen->chunked = r->chunked = true;
	} else if (n == 7 && strncasecmp(name, "upgrade", 7) == 0) {
		r->websocket = has_word(value, len, "websocket") && !memchr(value, ',', len);
	} else if (n == 19 && strncasecmp(name, "proxy-authorization", 19) == 0) {
		if (r->auth_at)
			return false;
		r->auth_at = (size_t)(value - head);
		r->auth_len = len;
	}
	return true;
}

static bool read_fields(const char *head, const char *p, const char *end,
			struct http_request *r)
{
	struct seen seen = { 0 };

	while (p < end) {
		const char *eol = memmem(p, (size_t)(end - p), "\r\n", 2);
		if (!eol)
			return false;
		const char *colon = memchr(p, ':', (size_t)(eol - p));
		if (!colon || colon == p)
			return false;
		for (const char *c = p; c < colon; c++)
			if (!is_token(*c)) /* a blank before ':', a folded line */
				return false;
		const char *v = colon + 1, *vend = eol;
		while (v < vend && (*v == ' ' || *v == '\t'))
			v++;
		while (vend > v && (vend[-1] == ' ' || vend[-1] == '\t'))
			vend--;
		for (const char *c = v; c < vend; c++)
			if ((*c >= 0 && *c < ' ' && *c != '\t') || *c == 0x7f)
				return false;
		if (!read_field(head, p, (size_t)(colon - p), v, (size_t)(vend - v), r, &seen))
			return false;
		p = eol + 2;
	}
	return !(seen.length && seen.chunked);
}

static size_t strspn_blank(const char *p, size_t len)
{
	size_t n = 0;

	while (n < len && (p[n] == ' ' || p[n] == '\t'))
		n++;
	return n;
}

/*
 * Could the first line be that of a request?  On ports where other protocols are
 * allowed this decides which reader looks at the rest, so whatever a lenient
 * server would take for HTTP must not be called something else.
 */
static enum http_result looks_like(const char *data, size_t len)
{
	size_t n = 0;

	if (len && (data[0] == '\r' || data[0] == '\n'))
		return HTTP_INVALID; /* servers skip these */
	while (n < len && is_token(data[n]))
		n++;
	if (n == len)
		return HTTP_MORE; /* a method may be long, and a server lenient */
	if (n == 0 || (data[n] != ' ' && data[n] != '\t'))
		return HTTP_NOT;
	const char *eol = memchr(data, '\n', len);
	size_t line = eol ? (size_t)(eol - data) : len;
	if (memmem(data, line, "HTTP/", 5) || memmem(data, line, "http/", 5))
		return HTTP_HEAD;
	if (!eol)
		return HTTP_MORE;
	/* "GET /" alone is HTTP/0.9; "get key" is not */
	size_t at = n + strspn_blank(data + n, line - n);
	return n == 3 && strncasecmp(data, "get", 3) == 0 &&
		       (data[at] == '/' || (line - at >= 4 && strncasecmp(data + at, "http", 4) == 0)) ?
		       HTTP_INVALID : HTTP_NOT;
}

enum http_result http_read_head(const char *data, size_t len, struct http_request *out)
{
	*out = (struct http_request){ 0 };
	if (len && memcmp(data, preface, len < 16 ? len : 16) == 0)
		return len < 16 ? HTTP_MORE : HTTP_TWO;
	enum http_result like = looks_like(data, len);
	if (like != HTTP_HEAD)
		return like == HTTP_MORE && len >= HTTP_HEAD_MAX ? HTTP_TOO_BIG : like;
	size_t look = len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX;
	const char *end = memmem(data, look, "\r\n\r\n", 4);
	const char *line = memmem(data, look, "\r\n", 2);
	/* a line feed alone would end the head for some servers */
	size_t head_end = end ? (size_t)(end - data) : look;
	for (size_t i = 0; i < head_end; i++)
		if (data[i] == '\0' || (data[i] == '\n' && (i == 0 || data[i - 1] != '\r')))
			return HTTP_INVALID;
	if (!end)
		return len >= HTTP_HEAD_MAX ? HTTP_TOO_BIG : HTTP_MORE;
	out->len = head_end + 4;
	out->line_len = (size_t)(line - data);
	enum http_result r = read_line(data, out->line_len, out);
	if (r != HTTP_HEAD)
		return r;
	return read_fields(data, line + 2, end + 2, out) ? HTTP_HEAD : HTTP_INVALID;
}

enum {
	BODY_END,
	BODY_LENGTH,
	CHUNK_SIZE,
	CHUNK_EXT,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_CR,
	CHUNK_LF,
	TRAILER_START,
	TRAILER_LINE,
	TRAILER_LF,
	TRAILER_END_LF,
};

void http_body_begin(struct http_body *b, const struct http_request *r)
{
	*b = (struct http_body){ .left = r->length };
	if (r->chunked)
		*b = (struct http_body){ .state = CHUNK_SIZE };
	else if (r->length)
		b->state = BODY_LENGTH;
}

bool http_body_ended(const struct http_body *b)
{
	return b->state == BODY_END;
}

static int hex(char c)
{
	if (is_digit(c))
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of a chunked body outside the data; false when it is malformed. */
static bool chunk_byte(struct http_body *b, char c)
{
	switch (b->state) {
	case CHUNK_SIZE:
		if (hex(c) >= 0) {
			if (++b->digits > 15)
				return false;
			b->left = b->left << 4 | (uint64_t)hex(c);
			return true;
		}
		if (!b->digits || (c != '\r' && c != ';'))
			return false;
		b->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXT;
		return true;
	case CHUNK_EXT:
		if (c == '\r')
			b->state = CHUNK_SIZE_LF;
		return c == '\r' || c == '\t' || (c >= ' ' && c != 0x7f);
	case CHUNK_SIZE_LF:
		b->state = b->left ? CHUNK_DATA : TRAILER_START;
		b->digits = 0;
		return c == '\n';
	case CHUNK_CR:
		b->state = CHUNK_LF;
		return c == '\r';
	case CHUNK_LF:
		b->state = CHUNK_SIZE;
		return c == '\n';
	case TRAILER_START:
		b->state = c == '\r' ? TRAILER_END_LF : TRAILER_LINE;
		return c == '\r' || is_token(c);
	case TRAILER_LINE:
		if (c == '\r')
			b->state = TRAILER_LF;
		return c == '\r' || c == '\t' || c < 0 || c >= ' ';
	case TRAILER_LF:
		b->state = TRAILER_START;
		return c == '\n';
	case TRAILER_END_LF:
		b->state = BODY_END;
		return c == '\n';
	default:
		return false;
	}
}

uint64_t http_body_plain(const struct http_body *b)
{
	return b->state == BODY_LENGTH || b->state == CHUNK_DATA ? b->left : 0;
}

int64_t http_body_feed(struct http_body *b, const char *data, size_t len)
{
	size_t at = 0;

	while (at < len && b->state != BODY_END) {
		if (b->state != BODY_LENGTH && b->state != CHUNK_DATA) {
			if (!chunk_byte(b, data[at++]))
				return -1;
			continue;
		}
		uint64_t n = b->left < len - at ? b->left : len - at;
		b->left -= n;
		at += (size_t)n;
		if (!b->left)
			b->state = b->state == BODY_LENGTH ? BODY_END : CHUNK_CR;
	}
	return (int64_t)at;
}

/* Fields that speak to the proxy only. */
static bool for_proxy(const char *line, size_t len)
{
	static const char *const names[] = { "connection:", "keep-alive:",
					     "proxy-connection:", "proxy-authorization:" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (len >= strlen(names[i]) &&
		    strncasecmp(line, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

size_t http_rewrite(const char *head, const struct http_request *r, char *out, size_t cap)
{
	static const char close[] = "Connection: close\r\n\r\n";
	const char *sp = memchr(head, ' ', r->line_len);
	const char *p = head + r->line_len + 2, *end = head + r->len - 2;
	size_t n = (size_t)(sp - head) + 1;

	if (cap < r->len + sizeof close + 2)
		return 0;
	memcpy(out, head, n);
	if (r->path_len == 0 || head[r->path_at] != '/')
		out[n++] = '/';
	memcpy(out + n, head + r->path_at, r->path_len);
	n += r->path_len;
	memcpy(out + n, head + r->line_len - 9, 11); /* " HTTP/1.1\r\n" */
	n += 11;
	while (p < end) {
		const char *eol = memmem(p, (size_t)(end - p), "\r\n", 2);
		size_t len = (size_t)(eol + 2 - p);
		if (!for_proxy(p, len)) {
			memcpy(out + n, p, len);
			n += len;
		}
		p += len;
	}
	memcpy(out + n, close, sizeof close - 1);
	return n + sizeof close - 1;
}
