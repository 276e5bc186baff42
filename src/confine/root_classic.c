/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same tree with mount(2) alone, for places where the newer calls do not
 * exist (or a filter around us answers ENOSYS).  Sources and targets are still
 * descriptors: /proc/self/fd names them to a call that only takes paths.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "confine/root.h"

static const char *attached; /* where the private tmpfs was put */

/* "/proc/self/fd/N" without stdio. */
static const char *fd_name(int fd, char buf[40])
{
	static const char prefix[] = "/proc/self/fd/";
	char digits[12], *d = digits + 11;
	unsigned v = (unsigned)fd;

	*d = '\0';
	do
		*--d = (char)('0' + v % 10);
	while ((v /= 10));
	memcpy(buf, prefix, sizeof prefix - 1);
	memcpy(buf + sizeof prefix - 1, d, strlen(d) + 1);
	return buf;
}

/* The flags a mount has now: a remount in a user namespace must keep those
 * that are locked, or the kernel refuses it. */
static unsigned long kept_flags(int fd)
{
	static const struct {
		unsigned long st, ms;
	} map[] = {
		{ ST_RDONLY, MS_RDONLY },   { ST_NOSUID, MS_NOSUID },
		{ ST_NODEV, MS_NODEV },	    { ST_NOEXEC, MS_NOEXEC },
		{ ST_NOATIME, MS_NOATIME }, { ST_NODIRATIME, MS_NODIRATIME },
		{ ST_RELATIME, MS_RELATIME },
	};
	struct statvfs sv;
	unsigned long ms = 0;

	if (fstatvfs(fd, &sv) < 0)
		return MS_NOSUID | MS_NODEV;
	for (size_t i = 0; i < ARRAY_LEN(map); i++)
		if (sv.f_flag & map[i].st)
			ms |= map[i].ms;
	return ms;
}

static unsigned long flags_of(const struct plan_op *op)
{
	unsigned long f = MS_NOSUID;

	if (!(op->flags & OPF_DEVICE))
		f |= MS_NODEV;
	if ((op->flags & OPF_RO) || op->kind == OP_RO || op->kind == OP_MASK)
		f |= MS_RDONLY;
	if ((op->flags & OPF_NOEXEC) || op->kind == OP_MASK)
		f |= MS_NOEXEC;
	return f;
}

static int remount_at(int fd, unsigned long add)
{
	char name[40];

	return mount(NULL, fd_name(fd, name), NULL,
		     MS_REMOUNT | MS_BIND | kept_flags(fd) | add, NULL) < 0 ?
		       -errno : 0;
}

/* Binds source onto target and gives the new mount its flags. */
static int bind_on(struct root *r, size_t i, int source, int target)
{
	const struct plan_op *op = &r->plan->ops[i];
	char from[40], to[40];

	if (mount(fd_name(source, from), fd_name(target, to), NULL,
		  MS_BIND | MS_REC, NULL) < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst);
	/* the target again: now it names the top of the new mount */
	cleanup_close int top = root_target(r, i);
	if (top < 0)
		return top;
	int e = remount_at(top, flags_of(op));
	return e < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, -e, op->dst) : 0;
}

static int mount_fs(struct root *r, const struct plan_op *op, int target,
		    const char *type, const char *data, enum brig_code code)
{
	char to[40];

	if (mount(type, fd_name(target, to), type, flags_of(op), data) < 0)
		return root_fail(r, code, errno, op->dst);
	return 0;
}

static int do_mount(struct root *r, size_t i, int target)
{
	const struct plan_op *op = &r->plan->ops[i];
	cleanup_close int source = -1;
	struct stat st;

	switch (op->kind) {
	case OP_BIND:
		return bind_on(r, i, r->slots[i], target);
	case OP_PROC:
		return mount_fs(r, op, target, "proc", NULL, BRIG_E_PROC_DENIED);
	case OP_DEVPTS:
		return mount_fs(r, op, target, "devpts",
				"newinstance,ptmxmode=0666,mode=0620,max=" ROOT_TERMINALS,
				BRIG_E_MOUNT_FAILED);
	case OP_SCRATCH:
		if (mkdirat(r->scratchfd, op->src, op->mode) < 0)
			return root_fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst);
		source = openat(r->scratchfd, op->src, O_PATH | O_CLOEXEC);
		break;
	case OP_MASK:
		if (fstat(target, &st) < 0)
			return root_fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst);
		source = openat(r->scratchfd,
				S_ISDIR(st.st_mode) ? "empty" : "empty-file",
				O_PATH | O_CLOEXEC);
		break;
	default: {
		int e = root_check_identity(r, op, target);
		if (e < 0)
			return e;
		return bind_on(r, i, target, target);
	}
	}
	if (source < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, op->dst);
	return bind_on(r, i, source, target);
}

static int do_op(struct root *r, size_t i)
{
	const struct plan_op *op = &r->plan->ops[i];

	if (op->kind == OP_DIR || op->kind == OP_SYMLINK || op->kind == OP_FILE)
		return root_make_node(r, op);
	cleanup_close int target = root_target(r, i);
	if (target == -ENOENT && (op->flags & OPF_OPTIONAL))
		return 0;
	if (target < 0)
		return target;
	return do_mount(r, i, target);
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *s)
{
	char *w = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*w++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 |
				      (s[3] - '0'));
			s += 3;
		} else {
			*w++ = *s;
		}
	}
	*w = '\0';
}

/* The deepest operation whose tree holds this path inside. */
static const struct plan_op *owner_of(const struct root *r, const char *path)
{
	const struct plan_op *best = NULL;
	size_t longest = 0;

	for (size_t i = 0; i < r->plan->n_ops; i++) {
		const struct plan_op *op = &r->plan->ops[i];
		size_t n = strlen(op->dst);
		if (op->kind >= OP_BIND && n >= longest &&
		    path_is_under(path, op->dst)) {
			longest = n;
			best = op;
		}
	}
	return best;
}

/*
 * mount(2) cannot change flags recursively, so mounts that came along below a
 * bound tree are found and restricted one by one, in one pass.  A table that
 * does not fit is a failure: something might have been missed.
 */
static int restrict_submounts(struct root *r)
{
	static char table[1 << 18]; /* one run per process: no reentrancy */
	ssize_t len = fd_read_at(AT_FDCWD, "/proc/self/mountinfo", table,
				 sizeof table);
	if (len < 0 || (size_t)len >= sizeof table - 1)
		return root_fail(r, BRIG_E_MOUNT_FAILED, len < 0 ? (int)-len : E2BIG,
				 "/proc/self/mountinfo");
	/* everything of ours shows below the attach point's "root" */
	static const char sub[] = "/root";
	const size_t at = strlen(attached), prefix = at + sizeof sub - 1;
	char *save = NULL;
	for (char *line = strtok_r(table, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *field = line;
		for (int i = 0; i < 4 && field; i++) {
			field = strchr(field, ' ');
			if (field)
				field++;
		}
		if (!field)
			continue;
		field[strcspn(field, " ")] = '\0';
		unescape(field);
		if (strncmp(field, attached, at) != 0 ||
		    strncmp(field + at, sub, sizeof sub - 1) != 0 ||
		    field[prefix] != '/')
			continue;
		const struct plan_op *op = owner_of(r, field + prefix);
		if (!op || streq(op->dst, field + prefix))
			continue; /* brig's own mount: done already */
		cleanup_close int fd =
			sys_openat2(r->rootfd, field + prefix + 1,
				    O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
		int e = fd < 0 ? -errno : remount_at(fd, flags_of(op));
		if (e < 0)
			return root_fail(r, BRIG_E_MOUNT_FAILED, -e, op->dst);
	}
	return 0;
}

static int open_sources(struct root *r)
{
	for (size_t i = 0; i < r->plan->n_ops; i++) {
		const struct plan_op *op = &r->plan->ops[i];
		if (op->kind != OP_BIND || r->slots[i] >= 0)
			continue;
		r->slots[i] = openat(AT_FDCWD, op->src, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (r->slots[i] < 0)
			return root_fail(r, BRIG_E_MOUNT_FAILED, errno, op->src);
		int e = root_check_identity(r, op, r->slots[i]);
		if (e < 0)
			return e;
	}
	return 0;
}

/*
 * A directory to build on.  It must not be part of a source: mount(2) copies a
 * source only when it is bound, with whatever is mounted there by then.
 */
static const char *attach_point(const struct root *r)
{
	static const char *const places[] = { "/mnt", "/srv", "/media", "/opt", "/sys",
					      "/boot", "/home", "/var", "/root", "/tmp" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		bool free_place = access(places[i], F_OK) == 0;
		for (size_t k = 0; k < r->plan->n_ops && free_place; k++) {
			const struct plan_op *op = &r->plan->ops[k];
			if (op->kind == OP_BIND && (path_is_under(op->src, places[i]) ||
						    path_is_under(places[i], op->src)))
				free_place = false;
		}
		if (free_place)
			return places[i];
	}
	return NULL;
}

static int make_trees(struct root *r)
{
	char data[96] = "mode=0755,size=", num[24], name[40];
	uint64_t size = r->plan->spec->limits.tmp_size + ROOT_TMPFS_BYTES;

	attached = attach_point(r);
	if (!attached)
		return root_fail(r, BRIG_E_MOUNT_FAILED, EBUSY, "a place to build on");
	strcat(data, root_decimal(size, num));
	strcat(data, ",nr_inodes=");
	strcat(data, root_decimal(root_inodes(size), num));
	if (mount("tmpfs", attached, "tmpfs", MS_NOSUID | MS_NODEV, data) < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, "tmpfs");
	r->scratchfd = openat(AT_FDCWD, attached, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->scratchfd < 0 || mkdirat(r->scratchfd, "root", 0755) < 0 ||
	    mkdirat(r->scratchfd, "empty", 0000) < 0 ||
	    mknodat(r->scratchfd, "empty-file", S_IFREG, 0) < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, "tmpfs");
	cleanup_close int top = openat(r->scratchfd, "root", O_PATH | O_CLOEXEC);
	/* onto itself: a mount of its own, which can become the root */
	if (top < 0 ||
	    mount(fd_name(top, name), fd_name(top, name), NULL, MS_BIND, NULL) < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, "attaching the root");
	r->rootfd = openat(r->scratchfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return r->rootfd < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, errno, "the root") : 0;
}

int root_build_classic(struct root *r)
{
	/* Once more, by the call that all of this is made by: what was done before came by
	 * another, of which nothing here would show that a filter around us only answers it. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return root_fail(r, BRIG_E_MOUNT_FAILED, errno, "making / private");
	int e = open_sources(r);
	if (e == 0)
		e = make_trees(r);
	for (size_t i = 0; i < r->plan->n_ops && e == 0; i++)
		e = do_op(r, i);
	if (e == 0)
		e = restrict_submounts(r);
	if (e < 0)
		return e;
	r->next = r->plan->n_ops; /* nothing is left for root_place() */
	e = remount_at(r->rootfd, MS_RDONLY | MS_NOSUID | MS_NODEV);
	return e < 0 ? root_fail(r, BRIG_E_MOUNT_FAILED, -e, "/ read-only") : 0;
}
