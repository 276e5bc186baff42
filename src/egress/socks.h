/* SPDX-License-Identifier: Apache-2.0 */
/* SOCKS 5 (RFC 1928): no authentication, CONNECT only. */
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
enum socks_result socks_greeting(const uint8_t *data, size_t len, size_t *used,
				 uint8_t *code);
/* The request; a name or an address goes into *place, as from text. */
enum socks_result socks_request(const uint8_t *data, size_t len, size_t *used,
				struct http_place *place, uint8_t *code);
void socks_reply(uint8_t out[SOCKS_REPLY], uint8_t code);

#endif
