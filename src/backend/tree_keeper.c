/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: parent of the command's process and subreaper of its tree.  It
 * reports how the command ended, ends everything else, and cleans up when the
 * supervisor is gone.  It is a fork of the supervisor, and allocates nothing.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "base/fd.h"
#include "base/msg.h"
#include "base/str.h"
#include "base/sys.h"

/* The kernel's notice that the supervisor is gone.  So is the end of its socket, but somebody
 * else in a large program may have a copy of that. */
#define NOTICE SIGTERM
#define LOOK_MS 2000 /* and now and then we look ourselves */

struct keeper {
	struct tree *t;
	int signals;
	pid_t command;   /* -1 before it is there */
	bool start, end; /* what the supervisor has told */
	bool ended, orphaned;
	int status;
};

/* No answer, as from a filter around us, is none. */
static bool is_orphan(const struct keeper *k)
{
	pid_t parent = getppid();

	return parent >= 0 && parent != k->t->self;
}

/* The next message.  1, 0 at the end, or -errno. */
static int hear(struct keeper *k, int flags)
{
	struct tree *t = k->t;
	struct msg_in in;
	ssize_t n = keeper_hear(t, flags, &in);

	if (n <= 0)
		return (int)n;
	switch (t->heard.word.kind) {
	case KEEPER_START:
		keeper_started(t, in.fds, in.n_fds);
		k->start = true;
		break;
	case KEEPER_MOUNTS:
		t->mntns = msg_fd(&in);
		break;
	case KEEPER_TTY:
		t->term.caller = t->heard.word.tty;
		break;
	case KEEPER_END:
		k->end = true;
		break;
	default:
		cgroup_remember(&t->cg, &t->heard.group, (size_t)n);
		break;
	}
	return 1;
}

/* As wait() would tell it. */
static int status_of(const siginfo_t *si)
{
	return si->si_code == CLD_EXITED ? (si->si_status & 0xff) << 8 :
	       si->si_code == CLD_DUMPED ? si->si_status | 0x80 : si->si_status;
}

static void note_end(struct keeper *k, const siginfo_t *si)
{
	k->ended = true;
	k->status = status_of(si);
}

/* Everybody who has died.  But the command's process is only looked at: as long as it is not
 * reaped, no other process group can have its number. */
static void reap(struct keeper *k)
{
	for (;;) {
		siginfo_t si = { 0 };
		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0) {
			if (errno == EINTR)
				continue;
			return;
		}
		if (si.si_pid == 0)
			return;
		if (si.si_pid == k->command) {
			note_end(k, &si);
			return;
		}
		waitpid(si.si_pid, NULL, WNOHANG | __WALL);
	}
}

/* Until something happens. */
static void wait_event(struct keeper *k)
{
	struct pollfd p[] = { { .fd = k->t->keeper_sock, .events = POLLIN },
			      { .fd = k->signals, .events = POLLIN } };
	struct signalfd_siginfo si;

	if (poll(p, ARRAY_LEN(p), LOOK_MS) < 0)
		return;
	while (p[1].revents && read(k->signals, &si, sizeof si) == (ssize_t)sizeof si)
		;
	if (is_orphan(k) || (p[0].revents && hear(k, 0) == 0))
		k->orphaned = true;
}

/* The command's process. */
static pid_t start(struct tree *t)
{
	struct clone_args args = { .exit_signal = SIGCHLD, .flags = CLONE_INTO_CGROUP,
				   .cgroup = (unsigned)t->cg.clone_fd };
	/* never a moment outside its limits */
	pid_t pid = t->cg.clone_fd >= 0 ? sys_clone3(&args) : fork();

	if (pid == 0)
		tree_child_main(t);
	int e = errno;
	/* end of file must mean that the command closed them */
	tree_close_ends(&t->ends);
	/* the locks of version 1 slots stay: until the tree is gone they are nobody else's */
	fd_close(&t->cg.clone_fd);
	return pid < 0 ? -e : pid;
}

/* Until the command's process is dead, and not reaped. */
static void await_command(struct keeper *k)
{
	siginfo_t si = { 0 };

	while (waitid(P_PID, (id_t)k->command, &si, WEXITED | WNOWAIT | __WALL) < 0)
		if (errno != EINTR)
			break;
	note_end(k, &si);
}

static void end_command(struct keeper *k)
{
	/* A crowd leaves little of the processors to others.  Root's keeper may take more. */
	if (!k->ended)
		setpriority(PRIO_PROCESS, 0, -20);
	/* Its session's first process group at once: nobody in there can fork meanwhile. */
	kill(-k->command, SIGKILL);
	if (k->ended)
		return;
	kill(k->command, SIGKILL); /* has no group of its own yet */
	cgroup_kill(&k->t->cg);
	tree_kill(); /* while it dies */
	await_command(k);
}

/* The end of the tree.  How many could not be ended. */
static int end_all(struct keeper *k)
{
	if (k->command > 0)
		end_command(k);
	k->command = -1; /* the sweep reaps it */
	int left = tree_sweep(0);
	if (left)
		cgroup_kill(&k->t->cg); /* the second lock */
	return left ? tree_sweep(0) : 0;
}

/* The supervisor is dead. */
static void clean_up(struct keeper *k)
{
	struct tree *t = k->t;

	/* it may have said more than we have heard */
	while (hear(k, MSG_DONTWAIT) > 0)
		;
	/* at once: a person may be sitting there */
	caller_tty_rescue(&t->term.caller);
	end_all(k);
	tree_settle(t, NULL);
	watch_supervisor_end(t->self);
	cgroup_kill(&t->cg);
	cgroup_remove(&t->cg);
}

static uint64_t micros(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000u + (uint64_t)tv->tv_usec;
}

/* A note that cannot be written ends the keeper, which the supervisor notices.  Without a
 * reader (EPIPE) the supervisor is dead, and the keeper goes on to clean up. */
static void tell(const struct keeper *k, const struct keeper_note *n)
{
	int r = fd_write_full(k->t->keeper_sock, n, sizeof *n);

	if (r < 0 && r != -EPIPE)
		_exit(1);
}

static void report(struct keeper *k)
{
	struct keeper_note gone = { .type = NOTE_GONE, .left = end_all(k) };
	struct rusage ru = { 0 };

	gone.status = k->status;
	getrusage(RUSAGE_CHILDREN, &ru);
	gone.cpu_us = micros(&ru.ru_utime) + micros(&ru.ru_stime);
	gone.max_rss_kb = (uint64_t)ru.ru_maxrss;
	tell(k, &gone);
}

/* What makes it the keeper. */
static void take_office(struct keeper *k)
{
	struct tree *t = k->t;
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* Out of the caller's session and process group: what ends those must not end
	 * the one who cleans up. */
	setsid();
	prctl(PR_SET_NAME, "brig-keeper", 0, 0, 0);
	/* before there is anybody who could leave children behind */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, NOTICE, 0, 0, 0) < 0)
		_exit(1);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, NOTICE);
	k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (k->signals < 0)
		_exit(1);
	/* the end of these is to be noticed */
	tree_close_own(t);
	fd_close(&t->sig.fd);
	if (t->job->egress)
		egress_forget(t->job->egress);
	t->keeper_self = getpid();
	k->orphaned = is_orphan(k);
}

void keeper_main(struct tree *t)
{
	struct keeper k = { .t = t, .command = -1 };

	take_office(&k);
	while (!k.start && !k.orphaned)
		wait_event(&k);
	int r = k.orphaned ? 0 : start(t);
	if (r < 0) {
		const struct keeper_note n = { .type = NOTE_FAILED, .status = -r };
		tell(&k, &n);
	} else if (r > 0) {
		k.command = r;
		while (!k.ended && !k.end && !k.orphaned) {
			wait_event(&k);
			reap(&k);
		}
		if (!k.orphaned)
			report(&k);
	}
	/* One of us cleans up: we, if the supervisor does not live to end us when it has.
	 * Doing it twice does no harm. */
	while (!k.orphaned)
		wait_event(&k);
	clean_up(&k);
	_exit(0);
}
