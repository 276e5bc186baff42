/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/collect.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

static void close_held(struct collect *c)
{
	for (size_t i = 0; i < COLLECT_MAX; i++)
		fd_close(&c->held[i]);
	c->mounts = -1;
}

void collect_hold(struct collect *c, int fd)
{
	for (size_t i = 0; i < COLLECT_MAX; i++)
		if (c->held[i] < 0) {
			c->held[i] = fd;
			return;
		}
	fd_close(&fd);
}

void collect_idle(struct collect *c, int fd)
{
	if (c && c->room && c->n_idle < COLLECT_IDLE && fd >= 0 && fd < COLLECT_BELOW)
		c->idle[c->n_idle++] = fd;
	else
		fd_close(&fd);
}

static void close_idle(struct collect *c)
{
	while (c->n_idle)
		close(c->idle[--c->n_idle]);
}

static void make_pair(struct collect *c)
{
	if (c->pair[0] < 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, c->pair) < 0)
		c->pair[0] = c->pair[1] = -1;
}

void collect_ahead(struct collect *c)
{
	close_idle(c);
	make_pair(c);
}

void collect_later(struct collect *c)
{
	int fds[1 + COLLECT_MAX];
	size_t n = 1;

	for (size_t i = 0; i < COLLECT_MAX; i++)
		if (c->held[i] >= 0)
			fds[n++] = c->held[i];
	if (n == 1 || c->circle[0] >= 0)
		return;
	make_pair(c); /* if nobody has */
	if (c->pair[0] < 0)
		return;
	/* A message to the socket that carries the socket itself: once we close it,
	 * nobody but its own queue refers to it.  What else is in the message goes
	 * when that circle is found. */
	fds[0] = c->pair[1];
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof fds)];
	} ctl = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = ctl.space,
			    .msg_controllen = CMSG_SPACE(n * sizeof fds[0]) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(n * sizeof fds[0]);
	memcpy(CMSG_DATA(h), fds, n * sizeof fds[0]);
	if (sendmsg(c->pair[0], &m, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return;
	close_held(c);
	c->circle[0] = take_fd(&c->pair[1]);
	/* Kept, as every end of a socket wakes the collector while a circle like this
	 * exists: 30 µs, and there is nothing to be found yet. */
	c->circle[1] = take_fd(&c->pair[0]);
}

void collect_now(struct collect *c)
{
	collect_later(c);
	/* In this order: the end of the second wakes the collector, which has to find the
	 * circle given up.  Else it lives until somebody else closes a socket. */
	fd_close(&c->circle[0]);
	fd_close(&c->circle[1]);
	fd_close(&c->pair[0]);
	fd_close(&c->pair[1]);
	close_held(c);
	close_idle(c);
}
