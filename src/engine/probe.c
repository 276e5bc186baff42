/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/idmap.h"
#include "base/sys.h"
#include "confine/cgroup.h"
#include "engine/diagnose.h"
#include "confine/landlock.h"
#include "confine/root.h"
#include "confine/seccomp.h"
#include "engine/watch.h"

/* A child that enters new namespaces with mapped ids and then runs a check,
 * which returns 0 or an errno. */
typedef int probe_fn(void);

struct probe_child {
	uint64_t flags;
	probe_fn *fn;
};

static int wait_code(pid_t pid)
{
	int st;

	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(st) ? WEXITSTATUS(st) : EFAULT;
}

/* Runs fn in a fresh set of namespaces; *made tells whether the namespaces
 * themselves could be had.  0 or an errno. */
static int in_namespaces(uint64_t flags, probe_fn *fn, int *made)
{
	struct clone_args args = { .flags = flags, .exit_signal = SIGCHLD };
	int p[2];
	char path[40], byte;

	*made = 0;
	if (pipe2(p, O_CLOEXEC) < 0)
		return errno;
	pid_t pid = sys_clone3(&args);
	if (pid < 0) {
		int e = errno;
		close(p[0]);
		close(p[1]);
		return e;
	}
	if (pid == 0) {
		close(p[1]);
		if (flags & CLONE_NEWUSER && read(p[0], &byte, 1) != 1)
			_exit(ECANCELED);
		_exit(fn());
	}
	close(p[0]);
	int e = 0;
	if (flags & CLONE_NEWUSER) {
		char map[48];
		snprintf(path, sizeof path, "/proc/%d", (int)pid);
		cleanup_close int proc = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
		if (geteuid() != 0)
			e = -fd_write_at(proc, "setgroups", "deny");
		snprintf(map, sizeof map, "%u %u 1\n", 1000u,
			 geteuid() ? getegid() : 65534u);
		if (!e)
			e = -fd_write_at(proc, "gid_map", map);
		snprintf(map, sizeof map, "%u %u 1\n", 1000u,
			 geteuid() ? geteuid() : 65534u);
		if (!e)
			e = -fd_write_at(proc, "uid_map", map);
	}
	*made = e == 0;
	if (e == 0 && write(p[1], "x", 1) != 1)
		e = errno;
	close(p[1]);
	int code = wait_code(pid);
	return e ? e : code;
}

static int do_nothing(void)
{
	return 0;
}

static int do_mounts(void)
{
	if (!root_calls_work())
		return ENOSYS;
	if (setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
		return errno;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/etc", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k") < 0 ||
	    mount("/usr", "/usr", NULL, MS_BIND | MS_REC, NULL) < 0)
		return errno;
	return 0;
}

static int do_proc(void)
{
	if (setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0)
		return errno;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/etc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return errno;
	return 0;
}

static int do_seccomp(void)
{
	const struct seccomp_prog *f = seccomp_default(true);
	const struct sock_fprog prog = { f->len, (struct sock_filter *)f->insns };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		    SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog) < 0)
		return errno;
	/* a call the filter answers itself: proof that it is in force */
	if (syscall(SYS_clone3, NULL, 0) >= 0 || errno != ENOSYS)
		return EPROTO;
	return 0;
}

static int do_landlock(void)
{
	int abi = landlock_abi();
	const struct plan_rule read_all = { LL_READ, true, (char *)"/" };
	int dir = openat(AT_FDCWD, "/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (abi < 0)
		return -abi;
	if (dir < 0)
		return errno;
	int fd = landlock_ruleset(&read_all, 1, abi, true);
	if (fd < 0)
		return -fd;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	int e = landlock_apply(fd);
	if (e < 0)
		return -e;
	return landlock_canary(dir) == EACCES ? 0 : EPROTO;
}

static struct probe_result *add(struct probe_result *out, int *n, const char *name,
				unsigned layers, int errnum)
{
	struct probe_result *r = &out[(*n)++];

	*r = (struct probe_result){ .name = name, .layers = layers,
				    .state = errnum ? PROBE_FAILED : PROBE_OK };
	if (errnum)
		snprintf(r->detail, sizeof r->detail, "%s", strerror(errnum));
	return r;
}

static void probe_kernel(struct probe_result *out, int *n)
{
	struct utsname u;
	bool ok = kernel_at_least(5, 13);
	struct probe_result *r = add(out, n, "kernel", LAYERS_BASE, 0);

	uname(&u);
	r->state = ok ? PROBE_OK : PROBE_FAILED;
	snprintf(r->detail, sizeof r->detail, "%.100s%s", u.release,
		 ok ? "" : ", older than 5.13");
	if (!ok)
		snprintf(r->fix, sizeof r->fix, "use Linux 5.13 or later");
}

#define NEEDS_USER "needs a user namespace"

/* False: there are no user namespaces, the cause of all that fails besides. */
static bool probe_namespaces(struct probe_result *out, int *n)
{
	static const struct {
		const char *name;
		uint64_t flag;
		enum layer layer;
	} kinds[] = {
		{ "mount namespace", CLONE_NEWNS, LAYER_MOUNT },
		{ "pid namespace", CLONE_NEWPID, LAYER_PID },
		{ "network namespace", CLONE_NEWNET, LAYER_NET },
		{ "ipc namespace", CLONE_NEWIPC, LAYER_IPC },
		{ "uts namespace", CLONE_NEWUTS, LAYER_UTS },
		{ "cgroup namespace", CLONE_NEWCGROUP, LAYER_CGROUP },
	};
	struct brig_error err = { 0 };
	int made;
	int e = in_namespaces(CLONE_NEWUSER, do_nothing, &made);
	struct probe_result *r = add(out, n, "user namespace",
				     LAYER_BIT(LAYER_USER), e);
	if (e) {
		diagnose_userns(e, &err);
		snprintf(r->detail, sizeof r->detail, "%.500s", err.message);
		snprintf(r->fix, sizeof r->fix, "%.500s", err.fix);
	}
	bool have_user = e == 0;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		e = have_user ? in_namespaces(CLONE_NEWUSER | kinds[i].flag, do_nothing,
					      &made) : EPERM;
		r = add(out, n, kinds[i].name, LAYER_BIT(kinds[i].layer), e);
		if (e && !have_user)
			snprintf(r->detail, sizeof r->detail, NEEDS_USER);
		else if (e)
			snprintf(r->fix, sizeof r->fix,
				 "check /proc/sys/user/max_*_namespaces and the kernel's "
				 "configuration");
	}
	e = have_user ? in_namespaces(CLONE_NEWUSER | CLONE_NEWNS, do_mounts, &made) :
			EPERM;
	r = add(out, n, "mounting", LAYER_BIT(LAYER_MOUNT), e);
	if (e && !have_user)
		snprintf(r->detail, sizeof r->detail, NEEDS_USER);
	else if (e == ENOSYS)
		snprintf(r->fix, sizeof r->fix,
			 "the mount calls of Linux 5.12 are not there, or a container's filter "
			 "hides them: use --backend landlock");
	else if (e)
		snprintf(r->fix, sizeof r->fix,
			 "an AppArmor or SELinux rule, or a container's filter, "
			 "refuses mounts: allow them for brig");
	e = have_user ? in_namespaces(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID,
				      do_proc, &made) : EPERM;
	r = add(out, n, "fresh /proc", LAYER_BIT(LAYER_PID), e);
	if (e && !have_user)
		snprintf(r->detail, sizeof r->detail, NEEDS_USER);
	else if (e)
		snprintf(r->fix, sizeof r->fix,
			 "parts of /proc are covered here (a container?): run brig where "
			 "/proc is whole");
	return have_user;
}

static int in_child(probe_fn *fn)
{
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(fn());
	return wait_code(pid);
}

static void probe_filters(struct probe_result *out, int *n)
{
	int e = in_child(do_seccomp);
	struct probe_result *r = add(out, n, "system-call filter",
				     LAYER_BIT(LAYER_SECCOMP) |
					     LAYER_BIT(LAYER_NO_NEW_PRIVS), e);
	if (e)
		snprintf(r->fix, sizeof r->fix,
			 "the kernel needs CONFIG_SECCOMP_FILTER; no other program may "
			 "hold the notification listener");
	else
		snprintf(r->detail, sizeof r->detail, "loaded and answering");
	e = in_child(do_landlock);
	r = add(out, n, "landlock", LAYER_BIT(LAYER_LANDLOCK), e);
	int abi = landlock_abi();
	if (e)
		snprintf(r->fix, sizeof r->fix,
			 "boot with Landlock in the lsm= list (kernel 5.13 or later)");
	else
		snprintf(r->detail, sizeof r->detail, "ABI %d%s%s%s", abi,
			 abi < 2 ? ", no rename across directories" : "",
			 abi < 3 ? ", truncation not covered" : "",
			 abi < 6 ? ", signals and abstract sockets not covered" : "");
}

static void probe_cgroups(struct probe_result *out, int *n)
{
	static const struct {
		const char *name;
		unsigned bit;
		enum layer layer;
	} kinds[] = { { "memory limit", CG_MEMORY, LAYER_MEMORY },
		      { "processor limit", CG_CPU, LAYER_CPU },
		      { "process limit", CG_PIDS, LAYER_PIDS } };
	struct cgroup cg;

	cgroup_init(&cg);
	unsigned bits = cgroup_probe(&cg);
	const bool nested = geteuid() == 0 && userns_here() == USERNS_OTHER;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct probe_result *r = add(out, n, kinds[i].name,
					     LAYER_BIT(kinds[i].layer), 0);
		if (bits & kinds[i].bit) {
			snprintf(r->detail, sizeof r->detail, "control group version %d",
				 cg.version);
		} else if (kinds[i].bit == CG_PIDS && watch_nproc(1, nested)) {
			snprintf(r->detail, sizeof r->detail,
				 "RLIMIT_NPROC in the sandbox's user namespace");
		} else {
			r->state = PROBE_DEGRADED;
			char why[sizeof r->detail];
			snprintf(r->detail, sizeof r->detail, "%s",
				 cgroup_why(&cg, kinds[i].bit, why, sizeof why));
			snprintf(r->fix, sizeof r->fix, "%s",
				 cgroup_fix(&cg, kinds[i].bit));
		}
	}
	cgroup_close(&cg);
}

/* Root's own workspaces are shown under another id, which not every file system
 * can do. */
static void probe_idmap(struct probe_result *out, int *n, bool have_user)
{
	char here[256];
	int why;

	if (geteuid() != 0 || !getcwd(here, sizeof here))
		return;
	struct probe_result *r = add(out, n, "id-mapped mounts", 0, 0);
	if (!have_user) {
		r->state = PROBE_DEGRADED;
		snprintf(r->detail, sizeof r->detail, NEEDS_USER);
		return;
	}
	if (root_idmap_works(here, &why)) {
		snprintf(r->detail, sizeof r->detail, "work for %s", here);
		return;
	}
	r->state = PROBE_DEGRADED;
	snprintf(r->detail, sizeof r->detail, "not for %s: %s", here, strerror(-why));
	snprintf(r->fix, sizeof r->fix,
		 "a workspace there that belongs to root is refused: give it to an "
		 "ordinary user (chown), or run brig as one");
}

int probe_native(struct probe_result out[PROBE_MAX])
{
	int n = 0;

	probe_kernel(out, &n);
	probe_idmap(out, &n, probe_namespaces(out, &n));
	probe_filters(out, &n);
	probe_cgroups(out, &n);
	return n;
}
