/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's process, from its birth to execve.  No allocation and no
 * stdio: everything was prepared before, and what fails is told in one record
 * of fixed size.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "base/fd.h"
#include "base/raw.h"
#include "base/str.h"
#include "base/sys.h"
#include "confine/caps.h"
#include "confine/exec.h"
#include "confine/ids.h"
#include "confine/rlimits.h"

void tree_fail_text(char *to, size_t cap, const char *from)
{
	size_t n = strlen(from);

	if (n >= cap)
		n = cap - 1;
	memcpy(to, from, n);
	to[n] = '\0';
}

static void fail(const struct tree *t, enum brig_code code, int errnum,
		 const char *phase, const char *what) __attribute__((noreturn));
static void fail(const struct tree *t, enum brig_code code, int errnum,
		 const char *phase, const char *what)
{
	struct wire w = { .type = WIRE_FAIL, .code = code, .errnum = errnum };

	tree_fail_text(w.phase, sizeof w.phase, phase);
	tree_fail_text(w.what, sizeof w.what, what);
	(void)!write(t->ends.ctl, &w, sizeof w);
	exec_leave(125);
}

/*
 * Closes the descriptors that brig inherited from its caller, before this process takes
 * another user's id: that user may kill it, and kernels have let the owner of a dying
 * process take its descriptors (CVE-2026-46333).  Brig's own are close-on-exec; the
 * caller's are not.
 */
static void close_callers(const struct tree *t)
{
	char buf[1024] __attribute__((aligned(8)));
	cleanup_close int dir = openat(AT_FDCWD, "/proc/self/fd",
				       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (dir < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "/proc/self/fd");
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof buf)) > 0)
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			int fd = atoi(d->name); /* 0 for . and .. */
			if (fd > 2 && fcntl(fd, F_GETFD) == 0 && close(fd) < 0)
				fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "a descriptor");
			at += d->len;
		}
	if (n < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "/proc/self/fd");
}

static void take_stdio(const struct tree *t)
{
	for (int i = 0; i < 3; i++)
		if (t->ends.stdio[i] >= 0 && dup2(t->ends.stdio[i], i) < 0)
			fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "stdio");
	if (t->job->spec->pty && ioctl(0, TIOCSCTTY, 0) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "pty", "the controlling terminal");
}

static void set_limits(const struct tree *t)
{
	/* 1, not 0: a core handler that is a pipe ignores 0 */
	int r = rlimit_lower(RLIMIT_CORE, 1);

	if (r == 0)
		r = rlimit_lower(RLIMIT_FSIZE, t->job->spec->limits.file_size);
	if (r < 0)
		fail(t, BRIG_E_SETUP_FAILED, -r, "limits", "RLIMIT_CORE, RLIMIT_FSIZE");
}

/* Whether this process can fork when its user may have so many processes.  -errno when that
 * cannot be told. */
static int may_fork(rlim_t many, rlim_t max)
{
	const struct rlimit lim = { many, max };
	long got;

	if (prlimit(0, RLIMIT_NPROC, &lim, NULL) < 0)
		return -errno;
	long pid = SYS5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		die(0);
	if (pid < 0)
		return pid == -EAGAIN ? 0 : (int)pid;
	do
		got = SYS4(SYS_wait4, pid, NULL, __WALL, NULL);
	while (got == -EINTR);
	return 1;
}

/* The smallest limit with which this process can fork, up to max: one more than the user has
 * processes.  0 when there is none, or none that is ever refused.  -errno. */
static int find_count(rlim_t max, rlim_t *count)
{
	enum { TASKS_MAX = 1 << 22 }; /* of a kernel */
	rlim_t refused = 0, fine = 1;
	int r;

	*count = 0;
	while ((r = may_fork(fine, max)) == 0 && fine < max && fine <= TASKS_MAX) {
		refused = fine;
		fine = fine * 2 < max ? fine * 2 : max;
	}
	/* something else refuses, or this user is not held by it */
	if (r <= 0 || !refused)
		return r;
	while (fine - refused > 1) {
		const rlim_t middle = refused + (fine - refused) / 2;
		r = may_fork(middle, max);
		if (r < 0)
			return r;
		*(r ? &fine : &refused) = middle;
	}
	*count = fine;
	return 0;
}

/*
 * The limit on processes where no group holds it.  The kernel counts all processes of the user
 * for it, and in a container most of them may be hidden from us: so it is asked, by trying,
 * how many there are.  What the user starts later counts, too, so a limit that nobody named
 * leaves room for it.  The evidence is the limit that the supervisor reads back.
 */
static void limit_processes(const struct tree *t, struct wire *ready)
{
	enum { ROOM = 1024 };
	const struct spec *s = t->job->spec;
	const bool named = s->asked & LAYER_BIT(LAYER_PIDS);
	const rlim_t pids = named || s->limits.pids > ROOM ? s->limits.pids : ROOM;
	struct rlimit old;
	rlim_t count;

	if (prlimit(0, RLIMIT_NPROC, NULL, &old) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "limits", "RLIMIT_NPROC");
	int r = find_count(old.rlim_max, &count);
	if (r < 0)
		fail(t, BRIG_E_SETUP_FAILED, -r, "limits", "counting the user's processes");
	if (count) {
		/* with `count` there is room for one more, and one of them is this process */
		const rlim_t all = count - 2 + pids;
		old.rlim_cur = old.rlim_max = all < old.rlim_max ? all : old.rlim_max;
		ready->nproc = (int32_t)old.rlim_max;
	}
	if (prlimit(0, RLIMIT_NPROC, &old, NULL) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "limits", "RLIMIT_NPROC");
}

/* Root of a container may lack the right to; with no_new_privs the set gives nothing to
 * anybody, and the evidence is asked. */
static void drop_bounding_set(const struct tree *t)
{
	for (int cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	if (errno != EINVAL && errno != EPERM) /* EINVAL: past the last one there is */
		fail(t, BRIG_E_CAPS_FAILED, errno, "caps", "bounding set");
}

/* Root becomes the owner of the workspace, for good; whoever we are, no
 * capability stays and none comes back. */
static void drop_privileges(const struct tree *t)
{
	const struct spec *s = t->job->spec;
	int r = ids_own_keyring();

	/* containers refuse the call */
	if (r < 0 && r != -EPERM)
		fail(t, BRIG_E_SETUP_FAILED, -r, "keyring", "a session keyring");
	if (s->as_root) {
		drop_bounding_set(t); /* as long as we may */
		r = ids_become(s->host_uid, s->host_gid, true);
		if (r < 0)
			fail(t, BRIG_E_IDMAP_DENIED, -r, "ids",
			     "becoming the owner of the workspace");
		/* it must not be possible to go back */
		if (setuid(0) == 0 || setgid(0) == 0)
			fail(t, BRIG_E_IDMAP_DENIED, EPERM, "ids", "root came back");
	}
	const char *what;
	r = caps_drop(false, &what);
	if (r < 0)
		fail(t, BRIG_E_CAPS_FAILED, -r, "caps", what);
	r = exec_plain_priority(&what);
	if (r < 0)
		fail(t, BRIG_E_SETUP_FAILED, -r, "stdio", what);
}

/* After the change of ids, which clears it.  As an ordinary user's the process is readable, so
 * that the supervisor of the same user can look at it.  Never when root changed its ids. */
static void die_with_keeper(const struct tree *t)
{
	bool open = !(t->job->spec->as_root && t->job->sandbox);

	if (prctl(PR_SET_DUMPABLE, open, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "clone", "the death signal");
	if (getppid() != t->keeper_self)
		exec_leave(125); /* too late to be told */
}

static void enter_directory(const struct tree *t)
{
	const struct spec *s = t->job->spec;
	/* Resolved again, by the kernel, below what was checked */
	int fd = sys_openat2(s->workspace.fd, *s->cwd ? s->cwd : ".",
			     O_PATH | O_DIRECTORY | O_CLOEXEC,
			     RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);

	if (fd < 0 || fchdir(fd) < 0)
		fail(t, BRIG_E_BAD_CWD, errno, "cwd", *s->cwd ? s->cwd : s->workspace.src);
	close(fd);
}

/* Everything but 0, 1, 2 and what the job names is closed by the execve. */
static void close_rest(const struct tree *t)
{
	const struct tree_job *job = t->job;

	if (sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "close_range");
	for (size_t i = 0; i < job->n_keep; i++)
		if (fcntl(job->keep[i], F_SETFD, 0) < 0)
			fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "a descriptor");
}

static void execute(const struct tree *t) __attribute__((noreturn));
static void execute(const struct tree *t)
{
	const struct tree_job *job = t->job;
	/* a sandbox program of the system's is no script of the caller's */
	int best = exec_candidates(job->paths, job->argv, job->env,
				   job->gate ? NULL : t->script_argv);
	struct wire w = { .type = job->gate ? WIRE_FAIL : WIRE_EXEC_FAIL,
			  .code = BRIG_E_SETUP_FAILED, .errnum = best };
	tree_fail_text(w.phase, sizeof w.phase, "exec");
	tree_fail_text(w.what, sizeof w.what, job->argv[0]);
	(void)!write(t->ends.ctl, &w, sizeof w);
	exec_leave(best == ENOENT ? 127 : 126);
}

/* The gate inside finds our socket and the command's standard error at fixed
 * numbers; its own messages go to a pipe. */
static void place_for_gate(const struct tree *t)
{
	const struct tree_job *job = t->job;

	if (dup2(t->ends.ctl, job->ctl_at) < 0 || dup2(2, job->stderr_at) < 0 ||
	    dup2(t->ends.status, job->status_at) < 0 ||
	    dup2(t->ends.death, job->death_at) < 0 || dup2(t->ends.say, 2) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "descriptors of the gate");
	for (int i = 0; job->groups_at && i < t->cg.n_task_fds; i++)
		if (dup2(t->cg.task_fds[i], job->groups_at + i) < 0)
			fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "descriptors of the gate");
}

static void wait_for_release(const struct tree *t)
{
	struct wire go;
	ssize_t n;

	do
		n = read(t->ends.ctl, &go, sizeof go);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "release", "waiting for it");
	/* Anything but a release means: never run. */
	if (n != (ssize_t)sizeof go || go.type != WIRE_GO)
		exec_leave(125);
}

static void become_nobody(const struct tree *t, struct wire *ready)
{
	/* A session of its own: no controlling terminal of the caller, so that
	 * nothing can be typed into it (TIOCSTI, CVE-2017-5226). */
	if (setsid() < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "a new session");
	set_limits(t);
	if (t->job->sandbox && t->job->spec->as_root)
		close_callers(t);
	if (t->job->sandbox)
		drop_privileges(t);
	/* under its own id: the limit is one of users */
	if (t->counted)
		limit_processes(t, ready);
	die_with_keeper(t);
	enter_directory(t);
	exec_default_signals();
}

static void confine(const struct tree *t, struct wire *ready, int *listener)
{
	enum brig_code code = BRIG_E_SETUP_FAILED;
	const char *what = "?";
	int r = t->job->confine ?
			t->job->confine(t->job->arg, ready, listener, &what, &code) : 0;

	if (r < 0)
		fail(t, code, -r, "confine", what);
}

static void say_ready(const struct tree *t, const struct wire *ready, int *listener)
{
	int r = wire_send(t->ends.ctl, ready, listener, *listener >= 0);

	/* too many descriptors of this user's on their way; or a caller's profile refuses it,
	 * which the supervisor tells from our end */
	if (r == -ETOOMANYREFS || (r < 0 && !t->job->spec->seccomp))
		fail(t, BRIG_E_SETUP_FAILED, -r, "filter",
		     *listener >= 0 ? "handing over its listener" : "a word to brig");
	if (r < 0)
		exec_leave(125);
	/* the holder answers refused calls: not a process that makes them */
	fd_close(listener);
}

void tree_child_main(struct tree *t)
{
	struct wire ready = { .type = WIRE_READY };
	int listener = -1;

	/* its end is the keeper's */
	fd_close(&t->keeper_sock);
	become_nobody(t, &ready);
	take_stdio(t);
	close_rest(t);
	int r = t->job->groups_at ? 0 : cgroup_enter(&t->cg); /* or the gate does it */
	if (r < 0)
		fail(t, BRIG_E_CGROUP_FAILED, -r, "cgroup", "entering the control group");
	if (t->job->gate) {
		place_for_gate(t);
		execute(t); /* the gate will say READY */
	}
	confine(t, &ready, &listener);
	say_ready(t, &ready, &listener);
	wait_for_release(t);
	execute(t);
}
