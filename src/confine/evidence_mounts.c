/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the trees inside have the flags that were asked for, read back through
 * the job's own root.  Without this, a mount_setattr() that a filter around us
 * answers with 0 and never makes would leave /usr writable, and nobody the wiser.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "confine/evidence.h"
#include "plan/plan.h"
#include "confine/root.h"

/* Which flags the mount at an operation's target has to show; 0: none that
 * anybody relies on. */
static unsigned long wanted(const struct plan_op *op)
{
	switch (op->kind) {
	case OP_BIND:
		/* the caller has put a tree of his over it, with flags of its own */
		if (op->flags & OPF_HIDDEN)
			return 0;
		if (op->flags & OPF_DEVICE)
			return ST_NOSUID;
		return ST_NOSUID | ST_NODEV |
		       (op->flags & OPF_RO ? (unsigned long)ST_RDONLY : 0);
	case OP_RO:
		/* protected paths; what brig closes in /proc is closed three times */
		return op->flags & OPF_IDENTITY ? ST_RDONLY : 0;
	default:
		return 0;
	}
}

/* Where a look is made: from the top, or where the caller has put many trees in one directory,
 * from that.  Somebody may be mounting just now, and then a long way is walked twice. */
struct view {
	int root, dir;    /* dir: -1 none */
	const char *path; /* of dir, and where the last one was */
	size_t len;
	struct collect *held;
};
#define VIEW_OF(top, keep) ((struct view){ .root = (top), .dir = -1, .held = (keep) })

static void view_end(struct view *v)
{
	collect_idle(v->held, take_fd(&v->dir));
}

/* Walked without following anything: below a tree of the caller's a link could lead
 * anywhere. */
static int open_inside(int at, const char *path, int flags)
{
	return sys_openat2(at, path, (uint64_t)flags | O_PATH | O_CLOEXEC,
			   RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* An operation's target. */
static int open_target(struct view *v, const struct plan_op *op)
{
	big_buffer char dir[PATH_MAX];
	const char *dst = op->dst, *last = strrchr(dst, '/') + 1;
	const size_t len = (size_t)(last - dst) - 1;
	const bool again = op->bind && len && len == v->len && memcmp(v->path, dst, len) == 0;

	if (!again)
		view_end(v);
	v->path = dst;
	v->len = len;
	if (!again || len >= sizeof dir)
		return open_inside(v->root, dst + 1, 0);
	if (v->dir < 0) {
		memcpy(dir, dst, len);
		dir[len] = '\0';
		v->dir = open_inside(v->root, dir + 1, O_DIRECTORY);
	}
	return v->dir < 0 ? v->dir : open_inside(v->dir, last, 0);
}

/* The flags of what is mounted there. */
static int flags_at(struct view *v, const struct plan_op *op, unsigned long *flags)
{
	struct statfs fs = { 0 };

	int fd = open_target(v, op);
	int r = fd < 0 || fstatfs(fd, &fs) < 0 ? -errno : 0;
	collect_idle(v->held, fd);
	if (r == 0)
		*flags = (unsigned long)fs.f_flags;
	return r;
}

static int check(struct view *v, const struct plan_op *op)
{
	const unsigned long want = wanted(op);
	unsigned long flags = 0;
	int r = flags_at(v, op, &flags);

	return r < 0 ? r : (flags & want) == want ? 0 : -EROFS;
}

size_t evidence_mounts_ahead(const struct plan *p, const int *done, struct mounts_seen *seen,
			     struct collect *held, bool *all)
{
	struct view v = VIEW_OF(seen->top, held);
	size_t n = 0;

	*all = true;
	for (size_t i = 0; i < p->n_ops; i++) {
		/* only what nothing else can come on top of: the rest is not the last word */
		if (seen->fine[i] || !plan_op_is_leaf(&p->ops[i]))
			continue;
		/* what is not as it should be is told when all of it is looked at */
		seen->fine[i] = __atomic_load_n(&done[i], __ATOMIC_ACQUIRE) == ROOT_PLACED &&
				check(&v, &p->ops[i]) == 0;
		n += seen->fine[i];
		*all = *all && seen->fine[i];
	}
	view_end(&v);
	return n;
}

/* The same place of the same mount, and not only of the same file system. */
static bool same_place(int a, int b)
{
	/* zero: a filter around us that answers and does nothing has shown nothing */
	struct statx x = { 0 }, y = { 0 };
	const unsigned want = STATX_INO | STATX_MNT_ID;

	return a >= 0 && b >= 0 && syscall(SYS_statx, a, "", AT_EMPTY_PATH, want, &x) == 0 &&
	       syscall(SYS_statx, b, "", AT_EMPTY_PATH, want, &y) == 0 &&
	       (x.stx_mask & y.stx_mask & want) == want && x.stx_mnt_id == y.stx_mnt_id &&
	       x.stx_ino == y.stx_ino && x.stx_dev_major == y.stx_dev_major &&
	       x.stx_dev_minor == y.stx_dev_minor;
}

int evidence_mounts(const struct plan *p, pid_t pid, const struct mounts_seen *seen,
		    struct collect *held, char *bad, size_t cap)
{
	char path[40];
	struct statfs fs = { 0 };

	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	cleanup_close int root = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(bad, cap, "/");
	if (root < 0 || fstatfs(root, &fs) < 0)
		return -errno;
	if (!(fs.f_flags & ST_RDONLY))
		return -EROFS;
	/* Nobody but our builder can have changed a mount since: whoever is in the namespace
	 * besides has no capabilities any more, or waits.  What it is on is a directory of our
	 * own, which nobody can rename; in a tree of the caller's somebody could, and there
	 * the mounts are locked. */
	const bool ahead = seen->fine && !p->lock &&
			   (seen->top < 0 || same_place(root, seen->top));
	struct view v = VIEW_OF(root, held);
	int r = 0;
	for (size_t i = 0; i < p->n_ops && r == 0; i++) {
		const struct plan_op *op = &p->ops[i];
		if (!wanted(op) || (ahead && seen->fine[i]))
			continue;
		r = check(&v, op);
		if (r < 0)
			snprintf(bad, cap, "%s", op->dst);
	}
	view_end(&v);
	return r;
}
