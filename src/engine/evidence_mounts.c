/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the trees inside have the flags that were asked for, read back through
 * the job's own root.  Without this, a mount_setattr() that a filter around us
 * answers with 0 and never makes would leave /usr writable, and nobody the wiser.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "engine/evidence.h"
#include "engine/plan.h"

/* Which flags the mount at an operation's target has to show; 0: none that
 * anybody relies on. */
static unsigned long wanted(const struct plan_op *op)
{
	switch (op->kind) {
	case OP_BIND:
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

/* The flags of what is mounted at a path inside, walked without following
 * anything: below a tree of the caller's a link could lead anywhere. */
static int flags_at(int root, const struct plan_op *op, struct collect *held,
		    unsigned long *flags)
{
	struct statfs fs = { 0 };

	int fd = sys_openat2(root, op->dst + 1, O_PATH | O_CLOEXEC,
			     RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	int r = fd < 0 || fstatfs(fd, &fs) < 0 ? -errno : 0;
	collect_idle(held, fd);
	if (r == 0)
		*flags = (unsigned long)fs.f_flags;
	return r;
}

int evidence_mounts(const struct plan *p, pid_t pid, struct collect *held, char *bad, size_t cap)
{
	char path[40];
	unsigned long flags = 0;
	struct statfs fs;

	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	cleanup_close int root = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(bad, cap, "/");
	if (root < 0 || fstatfs(root, &fs) < 0)
		return -errno;
	if (!(fs.f_flags & ST_RDONLY))
		return -EROFS;
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];
		unsigned long want = wanted(op);
		if (!want)
			continue;
		int r = flags_at(root, op, held, &flags);
		if (r == 0 && (flags & want) == want)
			continue;
		snprintf(bad, cap, "%s", op->dst);
		return r < 0 ? r : -EROFS;
	}
	return 0;
}
