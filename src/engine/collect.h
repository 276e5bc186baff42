/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_COLLECT_H
#define ENGINE_COLLECT_H

#include <stdbool.h>

enum {
	COLLECT_MAX = 4,
	COLLECT_IDLE = 32,
	/* A table of descriptors has room for 64 at first.  The custodian shares it, and one
	 * that is shared grows only after a grace period of the whole machine. */
	COLLECT_BELOW = 56,
};

/*
 * For descriptors whose end takes long, in held.  Afterwards two sockets hold them; to
 * close those, by collect_now(), does not wait: the kernel's collector of unreachable
 * sockets ends what they held, in a worker of its own and some milliseconds later (before
 * Linux 6.8 here and now).  Where that cannot be had the descriptors stay what they are, and
 * closing them only takes longer.
 */
struct collect {
	int circle[2];
	int pair[2];           /* what becomes the circle */
	int held[COLLECT_MAX]; /* -1 where there is none */
	int mounts;            /* the one of them that is a mount namespace, or -1 */
	bool room;             /* there is, for descriptors that nobody needs any more */
	unsigned n_idle;
	int idle[COLLECT_IDLE];
};
#define COLLECT_NONE                                                             \
	((struct collect){ .circle = { -1, -1 }, .pair = { -1, -1 },             \
			   .held = { -1, -1, -1, -1 }, .mounts = -1 })

/* Takes a descriptor over; -1 is none.  Closes it where there is no place left. */
void collect_hold(struct collect *c, int fd);

/* A descriptor that could be closed, which can wait, as somebody else does: it is taken
 * over, and closed when there is time for it.  Where there is no room, or c is NULL, now. */
void collect_idle(struct collect *c, int fd);

/* There is time now: closes those, and makes the sockets.  Nothing is on its way by that. */
void collect_ahead(struct collect *c);
/* When there is a moment's time; not long before the end, as what is on its way counts
 * against the user's limit of open files, for all of his processes together. */
void collect_later(struct collect *c);
/* Closes all there is; does the former first, if nobody has. */
void collect_now(struct collect *c);

#endif
