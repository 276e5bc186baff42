/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brig-init: pid 1 of one sandbox.  A program of its own with no C library,
 * executed afresh, so that nothing of brig's memory or environment is in reach
 * of the command (/proc/1/environ, /proc/1/mem, /proc/1/fd).  It reaps, tells
 * the supervisor how the command ended, and dies when the supervisor does;
 * with it the kernel kills everything in the pid namespace.
 *
 * argv: brig-init STATUS_FD DEATH_FD COMMAND_PID
 */
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/wire.h"

#define INIT_ENTRY
#include "init/freestanding.h"

enum { KILL = 9, NO_HANG = 1, POLL_IN = 1, POLL_OUT = 4, EINTR_ = 4, ECHILD_ = 10, BLOCK = 0, SIGCHLD_ = 17 };
#define WALL 0x40000000

struct pollfd_ {
	int fd;
	short events, revents;
};

static int number(const char *s)
{
	int v = 0;

	if (!s || !*s)
		die(125);
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || v > 100000000)
			die(125);
		v = v * 10 + (*s - '0');
	}
	return v;
}

/*
 * What init may do from here on: wait, poll, read, write its report, exit.  If
 * the command ever finds a way to make pid 1 run its code, that is all it gets.
 */
static bool confine(void)
{
#define JUMP(how, nr, then) BPF_JUMP(BPF_JMP | (how) | BPF_K, (unsigned)(nr), then, 0)
#define ALLOW(i, nr) JUMP(BPF_JEQ, nr, CALLS - (i)) /* all to the last instruction */
	/* The kernel tries every number there is when a filter is loaded: half of them
	 * need no more than one look. */
	enum { CALLS = 8, HIGHEST = SYS_ppoll > SYS_wait4 ? SYS_ppoll : SYS_wait4 };
	_Static_assert(SYS_read <= HIGHEST && SYS_write <= HIGHEST && SYS_kill <= HIGHEST &&
			       SYS_exit_group <= HIGHEST && SYS_rt_sigreturn <= HIGHEST &&
			       SYS_restart_syscall <= HIGHEST,
		       "none of them is above it");
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		JUMP(BPF_JGT, HIGHEST, CALLS),
		ALLOW(0, SYS_wait4),
		ALLOW(1, SYS_ppoll),
		ALLOW(2, SYS_read),
		ALLOW(3, SYS_write),
		ALLOW(4, SYS_kill), /* reaches only what is inside */
		ALLOW(5, SYS_exit_group),
		ALLOW(6, SYS_rt_sigreturn),
		ALLOW(7, SYS_restart_syscall),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { sizeof code / sizeof code[0],
					 (struct sock_filter *)code };

	return SYS5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       SYS3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0;
}

/* Writes one record; a supervisor that is gone means the end. */
static void report(int fd, uint32_t ready, int32_t status)
{
	const struct init_report rep = { ready, status };

	if (SYS3(SYS_write, fd, &rep, sizeof rep) != (long)sizeof rep)
		die(125);
}

/* Ends everything else and reaps it: what is reaped is accounted for, what the
 * kernel sweeps away after us is not.  The command's status, or -1. */
static int end_all(int command)
{
	int st = 0, status = -1;
	long pid;

	/* All there is in here descends from us: without children there is nobody. */
	pid = SYS4(SYS_wait4, -1, &st, NO_HANG | WALL, 0);
	if (pid == -ECHILD_)
		return -1;
	SYS2(SYS_kill, -1, KILL);
	do
		if (pid == command && pid > 0)
			status = st;
	while ((pid = SYS4(SYS_wait4, -1, &st, WALL, 0)) > 0 || pid == -EINTR_);
	return status;
}

void init_main(long *stack)
{
	long argc = stack[0];
	char **argv = (char **)(stack + 1);
	if (argc != 4)
		die(125);
	int status_fd = number(argv[1]), death_fd = number(argv[2]);
	int command = number(argv[3]);
	struct pollfd_ watch[2] = { { death_fd, POLL_IN, 0 }, { -1, POLL_IN, 0 } };
	uint64_t chld = 1ull << (SIGCHLD_ - 1);
	static const struct {
		long sec, nsec;
	} at_once = { 0, 0 };

	SYS5(SYS_prctl, PR_SET_NAME, "brig-init", 0, 0, 0);
	/* Nobody inside may trace pid 1 or open its /proc files, so it cannot be
	 * frozen, and the notice of death below cannot be delayed. */
	if (SYS5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		die(125);
	if (SYS1(SYS_chdir, "/") != 0)
		die(125);
	SYS4(SYS_rt_sigprocmask, BLOCK, &chld, 0, sizeof chld);
	watch[1].fd = (int)SYS4(SYS_signalfd4, -1, &chld, sizeof chld, 02004000);
	if (watch[1].fd < 0)
		die(125);
	/* stdio belongs to the command alone: holding it open here would keep
	 * a pipe's reader waiting after the command closed its end */
	for (int fd = 0; fd < 3; fd++)
		if (fd != status_fd && fd != death_fd && fd != watch[1].fd)
			SYS1(SYS_close, fd);
	/* Something that is ready for certain: a filter around us that answers 0 and does
	 * nothing would have us never hear of the supervisor's death. */
	struct pollfd_ sure = { status_fd, POLL_OUT, 0 };
	if (SYS5(SYS_ppoll, &sure, 1, &at_once, 0, 8) != 1)
		die(125);
	if (!confine()) {
		report(status_fd, INIT_NO_FILTER, 0);
		die(125);
	}
	report(status_fd, INIT_READY, 0);
	for (;;) {
		int st = 0;
		long pid;
		while ((pid = SYS4(SYS_wait4, -1, &st, NO_HANG | WALL, 0)) > 0)
			if (pid == command) {
				end_all(command);
				report(status_fd, INIT_DONE, st);
				die(0);
			}
		if (pid == -EINTR_)
			continue; /* the notice may have been taken already */
		/* No children at all: the command is gone without a trace,
		 * which cannot be; end rather than wait for ever. */
		if (pid < 0)
			die(125);
		/* with more to reap, only look, do not sleep */
		long ready = SYS5(SYS_ppoll, watch, 2, pid > 0 ? &at_once : 0, 0, 8);
		if (ready == -EINTR_)
			continue;
		/* Not being able to watch for the supervisor's death means not to
		 * live on without it. */
		if (ready < 0)
			die(125);
		if (watch[0].revents) {
			char byte;
			if (SYS3(SYS_read, death_fd, &byte, 1) != 1)
				die(125); /* the supervisor died: so does everything */
			report(status_fd, INIT_ENDED, end_all(command)); /* the deadline */
			die(0);
		}
		if (watch[1].revents) {
			char drop[128];
			SYS3(SYS_read, watch[1].fd, drop, sizeof drop);
		}
	}
}
