/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor of a process tree: preparation, end and account. */
#include "backend/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "backend/tree_watch.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/collect.h"
#include "engine/diagnose.h"
#include "engine/exec.h"
#include "engine/run.h"
#include "engine/watch.h"

int tree_check_ids(const struct spec *s, const char *backend, struct brig_error *err)
{
	if (!s->idmapped && !(s->as_root && s->host_uid == 0))
		return 0;
	/* Without an id-mapped mount, whoever may write what belongs to root has
	 * to be root, and that is what a sandbox must not be. */
	err_set(err, BRIG_E_BAD_WORKSPACE, 0, "ids",
		"the workspace belongs to root, and the %s backend cannot show it to "
		"anybody else", backend);
	err_fix(err, "give it to an ordinary user (chown -R USER DIR), or use "
		     "--backend native");
	return -EPERM;
}

static int cannot(struct brig_error *err, const char *backend, const char *what,
		  const char *fix)
{
	err_set(err, BRIG_E_UNSUPPORTED, 0, "backend", "the %s backend cannot %s",
		backend, what);
	err_fix(err, "%s, or use --backend native", fix);
	return -EOPNOTSUPP;
}

int tree_check_places(const struct spec *s, const char *backend,
		      struct brig_error *err)
{
	if (!streq(s->workspace.src, s->workspace.dst))
		return cannot(err, backend, "show the workspace at another place",
			      "leave --at out");
	for (size_t i = 0; i < s->n_binds; i++)
		/* what a preset found may have two names; one of them will do */
		if (!streq(s->binds[i].src, s->binds[i].dst) && !s->binds[i].tool)
			return cannot(err, backend,
				      "show a file or tree under another name",
				      "name it by its real path, without :DST");
	return 0;
}

int tree_check_open(const struct spec *s, const char *backend, struct brig_error *err)
{
	int r = tree_check_places(s, backend, err);

	if (r < 0)
		return r;
	if (s->masks && s->masks[0])
		return cannot(err, backend, "hide a path (--mask)", "leave --mask out");
	if (!s->workspace.writable)
		return cannot(err, backend, "keep the workspace read-only (access: ro)",
			      "leave it out");
	if (s->seccomp)
		return cannot(err, backend, "apply a system-call profile (--seccomp)",
			      "leave --seccomp out");
	for (size_t i = 0; i < s->n_binds; i++)
		if (!s->binds[i].writable && !s->binds[i].tool)
			return cannot(err, backend, "keep a tree read-only (--ro)",
				      "leave --ro out");
	if (s->net == NET_ALLOW)
		return cannot(err, backend, "keep to a network allow-list",
			      "leave --allow out");
	return 0;
}

int tree_exec_paths(char **argv, char **env, char ***paths)
{
	const char *name = argv[0], *path = "/usr/bin:/bin";

	if (strchr(name, '/'))
		return strv_add(paths, name);
	for (char **e = env; e && *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	for (;;) {
		size_t n = strcspn(path, ":");
		/* never the working directory: the workspace is hostile */
		if (n > 0 && path[0] == '/') {
			int r = strv_take(paths, str_fmt("%.*s/%s", (int)n, path, name));
			if (r < 0)
				return r;
		}
		if (!path[n] && *paths)
			return 0;
		path = path[n] ? path + n + 1 : "/usr/bin:/bin";
	}
}

/* Version 1 groups are not delegated to ordinary users; see the engine's run.c. */
int tree_limits(struct tree *t, struct brig_error *err)
{
	const struct spec *s = t->job->spec;
	struct cgroup_want want = { .memory = s->limits.memory,
				    .pids = s->limits.pids,
				    .cpu_milli = s->limits.cpu_milli };
	bool v1 = cgroup_is_v1();

	if (t->job->nproc_inside && s->limits.pids && kernel_at_least(5, 14) &&
	    !(s->as_root && (s->asked & LAYER_BIT(LAYER_PIDS)))) {
		t->nproc = s->limits.pids;
		want.pids = 0;
	}
	if (v1 && geteuid() != 0 && !(s->required & LAYERS_LIMITS)) {
		snprintf(t->cg.why, sizeof t->cg.why,
			 "version 1 control groups are not delegated to ordinary users");
		return 0;
	}
	want.asked = (s->required & LAYER_BIT(LAYER_MEMORY) ? CG_MEMORY : 0u) |
		     (s->required & LAYER_BIT(LAYER_CPU) ? CG_CPU : 0u) |
		     (s->required & LAYER_BIT(LAYER_PIDS) ? CG_PIDS : 0u);
	int r = cgroup_prepare(&t->cg, &want, s->id, err);
	return r < 0 ? r : watch_limits(s, &t->cg, t->nproc, err);
}

static int pair(int *ours, int *theirs)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	*ours = sv[0];
	*theirs = sv[1];
	return 0;
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
	t->stdio[0] = t->stdio[1] = t->stdio[2] = slave;
	return 0;
}

/* What the command may open again by name (/dev/stdout) has to be its own. */
static int give_streams(const struct tree *t)
{
	const struct spec *s = t->job->spec;

	if (!s->as_root || !t->job->sandbox)
		return 0;
	for (int i = 0; i < 3; i++)
		if (t->stdio[i] >= 0 &&
		    fchown(t->stdio[i], s->host_uid, s->host_gid) < 0)
			return -errno;
	return 0;
}

static int make_channels(struct tree *t, struct brig_error *err)
{
	const struct spec *s = t->job->spec;
	int on = 1;
	int r = pair(&t->ctl, &t->ctl_child);

	if (r == 0)
		r = pair(&t->keep, &t->keep_child);
	/* the kernel tells who sent a message, in our own pid numbers */
	if (r == 0 && setsockopt(t->ctl, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
		r = -errno;
	if (r == 0 && t->job->gate) {
		r = make_pipe(&t->say_read, &t->say_write);
		if (r == 0)
			r = make_pipe(&t->status_read, &t->status_write);
		if (r == 0)
			r = make_pipe(&t->death_read, &t->death_write);
	}
	if (r == 0 && s->pty) {
		r = make_terminal(t);
	} else if (r == 0 && s->capture) {
		r = make_pipe(&t->out_read, &t->stdio[1]);
		if (r == 0)
			r = make_pipe(&t->err_read, &t->stdio[2]);
	}
	if (r == 0)
		r = give_streams(t);
	return r < 0 ? err_set(err, BRIG_E_NO_MEMORY, -r, "prepare", "descriptors") : 0;
}

static int prepare(struct tree *t, struct brig_error *err)
{
	int r = run_check_stdio(err);

	if (r < 0)
		return r;
	t->script_argv = exec_script_argv(t->job->argv);
	if (!t->script_argv)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "arguments");
	r = signals_take(&t->sig);
	if (r < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -r, "prepare", "signals");
	r = tree_limits(t, err);
	return r == 0 ? make_channels(t, err) : r;
}

static int start(struct tree *t, struct brig_error *err)
{
	if (prctl(PR_GET_CHILD_SUBREAPER, &t->old_subreaper, 0, 0, 0) < 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, BRIG_E_KERNEL_TOO_OLD, errno, "clone",
			       "taking over orphans");
	pid_t self = getpid();
	pid_t pid = fork();
	if (pid < 0)
		return err_set(err, BRIG_E_NO_MEMORY, errno, "clone", "the keeper");
	if (pid == 0)
		keeper_main(t, self);
	t->keeper = pid;
	t->keeper_pidfd = sys_pidfd_open(pid);
	/* Our copies of the other ends: end of file must mean they closed them. */
	fd_close(&t->ctl_child);
	fd_close(&t->keep_child);
	fd_close(&t->say_write);
	fd_close(&t->status_write);
	fd_close(&t->death_read);
	if (t->stdio[1] == t->stdio[0])
		t->stdio[1] = t->stdio[2] = -1;
	for (int i = 0; i < 3; i++)
		fd_close(&t->stdio[i]);
	if (t->keeper_pidfd < 0)
		return err_set(err, BRIG_E_KERNEL_TOO_OLD, errno, "clone",
			       "a descriptor of the keeper");
	t->res->evidence.nested = t->job->spec->nested;
	evidence_read_own(&t->res->evidence);
	if (t->job->drop)
		fd_close(t->job->drop);
	return 0;
}

void tree_settle(struct tree *t, struct brig_result *res)
{
	const struct tree_job *job = t->job;

	if (job->protect)
		watch_sweep(job->protect, job->spec->workspace.fd, res);
	if (job->settle)
		job->settle(job->arg, res);
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

/* A keeper that was dismissed and had not ended yet: reaped by the next run, or
 * by init when this process ends.  At most one. */
static pid_t leaving = -1;

static void reap_leaving(void)
{
	if (leaving > 0)
		while (waitpid(leaving, NULL, 0) < 0 && errno == EINTR)
			;
	leaving = -1;
}

/* It has nothing left to do but to end, which nobody need wait for. */
static void dismiss_keeper(struct tree *t)
{
	const char bye = KEEPER_DISMISS;

	if (t->keeper <= 0)
		return;
	(void)!send(t->keep, &bye, 1, MSG_NOSIGNAL);
	if (waitpid(t->keeper, NULL, WNOHANG) == 0)
		leaving = t->keeper;
}

static void finish(struct tree *t)
{
	struct brig_result *res = t->res;

	if (t->keeper > 0)
		take_over(t);
	t->t_end = now_ns();
	if (t->job->egress)
		egress_end(t->job->egress, res);
	/* No process refers to it any more. */
	collect_later(&t->mntns);
	fd_close(&t->mntns);
	if (!t->settled)
		tree_settle(t, res);
	if (t->released) {
		watch_account(&t->cg, res);
		notify_report(t->refused, res);
		res->wall_ms = (double)(t->t_end - t->t_release) / 1e6;
	}
	if (t->left)
		result_deny(res, "process", "left over",
			    "processes of this run could not be ended: another user's, "
			    "or stuck in the kernel", "look for them and end them",
			    (uint64_t)t->left);
	cgroup_remove(&t->cg);
	dismiss_keeper(t);
	cgroup_close(&t->cg);
	free(t->script_argv);
	if (t->stdio[1] == t->stdio[0])
		t->stdio[1] = t->stdio[2] = -1;
	int *fds[] = { &t->ctl, &t->ctl_child, &t->keep, &t->keep_child, &t->out_read,
		       &t->err_read, &t->say_read, &t->say_write, &t->status_read,
		       &t->status_write, &t->death_read, &t->death_write, &t->stdio[0],
		       &t->stdio[1], &t->stdio[2], &t->term.pty, &t->term.pty_slave,
		       &t->keeper_pidfd, &t->ready_pidfd,
		       &t->listener };
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_close(fds[i]);
	if (t->old_subreaper == 0)
		prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	signals_restore(&t->sig);
}

void tree_run(const struct tree_job *job, struct brig_result *res)
{
	struct tree *t = malloc(sizeof *t); /* too large for a small stack */
	const struct spec *s = job->spec;

	if (!t) {
		err_set(&res->error, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "a run");
		return;
	}
	*t = (struct tree){
		.job = job, .res = res, .ctl = -1, .ctl_child = -1, .keep = -1,
		.keep_child = -1, .out_read = -1, .err_read = -1, .say_read = -1,
		.say_write = -1, .status_read = -1, .status_write = -1,
		.death_read = -1, .death_write = -1, .stdio = { -1, -1, -1 },
		.term = { .pty = -1, .pty_slave = -1 }, .keeper = -1,
		.keeper_pidfd = -1,
		.ready_pid = -1, .ready_pidfd = -1, .listener = -1, .mntns = -1, .sig = SIGNALS_NONE, .old_subreaper = -1,
	};
	t->t_start = now_ns();
	reap_leaving();
	cgroup_init(&t->cg);
	capture_init(&res->out, s->limits.max_output);
	capture_init(&res->err, s->limits.max_output);
	t->term.capture = s->capture ? &res->out : NULL;
	if (s->name && !res->name)
		res->name = strdup(s->name);
	if (prepare(t, &res->error) == 0 && start(t, &res->error) == 0)
		tree_watch(t);
	finish(t);
	free(t);
}
