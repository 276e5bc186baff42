/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/root.h"

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
#include "engine/spawn.h"

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
	if (root_copy(r, r) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < plan->n_ops; i++)
		r->n_leaves += plan_op_is_leaf(&plan->ops[i]);
	/* two descriptors per operation, and some for the rest of the work */
	struct rlimit lim;
	r->keep_open = getrlimit(RLIMIT_NOFILE, &lim) == 0 &&
		       2 * plan->n_ops + 64 < lim.rlim_cur && plan->n_ops < MANY_OPS;
	r->given = plan->spec->as_root && r->api == ROOT_API_NEW;
	return 0;
}

int root_copy(struct root *to, const struct root *from)
{
	const size_t n = from->plan->n_ops;
	int *all = malloc((3 * n + 1) * sizeof *all);

	if (!all)
		return -ENOMEM;
	*to = *from;
	to->slots = all;
	to->dirs = all + n;
	to->done = all + 2 * n;
	for (size_t i = 0; i < n; i++) {
		to->slots[i] = to->dirs[i] = -1;
		to->done[i] = ROOT_NOT_BEGUN;
	}
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

/* Directories, links and files of brig's own tmpfs. */
int root_make_node(struct root *r, const struct plan_op *op)
{
	const char *path = root_name(op->dst);
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

/* Bare: the job does it, too, beside the builder. */
int root_clone(bool *two_calls, int at, const char *path, unsigned flags,
	       const struct mnt_attr *a)
{
	flags |= OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	long fd = *two_calls ? -1 : SYS5(SYS_open_tree_attr, at, path, flags, a, sizeof *a);
	/* 0 would be a filter's word: standard input is there */
	if (fd > 0)
		return (int)fd;
	*two_calls = true;
	fd = SYS3(SYS_open_tree, at, path, flags);
	if (fd < 0)
		return (int)fd;
	unsigned deep = AT_EMPTY_PATH | (flags & AT_RECURSIVE);
	long e = SYS5(SYS_mount_setattr, fd, "", deep, a, sizeof *a);
	if (e == 0)
		return (int)fd;
	SYS1(SYS_close, fd);
	return (int)e;
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

	return (int)SYS5(SYS_move_mount, tree, "", at, path, flags);
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
	/* an instance of its own, but the number of terminals is one for the whole machine */
	static const struct fsopt pts_opt[] = { { "ptmxmode", "0666" },
						{ "mode", "0620" },
						{ "max", ROOT_TERMINALS } };
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

/* An operation that is ours to do.  Made: its mount point is there already. */
static int mount_op(struct root *r, size_t i, bool made)
{
	const struct plan_op *op = &r->plan->ops[i];
	struct spot spot = { .at = -1, .name = "" };
	int e = 0;

	/* those of host root have come; some of ours had to be cloned before */
	if (op->bind && r->slots[i] < 0)
		e = clone_source(r, i);
	if (e == 0)
		e = root_find_spot(r, i, made, &spot);
	if (e == -ENOENT && (op->flags & OPF_OPTIONAL))
		return 0;
	if (e < 0)
		return e;
	int tree = tree_for(r, i, spot.opened ? spot.at : -1);
	if (tree < 0)
		return tree;
	e = attach(tree, spot.at, spot.name);
	root_forget_below(r, op);
	if (e == 0)
		__atomic_store_n(&r->done[i], ROOT_PLACED, __ATOMIC_RELEASE);
	/* Both close by themselves when init and the job execute; closing them
	 * here costs more, so it is done only when they would be many. */
	if (!r->keep_open || r->helper) {
		if (spot.opened)
			close(spot.at);
		close(tree);
	}
	return e < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, -e, op->dst) : 0;
}

static int do_op(struct root *r, size_t i)
{
	const struct plan_op *op = &r->plan->ops[i];

	if (op->kind == OP_DIR || op->kind == OP_SYMLINK || op->kind == OP_FILE)
		return root_make_node(r, op);
	int done = ROOT_CLONED;
	while (done == ROOT_CLONED) { /* then it can be taken again */
		if (root_take(r, i))
			return mount_op(r, i, false);
		done = root_await(r, i);
	}
	if (done == -ECHILD)
		return root_fail(r, BRIG_E_SETUP_FAILED, ECHILD, "the command's process died");
	if (done < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, -done, op->dst);
	return mount_op(r, i, done == ROOT_POINT_MADE);
}

/* By its name it can only be found before the tree is built on that place. */
static bool is_covered(const struct root *r, const struct plan_op *op)
{
	return !r->given && path_is_under(op->src, SCRATCH_ATTACH);
}

/* What a tree of the caller's may be put in: with all of it there, those can be placed. */
static bool is_place(const struct plan_op *op)
{
	return op->kind == OP_DIR || op->kind == OP_SYMLINK || op->kind == OP_FILE ||
	       op->kind == OP_SCRATCH;
}

static int do_first(struct root *r, bool places)
{
	int e = 0;

	for (size_t i = 0; i < r->plan->n_ops && e == 0; i++)
		if (is_place(&r->plan->ops[i]) == places && !plan_op_comes_last(&r->plan->ops[i]))
			e = do_op(r, i);
	return e;
}

int root_begin(struct root *r)
{
	int e = 0;

	if (r->api == ROOT_API_CLASSIC)
		return root_build_classic(r);
	for (size_t i = 0; i < r->plan->n_ops && e == 0; i++) {
		const struct plan_op *op = &r->plan->ops[i];
		if (op->kind == OP_BIND && (!op->bind || is_covered(r, op)))
			e = clone_source(r, i);
	}
	if (e == 0)
		e = make_trees(r);
	return e == 0 ? do_first(r, true) : e;
}

int root_build(struct root *r)
{
	return r->api == ROOT_API_CLASSIC ? 0 : do_first(r, false);
}

int root_place(struct root *r, size_t end)
{
	int e = 0;

	for (; r->next < end && e == 0; r->next++)
		if (plan_op_comes_last(&r->plan->ops[r->next]))
			e = do_op(r, r->next);
	return e;
}

int root_clone_beside(struct root *r, const uint32_t *until)
{
	int e = 0;

	for (size_t i = r->plan->n_ops; i-- > 0 && e == 0 && !word_is_set(until);) {
		const struct plan_op *op = &r->plan->ops[i];
		if (!plan_op_is_leaf(op) || is_covered(r, op) || !root_take(r, i))
			continue;
		e = clone_source(r, i);
		if (e == 0) /* else nobody is ever to place it */
			__atomic_store_n(&r->done[i], ROOT_CLONED, __ATOMIC_RELEASE);
	}
	return e;
}

int root_finish(struct root *r)
{
	if (r->api == ROOT_API_CLASSIC)
		return 0;
	int e = set_attrs(r->rootfd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
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
