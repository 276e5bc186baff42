/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor of a process tree: what is made, and the start of its processes. */
#include "backend/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/idmap.h"
#include "base/str.h"
#include "base/sys.h"
#include "confine/exec.h"
#include "confine/pty.h"
#include "engine/run.h"
#include "engine/watch.h"

/* Version 1 groups are not delegated to ordinary users: to try costs more than it gives. */
static bool wants_groups(const struct spec *s)
{
	return !cgroup_is_v1() || geteuid() == 0 || (s->required & LAYERS_LIMITS);
}

/* The kernel does not hold the machine's root to RLIMIT_NPROC.  Under the landlock backend
 * root's command has an ordinary user's id. */
static bool nproc_holds(const struct tree *t)
{
	const struct spec *s = t->job->spec;

	if (geteuid() != 0 || (s->as_root && t->job->sandbox))
		return true;
	return s->nested && !userns_root_is_machines();
}

/* Limits for the tree, as far as they can be had: control groups, and for processes where
 * there is none RLIMIT_NPROC.  -errno with err when one that was asked for cannot. */
static int make_limits(struct tree *t, struct brig_error *err)
{
	const struct spec *s = t->job->spec;
	struct cgroup_want want = { .memory = s->limits.memory,
				    .pids = s->limits.pids,
				    .cpu_milli = s->limits.cpu_milli };

	if (t->job->nproc_inside && !(s->as_root && (s->asked & LAYER_BIT(LAYER_PIDS))))
		t->nproc = watch_nproc(s->limits.pids, s->nested);
	if (t->nproc)
		want.pids = 0;
	want.asked = (s->required & LAYER_BIT(LAYER_MEMORY) ? CG_MEMORY : 0u) |
		     (s->required & LAYER_BIT(LAYER_CPU) ? CG_CPU : 0u) |
		     (s->required & LAYER_BIT(LAYER_PIDS) ? CG_PIDS : 0u);
	int r = wants_groups(s) ? cgroup_prepare(&t->cg, &want, s->id, err) : 0;
	t->counted = !t->job->nproc_inside && s->limits.pids &&
		     !(t->cg.enforced & CG_PIDS) && nproc_holds(t);
	return r < 0 ? r : watch_limits(s, &t->cg, t->counted ? s->limits.pids : t->nproc, err);
}

static int make_pipe(int *r, int *w)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	*r = p[0];
	*w = p[1];
	return 0;
}

static int make_pair(int *a, int *b)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	*a = sv[0];
	*b = sv[1];
	return 0;
}

/* A terminal of the host's devpts: brig's own, but with a name outside. */
static int make_terminal(struct tree *t)
{
	int slave, r = pty_open(AT_FDCWD, "/dev/ptmx", &t->term.pty, &slave);

	if (r == 0)
		t->ends.stdio[0] = t->ends.stdio[1] = t->ends.stdio[2] = slave;
	return r;
}

/* What the command may open again by name (/dev/stdout) has to be its own. */
static int give_streams(const struct tree *t)
{
	const struct spec *s = t->job->spec;

	if (!s->as_root || !t->job->sandbox)
		return 0;
	for (int i = s->pty ? 0 : 1; i < 3; i++) /* the caller's input is his */
		if (t->ends.stdio[i] >= 0 &&
		    fchown(t->ends.stdio[i], s->host_uid, s->host_gid) < 0)
			return -errno;
	return 0;
}

static int make_channels(struct tree *t, struct brig_error *err)
{
	const struct spec *s = t->job->spec;
	int on = 1, r = make_pair(&t->ctl, &t->ends.ctl);

	/* the kernel tells who sent a message, in our own pid numbers */
	if (r == 0 && setsockopt(t->ctl, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
		r = -errno;
	if (r == 0)
		r = make_pair(&t->sock, &t->keeper_sock);
	if (r == 0 && t->job->gate) {
		r = fd_pipe_from_command(&t->say_read, &t->ends.say);
		if (r == 0)
			r = make_pipe(&t->status_read, &t->ends.status);
		if (r == 0)
			r = make_pipe(&t->ends.death, &t->death_write);
	}
	if (r == 0 && s->pty) {
		r = make_terminal(t);
	} else if (r == 0 && s->capture) {
		r = fd_pipe_from_command(&t->out_read, &t->ends.stdio[1]);
		if (r == 0)
			r = fd_pipe_from_command(&t->err_read, &t->ends.stdio[2]);
		if (r == 0 && run_input_to_read(&t->term, &t->ends.stdio[0], err) < 0)
			return -EBADF;
	}
	if (r == 0)
		r = give_streams(t);
	return r < 0 ? err_set(err, BRIG_E_NO_MEMORY, -r, "prepare", "descriptors") : 0;
}

static int prepare(struct tree *t, struct brig_error *err)
{
	int r = run_check_stdio(&t->term, err);

	if (r < 0)
		return r;
	/* a sandbox program of the system's is no script of the caller's */
	t->script_argv = t->job->gate ? NULL : exec_script_argv(t->job->argv);
	if (!t->script_argv && !t->job->gate)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "arguments");
	r = signals_take(&t->sig);
	if (r < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -r, "prepare", "signals");
	evidence_read_own(&t->res->evidence);
	return make_channels(t, err);
}

void tree_close_ends(struct tree_ends *e)
{
	if (e->stdio[1] == e->stdio[0])
		e->stdio[1] = e->stdio[2] = -1;
	int *fds[] = { &e->ctl, &e->say, &e->status, &e->death, &e->stdio[0], &e->stdio[1],
		       &e->stdio[2] };
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_close(fds[i]);
}

void tree_close_own(struct tree *t)
{
	int *fds[] = { &t->ctl, &t->sock, &t->out_read, &t->err_read, &t->say_read,
		       &t->status_read, &t->death_write, &t->term.pty, &t->term.pty_slave,
		       &t->keeper_pidfd, &t->ready_pidfd, &t->listener };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_close(fds[i]);
}

static int fork_keeper(struct tree *t, struct brig_error *err)
{
	t->self = getpid();
	if (prctl(PR_GET_CHILD_SUBREAPER, &t->old_subreaper, 0, 0, 0) < 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, BRIG_E_KERNEL_TOO_OLD, errno, "clone",
			       "taking over orphans");
	t->keeper = fork();
	if (t->keeper == 0)
		keeper_main(t);
	if (t->keeper > 0)
		t->keeper_pidfd = sys_pidfd_open(t->keeper);
	if (t->keeper_pidfd < 0)
		return err_set(err, BRIG_E_NO_MEMORY, errno, "clone", "the keeper");
	fd_close(&t->keeper_sock);
	t->cg.journal = t->sock;
	return 0;
}

/*
 * Version 1 slots are taken before the keeper is forked, so that it inherits their locks.
 * Everything else that the keeper would have to remove is made after it.  One exception: a
 * limit that an ordinary user gave by name may come from systemd, which moves this process
 * into a scope.  The keeper has to be in that scope, too, to clone into a group there.
 */
static int start(struct tree *t, struct brig_error *err)
{
	const bool before = cgroup_is_v1() ||
			    (geteuid() != 0 && (t->job->spec->required & LAYERS_LIMITS));
	int made = -1, r = before ? make_limits(t, err) : 0;

	if (r == 0)
		r = fork_keeper(t, err);
	if (r == 0 && !before)
		r = make_limits(t, err);
	if (r < 0)
		return r;
	if (t->job->make && (made = t->job->make(t->job->arg)) < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, -made, "temp", "the private directory");
	r = keeper_start(t, made);
	t->started = r == 0;
	if (r < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, -r, "clone", "the keeper");
	/* end of file must mean that the other side closed them */
	tree_close_ends(&t->ends);
	return 0;
}

void tree_run(struct tree_job *job, struct brig_result *res)
{
	/* too large for a small stack; most of it is never touched */
	struct tree *t = calloc(1, sizeof *t);
	const struct spec *s = job->spec;

	if (!t) {
		err_set(&res->error, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "a run");
		return;
	}
	t->job = job;
	t->res = res;
	t->sig = SIGNALS_NONE;
	int *const none[] = {
		&t->keeper, &t->ready_pid, &t->old_subreaper, &t->keeper_sock,
		&t->ends.ctl, &t->ends.say, &t->ends.status, &t->ends.death,
		&t->ends.stdio[0], &t->ends.stdio[1], &t->ends.stdio[2], &t->ctl, &t->sock,
		&t->out_read, &t->err_read, &t->say_read, &t->status_read, &t->death_write,
		&t->term.pty, &t->term.pty_slave, &t->keeper_pidfd, &t->ready_pidfd,
		&t->listener, &t->mntns,
	};
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		*none[i] = -1;
	t->t_start = now_ns();
	cgroup_init(&t->cg);
	capture_init(&res->out, s->limits.max_output);
	capture_init(&res->err, s->limits.max_output);
	t->term.capture = s->capture ? &res->out : NULL;
	res->evidence.nested = s->nested;
	if (s->name && !res->name)
		res->name = strdup(s->name);
	if (prepare(t, &res->error) == 0 && start(t, &res->error) == 0)
		tree_watch(t);
	tree_finish(t);
	free(t->script_argv);
	free(t);
}
