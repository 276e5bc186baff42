/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and ownership: cleanup attributes and whole reads and writes. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static inline void cleanup_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
static inline void cleanup_freep(void *p)
{
	free(*(void **)p);
}
/* A variable that is only held until its scope ends is in use, whatever clang
 * thinks of it. */
#define cleanup_close __attribute__((cleanup(cleanup_closep), unused))
#define cleanup_free __attribute__((cleanup(cleanup_freep), unused))

/* A large buffer that is written before it is read: the compiler's zeroing of
 * automatic variables would cost more than the work done with it. */
#define big_buffer __attribute__((uninitialized))

/* Gives the descriptor away: the variable no longer owns it. */
static inline int take_fd(int *fd)
{
	int r = *fd;
	*fd = -1;
	return r;
}

/* Gives a pointer away. */
#define take_ptr(p)                     \
	({                              \
		__typeof__(p) r_ = (p); \
		(p) = NULL;             \
		r_;                     \
	})

/* Closes *fd if open and marks it closed. */
static inline void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/*
 * A pipe for what a command writes and we read when poll() says so.  The command can open the
 * other end of what it has (/proc/self/fd), and take the bytes between our poll() and our
 * read(): so ours never waits.  Only ours: the flag is of one open file, and that of the
 * writing end is another.  0 or -errno.
 */
int fd_pipe_from_command(int *r, int *w);

/* Reads until len bytes or end of file, across EINTR.  Bytes read or -errno. */
ssize_t fd_read_full(int fd, void *buf, size_t len);

/* Writes all len bytes, across EINTR and short writes.  0 or -errno. */
int fd_write_full(int fd, const void *buf, size_t len);
/* The same, and it waits for who reads, also where the descriptor is told not to wait. */
int fd_write_waiting(int fd, const void *buf, size_t len);

/*
 * Opens a file at dirfd (read only, CLOEXEC), reads at most cap-1 bytes and
 * ends them with NUL.  Bytes read or -errno.  For small kernel files.
 */
ssize_t fd_read_at(int dirfd, const char *path, char *buf, size_t cap);

/* Opens a file at dirfd for writing and writes text in one write.  0 or -errno. */
int fd_write_at(int dirfd, const char *path, const char *text);

/* The canonical path behind a descriptor, as the kernel knows it.  0 or -errno;
 * -ENAMETOOLONG when it does not fit, -ENOENT when it has none any more. */
int fd_real_path(int fd, char *out, size_t cap);
/* Opens what a path leads to (O_PATH), and tells its canonical path.  The
 * descriptor, or -errno. */
int fd_open_real(int dirfd, const char *path, char *out, size_t cap);

/* Reads a whole file into fresh memory, ended with NUL; refuses one larger
 * than max with -EFBIG.  0 or -errno; *data is the caller's. */
int fd_read_all(int fd, size_t max, char **data, size_t *len);

#endif
