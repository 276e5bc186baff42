/* SPDX-License-Identifier: Apache-2.0 */
/* Whole reads and writes, frames, and descriptors, without a C library. */
#include "init/freestanding.h"
#include "init/park_internal.h"

void *memset(void *to, int c, size_t n)
{
	char *p = to;

	while (n--)
		*p++ = (char)c;
	return to;
}

void *memcpy(void *to, const void *from, size_t n)
{
	char *p = to;
	const char *q = from;

	while (n--)
		*p++ = *q++;
	return to;
}

bool park_read(int fd, void *buf, size_t len)
{
	for (char *p = buf; len;) {
		long n = SYS3(SYS_read, fd, p, len);
		if (n == -E_INTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

bool park_write(int fd, const void *buf, size_t len)
{
	for (const char *p = buf; len;) {
		long n = SYS3(SYS_write, fd, p, len);
		if (n == -E_INTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

bool park_frame(int fd, uint32_t type, const void *data, size_t len)
{
	const struct park_head h = { type, (uint32_t)len };

	return park_write(fd, &h, sizeof h) && (!len || park_write(fd, data, len));
}

/* The kernel's structures, as the C library would have them. */
struct iov {
	void *base;
	size_t len;
};
struct msg {
	void *name;
	int namelen;
	struct iov *iov;
	size_t iovlen;
	void *control;
	size_t controllen;
	int flags;
};
struct cmsg {
	size_t len;
	int level, type;
	int fds[4];
};
enum { SOL_SOCKET_ = 1, SCM_RIGHTS_ = 1, MSG_CMSG_CLOEXEC_ = 0x40000000 };
#define CMSG_HEAD (offsetof(struct cmsg, fds))

bool park_send_fd(int sock, const void *data, size_t len, int fd)
{
	struct cmsg c = { .len = CMSG_HEAD + sizeof(int), .level = SOL_SOCKET_,
			  .type = SCM_RIGHTS_, .fds = { fd } };
	struct iov iov = { (void *)data, len };
	struct msg m = { .iov = &iov, .iovlen = 1 };

	if (fd >= 0) {
		m.control = &c;
		m.controllen = CMSG_HEAD + sizeof(int) * 2; /* padded to a word */
	}
	long n;
	while ((n = SYS3(SYS_sendmsg, sock, &m, 0x4000 /* NOSIGNAL */)) == -E_INTR)
		;
	return n == (long)len;
}

long park_recv_fds(int sock, void *buf, size_t len, int *fds, int *n)
{
	struct cmsg c = { 0 };
	struct iov iov = { buf, len };
	struct msg m = { .iov = &iov, .iovlen = 1, .control = &c,
			 .controllen = sizeof c };
	int room = *n;
	long got;

	*n = 0;
	while ((got = SYS3(SYS_recvmsg, sock, &m, MSG_CMSG_CLOEXEC_)) == -E_INTR)
		;
	if (got > 0 && m.controllen >= CMSG_HEAD + sizeof(int) &&
	    c.level == SOL_SOCKET_ && c.type == SCM_RIGHTS_)
		for (size_t i = 0; i < (c.len - CMSG_HEAD) / sizeof(int) && i < 4; i++) {
			if (*n < room)
				fds[(*n)++] = c.fds[i];
			else
				SYS1(SYS_close, c.fds[i]);
		}
	return got;
}
