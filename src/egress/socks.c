/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/socks.h"

#include <string.h>

#include "egress/addr.h"
#include "egress/names.h"

enum { METHOD_NONE = 0, METHOD_PASSWORD = 2, VERSION = 5, CMD_CONNECT = 1,
       ATYP_V4 = 1, ATYP_NAME = 3, ATYP_V6 = 4 };

enum socks_result socks_greeting(const uint8_t *data, size_t len, bool password,
				 size_t *used, uint8_t *code)
{
	const uint8_t method = password ? METHOD_PASSWORD : METHOD_NONE;

	if (len >= 1 && data[0] != VERSION)
		return SOCKS_INVALID;
	if (len < 2 || len < 2u + data[1])
		return SOCKS_MORE;
	*used = 2u + data[1];
	*code = memchr(data + 2, method, data[1]) ? method : SOCKS_NO_METHOD;
	return *code == method ? SOCKS_OK : SOCKS_REFUSE;
}

bool socks_same(const void *a, size_t n, const void *b, size_t len)
{
	const volatile uint8_t *p = a, *q = b;
	uint8_t differs = n != len;

	for (size_t i = 0; i < n && i < len; i++)
		differs |= p[i] ^ q[i];
	return !differs;
}

enum socks_result socks_password(const uint8_t *data, size_t len, const char *expected,
				 size_t *used, uint8_t *code)
{
	size_t user = strcspn(expected, ":");

	if (len >= 1 && data[0] != 1)
		return SOCKS_INVALID;
	if (len < 2 || len < 3u + data[1] || len < 3u + data[1] + data[2 + data[1]])
		return SOCKS_MORE;
	const uint8_t *name = data + 2, *password = data + 3 + data[1];
	size_t n = data[2 + data[1]];
	*used = 3u + data[1] + n;
	bool right = socks_same(name, data[1], expected, user);
	right &= socks_same(password, n, expected + user + 1, strlen(expected + user + 1));
	*code = !right;
	return right ? SOCKS_OK : SOCKS_REFUSE;
}

static enum socks_result read_addr(int family, const uint8_t *p, struct http_place *place)
{
	struct eaddr a = { .family = (uint8_t)family };

	memcpy(a.b, p, family == AF_INET ? 4 : 16);
	addr_format(&a, place->name);
	memcpy(place->shown, place->name, ADDR_TEXT);
	place->is_addr = place->good = true;
	return SOCKS_OK;
}

enum socks_result socks_request(const uint8_t *data, size_t len, size_t *used,
				struct http_place *place, uint8_t *code)
{
	size_t n;
	struct eaddr a;

	*place = (struct http_place){ .there = true };
	if (len >= 1 && data[0] != VERSION)
		return SOCKS_INVALID;
	if (len < 5)
		return SOCKS_MORE;
	switch (data[3]) {
	case ATYP_V4:
		n = 4;
		break;
	case ATYP_V6:
		n = 16;
		break;
	case ATYP_NAME:
		n = 1u + data[4];
		break;
	default:
		*code = SOCKS_ADDRESS;
		return SOCKS_REFUSE;
	}
	if (len < 4 + n + 2)
		return SOCKS_MORE;
	*used = 4 + n + 2;
	place->port = (uint16_t)(data[4 + n] << 8 | data[5 + n]);
	if (data[3] == ATYP_NAME) {
		const char *text = (const char *)data + 5;
		names_show(text, data[4], place->shown);
		place->good = names_canon(text, data[4], place->name);
		/* an address written as a name is still that address */
		if (!place->good && data[4] < ADDR_TEXT) {
			memcpy(place->name, text, data[4]);
			place->name[data[4]] = '\0';
			place->good = place->is_addr =
				strlen(place->name) == data[4] && addr_parse(place->name, &a);
		}
	} else {
		read_addr(data[3] == ATYP_V4 ? AF_INET : AF_INET6, data + 4, place);
	}
	if (data[1] != CMD_CONNECT || place->port == 0) {
		*code = data[1] != CMD_CONNECT ? SOCKS_COMMAND : SOCKS_HOST;
		return SOCKS_REFUSE;
	}
	return SOCKS_OK;
}

void socks_reply(uint8_t out[SOCKS_REPLY], uint8_t code)
{
	memset(out, 0, SOCKS_REPLY);
	out[0] = VERSION;
	out[1] = code;
	out[3] = ATYP_V4;
}
