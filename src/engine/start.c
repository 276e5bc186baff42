/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a sandbox is started: the plan, limits, channels, the janitor, and then the one
 * clone that makes every namespace.  What the new processes need is complete before it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/idmap.h"
#include "base/sys.h"
#include "engine/diagnose.h"
#include "engine/run.h"
#include "engine/run_internal.h"

static int make_pipe(int *r, int *w)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	*r = p[0];
	*w = p[1];
	return 0;
}

/* The command's captured output. */
static int make_capture(struct run *r, struct brig_error *err)
{
	const struct spec *s = r->l.spec;
	int e = fd_pipe_from_command(&r->out_read, &r->l.stdio[1]);

	if (e == 0)
		e = fd_pipe_from_command(&r->err_read, &r->l.stdio[2]);
	/* /dev/stdout and /dev/stderr are opened by name inside, under the sandbox's id */
	if (e == 0 && s->as_root &&
	    (fchown(r->out_read, s->host_uid, s->host_gid) < 0 ||
	     fchown(r->err_read, s->host_uid, s->host_gid) < 0))
		e = -errno;
	if (e < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -e, "prepare", "descriptors");
	return run_input_to_read(&r->term, &r->l.stdio[0], err);
}

static int make_channels(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;
	int sv[2], on = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		goto fail;
	l->ctl_supervisor = sv[0];
	l->ctl_child = sv[1];
	/* the kernel tells who sent a message, in our own pid numbers */
	if (setsockopt(sv[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0 ||
	    make_pipe(&l->status_read, &l->status_write) < 0 ||
	    make_pipe(&l->death_read, &l->death_write) < 0)
		goto fail;
	return l->spec->capture && !l->spec->pty ? make_capture(r, err) : 0;
fail:
	return err_set(err, BRIG_E_NO_MEMORY, errno, "prepare", "descriptors");
}

/* Version 1 groups are not delegated to ordinary users; looking for an exception is
 * worth the time only when somebody asks. */
static bool wants_groups(const struct spec *s, bool v1)
{
	return !v1 || s->as_root || (s->required & LAYERS_LIMITS);
}

static int make_limits(struct run *r, bool v1, struct brig_error *err)
{
	const struct spec *s = r->l.spec;
	struct cgroup_want want = { .memory = s->limits.memory,
				    .pids = s->limits.pids,
				    .cpu_milli = s->limits.cpu_milli };

	/* Since Linux 5.14 RLIMIT_NPROC counts per user namespace: exact for one with a
	 * single id.  A version 1 hierarchy for it is used only when root asks for the limit
	 * by name, and so wants the group's counter of refused forks. */
	if (v1 && !(s->as_root && (s->asked & LAYER_BIT(LAYER_PIDS))))
		r->l.nproc = watch_nproc(s->limits.pids, s->nested);
	if (r->l.nproc)
		want.pids = 0;
	if (s->required & LAYER_BIT(LAYER_MEMORY))
		want.asked |= CG_MEMORY;
	if (s->required & LAYER_BIT(LAYER_CPU))
		want.asked |= CG_CPU;
	if (wants_groups(s, v1)) {
		int e = cgroup_prepare(&r->cg, &want, s->id, err);
		if (e < 0)
			return e;
		if (!v1 && !(r->cg.enforced & CG_PIDS))
			r->l.nproc = watch_nproc(s->limits.pids, s->nested);
	}
	return watch_limits(s, &r->cg, r->l.nproc, err);
}

/* The janitor comes before the groups that it would have to remove, but after version 1
 * slots: those stay, and it inherits their locks. */
static int make_limits_and_janitor(struct run *r, struct brig_error *err)
{
	const bool v1 = cgroup_is_v1();
	int e = v1 ? make_limits(r, true, err) : 0;

	if (e < 0)
		return e;
	e = janitor_start(&r->janitor, &r->cg, &r->plan.protect, r->l.spec->workspace.fd);
	/* a filter around us that hides clone3 hides it from the sandbox, too */
	if (e == -ENOSYS || e == -EPERM)
		return diagnose_userns(-e, err);
	if (e < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -e, "janitor",
			       "the process that cleans up after us");
	r->l.janitor = r->cg.journal = r->janitor.sock;
	return v1 ? 0 : make_limits(r, false, err);
}

/* Only root's map needs a writer with power over the ids outside; an ordinary
 * user's builder writes its own. */
static int map_ids(struct run *r, struct brig_error *err)
{
	const struct wire w = { .type = WIRE_MAPPED };
	char path[32];

	snprintf(path, sizeof path, "/proc/%d", (int)r->init);
	int e = ids_map(path, &r->l.maps, false);
	if (e < 0)
		return diagnose_idmap(-e, err);
	e = wire_send(r->l.ctl_supervisor, &w, NULL, 0);
	/* a builder that is gone has said why, in the socket */
	return e == 0 || e == -EPIPE || e == -ECONNRESET ? 0 :
		       err_set(err, BRIG_E_SETUP_FAILED, -e, "ids", "a word to the builder");
}

static int start_builder(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;
	int pidfd = -1;
	struct clone_args args = {
		.flags = PLAN_NAMESPACES | CLONE_PIDFD |
			 (plan_own_net(l->spec) ? CLONE_NEWNET : 0),
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};

	if (r->cg.clone_fd >= 0) {
		/* born inside: never a moment outside its limits */
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)r->cg.clone_fd;
	}
	pid_t pid = sys_clone3(&args);
	if (pid == 0)
		builder_main(l);
	if (pid < 0 && (errno == EMFILE || errno == ENFILE)) /* the pidfd's */
		return err_set(err, BRIG_E_NO_MEMORY, errno, "clone", "descriptors");
	if (pid < 0)
		return diagnose_userns(errno, err);
	r->init = pid;
	r->init_pidfd = pidfd;
	/* Our copies of the child's ends: end of file must mean it closed them. */
	int *const ends[] = { &l->ctl_child, &l->status_write, &l->death_read, &l->stdio[0],
			      &l->stdio[1], &l->stdio[2] };
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		fd_close(ends[i]);
	int e = janitor_know_init(&r->janitor, pidfd);
	return e < 0 ? err_set(err, BRIG_E_SETUP_FAILED, -e, "janitor",
			       "the process that cleans up after us is gone") : 0;
}

static int make_plan(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;
	const struct spec *s = l->spec;

	/* A look at the workspace may take long on a slow file system: signals end it, and
	 * us, meanwhile.  Nothing was started yet. */
	signals_pass(&r->sig, true);
	int e = plan_build(&r->plan, s, err);
	signals_pass(&r->sig, false);
	if (e < 0)
		return e;
	r->planned = true;
	l->plan = &r->plan;
	ids_format(&l->maps, s->in_uid, s->host_uid, s->in_gid, s->host_gid);
	ids_format(&l->maps_again, s->in_uid, s->in_uid, s->in_gid, s->in_gid);
	if (root_prepare(&l->root, &r->plan) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the root tree");
	return s->as_root ? root_open_callers(&l->root, err) : 0;
}

int run_start(struct run *r, struct brig_error *err)
{
	int e = make_plan(r, err);

	r->t_planned = now_ns();
	if (e == 0)
		e = make_limits_and_janitor(r, err);
	if (e == 0)
		e = make_channels(r, err);
	if (e == 0)
		e = start_builder(r, err);
	/* the source descriptors are not needed any more */
	root_release(&r->l.root);
	if (e == 0 && r->l.spec->as_root)
		e = map_ids(r, err);
	if (e < 0)
		return e;
	r->res->evidence.nested = r->l.spec->nested;
	evidence_read_own(&r->res->evidence); /* while the builder is at work */
	return 0;
}
