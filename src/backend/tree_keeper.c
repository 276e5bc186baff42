/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: parent of the command's process and subreaper of its tree.  It
 * reports how the command ended, ends everything else, and cleans up when the
 * supervisor is gone.  It has the supervisor's memory and descriptors, or a copy of
 * them, and changes neither as long as the supervisor lives; it allocates nothing.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "base/fd.h"
#include "base/sys.h"

/* How the kernel tells that the supervisor is gone; blocked from birth. */
#define NOTICE SIGTERM

struct keeper {
	struct tree *t;
	pid_t command;
	bool ended, orphaned;
	int status;
};

/* What cannot be told shows in our end, which the supervisor waits for as well.  Unless
 * nobody is there to be told: then there is something left to do. */
static void tell(const struct keeper *k, const struct keeper_note *n)
{
	int r = fd_write_full(k->t->note_write, n, sizeof *n);

	if (r < 0 && r != -EPIPE)
		_exit(1);
}

/*
 * Starts the command's process, which borrows memory until it executes.  Not when its
 * limit is small: what is killed for want of memory takes along all that share it.
 * Without an errno of its own it borrows that as well, and we stand still meanwhile.
 */
static pid_t start(struct tree *t)
{
	uint64_t flags = !t->share ? 0 :
			 t->borrowed ? CLONE_VM | CLONE_FILES :
			 SPAWN_OWN_ERRNO ? CLONE_VM : CLONE_VM | CLONE_VFORK;
	struct clone_args args = { .exit_signal = SIGCHLD };

	if (t->cg.clone_fd >= 0) {
		flags |= CLONE_INTO_CGROUP; /* never a moment outside its limits */
		args.cgroup = (unsigned)t->cg.clone_fd;
	}
	args.flags = flags;
	pid_t pid = spawn(&args, &t->rooms, ROOM_COMMAND, tree_child_main, t);
	/* where it is not to be had, we are no borrower either */
	if (!tree_no_clone3(pid) || t->borrowed || (flags & CLONE_INTO_CGROUP))
		return pid;
	pid = fork();
	if (pid == 0)
		_exit(tree_child_main(t));
	return pid < 0 ? -errno : pid;
}

static void note_end(struct keeper *k, int status)
{
	k->ended = true;
	k->status = status;
}

/* As wait() would tell it. */
static int status_of(const siginfo_t *si)
{
	return si->si_code == CLD_EXITED ? (si->si_status & 0xff) << 8 :
	       si->si_code == CLD_DUMPED ? si->si_status | 0x80 : si->si_status;
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
			note_end(k, status_of(&si));
			return;
		}
		waitpid(si.si_pid, NULL, WNOHANG | __WALL);
	}
}

/* Until the command's process is dead, and not reaped. */
static void await_command(struct keeper *k)
{
	siginfo_t si = { 0 };

	while (waitid(P_PID, (id_t)k->command, &si, WEXITED | WNOWAIT | __WALL) < 0)
		if (errno != EINTR)
			break;
	note_end(k, status_of(&si));
}

static uint64_t micros(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000u + (uint64_t)tv->tv_usec;
}

/* The end of the tree. */
static int end_all(struct keeper *k)
{
	/* A crowd leaves little of the processors to others.  Root's keeper may take more. */
	if (!k->ended)
		setpriority(PRIO_PROCESS, 0, -20);
	/* Its session's first process group at once: nobody in there can fork meanwhile. */
	kill(-k->command, SIGKILL);
	if (!k->ended) {
		kill(k->command, SIGKILL); /* has no group of its own yet */
		cgroup_kill(&k->t->cg);
		await_command(k);
	}
	int left = tree_sweep(0);
	if (left)
		cgroup_kill(&k->t->cg); /* the second lock */
	return left ? tree_sweep(0) : 0;
}

/* In a copy of the supervisor: as long as one of these is open here, the end of it goes
 * unnoticed. */
static void forget_supervisor(struct tree *t)
{
	int *fds[] = { &t->ctl, &t->note_read, &t->death_write, &t->out_read, &t->err_read,
		       &t->say_read, &t->status_read, &t->sig.fd };

	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
		fd_close(fds[i]);
	if (t->job->egress)
		egress_forget(t->job->egress);
}

/* No answer, as from a filter around us, is none: who cleans up after somebody who is
 * still at work leaves what that one makes next. */
static bool is_orphan(const struct keeper *k)
{
	pid_t parent = getppid();

	return parent >= 0 && parent != k->t->self;
}

/* Waits for one of the signals.  The kernel's notice may come from anybody: only being
 * an orphan counts.  And it is not relied upon alone: now and then we look. */
static int wait_signal(struct keeper *k)
{
	const struct timespec now_and_then = { .tv_sec = 2 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, KEEPER_END);
	sigaddset(&set, NOTICE);
	int sig = sigtimedwait(&set, NULL, &now_and_then);
	if (sig != SIGCHLD && sig != KEEPER_END)
		k->orphaned = is_orphan(k);
	return sig;
}

static void watch(struct keeper *k)
{
	while (!k->ended && !k->orphaned) {
		int sig = wait_signal(k);
		if (sig == KEEPER_END)
			return;
		reap(k);
	}
}

/* The supervisor is dead: its memory and its descriptors are ours alone. */
static void clean_up(struct keeper *k)
{
	struct tree *t = k->t;

	/* The last copies: what waits for a word ends with the one, an init inside with
	 * the other, the egress process with its socket. */
	fd_close(&t->ctl);
	fd_close(&t->death_write);
	if (t->job->egress)
		egress_forget(t->job->egress);
	/* a copy of the supervisor's memory knows nothing of it */
	caller_tty_rescue(&t->term.caller);
	if (k->command > 0)
		end_all(k);
	tree_settle(t, NULL);
	cgroup_kill(&t->cg);
	cgroup_remove(&t->cg);
}

/* Whether there is nothing left to clean up but groups, and then those are; says so.  What
 * the supervisor writes is to be seen only where its memory is ours. */
static bool report(struct keeper *k)
{
	int left = end_all(k);
	bool leaves = left == 0 && k->t->borrowed &&
		      __atomic_load_n(&k->t->clean, __ATOMIC_ACQUIRE);
	struct rusage ru = { 0 };

	getrusage(RUSAGE_CHILDREN, &ru);
	const struct keeper_note gone = {
		.type = NOTE_GONE, .status = k->status, .left = left, .leaves = leaves,
		.cpu_us = micros(&ru.ru_utime) + micros(&ru.ru_stime),
		.max_rss_kb = (uint64_t)ru.ru_maxrss,
	};
	tell(k, &gone);
	/* beside the supervisor, which is at its own end, and comes after us if we do not
	 * live to do it */
	if (leaves)
		cgroup_remove(&k->t->cg);
	return leaves;
}

/* What makes it the keeper.  false when the kernel does not let it be one. */
static bool take_office(struct keeper *k)
{
	/* Out of the caller's session and process group: what ends those must not end
	 * the one who cleans up. */
	setsid();
	prctl(PR_SET_NAME, "brig-keeper", 0, 0, 0);
	/* First ask to be told, then look whether it was too late to ask. */
	if (prctl(PR_SET_PDEATHSIG, NOTICE, 0, 0, 0) < 0)
		return false;
	k->orphaned = is_orphan(k);
	if (k->t->borrowed)
		word_set(&k->t->in_office);
	return true;
}

/* 0, or -errno when there is no group to be born into. */
static int await_group(struct keeper *k)
{
	const struct tree *t = k->t;

	while (!word_is_set(&t->group_done) && !k->orphaned) {
		word_await(&t->group_done);
		k->orphaned = !word_is_set(&t->group_done) && is_orphan(k);
	}
	return t->group_failed ? -ECANCELED : 0;
}

int keeper_main(void *arg)
{
	struct tree *t = arg;
	struct keeper k = { .t = t };
	sigset_t all;
	int r = 0;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	/* before there is anybody who could leave children behind */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return 1;
	t->keeper_self = getpid();
	if (!t->borrowed) {
		if (!take_office(&k) || k.orphaned)
			return 1;
		forget_supervisor(t);
	}
	if (t->group_first) {
		if (!take_office(&k))
			return 1;
		r = await_group(&k);
	}
	/* else the command's process does it: there is another processor for that */
	if (r == 0 && !k.orphaned && !t->borrowed)
		r = t->job->begin ? t->job->begin(t->job->arg) : 0;
	if (r == 0 && !k.orphaned)
		r = start(t);
	k.command = r > 0 ? r : 0;
	/* The command's process, which has the longer way to go, is on it by now, and dies
	 * with us if this fails. */
	if (t->borrowed && !t->group_first && !take_office(&k))
		return 1;
	if (!t->borrowed) {
		/* the command's process, which may have our memory, goes by the other */
		struct tree_ends copies = t->ends;
		tree_close_ends(&copies);
	}
	if (r < 0) {
		const struct keeper_note n = { .type = NOTE_FAILED, .status = -r };
		tell(&k, &n);
	} else if (!k.orphaned) {
		watch(&k);
		if (!k.orphaned && report(&k))
			return 0;
	}
	/* One of us cleans up: we, if the supervisor does not live to end us when it
	 * has.  Doing it twice does no harm. */
	while (!k.orphaned)
		wait_signal(&k);
	clean_up(&k);
	return 0;
}
