/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's process, from its birth to execve.  Each step takes something
 * away for good; the order matters and is explained.  At the end the process is
 * exactly as confined as the command will be, and waits: the supervisor reads the
 * evidence and releases it.
 */
#include <errno.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "confine/caps.h"
#include "confine/exec.h"
#include "confine/landlock.h"
#include "confine/rlimits.h"
#include "engine/launch.h"

static void check(const struct launch *l, int e, enum brig_code code, const char *phase,
		  const char *what)
{
	if (e < 0)
		child_fail(l, code, -e, phase, what);
}

static void set_limits(const struct launch *l)
{
	check(l, rlimit_lower(RLIMIT_NPROC, l->nproc), BRIG_E_SETUP_FAILED, "limits",
	      "RLIMIT_NPROC");
	check(l, rlimit_lower(RLIMIT_FSIZE, l->spec->limits.file_size), BRIG_E_SETUP_FAILED,
	      "limits", "RLIMIT_FSIZE");
}

/* Version 2: we were born inside. */
static void enter_groups(const struct launch *l)
{
	int e = cgroup_enter(l->cg);

	check(l, e, BRIG_E_CGROUP_FAILED, "cgroup", "entering the control group");
	/* We moved after the namespace was made: without a new one its root
	 * would be the caller's group, whose path the command must not see. */
	if (e > 0 && unshare(CLONE_NEWCGROUP) < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, errno, "cgroup", "a cgroup namespace");
}

static void take_stdio(const struct launch *l)
{
	const char *what;

	/* Everything else is closed by the execve, including what the caller
	 * leaked into brig. */
	if (sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "stdio", "close_range");
	for (int i = 0; i < 3; i++)
		if (l->stdio[i] >= 0 && dup3(l->stdio[i], i, 0) < 0)
			child_fail(l, BRIG_E_SETUP_FAILED, errno, "stdio", "stdio");
	if (l->spec->pty && ioctl(0, TIOCSCTTY, 0) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "pty", "the controlling terminal");
	int e = exec_plain_priority(&what);
	check(l, e, BRIG_E_SETUP_FAILED, "stdio", what);
}

static void restrict_files(const struct launch *l, struct wire *ready)
{
	if (l->landlock_abi <= 0)
		return;
	int rules = landlock_ruleset(l->plan->rules, l->plan->n_rules, l->landlock_abi,
				     l->spec->net == NET_NONE && !l->spec->loopback);
	check(l, rules, BRIG_E_LANDLOCK_UNAVAILABLE, "landlock", "the ruleset");
	check(l, landlock_apply(rules), BRIG_E_LANDLOCK_UNAVAILABLE, "landlock",
	      "restricting the command");
	close(rules);
	ready->landlock_abi = l->landlock_abi;
	ready->canary = landlock_canary_file(l->root.scratchfd);
}

/* From here on the process may do only what the command may.  The listener, or -1. */
static int load_filter(const struct launch *l)
{
	int listener = -1, e = 0;

	if (l->spec->seccomp) /* a caller's profile never goes below the floor */
		e = seccomp_install(seccomp_floor(), NULL, &listener);
	if (e == 0)
		e = seccomp_install(l->filter, l->spec->seccomp ? NULL : seccomp_default(false),
				 &listener);
	check(l, e, BRIG_E_SECCOMP_FAILED, "seccomp", "loading the filter");
	return listener;
}

static void report(const struct launch *l, const struct wire *ready, int listener)
{
	int e = wire_send(l->ctl_child, ready, &listener, listener >= 0);

	/* too many descriptors of this user's on their way; or a caller's profile refuses
	 * it, which the supervisor tells from our end */
	if (e == -ETOOMANYREFS || (e < 0 && !l->spec->seccomp))
		child_fail(l, BRIG_E_SETUP_FAILED, -e, "filter",
			   listener >= 0 ? "handing over its listener" : "a word to brig");
	if (e < 0)
		exec_leave(125);
	/* its owner answers refused calls: not one of those who make them */
	if (listener >= 0)
		close(listener);
}

/* Anything but a release means: never run. */
static void await_release(const struct launch *l)
{
	struct wire go;
	ssize_t n;

	do
		n = read(l->ctl_child, &go, sizeof go);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "release", "the release");
	if (n != sizeof go || go.type != WIRE_GO)
		exec_leave(125);
}

static void execute(const struct launch *l) __attribute__((noreturn));
static void execute(const struct launch *l)
{
	int best = exec_candidates(l->plan->exec_paths, l->spec->argv, l->spec->env,
				   l->script_argv);
	struct wire w = { .type = WIRE_EXEC_FAIL, .errnum = best };

	(void)!write(l->ctl_child, &w, sizeof w);
	exec_leave(best == ENOENT ? 127 : 126);
}

void job_main(struct launch *l)
{
	struct wire ready = { .type = WIRE_READY };
	const char *what;

	/* No controlling terminal of the caller, so that nothing can be typed into it
	 * (TIOCSTI, CVE-2017-5226).  First: what is typed at the terminal now is not for us,
	 * who are about to unblock signals. */
	if (setsid() < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "stdio", "a new session");
	set_limits(l);
	exec_default_signals();
	/* the new cgroup namespace needs a capability */
	enter_groups(l);
	int e = caps_drop(true, &what);
	check(l, e, BRIG_E_CAPS_FAILED, "caps", what);
	umask(l->umask);
	take_stdio(l);
	if (fchdir(l->cwdfd) < 0)
		child_fail(l, BRIG_E_BAD_CWD, errno, "cwd", l->plan->cwd);
	restrict_files(l, &ready);
	/* last: a caller's profile need not allow what comes before */
	report(l, &ready, load_filter(l));
	await_release(l);
	execute(l);
}
