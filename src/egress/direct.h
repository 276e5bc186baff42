/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the operator's proxy is not asked: the items of his NO_PROXY.
 *
 *   *                      everything
 *   example.com            it and all names below it
 *   .example.com           the names below it; "*.example.com" is the same
 *   192.0.2.7  2001:db8::/32  a target that is written as an address
 *
 * Each may end with :PORT (an IPv6 address is in brackets then).
 */
#ifndef EGRESS_DIRECT_H
#define EGRESS_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "egress/addr.h"
#include "egress/wire.h"

struct direct_item {
	bool all, self, below;  /* of names */
	uint8_t family;         /* of an address, or 0 */
	uint8_t bits;
	uint16_t port;          /* 0: any */
	uint8_t addr[16];
	char name[EG_NAME_LEN]; /* canonical */
};

/* False when it is none of the forms above. */
bool direct_parse(const char *text, struct direct_item *out);
/* addr is NULL for a name. */
bool direct_matches(const struct direct_item *d, const char *name,
		    const struct eaddr *addr, uint16_t port);

#endif
