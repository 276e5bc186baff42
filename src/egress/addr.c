/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/str.h"

#define V4(a, b, c, d) { a, b, c, d }

/* The first row that matches decides: metadata before the range it lies in. */
static const struct row {
	uint8_t prefix[16];
	uint8_t bits;
	uint8_t class;
} rows4[] = {
	{ V4(169, 254, 0, 0), 16, ADDR_LINK }, /* with 169.254.169.254 */
	{ V4(168, 63, 129, 16), 32, ADDR_METADATA },
	{ V4(100, 100, 100, 200), 32, ADDR_METADATA },
	{ V4(192, 0, 0, 0), 24, ADDR_METADATA }, /* RFC 6890; .192 answers in one cloud */
	{ V4(0, 0, 0, 0), 8, ADDR_SPECIAL },     /* "this host": 0.0.0.0 is loopback */
	{ V4(127, 0, 0, 0), 8, ADDR_LOOPBACK },
	{ V4(10, 0, 0, 0), 8, ADDR_PRIVATE },
	{ V4(172, 16, 0, 0), 12, ADDR_PRIVATE },
	{ V4(192, 168, 0, 0), 16, ADDR_PRIVATE },
	{ V4(100, 64, 0, 0), 10, ADDR_PRIVATE },
	{ V4(198, 18, 0, 0), 15, ADDR_SPECIAL }, /* our own synthetic addresses */
	{ V4(192, 88, 99, 0), 24, ADDR_SPECIAL },
	{ V4(224, 0, 0, 0), 4, ADDR_SPECIAL },
	{ V4(240, 0, 0, 0), 4, ADDR_SPECIAL }, /* with 255.255.255.255 */
};

static const struct row rows6[] = {
	{ { [15] = 1 }, 128, ADDR_LOOPBACK },
	{ { 0 }, 128, ADDR_SPECIAL },
	{ { [10] = 0xff, 0xff }, 96, ADDR_MAPPED },
	{ { [8] = 0xff, 0xff }, 96, ADDR_MAPPED }, /* ::ffff:0:a.b.c.d, RFC 2765 */
	{ { 0 }, 96, ADDR_MAPPED },                /* IPv4-compatible */
	{ { 0xfd, 0x00, 0x0e, 0xc2 }, 32, ADDR_METADATA },
	{ { 0xfd, 0x20, 0x0c, 0xe0 }, 32, ADDR_METADATA },
	{ { 0xfe, 0x80 }, 10, ADDR_LINK },
	{ { 0xfe, 0xc0 }, 10, ADDR_PRIVATE }, /* site-local, as it once was */
	{ { 0xfc }, 7, ADDR_PRIVATE },
	{ { 0xff }, 8, ADDR_SPECIAL },
	{ { 0x01 }, 64, ADDR_SPECIAL }, /* 100::/64, discard */
	{ { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, ADDR_PRIVATE }, /* local NAT64 */
	{ { 0x5f }, 16, ADDR_SPECIAL }, /* segment routing */
};

/* Where an IPv6 address carries an IPv4 one that a gateway on the way takes out
 * and connects to: it is what that one is.  Teredo's is inverted. */
static const struct {
	uint8_t prefix[16];
	uint8_t bits, at, invert;
} embeds[] = {
	{ { 0x00, 0x64, 0xff, 0x9b }, 96, 12, 0 },   /* NAT64 */
	{ { 0x20, 0x02 }, 16, 2, 0 },                /* 6to4 */
	{ { 0x20, 0x01, 0x00, 0x00 }, 32, 12, 0xff }, /* Teredo, client */
	{ { 0x20, 0x01, 0x00, 0x00 }, 32, 4, 0 },    /* Teredo, server */
};

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return !rest || !((a[whole] ^ b[whole]) & (0xffu << (8 - rest)) & 0xffu);
}

static enum addr_class look_up(const struct row *rows, size_t n, const uint8_t *b,
			       unsigned *bits)
{
	for (size_t i = 0; i < n; i++) {
		if (same_bits(b, rows[i].prefix, rows[i].bits)) {
			*bits = rows[i].bits;
			return (enum addr_class)rows[i].class;
		}
	}
	return ADDR_PUBLIC;
}

enum addr_class addr_classify(const struct eaddr *a, unsigned *bits)
{
	unsigned ignored;

	if (!bits)
		bits = &ignored;
	*bits = 0;
	if (a->family == AF_INET)
		return look_up(rows4, ARRAY_LEN(rows4), a->b, bits);
	for (size_t i = 0; i < ARRAY_LEN(embeds); i++) {
		uint8_t in[4];
		if (!same_bits(a->b, embeds[i].prefix, embeds[i].bits))
			continue;
		for (unsigned k = 0; k < 4; k++)
			in[k] = a->b[embeds[i].at + k] ^ embeds[i].invert;
		enum addr_class c = look_up(rows4, ARRAY_LEN(rows4), in, bits);
		*bits = 128;
		if (c != ADDR_PUBLIC)
			return c == ADDR_PRIVATE ? ADDR_MAPPED : c;
	}
	*bits = 0;
	return look_up(rows6, ARRAY_LEN(rows6), a->b, bits);
}

bool addr_equal(const struct eaddr *a, const struct eaddr *b)
{
	return a->family == b->family &&
	       memcmp(a->b, b->b, a->family == AF_INET ? 4 : 16) == 0;
}

bool addr_within(const struct eaddr *a, const uint8_t *prefix, int family, unsigned bits)
{
	return a->family == family && same_bits(a->b, prefix, bits);
}

bool addr_parse(const char *text, struct eaddr *out)
{
	*out = (struct eaddr){ 0 };
	if (inet_pton(AF_INET, text, out->b) == 1)
		out->family = AF_INET;
	else if (inet_pton(AF_INET6, text, out->b) == 1)
		out->family = AF_INET6;
	return out->family != 0;
}

void addr_format(const struct eaddr *a, char out[ADDR_TEXT])
{
	if (!inet_ntop(a->family, a->b, out, ADDR_TEXT))
		memcpy(out, "?", 2);
}

bool addr_from_sock(const struct sockaddr_storage *ss, struct eaddr *out, uint16_t *port)
{
	*out = (struct eaddr){ 0 };
	if (ss->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)ss;
		out->family = AF_INET;
		memcpy(out->b, &in->sin_addr, 4);
		*port = ntohs(in->sin_port);
		return true;
	}
	if (ss->ss_family != AF_INET6)
		return false;
	const struct sockaddr_in6 *in6 = (const void *)ss;
	*port = ntohs(in6->sin6_port);
	if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		out->family = AF_INET;
		memcpy(out->b, (const char *)&in6->sin6_addr + 12, 4);
	} else {
		out->family = AF_INET6;
		memcpy(out->b, &in6->sin6_addr, 16);
	}
	return true;
}

socklen_t addr_to_sock(const struct eaddr *a, uint16_t port, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof *out);
	if (a->family == AF_INET) {
		struct sockaddr_in *in = (void *)out;
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->b, 4);
		return sizeof *in;
	}
	struct sockaddr_in6 *in6 = (void *)out;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, a->b, 16);
	return sizeof *in6;
}
