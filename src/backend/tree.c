/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor of a process tree: what is made, and the start of its processes. */
#include "backend/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "backend/tree_watch.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/diagnose.h"
#include "confine/exec.h"
#include "engine/run.h"
#include "engine/spawn.h"
#include "engine/watch.h"

/* Version 1 groups are not delegated to ordinary users; see the engine's run.c. */
static bool wants_groups(const struct spec *s, bool v1)
{
	return !v1 || geteuid() == 0 || (s->required & LAYERS_LIMITS);
}

/* Control groups for the limits, as far as they can be had.  -errno with err when one
 * that was asked for cannot. */
static int make_limits(struct tree *t, bool v1, struct brig_error *err)
{
	const struct spec *s = t->job->spec;
	struct cgroup_want want = { .memory = s->limits.memory,
				    .pids = s->limits.pids,
				    .cpu_milli = s->limits.cpu_milli };

	if (t->job->nproc_inside && !(s->as_root && (s->asked & LAYER_BIT(LAYER_PIDS))))
		t->nproc = watch_nproc(s->limits.pids, s->nested);
	if (t->nproc)
		want.pids = 0;
	if (!wants_groups(s, v1))
		return 0;
	want.asked = (s->required & LAYER_BIT(LAYER_MEMORY) ? CG_MEMORY : 0u) |
		     (s->required & LAYER_BIT(LAYER_CPU) ? CG_CPU : 0u) |
		     (s->required & LAYER_BIT(LAYER_PIDS) ? CG_PIDS : 0u);
	int r = cgroup_prepare(&t->cg, &want, s->id, err);
	return r < 0 ? r : watch_limits(s, &t->cg, t->nproc, err);
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

/* A terminal of the host's devpts: brig's own, but with a name outside. */
static int make_terminal(struct tree *t)
{
	int unlock = 0;
	int m = openat(AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (m < 0)
		return -errno;
	t->term.pty = m;
	if (ioctl(m, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	int slave = ioctl(m, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	t->ends.stdio[0] = t->ends.stdio[1] = t->ends.stdio[2] = slave;
	return 0;
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
	int sv[2], on = 1, r = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, errno, "prepare", "descriptors");
	t->ctl = sv[0];
	t->ends.ctl = sv[1];
	/* the kernel tells who sent a message, in our own pid numbers */
	if (setsockopt(t->ctl, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
		r = -errno;
	if (r == 0)
		r = make_pipe(&t->note_read, &t->note_write);
	if (r == 0 && t->job->gate) {
		r = fd_pipe_from_command(&t->say_read, &t->ends.say);
		if (r == 0)
			r = make_pipe(&t->status_read, &t->ends.status);
		if (r == 0)
			r = make_pipe(&t->ends.death, &t->death_write);
	}
	t->born_ctl = t->ctl;
	t->born_death = t->death_write;
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

_Static_assert((int)WIRE_GROUPS_MAX >= (int)CG_MAX_DIRS, "the gate takes all groups");

/* How much memory may be lent out: what is killed for want of memory takes along all
 * that share it, and the keeper should not be a part of the largest process around. */
#define LEND_MAX (32ull << 20)

static bool is_small(void)
{
	char text[128];
	unsigned long long pages;
	long size = sysconf(_SC_PAGESIZE);
	struct rusage ru;

	/* The most it ever was, or whoever executed us: mostly little enough. */
	if (getrusage(RUSAGE_SELF, &ru) == 0 && ru.ru_maxrss > 0 &&
	    (unsigned long long)ru.ru_maxrss < LEND_MAX >> 10)
		return true;
	return fd_read_at(AT_FDCWD, "/proc/self/statm", text, sizeof text) > 0 &&
	       sscanf(text, "%*u %llu", &pages) == 1 && size > 0 &&
	       pages < LEND_MAX / (unsigned long long)size;
}

/*
 * Who borrows what.  As root the command's process takes another user's id, without a
 * user namespace between: what that user may do to a process of his own would concern
 * our memory and our table of descriptors, and kernels have let him do more than they
 * should (CVE-2026-46333: to take descriptors of one that is dying).  So it gets neither.
 * Else the memory has to be as open as that process will be, which our supervisor of the
 * same user looks at (die_with_keeper()): what a program around us has closed stays closed.
 */
static void decide_sharing(struct tree *t)
{
	const struct spec *s = t->job->spec;

	t->share = (!s->limits.memory || s->limits.memory >= SPAWN_SHARE_MEMORY) &&
		   !(t->job->sandbox && s->as_root) &&
		   prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
	/* the keeper keeps our id, and is in no group */
	t->borrowed = spawn_may_share(0) && is_small();
	t->job->beside = t->borrowed;
}

/* The plan; from now on there may be something to settle. */
static int make_plan(struct tree *t, struct brig_error *err)
{
	int r = t->job->plan ? t->job->plan(t->job->arg, t->job, err) : 0;

	if (r == 0)
		__atomic_store_n(&t->planned, true, __ATOMIC_RELEASE);
	return r;
}

static int offer(struct tree *t, struct brig_error *err)
{
	if (!t->job->offer)
		return 0;
	int fd = t->job->offer(t->job->arg, err);
	if (fd < 0)
		return fd;
	t->offered = fd;
	return 0;
}

static int feed(struct tree *t, struct brig_error *err)
{
	return t->job->feed ? t->job->feed(t->job->arg, t->job, err) : 0;
}

/* What a keeper that is a copy of us has to find already made.  And fed: it would hold
 * the other ends open. */
static int make_before(struct tree *t, bool limits, struct brig_error *err)
{
	int r = t->planned ? 0 : make_plan(t, err);

	if (r == 0)
		r = offer(t, err);
	if (r == 0)
		r = feed(t, err);
	return r == 0 && limits ? make_limits(t, cgroup_is_v1(), err) : r;
}

static int prepare(struct tree *t, struct brig_error *err)
{
	int r = run_check_stdio(&t->term, err);

	if (r < 0)
		return r;
	/* a sandbox program of the system's is no script of the caller's */
	t->script_argv = t->job->gate ? NULL : exec_script_argv(t->job->argv);
	if ((!t->script_argv && !t->job->gate) ||
	    spawn_rooms_make(&t->rooms, TREE_ROOMS) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "arguments");
	r = signals_take(&t->sig);
	if (r < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -r, "prepare", "signals");
	decide_sharing(t);
	/* A process enters a version 1 group by itself, at any time. */
	const bool v1 = cgroup_is_v1();
	t->late_limits = t->borrowed && v1 && wants_groups(t->job->spec, true);
	/* a caller's profile, which is loaded before the gate, need not let it receive them */
	t->job->groups_inside = t->job->gate && t->late_limits && !t->job->spec->seccomp;
	/* An ordinary user who asks for a limit may get it from systemd, which moves us, and
	 * nobody else, into a scope; who is not in there cannot clone into it. */
	t->group_first = t->borrowed && !v1 &&
			 (geteuid() == 0 || !(t->job->spec->required & LAYERS_LIMITS));
	if (!t->borrowed)
		r = make_before(t, true, err);
	else if (t->job->plan_first || !t->share)
		r = make_plan(t, err);
	if (r == 0 && t->borrowed && !t->late_limits && !t->group_first)
		r = make_limits(t, v1, err);
	return r == 0 ? make_channels(t, err) : r;
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

/* A record for the command's process.  If that is gone it has said why, in the socket. */
static int hand_over(struct tree *t, enum wire_type type, const int *fds, size_t n,
		     struct brig_error *err)
{
	const struct wire w = { .type = type };
	int r = wire_send(t->ctl, &w, fds, n);

	return r < 0 && r != -EPIPE && r != -ECONNRESET ?
		       err_set(err, BRIG_E_SETUP_FAILED, -r, "setup",
			       "handing over descriptors") : 0;
}

static int make_groups(struct tree *t, struct brig_error *err)
{
	int r = make_limits(t, true, err);

	return r < 0 ? r : hand_over(t, WIRE_GROUPS, t->cg.task_fds,
				     (size_t)t->cg.n_task_fds, err);
}

/* Beside the command's process, which takes away from itself what it can meanwhile.
 * From the keeper's start on whatever is made here is cleaned up. */
static int make_the_rest(struct tree *t, struct brig_error *err)
{
	int r = 0;

	if (t->group_first) {
		/* What ends our process group must not end the keeper before the group is made,
		 * and with it the one who would remove that. */
		tree_await_office(t);
		r = make_limits(t, false, err);
		t->group_failed = r < 0;
		word_set(&t->group_done);
	}
	if (r == 0 && !t->planned)
		r = make_plan(t, err);
	if (r == 0)
		r = offer(t, err);
	/* in its table already, or not */
	if (r == 0 && t->share)
		r = hand_over(t, WIRE_GIVEN, NULL, 0, err);
	else if (r == 0 && t->offered >= 0)
		r = hand_over(t, WIRE_GIVEN, &t->offered, 1, err);
	const bool inside = t->job->groups_inside;
	if (r == 0 && t->late_limits && !inside)
		r = make_groups(t, err);
	if (r == 0)
		r = feed(t, err);
	return r == 0 && inside ? make_groups(t, err) : r;
}

/* What ours is compared with: only a sandbox program makes namespaces, and where
 * nobody's filter is around us there are none to count. */
static int read_own(struct tree *t, struct brig_error *err)
{
	struct evidence *ev = &t->res->evidence;

	ev->nested = t->job->spec->nested;
	if (t->job->gate || prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0)
		evidence_read_own(ev);
	else
		ev->seccomp_filters_own = 0;
	(void)err; return 0;
}

/* Before it is shared. */
static void grow_table(const struct tree *t)
{
	/* than what we, the keeper and the command's process open */
	const size_t more = 44 + 2 * t->job->spec->n_binds;

	fd_make_room(t->note_write, (unsigned)t->note_write + (unsigned)more);
}

bool tree_no_clone3(pid_t pid)
{
	return pid == -ENOSYS || pid == -EPERM;
}

/* Where filters of container managers do not let clone3() pass, whose flags they cannot
 * see: a copy, made by the oldest call there is. */
static int fork_keeper(struct tree *t, struct brig_error *err)
{
	int r = 0;

	if (t->borrowed) {
		bool limits = t->late_limits || t->group_first;
		t->borrowed = t->late_limits = t->group_first = t->job->beside = false;
		r = make_before(t, limits, err);
	}
	if (r < 0)
		return r;
	t->keeper = fork();
	if (t->keeper == 0)
		_exit(keeper_main(t));
	if (t->keeper < 0)
		return err_set(err, BRIG_E_NO_MEMORY, errno, "clone", "the keeper");
	t->keeper_pidfd = sys_pidfd_open(t->keeper);
	if (t->keeper_pidfd >= 0)
		return 0;
	r = err_set(err, BRIG_E_NO_MEMORY, errno, "clone", "the keeper");
	kill(t->keeper, SIGKILL); /* not reaped: it is still the one */
	return r;
}

/*
 * The keeper.  It borrows our memory and our table of descriptors, as nothing of either
 * has to be copied then, and as it sees the moment we name it what it would have to
 * clean up.  When that is not possible it is a copy of us, and what it needs to know is
 * made before it.
 */
static int make_keeper(struct tree *t, struct brig_error *err)
{
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .pidfd = (uintptr_t)&t->keeper_pidfd,
				   .flags = CLONE_PIDFD };

	if (t->borrowed) {
		args.flags |= CLONE_VM | CLONE_FILES;
		grow_table(t);
	}
	pid_t pid = spawn(&args, &t->rooms, ROOM_KEEPER, keeper_main, t);
	if (tree_no_clone3(pid))
		return fork_keeper(t, err);
	if (pid < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -pid, "clone", "the keeper");
	t->keeper = pid;
	/* The kernel mostly puts it behind us on the same processor, where it would start
	 * the command's process, which goes to another, when we have nothing more to do. */
	if (t->borrowed)
		sched_yield();
	return 0;
}

static int start(struct tree *t, struct brig_error *err)
{
	t->self = getpid();
	if (t->self <= 0) /* a filter's answer: the keeper would take itself for an orphan */
		return err_set(err, BRIG_E_SETUP_FAILED, EPERM, "clone", "our own pid");
	if (prctl(PR_GET_CHILD_SUBREAPER, &t->old_subreaper, 0, 0, 0) < 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, BRIG_E_KERNEL_TOO_OLD, errno, "clone",
			       "taking over orphans");
	int r = make_keeper(t, err);
	if (r < 0)
		return r;
	if (t->borrowed) {
		if (make_the_rest(t, err) < 0)
			tree_end(t);
	} else {
		/* end of file must mean that the other side closed them */
		tree_close_ends(&t->ends);
		fd_close(&t->note_write);
		/* what the gate was told it would get has been done outside */
		if (t->job->groups_inside && hand_over(t, WIRE_GROUPS, NULL, 0, err) < 0)
			tree_end(t);
	}
	if (!t->ending && read_own(t, err) < 0)
		tree_end(t);
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
	t->held = COLLECT_NONE;
	int *const none[] = {
		&t->self, &t->keeper, &t->ready_pid, &t->read_pid, &t->old_subreaper,
		&t->ends.ctl, &t->ends.say, &t->ends.status, &t->ends.death,
		&t->ends.stdio[0], &t->ends.stdio[1], &t->ends.stdio[2], &t->ctl,
		&t->note_read, &t->note_write, &t->out_read, &t->err_read, &t->say_read,
		&t->status_read, &t->death_write, &t->term.pty, &t->term.pty_slave,
		&t->keeper_pidfd, &t->ready_pidfd, &t->listener, &t->offered,
	};
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		*none[i] = -1;
	t->t_start = now_ns();
	cgroup_init(&t->cg);
	capture_init(&res->out, s->limits.max_output);
	capture_init(&res->err, s->limits.max_output);
	t->term.capture = s->capture ? &res->out : NULL;
	if (s->name && !res->name)
		res->name = strdup(s->name);
	if (prepare(t, &res->error) == 0 && start(t, &res->error) == 0)
		tree_watch(t);
	if (!tree_finish(t))
		return;
	spawn_rooms_free(&t->rooms);
	free(t->script_argv);
	free(t);
}
