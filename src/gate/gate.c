/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: what brig has another sandbox program execute in place of the
 * command, as pid 1.  By then that program has done all it was asked to.  The
 * gate forks.  The child loads brig's filter, says that it is ready, handing out
 * the listener for refused calls, waits until the supervisor has read the
 * evidence about exactly this process, and becomes the command; the
 * parent becomes brig-init, so that pid 1 is as clean and as closed as it is in
 * a sandbox of brig's own.  No C library, nothing to steal.
 *
 * argv: gate CTL_FD STDERR_FD STATUS_FD DEATH_FD INIT_FD FILTER NPROC PTY
 *       GROUPS LOCK NPATHS PATH... ARGV...
 */
#include <linux/prctl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "confine/caps.h"
#include "confine/rlimits.h"
#include "confine/seccomp.h"
#include "engine/wire.h"
#include "seccomp_data.h" /* made by tools/gen-seccomp */

#define INIT_ENTRY
#include "init/freestanding.h"

enum {
	ENOENT_ = 2, EINTR_ = 4, ENOEXEC_ = 8, ENOTDIR_ = 20,
	EINVAL_ = 22,
	RLIMIT_NPROC_ = 6, CLOEXEC_RANGE = 4, TIOCSPGRP_ = 0x5410,
	AT_FDCWD_ = -100, O_WRONLY_ = 1, O_CLOEXEC_ = 02000000,
	CLONE_NEWNS_ = 0x20000, CLONE_NEWUSER_ = 0x10000000,
	BLOCK = 0, UNBLOCK = 1, SIGTTOU_ = 22, SIGCHLD_ = 17, F_SETFD_ = 2,
	AT_EMPTY_PATH_ = 0x1000, SOL_SOCKET_ = 1, SCM_RIGHTS_ = 1, NOSIGNAL_ = 0x4000,
	EBADF_ = 9, GROUPS_MAX = 4, /* CG_MAX_DIRS */
};

/* The compiler may ask for these. */
void *memset(void *to, int c, size_t n);
void *memset(void *to, int c, size_t n)
{
	volatile unsigned char *p = to;

	while (n--)
		*p++ = (unsigned char)c;
	return to;
}

static long number(const char *s)
{
	long v = 0;

	if (!s || !*s)
		die(125);
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || v > 100000000)
			die(125);
		v = v * 10 + (*s - '0');
	}
	return v;
}

static void fail(long ctl, enum brig_code code, long errnum, const char *what)
	__attribute__((noreturn));
static void fail(long ctl, enum brig_code code, long errnum, const char *what)
{
	static const char phase[] = "gate";
	struct wire w = { .type = WIRE_FAIL, .code = code, .errnum = (int)-errnum };

	for (size_t i = 0; i < sizeof phase; i++)
		w.phase[i] = phase[i];
	for (size_t i = 0; i < sizeof w.what - 1 && what[i]; i++)
		w.what[i] = what[i];
	SYS3(SYS_write, ctl, &w, sizeof w);
	die(125);
}

/* A process group of its own in the foreground: what is typed at the terminal
 * is meant for the command, not for the program around it. */
static void take_foreground(void)
{
	uint64_t ttou = 1ull << (SIGTTOU_ - 1);
	int group;

	SYS2(SYS_setpgid, 0, 0);
	group = (int)SYS1(SYS_getpgid, 0);
	SYS4(SYS_rt_sigprocmask, BLOCK, &ttou, 0, 8);
	SYS3(SYS_ioctl, 0, TIOCSPGRP_, &group);
	SYS4(SYS_rt_sigprocmask, UNBLOCK, &ttou, 0, 8);
}

static void drop_all(long ctl)
{
	const char *what;
	long r = caps_drop(false, &what);

	if (r < 0)
		fail(ctl, BRIG_E_CAPS_FAILED, r, what);
}

/* The default filter.  The listener, or -1 when nobody can be told. */
static long load_filter(long ctl)
{
	const struct seccomp_prog prog = { .insns = default_notify,
					   .len = sizeof default_notify / sizeof *default_notify,
					   .notify = true };
	const struct seccomp_prog quiet = { .insns = default_plain,
					    .len = sizeof default_plain / sizeof *default_plain };
	int listener;

	drop_all(ctl); /* and takes no_new_privs, which a filter needs */
	long r = seccomp_install(&prog, &quiet, &listener);

	if (r < 0)
		fail(ctl, BRIG_E_SECCOMP_FAILED, r, "loading the filter");
	return listener;
}

/* Version 1 groups, which limit the command alone, and not the program around us.  "0" in
 * `tasks` moves the writer itself; the kernel goes by who opened the file.  A number that is
 * not open is a group that there is not, and the evidence will say so. */
static void enter_groups(long ctl, long first)
{
	for (long fd = first; fd < first + GROUPS_MAX; fd++) {
		long r = SYS3(SYS_write, fd, "0", 1);
		if (r != 1 && r != -EBADF_)
			fail(ctl, BRIG_E_CGROUP_FAILED, r, "entering the control group");
		SYS1(SYS_close, fd);
	}
}

/* The kernel's structures, as the C library would have them. */
struct iov_ {
	void *base;
	size_t len;
};
struct msg_ {
	void *name;
	int namelen;
	struct iov_ *iov;
	size_t iovlen;
	void *control;
	size_t controllen;
	int flags;
};
struct cmsg_ {
	size_t len;
	int level, type, fd;
};

static void wait_for_release(long ctl, long listener)
{
	struct wire w = { .type = WIRE_READY };
	struct iov_ iov = { &w, sizeof w };
	struct cmsg_ c = { .len = offsetof(struct cmsg_, fd) + sizeof c.fd,
			   .level = SOL_SOCKET_, .type = SCM_RIGHTS_, .fd = (int)listener };
	const struct msg_ m = { .iov = &iov, .iovlen = 1, .control = listener < 0 ? 0 : &c,
				.controllen = listener < 0 ? 0 : sizeof c };
	long n = SYS3(SYS_sendmsg, ctl, &m, NOSIGNAL_);

	if (n != (long)sizeof w)
		die(125);
	if (listener >= 0) /* the holder answers refused calls: not a process that makes them */
		SYS1(SYS_close, listener);
	do
		n = SYS3(SYS_read, ctl, &w, sizeof w);
	while (n == -EINTR_);
	if (n != (long)sizeof w || w.type != WIRE_GO)
		die(125);
}

/* A text file without #! is the shell's to run: see the engine's job.c.  The
 * place before argv[0] is borrowed for it. */
static void as_script(const char *path, const char **argv, const char **env)
{
	char head[4] = { 0 };
	long fd = SYS4(SYS_openat, -100, path, 02000000, 0);
	bool elf = fd < 0 || SYS3(SYS_read, fd, head, 4) < 0 ||
		   (head[0] == 0x7f && head[1] == 'E' && head[2] == 'L' && head[3] == 'F');

	if (fd >= 0)
		SYS1(SYS_close, fd);
	if (elf)
		return;
	const char *before = argv[-1], *first = argv[0];
	argv[-1] = "sh";
	argv[0] = path;
	SYS3(SYS_execve, "/bin/sh", argv - 1, env);
	argv[-1] = before;
	argv[0] = first;
}

/* Words of the command line, in order. */
enum { A_CTL = 1, A_STDERR, A_STATUS, A_DEATH, A_INIT, A_FILTER, A_NPROC, A_PTY,
       A_GROUPS, A_LOCK, A_NPATHS, A_PATHS };

static void put(long ctl, const char *path, const char *text, unsigned long n)
{
	long fd = SYS4(SYS_openat, AT_FDCWD_, path, O_WRONLY_, 0);
	long r = fd < 0 ? fd : SYS3(SYS_write, fd, text, n);

	if (r != (long)n)
		fail(ctl, BRIG_E_IDMAP_DENIED, r, path);
	SYS1(SYS_close, fd);
}

/* "ID ID 1": the same id again. */
static void map_same(long ctl, const char *path, unsigned long id)
{
	char digits[12], text[32];
	unsigned long n = 0, at = 0;

	do
		digits[n++] = (char)('0' + id % 10);
	while ((id /= 10));
	for (int i = 0; i < 2; i++) {
		for (unsigned long k = n; k; k--)
			text[at++] = digits[k - 1];
		text[at++] = ' ';
	}
	text[at++] = '1';
	put(ctl, path, text, at);
}

/*
 * As lock_mounts() of the engine's child.c, and for the same reason: a descriptor that is
 * handed to another sandbox must not reach below the mounts of this one when it ends.
 * Where there is no second namespace to be had (AppArmor may be in the way) they are only
 * made read-only at the end, see seal.c.  The first one, to be closed at leisure, or -1.
 */
static long lock_mounts(long ctl)
{
	const unsigned long uid = (unsigned long)SYS0(SYS_getuid);
	const unsigned long gid = (unsigned long)SYS0(SYS_getgid);
	long first = SYS4(SYS_openat, AT_FDCWD_, "/proc/self/ns/mnt", O_CLOEXEC_, 0);

	if (SYS1(SYS_unshare, CLONE_NEWUSER_ | CLONE_NEWNS_) < 0)
		return first;
	put(ctl, "/proc/self/setgroups", "deny", 4);
	map_same(ctl, "/proc/self/gid_map", gid);
	map_same(ctl, "/proc/self/uid_map", uid);
	drop_all(ctl);
	return first;
}

static void become_init(const char **argv, long ctl, long child) __attribute__((noreturn));
static void become_init(const char **argv, long ctl, long child)
{
	char digits[24], *p = digits + sizeof digits - 1;
	const char *no_env[] = { 0 };

	*p = '\0';
	do
		*--p = (char)('0' + child % 10);
	while ((child /= 10));
	const char *args[] = { "brig-init", argv[A_STATUS], argv[A_DEATH], p, 0 };
	if (SYS3(SYS_fcntl, number(argv[A_STATUS]), F_SETFD_, 0) < 0 ||
	    SYS3(SYS_fcntl, number(argv[A_DEATH]), F_SETFD_, 0) < 0)
		die(125);
	long r = SYS5(SYS_execveat, number(argv[A_INIT]), "", args, no_env, AT_EMPTY_PATH_);
	fail(ctl, BRIG_E_SETUP_FAILED, r, "executing init");
}

static void become_command(const char **argv, const char **env, long ctl, long n_paths)
	__attribute__((noreturn));
static void become_command(const char **argv, const char **env, long ctl, long n_paths)
{
	const char **paths = argv + A_PATHS, **command = paths + n_paths;
	long best = ENOENT_;

	if (number(argv[A_PTY]))
		take_foreground();
	else
		SYS0(SYS_setsid);
	long r = rlimit_lower(RLIMIT_NPROC_, (uint64_t)number(argv[A_NPROC]));
	if (r < 0)
		fail(ctl, BRIG_E_SETUP_FAILED, r, "RLIMIT_NPROC");
	if (number(argv[A_GROUPS]))
		enter_groups(ctl, number(argv[A_GROUPS]));
	wait_for_release(ctl, number(argv[A_FILTER]) ? load_filter(ctl) : -1);
	for (long i = 0; i < n_paths; i++) {
		const char *path = paths[i];
		r = -SYS3(SYS_execve, path, command, env);
		if (r == ENOEXEC_)
			as_script(path, command, env);
		if (r != ENOENT_ && r != ENOTDIR_)
			best = r;
	}
	struct wire w = { .type = WIRE_EXEC_FAIL, .errnum = (int)best };
	SYS3(SYS_write, ctl, &w, sizeof w);
	die(best == ENOENT_ ? 127 : 126);
}

void init_main(long *stack)
{
	long argc = stack[0];
	const char **argv = (const char **)(stack + 1), **env = argv + argc + 1;

	if (argc < A_PATHS + 2)
		die(125);
	long ctl = number(argv[A_CTL]), n_paths = number(argv[A_NPATHS]);
	if (n_paths < 1 || n_paths > argc - A_PATHS - 1)
		die(125);
	/* the one who made all this talks into a pipe of brig's; from here on
	 * standard error is the command's */
	long r = SYS3(SYS_dup3, number(argv[A_STDERR]), 2, 0);
	if (r < 0)
		fail(ctl, BRIG_E_SETUP_FAILED, r, "standard error");
	r = SYS3(SYS_close_range, 3, ~0u, CLOEXEC_RANGE);
	if (r < 0)
		fail(ctl, BRIG_E_SETUP_FAILED, r, "close_range");
	if (SYS0(SYS_getpid) != 1)
		fail(ctl, BRIG_E_NAMESPACE_DENIED, -1, "not pid 1 of a namespace");
	long first = number(argv[A_LOCK]) ? lock_mounts(ctl) : -1;
	r = SYS5(SYS_clone, SIGCHLD_, 0, 0, 0, 0);
	if (r < 0)
		fail(ctl, BRIG_E_SETUP_FAILED, r, "the command's process");
	if (r == 0) {
		if (first >= 0) /* the last one to close it waits for a grace period */
			SYS1(SYS_close, first);
		become_command(argv, env, ctl, n_paths);
	}
	become_init(argv, ctl, r);
}
