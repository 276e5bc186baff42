/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/raw.h"
#include "base/sys.h"
#include "engine/launch.h"

int launch_copy(struct launch *to, const struct launch *from)
{
	*to = *from;
	to->root.slots = NULL;
	if (!from->allow)
		return 0;
	to->allow = malloc(sizeof *to->allow);
	if (!to->allow)
		return -ENOMEM;
	*to->allow = *from->allow;
	return 0;
}

int launch_give_plan(struct launch *to, const struct launch *from)
{
	if (root_copy(&to->root, &from->root) < 0)
		return -ENOMEM;
	to->plan = from->plan;
	to->who = from->who;
	return 0;
}

void launch_copy_free(struct launch *copy)
{
	free(copy->root.slots); /* with all of it; the descriptors were another process's */
	free(copy->allow);
}

static void copy_text(char *to, size_t cap, const char *from)
{
	size_t n = strlen(from);

	if (n >= cap)
		n = cap - 1;
	memcpy(to, from, n);
	to[n] = '\0';
}

void child_tell(const struct launch *l, enum brig_code code, int errnum,
		const char *phase, const char *what)
{
	struct wire w = { .type = WIRE_FAIL, .code = code, .errnum = errnum };

	copy_text(w.phase, sizeof w.phase, phase);
	copy_text(w.what, sizeof w.what, what);
	/* if nobody listens, nobody will release anything either */
	(void)!write(l->ctl_child, &w, sizeof w);
}

void child_fail(const struct launch *l, enum brig_code code, int errnum,
		const char *phase, const char *what)
{
	child_tell(l, code, errnum, phase, what);
	_exit(125);
}

bool child_await(const uint32_t *word, pid_t who)
{
	while (!word_is_set(word)) {
		word_await(word);
		/* now and then: its last act may have been to set it */
		if (!word_is_set(word) && waitpid(who, NULL, WNOHANG) != 0)
			return word_is_set(word);
	}
	return true;
}

void child_await_record(const struct launch *l, enum wire_type type, struct wire_in *in)
{
	int r = wire_wait(type == WIRE_TREES ? l->trees_child : l->ctl_child, type, in);

	if (r == -EMFILE)
		child_fail(l, BRIG_E_SETUP_FAILED, EMFILE, "plan",
			   "the descriptors that come with it");
	if (r < 0)
		_exit(125);
}

static void check_root(struct launch *l, int e)
{
	if (e < 0)
		child_fail(l, l->root.code, -e, "mount", l->root.what);
}

/* What host root has opened, in the order of the operations.  Each is placed as it comes:
 * there are more on their way. */
static void place_given(struct launch *l)
{
	struct wire_in in;
	size_t at = root_next_caller(&l->root, 0);

	while (at < l->plan->n_ops) {
		child_await_record(l, WIRE_TREES, &in);
		for (size_t i = 0; i < in.n_fds; i++) {
			if (at == l->plan->n_ops)
				child_fail(l, BRIG_E_INTERNAL, EPROTO, "plan",
					   "the caller's trees");
			l->root.slots[at] = in.fds[i];
			at = root_next_caller(&l->root, at + 1);
		}
		check_root(l, root_place(&l->root, at));
	}
}

/* One line each.  setgroups has to be given up first (CVE-2014-8989). */
static void map_ids(const struct launch *l, const char *proc, const char *phase,
		    const char *gid_map, const char *uid_map)
{
	int dir = openat(AT_FDCWD, proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int e = dir < 0 ? -errno : fd_write_at(dir, "setgroups", "deny");

	if (e == 0)
		e = fd_write_at(dir, "gid_map", gid_map);
	if (e == 0)
		e = fd_write_at(dir, "uid_map", uid_map);
	if (e < 0)
		child_fail(l, BRIG_E_IDMAP_DENIED, -e, phase,
			   "mapping the user and group id");
	close(dir);
}

/*
 * Who may write the maps of the second user namespace.  As long as root's memory is shared,
 * /proc/PID is root's (spawn_hide()), and the builder has another id by then.  The process
 * that made the others has not: it is in the first namespace, with all rights there, and
 * still under root's id, which is nobody's in there.
 */
static bool maps_by_helper(const struct launch *l)
{
	return l->plan->lock && l->shares && l->spec->as_root;
}

/* In that process.  The builder, whose maps they are, is pid 1 here. */
static void write_maps(struct launch *l)
{
	while (!word_is_set(&l->locked))
		word_await(&l->locked);
	map_ids(l, "/proc/1", "lock", l->who.gid_map_same, l->who.uid_map_same);
	word_set(&l->mapped);
}

static void await_maps(struct launch *l, pid_t helper)
{
	word_set(&l->locked);
	if (!child_await(&l->mapped, helper))
		child_fail(l, BRIG_E_IDMAP_DENIED, ECHILD, "lock",
			   "the process that maps the ids died");
}

/*
 * A second user and mount namespace around the finished tree.  In the copy every
 * mount is locked to its place: it cannot be uncovered, and, what is less
 * obvious, it stays where it is when the namespace ends.  Without this a
 * descriptor of the workspace that was handed to another sandbox would reach
 * below brig's read-only and masking mounts as soon as this one is gone.
 *
 * The first namespace is held open until init is executed: taking it apart waits
 * for the whole machine, which the job need not.
 */
static void lock_mounts(struct launch *l, pid_t helper)
{
	l->first_mntns = openat(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (l->first_mntns < 0)
		child_fail(l, BRIG_E_MOUNT_FAILED, errno, "lock", "/proc/self/ns/mnt");
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		child_fail(l, BRIG_E_USERNS_DENIED, errno, "lock",
			   "a second user namespace, which locks the mounts");
	if (maps_by_helper(l))
		await_maps(l, helper);
	else
		map_ids(l, "/proc/self", "lock", l->who.gid_map_same, l->who.uid_map_same);
}

void child_take_ids(const struct launch *l)
{
	const struct spec *s = l->spec;
	long r = 0;

	/* Root's supplementary groups must not come along.  An ordinary user
	 * cannot drop groups (setgroups is denied by the one-id map); they give
	 * access only to what the mount tree shows. */
	if (s->as_root && (r = SYS2(SYS_setgroups, 0, 0)) < 0)
		child_fail(l, BRIG_E_IDMAP_DENIED, (int)-r, "ids", "dropping groups");
	r = SYS3(SYS_setresgid, s->in_gid, s->in_gid, s->in_gid);
	if (r == 0)
		r = SYS3(SYS_setresuid, s->in_uid, s->in_uid, s->in_uid);
	if (r < 0)
		child_fail(l, BRIG_E_IDMAP_DENIED, (int)-r, "ids", "taking the mapped id");
	/* Root's change of id made our own /proc files unwritable, and we may have
	 * maps to write.  Nobody is in here yet who could look at us.  Only when the
	 * memory is a copy: else what the id's owner may then write below our /proc
	 * would concern the supervisor (spawn_may_share()), and somebody else writes
	 * them (maps_by_helper()).  Init and the command start with their own. */
	if (s->as_root && !l->shares &&
	    (r = SYS5(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)) < 0)
		child_fail(l, BRIG_E_IDMAP_DENIED, (int)-r, "ids", "own /proc files");
}

void child_own_keyring(const struct launch *l)
{
	/* A session keyring of its own: keys of the caller's session would
	 * otherwise be possessed by the command.  A kernel without keyrings has
	 * nothing to share.  In one process only: the kernel counts them. */
	long r = SYS2(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0);
	if (r < 0 && r != -ENOSYS && r != -EOPNOTSUPP)
		child_fail(l, BRIG_E_SETUP_FAILED, (int)-r, "keyring",
			   "a session keyring");
}

static void private_names(const struct launch *l)
{
	if (sethostname(l->plan->hostname, strlen(l->plan->hostname)) < 0 ||
	    setdomainname("(none)", 6) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "uts", "the host name");
}

void child_set_limit(const struct launch *l, unsigned what, uint64_t value, const char *name)
{
	struct rlimit old = { RLIM_INFINITY, RLIM_INFINITY }, lim = { value, value };

	if (!value)
		return;
	long r = SYS4(SYS_prlimit64, 0, what, 0, &old);
	if (r == 0 && old.rlim_max < value)
		lim.rlim_cur = lim.rlim_max = old.rlim_max; /* tighter already */
	r = SYS4(SYS_prlimit64, 0, what, &lim, 0);
	if (r < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, (int)-r, "limits", name);
}

/* The terminal comes from the sandbox's own devpts, so that ttyname() and
 * /dev/tty work inside and the host's terminals stay out of reach. */
static void open_terminal(struct launch *l)
{
	int unlock = 0;
	int master = openat(l->root.rootfd, "dev/pts/ptmx",
			    O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "pty", "a terminal");
	int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "pty", "a terminal");

	const struct wire w = { .type = WIRE_PTY };
	int e = wire_send(l->ctl_child, &w, &master, 1);
	if (e < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, -e, "pty", "handing it over");
	close(master);
	l->stdio[0] = l->stdio[1] = l->stdio[2] = slave;
}

/* A file in the private tmpfs, outside every tree the command can see. */
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

/* Decimal without stdio; the buffer holds 11 digits. */
static void put_number(char out[12], pid_t pid)
{
	char digits[12], *d = digits + 11;
	unsigned v = (unsigned)pid;

	*d = '\0';
	do
		*--d = (char)('0' + v % 10);
	while ((v /= 10));
	memcpy(out, d, strlen(d) + 1);
}

static void become_init(struct launch *l, int image)
{
	static char name[] = "brig-init";
	char *argv[] = { name, l->status_arg, l->death_arg, l->job_arg, NULL };
	char *envp[] = { NULL };

	/* Whatever descriptors the caller leaked into brig stay out, too. */
	if (sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0 ||
	    fcntl(l->status_write, F_SETFD, 0) < 0 ||
	    fcntl(l->death_read, F_SETFD, 0) < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, errno, "init", "descriptors");
	syscall(SYS_execveat, image, "", argv, envp, AT_EMPTY_PATH);
	child_fail(l, BRIG_E_SETUP_FAILED, errno, "init", "executing init");
}

static void detach(struct launch *l)
{
	check_root(l, root_detach(&l->root));
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

/* The mounts are what they will be, and the job goes on. */
static void announce_tree(struct launch *l)
{
	open_directory(l);
	word_set(&l->tree_done);
}

/* The command must not inherit that it is tied to one. */
static void check_placed(const struct launch *l, int e)
{
	if (e < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, -e, "clone", "the processors");
}

static int early_main(void *arg)
{
	struct launch *l = arg;

	check_placed(l, place_leave(&l->place, l->builder_cpu));
	/* needs capabilities, which we have, but no mapped id and no plan */
	beside_make(l);
	/* if the builder dies meanwhile, so do we: it is pid 1 */
	while (!word_is_set(&l->plan_done))
		word_await(&l->plan_done);
	beside_loopback(l, false);
	if (!l->plan->lock)
		job_main(l, true);
	job_help_builder(l);
	job_help_more(l);
	if (maps_by_helper(l))
		write_maps(l);
	word_set(&l->maker_done);
	return 0;
}

static int late_main(void *arg)
{
	job_main(arg, false);
}

/* A process on our memory: nothing is copied. */
static pid_t start(struct launch *l, int (*entry)(void *), unsigned room,
		   uint64_t flags)
{
	struct clone_args args = { .flags = CLONE_VM | flags, .exit_signal = SIGCHLD };
	pid_t pid = spawn(&args, &l->rooms, room, entry, l);

	if (pid < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, -pid, "clone",
			   "the command's process");
	return pid;
}

static void build_tree(struct launch *l, pid_t job)
{
	struct root *r = &l->root;

	check_root(l, root_begin(r));
	if (root_wants_help(r)) {
		check_root(l, root_open_points(r));
		r->helper = job;
		word_set(&l->points);
	}
	check_root(l, root_build(r));
	if (r->given) {
		root_make_points(r); /* until the trees are here */
		place_given(l);
	}
	check_root(l, root_place(r, l->plan->n_ops));
	check_root(l, root_finish(r));
}

/* The tree, entered; the old root is still below it.  Init's image. */
static int enter_tree(struct launch *l, pid_t job)
{
	build_tree(l, job);
	if (l->spec->pty)
		open_terminal(l);
	word_set(&l->built);
	int image = store_init(l);
	check_root(l, root_pivot(&l->root));
	return image;
}

/* The job where the mounts are locked; the process that made the namespaces is done with. */
static pid_t lock_and_start(struct launch *l, pid_t maker)
{
	lock_mounts(l, maker);
	/* the loopback interface may be its to bring up */
	if (!child_await(&l->maker_done, maker))
		child_fail(l, BRIG_E_NAMESPACE_DENIED, ECHILD, "namespaces",
			   "the process that makes the namespaces died");
	/* or it would count as one of the command's processes */
	waitpid(maker, NULL, 0);
	announce_tree(l);
	return start(l, late_main, ROOM_LATE, 0);
}

int child_main(void *launch)
{
	struct launch *l = launch;
	check_placed(l, place_release(&l->place));
	/* Our copies of the supervisor's ends: as long as one is open here, its
	 * death would go unnoticed. */
	close(l->death_write);
	close(l->ctl_supervisor);
	close(l->status_read);
	if (l->trees_supervisor >= 0)
		close(l->trees_supervisor);
	/* modes in the plan are exact; the command gets the caller's umask */
	l->umask = umask(0);
	/* 1, not 0: a core handler that is a pipe ignores 0 and would run on
	 * the host as root with the command's memory; 1 means none. */
	child_set_limit(l, RLIMIT_CORE, 1, "RLIMIT_CORE");
	l->first_mntns = -1;
	/* From here on side by side: we build, it makes namespaces and takes away from
	 * itself what it can without the tree. */
	fd_make_room(l->ctl_child, l->table); /* it shares our table until the tree is there */
	l->builder_cpu = sched_getcpu();
	pid_t job = start(l, early_main, ROOM_EARLY, CLONE_FILES);
	/* While we sleep the kernel would move us over to the job, which keeps its
	 * processor for as long as it takes to make a network namespace. */
	place_hold(&l->place);
	if (!(l->spec->as_root || l->spec->nested))
		map_ids(l, "/proc/self", "ids", l->who.gid_map, l->who.uid_map);
	struct wire_in plan;
	child_await_record(l, WIRE_PLAN, &plan); /* root of the machine has mapped the ids by then */
	if (l->spec->nested)
		map_ids(l, "/proc/self", "ids", l->who.gid_map, l->who.uid_map);
	word_set(&l->plan_done);
	/* The supervisor, which we have pushed aside, is about to go to sleep.  When it wakes
	 * up it goes where there is room; as it is it would stay behind us. */
	sched_yield();
	check_placed(l, place_release(&l->place));
	bool lock = l->plan->lock;
	beside_join_mounts(l, job);
	child_take_ids(l);
	if (lock)
		child_own_keyring(l); /* the job is cloned from us */
	private_names(l);
	int image = enter_tree(l, job);
	if (!lock)
		announce_tree(l);
	/* The kernel waits for a grace period here, which the job need not: it is
	 * still at the network, its root is the new tree already, and it is not
	 * released before init is there.  Unless we lock: then the old root would be
	 * locked in. */
	detach(l);
	/* owned by the first user namespace: joined before we leave that */
	beside_join(l, job);
	if (l->allow)
		netns_hand_over(l);
	beside_loopback(l, true);
	if (lock)
		job = lock_and_start(l, job);
	put_number(l->job_arg, job);
	become_init(l, image);
	_exit(125);
}
