/* SPDX-License-Identifier: Apache-2.0 */
/* Names to addresses, by c-ares, with a small cache.  Knows no policy. */
#ifndef EGRESS_RESOLVE_H
#define EGRESS_RESOLVE_H

#include "egress/addr.h"
#include "egress/loop.h"
#include "egress/wire.h"

struct resolver;

enum { RESOLVE_ADDRS = 8 };

struct answer {
	unsigned n;
	struct eaddr addr[RESOLVE_ADDRS]; /* the families take turns, IPv4 first */
};

/* Whoever waits for an answer.  Part of its owner's memory. */
struct asker {
	void (*answered)(struct asker *a, const struct answer *reply);
	struct asker *next;
	struct lookup *of; /* NULL: waits for nothing */
};

/* dns: "ADDRESS:PORT" or "" for the host's configuration, which is read now.
 * NULL with errno set. */
struct resolver *resolver_new(struct loop *l, const char *dns);

/* Asks.  The answer (n is 0 if there is none) comes now or later.  a may be NULL:
 * only the cache is filled. */
void resolver_ask(struct resolver *r, const char *name, struct asker *a);
void resolver_forget(struct asker *a);

#endif
