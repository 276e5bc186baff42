/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

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
