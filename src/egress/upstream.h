/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way out: real addresses of allowed names, which of them may be used, and
 * connections to them.  An address that was looked at is the one connected to:
 * there is no second lookup that could say something else.
 */
#ifndef EGRESS_UPSTREAM_H
#define EGRESS_UPSTREAM_H

#include "egress/addr.h"
#include "egress/direct.h"
#include "egress/loop.h"
#include "egress/names.h"
#include "egress/resolve.h"
#include "egress/wire.h"

struct upstream;

enum { DIAL_ADDRS = 8, DIAL_PROXY_HEAD = 4096 };

/* One connection on its way out.  Part of its owner's memory. */
struct dial {
	struct upstream *up;
	void (*done)(struct dial *d, int fd, enum eg_reason why, int errnum);
	bool speaks; /* the owner has bytes that go out as soon as it is connected */
	/* private */
	struct source src;
	struct timer attempt;
	struct asker asker;
	int64_t deadline;
	struct eaddr addrs[DIAL_ADDRS];
	unsigned n, at;
	int errnum;
	uint16_t port;        /* to connect to: the proxy's, if there is one */
	uint16_t target_port;
	bool active;
	bool proxied;         /* through the operator's proxy */
	bool waits;           /* the loop knows the socket */
	const char *name;     /* the target, as in a CONNECT request; the owner's */
	char *head;           /* the proxy's answer so far */
	size_t head_len;
};

/*
 * Reads the host's resolver configuration and own addresses, so it comes before
 * the process is confined.  direct stays the caller's.  NULL with errno set.
 */
struct upstream *upstream_new(struct loop *l, const struct names *n,
			      const struct eg_config *c,
			      const struct direct_item *direct, unsigned n_direct);

/* Starts a lookup so that its answer is there when it is needed. */
void upstream_prefetch(struct upstream *u, const char *name);

/*
 * Connects to a name, or to addr if it is not NULL (then it is on the list).
 * d->done is called once, now or later, with a connected non-blocking socket or
 * with -1 and the reason; never after dial_cancel().
 */
void dial_start(struct dial *d, struct upstream *u, const char *name,
		const struct eaddr *addr, uint16_t port);
void dial_cancel(struct dial *d);

/* out has room for four bytes of every three, and one more. */
void upstream_base64(const char *in, char *out);

#endif
