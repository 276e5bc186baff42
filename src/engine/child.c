/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builder: pid 1 of the new namespaces until it executes brig-init.  It has every
 * capability in its own user namespace and none outside, and no code but brig's runs
 * beside it before it is done.  No allocation, no stdio.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mountapi.h"
#include "base/sys.h"
#include "confine/netns_allow.h"
#include "confine/pty.h"
#include "confine/rlimits.h"
#include "engine/launch.h"

static void copy_text(char *to, size_t cap, const char *from)
{
	size_t n = strlen(from);

	if (n >= cap)
		n = cap - 1;
	memcpy(to, from, n);
	to[n] = '\0';
}

void child_fail(const struct launch *l, enum brig_code code, int errnum,
		const char *phase, const char *what)
{
	struct wire w = { .type = WIRE_FAIL, .code = code, .errnum = errnum };

	copy_text(w.phase, sizeof w.phase, phase);
	copy_text(w.what, sizeof w.what, what);
	/* if nobody listens, nobody will release anything either */
	(void)!write(l->ctl_child, &w, sizeof w);
	_exit(125);
}

static void check_root(const struct launch *l, int e)
{
	if (e < 0)
		child_fail(l, l->root.code, -e, "mount", l->root.what);
}

/* Our copies of the supervisor's ends: as long as one is open here, its death would go
 * unnoticed. */
static void forget_supervisor(const struct launch *l)
{
	close(l->death_write);
	close(l->ctl_supervisor);
	close(l->status_read);
	close(l->janitor);
}

/* An ordinary user maps the one id that it has.  Root's map takes a writer with power over
 * the ids outside: the supervisor writes it, and says so. */
static void take_ids(const struct launch *l)
{
	const struct spec *s = l->spec;
	struct wire_in in;
	int e;

	if (s->as_root) {
		if (wire_wait(l->ctl_child, WIRE_MAPPED, &in) < 0)
			_exit(125);
	} else if ((e = ids_map("/proc/self", &l->maps, true)) < 0) {
		child_fail(l, BRIG_E_IDMAP_DENIED, -e, "ids", "mapping the user and group id");
	}
	/* Root's supplementary groups must not come along.  An ordinary user cannot drop
	 * groups (setgroups is denied by the one-id map); they give access only to what the
	 * mount tree shows. */
	e = ids_become(s->in_uid, s->in_gid, s->as_root);
	if (e < 0)
		child_fail(l, BRIG_E_IDMAP_DENIED, -e, "ids", "taking the mapped id");
	/* Root's change of id made our own /proc files unwritable, and we may have maps to
	 * write: lock_mounts().  Nobody is in here yet who could look at us; init and the
	 * command start with their own setting. */
	if (s->as_root && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		child_fail(l, BRIG_E_IDMAP_DENIED, errno, "ids", "own /proc files");
	e = ids_own_keyring();
	if (e < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, -e, "keyring", "a session keyring");
}

static void private_names(const struct launch *l)
{
	if (sethostname(l->plan->hostname, strlen(l->plan->hostname)) < 0 ||
	    setdomainname("(none)", 6) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "uts", "the host name");
}

/* The routes and sockets of an allow-list are made later, from outside: netns_enter(). */
static void set_up_network(const struct launch *l)
{
	int e = plan_own_net(l->spec) && l->spec->loopback ? netns_loopback_up() : 0;

	if (e < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, -e, "net", "the loopback interface");
}

/* The terminal comes from the sandbox's own devpts, so that ttyname() and
 * /dev/tty work inside and the host's terminals stay out of reach. */
static void open_terminal(struct launch *l)
{
	const struct wire w = { .type = WIRE_PTY };
	int master, slave;
	int e = pty_open(l->root.rootfd, "dev/pts/ptmx", &master, &slave);

	if (e < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, -e, "pty", "a terminal");
	e = wire_send(l->ctl_child, &w, &master, 1);
	if (e < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, -e, "pty", "handing it over");
	close(master);
	l->stdio[0] = l->stdio[1] = l->stdio[2] = slave;
}

/* Init's image: a file in the private tmpfs, outside every tree the command can see. */
static int store_init(const struct launch *l)
{
	static const char name[] = "brig-init";
	int dir = l->root.scratchfd;
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);

	if (fd < 0 || fd_write_full(fd, brig_init_image, brig_init_image_len) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "init", "storing init");
	close(fd); /* a file open for writing cannot be executed */
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "init", "opening init");
	return fd;
}

static void build_tree(struct launch *l)
{
	/* nothing the host mounts later may appear inside */
	const struct mnt_attr private = { .propagation = MS_PRIVATE };

	if (sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof private) < 0)
		child_fail(l, errno == ENOSYS ? BRIG_E_KERNEL_TOO_OLD : BRIG_E_MOUNT_FAILED, errno,
			   "mount", errno == ENOSYS ? "the mount calls of Linux 5.12" :
						      "making / private");
	check_root(l, root_build(&l->root));
}

/*
 * A second user and mount namespace around the finished tree.  In the copy every
 * mount is locked to its place: it cannot be uncovered, and, what is less
 * obvious, it stays where it is when the namespace ends.  Without this a
 * descriptor of the workspace that was handed to another sandbox would reach
 * below brig's read-only and masking mounts as soon as this one is gone.
 */
static int lock_mounts(const struct launch *l)
{
	/* To take the first one apart takes long: that waits until init is executed. */
	int first = openat(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

	if (first < 0)
		child_fail(l, BRIG_E_MOUNT_FAILED, errno, "lock", "/proc/self/ns/mnt");
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, errno, "lock",
			   "a second user namespace, which locks the mounts");
	int e = ids_map("/proc/self", &l->maps_again, true);
	if (e < 0)
		child_fail(l, BRIG_E_IDMAP_DENIED, -e, "lock", "mapping the user and group id");
	return first;
}

/* Where the command starts, resolved again, by the kernel, in the tree that is
 * really there now.  The names are the agent's.  In the last mount namespace: a
 * directory of the first would uncover what is mounted there when that ends. */
static void open_directory(struct launch *l)
{
	const char *rel = *l->spec->cwd ? l->spec->cwd : ".";
	int top = openat(AT_FDCWD, l->spec->workspace.dst,
			 O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (top < 0)
		child_fail(l, BRIG_E_BAD_CWD, errno, "cwd", l->spec->workspace.dst);
	l->cwdfd = sys_openat2(top, rel, O_PATH | O_DIRECTORY | O_CLOEXEC,
			       RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	if (l->cwdfd < 0)
		child_fail(l, BRIG_E_BAD_CWD, errno, "cwd", l->plan->cwd);
	close(top);
}

static void become_init(const struct launch *l, int image, pid_t job)
{
	char status[24], death[24], pid[24];
	char *argv[] = { (char[]){ "brig-init" },
			 (char *)root_decimal((uint64_t)l->status_write, status),
			 (char *)root_decimal((uint64_t)l->death_read, death),
			 (char *)root_decimal((uint64_t)job, pid), NULL };
	char *envp[] = { NULL };

	/* Whatever descriptors the caller leaked into brig stay out, too. */
	if (sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0 ||
	    fcntl(l->status_write, F_SETFD, 0) < 0 || fcntl(l->death_read, F_SETFD, 0) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "init", "descriptors");
	syscall(SYS_execveat, image, "", argv, envp, AT_EMPTY_PATH);
	child_fail(l, BRIG_E_SETUP_FAILED, errno, "init", "executing init");
}

void builder_main(struct launch *l)
{
	forget_supervisor(l);
	/* modes in the plan are exact; the command gets the caller's umask */
	l->umask = umask(0);
	/* 1, not 0: a core handler that is a pipe ignores 0 and would run on
	 * the host as root with the command's memory; 1 means none. */
	int e = rlimit_lower(RLIMIT_CORE, 1);
	if (e < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, -e, "limits", "RLIMIT_CORE");
	take_ids(l);
	private_names(l);
	set_up_network(l);
	build_tree(l);
	if (l->spec->pty)
		open_terminal(l);
	int image = store_init(l);
	check_root(l, root_pivot(&l->root));
	int first = -1;
	if (l->plan->lock) {
		/* or the old root would be locked in */
		check_root(l, root_detach(&l->root));
		first = lock_mounts(l);
	}
	open_directory(l);
	struct clone_args args = { .exit_signal = SIGCHLD };
	pid_t job = sys_clone3(&args);
	if (job < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "clone", "the command's process");
	if (job == 0) {
		if (first >= 0)
			close(first);
		job_main(l);
	}
	/* The kernel waits for a grace period here, which the job need not: its root is the
	 * new tree already, and it is not released before init has spoken. */
	if (!l->plan->lock)
		check_root(l, root_detach(&l->root));
	become_init(l, image, job);
	_exit(125);
}
