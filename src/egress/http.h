/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1 requests as they pass.  The reader is strict: what two readers could
 * understand in two ways (a folded line, two lengths, a bare line feed) is
 * invalid, because the second reader is the server behind an allowed name.
 */
#ifndef EGRESS_HTTP_H
#define EGRESS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/wire.h"

enum { HTTP_HEAD_MAX = 16 * 1024 };

enum http_result {
	HTTP_MORE,
	HTTP_NOT,     /* no HTTP request: another protocol */
	HTTP_HEAD,    /* *out is filled */
	HTTP_INVALID,
	HTTP_TOO_BIG,
	HTTP_TWO,     /* the preface of HTTP/2 */
};

/* A host and port as text says it. */
struct http_place {
	bool there;
	bool good;               /* name is canonical, or addr an address */
	bool is_addr;
	uint16_t port;           /* 0: none was written */
	char name[EG_NAME_LEN];  /* canonical name, or the address as text */
	char shown[EG_NAME_LEN];
};

struct http_request {
	size_t len;               /* of the head, with the empty line */
	bool connect;             /* CONNECT; target is its authority */
	bool absolute;            /* an absolute URL; target is its authority */
	bool https;               /* … of the scheme https */
	struct http_place target, host;
	size_t path_at, path_len; /* absolute: the path in the head, maybe empty */
	size_t line_len;          /* of the request line, without CR LF */
	size_t auth_at, auth_len; /* the value of Proxy-Authorization; 0: none */
	bool websocket;           /* asks to become one */
	bool chunked;
	uint64_t length;          /* of the body, when not chunked */
};

/* Reads a request head at the beginning of data.  HTTP_NOT only when its first
 * line cannot be one; leading empty lines are not skipped (HTTP_INVALID). */
enum http_result http_read_head(const char *data, size_t len, struct http_request *out);

/* "name", "name:443", "1.2.3.4:80", "[::1]:80": no user, no blanks. */
void http_read_place(const char *text, size_t len, struct http_place *out);

/* Where in a request's body we are. */
struct http_body {
	uint8_t state;
	uint8_t digits;
	uint64_t left;
};

void http_body_begin(struct http_body *b, const struct http_request *r);
bool http_body_ended(const struct http_body *b);
/* How many bytes that come next are the body's whatever they are. */
uint64_t http_body_plain(const struct http_body *b);
/* How many of len bytes belong to the body; -1 when it is malformed.  Data is not
 * looked at, and may be NULL, if all of it is plain. */
int64_t http_body_feed(struct http_body *b, const char *data, size_t len);

/*
 * The head of a request to a proxy (absolute) as the server shall see it: the
 * path alone, and one connection per request, because the next request of this
 * client may be for another host.  Returns its length, or 0 if it does not fit.
 */
size_t http_rewrite(const char *head, const struct http_request *r, char *out,
		    size_t cap);

#endif
