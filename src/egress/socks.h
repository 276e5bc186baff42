/* SPDX-License-Identifier: Apache-2.0 */
/* SOCKS 5 (RFC 1928): CONNECT only; with a password (RFC 1929) or without. */
#ifndef EGRESS_SOCKS_H
#define EGRESS_SOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "egress/http.h"

enum socks_result {
	SOCKS_MORE,
	SOCKS_OK,
	SOCKS_REFUSE,  /* answer with *code, then close */
	SOCKS_INVALID, /* no SOCKS 5 at all */
};

enum {
	SOCKS_DONE = 0,
	SOCKS_FAILED = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_HOST = 4,
	SOCKS_CONN = 5,
	SOCKS_COMMAND = 7,
	SOCKS_ADDRESS = 8,
	SOCKS_NO_METHOD = 0xff,
	SOCKS_REPLY = 10,
};

/* The greeting; *used bytes of it.  Answer two bytes: 5 and *code. */
enum socks_result socks_greeting(const uint8_t *data, size_t len, bool password,
				 size_t *used, uint8_t *code);
/* Name and password, which must be expected ("name:password").  Answer two bytes: 1
 * and *code. */
enum socks_result socks_password(const uint8_t *data, size_t len, const char *expected,
				 size_t *used, uint8_t *code);
/* The request; a name or an address goes into *place, as from text. */
enum socks_result socks_request(const uint8_t *data, size_t len, size_t *used,
				struct http_place *place, uint8_t *code);
/* Equal; takes as long whether they are or not. */
bool socks_same(const void *a, size_t n, const void *b, size_t len);
void socks_reply(uint8_t out[SOCKS_REPLY], uint8_t code);

#endif
