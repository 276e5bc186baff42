/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Version 2: one tree, and a rule: a group that hands controllers to its
 * children (cgroup.subtree_control) holds no processes itself, the root
 * excepted.  So the sandbox's group needs a parent that is not where we are,
 * unless we are in the root.  Places, in the order they are tried:
 *
 *   root    our own group is the root: make the group in it.
 *   leaf    our own group is ours to write and holds only this process: step
 *           aside into a leaf of it, then hand out controllers.
 *   parent  the group above is ours to write and hands out controllers
 *           already: make a sibling.  Only when our own group sets no limit,
 *           which a sibling would escape.
 *   scope   a person asked for the limit: systemd makes us a delegated scope,
 *           and then it is "leaf".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "confine/cgroup_internal.h"

enum { SYSTEMD_WAIT_MS = 2000, LOCK_TRIES = 50, MEMBERS_MAX = 64 };

enum spot_kind { SPOT_NONE, SPOT_DIRECT, SPOT_LEAF };

/* A parent for the sandbox's group. */
struct spot {
	enum spot_kind kind;
	unsigned bits;   /* controllers a group there would have */
	unsigned enable; /* of these, not handed out yet */
	struct cg_place at;
};

static unsigned read_bits(int dir, const char *file)
{
	char text[512];

	if (fd_read_at(dir, file, text, sizeof text) < 0)
		return 0;
	return cg_bits_parse(text);
}

static bool may_write(int dir, const char *file)
{
	return faccessat(dir, file, W_OK, AT_EACCESS) == 0;
}

/* Only the root of the whole tree has no type; the root of a cgroup
 * namespace has one, and the rule above holds there. */
static bool is_true_root(int dir)
{
	return faccessat(dir, "cgroup.type", F_OK, 0) < 0 && errno == ENOENT;
}

/* The processes of a group: how many, or -errno, -E2BIG when too many to be
 * ours.  One outside our pid namespace is listed as 0. */
static int list_members(int dir, pid_t pids[MEMBERS_MAX])
{
	char text[MEMBERS_MAX * 12];
	int n = 0;

	ssize_t len = fd_read_at(dir, "cgroup.procs", text, sizeof text);
	if (len < 0)
		return (int)len;
	for (char *p = text; *p; n++) {
		char *end;
		long pid = strtol(p, &end, 10);
		if (end == p || *end != '\n' || n >= MEMBERS_MAX)
			return -E2BIG;
		pids[n] = (pid_t)pid;
		p = end + 1;
	}
	return n;
}

static bool is_our_child(pid_t pid)
{
	char path[CG_PID_PATH], text[512];

	cg_pid_path(path, pid, "/stat");
	if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
		return false;
	/* "pid (any name) S ppid …": the name may hold brackets, what follows
	 * may not */
	const char *p = strrchr(text, ')');
	return p && strlen(p) > 4 && strtol(p + 4, NULL, 10) == getpid();
}

static bool is_our_program(pid_t pid)
{
	char path[CG_PID_PATH];
	struct stat a, b;

	cg_pid_path(path, pid, "/exe");
	return stat(path, &a) == 0 && stat("/proc/self/exe", &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

enum kin { SELF_AND_CHILDREN, SAME_PROGRAM };

/* True when the group holds nobody but us: this process, its children (the
 * janitor), and, if that is enough, other processes of this program. */
static bool only_us(int dir, enum kin kin, pid_t pids[MEMBERS_MAX], int *n)
{
	*n = list_members(dir, pids);
	for (int i = 0; i < *n; i++)
		if (pids[i] <= 0 ||
		    (pids[i] != getpid() && !is_our_child(pids[i]) &&
		     !(kin == SAME_PROGRAM && is_our_program(pids[i]))))
			return false;
	return *n >= 0;
}

/* Moves processes, by writing to the cgroup.procs named.  One that has ended
 * meanwhile needs no moving. */
static int move_members(int dir, const char *procs, const pid_t *pids, int n)
{
	cleanup_close int fd = openat(dir, procs, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		char path[CG_PID_PATH];
		cg_pid_path(path, pids[i], "");
		const char *number = path + sizeof "/proc/" - 1;
		if (write(fd, number, strlen(number)) < 0 && errno != ESRCH)
			return -errno;
	}
	return 0;
}

static bool starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* The first limit our own group sets, or NULL. */
static const char *own_limit(int dir)
{
	static const struct {
		const char *file, *none;
	} files[] = {
		{ "memory.max", "max" }, { "memory.high", "max" },
		{ "memory.swap.max", "max" }, { "pids.max", "max" },
		{ "cpu.max", "max" }, { "cpuset.cpus", "\n" },
		{ "io.max", "" },
	};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		char text[256];
		ssize_t n = fd_read_at(dir, files[i].file, text, sizeof text);
		if (n <= 0)
			continue; /* no such controller here, or empty */
		if (!files[i].none[0] || !starts_with(text, files[i].none))
			return files[i].file;
	}
	return NULL;
}

static int open_place(const struct cg_place *p)
{
	int dir = openat(AT_FDCWD, p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	/* a directory of something mounted over the tree would take our mkdir */
	if (dir >= 0 && (fstatfs(dir, &fs) < 0 || fs.f_type != CG_MAGIC_V2)) {
		close(dir);
		return -ENOTDIR;
	}
	return dir < 0 ? -errno : dir;
}

/* To make a group below dir and to put a child into it (the kernel asks for
 * the cgroup.procs of the group both share). */
static bool ours_to_write(int dir)
{
	return may_write(dir, ".") && may_write(dir, "cgroup.procs");
}

static void consider(struct spot *best, const struct spot *s)
{
	if (__builtin_popcount(s->bits) > __builtin_popcount(best->bits))
		*best = *s;
}

/* Our own group: the root, or one to step aside in. */
static void look_own(struct cgroup *cg, const struct cg_place *own, int dir,
		     unsigned need, struct spot *best)
{
	struct spot s = { .at = *own };
	const char *name = strrchr(own->group, '/') + 1;
	pid_t pids[MEMBERS_MAX];
	int n;

	s.bits = read_bits(dir, "cgroup.controllers") & need;
	s.enable = s.bits & ~read_bits(dir, "cgroup.subtree_control");
	if (!ours_to_write(dir) ||
	    (s.enable && !may_write(dir, "cgroup.subtree_control"))) {
		cg_why_add(cg, CG_ALL, "the group %s is not delegated to uid %u: %s is not "
			       "writable", own->group, (unsigned)geteuid(), own->dir);
		return;
	}
	if (!s.bits) {
		cg_why_add(cg, CG_ALL, "%s has none of the controllers", own->dir);
		return;
	}
	if (is_true_root(dir)) {
		s.kind = SPOT_DIRECT;
	} else if (strcmp(name, CG_LEAF_NAME) == 0) {
		return; /* we stepped aside before: the place is above */
	} else if (only_us(dir, SAME_PROGRAM, pids, &n)) {
		s.kind = SPOT_LEAF;
	} else {
		cg_why_add(cg, CG_ALL, "the group %s holds other processes than brig",
			   own->group);
		return;
	}
	consider(best, &s);
}

/* The group above. */
static void look_parent(struct cgroup *cg, const struct cg_place *own, int dir,
			unsigned need, struct spot *best)
{
	struct spot s = { .kind = SPOT_DIRECT, .at = *own };

	if (!cg_place_up(&s.at))
		return;
	const char *limit = own_limit(dir);
	if (limit) {
		/* a sibling would not be under it, and it was put there for us */
		cg_why_add(cg, CG_ALL, "%s/%s sets a limit that must go on holding",
			   own->dir, limit);
		return;
	}
	cleanup_close int up = open_place(&s.at);
	if (up < 0 || !ours_to_write(up)) {
		cg_why_add(cg, CG_ALL, "neither is %s writable", s.at.dir);
		return;
	}
	s.bits = read_bits(up, "cgroup.subtree_control") & need;
	/* the root may hand out more: it has no rule to break, and every
	 * container runtime does the same there */
	if (s.bits != need && is_true_root(up) &&
	    may_write(up, "cgroup.subtree_control")) {
		unsigned has = read_bits(up, "cgroup.controllers") & need;
		s.enable = has & ~s.bits;
		s.bits = has;
	}
	if (s.bits != need) {
		char text[32];
		cg_why_add(cg, need & ~s.bits, "%s does not hand out: %s", s.at.dir,
			   cg_bits_text(need & ~s.bits, text, sizeof text));
	}
	if (s.bits)
		consider(best, &s);
}

static void look(struct cgroup *cg, const struct cg_place *own, unsigned need,
		 struct spot *best)
{
	*best = (struct spot){ .kind = SPOT_NONE };
	cleanup_close int dir = open_place(own);
	if (dir < 0) {
		cg_why_add(cg, CG_ALL, "%s: %s", own->dir, strerror(-dir));
		return;
	}
	look_own(cg, own, dir, need, best);
	if (best->bits != need)
		look_parent(cg, own, dir, need, best);
}

/* Switches controllers on (or, sign '-', off) for the children of dir. */
static int hand_out(int dir, unsigned bits, char sign)
{
	char text[48];
	size_t n = 0;

	for (size_t i = 0; i < 3; i++) {
		if (!(bits & cg_controllers[i].bit))
			continue;
		if (n)
			text[n++] = ' ';
		text[n++] = sign;
		for (const char *p = cg_controllers[i].name; *p; p++)
			text[n++] = *p;
	}
	text[n] = '\0';
	return n ? fd_write_at(dir, "cgroup.subtree_control", text) : 0;
}

/*
 * Undoing (below) takes controllers away from a group in which another brig
 * may be about to make a sandbox.  A shared lock on the directory while one
 * is made, an exclusive one while undoing, keep the two apart.
 */
static int lock_shared(int dir)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(dir, LOCK_SH | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return -errno;
		cg_sleep_ms(2);
	}
	return -EWOULDBLOCK;
}

/* Moves this process (and its janitor) into a leaf of its own group and
 * hands out the controllers there. */
static int step_aside(struct cgroup *cg, const struct spot *s, int dir)
{
	pid_t pids[MEMBERS_MAX];
	int n;

	int len = snprintf(cg->leaf, sizeof cg->leaf, "%s/%s", s->at.dir, CG_LEAF_NAME);
	if (len >= (int)sizeof cg->leaf) {
		cg->leaf[0] = '\0';
		return -ENAMETOOLONG;
	}
	cg->leaf_bits = s->enable;
	int r = cg_note(cg, CG_NOTE_LEAF, s->enable, cg->leaf);
	if (r == 0 && mkdirat(dir, CG_LEAF_NAME, 0755) < 0 && errno != EEXIST)
		r = -errno;
	if (r < 0) {
		cg->leaf[0] = '\0';
		return r;
	}
	/* if somebody else enters meanwhile, handing out fails: EBUSY */
	r = only_us(dir, SAME_PROGRAM, pids, &n) ? 0 : -EBUSY;
	if (r == 0)
		r = move_members(dir, CG_LEAF_NAME "/cgroup.procs", pids, n);
	if (r == 0)
		r = hand_out(dir, s->enable, '+');
	if (r < 0)
		cg_v2_undo_leaf(cg);
	return r;
}

/* True when dir has no child group except the leaf. */
static bool no_other_child(int dir)
{
	_Alignas(8) char list[4096];

	for (;;) {
		long n = syscall(SYS_getdents64, dir, list, sizeof list);
		if (n <= 0)
			return n == 0;
		for (long at = 0; at < n;) {
			const struct sys_dirent *e = (const void *)(list + at);
			if (e->type == DT_DIR && e->name[0] != '.' &&
			    strcmp(e->name, CG_LEAF_NAME) != 0)
				return false;
			at += e->len;
		}
	}
}

static void undo_leaf_in(struct cgroup *cg, int dir)
{
	cleanup_close int leaf = openat(AT_FDCWD, cg->leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (leaf < 0)
		return;
	pid_t pids[MEMBERS_MAX];
	int count;
	/* another brig stepped aside with us, or runs a sandbox here: leave it
	 * all to the last one */
	if (!only_us(leaf, SELF_AND_CHILDREN, pids, &count) || !no_other_child(dir))
		return;
	if (hand_out(dir, cg->leaf_bits, '-') < 0 ||
	    move_members(dir, "cgroup.procs", pids, count) < 0)
		return;
	if (rmdir(cg->leaf) == 0)
		cg->leaf[0] = '\0';
}

void cg_v2_undo_leaf(struct cgroup *cg)
{
	big_buffer char path[PATH_MAX];
	size_t n = strlen(cg->leaf);

	fd_close(&cg->lock);
	/* systemd removes a scope with everything in it when it is empty */
	if (cg->scope || n <= sizeof CG_LEAF_NAME)
		return;
	memcpy(path, cg->leaf, n + 1);
	path[n - sizeof CG_LEAF_NAME] = '\0'; /* its size counts the slash */
	cg->lock = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cg->lock >= 0 && flock(cg->lock, LOCK_EX | LOCK_NB) == 0)
		undo_leaf_in(cg, cg->lock);
	fd_close(&cg->lock);
}

/* --- limits --- */

static int set_memory(int dir, const struct cgroup_want *want)
{
	long page = sysconf(_SC_PAGESIZE);

	int r = cg_number_set(dir, "memory.max", want->memory,
			      page > 0 ? (uint64_t)page : 4096);
	if (r < 0)
		return r;
	/* or the limit is only on what stays in RAM; no file, no swap */
	r = cg_number_set(dir, "memory.swap.max", 0, 1);
	if (r < 0 && r != -ENOENT)
		return r;
	/* half a command is worth nothing: out of memory ends all of it.
	 * Since 4.19; before that the kernel picks one process. */
	(void)fd_write_at(dir, "memory.oom.group", "1");
	return 0;
}

static int set_pids(int dir, const struct cgroup_want *want)
{
	return cg_number_set(dir, "pids.max", want->pids, 1);
}

static int set_cpu(int dir, const struct cgroup_want *want)
{
	char text[64], kept[64];
	unsigned long long quota =
		(unsigned long long)want->cpu_milli * (CG_CPU_PERIOD / 1000);

	snprintf(text, sizeof text, "%llu %d\n", quota, CG_CPU_PERIOD);
	int r = cg_text_set(dir, "cpu.max", text, kept, sizeof kept);
	if (r < 0)
		return r;
	return strcmp(text, kept) == 0 ? 0 : -ERANGE;
}

static const struct {
	unsigned bit;
	const char *name;
	int (*set)(int dir, const struct cgroup_want *want);
} limits[] = {
	{ CG_MEMORY, "memory", set_memory },
	{ CG_PIDS, "pids", set_pids },
	{ CG_CPU, "cpu", set_cpu },
};

static void set_limits(struct cgroup *cg, int dir, unsigned bits,
		       const struct cgroup_want *want)
{
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		if (!(bits & limits[i].bit))
			continue;
		int r = limits[i].set(dir, want);
		if (r == 0)
			cg->enforced |= limits[i].bit;
		else
			cg_why_add(cg, limits[i].bit, "%s: the limit could not be set in %s: %s",
				   limits[i].name, cg->dirs[0], strerror(-r));
	}
	cg->bits[0] = cg->enforced;
}

/* --- preparing --- */

static int make_group_in(struct cgroup *cg, const struct spot *s, int dir, const char *id,
			 const struct cgroup_want *want, struct brig_error *err)
{
	int r = s->kind == SPOT_LEAF ? step_aside(cg, s, dir) : 0;
	if (r == 0)
		r = lock_shared(dir);
	if (r == 0 && s->kind == SPOT_DIRECT)
		r = hand_out(dir, s->enable, '+');
	if (r < 0) {
		char text[32];
		cg_why_add(cg, CG_ALL, "%s could not be made to hand out %s: %s", s->at.dir,
			   cg_bits_text(s->enable, text, sizeof text), strerror(-r));
		return 0;
	}
	cleanup_close int group = cg_dir_make(cg, &s->at, id);
	flock(dir, LOCK_UN);
	if (group == -EACCES || group == -EPERM || group == -EROFS ||
	    group == -EAGAIN) {
		cg_why_add(cg, CG_ALL, "no group could be made in %s: %s", s->at.dir,
			   strerror(-group));
		return 0;
	}
	if (group < 0)
		return err_set(err, BRIG_E_CGROUP_FAILED, -group, "cgroup",
			       "%.300s/brig-%s", s->at.dir, id);
	cg->version = 2;
	set_limits(cg, group, s->bits, want);
	if (!cg->enforced) {
		cg_dir_unmake(cg);
		return 0;
	}
	cg->clone_fd = take_fd(&group);
	return 0;
}

static int make_group(struct cgroup *cg, const struct spot *s, const char *id,
		      const struct cgroup_want *want, struct brig_error *err)
{
	const int dir = open_place(&s->at);

	if (dir < 0)
		return err_set(err, BRIG_E_CGROUP_FAILED, -dir, "cgroup", "%.400s",
			       s->at.dir);
	cg->lock = dir;
	int r = make_group_in(cg, s, dir, id, want, err);
	fd_close(&cg->lock);
	return r;
}

/* Has systemd put us into a scope of our own and finds us there. */
static int scope_enter(struct cgroup *cg, const char *id, struct cg_text *t,
		       struct cg_place *own)
{
	char why[160];

	int r = cg_systemd_scope(id, SYSTEMD_WAIT_MS, why, sizeof why);
	if (r < 0) {
		cg_why_add(cg, CG_ALL, "%s", why);
		if (r == -ENOPKG)
			cg_fix_set(cg, CG_ALL, "install brig with brig-scope: build it where "
				       "libsystemd is (Debian: libsystemd-dev)");
		return r;
	}
	cg->scope = true;
	cg_text_free(t);
	r = cg_text_read(t);
	if (r == 0)
		r = cg_place_own(t, NULL, own);
	if (r < 0)
		cg_why_add(cg, CG_ALL, "brig's own scope: %s", strerror(-r));
	return r;
}

static void suggest(struct cgroup *cg, const struct cg_place *own)
{
	char systemd[8];

	if (readlink("/run/systemd/system", systemd, sizeof systemd) < 0 &&
	    errno != EINVAL) {
		cg_fix_set(cg, CG_ALL, "as root: mkdir a group, give its directory, "
			       "cgroup.procs and cgroup.subtree_control to uid %u, and "
			       "start brig as the only program in it (now: %s)",
			   (unsigned)geteuid(), own->group);
		return;
	}
	cg_fix_set(cg, CG_ALL, "start it with `systemd-run %s--scope -p Delegate=yes brig …`"
		       "%s", geteuid() ? "--user " : "",
		   geteuid() ? " (root may have to delegate cpu to "
			       "user@.service: Delegate=cpu memory pids)" : "");
}

int cg_v2_prepare(struct cgroup *cg, const struct cgroup_want *want,
		  unsigned need, const char *id, struct cg_text *t,
		  struct brig_error *err)
{
	struct cg_place own;
	struct spot best;

	int r = cg_place_own(t, NULL, &own);
	if (r == -ENOENT) {
		cg_why_add(cg, CG_ALL, "no cgroup file system is mounted");
		cg_fix_set(cg, CG_ALL, "mount -t cgroup2 cgroup2 /sys/fs/cgroup");
		return 0;
	}
	if (r < 0) {
		cg_why_add(cg, CG_ALL, "brig's own group is outside what is mounted at "
			       "/sys/fs/cgroup");
		cg_fix_set(cg, CG_ALL, "start the container with a cgroup namespace of its "
			       "own (--cgroupns=private)");
		return 0;
	}
	look(cg, &own, need, &best);
	/* a scope costs some ten ms and moves brig: only when a person wants
	 * the limit, not for a default */
	if ((want->asked & need & ~best.bits) && scope_enter(cg, id, t, &own) == 0) {
		cg->n_why = 0;
		look(cg, &own, need, &best);
	}
	if (best.bits == need)
		cg->n_why = 0; /* the places passed over do not matter */
	if (best.kind != SPOT_NONE) {
		r = make_group(cg, &best, id, want, err);
		if (r < 0)
			return r;
	}
	if (cg->enforced != need)
		suggest(cg, &own);
	return 0;
}
