/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"

int kernel_at_least(unsigned major, unsigned minor)
{
	struct utsname u;
	unsigned a = 0, b = 0;

	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &a, &b) != 2)
		return 0;
	return a > major || (a == major && b >= minor);
}

/* The number in a small kernel file, or -1. */
static long number_in(const char *path)
{
	char text[32];

	if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
		return -1;
	return strtol(text, NULL, 10);
}

#define NO_NAMESPACES "use --backend landlock, which needs no namespaces; or run brig on " \
		      "the host, or with a profile that allows clone3, unshare, setns and mount"

#define NOT_IN_CHROOT "use --backend landlock, which needs no namespaces; or run brig outside " \
		      "of the chroot, or in a root directory made by pivot_root"

static int filtered_already(void)
{
	big_buffer char text[4096];

	if (fd_read_at(AT_FDCWD, "/proc/self/status", text, sizeof text) <= 0)
		return 0;
	const char *p = strstr(text, "\nSeccomp:");
	return p && atoi(p + 9) == 2;
}

/* A limit of zero on another kind of namespace: its file, or NULL, and the kind. */
static const char *zero_limit(const char **kind)
{
	static const struct {
		const char *path, *name;
	} kinds[] = {
		{ "/proc/sys/user/max_mnt_namespaces", "mount" },
		{ "/proc/sys/user/max_pid_namespaces", "pid" },
		{ "/proc/sys/user/max_net_namespaces", "network" },
		{ "/proc/sys/user/max_ipc_namespaces", "ipc" },
		{ "/proc/sys/user/max_uts_namespaces", "uts" },
		{ "/proc/sys/user/max_cgroup_namespaces", "cgroup" },
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		*kind = kinds[i].name;
		if (number_in(kinds[i].path) == 0)
			return kinds[i].path + strlen("/proc/sys/");
	}
	return NULL;
}

/* The root directory is not where a mount begins, as that of a mount namespace is.  (One that
 * is a mount of its own cannot be told from that.) */
static bool in_chroot(void)
{
	struct statx st;

	return syscall(SYS_statx, AT_FDCWD, "/", AT_NO_AUTOMOUNT, 0, &st) == 0 &&
	       st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
	       !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static void raise_limit(struct brig_error *err, const char *limit)
{
	err_fix(err, "as root: write a larger number (15000, say) to /proc/sys/%s", limit);
}

int diagnose_userns(int errnum, struct brig_error *err)
{
	const char *why, *fix, *limit, *kind;

	if (number_in("/proc/sys/user/max_user_namespaces") == 0) {
		why = "user.max_user_namespaces is 0";
		fix = "as root: sysctl -w user.max_user_namespaces=15000 (and put "
		      "it in /etc/sysctl.d)";
	} else if (errnum == EPERM && in_chroot()) {
		why = "brig runs in a chroot, and the kernel makes none there";
		fix = NOT_IN_CHROOT;
	} else if (number_in("/proc/sys/kernel/unprivileged_userns_clone") == 0) {
		why = "kernel.unprivileged_userns_clone is 0";
		fix = "as root: sysctl -w kernel.unprivileged_userns_clone=1";
	} else if (number_in("/proc/sys/kernel/"
			     "apparmor_restrict_unprivileged_userns") == 1) {
		why = "AppArmor allows user namespaces only to programs with a profile";
		fix = "install brig's AppArmor profile (a profile for the brig binary "
		      "with 'userns,'); do not turn the restriction off";
	} else if (errnum == ENOSPC && (limit = zero_limit(&kind))) {
		err_set(err, BRIG_E_NAMESPACE_DENIED, errnum, "clone",
			"a %s namespace could not be made: %s is 0", kind, limit);
		raise_limit(err, limit);
		return -errnum;
	} else if (errnum == ENOSPC || errnum == EUSERS) {
		why = "the limit on user namespaces (or their nesting) is reached";
		fix = "raise user.max_user_namespaces, or run brig outside the "
		      "nested namespace";
	} else if (errnum == ENOSYS && kernel_at_least(5, 3) && filtered_already()) {
		/* this kernel has the call: somebody says that it has not */
		why = "a system-call filter around brig hides clone3 (a container's: "
		      "Docker's default profile does)";
		fix = NO_NAMESPACES;
		errnum = EPERM;
	} else if (errnum == ENOSYS || errnum == EINVAL) {
		why = "the kernel lacks a kind of namespace brig needs";
		fix = "use a kernel of at least 5.13 with all namespaces built in";
	} else if (filtered_already()) {
		why = "a system-call filter around brig refuses it (a container's?)";
		fix = NO_NAMESPACES;
	} else {
		why = "the kernel refused it (to a chroot, or by a security module)";
		fix = NOT_IN_CHROOT;
	}
	err_set(err, errnum == ENOSYS ? BRIG_E_KERNEL_TOO_OLD : BRIG_E_USERNS_DENIED,
		errnum, "clone",
		"a user namespace could not be made: %s", why);
	err_fix(err, "%s", fix);
	return -errnum;
}

int diagnose_idmap(int errnum, struct brig_error *err)
{
	/* Ubuntu 23.10 and later: the namespace is made, but has no powers. */
	if (number_in("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
		return diagnose_userns(errnum, err);
	err_set(err, BRIG_E_IDMAP_DENIED, errnum, "ids",
		"the user and group ids could not be mapped");
	err_fix(err, "brig doctor shows what is missing");
	return -errnum;
}

#define OTHER_KIND                                                                          \
	"inside, something on the way to it is a file, or a directory would take the place of a " \
	"file, or a file that of a directory: give another place, SRC:DST"

static const struct {
	enum brig_code code;
	int errnum; /* 0: any */
	const char *fix;
} fixes[] = {
	{ BRIG_E_PROC_DENIED, 0,
	  "something is mounted over parts of /proc here (a container?): run brig "
	  "where /proc is whole, for Docker with --security-opt systempaths=unconfined" },
	{ BRIG_E_MOUNT_FAILED, ENOENT,
	  "the mount point must exist inside the tree that is shown there; brig "
	  "creates nothing in your trees" },
	/* mount() and move_mount() answer differently */
	{ BRIG_E_MOUNT_FAILED, ENOTDIR, OTHER_KIND },
	{ BRIG_E_MOUNT_FAILED, EINVAL, OTHER_KIND },
	{ BRIG_E_MOUNT_FAILED, ELOOP,
	  "the target passes through a symbolic link: name its real path" },
	{ BRIG_E_MOUNT_FAILED, EMFILE,
	  "raise the limit on open files (ulimit -n), or use fewer binds" },
	{ BRIG_E_MOUNT_FAILED, EACCES,
	  "you, or for root whoever the command runs as, need permission to enter every "
	  "directory above what is shown; tools that were found: --toolchains none" },
	{ BRIG_E_MOUNT_FAILED, EPERM,
	  "mounting was refused here: brig doctor shows by what" },
	{ BRIG_E_KERNEL_TOO_OLD, ENOSYS,
	  "the kernel lacks them, or a container's filter hides them: --backend landlock works "
	  "without" },
	{ BRIG_E_SOURCE_CHANGED, 0,
	  "something replaced it while brig started; try again" },
	{ BRIG_E_LANDLOCK_UNAVAILABLE, 0,
	  "use a kernel with Landlock on (lsm=landlock,...), or name the layers "
	  "you insist on without it: --require user,mount,pid,net,seccomp,caps" },
	{ BRIG_E_SECCOMP_FAILED, 524, /* ENOTSUPP, which is the kernel's own */
	  "the machine's store for filters is full (net.core.bpf_jit_limit): raise it, "
	  "or end who has loaded so many" },
	{ BRIG_E_SECCOMP_FAILED, 0,
	  "the kernel needs CONFIG_SECCOMP_FILTER; with --seccomp, the profile must "
	  "allow read, write, sendmsg and execve" },
	{ BRIG_E_CGROUP_FAILED, EINVAL,
	  "a processor group takes nobody who has real-time priority (chrt): start brig without "
	  "(chrt -o 0 brig ...), or without a limit on processors (--cpus 0)" },
	{ BRIG_E_CGROUP_FAILED, 0, "brig doctor shows which control groups work here" },
	{ BRIG_E_BAD_WORKSPACE, EMFILE,
	  "raise the limit on open files (ulimit -n)" },
	{ BRIG_E_BAD_WORKSPACE, 0, "brig must be able to look at everything it protects "
	  "there: check its permissions" },
	{ BRIG_E_NO_MEMORY, EMFILE, "raise the limit on open files (ulimit -n)" },
	{ BRIG_E_SETUP_FAILED, ETOOMANYREFS,
	  "descriptors that your programs have sent and nobody has received count against "
	  "the limit on open files: raise it (ulimit -n), or end who has sent them" },
	{ BRIG_E_SETUP_FAILED, EINTR, "a signal came; nothing was run: start it again" },
	{ BRIG_E_BAD_CWD, EACCES,
	  "whoever the command runs as has to be allowed to enter it: chmod a+x, or give another "
	  "directory" },
	{ BRIG_E_BAD_CWD, 0, "give an existing directory inside the workspace" },
};

/* One that is made when the user namespace is there already. */
static void fix_namespace(struct brig_error *err)
{
	const char *kind, *limit = err->errnum == ENOSPC ? zero_limit(&kind) : NULL;

	if (limit)
		raise_limit(err, limit);
	else if ((err->errnum == EPERM || err->errnum == ENOSYS) && filtered_already())
		err_fix(err, "a system-call filter is around brig: " NO_NAMESPACES);
}

void diagnose_fix(struct brig_error *err)
{
	if (err->code == BRIG_E_NAMESPACE_DENIED && !err->fix[0])
		fix_namespace(err);
	for (size_t i = 0; i < sizeof fixes / sizeof fixes[0]; i++)
		if (fixes[i].code == err->code &&
		    (!fixes[i].errnum || fixes[i].errnum == err->errnum)) {
			err_fix(err, "%s", fixes[i].fix);
			return;
		}
	if (!err->fix[0])
		err_fix(err, "brig doctor shows what this machine can enforce");
}
