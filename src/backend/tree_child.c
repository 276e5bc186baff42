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

/* What this process goes by: the supervisor closes its ends when we have spoken. */
struct child {
	const struct tree *t;
	const struct tree_job *job;
	struct tree_ends ends;
	int ctl, death_write; /* the supervisor's own, by the numbers they were born with */
};

static void fail(const struct child *c, enum brig_code code, int errnum,
		 const char *phase, const char *what) __attribute__((noreturn));
static void fail(const struct child *c, enum brig_code code, int errnum,
		 const char *phase, const char *what)
{
	struct wire w = { .type = WIRE_FAIL, .code = code, .errnum = errnum };

	tree_fail_text(w.phase, sizeof w.phase, phase);
	tree_fail_text(w.what, sizeof w.what, what);
	(void)!write(c->ends.ctl, &w, sizeof w);
	exec_leave(125);
}

/* A record; without it the supervisor has given up, or is gone. */
static void await(const struct child *c, enum wire_type type, struct wire_in *in)
{
	/* To a sandbox program it is a long way: then being awake is worth it.  And groups
	 * come last, when we have nothing left to do but to enter them. */
	int r = c->t->job->gate || type == WIRE_GROUPS ? wire_wait_soon(c->ends.ctl, type, in) :
							 wire_wait(c->ends.ctl, type, in);

	if (r == -EMFILE)
		fail(c, BRIG_E_SETUP_FAILED, EMFILE, "setup", "descriptors");
	if (r < 0)
		exec_leave(125);
}

/* Version 1: "0" in `tasks` moves the writer itself; the kernel goes by who opened the
 * file.  Version 2: born inside. */
static void enter_cgroups(const struct child *c)
{
	struct wire_in in;
	const int *tasks = c->t->cg.task_fds;
	size_t n = (size_t)c->t->cg.n_task_fds;

	if (c->t->late_limits) {
		await(c, WIRE_GROUPS, &in);
		tasks = in.fds;
		n = in.n_fds;
	}
	for (size_t i = 0; i < n; i++)
		if (write(tasks[i], "0", 1) != 1)
			fail(c, BRIG_E_CGROUP_FAILED, errno, "cgroup",
			     "entering the control group");
}

/* The supervisor's own ends, in a copy of its table: its death must not go unnoticed. */
static void forget_supervisor(const struct child *c)
{
	close(c->ctl);
	if (c->death_write >= 0)
		close(c->death_write);
}

/* Waits until all is there that was made beside us: what was offered.  If memory is shared
 * then a table of our own, of all that is in the supervisor's.  A copy has its table
 * from birth, and if nothing is made beside it what was offered, too. */
static int take_given(const struct child *c)
{
	struct wire_in in;

	if (!c->t->borrowed || (!c->t->share && !c->job->offer))
		return c->t->offered;
	await(c, WIRE_GIVEN, &in);
	if (!c->t->share)
		return wire_fd(&in);
	if (sys_close_range(3, ~0u, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "stdio", "a table of descriptors");
	/* it may have closed its own meanwhile, but not what we copied */
	forget_supervisor(c);
	return c->t->offered;
}

static void at_least(int *top, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] > *top)
			*top = fds[i];
}

/* Of the descriptors that this process uses from here on. */
static int highest_needed(const struct child *c)
{
	const struct tree_ends *e = &c->ends;
	const int own[] = { e->ctl, e->say, e->status, e->death, c->job->spec->workspace.fd,
			    c->t->offered };
	int top = c->job->begun ? c->job->begun(c->job->arg) : 2;

	at_least(&top, own, ARRAY_LEN(own));
	at_least(&top, e->stdio, ARRAY_LEN(e->stdio));
	at_least(&top, c->job->keep, c->job->n_keep);
	at_least(&top, c->t->cg.task_fds, (size_t)c->t->cg.n_task_fds);
	return top;
}

/*
 * What the caller left open in brig is not for the user whose id we take, not even for
 * the time until the execve: he may kill us, and kernels have let him take descriptors of
 * one that is dying.  Brig's own close on execve, which is how the two differ.
 * Above the highest that we need nothing has to stay.
 */
static void close_callers(const struct child *c)
{
	const int top = highest_needed(c);

	/* who lies about ours would have us close it */
	if (fcntl(c->ends.ctl, F_GETFD) != FD_CLOEXEC)
		fail(c, BRIG_E_SETUP_FAILED, EPROTO, "stdio", "a descriptor's flags");
	for (int fd = 3; fd <= top; fd++)
		if (fcntl(fd, F_GETFD) == 0 && close(fd) < 0)
			fail(c, BRIG_E_SETUP_FAILED, errno, "stdio", "a descriptor");
	if (sys_close_range((unsigned)top + 1, ~0u, 0) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "stdio", "close_range");
}

static void take_stdio(const struct child *c)
{
	for (int i = 0; i < 3; i++)
		if (c->ends.stdio[i] >= 0 && dup2(c->ends.stdio[i], i) < 0)
			fail(c, BRIG_E_SETUP_FAILED, errno, "stdio", "stdio");
	if (c->job->spec->pty && ioctl(0, TIOCSCTTY, 0) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "pty", "the controlling terminal");
}

static void set_limit(const struct child *c, unsigned what, rlim_t value,
		      const char *name)
{
	struct rlimit old, lim = { value, value };

	if (prlimit(0, what, NULL, &old) == 0 && old.rlim_max != RLIM_INFINITY &&
	    value > old.rlim_max)
		lim.rlim_cur = lim.rlim_max = old.rlim_max; /* tighter already */
	if (prlimit(0, what, &lim, NULL) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "limits", name);
}

static void set_limits(const struct child *c)
{
	const struct spec *s = c->job->spec;

	/* 1, not 0: a core handler that is a pipe ignores 0 */
	set_limit(c, RLIMIT_CORE, 1, "RLIMIT_CORE");
	if (s->limits.file_size)
		set_limit(c, RLIMIT_FSIZE, s->limits.file_size, "RLIMIT_FSIZE");
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
static void limit_processes(const struct child *c, struct wire *ready)
{
	enum { TASKS_MAX = 1 << 22 }; /* of a kernel */
	const rlim_t pids = c->job->spec->limits.pids;
	rlim_t refused = 0, fine = 1;
	struct rlimit old;
	int r = 0;

	if (prlimit(0, RLIMIT_NPROC, NULL, &old) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "limits", "RLIMIT_NPROC");
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
		fail(c, BRIG_E_SETUP_FAILED, -r, "limits", "counting the user's processes");
	/* it does not hold this user, or something else does not let him fork */
	if (!refused || (r == 0 && max > TASKS_MAX)) {
		prlimit(0, RLIMIT_NPROC, &old, NULL);
		return;
	}
	/* with `fine` there is room for one more, and one of those there are is this process */
	rlim_t all = r == 0 || fine - 2 + pids > max ? max : fine - 2 + pids;
	old.rlim_cur = old.rlim_max = all;
	if (prlimit(0, RLIMIT_NPROC, &old, NULL) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "limits", "RLIMIT_NPROC");
	ready->nproc = (int32_t)all;
}

static void drop_bounding_set(const struct child *c)
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
			fail(c, BRIG_E_CAPS_FAILED, errno, "caps", "bounding set");
		}
}

/* Root becomes the owner of the workspace, for good; whoever we are, no
 * capability stays and none comes back. */
static void drop_privileges(const struct child *c)
{
	const struct spec *s = c->job->spec;
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };

	/* keys of the caller's session are not the command's */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 &&
	    errno != ENOSYS && errno != EOPNOTSUPP && errno != EPERM)
		fail(c, BRIG_E_SETUP_FAILED, errno, "keyring", "a session keyring");
	drop_bounding_set(c);
	if (s->as_root) {
		/* bare calls: the C library's would have all threads of the memory's
		 * owner take the new ids */
		long r = SYS2(SYS_setgroups, 0, NULL);
		if (r == 0)
			r = SYS3(SYS_setresgid, s->host_gid, s->host_gid, s->host_gid);
		if (r == 0)
			r = SYS3(SYS_setresuid, s->host_uid, s->host_uid, s->host_uid);
		if (r < 0)
			fail(c, BRIG_E_IDMAP_DENIED, (int)-r, "ids",
			     "becoming the owner of the workspace");
		/* it must not be possible to go back */
		if (SYS1(SYS_setuid, 0) == 0 || SYS1(SYS_setgid, 0) == 0)
			fail(c, BRIG_E_IDMAP_DENIED, EPERM, "ids", "root came back");
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &hdr, none) < 0)
		fail(c, BRIG_E_CAPS_FAILED, errno, "caps", "emptying the sets");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail(c, BRIG_E_CAPS_FAILED, errno, "caps", "no_new_privs");
	const char *what;
	int e = exec_plain_priority(&what);
	if (e < 0)
		fail(c, BRIG_E_SETUP_FAILED, -e, "stdio", what);
}

/*
 * After the change of ids, which clears it.  As an ordinary user's the process is
 * readable, so that the supervisor of the same user can look at it; memory that is
 * shared is already.  Never when root changed its ids.
 */
static void die_with_keeper(const struct child *c)
{
	bool open = !(c->job->spec->as_root && c->job->sandbox);

	if ((!c->t->share && prctl(PR_SET_DUMPABLE, open, 0, 0, 0) < 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "clone", "the death signal");
	if (getppid() != c->t->keeper_self)
		exec_leave(125); /* too late to be told */
}

static void enter_directory(const struct child *c)
{
	const struct spec *s = c->job->spec;
	/* Resolved again, by the kernel, below what was checked */
	int fd = sys_openat2(s->workspace.fd, *s->cwd ? s->cwd : ".",
			     O_PATH | O_DIRECTORY | O_CLOEXEC,
			     RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);

	if (fd < 0 || fchdir(fd) < 0)
		fail(c, BRIG_E_BAD_CWD, errno, "cwd", *s->cwd ? s->cwd : s->workspace.src);
	close(fd);
}

/* Everything but 0, 1, 2 and what the job names is closed by the execve. */
static void close_rest(const struct child *c)
{
	const struct tree_job *job = c->job;

	if (sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "stdio", "close_range");
	for (size_t i = 0; i < job->n_keep; i++)
		if (fcntl(job->keep[i], F_SETFD, 0) < 0)
			fail(c, BRIG_E_SETUP_FAILED, errno, "stdio", "a descriptor");
}

static void execute(const struct child *c) __attribute__((noreturn));
static void execute(const struct child *c)
{
	const struct tree_job *job = c->job;
	/* a sandbox program of the system's is no script of the caller's */
	int best = exec_candidates(job->paths, job->argv, job->env,
				   job->gate ? NULL : c->t->script_argv);
	struct wire w = { .type = job->gate ? WIRE_FAIL : WIRE_EXEC_FAIL,
			  .code = BRIG_E_SETUP_FAILED, .errnum = best };
	tree_fail_text(w.phase, sizeof w.phase, "exec");
	tree_fail_text(w.what, sizeof w.what, job->argv[0]);
	(void)!write(c->ends.ctl, &w, sizeof w);
	exec_leave(best == ENOENT ? 127 : 126);
}

/* The gate inside finds our socket and the command's standard error at fixed
 * numbers; its own messages go to a pipe. */
static void place_for_gate(const struct child *c)
{
	const struct tree_job *job = c->job;

	if (dup2(c->ends.ctl, job->ctl_at) < 0 || dup2(2, job->stderr_at) < 0 ||
	    dup2(c->ends.status, job->status_at) < 0 ||
	    dup2(c->ends.death, job->death_at) < 0 || dup2(c->ends.say, 2) < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "stdio", "descriptors of the gate");
}

static void wait_for_release(const struct child *c)
{
	struct wire go;
	ssize_t n;

	/* a caller's profile need not allow it */
	if (!c->job->spec->seccomp)
		watch_linger(c->ends.ctl, A_MOMENT_NS);
	do
		n = read(c->ends.ctl, &go, sizeof go);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "release", "waiting for it");
	/* Anything but a release means: never run. */
	if (n != (ssize_t)sizeof go || go.type != WIRE_GO)
		exec_leave(125);
}

/* What needs nothing of what is still being made. */
static void become_nobody(const struct child *c, struct wire *ready)
{
	/* A session of its own: no controlling terminal of the caller, so that
	 * nothing can be typed into it (TIOCSTI, CVE-2017-5226). */
	if (setsid() < 0)
		fail(c, BRIG_E_SETUP_FAILED, errno, "stdio", "a new session");
	int r = c->t->borrowed && c->job->begin ? c->job->begin(c->job->arg) : 0;
	if (r < 0)
		fail(c, BRIG_E_SETUP_FAILED, -r, "setup", "the private directory");
	set_limits(c);
	if (c->job->sandbox && c->job->spec->as_root)
		close_callers(c);
	if (c->job->sandbox)
		drop_privileges(c);
	/* under its own id: the limit is one of users */
	if (c->t->counted)
		limit_processes(c, ready);
	die_with_keeper(c);
	enter_directory(c);
	exec_default_signals();
}

static void load_filter(const struct child *c, struct wire *ready, int *listener)
{
	enum brig_code code = BRIG_E_SETUP_FAILED;
	const char *what = "?";
	int r = c->job->filter ? c->job->filter(c->job->arg, ready, listener, &what, &code) : 0;

	if (r < 0)
		fail(c, code, -r, "confine", what);
}

/* A record with the filter's listener, if there is one here; the first one also with what
 * the supervisor has not seen being made. */
static void say(const struct child *c, struct wire *w, enum wire_type type, bool first,
		int *listener)
{
	/* our memory is the supervisor's only when both are lent */
	const bool seen = c->t->share && c->t->borrowed;
	int fds[2], made = first && !seen && c->job->begun ? c->job->begun(c->job->arg) : -1;
	size_t n = 0;

	if (*listener >= 0)
		fds[n++] = *listener;
	if (made >= 0)
		fds[n++] = made;
	w->begun = made >= 0;
	w->type = type;
	int r = wire_send(c->ends.ctl, w, fds, n);
	/* too many descriptors of this user's on their way; or a caller's profile refuses it,
	 * which the supervisor tells from our end */
	if (r == -ETOOMANYREFS || (r < 0 && !c->job->spec->seccomp))
		fail(c, BRIG_E_SETUP_FAILED, -r, "filter",
		     *listener >= 0 ? "handing over its listener" : "a word to brig");
	if (r < 0)
		exec_leave(125);
	/* whoever holds it answers; that must not be one of those who ask */
	fd_close(listener);
}

int tree_child_main(void *arg)
{
	const struct tree *t = arg;
	const struct tree_job *job = t->job;
	const struct child self = { t, job, t->ends, t->born_ctl, t->born_death }, *c = &self;
	struct wire ready = { .type = WIRE_READY };
	const char *what = "?";
	enum brig_code code = BRIG_E_SETUP_FAILED;
	int listener = -1;
	const bool first = job->filter_first && t->borrowed;

	if (t->borrowed && !t->share)
		forget_supervisor(c);
	become_nobody(c, &ready);
	if (first) {
		load_filter(c, &ready, &listener);
		/* The table is not ours: what is told here is closed here.  And whatever
		 * is to be seen of us but Landlock and groups is final. */
		say(c, &ready, WIRE_FILTERED, true, &listener);
	}
	int offered = take_given(c);
	take_stdio(c);
	close_rest(c);
	if (job->gate) {
		if (!job->groups_inside || !t->late_limits)
			enter_cgroups(c);
		place_for_gate(c);
		execute(c); /* the gate will say READY */
	}
	int r = job->confine ? job->confine(job->arg, offered, &ready, &what, &code) : 0;
	if (r < 0)
		fail(c, code, -r, "confine", what);
	/* a caller's profile may not let us receive what comes later */
	enter_cgroups(c);
	if (!first)
		load_filter(c, &ready, &listener);
	say(c, &ready, WIRE_READY, !first, &listener);
	wait_for_release(c);
	execute(c);
}
