/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mountapi.h"
#include "base/str.h"
#include "base/sys.h"

/* A place in the old tree that the private tmpfs covers while the new tree is built.
 * Every system has it; what it holds was cloned before. */
#define SCRATCH_ATTACH "/usr"
/* Room for the root directory itself, on top of what the caller may use. */
#define ROOT_TMPFS_BYTES (64u << 10)
/* Most terminals of one sandbox.  All sandboxes and containers of the machine share
 * kernel.pty.max less kernel.pty.reserve, 3072 by default. */
#define ROOT_TERMINALS "128"

bool root_calls_work(void)
{
	/* Each call fails on purpose; ENOSYS is the only answer that counts. */
	return !((sys_open_tree(-1, "", 0) < 0 && errno == ENOSYS) ||
		 (sys_move_mount(-1, "", -1, "", 0) < 0 && errno == ENOSYS) ||
		 (sys_fsopen(NULL, 0) < 0 && errno == ENOSYS) ||
		 (sys_fsmount(-1, 0, 0) < 0 && errno == ENOSYS) ||
		 (sys_fsconfig(-1, 0, NULL, NULL) < 0 && errno == ENOSYS) ||
		 (sys_mount_setattr(-1, "", 0, NULL, 0) < 0 && errno == ENOSYS));
}

int root_prepare(struct root *r, const struct plan *plan)
{
	*r = (struct root){ .plan = plan, .rootfd = -1, .scratchfd = -1,
			    .dirfd = -1 };
	r->trees = malloc((plan->n_ops + 1) * sizeof *r->trees);
	for (size_t i = 0; r->trees && i < plan->n_ops; i++)
		r->trees[i] = -1;
	return r->trees ? 0 : -ENOMEM;
}

void root_release(struct root *r)
{
	for (size_t i = 0; r->trees && i < r->plan->n_ops; i++)
		fd_close(&r->trees[i]);
	free(r->trees);
	r->trees = NULL;
}

static int fail(struct root *r, enum brig_code code, int errnum, const char *what)
{
	r->code = errnum == ENOSYS ? BRIG_E_KERNEL_TOO_OLD : code;
	r->what = errnum == ENOSYS ? "the mount calls of Linux 5.12" : what;
	return errnum ? -errnum : -EINVAL;
}

/* A path relative to the new root. */
static const char *inside(const char *dst)
{
	return dst[1] ? dst + 1 : ".";
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* No symlink is followed anywhere on the way: below the workspace the names are the
 * agent's, and the process root is still the host's, so a link could lead the mount to
 * another place (CVE-2021-30465, CVE-2025-52565). */
static int open_inside(const struct root *r, const char *path, uint64_t flags)
{
	int fd = sys_openat2(r->rootfd, path, O_PATH | O_CLOEXEC | flags,
			     RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH);

	return fd < 0 ? -errno : fd;
}

static void forget_parent(struct root *r)
{
	fd_close(&r->dirfd);
}

/* The directory that a mount point of brig's own lies in.  The descriptor stays r's. */
static int open_parent(struct root *r, const char *path)
{
	big_buffer char name[PATH_MAX];
	const char *last = last_part(path);

	if (last == path)
		return r->rootfd;
	size_t len = (size_t)(last - path) - 1;
	if (r->dirfd >= 0 && len == r->dir_len && memcmp(path, r->dir, len) == 0)
		return r->dirfd;
	if (len >= sizeof name)
		return -ENAMETOOLONG;
	memcpy(name, path, len);
	name[len] = '\0';
	forget_parent(r);
	r->dirfd = open_inside(r, name, O_DIRECTORY);
	r->dir = path;
	r->dir_len = len;
	return r->dirfd;
}

/* Directories, links and files of brig's own tmpfs. */
static int make_node(struct root *r, const struct plan_op *op)
{
	const char *path = inside(op->dst);
	int e = 0;

	if (op->kind == OP_DIR) {
		if (mkdirat(r->rootfd, path, op->mode) < 0 && errno != EEXIST)
			e = errno;
	} else if (op->kind == OP_SYMLINK) {
		if (symlinkat(op->text, r->rootfd, path) < 0)
			e = errno;
	} else {
		cleanup_close int fd = openat(r->rootfd, path,
					      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, op->mode);
		e = fd < 0 ? errno : -fd_write_full(fd, op->text, strlen(op->text));
	}
	return e ? fail(r, BRIG_E_MOUNT_FAILED, e, op->dst) : 0;
}

static int check_identity(struct root *r, const struct plan_op *op, int fd)
{
	struct stat st;

	if (!(op->flags & OPF_IDENTITY))
		return 0;
	if (fstat(fd, &st) < 0)
		return fail(r, BRIG_E_SOURCE_CHANGED, errno, op->dst);
	if (st.st_dev != op->dev || st.st_ino != op->ino)
		return fail(r, BRIG_E_SOURCE_CHANGED, ESTALE, op->dst);
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

int root_clone(int at, const char *path, unsigned flags, const struct mnt_attr *a)
{
	flags |= OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	/* one call where there is one (Linux 6.15) */
	int fd = sys_open_tree_attr(at, path, flags, a, sizeof *a);
	if (fd >= 0)
		return fd;
	fd = sys_open_tree(at, path, flags);
	if (fd < 0)
		return -errno;
	if (sys_mount_setattr(fd, "", AT_EMPTY_PATH | (flags & AT_RECURSIVE), a, sizeof *a) == 0)
		return fd;
	int e = errno;
	close(fd);
	return -e;
}

static int clone_with(int at, const char *path, unsigned flags, uint64_t set)
{
	const struct mnt_attr a = { .attr_set = set };

	return root_clone(at, path, flags, &a);
}

/* One source of the host. */
static int clone_source(struct root *r, size_t i)
{
	const struct plan_op *op = &r->plan->ops[i];

	/* Recursive always: a clone that would uncover what is below a mount
	 * is refused by the kernel in a user namespace. */
	int fd = clone_with(AT_FDCWD, op->src, AT_SYMLINK_NOFOLLOW | AT_RECURSIVE,
			    attrs_of(op));
	if (fd < 0)
		return fail(r, BRIG_E_MOUNT_FAILED, -fd, op->src);
	r->trees[i] = fd;
	return check_identity(r, op, fd);
}

/* One option of a file system being made. */
struct fsopt {
	const char *key, *value;
};

static int make_fs(const char *type, const struct fsopt *opt, size_t n, unsigned attrs)
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
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

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
		return fail(r, BRIG_E_MOUNT_FAILED, -r->scratchfd, "private tmpfs");
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
	return e < 0 ? fail(r, BRIG_E_MOUNT_FAILED, -e, "attaching the root") : 0;
}

static int make_proc(struct root *r, const struct plan_op *op)
{
	int fd = make_fs("proc", NULL, 0, (unsigned)attrs_of(op));

	return fd < 0 ? fail(r, BRIG_E_PROC_DENIED, -fd, op->dst) : fd;
}

static int make_devpts(struct root *r, const struct plan_op *op)
{
	/* an instance of its own, but the number of terminals is one for the whole machine */
	static const struct fsopt opt[] = { { "ptmxmode", "0666" },
					    { "mode", "0620" },
					    { "max", ROOT_TERMINALS } };
	int fd = make_fs("devpts", opt, ARRAY_LEN(opt), (unsigned)attrs_of(op));

	return fd < 0 ? fail(r, BRIG_E_MOUNT_FAILED, -fd, op->dst) : fd;
}

static int make_scratch(struct root *r, const struct plan_op *op)
{
	if (mkdirat(r->scratchfd, op->src, op->mode) < 0)
		return fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst);
	/* inherits nosuid and nodev from the tmpfs it is cut from */
	int fd = sys_open_tree(r->scratchfd, op->src, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return fd < 0 ? fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst) : fd;
}

static int make_mask(struct root *r, const struct plan_op *op, int target)
{
	bool dir = op->flags & OPF_DIR; /* known for brig's own masks */
	struct stat st;

	if (op->flags & OPF_USER) {
		if (fstat(target, &st) < 0)
			return fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst);
		dir = S_ISDIR(st.st_mode);
	}
	int fd = clone_with(r->scratchfd, dir ? "empty" : "empty-file", 0,
			    attrs_of(op) | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
	return fd < 0 ? fail(r, BRIG_E_MOUNT_FAILED, -fd, op->dst) : fd;
}

/* What is there, mounted on itself: read-only, or so that it cannot be moved. */
static int make_again(struct root *r, const struct plan_op *op, int target)
{
	int fd = check_identity(r, op, target);

	if (fd < 0)
		return fd;
	fd = clone_with(target, "", AT_EMPTY_PATH | AT_RECURSIVE,
			attrs_of(op) |
				(op->kind == OP_RO ? (uint64_t)MOUNT_ATTR_RDONLY : 0));
	return fd < 0 ? fail(r, BRIG_E_MOUNT_FAILED, -fd, op->dst) : fd;
}

/* What goes on top of a target, as a detached tree. */
static int tree_for(struct root *r, size_t i, int target)
{
	const struct plan_op *op = &r->plan->ops[i];

	switch (op->kind) {
	case OP_BIND:
		return take_fd(&r->trees[i]);
	case OP_PROC:
		return make_proc(r, op);
	case OP_DEVPTS:
		return make_devpts(r, op);
	case OP_SCRATCH:
		return make_scratch(r, op);
	case OP_MASK:
		return make_mask(r, op, target);
	case OP_RO:
	case OP_PIN:
		return make_again(r, op, target);
	default:
		return fail(r, BRIG_E_INTERNAL, EINVAL, op->dst);
	}
}

/* A mount point in brig's own tmpfs.  0: made, and what was just made is no link, as
 * nobody else is in here.  -EEXIST: something is there. */
static int make_point(const struct plan_op *op, int dir, const char *name)
{
	int r = op->flags & OPF_DIR ? mkdirat(dir, name, 0755) :
				      mknodat(dir, name, S_IFREG | 0444, 0);

	return r < 0 ? -errno : 0;
}

/* Mounts a tree at a descriptor, or at a name in a directory. */
static int attach_op(struct root *r, size_t i, int at, const char *name)
{
	const struct plan_op *op = &r->plan->ops[i];
	cleanup_close int tree = tree_for(r, i, at);

	if (tree < 0)
		return tree;
	int e = attach(tree, at, name);
	return e < 0 ? fail(r, BRIG_E_MOUNT_FAILED, -e, op->dst) : 0;
}

static int mount_op(struct root *r, size_t i)
{
	const struct plan_op *op = &r->plan->ops[i];
	const char *path = inside(op->dst);
	int e = -EEXIST;

	if (op->flags & OPF_MKPOINT) {
		int dir = open_parent(r, path);
		e = dir < 0 ? dir : make_point(op, dir, last_part(path));
		if (e == 0)
			return attach_op(r, i, dir, last_part(path));
	}
	cleanup_close int at = e == -EEXIST ? open_inside(r, path, 0) : e;
	if (at == -ENOENT && (op->flags & OPF_OPTIONAL))
		return 0;
	/* what was opened before may be below what is mounted now */
	forget_parent(r);
	return at < 0 ? fail(r, BRIG_E_MOUNT_FAILED, -at, op->dst) : attach_op(r, i, at, "");
}

int root_build(struct root *r)
{
	const struct plan *p = r->plan;
	int e = 0;

	/* all sources first: what comes next covers a part of the old tree */
	for (size_t i = 0; i < p->n_ops && e == 0; i++)
		if (p->ops[i].kind == OP_BIND && r->trees[i] < 0)
			e = clone_source(r, i);
	if (e == 0)
		e = make_trees(r);
	for (size_t i = 0; i < p->n_ops && e == 0; i++) {
		const enum op_kind kind = p->ops[i].kind;
		e = kind == OP_DIR || kind == OP_SYMLINK || kind == OP_FILE ?
			    make_node(r, &p->ops[i]) : mount_op(r, i);
	}
	if (e < 0)
		return e;
	const struct mnt_attr ro = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
						 MOUNT_ATTR_NODEV };
	return sys_mount_setattr(r->rootfd, "", AT_EMPTY_PATH, &ro, sizeof ro) < 0 ?
		       fail(r, BRIG_E_MOUNT_FAILED, errno, "/ read-only") : 0;
}

int root_pivot(struct root *r)
{
	/* With "." for both, the old root ends up stacked on the new one, needs
	 * no directory of its own, and is reached and detached through ".".
	 * "/" and every absolute path already mean the new tree. */
	if (fchdir(r->rootfd) == 0 && syscall(SYS_pivot_root, ".", ".") == 0)
		return 0;
	r->code = BRIG_E_MOUNT_FAILED;
	r->what = "entering the new root";
	return -errno;
}

int root_detach(struct root *r)
{
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return fail(r, BRIG_E_MOUNT_FAILED, errno, "leaving the old root");
	return 0;
}
