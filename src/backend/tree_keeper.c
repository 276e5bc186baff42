/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: parent of the command's process and subreaper of its tree.  It
 * reports how the command ended, ends everything else, and cleans up when the
 * supervisor is gone.  A fork of brig that allocates nothing.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "base/fd.h"
#include "base/sys.h"

struct keeper {
	struct tree *t;
	pid_t self, command;
	bool ended, orphaned;
	int status;
};

static void tell(const struct keeper *k, const struct keeper_note *n)
{
	/* a supervisor that is gone is noticed elsewhere */
	(void)!send(k->t->keep_child, n, sizeof *n, MSG_NOSIGNAL);
}

static int child_entry(void *arg)
{
	struct keeper *k = arg;

	tree_child_main(k->t, k->self);
}

/*
 * Starts the command's process.  As a rule it borrows our memory until it
 * executes and we stand still meanwhile: nothing is copied.  Born into a version
 * 2 group it has to be a copy, as there is no C function for that.
 */
static pid_t start(struct keeper *k)
{
	static char stack[128 * 1024] __attribute__((aligned(64)));
	struct tree *t = k->t;

	if (t->cg.clone_fd < 0)
		return clone(child_entry, stack + sizeof stack,
			     CLONE_VM | CLONE_VFORK | SIGCHLD, k);
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, /* never a moment outside its limits */
		.cgroup = (unsigned)t->cg.clone_fd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid = sys_clone3(&args);
	if (pid == 0)
		tree_child_main(t, k->self);
	return pid;
}

static void note_end(struct keeper *k, int status)
{
	k->ended = true;
	k->status = status;
}

/* Everybody who has died. */
static void reap(struct keeper *k)
{
	int status = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0 ||
	       (pid < 0 && errno == EINTR))
		if (pid == k->command)
			note_end(k, status);
}

static uint64_t micros(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000u + (uint64_t)tv->tv_usec;
}

/* The end of the tree. */
static int end_all(struct keeper *k)
{
	int status = 0;

	if (!k->ended)
		cgroup_kill(&k->t->cg); /* atomic, where there is one */
	if (!k->ended) {
		/* its status is wanted: the sweep would throw it away */
		kill(k->command, SIGKILL);
		while (waitpid(k->command, &status, __WALL) < 0)
			if (errno != EINTR)
				break;
		note_end(k, status);
	}
	int left = tree_sweep(0);
	if (left)
		cgroup_kill(&k->t->cg); /* the second lock */
	return left ? tree_sweep(0) : 0;
}

static void close_ends(struct tree *t)
{
	/* As long as one of these is open here, the end of it goes unnoticed. */
	int *fds[] = { &t->ctl, &t->ctl_child, &t->keep, &t->out_read, &t->err_read,
		       &t->say_read, &t->say_write, &t->status_read,
		       &t->status_write, &t->death_read, &t->death_write, &t->stdio[0], &t->stdio[1],
		       &t->stdio[2], &t->term.pty, &t->term.pty_slave, &t->sig.fd };

	/* one terminal may stand for all three */
	if (t->stdio[1] == t->stdio[0])
		t->stdio[1] = t->stdio[2] = -1;
	if (t->term.pty_slave == t->stdio[0])
		t->term.pty_slave = -1;
	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
		fd_close(fds[i]);
}

static void watch(struct keeper *k, int sigfd)
{
	while (!k->ended) {
		struct pollfd p[2] = { { sigfd, POLLIN, 0 },
				       { k->t->keep_child, POLLIN, 0 } };
		if (poll(p, 2, -1) < 0)
			continue;
		if (p[0].revents) {
			struct signalfd_siginfo si;
			(void)!read(sigfd, &si, sizeof si);
			reap(k);
		}
		if (p[1].revents) {
			char c;
			ssize_t n = recv(k->t->keep_child, &c, 1, MSG_DONTWAIT);
			if (n < 0 && (errno == EAGAIN || errno == EINTR))
				continue;
			k->orphaned = n <= 0; /* nobody there any more */
			return;
		}
	}
}

/* Waits for the supervisor's last word; false when it died without. */
static bool dismissed(const struct keeper *k)
{
	for (;;) {
		char c = 0;
		ssize_t n = recv(k->t->keep_child, &c, 1, 0);
		if (n == 1 && c == KEEPER_DISMISS)
			return true;
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
	}
}

void keeper_main(struct tree *t, pid_t supervisor)
{
	struct keeper k = { .t = t, .self = getpid() };
	sigset_t all, chld;

	/* Out of the caller's process group and deaf: what ends the group must
	 * not end the one who cleans up.  Not dumpable: nobody of the same user
	 * reads or traces it. */
	setsid();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	prctl(PR_SET_NAME, "brig-keeper", 0, 0, 0);
	int sigfd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sigfd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || getppid() != supervisor)
		_exit(1);
	/* else the child would wait for a word that nobody can send any more */
	fd_close(&t->ctl);
	fd_close(&t->keep);
	fd_close(&t->death_write);
	if (t->job->egress)
		egress_forget(t->job->egress);
	int r = t->job->begin ? t->job->begin(t->job->arg) : 0;
	k.command = r < 0 ? -1 : start(&k);
	if (k.command < 0) {
		const struct keeper_note n = { .type = NOTE_FAILED,
					       .status = r < 0 ? -r : errno };
		tell(&k, &n);
		if (!dismissed(&k))
			tree_settle(t, NULL);
		_exit(0);
	}
	/* the child, who shared it, had to be looked at */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	close_ends(t);
	watch(&k, sigfd);
	int left = end_all(&k);
	struct rusage ru = { 0 };
	getrusage(RUSAGE_CHILDREN, &ru);
	const struct keeper_note gone = {
		.type = NOTE_GONE, .status = k.status, .left = left,
		.cpu_us = micros(&ru.ru_utime) + micros(&ru.ru_stime),
		.max_rss_kb = (uint64_t)ru.ru_maxrss,
	};
	tell(&k, &gone);
	/* One of us cleans up: we, if the supervisor does not live to say that it
	 * has.  Doing it twice does no harm. */
	if (k.orphaned || !dismissed(&k)) {
		tree_settle(t, NULL);
		cgroup_remove(&t->cg);
	}
	_exit(0);
}
