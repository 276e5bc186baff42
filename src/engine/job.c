/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's process, from its birth to execve.  Each step takes something
 * away for good; the order matters and is explained.  At the end the process is
 * exactly as confined as the command will be, and waits: the supervisor reads the
 * evidence and releases it.
 *
 * It shares memory with the builder, which is at work meanwhile, and so does not
 * touch errno: system calls that may fail are made bare.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/raw.h"
#include "base/sys.h"
#include "confine/exec.h"
#include "confine/landlock.h"
#include "engine/launch.h"

/*
 * Enters the control groups.  Version 1: "0" in
 * `tasks` moves the writer itself; unlike a pid in cgroup.procs it takes no
 * lock that waits for an RCU grace period.  Version 2: we were born inside.
 */
static void enter_cgroups(const struct launch *l)
{
	struct wire_in in;

	if (!l->who.late_groups)
		return;
	child_await_record(l, WIRE_GROUPS, &in);
	for (size_t i = 0; i < in.n_fds; i++) {
		long n = SYS3(SYS_write, in.fds[i], "0", 1);
		if (n != 1)
			child_fail(l, BRIG_E_CGROUP_FAILED, n < 0 ? (int)-n : EIO, "cgroup",
				   "entering the control group");
		SYS1(SYS_close, in.fds[i]);
	}
	/* We moved after the namespace was made: without a new one its root
	 * would be the caller's group, whose path is nobody's business here. */
	long r = in.n_fds ? SYS1(SYS_unshare, CLONE_NEWCGROUP) : 0;
	if (r < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, (int)-r, "cgroup",
			   "a cgroup namespace");
}

static void own_session(const struct launch *l)
{
	/* No controlling terminal of the caller, so that nothing can be typed into
	 * it (TIOCSTI, CVE-2017-5226).  Early: the signals that the terminal sends
	 * to the caller's group are not for us, who do not block them for long. */
	long r = SYS0(SYS_setsid);

	if (r < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, (int)-r, "stdio", "a new session");
}

static void take_stdio(const struct launch *l, bool early)
{
	/* Everything else is closed by the execve, including what the caller
	 * leaked into brig.  From here on the descriptors are ours alone. */
	long r = SYS3(SYS_close_range, 3, ~0u,
		 CLOSE_RANGE_CLOEXEC | (early ? CLOSE_RANGE_UNSHARE : 0));
	if (r < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, (int)-r, "stdio", "close_range");
	for (int i = 0; i < 3; i++)
		if (l->stdio[i] >= 0 && (r = SYS3(SYS_dup3, l->stdio[i], i, 0)) < 0)
			child_fail(l, BRIG_E_SETUP_FAILED, (int)-r, "stdio", "stdio");
	if (l->spec->pty && (r = SYS3(SYS_ioctl, 0, TIOCSCTTY, 0)) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, (int)-r, "pty",
			   "the controlling terminal");
	/* not before: the builder may wait for us without sleeping */
	const char *what;
	r = exec_plain_priority(&what);
	if (r < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, (int)-r, "stdio", what);
}

static void enter_directory(const struct launch *l)
{
	long r = SYS1(SYS_fchdir, l->cwdfd);

	if (r < 0)
		child_fail(l, BRIG_E_BAD_CWD, (int)-r, "cwd", l->plan->cwd);
}

static void drop_capabilities(const struct launch *l)
{
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
				   SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED |
				   SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE |
				   SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };

	/* Needs CAP_SETPCAP, so it comes before the sets are emptied. */
	long r = SYS5(SYS_prctl, PR_SET_SECUREBITS, bits, 0, 0, 0);
	if (r < 0)
		child_fail(l, BRIG_E_CAPS_FAILED, (int)-r, "caps", "securebits");
	for (unsigned long cap = 0; cap < 64; cap++) {
		r = SYS5(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
		if (r == -EINVAL && cap > 0)
			break; /* past the last one this kernel knows */
		if (r < 0)
			child_fail(l, BRIG_E_CAPS_FAILED, (int)-r, "caps", "bounding set");
	}
	r = SYS5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (r == 0)
		r = SYS2(SYS_capset, &hdr, none);
	if (r < 0)
		child_fail(l, BRIG_E_CAPS_FAILED, (int)-r, "caps", "emptying the sets");
	/* From here on no execve can raise anything, whatever file it finds. */
	r = SYS5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (r < 0)
		child_fail(l, BRIG_E_CAPS_FAILED, (int)-r, "caps", "no_new_privs");
}

/* Rules about the new tree, by a descriptor of its top or, from inside, AT_FDCWD. */
static int make_rules(const struct launch *l, int top)
{
	int rules = landlock_ruleset(top, l->plan->rules, l->plan->n_rules, l->landlock_abi,
				     l->spec->net == NET_NONE && !l->spec->loopback);

	if (rules < 0)
		child_fail(l, BRIG_E_LANDLOCK_UNAVAILABLE, -rules, "landlock",
			   "the ruleset");
	return rules;
}

static void apply_landlock(const struct launch *l, int rules, struct wire *ready)
{
	if (l->landlock_abi <= 0)
		return;
	if (rules < 0)
		rules = make_rules(l, AT_FDCWD);
	int e = landlock_apply(rules);
	if (e < 0)
		child_fail(l, BRIG_E_LANDLOCK_UNAVAILABLE, -e, "landlock",
			   "restricting the command");
	close(rules);
	ready->landlock_abi = l->landlock_abi;
	ready->canary = landlock_canary_file(l->root.scratchfd);
}

/* From here on the process may do only what the command may. */
static int load_filter(const struct launch *l)
{
	int listener = -1, e = 0;

	if (l->spec->seccomp) /* a caller's profile never goes below the floor */
		e = exec_filter(seccomp_floor(), &listener);
	if (e == 0)
		e = exec_filter(l->filter, &listener);
	if (e < 0)
		child_fail(l, BRIG_E_SECCOMP_FAILED, -e, "seccomp", "loading the filter");
	return listener;
}

static void report(const struct launch *l, struct wire *w, int *listener)
{
	/* a caller's profile need not allow to ask */
	w->cpu = l->spec->seccomp ? -1 : sched_getcpu();
	int e = wire_send(l->ctl_child, w, listener, *listener >= 0);
	/* too many descriptors of this user's on their way; or a caller's profile refuses it,
	 * which the supervisor tells from our end */
	if (e == -ETOOMANYREFS || (e < 0 && !l->spec->seccomp))
		child_tell(l, BRIG_E_SETUP_FAILED, -e, "filter",
			   *listener >= 0 ? "handing over its listener" : "a word to brig");
	if (e < 0)
		exec_leave(125);
	if (*listener >= 0)
		close(*listener);
	*listener = -1;
}

static void execute(const struct launch *l)
{
	int best = exec_candidates(l->plan->exec_paths, l->spec->argv, l->spec->env,
				   l->script_argv);
	struct wire w = { .type = WIRE_EXEC_FAIL, .errnum = best };
	(void)!write(l->ctl_child, &w, sizeof w);
	exec_leave(best == ENOENT ? 127 : 126);
}

/* We are busy for long, and on one processor.  Who waits behind us has little to do and
 * somebody else waiting for it: a thread of the kernel's that ends a grace period, for the
 * builder, who detaches the old root.  Where there is nobody this is nothing. */
static void give_way(void)
{
	SYS0(SYS_sched_yield);
}

void job_help_builder(struct launch *l)
{
	/* what host root opens is not ours to clone */
	int e = root_wants_help(&l->root) && !l->root.given ?
			root_clone_beside(&l->root, &l->points) : 0;

	if (e < 0)
		child_fail(l, l->root.code, -e, "mount", l->root.what);
}

void job_help_more(const struct launch *l)
{
	if (!root_wants_help(&l->root))
		return;
	while (!word_is_set(&l->points))
		word_await(&l->points);
	root_make_points(&l->root);
}

/*
 * Until the tree is our root; the rules for Landlock, or -1.  They are made when it stands,
 * while the builder still makes it that: they are about inodes, which are the same from either
 * side.  On the way to each of them there is no name but brig's own, which nobody else can
 * replace: where a tree is put below one of the caller's, the mounts are locked, and the job
 * comes later.
 */
static int await_tree(const struct launch *l)
{
	enum { A_FEW = 200 };
	int rules = -1;

	job_help_more(l); /* nothing else is left to do until the tree stands */
	while (!word_is_set(&l->built))
		word_await(&l->built);
	if (l->landlock_abi > 0)
		rules = make_rules(l, l->root.rootfd);
	/* a matter of microseconds */
	for (int i = 0; i < A_FEW && !word_is_set(&l->tree_done); i++)
		give_way();
	while (!word_is_set(&l->tree_done))
		word_await(&l->tree_done);
	return rules;
}

void job_main(struct launch *l, bool early)
{
	struct wire confined = { .type = WIRE_CONFINED };
	struct wire ready = { .type = WIRE_READY }, go;
	int listener = -1;
	ssize_t n;

	/* our copy: the last one to close it waits, and that should be init */
	if (l->first_mntns >= 0)
		close(l->first_mntns);
	/* These are not the builder's: it is there before it is known how many processes there
	 * may be, and has files to write, too.  Before the id changes: from then on it counts. */
	child_set_limit(l, RLIMIT_NPROC, l->who.nproc, "RLIMIT_NPROC");
	if (early) {
		child_take_ids(l);
		child_own_keyring(l);
		job_help_builder(l);
	}
	give_way();
	own_session(l);
	child_set_limit(l, RLIMIT_FSIZE, l->spec->limits.file_size, "RLIMIT_FSIZE");
	exec_default_signals();
	give_way();
	/* as late as it can be, as they may have to be waited for: their namespace needs a
	 * capability, of those that go next */
	enter_cgroups(l);
	give_way();
	drop_capabilities(l);
	give_way();
	/* Brig's own filter allows all that is still to be done.  A caller's may
	 * not, and is loaded last. */
	if (!l->spec->seccomp)
		listener = load_filter(l);
	give_way();
	/* What was taken away does not come back, so that the supervisor may look at
	 * it now, while the tree is being built. */
	if (early && !l->spec->seccomp)
		report(l, &confined, &listener);
	int rules = early ? await_tree(l) : -1;
	umask(l->umask);
	take_stdio(l, early);
	enter_directory(l);
	apply_landlock(l, rules, &ready);
	if (l->spec->seccomp)
		listener = load_filter(l);
	report(l, &ready, &listener);
	do
		n = read(l->ctl_child, &go, sizeof go);
	while (n < 0 && errno == EINTR);
	/* Anything but a release means: never run. */
	if (n < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "release", "the release");
	if (n != sizeof go || go.type != WIRE_GO)
		exec_leave(125);
	int placed = l->who.called ? place_release(&l->place) : 0;
	if (placed < 0) /* the command would inherit it */
		child_fail(l, BRIG_E_SETUP_FAILED, -placed, "release", "the processors");
	execute(l);
	exec_leave(126);
}
