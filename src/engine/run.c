/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run from plan to result: prepare, clone, map ids, supervise, clean up.
 * Whatever happens on the way, the end is the same: nothing is running and
 * nothing is left.
 */
#include "engine/run.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/collect.h"
#include "engine/diagnose.h"
#include "engine/egress.h"
#include "engine/exec.h"
#include "engine/landlock.h"
#include "engine/run_internal.h"

_Static_assert((int)WIRE_FDS >= (int)CG_MAX_DIRS, "a record carries all groups");

static int make_channels(struct run *r, struct brig_error *err)
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
	if (pipe2(p, O_CLOEXEC) < 0)
		goto fail;
	l->status_read = p[0];
	l->status_write = p[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		goto fail;
	l->death_read = p[0];
	l->death_write = p[1];
	if (l->spec->capture && !l->spec->pty) {
		if (pipe2(p, O_CLOEXEC) < 0)
			goto fail;
		r->out_read = p[0];
		l->stdio[1] = p[1];
		if (pipe2(p, O_CLOEXEC) < 0)
			goto fail;
		r->err_read = p[0];
		l->stdio[2] = p[1];
		/* /dev/stdout and /dev/stderr are opened by name inside, under
		 * the sandbox's id */
		if (l->spec->as_root &&
		    (fchown(l->stdio[1], l->spec->host_uid, l->spec->host_gid) < 0 ||
		     fchown(l->stdio[2], l->spec->host_uid, l->spec->host_gid) < 0))
			goto fail;
	}
	const struct spec *s = l->spec;
	snprintf(l->uid_map, sizeof l->uid_map, "%u %u 1\n", s->in_uid, s->host_uid);
	snprintf(l->gid_map, sizeof l->gid_map, "%u %u 1\n", s->in_gid, s->host_gid);
	snprintf(l->uid_map_same, sizeof l->uid_map_same, "%u %u 1\n", s->in_uid,
		 s->in_uid);
	snprintf(l->gid_map_same, sizeof l->gid_map_same, "%u %u 1\n", s->in_gid,
		 s->in_gid);
	snprintf(l->status_arg, sizeof l->status_arg, "%d", l->status_write);
	snprintf(l->death_arg, sizeof l->death_arg, "%d", l->death_read);
	return 0;
fail:
	return err_set(err, BRIG_E_NO_MEMORY, errno, "prepare", "descriptors");
}

static void prepare_filter(struct run *r)
{
	const struct spec *s = r->l.spec;

	r->l.filter = s->seccomp ? s->seccomp : seccomp_default(true);
	int abi = landlock_abi();
	/* Absent Landlock is not decided here: the evidence will not show it,
	 * and if it is required the command is not released. */
	r->l.landlock_abi = abi > 0 ? abi : 0;
}

/* Version 1 groups are not delegated to ordinary users; looking for an
 * exception is worth the time only when somebody asks. */
static bool wants_groups(const struct run *r)
{
	const struct spec *s = r->l.spec;

	return s->as_root || (s->required & LAYERS_LIMITS);
}

static int prepare_limits(struct run *r, struct brig_error *err)
{
	const struct spec *s = r->l.spec;
	struct cgroup_want want = { .memory = s->limits.memory,
				    .pids = s->limits.pids,
				    .cpu_milli = s->limits.cpu_milli };

	if (r->l.nproc)
		want.pids = 0;
	if (r->late_limits && !wants_groups(r)) {
		snprintf(r->cg.why, sizeof r->cg.why,
			 "version 1 control groups are not delegated to ordinary users");
		return 0;
	}

	if (s->required & LAYER_BIT(LAYER_MEMORY))
		want.asked |= CG_MEMORY;
	if (s->required & LAYER_BIT(LAYER_CPU))
		want.asked |= CG_CPU;
	int e = cgroup_prepare(&r->cg, &want, s->id, err);
	if (e < 0)
		return e;
	if (!r->late_limits && !(r->cg.enforced & CG_PIDS) && kernel_at_least(5, 14))
		r->l.nproc = s->limits.pids;
	return watch_limits(s, &r->cg, r->l.nproc, err);
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
	int e = fd_write_at(proc, "gid_map", r->l.gid_map);
	if (e == 0)
		e = fd_write_at(proc, "uid_map", r->l.uid_map);
	if (e < 0)
		return diagnose_idmap(-e, err);
	const struct wire go = { .type = WIRE_MAPPED };
	if (send(r->l.ctl_supervisor, &go, sizeof go, MSG_NOSIGNAL) != sizeof go)
		return err_set(err, BRIG_E_SETUP_FAILED, errno, "clone", "the child died");
	return 0;
}

static int start_custodian(struct run *r, struct brig_error *err)
{
	if (r->cust.pid > 0)
		return 0;
	r->cust.cg = &r->cg;
	r->cust.protect = &r->l.plan->protect;
	r->cust.wsfd = r->l.spec->workspace.fd;
	r->cust.death_write = &r->l.death_write;
	r->cust.ctl = &r->l.ctl_supervisor;
	r->cust.init_pidfd = &r->init_pidfd;
	r->cust.rooms = &r->l.rooms;
	r->cust.room = ROOM_CUSTODIAN;
	int e = custodian_start(&r->cust);
	/* a filter around us that hides clone3 hides it from the sandbox, too */
	if (e == -ENOSYS || e == -EPERM)
		return diagnose_userns(-e, err);
	return e < 0 ? err_set(err, BRIG_E_NO_MEMORY, -e, "custodian",
			       "the process that cleans up after us") : 0;
}

/* Tells the job that its groups exist; version 1 hands over `tasks` files. */
static int send_limits(struct run *r, struct brig_error *err)
{
	const struct wire w = { .type = WIRE_LIMITS };
	int e = wire_send(r->l.ctl_supervisor, &w, r->cg.task_fds,
			  (size_t)r->cg.n_task_fds);

	/* a child that is gone has said why, in the socket */
	if (e < 0 && e != -EPIPE)
		return err_set(err, BRIG_E_SETUP_FAILED, -e, "cgroup",
			       "handing over the limits");
	return 0;
}

static int start(struct run *r, struct brig_error *err)
{
	struct launch *l = &r->l;
	int pidfd = -1;
	struct clone_args args = {
		.flags = l->plan->clone_flags | CLONE_PIDFD |
			 (spawn_may_share(l->spec->as_root, l->spec->limits.memory) ?
				  CLONE_VM : 0),
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};

	if (r->cg.clone_fd >= 0) {
		/* born inside: never a moment outside its limits */
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)r->cg.clone_fd;
	}
	if (launch_copy(&r->child, l) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the launch");
	pid_t pid = spawn(&args, &l->rooms, ROOM_BUILDER, child_main, &r->child);
	if (pid < 0)
		return diagnose_userns(-pid, err);
	r->init = pid;
	r->init_pidfd = pidfd;
	/* The child has more to do than we have: if it is queued behind us, it
	 * goes first. */
	sched_yield();
	/* Our copies of the child's ends: end of file must mean it closed them. */
	fd_close(&l->ctl_child);
	fd_close(&l->status_write);
	fd_close(&l->death_read);
	fd_close(&l->stdio[1]);
	fd_close(&l->stdio[2]);
	int e = l->spec->as_root ? map_ids(r, err) : 0;
	if (e < 0)
		return e;
	/* While the child builds, what does not depend on it. */
	r->res->evidence.nested = l->spec->nested;
	evidence_read_own(&r->res->evidence);
	/* Before there are groups to remove, and before the command is released.
	 * Until then nothing exists that would outlive us: the child does not. */
	e = start_custodian(r, err);
	if (e == 0 && r->late_limits)
		e = prepare_limits(r, err);
	return e < 0 ? e : send_limits(r, err);
}

/*
 * Standard input, output and error are the one thing of the caller's that the
 * command gets as it is.  A directory there (or a bare path descriptor) would be
 * a way out: names can be looked up from it.
 */
int run_check_stdio(struct brig_error *err)
{
	static const char *const names[] = { "input", "output", "error" };

	for (int fd = 0; fd < 3; fd++) {
		struct stat st;
		int flags = fcntl(fd, F_GETFL);
		if (flags < 0 || fstat(fd, &st) < 0)
			return err_set(err, BRIG_E_BAD_FD, errno, "prepare",
				       "standard %s", names[fd]);
		if (!S_ISDIR(st.st_mode) && !(flags & O_PATH))
			continue;
		err_set(err, BRIG_E_BAD_FD, 0, "prepare",
			"standard %s is a directory: the command could look up names "
			"from it", names[fd]);
		err_fix(err, "redirect it: </dev/null, for one");
		return -EISDIR;
	}
	return 0;
}

static int prepare(struct run *r, const struct plan *plan, struct brig_error *err)
{
	struct launch *l = &r->l;
	int bad = run_check_stdio(err);

	if (bad < 0)
		return bad;
	l->plan = plan;
	l->spec = plan->spec;
	l->script_argv = exec_script_argv(l->spec->argv);
	if (root_prepare(&l->root, plan) < 0 || !l->script_argv ||
	    spawn_rooms_make(&l->rooms, ROOMS) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the root tree");
	int sig = signals_take(&r->sig);
	if (sig < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -sig, "prepare", "signals");
	prepare_filter(r);
	int e;
	r->late_limits = cgroup_is_v1();
	if (r->late_limits) {
		/* Decided before the child exists, as it sets the limit itself.
		 * Since Linux 5.14 RLIMIT_NPROC counts per user namespace: exact
		 * for one with a single id.  A third version 1 hierarchy is made
		 * only when root asks for the limit by name, and so wants the
		 * group's counter of refused forks. */
		const struct spec *s = plan->spec;
		bool group = s->as_root && (s->asked & LAYER_BIT(LAYER_PIDS));
		if (s->limits.pids && !group && kernel_at_least(5, 14))
			l->nproc = s->limits.pids;
	} else {
		/* groups come before the clone, the one who cleans up before them */
		e = start_custodian(r, err);
		if (e == 0)
			e = prepare_limits(r, err);
		if (e < 0)
			return e;
	}
	e = root_prepare_callers(&l->root, err);
	if (e < 0)
		return e;
	if (plan->spec->net == NET_ALLOW) {
		r->egress = malloc(sizeof *r->egress);
		e = r->egress ? egress_init(r->egress, plan->spec, err) : -ENOMEM;
		if (e < 0)
			return e == -ENOMEM ? err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare",
						      "the allow-list") : e;
		l->allow = &r->egress->net;
	}
	return make_channels(r, err);
}

/* Reaps pid 1 (and by it everything inside) and takes its usage.  False: it could
 * not be waited for. */
static bool reap(struct run *r)
{
	struct rusage ru = { 0 };
	pid_t got;
	int st;

	if (r->init <= 0)
		return true;
	if (!r->init_gone)
		run_kill(r);
	while ((got = wait4(r->init, &st, 0, &ru)) < 0 && errno == EINTR)
		;
	r->res->cpu_ms = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e3 +
			 (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e3;
	if (!r->res->max_rss_kb) /* the group's own peak is the better number */
		r->res->max_rss_kb = (uint64_t)ru.ru_maxrss;
	return got == r->init;
}

/* The end of what outlives a run, and of the one who would have had to end it. */
static void remove_groups(struct run *r)
{
	cgroup_remove(&r->cg);
	cgroup_close(&r->cg);
	custodian_dismiss(&r->cust);
}

void run_settle(struct run *r)
{
	struct brig_result *res = r->res;

	if (r->settled)
		return;
	r->settled = true;
	/* Every process inside is gone (init, at most, is on its way): what they
	 * left can be judged now. */
	if (r->released) {
		watch_sweep(&r->l.plan->protect, r->l.spec->workspace.fd, res);
		watch_account(&r->cg, res);
		notify_report(r->refused, res);
	}
	/* A version 2 group has init in it and lives until that is gone. */
	if (r->cg.version != 2)
		remove_groups(r);
}

/* False: somebody who uses our memory may still be there. */
static bool finish(struct run *r)
{
	struct brig_result *res = r->res;

	bool gone = reap(r);
	r->t_end = now_ns();
	if (r->egress)
		egress_end(r->egress, res);
	free(r->egress);
	/* No process refers to it any more. */
	collect_later(&r->mntns);
	run_settle(r);
	if (r->released)
		res->wall_ms = (double)(r->t_end - r->t_release) / 1e6;
	remove_groups(r);
	gone = custodian_reap(&r->cust) && gone;
	if (gone) {
		spawn_rooms_free(&r->l.rooms);
		launch_copy_free(&r->child);
		free(r->l.script_argv);
	}
	root_release(&r->l.root);
	int *fds[] = { &r->l.ctl_child, &r->l.ctl_supervisor, &r->l.status_read,
		       &r->l.status_write, &r->l.death_read, &r->l.death_write,
		       &r->l.stdio[1], &r->l.stdio[2], &r->init_pidfd,
		       &r->job_pidfd, &r->listener, &r->out_read, &r->err_read,
		       &r->term.pty, &r->term.pty_slave };
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_close(fds[i]);
	signals_restore(&r->sig);
	return gone;
}

void engine_run(const struct plan *plan, struct brig_result *res)
{
	struct run *r = calloc(1, sizeof *r); /* too large for a small stack */
	if (!r) {
		err_set(&res->error, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "a run");
		return;
	}
	r->res = res;
	r->sig = SIGNALS_NONE;
	r->init = r->job = r->cust.pid = -1;
	int *const none[] = { &r->init_pidfd, &r->job_pidfd, &r->mntns, &r->listener,
			      &r->out_read, &r->err_read, &r->term.pty,
			      &r->term.pty_slave, &r->l.ctl_child, &r->l.ctl_supervisor,
			      &r->l.status_read, &r->l.status_write, &r->l.death_read,
			      &r->l.death_write, &r->l.stdio[0], &r->l.stdio[1],
			      &r->l.stdio[2] };
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		*none[i] = -1;
	r->t_start = now_ns();
	cgroup_init(&r->cg);
	capture_init(&res->out, plan->spec->limits.max_output);
	capture_init(&res->err, plan->spec->limits.max_output);
	r->term.capture = plan->spec->capture ? &res->out : NULL;
	res->learning = plan->spec->learn;
	if (plan->spec->name)
		res->name = strdup(plan->spec->name);
	if (prepare(r, plan, &res->error) == 0 && start(r, &res->error) == 0)
		supervise(r);
	if (finish(r))
		free(r);
}
