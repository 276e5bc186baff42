/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run of a process tree, as the supervisor sees it: every process is gone, or
 * has to be ended here, and nothing of what was made is left. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/result.h"

/* How long a keeper that was killed may take to end. */
#define KEEPER_LAST_MS 1000

static void sweep_paths(struct tree *t, struct brig_result *res)
{
	const struct tree_job *job = t->job;

	/* Behind a gate there is no Landlock that would keep others to their own trees: who was
	 * handed a descriptor may be at work anywhere. */
	const unsigned how = !job->gate ? SWEEP_KEPT : t->released ? SWEEP_SEAL : 0;

	if (job->protect && !t->swept)
		watch_sweep(job->protect, job->spec->workspace.fd,
			    job->gate ? t->held.mounts : -1, how, res);
	t->swept = true;
}

void tree_settle(struct tree *t, struct brig_result *res)
{
	const struct tree_job *job = t->job;

	if (!__atomic_load_n(&t->planned, __ATOMIC_ACQUIRE)) {
		if (job->leave) /* nothing ran, and nothing was looked at */
			job->leave(job->arg);
		return;
	}
	if (job->place)
		job->place(job->arg, res);
	sweep_paths(t, res);
	if (job->settle)
		job->settle(job->arg, res);
}

void tree_account(struct tree *t)
{
	if (!t->accounted)
		watch_account(&t->cg, t->res);
	t->accounted = true;
}

/* The keeper is gone, or was killed: then its tree fell to us. */
static void take_over(struct tree *t)
{
	if (t->tree_gone)
		return;
	cgroup_kill(&t->cg);
	/* not yet reaped, it still tells when it began; what the caller had
	 * before is not ours */
	uint64_t since = tree_began(t->keeper);
	t->left += since ? tree_sweep(since) : 1;
}

/* It has nothing left to do but to end, and may be about to. */
static void dismiss_keeper(const struct tree *t)
{
	if (t->keeper > 0 && !t->keeper_leaves)
		sys_pidfd_send_signal(t->keeper_pidfd, SIGKILL, 0);
}

static int await_end(struct pollfd *end)
{
	int r = -1;

	while (end->fd >= 0 && (r = poll(end, 1, KEEPER_LAST_MS)) < 0 && errno == EINTR)
		;
	return r;
}

/*
 * Takes it off the process table: who would, after us?  In a container that is mostly a
 * program that knows nothing of orphans.  False: it does not end, stuck in the kernel, and
 * may still run on what was lent to it.
 */
static bool reap_keeper(struct tree *t)
{
	struct pollfd end = { .fd = t->keeper_pidfd, .events = POLLIN };

	if (t->keeper <= 0)
		return true;
	watch_linger(end.fd, A_MOMENT_NS);
	int r = await_end(&end);
	/* said that it leaves, and was stopped before it did */
	if (r == 0 && t->keeper_leaves &&
	    sys_pidfd_send_signal(t->keeper_pidfd, SIGKILL, 0) == 0)
		await_end(&end);
	/* without a descriptor it has not begun yet: see fork_keeper() */
	pid_t got = waitpid(t->keeper, NULL, end.fd >= 0 ? WNOHANG : 0);
	/* whoever ignores SIGCHLD has none to reap */
	bool gone = got == t->keeper || (got < 0 && errno == ECHILD);
	fd_close(&t->keeper_pidfd);
	return gone;
}

bool tree_finish(struct tree *t)
{
	struct brig_result *res = t->res;

	if (t->keeper > 0)
		take_over(t);
	t->t_end = now_ns();
	if (t->job->egress)
		egress_end(t->job->egress, res);
	if (!t->settled)
		tree_settle(t, res);
	/* No process refers to them any more. */
	collect_now(&t->held);
	if (t->released) {
		tree_account(t);
		notify_report(t->refused, res);
		res->wall_ms = (double)(t->t_end - t->t_release) / 1e6;
	}
	if (t->left)
		result_deny(res, "process", "left over",
			    "processes of this run could not be ended: another user's, "
			    "or stuck in the kernel", "look for them and end them",
			    (uint64_t)t->left);
	if (!t->keeper_leaves)
		cgroup_remove(&t->cg);
	dismiss_keeper(t);
	cgroup_close(&t->cg);
	tree_close_ends(&t->ends);
	int *fds[] = { &t->ctl, &t->note_read, &t->note_write, &t->out_read, &t->err_read,
		       &t->say_read, &t->status_read, &t->death_write, &t->term.pty,
		       &t->term.pty_slave, &t->ready_pidfd, &t->listener, &t->offered };
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_close(fds[i]);
	if (t->old_subreaper == 0)
		prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	bool gone = reap_keeper(t);
	cgroup_remove(&t->cg); /* if it did not live to do it */
	signals_restore(&t->sig);
	return gone && !t->left;
}
