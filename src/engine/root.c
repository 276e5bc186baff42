/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mountapi.h"
#include "base/raw.h"
#include "base/str.h"
#include "base/sys.h"

enum { MANY_OPS = 200 };

enum root_api root_probe_api(void)
{
	/* Each call fails on purpose; ENOSYS is the only answer that counts. */
	if ((sys_open_tree(-1, "", 0) < 0 && errno == ENOSYS) ||
	    (sys_move_mount(-1, "", -1, "", 0) < 0 && errno == ENOSYS) ||
	    (sys_fsopen(NULL, 0) < 0 && errno == ENOSYS) ||
	    (sys_fsmount(-1, 0, 0) < 0 && errno == ENOSYS) ||
	    (sys_fsconfig(-1, 0, NULL, NULL) < 0 && errno == ENOSYS) ||
	    (sys_mount_setattr(-1, "", 0, NULL, 0) < 0 && errno == ENOSYS))
		return ROOT_API_CLASSIC;
	return ROOT_API_NEW;
}

int root_prepare(struct root *r, const struct plan *plan)
{
	*r = (struct root){ .plan = plan, .api = root_probe_api(), .rootfd = -1,
			    .scratchfd = -1 };
	r->slots = malloc((plan->n_ops + 1) * sizeof *r->slots);
	if (!r->slots)
		return -ENOMEM;
	for (size_t i = 0; i < plan->n_ops; i++)
		r->slots[i] = -1;
	/* two descriptors per operation, and some for the rest of the work */
	struct rlimit lim;
	r->keep_open = getrlimit(RLIMIT_NOFILE, &lim) == 0 &&
		       2 * plan->n_ops + 64 < lim.rlim_cur && plan->n_ops < MANY_OPS;
	r->given = plan->spec->as_root && r->api == ROOT_API_NEW;
	return 0;
}

unsigned root_descriptors(size_t n_ops)
{
	/* many are closed on the way, but for the sources */
	return (unsigned)(n_ops < MANY_OPS ? 2 * n_ops + 32 : n_ops + 64);
}

void root_release(struct root *r)
{
	root_reap_holder(r, true);
	for (size_t i = 0; r->slots && i < r->plan->n_ops; i++)
		fd_close(&r->slots[i]);
	free(r->slots);
	r->slots = NULL;
}

int root_fail(struct root *r, enum brig_code code, int errnum, const char *what)
{
	r->code = code;
	r->what = what;
	return errnum ? -errnum : -EINVAL;
}

/* A name relative to the new root. */
static const char *rel(const char *dst)
{
	return dst[1] ? dst + 1 : ".";
}

/* Directories, links and files of brig's own tmpfs. */
int root_make_node(struct root *r, const struct plan_op *op)
{
	const char *path = rel(op->dst);
	int fd, ret = 0;

	switch (op->kind) {
	case OP_DIR:
		if (mkdirat(r->rootfd, path, op->mode) < 0 && errno != EEXIST)
			ret = errno;
		break;
	case OP_SYMLINK:
		if (symlinkat(op->text, r->rootfd, path) < 0)
			ret = errno;
		break;
	default:
		fd = openat(r->rootfd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			    op->mode);
		if (fd < 0) {
			ret = errno;
			break;
		}
		if (op->text)
			ret = -fd_write_full(fd, op->text, strlen(op->text));
		close(fd);
	}
	return ret ? root_fail(r, BRIG_E_MOUNT_FAILED, ret, op->dst) : 0;
}

/* Where something is mounted: at a descriptor itself (the name is empty), or at a name in
 * a directory. */
struct spot {
	int at;
	const char *name;
	bool opened; /* for this spot alone */
};

/* No symlink is followed anywhere on the way: below the workspace the names are the
 * agent's, and the process root is still the host's, so a link could lead the mount to
 * another place (CVE-2021-30465, CVE-2025-52565). */
static long open_inside(const struct root *r, const char *path, uint64_t flags)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC | flags,
				      .resolve = RESOLVE_NO_SYMLINKS |
						 RESOLVE_NO_MAGICLINKS |
						 RESOLVE_BENEATH };

	/* Bare: what it answers decides whether something is covered, and the job
	 * beside us has the same errno. */
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

/* Something was mounted there: a directory that was opened before is below it now. */
static void forget_below(struct root *r, const char *path)
{
	size_t n = strlen(path);

	if (r->dir_len >= n && memcmp(r->dir_path, path, n) == 0 &&
	    (r->dir_len == n || r->dir_path[n] == '/')) {
		if (!r->keep_open)
			close(r->dirfd);
		r->dir_len = 0;
	}
}

/* A mount point in brig's own tmpfs.  What we have just made is no link, and there is
 * nobody who could replace it.  1: it is there already. */
static long make_point(struct root *r, const struct plan_op *op, struct spot *s)
{
	const char *path = rel(op->dst), *slash = strrchr(path, '/');
	long dir = parent_of(r, path, slash ? (size_t)(slash - path) : 0);

	if (dir < 0)
		return dir;
	*s = (struct spot){ .at = (int)dir, .name = slash ? slash + 1 : path };
	long made = op->flags & OPF_DIR ? SYS3(SYS_mkdirat, dir, s->name, 0755) :
					  SYS4(SYS_mknodat, dir, s->name, S_IFREG | 0444, 0);
	return made == -EEXIST ? 1 : made;
}

static int find_spot(struct root *r, const struct plan_op *op, struct spot *s)
{
	long e = op->flags & OPF_MKPOINT ? make_point(r, op, s) : 1;

	if (e > 0) {
		e = open_inside(r, rel(op->dst), 0);
		*s = (struct spot){ .at = (int)e, .name = "", .opened = true };
	}
	if (e >= 0)
		return 0;
	if (e == -ENOENT && (op->flags & OPF_OPTIONAL))
		return -ENOENT;
	return root_fail(r, BRIG_E_MOUNT_FAILED, (int)-e, op->dst);
}

int root_target(struct root *r, const struct plan_op *op)
{
	struct spot s = { .at = -1 };
	int e = find_spot(r, op, &s);

	if (e < 0 || s.opened)
		return e < 0 ? e : s.at;
	long fd = open_inside(r, rel(op->dst), 0);
	return fd < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, (int)-fd, op->dst) : (int)fd;
}

int root_check_identity(struct root *r, const struct plan_op *op, int fd)
{
	struct stat st;

	if (!(op->flags & OPF_IDENTITY))
		return 0;
	if (fstat(fd, &st) < 0)
		return root_fail(r, BRIG_E_SOURCE_CHANGED, errno, op->dst);
	if (st.st_dev != op->dev || st.st_ino != op->ino)
		return root_fail(r, BRIG_E_SOURCE_CHANGED, ESTALE, op->dst);
	return 0;
}

static uint64_t attrs_of(const struct plan_op *op)
{
	/* nosuid and nodev everywhere: the mount must not be a way to honour a
	 * set-id bit or a device that the host left in a tree */
	uint64_t a = MOUNT_ATTR_NOSUID;

	if (!(op->flags & OPF_DEVICE))
		a |= MOUNT_ATTR_NODEV;
	if (op->flags & OPF_RO)
		a |= MOUNT_ATTR_RDONLY;
	if (op->flags & OPF_NOEXEC)
		a |= MOUNT_ATTR_NOEXEC;
	return a;
}

static int set_attrs(int fd, uint64_t set)
{
	struct mnt_attr a = { .attr_set = set };

	return sys_mount_setattr(fd, "", AT_EMPTY_PATH, &a, sizeof a) < 0 ? -errno : 0;
}

int root_clone(bool *two_calls, int at, const char *path, unsigned flags,
	       const struct mnt_attr *a)
{
	flags |= OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	int fd = *two_calls ? -1 : sys_open_tree_attr(at, path, flags, a, sizeof *a);
	/* 0 would be a filter's word: standard input is there */
	if (fd > 0)
		return fd;
	*two_calls = true;
	fd = sys_open_tree(at, path, flags);
	if (fd < 0)
		return -errno;
	unsigned deep = AT_EMPTY_PATH | (flags & AT_RECURSIVE);
	if (sys_mount_setattr(fd, "", deep, a, sizeof *a) == 0)
		return fd;
	int e = errno;
	close(fd);
	return -e;
}

static int clone_with(struct root *r, int at, const char *path, unsigned flags, uint64_t set)
{
	const struct mnt_attr a = { .attr_set = set };

	return root_clone(&r->two_calls, at, path, flags, &a);
}

/* One source of the host. */
static int clone_source(struct root *r, size_t i)
{
	const struct plan_op *op = &r->plan->ops[i];

	/* Recursive always: a clone that would uncover what is below a mount
	 * is refused by the kernel in a user namespace. */
	int fd = clone_with(r, AT_FDCWD, op->src, AT_SYMLINK_NOFOLLOW | AT_RECURSIVE,
			    attrs_of(op));
	if (fd < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, -fd, op->src);
	r->slots[i] = fd;
	return root_check_identity(r, op, fd);
}

/* One option of a file system being made. */
struct fsopt {
	const char *key, *value;
};

static int make_fs(const char *type, const struct fsopt *opt, size_t n,
		   unsigned attrs)
{
	cleanup_close int fs = sys_fsopen(type, FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	for (size_t i = 0; i < n; i++)
		if (sys_fsconfig(fs, FSCONFIG_SET_STRING, opt[i].key, opt[i].value) < 0)
			return -errno;
	if (sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
		return -errno;
	int fd = sys_fsmount(fs, FSMOUNT_CLOEXEC, attrs);
	return fd < 0 ? -errno : fd;
}

static int attach(int tree, int at, const char *path)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH |
			 (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

	return sys_move_mount(tree, "", at, path, flags) < 0 ? -errno : 0;
}

const char *root_decimal(uint64_t v, char buf[24])
{
	char *p = buf + 23;

	*p = '\0';
	do
		*--p = (char)('0' + v % 10);
	while ((v /= 10));
	return p;
}

uint64_t root_inodes(uint64_t size)
{
	return size / 4096 < 1024 ? 1024 : size / 4096;
}

/*
 * One private tmpfs serves both as the root directory (mounted read-only when it
 * is finished) and as the writable places: a file system is dearer to make and
 * to unmake than a mount of a part of one.
 */
static int make_trees(struct root *r)
{
	char num[24], inum[24];
	uint64_t size = r->plan->spec->limits.tmp_size + ROOT_TMPFS_BYTES;
	const struct fsopt opt[] = { { "size", root_decimal(size, num) },
				     { "nr_inodes", root_decimal(root_inodes(size), inum) },
				     { "mode", "0755" } };

	r->scratchfd = make_fs("tmpfs", opt, ARRAY_LEN(opt),
			       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (r->scratchfd < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, -r->scratchfd, "private tmpfs");
	/* Attached before use: only recent kernels clone from detached trees.
	 * It hangs in the old tree and goes with it. */
	int e = attach(r->scratchfd, AT_FDCWD, SCRATCH_ATTACH);
	if (e == 0 && (mkdirat(r->scratchfd, "root", 0755) < 0 ||
		       mkdirat(r->scratchfd, "empty", 0000) < 0 ||
		       mknodat(r->scratchfd, "empty-file", S_IFREG, 0) < 0))
		e = -errno;
	if (e == 0) {
		r->rootfd = sys_open_tree(r->scratchfd, "root",
					  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
		e = r->rootfd < 0 ? -errno : attach(r->rootfd, r->scratchfd, "root");
	}
	return e < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, -e, "attaching the root") : 0;
}

/* What goes on top of a target, as a detached tree. */
static int tree_for(struct root *r, size_t i, int target)
{
	static const struct fsopt pts_opt[] = { { "ptmxmode", "0666" },
						{ "mode", "0620" } };
	const struct plan_op *op = &r->plan->ops[i];
	const unsigned clone = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	uint64_t attrs = attrs_of(op);
	bool dir = op->flags & OPF_DIR; /* known for brig's own masks */
	struct stat st;
	int fd;

	switch (op->kind) {
	case OP_BIND:
		return take_fd(&r->slots[i]);
	case OP_PROC:
		fd = make_fs("proc", NULL, 0, (unsigned)attrs);
		return fd < 0 ? root_fail(r, BRIG_E_PROC_DENIED, -fd, op->dst) : fd;
	case OP_DEVPTS:
		fd = make_fs("devpts", pts_opt, ARRAY_LEN(pts_opt), (unsigned)attrs);
		return fd < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, -fd, op->dst) : fd;
	case OP_SCRATCH:
		if (mkdirat(r->scratchfd, op->src, op->mode) < 0)
			return root_fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst);
		/* inherits nosuid and nodev from the tmpfs it is cut from */
		fd = sys_open_tree(r->scratchfd, op->src, clone);
		return fd < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst) : fd;
	case OP_MASK:
		if (op->flags & OPF_USER) {
			if (fstat(target, &st) < 0)
				return root_fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst);
			dir = S_ISDIR(st.st_mode);
		}
		fd = clone_with(r, r->scratchfd, dir ? "empty" : "empty-file", 0,
				attrs | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
		break;
	case OP_RO:
	case OP_PIN:
		fd = root_check_identity(r, op, target);
		if (fd < 0)
			return fd;
		fd = clone_with(r, target, "", AT_EMPTY_PATH | AT_RECURSIVE,
				attrs | (op->kind == OP_RO ? (uint64_t)MOUNT_ATTR_RDONLY : 0));
		break;
	default:
		return root_fail(r, BRIG_E_INTERNAL, EINVAL, op->dst);
	}
	return fd < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, -fd, op->dst) : fd;
}

static int do_op(struct root *r, size_t i)
{
	const struct plan_op *op = &r->plan->ops[i];

	if (op->kind == OP_DIR || op->kind == OP_SYMLINK || op->kind == OP_FILE)
		return root_make_node(r, op);
	struct spot spot = { .at = -1 };
	int e = find_spot(r, op, &spot);
	if (e == -ENOENT && (op->flags & OPF_OPTIONAL))
		return 0;
	if (e < 0)
		return e;
	int tree = tree_for(r, i, spot.opened ? spot.at : -1);
	if (tree < 0)
		return tree;
	e = attach(tree, spot.at, spot.name);
	forget_below(r, rel(op->dst));
	/* Both close by themselves when init and the job execute; closing them
	 * here costs more, so it is done only when they would be many. */
	if (!r->keep_open) {
		if (spot.opened)
			close(spot.at);
		close(tree);
	}
	return e < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, -e, op->dst) : 0;
}

int root_build(struct root *r)
{
	if (r->api == ROOT_API_CLASSIC)
		return root_build_classic(r);

	/* Nothing the host mounts later may appear inside. */
	struct mnt_attr priv = { .propagation = MS_PRIVATE };
	if (sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &priv, sizeof priv) < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, "making / private");
	int e = 0;
	for (size_t i = 0; i < r->plan->n_ops && e == 0; i++)
		if (r->plan->ops[i].kind == OP_BIND && r->slots[i] < 0)
			e = clone_source(r, i);
	if (e == 0)
		e = make_trees(r);
	for (size_t i = 0; i < r->plan->n_ops && e == 0; i++)
		e = do_op(r, i);
	if (e < 0)
		return e;
	e = set_attrs(r->rootfd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return e < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, -e, "/ read-only") : 0;
}

int root_pivot(struct root *r)
{
	/* With "." for both, the old root ends up stacked on the new one, needs
	 * no directory of its own, and is reached and detached through ".".
	 * "/" and every absolute path already mean the new tree. */
	if (fchdir(r->rootfd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, "entering the new root");
	return 0;
}

int root_detach(struct root *r)
{
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, "leaving the old root");
	return 0;
}
