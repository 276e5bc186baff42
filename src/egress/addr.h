/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and what kind of place they lead to. */
#ifndef EGRESS_ADDR_H
#define EGRESS_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct eaddr {
	uint8_t family; /* AF_INET or AF_INET6 */
	uint8_t b[16];  /* network order; an IPv4 address in the first four */
};

enum { ADDR_TEXT = 48 };

enum addr_class {
	ADDR_PUBLIC,
	ADDR_PRIVATE,  /* RFC 1918, ULA, shared (CGNAT) space: an operator may open these */
	ADDR_LOOPBACK,
	ADDR_LINK,     /* link-local */
	ADDR_METADATA, /* a cloud's instance data */
	ADDR_SPECIAL,  /* unspecified, multicast, broadcast, reserved, benchmarking */
	ADDR_MAPPED,   /* another spelling of an IPv4 address */
};

/*
 * The class of an address.  *bits (may be NULL) is the length of the prefix
 * that makes it special: an allow-list entry speaks of such an address only if
 * its own prefix is at least as long, so that "0.0.0.0/0" does not mean 127.0.0.1.
 */
enum addr_class addr_classify(const struct eaddr *a, unsigned *bits);

bool addr_equal(const struct eaddr *a, const struct eaddr *b);
/* The first `bits` bits are the same, of the same family. */
bool addr_within(const struct eaddr *a, const uint8_t *prefix, int family,
		 unsigned bits);

/* The four parts of dotted decimal, or the RFC 4291 forms; no other spelling,
 * no zone, no brackets. */
bool addr_parse(const char *text, struct eaddr *out);
void addr_format(const struct eaddr *a, char out[ADDR_TEXT]);

/* To and from the kernel's form.  An IPv4 address that a dual-stack socket shows
 * as ::ffff:a.b.c.d comes back as IPv4.  False for another family. */
bool addr_from_sock(const struct sockaddr_storage *ss, struct eaddr *out,
		    uint16_t *port);
socklen_t addr_to_sock(const struct eaddr *a, uint16_t port,
		       struct sockaddr_storage *out);

#endif
