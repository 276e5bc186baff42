/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/collect.h"

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void collect_later(int *fd)
{
	int sv[2];

	if (*fd < 0 || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sv) < 0)
		return;
	/* A message to the socket that carries the socket itself: once we close it,
	 * nobody but its own queue refers to it.  What else is in the message goes
	 * when that circle is found. */
	const int fds[2] = { *fd, sv[1] };
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
	bool sent = sendmsg(sv[0], &m, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
	close(sv[0]);
	if (!sent) {
		close(sv[1]);
		return;
	}
	close(*fd);
	*fd = sv[1];
}
