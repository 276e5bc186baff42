/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places that things are mounted on.  Most are directories of brig's own tmpfs that
 * have to be made first, which takes the kernel as long as the mount itself.
 *
 * Where the caller has many trees the job, which waits for the builder, helps it: with whole
 * ones as long as it has the rights for that, and with the mount points of others when it is
 * as confined as the command will be, as to make a directory takes none.  The two share memory
 * and descriptors meanwhile, but not errno: all is called bare.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/raw.h"
#include "base/sys.h"
#include "confine/root.h"

/* No symlink is followed anywhere on the way: below the workspace the names are the
 * agent's, and the process root is still the host's, so a link could lead the mount to
 * another place (CVE-2021-30465, CVE-2025-52565). */
static long open_inside(const struct root *r, const char *path, uint64_t flags)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC | flags,
				      .resolve = RESOLVE_NO_SYMLINKS |
						 RESOLVE_NO_MAGICLINKS |
						 RESOLVE_BENEATH };

	/* what it answers decides whether something is covered */
	return SYS4(SYS_openat2, r->rootfd, path, &how, sizeof how);
}

/* The directory that a path is in; most paths are in the same one as the last. */
static long parent_of(struct root *r, const char *path, size_t len)
{
	big_buffer char name[PATH_MAX];

	if (len == 0)
		return r->rootfd;
	if (len == r->dir_len && memcmp(path, r->dir_path, len) == 0)
		return r->dirfd;
	if (len >= sizeof name)
		return -ENAMETOOLONG;
	memcpy(name, path, len);
	name[len] = '\0';
	long fd = open_inside(r, name, O_DIRECTORY);
	if (fd < 0)
		return fd;
	if (r->dir_len && !r->keep_open)
		close(r->dirfd);
	r->dirfd = (int)fd;
	r->dir_path = path;
	r->dir_len = len;
	return fd;
}

void root_forget_below(struct root *r, const struct plan_op *op)
{
	const char *path = root_name(op->dst);
	size_t n = strlen(path);

	if (r->dir_len >= n && memcmp(r->dir_path, path, n) == 0 &&
	    (r->dir_len == n || r->dir_path[n] == '/')) {
		if (!r->keep_open)
			close(r->dirfd);
		r->dir_len = 0;
	}
}

/* The last part of a path. */
static const char *last_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static long dir_of(struct root *r, size_t i)
{
	const char *path = root_name(r->plan->ops[i].dst), *last = last_of(path);

	if (r->dirs[i] >= 0)
		return r->dirs[i];
	return parent_of(r, path, last > path ? (size_t)(last - path) - 1 : 0);
}

/* What we have just made is no link, and there is nobody who could replace it. */
static int make_point(const struct root *r, size_t i, long dir)
{
	const struct plan_op *op = &r->plan->ops[i];
	const char *name = last_of(root_name(op->dst));
	long made = op->flags & OPF_DIR ? SYS3(SYS_mkdirat, dir, name, 0755) :
					  SYS4(SYS_mknodat, dir, name, S_IFREG | 0444, 0);

	return made == 0 ? ROOT_POINT_MADE : made == -EEXIST ? ROOT_POINT_THERE : (int)made;
}

bool root_take(const struct root *r, size_t i)
{
	int done = __atomic_load_n(&r->done[i], __ATOMIC_ACQUIRE);

	return (done == ROOT_NOT_BEGUN || done == ROOT_CLONED) &&
	       __atomic_compare_exchange_n(&r->done[i], &done, ROOT_TAKEN, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

int root_await(const struct root *r, size_t i)
{
	enum { A_WHILE = 1000 };
	int done;

	for (unsigned n = 1; (done = __atomic_load_n(&r->done[i], __ATOMIC_ACQUIRE)) ==
			     ROOT_TAKEN; n++) {
		SYS0(SYS_sched_yield);
		/* now and then: it may never be.  And once more: its last act may have been this. */
		if (n % A_WHILE == 0 && SYS4(SYS_wait4, r->helper, 0, WNOHANG, 0) != 0) {
			done = __atomic_load_n(&r->done[i], __ATOMIC_ACQUIRE);
			return done == ROOT_TAKEN ? -ECHILD : done;
		}
	}
	return done;
}

int root_find_spot(struct root *r, size_t i, bool made, struct spot *s)
{
	const struct plan_op *op = &r->plan->ops[i];
	long e = ROOT_POINT_THERE;

	if (op->flags & OPF_MKPOINT) {
		long dir = dir_of(r, i);
		*s = (struct spot){ .at = (int)dir, .name = last_of(root_name(op->dst)) };
		e = dir < 0 ? dir : made ? (long)ROOT_POINT_MADE : make_point(r, i, dir);
	}
	if (e == ROOT_POINT_THERE) {
		e = open_inside(r, root_name(op->dst), 0);
		*s = (struct spot){ .at = (int)e, .name = "", .opened = true };
	}
	if (e >= 0)
		return 0;
	if (e == -ENOENT && (op->flags & OPF_OPTIONAL))
		return -ENOENT;
	return root_fail(r, BRIG_E_MOUNT_FAILED, (int)-e, op->dst);
}

int root_target(struct root *r, size_t i)
{
	const struct plan_op *op = &r->plan->ops[i];
	struct spot s = { .at = -1 };
	int e = root_find_spot(r, i, false, &s);

	if (e < 0 || s.opened)
		return e < 0 ? e : s.at;
	long fd = open_inside(r, root_name(op->dst), 0);
	return fd < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, (int)-fd, op->dst) : (int)fd;
}

bool root_wants_help(const struct root *r)
{
	enum { MANY = 8 }; /* less is done before anybody is there to help */

	/* Where the mounts are locked, it is not the job who is there, but who made the
	 * namespaces: with root's id, if that is given away, which nothing can belong to. */
	return r->api == ROOT_API_NEW && r->keep_open && r->n_leaves >= MANY &&
	       !(r->plan->lock && r->given);
}

int root_open_points(struct root *r)
{
	for (size_t i = 0; i < r->plan->n_ops; i++) {
		const struct plan_op *op = &r->plan->ops[i];
		if (!plan_op_is_leaf(op))
			continue;
		long dir = dir_of(r, i);
		if (dir < 0)
			return root_fail(r, BRIG_E_MOUNT_FAILED, (int)-dir, op->dst);
		r->dirs[i] = (int)dir;
	}
	return 0;
}

/* From the other end than root_place(): they meet once. */
void root_make_points(const struct root *r)
{
	for (size_t i = r->plan->n_ops; i-- > 0;)
		if (r->dirs[i] >= 0 && root_take(r, i))
			__atomic_store_n(&r->done[i], make_point(r, i, r->dirs[i]),
					 __ATOMIC_RELEASE);
}
