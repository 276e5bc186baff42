/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What host root does before it gives up its id.  The caller's sources are
 * opened as root, because the id the builder takes may not enter the directories
 * above them.  And id-mapped mounts, for one case: the workspace belongs to root.  The
 * command never holds root's id, so the workspace is shown through a mount that maps its
 * owner to the sandbox's id and back.
 * What the command writes belongs to the owner on disk; set-id bits cannot be
 * set by it (the filter refuses them, under a caller's own profile the floor
 * does), so no root-owned set-uid file can arise.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mountapi.h"
#include "base/raw.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/diagnose.h"
#include "confine/root.h"

static int write_map(pid_t pid, const char *file, unsigned disk, unsigned host, bool swap)
{
	char path[48], lines[96];
	size_t n = (size_t)snprintf(lines, sizeof lines, "%u %u 1\n", disk, host);

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
	if (swap && disk != host)
		snprintf(lines + n, sizeof lines - n, "%u %u 1\n", host, disk);
	return fd_write_at(AT_FDCWD, path, lines);
}

/*
 * A user namespace whose only content is the map disk id → sandbox id; with swap
 * also the way back.  A process holds it and does nothing: it ends at once, and until it
 * is reaped /proc has its namespace.  It ends without a signal, so that a caller who
 * ignores SIGCHLD does not make it vanish.
 */
static int map_namespace(uid_t uid, gid_t gid, uid_t to_uid, gid_t to_gid, bool swap)
{
	struct clone_args args = { .flags = CLONE_NEWUSER };
	char path[48];

	pid_t pid = sys_clone3(&args);
	if (pid < 0)
		return -errno;
	if (pid == 0)
		die(0);
	int r = write_map(pid, "uid_map", uid, to_uid, swap);
	if (r == 0)
		r = write_map(pid, "gid_map", gid, to_gid, swap);
	if (r == 0) {
		snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
		r = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
		if (r < 0)
			r = -errno;
	}
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	return r;
}

/* A detached tree of a caller's source, which is open; with a user namespace, id-mapped. */
static int caller_tree(int source, bool writable, int userns)
{
	struct mnt_attr a = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			    (writable ? 0 : MOUNT_ATTR_RDONLY),
		/* or what is mounted on it later would appear on the host */
		.propagation = MS_PRIVATE,
	};
	if (userns >= 0) {
		a.attr_set |= MOUNT_ATTR_IDMAP;
		a.userns_fd = (unsigned)userns;
	}
	/* Of the very directory or file that was checked, whatever has its name by now. */
	return root_clone(source, "", AT_EMPTY_PATH | AT_RECURSIVE, &a);
}

static int refuse(const struct spec_bind *b, int e, struct brig_error *err)
{
	cleanup_free char *shown = str_printable(b->src);

	err_set(err, BRIG_E_IDMAP_DENIED, e, "idmap",
		"%.200s belongs to uid %u, and its file system cannot be shown "
		"under another id", shown ? shown : "?", b->owner_uid);
	err_fix(err, "run brig as an ordinary user, or on a workspace that an "
		     "ordinary user owns (chown it)");
	return -e;
}

int root_idmap_tree(const struct spec_bind *b, uid_t to_uid, gid_t to_gid, bool swap,
		    struct brig_error *err)
{
	cleanup_close int userns =
		map_namespace(b->owner_uid, b->owner_gid, to_uid, to_gid, swap);
	if (userns < 0)
		return diagnose_userns(-userns, err);
	cleanup_close int source = openat(AT_FDCWD, b->src, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int tree = source < 0 ? -errno : caller_tree(source, b->writable, userns);
	return tree < 0 ? refuse(b, -tree, err) : tree;
}

bool root_idmap_works(const char *path, int *why)
{
	cleanup_close int source = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
	cleanup_close int userns = map_namespace(0, 0, 65534, 65534, false);
	cleanup_close int tree = userns < 0 ? userns :
					      caller_tree(source, true, userns);

	*why = tree < 0 ? tree : 0;
	return tree >= 0;
}

/* The map serves binds of one owner. */
struct map {
	int userns; /* -1 none yet */
	uid_t uid;
	gid_t gid;
};

static int take_map(struct map *m, const struct spec *s, const struct spec_bind *b,
		    struct brig_error *err)
{
	if (!s->idmapped || (m->userns >= 0 && m->uid == b->owner_uid && m->gid == b->owner_gid))
		return 0;
	fd_close(&m->userns);
	m->uid = b->owner_uid;
	m->gid = b->owner_gid;
	m->userns = map_namespace(m->uid, m->gid, s->host_uid, s->host_gid, false);
	return m->userns < 0 ? diagnose_userns(-m->userns, err) : 0;
}

static int open_caller(struct root *r, size_t i, struct map *m, struct brig_error *err)
{
	const struct spec *s = r->plan->spec;
	const struct spec_bind *b = r->plan->ops[i].bind;
	int e = take_map(m, s, b, err);

	if (e < 0)
		return e;
	int tree = caller_tree(b->fd, b->writable, m->userns);
	if (tree < 0 && m->userns >= 0) {
		if (b->writable || b == &s->workspace)
			return refuse(b, -tree, err);
		/* A read-only tree on a file system without id maps is shown as
		 * it is: the command then reads what everybody may read. */
		tree = caller_tree(b->fd, b->writable, -1);
	}
	if (tree < 0) {
		err_set(err, tree == -ENOSYS ? BRIG_E_KERNEL_TOO_OLD : BRIG_E_MOUNT_FAILED, -tree,
			"mount", "%.200s", b->src);
		diagnose_fix(err);
		return tree;
	}
	r->trees[i] = tree;
	return 0;
}

int root_open_callers(struct root *r, struct brig_error *err)
{
	struct map m = { .userns = -1 };
	int e = 0;

	for (size_t i = 0; i < r->plan->n_ops && e == 0; i++)
		if (r->plan->ops[i].bind)
			e = open_caller(r, i, &m, err);
	fd_close(&m.userns);
	return e;
}
