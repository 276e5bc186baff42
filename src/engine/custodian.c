/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/custodian.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sys.h"
#include "engine/watch.h"

/* How the kernel tells it; the supervisor has it blocked, and so has it. */
#define NOTICE SIGTERM

/* The supervisor is dead: its memory and its descriptors are ours alone. */
static void clean_up(const struct custodian *c)
{
	/* We hold the last copies: init ends with the one, a builder or job that
	 * still waits for a word with the others. */
	const int *const ends[] = { c->death_write, c->ctl, c->trees };
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (*ends[i] >= 0)
			close(*ends[i]);
	/* at once: a person may be sitting there.  It is not the terminal of our session, so
	 * that nobody stops us for it. */
	caller_tty_rescue(c->tty);
	if (*c->init_pidfd >= 0) {
		struct pollfd gone = { .fd = *c->init_pidfd, .events = POLLIN };
		if (poll(&gone, 1, 2000) <= 0) {
			/* init notices by itself; this is the second lock */
			sys_pidfd_send_signal(*c->init_pidfd, SIGKILL, 0);
			poll(&gone, 1, 5000);
		}
	}
	if (c->protect)
		watch_sweep(c->protect, c->wsfd, c->held, 0, NULL);
	cgroup_kill(c->cg);
	cgroup_remove(c->cg);
}

static int custodian_main(void *arg)
{
	const struct custodian *c = arg;
	sigset_t notice;

	/* Out of the caller's process group and session: what kills either must not
	 * kill the one that cleans up. */
	setsid();
	sigemptyset(&notice);
	sigaddset(&notice, NOTICE);
	/* First ask to be told, then look whether it was too late to ask. */
	prctl(PR_SET_PDEATHSIG, NOTICE, 0, 0, 0);
	/* The signal may come from anybody: only being an orphan counts.  And it
	 * is not relied upon alone: now and then we look for ourselves. */
	const struct timespec now_and_then = { .tv_sec = 2 };
	for (pid_t now = getppid(); now == c->parent || now < 0; now = getppid())
		sigtimedwait(&notice, NULL, &now_and_then);
	clean_up(c);
	_exit(0);
}

int custodian_start(struct custodian *c)
{
	struct clone_args args = { .flags = CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND,
				   .exit_signal = SIGCHLD };

	c->parent = getpid();
	if (c->parent <= 0) /* a filter's answer: it would take itself for an orphan */
		return -EIO;
	/* CLONE_FILES: nothing to copy now, and in the end the descriptors that
	 * the sandbox hangs on are there.  They outlive the supervisor only until
	 * clean_up() closes them, or until we are killed as well. */
	pid_t pid = spawn(&args, c->rooms, c->room, custodian_main, c);
	if (pid < 0)
		return pid;
	c->pid = pid;
	return 0;
}

void custodian_dismiss(struct custodian *c)
{
	/* if it cannot be killed it dies by itself, after we did */
	if (c->pid > 0 && !c->dismissed)
		c->dismissed = kill(c->pid, SIGKILL) == 0;
}

bool custodian_reap(struct custodian *c)
{
	pid_t got = c->pid;

	custodian_dismiss(c);
	if (c->pid > 0 && c->dismissed)
		while ((got = waitpid(c->pid, NULL, 0)) < 0 && errno == EINTR)
			;
	bool gone = c->pid <= 0 || (c->dismissed && got == c->pid);
	c->pid = -1;
	return gone;
}
