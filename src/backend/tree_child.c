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
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/tree_internal.h"
#include "base/sys.h"
#include "engine/exec.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

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
	(void)!write(t->ctl_child, &w, sizeof w);
	exec_leave(125);
}

/* Version 1: "0" in `tasks` moves the writer itself.  Version 2: born inside. */
static void enter_cgroups(const struct tree *t)
{
	for (int i = 0; i < t->cg.n_task_fds; i++)
		if (write(t->cg.task_fds[i], "0", 1) != 1)
			fail(t, BRIG_E_CGROUP_FAILED, errno, "cgroup",
			     "entering the control group");
}

static void take_stdio(const struct tree *t)
{
	const struct tree_job *job = t->job;

	/* A session of its own: no controlling terminal of the caller, so that
	 * nothing can be typed into it (TIOCSTI, CVE-2017-5226). */
	if (setsid() < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "a new session");
	for (int i = 0; i < 3; i++)
		if (t->stdio[i] >= 0 && dup2(t->stdio[i], i) < 0)
			fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "stdio");
	if (job->spec->pty && ioctl(0, TIOCSCTTY, 0) < 0)
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
	errno = 0;
	int nice_now = getpriority(PRIO_PROCESS, 0);
	if (errno == 0 && nice_now < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "the priority");
}

/*
 * After the change of ids, which clears it.  As an ordinary user's the process
 * is made readable again, so that the supervisor of the same user can look at
 * it.  Never when root changed its ids: the memory is still the keeper's, which
 * is root, and whoever may trace this process could write there.
 */
static void die_with_keeper(const struct tree *t, pid_t keeper)
{
	if (prctl(PR_SET_DUMPABLE, !t->job->spec->as_root, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "clone", "the death signal");
	if (getppid() != keeper)
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
	(void)!write(t->ctl_child, &w, sizeof w);
	exec_leave(best == ENOENT ? 127 : 126);
}

/* The gate inside finds our socket and the command's standard error at fixed
 * numbers; its own messages go to a pipe. */
static void place_for_gate(const struct tree *t)
{
	const struct tree_job *job = t->job;

	if (dup2(t->ctl_child, job->ctl_at) < 0 || dup2(2, job->stderr_at) < 0 ||
	    dup2(t->status_write, job->status_at) < 0 ||
	    dup2(t->death_read, job->death_at) < 0 || dup2(t->say_write, 2) < 0)
		fail(t, BRIG_E_SETUP_FAILED, errno, "stdio", "descriptors of the gate");
}

static void wait_for_release(const struct tree *t)
{
	struct wire go;
	ssize_t n;

	do
		n = read(t->ctl_child, &go, sizeof go);
	while (n < 0 && errno == EINTR);
	/* Anything but a release means: never run. */
	if (n != (ssize_t)sizeof go || go.type != WIRE_GO)
		exec_leave(125);
}

void tree_child_main(struct tree *t, pid_t keeper)
{
	const struct tree_job *job = t->job;
	struct wire ready = { .type = WIRE_READY };
	const char *what = "?";
	enum brig_code code = BRIG_E_SETUP_FAILED;

	enter_cgroups(t);
	take_stdio(t);
	set_limits(t);
	if (job->sandbox)
		drop_privileges(t);
	die_with_keeper(t, keeper);
	enter_directory(t);
	exec_default_signals();
	close_rest(t);
	if (job->gate) {
		place_for_gate(t);
		execute(t); /* the gate will say READY */
	}
	int listener = -1;
	int r = job->confine ? job->confine(job->arg, &ready, &listener, &what, &code) : 0;
	if (r < 0)
		fail(t, code, -r, "confine", what);
	if (wire_send(t->ctl_child, &ready, &listener, listener >= 0) < 0)
		exec_leave(125);
	/* whoever holds it answers; that must not be one of those who ask */
	if (listener >= 0)
		close(listener);
	wait_for_release(t);
	execute(t);
}
