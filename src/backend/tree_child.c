/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's process, from its birth to execve.  No allocation and no
 * stdio: everything was prepared before, and what fails is told in one record
 * of fixed size.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
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
#include "confine/exec.h"

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

/* Version 1: "0" in `tasks` moves the writer itself; the kernel goes by who opened the
 * file.  Version 2: born inside. */
static void enter_groups(const struct tree *t)
{
	for (int i = 0; i < t->cg.n_task_fds; i++)
		if (write(t->cg.task_fds[i], "0", 1) != 1)
			fail(t, BRIG_E_CGROUP_FAILED, errno, "cgroup",
			     "entering the control group");
}

/*
 * What the caller left open in brig is not for the user whose id we take, not even for
 * the time until the execve: he may kill us, and kernels have let him take descriptors of
 * one that is dying.  Brig's own close on execve, which is how the two differ.
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

static void set_limit(const struct tree *t, unsigned what, rlim_t value,
		      const char *name)
{
	struct rlimit old, lim = { value, value };

	if (prlimit(0, what, NULL, &old) == 0 && old.rlim_max != RLIM_INFINITY &&
	    value > old.rlim_max)
		lim.rlim_cur = lim.rlim_max = old.rlim_max; /* tighter already */
	if (prlimit(0, what, &lim, NULL) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "limits", name);
}

static void set_limits(const struct tree *t)
{
	const struct spec *s = t->job->spec;

	/* 1, not 0: a core handler that is a pipe ignores 0 */
	set_limit(t, RLIMIT_CORE, 1, "RLIMIT_CORE");
	if (s->limits.file_size)
		set_limit(t, RLIMIT_FSIZE, s->limits.file_size, "RLIMIT_FSIZE");
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

/*
 * The limit on processes where no group holds it.  The kernel counts all processes of the user
 * for it, and in a container most of them may be hidden from us: so it is asked, by trying,
 * how many there are.  The evidence is the limit that the supervisor reads back.
 */
static void limit_processes(const struct tree *t, struct wire *ready)
{
	enum { TASKS_MAX = 1 << 22 }; /* of a kernel */
	const rlim_t pids = t->job->spec->limits.pids;
	rlim_t refused = 0, fine = 1;
	struct rlimit old;
	int r = 0;

	if (prlimit(0, RLIMIT_NPROC, NULL, &old) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "limits", "RLIMIT_NPROC");
	const rlim_t max = old.rlim_max;
	while (fine <= max && fine <= TASKS_MAX && (r = may_fork(fine, max)) == 0) {
		refused = fine;
		fine *= 2;
	}
	while (r == 1 && refused && fine - refused > 1) {
		const rlim_t middle = refused + (fine - refused) / 2;
		r = may_fork(middle, max);
		*(r == 1 ? &fine : &refused) = middle;
		r = r == 0 ? 1 : r;
	}
	if (r < 0)
		fail(t, BRIG_E_SETUP_FAILED, -r, "limits", "counting the user's processes");
	/* it does not hold this user, or something else does not let him fork */
	if (!refused || (r == 0 && max > TASKS_MAX)) {
		prlimit(0, RLIMIT_NPROC, &old, NULL);
		return;
	}
	/* with `fine` there is room for one more, and one of those there are is this process */
	rlim_t all = r == 0 || fine - 2 + pids > max ? max : fine - 2 + pids;
	old.rlim_cur = old.rlim_max = all;
	if (prlimit(0, RLIMIT_NPROC, &old, NULL) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "limits", "RLIMIT_NPROC");
	ready->nproc = (int32_t)all;
}

static void drop_bounding_set(const struct tree *t)
{
	for (unsigned long cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL && cap > 0)
				break; /* past the last one this kernel knows */
			/* Ordinary users, and root of a container without this
			 * capability, have no say here; with no_new_privs the set
			 * gives nothing to anybody, and the evidence is asked. */
			if (errno == EPERM)
				break;
			fail(t, BRIG_E_CAPS_FAILED, errno, "caps", "bounding set");
		}
}

/* Root becomes the owner of the workspace, for good; whoever we are, no
 * capability stays and none comes back. */
static void drop_privileges(const struct tree *t)
{
	const struct spec *s = t->job->spec;
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };

	/* keys of the caller's session are not the command's */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 &&
	    errno != ENOSYS && errno != EOPNOTSUPP && errno != EPERM)
		fail(t, BRIG_E_SETUP_FAILED, errno, "keyring", "a session keyring");
	drop_bounding_set(t);
	if (s->as_root) {
		if (setgroups(0, NULL) < 0 ||
		    setresgid(s->host_gid, s->host_gid, s->host_gid) < 0 ||
		    setresuid(s->host_uid, s->host_uid, s->host_uid) < 0)
			fail(t, BRIG_E_IDMAP_DENIED, errno, "ids",
			     "becoming the owner of the workspace");
		/* it must not be possible to go back */
		if (setuid(0) == 0 || setgid(0) == 0)
			fail(t, BRIG_E_IDMAP_DENIED, EPERM, "ids", "root came back");
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &hdr, none) < 0)
		fail(t, BRIG_E_CAPS_FAILED, errno, "caps", "emptying the sets");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail(t, BRIG_E_CAPS_FAILED, errno, "caps", "no_new_privs");
	const char *what;
	int e = exec_plain_priority(&what);
	if (e < 0)
		fail(t, BRIG_E_SETUP_FAILED, -e, "stdio", what);
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
	/* whoever holds it answers; that must not be one of those who ask */
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
	if (!t->job->groups_at) /* else the gate does it */
		enter_groups(t);
	if (t->job->gate) {
		place_for_gate(t);
		execute(t); /* the gate will say READY */
	}
	confine(t, &ready, &listener);
	say_ready(t, &ready, &listener);
	wait_for_release(t);
	execute(t);
}
