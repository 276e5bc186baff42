/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a sandbox is started: limits, the clone, the plan, and what the new processes
 * are given.  The order is what makes it fast.  Where the builder borrows our memory
 * it is there first, and what it needs to know comes while it makes the namespaces.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/idmap.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/diagnose.h"
#include "engine/run.h"
#include "engine/run_internal.h"

_Static_assert((int)WIRE_FDS >= (int)CG_MAX_DIRS, "a record carries all groups");

int run_channels(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;
	int sv[2], p[2], on = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		goto fail;
	l->ctl_supervisor = sv[0];
	l->ctl_child = sv[1];
	/* the kernel tells who sent a message, in our own pid numbers */
	if (setsockopt(sv[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
		goto fail;
	/* Two read what root sends, at the same time: the job waits for its groups, the builder
	 * for the caller's trees. */
	if (l->spec->as_root || l->spec->nested) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
			goto fail;
		l->trees_supervisor = sv[0];
		l->trees_child = sv[1];
	}
	if (pipe2(p, O_CLOEXEC) < 0)
		goto fail;
	l->status_read = p[0];
	l->status_write = p[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		goto fail;
	l->death_read = p[0];
	l->death_write = p[1];
	if (l->spec->capture && !l->spec->pty) {
		int e = fd_pipe_from_command(&r->out_read, &l->stdio[1]);
		if (e == 0)
			e = fd_pipe_from_command(&r->err_read, &l->stdio[2]);
		if (e < 0)
			return err_set(err, BRIG_E_NO_MEMORY, -e, "prepare", "descriptors");
		e = run_input_to_read(&r->term, &l->stdio[0], err);
		if (e < 0)
			return e;
	}
	snprintf(l->status_arg, sizeof l->status_arg, "%d", l->status_write);
	snprintf(l->death_arg, sizeof l->death_arg, "%d", l->death_read);
	return 0;
fail:
	return err_set(err, BRIG_E_NO_MEMORY, errno, "prepare", "descriptors");
}

/* What follows from who it is that runs brig, once that is known. */
int run_identify(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;
	const struct spec *s = l->spec;

	/* the memory was lent on the understanding that nobody has the id */
	if (l->shares && s->as_root && !s->idmapped && r->late_limits) {
		err_set(err, BRIG_E_SOURCE_CHANGED, ESTALE, "plan",
			"the workspace was given to somebody else just now");
		diagnose_fix(err);
		return -ESTALE;
	}
	if (!s->as_root)
		spawn_show(&l->rooms); /* the id stays what it is */
	/* A caller's profile may not let it go again; and when the supervisor has waited for
	 * init, as root's does, nothing is gained. */
	l->who.called = !s->seccomp && !s->as_root;
	/* Version 1 groups are not delegated to ordinary users; looking for an
	 * exception is worth the time only when somebody asks.  And there may be some already:
	 * of a controller that is mounted elsewhere, though version 2 is in the usual place. */
	l->who.late_groups = r->late_limits ? s->as_root || (s->required & LAYERS_LIMITS) :
					  r->cg.n_task_fds > 0;
	/* Since Linux 5.14 RLIMIT_NPROC counts per user namespace: exact
	 * for one with a single id.  A third version 1 hierarchy is made
	 * only when root asks for the limit by name, and so wants the
	 * group's counter of refused forks. */
	bool group = s->as_root && (s->asked & LAYER_BIT(LAYER_PIDS));
	if (r->late_limits && s->limits.pids && !group)
		l->who.nproc = watch_nproc(s->limits.pids, s->nested);
	/* /dev/stdout and /dev/stderr are opened by name inside, under the sandbox's id */
	if (s->as_root && r->out_read >= 0 &&
	    (fchown(r->out_read, s->host_uid, s->host_gid) < 0 ||
	     fchown(r->err_read, s->host_uid, s->host_gid) < 0))
		return err_set(err, BRIG_E_NO_MEMORY, errno, "prepare", "descriptors");
	snprintf(l->who.uid_map, sizeof l->who.uid_map, "%u %u 1\n", s->in_uid, s->host_uid);
	snprintf(l->who.gid_map, sizeof l->who.gid_map, "%u %u 1\n", s->in_gid, s->host_gid);
	snprintf(l->who.uid_map_same, sizeof l->who.uid_map_same, "%u %u 1\n", s->in_uid,
		 s->in_uid);
	snprintf(l->who.gid_map_same, sizeof l->who.gid_map_same, "%u %u 1\n", s->in_gid,
		 s->in_gid);
	return 0;
}

static int plan_halfway(void *arg, struct brig_error *err);

int run_limits(struct run *r, struct brig_error *err)
{
	const struct spec *s = r->l.spec;
	struct cgroup_want want = { .memory = s->limits.memory,
				    .pids = s->limits.pids,
				    .cpu_milli = s->limits.cpu_milli,
				    .halfway = r->late_limits ? plan_halfway : NULL,
				    .arg = r };

	if (r->l.who.nproc)
		want.pids = 0;
	if (r->late_limits && !r->l.who.late_groups)
		return 0;

	if (s->required & LAYER_BIT(LAYER_MEMORY))
		want.asked |= CG_MEMORY;
	if (s->required & LAYER_BIT(LAYER_CPU))
		want.asked |= CG_CPU;
	int e = cgroup_prepare(&r->cg, &want, s->id, err);
	if (e < 0)
		return e;
	/* before it is known who runs brig */
	if (!r->late_limits && !(r->cg.enforced & CG_PIDS))
		r->l.who.nproc = watch_nproc(s->limits.pids, s->nested);
	return watch_limits(s, &r->cg, r->l.who.nproc, err);
}

/* Only root's map needs a writer with power over the ids outside; an ordinary
 * user's child writes its own one-line maps and need not wait for us. */
static int map_ids(struct run *r, struct brig_error *err)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/%d", (int)r->init);
	cleanup_close int proc = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return diagnose_idmap(errno, err);
	int e = fd_write_at(proc, "gid_map", r->l.who.gid_map);
	if (e == 0)
		e = fd_write_at(proc, "uid_map", r->l.who.uid_map);
	if (e < 0)
		return diagnose_idmap(-e, err);
	return 0;
}

/* It shares our table, and there is more to be opened: sources, and root's trees of them. */
static void make_room(const struct run *r)
{
	enum { FIRST_TABLE = 64 }; /* as it is at first; the rest of us needs less */
	const struct spec *s = r->l.spec;
	const size_t shown = s->n_binds;

	if (FIRST_TABLE - COLLECT_BELOW < 2 * shown)
		fd_make_room(STDERR_FILENO, (unsigned)(FIRST_TABLE + 2 * shown));
}

int run_custodian(struct run *r, struct brig_error *err)
{
	if (r->cust.pid > 0)
		return 0;
	make_room(r);
	r->cust.cg = &r->cg;
	r->cust.protect = r->planned ? &r->plan.protect : NULL;
	r->cust.wsfd = r->l.spec->workspace.fd;
	r->cust.held = &r->held;
	r->cust.death_write = &r->l.death_write;
	r->cust.ctl = &r->l.ctl_supervisor;
	r->cust.trees = &r->l.trees_supervisor;
	r->cust.init_pidfd = &r->init_pidfd;
	r->cust.tty = &r->term.caller;
	r->cust.rooms = &r->l.rooms;
	r->cust.room = ROOM_CUSTODIAN;
	int e = custodian_start(&r->cust);
	/* a filter around us that hides clone3 hides it from the sandbox, too */
	if (e == -ENOSYS || e == -EPERM)
		return diagnose_userns(-e, err);
	return e < 0 ? err_set(err, BRIG_E_NO_MEMORY, -e, "custodian",
			       "the process that cleans up after us") : 0;
}

/*
 * The builder.  The memory is shared as soon as that is known to be safe; whatever is
 * written to the copy of the launch afterwards is read only when the record of it has
 * been.
 */
static int start_builder(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;
	int pidfd = -1;
	struct clone_args args = {
		.flags = PLAN_NAMESPACES | CLONE_PIDFD | (l->shares ? CLONE_VM : 0),
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};

	if (r->cg.clone_fd >= 0) {
		/* born inside: never a moment outside its limits */
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)r->cg.clone_fd;
	}
	if (launch_copy(&r->child, l) < 0 ||
	    (r->planned && launch_give_plan(&r->child, l) < 0))
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the launch");
	place_hold(&l->place);
	pid_t pid = spawn(&args, &l->rooms, ROOM_BUILDER, child_main, &r->child);
	int e = place_release(&l->place);
	if (pid == -EMFILE || pid == -ENFILE) /* the pidfd's */
		return err_set(err, BRIG_E_NO_MEMORY, -pid, "clone", "descriptors");
	if (pid < 0)
		return diagnose_userns(-pid, err);
	r->init = pid;
	r->init_pidfd = pidfd;
	/* The child has more to do than we have: if it is queued behind us, it
	 * goes first. */
	sched_yield();
	/* Our copies of the child's ends: end of file must mean it closed them. */
	fd_close(&l->ctl_child);
	fd_close(&l->trees_child);
	fd_close(&l->status_write);
	fd_close(&l->death_read);
	fd_close(&l->stdio[0]);
	fd_close(&l->stdio[1]);
	fd_close(&l->stdio[2]);
	return e < 0 ? err_set(err, BRIG_E_SETUP_FAILED, -e, "clone", "the processors") : 0;
}

/* A record for the builder or the job. */
static int tell(struct run *r, enum wire_type type, const int *fds, size_t n,
		struct brig_error *err)
{
	const struct wire w = { .type = type };
	const bool trees = type == WIRE_TREES;
	int e = wire_send(trees ? r->l.trees_supervisor : r->l.ctl_supervisor, &w, fds, n);

	/* a child that is gone has said why, in the socket */
	if (e == 0 || e == -EPIPE || e == -ECONNRESET)
		return 0;
	return err_set(err, BRIG_E_SETUP_FAILED, -e, "plan", "handing the %s over",
		       trees ? "caller's trees" :
		       type == WIRE_PLAN ? "plan" : "control groups");
}

static int send_plan(struct run *r, struct brig_error *err)
{
	r->plan_sent = true;
	return tell(r, WIRE_PLAN, NULL, 0, err);
}

/* As root: the caller's trees, which the builder cannot open.  It needs them last, and gets
 * each lot while the next is made. */
static int give_trees(struct run *r, struct brig_error *err)
{
	struct root *root = &r->l.root;
	struct root_map map = { .userns = -1 };
	size_t at = root_next_caller(root, 0);
	int e = 0;

	r->seen.fine = calloc(r->plan.n_ops, sizeof *r->seen.fine);
	if (!r->seen.fine)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "plan", "the caller's trees");
	while (e == 0 && at < r->plan.n_ops) {
		int fds[WIRE_FDS];
		size_t n = 0;
		for (; e == 0 && n < WIRE_FDS && at < r->plan.n_ops;
		     at = root_next_caller(root, at + 1)) {
			e = root_open_caller(root, at, &map, err);
			r->seen.fine[at] = e == 0; /* its flags were read back */
			fds[n++] = root->slots[at];
		}
		if (e == 0)
			e = tell(r, WIRE_TREES, fds, n, err);
	}
	fd_close(&map.userns);
	return e;
}

/*
 * Version 1, and the first of several groups is made.  The builder needs none of them, and
 * is what takes longest: it gets the plan now, and the processor where we are.  The job has
 * the other one, and nothing to do without the groups when it is done with the network.
 */
static int plan_halfway(void *arg, struct brig_error *err)
{
	struct run *r = arg;
	int e = send_plan(r, err);

	if (e < 0)
		return e;
	e = place_leave(&r->l.place, sched_getcpu());
	return e < 0 ? err_set(err, BRIG_E_SETUP_FAILED, -e, "cgroup", "the processors") : 0;
}

static int make_plan(struct run *r, struct brig_error *err)
{
	int e = run_identify(r, err);
	/* It may take long, on a slow file system: signals end it, and us, meanwhile.
	 * What was started has done nothing yet, and ends with us. */
	signals_pass(&r->sig, true);
	if (e == 0)
		e = plan_build(&r->plan, r->l.spec, err);
	signals_pass(&r->sig, false);
	r->t_planned = now_ns();
	if (e < 0)
		return e;
	r->planned = true;
	r->l.plan = &r->plan;
	/* who cleans up after us may be there already */
	if (r->cust.pid > 0) {
		r->cust.wsfd = r->l.spec->workspace.fd;
		/* from here on it uses both */
		__atomic_store_n(&r->cust.protect, &r->plan.protect, __ATOMIC_RELEASE);
	}
	if (root_prepare(&r->l.root, &r->plan) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the root tree");
	r->held.room = r->l.root.keep_open;
	return 0;
}

/* A guess that is too low costs ten milliseconds, and nothing else: fd_make_room(). */
static unsigned guess_descriptors(const struct spec *s)
{
	enum { USUAL_OPS = 96 };

	return root_descriptors(USUAL_OPS + 2 * s->n_binds);
}

/* Whether the builder may borrow our memory, and so be there before the plan. */
static bool may_start_early(struct run *r)
{
	const struct spec *s = r->l.spec;

	/* root's workspace is shown under an id that nobody has */
	return spawn_may_share(s->limits.memory) &&
	       ((!s->as_root && !s->nested) ||
		spawn_hide(&r->l.rooms, !s->idmapped && r->late_limits));
}

/* The builder and the plan, in the order that is possible. */
static int start_and_plan(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;
	int e = 0;

	l->shares = may_start_early(r);
	if (l->shares) {
		l->table = guess_descriptors(l->spec);
		e = start_builder(r, err);
	}
	if (e == 0)
		e = make_plan(r, err);
	if (e < 0)
		return e;
	if (l->shares)
		return launch_give_plan(&r->child, l) < 0 ?
			       err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare",
				       "the launch") : 0;
	l->table = root_descriptors(r->plan.n_ops);
	return start_builder(r, err);
}

/* The half of the evidence that is about ourselves. */
static int read_own(struct run *r, struct brig_error *err)
{
	r->res->evidence.nested = r->l.spec->nested;
	evidence_read_own(&r->res->evidence, &r->held);
	return evidence_closing(err);
}

int run_start(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;

	/* Not in a program that brig is a library of (which is never built that way): it is
	 * about its thread, and the kernel would remember these two as its choice. */
	if (SPAWN_OWN_ERRNO)
		place_find(&l->place);
	int e = start_and_plan(r, err);
	if (e == 0)
		e = root_check_callers(&l->root, err);
	if (e == 0 && l->spec->as_root)
		e = map_ids(r, err);
	/* Who removes groups comes before the groups.  Without any, until here nothing
	 * exists that would outlive us: the child does not.  With a command there may be. */
	if (e == 0)
		e = run_custodian(r, err);
	/* A job that waits for groups comes last, and afterwards we are on its processor. */
	if (e == 0 && l->who.late_groups)
		e = read_own(r, err);
	if (e == 0 && r->late_limits)
		e = run_limits(r, err);
	if (e == 0 && !r->plan_sent)
		e = send_plan(r, err);
	if (e == 0 && l->who.late_groups)
		e = tell(r, WIRE_GROUPS, r->cg.task_fds, (size_t)r->cg.n_task_fds, err);
	if (e == 0 && l->spec->as_root)
		e = give_trees(r, err);
	/* there is time for it now: the others are at work */
	return e == 0 && !l->who.late_groups ? read_own(r, err) : e;
}
