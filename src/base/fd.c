/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/sys.h"

int fd_pipe_from_command(int *r, int *w)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	*r = p[0];
	*w = p[1];
	return fcntl(*r, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

ssize_t fd_read_full(int fd, void *buf, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(fd, (char *)buf + got, len - got);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static int write_all(int fd, const void *buf, size_t len, bool wait)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, (const char *)buf + done, len - done);
		if (n < 0) {
			if (errno == EINTR || (wait && errno == EAGAIN && poll(&p, 1, -1) != 0))
				continue;
			return -errno;
		}
		if (n == 0)
			return -EIO; /* no kernel says so: a filter around us does, and always will */
		done += (size_t)n;
	}
	return 0;
}

int fd_write_full(int fd, const void *buf, size_t len)
{
	return write_all(fd, buf, len, false);
}

int fd_write_waiting(int fd, const void *buf, size_t len)
{
	return write_all(fd, buf, len, true);
}

ssize_t fd_read_at(int dirfd, const char *path, char *buf, size_t cap)
{
	int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The kernel hands its files out a page at a time: what fits in one
	 * comes whole with the first read. */
	ssize_t n;
	if (cap > 4096) {
		n = fd_read_full(fd, buf, cap - 1);
	} else {
		do
			n = read(fd, buf, cap - 1);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			n = -errno;
	}
	close(fd);
	if (n >= 0)
		buf[n] = '\0';
	return n;
}

int fd_write_at(int dirfd, const char *path, const char *text)
{
	size_t len = 0;
	while (text[len])
		len++;
	int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* one write: the kernel's control files take a value per write */
	ssize_t n = write(fd, text, len);
	int r = n < 0 ? -errno : 0;
	close(fd);
	return r;
}

int fd_real_path(int fd, char *out, size_t cap)
{
	static const char gone[] = " (deleted)";
	char link[40];

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, out, cap);
	if (n < 0)
		return -errno;
	if ((size_t)n >= cap)
		return -ENAMETOOLONG;
	out[n] = '\0';
	size_t len = (size_t)n, tail = sizeof gone - 1;
	if (out[0] != '/' || (len > tail && !strcmp(out + len - tail, gone)))
		return -ENOENT;
	return 0;
}

int fd_open_real(int dirfd, const char *path, char *out, size_t cap)
{
	size_t len = strlen(path);

	/* A plain path that no link is part of is canonical.  The kernel says so
	 * while it opens, which is cheaper than to ask for the name afterwards. */
	if (len < cap && path_is_plain(path)) {
		int fd = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC,
				     RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
		if (fd >= 0) {
			memcpy(out, path, len + 1);
			return fd;
		}
		if (errno == ENOENT) /* no link either, which would be ELOOP */
			return -ENOENT;
	}
	cleanup_close int fd = openat(dirfd, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fd_real_path(fd, out, cap);
	return r < 0 ? r : take_fd(&fd);
}

int fd_read_all(int fd, size_t max, char **data, size_t *len)
{
	size_t cap = 8192, got = 0;
	cleanup_free char *buf = malloc(cap);
	if (!buf)
		return -ENOMEM;
	for (;;) {
		if (got + 1 >= cap) {
			char *bigger = realloc(buf, cap * 2);
			if (!bigger)
				return -ENOMEM;
			buf = bigger;
			cap *= 2;
		}
		ssize_t n = read(fd, buf + got, cap - got - 1);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		got += (size_t)n;
		if (got > max)
			return -EFBIG;
	}
	buf[got] = '\0';
	*data = take_ptr(buf);
	*len = got;
	return 0;
}
