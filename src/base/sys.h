/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls and constants that the C library or its kernel headers may not
 * have yet, in one place.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <errno.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#ifndef PIDFD_SIGNAL_PROCESS_GROUP
#define PIDFD_SIGNAL_PROCESS_GROUP (1U << 2) /* Linux 6.9 */
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* Linux 5.19 */
#endif

static inline int sys_openat2(int dirfd, const char *path, uint64_t flags,
			      uint64_t resolve)
{
	struct open_how how = { .flags = flags, .resolve = resolve };
	enum { TRIES = 64 };

	/* EAGAIN: something was mounted or renamed somewhere, as we do ourselves beside this,
	 * and the kernel cannot tell whether a ".." stayed inside. */
	for (int i = 0;; i++) {
		int fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof how);
		if (fd >= 0 || errno != EAGAIN || i == TRIES)
			return fd;
	}
}

static inline int sys_renameat2(int from, const char *from_name, int to,
				const char *to_name, unsigned flags)
{
	return (int)syscall(SYS_renameat2, from, from_name, to, to_name, flags);
}

static inline pid_t sys_clone3(struct clone_args *args)
{
	return (pid_t)syscall(SYS_clone3, args, sizeof *args);
}

static inline int sys_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* A duplicate of a descriptor of that process, close-on-exec. */
static inline int sys_pidfd_getfd(int pidfd, int fd)
{
	return (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
}

/* Requests of a pidfd for a namespace, Linux 6.11. */
enum {
	PIDFD_GET_CGROUP = 1,
	PIDFD_GET_IPC = 2,
	PIDFD_GET_MOUNT = 3,
	PIDFD_GET_NET = 4,
	PIDFD_GET_PID = 5,
	PIDFD_GET_USER = 9,
	PIDFD_GET_UTS = 10,
};
#define PIDFD_REQUEST(which) _IO(0xff, which)

static inline int sys_pidfd_open_namespace(int pidfd, unsigned request)
{
	return pidfd < 0 ? -1 : ioctl(pidfd, PIDFD_REQUEST(request), 0);
}

/* Its inode number, which names it; 0: not to be had this way. */
static inline uint64_t sys_pidfd_namespace(int pidfd, unsigned request)
{
	struct stat st;
	int fd = sys_pidfd_open_namespace(pidfd, request);
	uint64_t ino = fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;

	if (fd >= 0)
		close(fd);
	return ino;
}

static inline int sys_pidfd_send_signal(int pidfd, int sig, unsigned flags)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, flags);
}

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

/* What getdents64(2) fills in, for those who must not allocate, as readdir() does. */
struct sys_dirent {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

#endif
