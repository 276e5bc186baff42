/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the trees inside have the flags that were asked for, read back through
 * the job's own root.
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
#include "confine/evidence.h"
#include "plan/plan.h"

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

/* The flags of what is mounted at an operation's target.  Walked without following
 * anything: below a tree of the caller's a link could lead anywhere. */
static int check(int root, const struct plan_op *op)
{
	const unsigned long want = wanted(op);
	struct statfs fs = { 0 };
	cleanup_close int fd = sys_openat2(root, op->dst + 1, O_PATH | O_CLOEXEC,
					   RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
						   RESOLVE_NO_MAGICLINKS);

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	return ((unsigned long)fs.f_flags & want) == want ? 0 : -EROFS;
}

int evidence_mounts(const struct plan *p, pid_t pid, char *bad, size_t cap)
{
	char path[40];
	struct statfs fs = { 0 };
	int r = 0;

	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	cleanup_close int root = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(bad, cap, "/");
	if (root < 0 || fstatfs(root, &fs) < 0)
		return -errno;
	if (!(fs.f_flags & ST_RDONLY))
		return -EROFS;
	for (size_t i = 0; i < p->n_ops && r == 0; i++) {
		if (!wanted(&p->ops[i]))
			continue;
		r = check(root, &p->ops[i]);
		if (r < 0)
			snprintf(bad, cap, "%s", p->ops[i].dst);
	}
	return r;
}
