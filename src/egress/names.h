/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allow-list, and the synthetic addresses that stand for names inside the
 * sandbox.  An address is given once: it never means another name while the
 * sandbox lives, so a program that keeps one cannot be led elsewhere.
 */
#ifndef EGRESS_NAMES_H
#define EGRESS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/addr.h"
#include "egress/wire.h"

struct names;

/* Names in use at once, and how many addresses there are for them. */
enum {
	NAMES_MAX = 4096,
	NAMES_FIRST = 256,         /* 198.18.0.x is ours: .1 is the resolver */
	NAMES_LAST = (1 << 17) - 2,
};

/* An empty list, which allows nothing.  NULL when out of memory. */
struct names *names_new(void);
void names_free(struct names *n);

/* Adds an entry as egress/allow.h writes it.  0, -EINVAL with the reason in why,
 * -E2BIG or -ENOMEM. */
int names_add(struct names *n, const char *entry, char *why, size_t cap);

/* From now on every name with a dot in it is on the list, with every port. */
void names_learn(struct names *n);

/*
 * Brings a name as it was sent into the one form that is compared: lower case,
 * letters, digits, hyphens and underscores in labels of 1 to 63, without a dot
 * at the end.  False for all else, and for what some programs would read as an
 * address ("127.1", "0x7f000001", "10.0.0.1").
 */
bool names_canon(const char *raw, size_t len, char out[EG_NAME_LEN]);
/* The same bytes for a person: what is not plain ASCII becomes '?'. */
void names_show(const char *raw, size_t len, char out[EG_NAME_LEN]);

/* A canonical name is on the list: with any port, with this one. */
bool names_known(const struct names *n, const char *name);
bool names_allow(const struct names *n, const char *name, uint16_t port);
/* It is written there itself, not covered by a wildcard. */
bool names_exact(const struct names *n, const char *name);

/* An entry that names the address or a network with it, and the port; the length
 * of the longest such prefix, or -1.  port 0 means any. */
int names_address(const struct names *n, const struct eaddr *a, uint16_t port);

/* The number that stands for a name that is known, given now if it has none.
 * 0 when all numbers are used up or there is no memory. */
uint32_t names_number(struct names *n, const char *name);
/* Before the first address is given: they are of 127.18.0.0/15, for a sandbox in
 * which nobody could make a route for the others. */
void names_use_loopback(void);
/* The address of a number. */
void names_synthetic(uint32_t number, int family, struct eaddr *out);
/* True for an address in the synthetic ranges; *number is 0 if it cannot have
 * been given. */
bool names_is_synthetic(const struct eaddr *a, uint32_t *number);
/* The name of a number, or NULL.  Valid until the next names_number(). */
const char *names_of(const struct names *n, uint32_t number);

#endif
