/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run from spec to result: prepare, start (start.c), supervise, clean up.
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
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/diagnose.h"
#include "engine/egress.h"
#include "confine/exec.h"
#include "confine/landlock.h"
#include "engine/run_internal.h"

static void prepare_filter(struct run *r)
{
	const struct spec *s = r->l.spec;

	r->l.filter = s->seccomp ? s->seccomp : seccomp_default(true);
	int abi = landlock_abi();
	/* Absent Landlock is not decided here: the evidence will not show it,
	 * and if it is required the command is not released. */
	r->l.landlock_abi = abi > 0 ? abi : 0;
}

/*
 * Standard input, output and error are the one thing of the caller's that the
 * command gets as it is.  A directory there (or a bare path descriptor) would be
 * a way out: names can be looked up from it.
 */
int run_check_stdio(struct terminal *t, struct brig_error *err)
{
	static const char *const names[] = { "input", "output", "error" };
	struct stat in = { 0 };

	for (int fd = 0; fd < 3; fd++) {
		struct stat st;
		int flags = fcntl(fd, F_GETFL);
		if (flags < 0 || fstat(fd, &st) < 0)
			return err_set(err, BRIG_E_BAD_FD, errno, "prepare",
				       "standard %s", names[fd]);
		if (caller_tty_maybe(st.st_mode, st.st_rdev))
			t->caller.streams |= 1u << fd;
		if (fd == STDIN_FILENO && (flags & O_ACCMODE) != O_RDONLY)
			in = st;
		/* a terminal may have two names (/dev/tty) */
		if (fd == STDOUT_FILENO && in.st_mode)
			t->two_way = (t->caller.streams & 3) == 3 ||
				     (in.st_dev == st.st_dev && in.st_ino == st.st_ino);
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

/*
 * The same file, and its own place in it, without the right to write.  The one it is made of
 * may be the multiplexer of terminals, which would make another.  -errno.
 */
static int open_to_read(const struct stat *was)
{
	static const char self[] = "/proc/self/fd/0";
	const dev_t multiplexer = makedev(5, 2);
	struct stat st;

	if (S_ISCHR(was->st_mode) && was->st_rdev == multiplexer)
		return -ENXIO;
	/* it waits neither for a line nor, as a FIFO, for who writes: that is us */
	cleanup_close int fd = openat(AT_FDCWD, self,
				      O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != was->st_dev || st.st_ino != was->st_ino)
		return -ESTALE;
	if (S_ISREG(st.st_mode))
		lseek(fd, lseek(STDIN_FILENO, 0, SEEK_CUR), SEEK_SET);
	return fcntl(fd, F_SETFL, 0) < 0 ? -errno : take_fd(&fd);
}

int run_input_to_read(const struct terminal *t, int *fd, struct brig_error *err)
{
	struct stat was;

	/* a socket cannot be opened again, and is what some callers have for both */
	if (!t->two_way || fstat(STDIN_FILENO, &was) < 0 || S_ISSOCK(was.st_mode))
		return 0;
	/* what cannot be read gives nothing, as before */
	bool readable = (fcntl(STDIN_FILENO, F_GETFL) & O_ACCMODE) == O_RDWR;
	*fd = readable ? open_to_read(&was) :
			 openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);
	if (*fd >= 0)
		return 0;
	int e = readable ? -*fd : errno;
	*fd = -1;
	err_set(err, BRIG_E_BAD_FD, e, "prepare",
		"standard input can be written to, is standard output, too, and cannot be "
		"opened for reading only: the command could write a result object there");
	err_fix(err, "redirect it: </dev/null, for one");
	return -e;
}

static int prepare(struct run *r, const struct spec *s, struct brig_error *err)
{
	struct launch *l = &r->l;
	int e = run_check_stdio(&r->term, err);

	if (e < 0)
		return e;
	l->spec = s;
	l->cg = &r->cg;
	l->script_argv = exec_script_argv(s->argv);
	if (!l->script_argv)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the launch");
	e = signals_take(&r->sig);
	if (e < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -e, "prepare", "signals");
	prepare_filter(r);
	if (s->net != NET_ALLOW)
		return 0;
	r->egress = malloc(sizeof *r->egress);
	e = r->egress ? egress_init(r->egress, s, err) :
			err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the allow-list");
	if (e < 0) {
		free(r->egress);
		r->egress = NULL;
	}
	return e;
}

/* Reaps pid 1 (and by it everything inside) and takes its usage. */
static void reap(struct run *r)
{
	struct rusage ru = { 0 };
	int st;

	if (r->init <= 0)
		return;
	if (!r->init_gone)
		run_kill(r);
	while (wait4(r->init, &st, 0, &ru) < 0 && errno == EINTR)
		;
	watch_cpu((uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
			  (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec), r->res);
	if (!r->res->max_rss_kb) /* the group's own peak is the better number */
		r->res->max_rss_kb = (uint64_t)ru.ru_maxrss;
}

void run_settle(struct run *r)
{
	struct brig_result *res = r->res;

	if (r->settled)
		return;
	r->settled = true;
	/* Every process inside but init is reaped, or there is nothing to judge. */
	if (r->ran)
		watch_sweep(&r->plan.protect, r->l.spec->workspace.fd, r->mntns, 0, res);
	/* Init is on its way out, and takes the mounts apart when nobody else has them. */
	fd_close(&r->mntns);
	if (r->cg.version != 2) /* there is nothing left to clean */
		janitor_dismiss(&r->janitor);
	if (!r->ran)
		return;
	watch_account(&r->cg, res);
	notify_report(r->refused, res);
}

static void finish(struct run *r)
{
	struct brig_result *res = r->res;

	reap(r);
	r->t_end = now_ns();
	if (r->egress)
		egress_end(r->egress, res);
	free(r->egress);
	run_settle(r);
	if (r->ran)
		res->wall_ms = (double)(r->t_end - r->t_release) / 1e6;
	cgroup_close(&r->cg);
	cgroup_remove(&r->cg);
	janitor_reap(&r->janitor);
	free(r->l.script_argv);
	root_release(&r->l.root);
	if (r->planned)
		plan_free(&r->plan);
	int *fds[] = { &r->l.ctl_child, &r->l.ctl_supervisor, &r->l.status_read,
		       &r->l.status_write, &r->l.death_read, &r->l.death_write,
		       &r->l.stdio[0], &r->l.stdio[1], &r->l.stdio[2], &r->init_pidfd,
		       &r->job_pidfd, &r->mntns, &r->listener, &r->out_read, &r->err_read,
		       &r->term.pty, &r->term.pty_slave };
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_close(fds[i]);
	signals_restore(&r->sig);
}

void engine_run(const struct spec *s, struct brig_result *res)
{
	struct run *r = calloc(1, sizeof *r); /* too large for a small stack */
	if (!r) {
		err_set(&res->error, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "a run");
		return;
	}
	r->res = res;
	r->sig = SIGNALS_NONE;
	r->init = r->job = r->janitor.pid = -1;
	int *const none[] = { &r->janitor.sock, &r->init_pidfd, &r->job_pidfd, &r->mntns,
			      &r->listener, &r->out_read, &r->err_read, &r->term.pty,
			      &r->term.pty_slave, &r->l.ctl_child, &r->l.ctl_supervisor,
			      &r->l.status_read, &r->l.status_write, &r->l.death_read,
			      &r->l.death_write, &r->l.stdio[0], &r->l.stdio[1],
			      &r->l.stdio[2] };
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		*none[i] = -1;
	r->t_start = now_ns();
	cgroup_init(&r->cg);
	capture_init(&res->out, s->limits.max_output);
	capture_init(&res->err, s->limits.max_output);
	r->term.capture = s->capture ? &res->out : NULL;
	res->learning = s->learn;
	if (s->name)
		res->name = strdup(s->name);
	if (prepare(r, s, &res->error) == 0 && run_start(r, &res->error) == 0)
		supervise(r);
	finish(r);
	free(r);
}
