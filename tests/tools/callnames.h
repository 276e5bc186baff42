/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of system calls for deny and inject: those brig's processes make, and
 * a few more.  A call that is not here is written as its number.
 */
#ifndef TESTS_CALLNAMES_H
#define TESTS_CALLNAMES_H

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* newer than the headers of the oldest machine we build on */
#ifndef SYS_statmount
#define SYS_statmount 457
#endif
#ifndef SYS_listmount
#define SYS_listmount 458
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif

struct callname {
	const char *name;
	long nr;
};

#define C(x) { #x, SYS_##x }
static const struct callname callnames[] = {
	C(accept4), C(bind), C(brk), C(capget), C(capset), C(chdir), C(chroot),
	C(clock_gettime), C(clock_nanosleep), C(clone), C(clone3), C(close),
	C(close_range), C(connect), C(copy_file_range), C(dup), C(dup3),
	C(epoll_create1), C(epoll_ctl), C(epoll_pwait), C(eventfd2), C(execve),
	C(execveat), C(exit), C(exit_group), C(faccessat), C(faccessat2),
	C(fallocate), C(fchdir), C(fchmod), C(fchmodat), C(fchown), C(fchownat),
	C(fcntl), C(fdatasync), C(fgetxattr), C(flock), C(fsconfig), C(fsmount),
	C(fsopen), C(fspick), C(fstat), C(fstatfs), C(fsync), C(ftruncate),
	C(futex), C(getcpu), C(getcwd), C(getdents64), C(getegid), C(geteuid),
	C(getgid), C(getgroups), C(getpeername), C(getpgid), C(getpid),
	C(getppid), C(getpriority), C(getrandom), C(getresgid), C(getresuid),
	C(getrlimit), C(getrusage), C(getsid), C(getsockname), C(getsockopt),
	C(gettid), C(gettimeofday), C(getuid), C(ioctl), C(keyctl), C(kill),
	C(landlock_add_rule), C(landlock_create_ruleset),
	C(landlock_restrict_self), C(linkat), C(listen), C(listmount), C(lseek),
	C(madvise), C(membarrier), C(memfd_create), C(mkdirat), C(mknodat),
	C(mmap), C(mount), C(mount_setattr), C(move_mount), C(mprotect),
	C(mremap), C(munmap), C(nanosleep), C(open_tree), C(open_tree_attr),
	C(openat), C(openat2),
	C(pidfd_getfd), C(pidfd_open), C(pidfd_send_signal), C(pipe2),
	C(pivot_root), C(ppoll), C(prctl), C(pread64), C(prlimit64),
	C(process_vm_readv), C(ptrace), C(pwrite64), C(read), C(readlinkat),
	C(readv), C(recvfrom), C(recvmsg), C(renameat), C(renameat2), C(rseq),
	C(rt_sigaction), C(rt_sigprocmask), C(rt_sigreturn),
	C(sched_getaffinity), C(sched_setaffinity), C(sched_yield), C(seccomp),
	C(sendfile), C(sendmsg), C(sendto), C(set_robust_list),
	C(set_tid_address), C(setdomainname), C(setgid), C(setgroups),
	C(sethostname), C(setitimer), C(setns), C(setpgid), C(setpriority),
	C(setresgid), C(setresuid), C(setrlimit), C(setsid), C(setsockopt),
	C(setuid), C(shutdown), C(sigaltstack), C(signalfd4), C(socket),
	C(socketpair), C(splice), C(statfs), C(statmount), C(statx),
	C(symlinkat), C(tgkill), C(timerfd_create), C(timerfd_settime),
	C(truncate), C(umask), C(umount2), C(uname), C(unlinkat), C(unshare),
	C(utimensat), C(wait4), C(waitid), C(write), C(writev),
#if defined(__x86_64__)
	C(access), C(arch_prctl), C(chmod), C(chown), C(dup2), C(fork),
	C(getpgrp), C(lchown), C(link), C(lstat), C(mkdir), C(mknod),
	C(newfstatat), C(open), C(pause), C(pipe), C(poll), C(readlink),
	C(rename), C(rmdir), C(select), C(signalfd), C(stat), C(symlink),
	C(time), C(unlink), C(vfork),
#endif
};
#undef C

static inline const char *call_name(long nr)
{
	for (size_t i = 0; i < sizeof callnames / sizeof callnames[0]; i++)
		if (callnames[i].nr == nr)
			return callnames[i].name;
	return NULL;
}

/* A name or a number; -1 when it is neither. */
static inline long call_number(const char *name)
{
	char *end;

	for (size_t i = 0; i < sizeof callnames / sizeof callnames[0]; i++)
		if (strcmp(callnames[i].name, name) == 0)
			return callnames[i].nr;
	if (!isdigit((unsigned char)*name))
		return -1;
	long nr = strtol(name, &end, 10);
	return *end ? -1 : nr;
}

/* ENOSYS, or a number; 0 is a call that claims success and does nothing. */
static inline int errno_number(const char *name)
{
	static const struct {
		const char *name;
		int value;
	} known[] = { { "EPERM", EPERM },   { "ENOENT", ENOENT },
		      { "EINTR", EINTR },   { "EIO", EIO },
		      { "EBADF", EBADF },   { "EAGAIN", EAGAIN },
		      { "ENOMEM", ENOMEM }, { "EACCES", EACCES },
		      { "EBUSY", EBUSY },   { "EINVAL", EINVAL },
		      { "ENFILE", ENFILE }, { "EMFILE", EMFILE },
		      { "ENOSPC", ENOSPC }, { "EROFS", EROFS },
		      { "ENOSYS", ENOSYS }, { "EOPNOTSUPP", EOPNOTSUPP } };
	char *end;

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].value;
	if (!isdigit((unsigned char)*name))
		return -1;
	long v = strtol(name, &end, 10);
	return *end || v > 4095 ? -1 : (int)v;
}

#endif
