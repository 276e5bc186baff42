/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes of descriptors that are not ours alone, and do not keep us.
 *
 * poll() says that something can be read or written, and by then it may not be so: others
 * have the same terminal, pipe or socket.  And a terminal that takes one byte is writable,
 * and waits for the rest.  The descriptor cannot be told not to wait: that flag belongs to
 * the open file, which the caller's shell has, too; and a terminal of somebody else's (su)
 * cannot be opened again.  So a timer interrupts what waits.
 */
#ifndef BASE_NUDGE_H
#define BASE_NUDGE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct nudge {
	bool on;
	int timer;
	struct sigaction old;
	bool blocked; /* the signal was */
};

/* For this thread, and no other of the process; another may be begun and ended meanwhile.
 * Without a timer (-errno) reads may wait, and writes write a single byte. */
int nudge_start(struct nudge *n);
/* From now on, what this thread waits in is interrupted every so many ms: it does less than
 * was asked, or says EINTR.  0: no more. */
void nudge_every(const struct nudge *n, unsigned ms);
void nudge_end(struct nudge *n);

/* As read() and write(), for a moment at most.  Bytes, or -errno: -EINTR, -EAGAIN for none
 * in that time.  NULL: a descriptor that does not wait. */
ssize_t nudge_read(const struct nudge *n, int fd, void *buf, size_t len);
ssize_t nudge_write(const struct nudge *n, int fd, const void *buf, size_t len);

#endif
