/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/wire.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"

int wire_send(int sock, const struct wire *w, const int *fds, size_t n)
{
	return msg_send(sock, w, sizeof *w, fds, n);
}

int wire_wait(int sock, enum wire_type type, struct wire_in *in)
{
	ssize_t n;

	do
		n = msg_recv(sock, &in->w, sizeof in->w, 0, &in->msg);
	while (n == -EINTR);
	if (n < 0)
		return (int)n;
	if (n != (ssize_t)sizeof in->w || in->w.type != type)
		return -EPROTO;
	return in->msg.truncated ? -EMFILE : 0;
}

int wire_recv(int sock, struct wire_in *in)
{
	ssize_t n = msg_recv(sock, &in->w, sizeof in->w, MSG_DONTWAIT, &in->msg);

	if (n < 0)
		return n == -EINTR || n == -EAGAIN ? -EAGAIN : 0;
	if (n == (ssize_t)sizeof in->w)
		return 1;
	int fd = msg_fd(&in->msg);
	fd_close(&fd);
	return 0;
}
