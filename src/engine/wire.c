/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/raw.h"

int wire_send(int sock, const struct wire *w, const int *fds, size_t n)
{
	struct iovec iov = { (void *)w, sizeof *w };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(WIRE_FDS * sizeof(int))];
	} ctl = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n > WIRE_FDS)
		return -E2BIG;
	if (n) {
		m.msg_control = ctl.space;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		ctl.h.cmsg_level = SOL_SOCKET;
		ctl.h.cmsg_type = SCM_RIGHTS;
		ctl.h.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&ctl.h), fds, n * sizeof(int));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void take_control(struct msghdr *m, struct wire_in *in)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred u;
			memcpy(&u, CMSG_DATA(c), sizeof u);
			in->from = u.pid;
		} else if (c->cmsg_type == SCM_RIGHTS) {
			size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			if (n > WIRE_FDS)
				n = WIRE_FDS; /* the buffer holds no more */
			memcpy(in->fds, CMSG_DATA(c), n * sizeof(int));
			in->n_fds = n;
		}
	}
}

/* The length of what came, or -errno. */
static ssize_t receive(int sock, struct wire_in *in, int flags)
{
	struct iovec iov = { &in->w, sizeof in->w };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(struct ucred)) +
			   CMSG_SPACE(WIRE_FDS * sizeof(int))];
	} ctl = { 0 };
	struct msghdr m;
	long n;

	in->from = -1;
	in->n_fds = 0;
	/* The other end closed with something of ours unread: the kernel says so
	 * once, before it gives out what was sent to us, such as the reason. */
	for (int resets = 0;; resets++) {
		m = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1,
				     .msg_control = ctl.space,
				     .msg_controllen = sizeof ctl.space };
		/* bare: errno may be another process's, too.  (The layout of the header is the
		 * kernel's, with every byte between its members zero.) */
		n = SYS3(SYS_recvmsg, sock, &m, MSG_CMSG_CLOEXEC | flags);
		if (n != -ECONNRESET || resets)
			break;
	}
	if (n < 0)
		return n;
	take_control(&m, in);
	in->truncated = m.msg_flags & MSG_CTRUNC;
	return n;
}

int wire_wait(int sock, enum wire_type type, struct wire_in *in)
{
	ssize_t n;

	do
		n = receive(sock, in, 0);
	while (n == -EINTR);
	if (n < 0)
		return (int)n;
	if (n != (ssize_t)sizeof in->w || in->w.type != type)
		return -EPROTO;
	/* a group or a tree that did not arrive is one that would be done without */
	return in->truncated ? -EMFILE : 0;
}

int wire_recv(int sock, struct wire_in *in)
{
	ssize_t n = receive(sock, in, MSG_DONTWAIT);

	if (n < 0)
		return n == -EINTR || n == -EAGAIN ? -EAGAIN : 0;
	if (n == (ssize_t)sizeof in->w)
		return 1;
	int fd = wire_fd(in);
	fd_close(&fd);
	return 0;
}

int wire_fd(struct wire_in *in)
{
	int fd = in->n_fds ? in->fds[0] : -1;

	for (size_t i = 1; i < in->n_fds; i++)
		close(in->fds[i]);
	in->n_fds = 0;
	return fd;
}
