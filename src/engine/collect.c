/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/collect.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

void collect_later(int fd[2])
{
	int sv[2];

	if (fd[0] < 0 || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sv) < 0)
		return;
	/* A message to the socket that carries the socket itself: once we close it,
	 * nobody but its own queue refers to it.  What else is in the message goes
	 * when that circle is found. */
	const int fds[2] = { fd[0], sv[1] };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof fds)];
	} ctl = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = ctl.space,
			    .msg_controllen = sizeof ctl.space };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fds);
	memcpy(CMSG_DATA(c), fds, sizeof fds);
	if (sendmsg(sv[0], &m, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) {
		close(sv[0]);
		close(sv[1]);
		return;
	}
	close(fd[0]);
	fd[0] = sv[1];
	/* Kept, as every end of a socket wakes the collector while a circle like this
	 * exists: 30 µs, and there is nothing to be found yet. */
	fd[1] = sv[0];
}

void collect_now(int fd[2])
{
	/* In this order: the end of the second wakes the collector, which has to find the
	 * circle given up.  Else it lives until somebody else closes a socket. */
	fd_close(&fd[0]);
	fd_close(&fd[1]);
}
