/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: what brig has another sandbox program execute in place of the
 * command.  By then that program has done all it was asked to; the gate says
 * so, waits until the supervisor has read the evidence about exactly this
 * process, and becomes the command.  No C library, nothing to steal.
 *
 * argv: gate CTL_FD STDERR_FD NPROC PTY NPATHS PATH... ARGV...
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "engine/wire.h"

#define NOLIBC_MAIN "gate_main"
#include "init/nolibc.h"

enum {
	ENOENT_ = 2, EINTR_ = 4, ENOEXEC_ = 8, ENOTDIR_ = 20,
	RLIMIT_NPROC_ = 6, CLOEXEC_RANGE = 4, TIOCSPGRP_ = 0x5410,
	BLOCK = 0, UNBLOCK = 1, SIGTTOU_ = 22,
};

void gate_main(long *stack) __attribute__((noreturn, used));

static void die(int code) __attribute__((noreturn));
static void die(int code)
{
	for (;;)
		SYS1(SYS_exit_group, code);
}

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
	for (size_t i = 0; what[i] && i < sizeof w.what - 1; i++)
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

static void limit(long ctl, unsigned long nproc)
{
	struct {
		uint64_t cur, max;
	} lim, old;

	if (!nproc)
		return;
	if (SYS4(SYS_prlimit64, 0, RLIMIT_NPROC_, 0, &old) == 0 && old.max < nproc)
		nproc = old.max; /* tighter already */
	lim.cur = lim.max = nproc;
	long r = SYS4(SYS_prlimit64, 0, RLIMIT_NPROC_, &lim, 0);
	if (r < 0)
		fail(ctl, BRIG_E_SETUP_FAILED, r, "RLIMIT_NPROC");
}

static void wait_for_release(long ctl)
{
	struct wire w = { .type = WIRE_READY };
	long n = SYS3(SYS_write, ctl, &w, sizeof w);

	if (n != (long)sizeof w)
		die(125);
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

void gate_main(long *stack)
{
	long argc = stack[0];
	const char **argv = (const char **)(stack + 1), **env = argv + argc + 1;

	if (argc < 8)
		die(125);
	long ctl = number(argv[1]), err = number(argv[2]);
	long n_paths = number(argv[5]);
	if (n_paths < 1 || n_paths > argc - 7)
		die(125);
	const char **paths = argv + 6, **command = paths + n_paths;
	/* the one who made all this talks into a pipe of brig's; from here on
	 * standard error is the command's */
	long r = SYS3(SYS_dup3, err, 2, 0);
	if (r < 0)
		fail(ctl, BRIG_E_SETUP_FAILED, r, "standard error");
	r = SYS3(SYS_close_range, 3, ~0u, CLOEXEC_RANGE);
	if (r < 0)
		fail(ctl, BRIG_E_SETUP_FAILED, r, "close_range");
	if (number(argv[4]))
		take_foreground();
	limit(ctl, (unsigned long)number(argv[3]));
	wait_for_release(ctl);
	long best = ENOENT_;
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
