/* SPDX-License-Identifier: Apache-2.0 */
#include "base/msg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int msg_send(int sock, const void *data, size_t len, const int *fds, size_t n)
{
	struct iovec iov = { (void *)data, len };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(MSG_FDS * sizeof(int))];
	} ctl = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (n > MSG_FDS)
		return -E2BIG;
	if (n) {
		m.msg_control = ctl.space;
		m.msg_controllen = CMSG_SPACE(n * sizeof(int));
		ctl.h.cmsg_level = SOL_SOCKET;
		ctl.h.cmsg_type = SCM_RIGHTS;
		ctl.h.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&ctl.h), fds, n * sizeof(int));
	}
	do
		sent = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : sent == (ssize_t)len ? 0 : -EIO;
}

static void take_control(struct msghdr *m, struct msg_in *in)
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
			in->n_fds = n < MSG_FDS ? n : MSG_FDS;
			memcpy(in->fds, CMSG_DATA(c), in->n_fds * sizeof(int));
		}
	}
}

ssize_t msg_recv(int sock, void *data, size_t len, int flags, struct msg_in *in)
{
	struct iovec iov = { data, len };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(MSG_FDS * sizeof(int))];
	} ctl;
	struct msghdr m;
	ssize_t n;

	in->from = -1;
	in->n_fds = 0;
	in->truncated = false;
	/* The other end closed with something of ours unread: the kernel says so
	 * once, before it gives out what was sent to us, such as the reason. */
	for (int resets = 0;; resets++) {
		m = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1,
				     .msg_control = ctl.space,
				     .msg_controllen = sizeof ctl.space };
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | flags);
		if (n >= 0 || errno != ECONNRESET || resets)
			break;
	}
	if (n < 0)
		return -errno;
	take_control(&m, in);
	in->truncated = m.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
	return n;
}

int msg_fd(struct msg_in *in)
{
	int fd = in->n_fds ? in->fds[0] : -1;

	for (size_t i = 1; i < in->n_fds; i++)
		close(in->fds[i]);
	in->n_fds = 0;
	return fd;
}
