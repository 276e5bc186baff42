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

/* Behind a gate the mounts are sealed: no Landlock rule stops another sandbox from using a
 * descriptor that this one's command handed to it. */
static void sweep_paths(struct tree *t, struct brig_result *res)
{
	const struct tree_job *job = t->job;
	if (job->protect)
		watch_sweep(job->protect, job->spec->workspace.fd,
			    t->mntns, job->gate ? SWEEP_SEAL : SWEEP_KEPT, res);
}

void tree_settle(struct tree *t, struct brig_result *res)
{
	const struct tree_job *job = t->job;

	if (job->place)
		job->place(job->arg, res);
	sweep_paths(t, res);
	if (job->settle)
		job->settle(job->arg, res);
}

/* The keeper was killed: its tree fell to us. */
static void take_over(struct tree *t)
{
	cgroup_kill(&t->cg);
	/* not yet reaped, it still tells when it began; what the caller had
	 * before is not ours */
	uint64_t since = tree_began(t->keeper);
	t->left += since ? tree_sweep(since) : 1;
}

/* The keeper has nothing left to do.  It is reaped here: pid 1 of a container often reaps no
 * orphans. */
static void end_keeper(struct tree *t)
{
	struct pollfd end = { .fd = t->keeper_pidfd, .events = POLLIN };

	if (end.fd >= 0)
		sys_pidfd_send_signal(end.fd, SIGKILL, 0);
	else
		kill(t->keeper, SIGKILL); /* not reaped: it is still the one */
	/* one that is stuck in the kernel is not waited for */
	while (end.fd >= 0 && poll(&end, 1, KEEPER_LAST_MS) < 0 && errno == EINTR)
		;
	waitpid(t->keeper, NULL, end.fd >= 0 ? WNOHANG : 0);
}

static void report(struct tree *t)
{
	if (t->state == TREE_RELEASED) {
		watch_account(&t->cg, t->res);
		notify_report(t->refused, t->res);
		t->res->wall_ms = (double)(t->t_end - t->t_release) / 1e6;
	}
	if (t->left)
		result_deny(t->res, "process", "left over",
			    "processes of this run could not be ended: another user's, "
			    "or stuck in the kernel", "look for them and end them",
			    (uint64_t)t->left);
}

void tree_finish(struct tree *t)
{
	const struct tree_job *job = t->job;
	struct brig_result *res = t->res;

	if (t->started && !t->tree_gone)
		take_over(t);
	t->t_end = now_ns();
	if (job->egress)
		egress_end(job->egress, res);
	if (t->started)
		tree_settle(t, res);
	else if (job->settle)
		job->settle(job->arg, res);
	report(t);
	cgroup_remove(&t->cg);
	if (t->keeper > 0)
		end_keeper(t);
	cgroup_close(&t->cg);
	fd_close(&t->mntns);
	tree_close_ends(&t->ends);
	tree_close_own(t);
	fd_close(&t->keeper_sock);
	if (t->old_subreaper == 0)
		prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	signals_restore(&t->sig);
}
