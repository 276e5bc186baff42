/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Id-mapped mounts, for one case: host root runs brig on a workspace that
 * belongs to root.  The command never holds root's id, so the workspace is
 * shown through a mount that maps its owner to the sandbox's id and back.
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
#include "base/str.h"
#include "engine/diagnose.h"
#include "engine/root.h"

static int hold_namespace(void *arg)
{
	(void)arg;
	/* shares memory with the parent: nothing but this call */
	for (;;)
		syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	return 0;
}

static int write_map(pid_t pid, const char *file, unsigned disk, unsigned host)
{
	char path[48], line[48];

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
	snprintf(line, sizeof line, "%u %u 1\n", disk, host);
	return fd_write_at(AT_FDCWD, path, line);
}

/* A user namespace whose only content is the map disk id → sandbox id. */
static int map_namespace(const struct spec *s, uid_t uid, gid_t gid)
{
	static char stack[4096] __attribute__((aligned(16)));
	char path[48];

	pid_t pid = clone(hold_namespace, stack + sizeof stack,
			  CLONE_NEWUSER | CLONE_VM | SIGCHLD, NULL);
	if (pid < 0)
		return -errno;
	int r = write_map(pid, "uid_map", uid, s->host_uid);
	if (r == 0)
		r = write_map(pid, "gid_map", gid, s->host_gid);
	if (r == 0) {
		snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
		r = open(path, O_RDONLY | O_CLOEXEC);
		if (r < 0)
			r = -errno;
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

static int idmapped_tree(const struct spec_bind *b, int userns)
{
	cleanup_close int fd = sys_open_tree(AT_FDCWD, b->src,
					 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
						 AT_SYMLINK_NOFOLLOW | AT_RECURSIVE);
	if (fd < 0)
		return -errno;
	struct mnt_attr a = {
		.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			    (b->writable ? 0 : MOUNT_ATTR_RDONLY),
		.propagation = MS_PRIVATE,
		.userns_fd = (unsigned)userns,
	};
	if (sys_mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof a) < 0)
		return -errno;
	return take_fd(&fd);
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

int root_prepare_idmapped(struct root *r, struct brig_error *err)
{
	const struct spec *s = r->plan->spec;
	const struct spec_bind *ws = &s->workspace;

	if (!s->idmapped)
		return 0;
	if (r->api == ROOT_API_CLASSIC)
		return refuse(ws, ENOSYS, err);
	cleanup_close int userns = -1;
	uid_t uid = 0;
	gid_t gid = 0;
	for (size_t i = 0; i < r->plan->n_ops; i++) {
		const struct plan_op *op = &r->plan->ops[i];
		const struct spec_bind *b = op->bind;
		if (!b)
			continue;
		if (userns < 0 || uid != b->owner_uid || gid != b->owner_gid) {
			fd_close(&userns);
			uid = b->owner_uid;
			gid = b->owner_gid;
			userns = map_namespace(s, uid, gid);
			if (userns < 0) {
				return diagnose_userns(-userns, err);
			}
		}
		int tree = idmapped_tree(b, userns);
		/* A read-only tree on a file system without id maps is shown as
		 * it is: the command then reads what everybody may read. */
		if (tree < 0 && (b->writable || b == ws))
			return refuse(b, -tree, err);
		if (tree < 0)
			continue;
		r->slots[i] = tree;
		if (root_check_identity(r, op, tree) < 0)
			return err_set(err, BRIG_E_SOURCE_CHANGED, ESTALE, "idmap",
				       "%.200s", b->src);
	}
	return 0;
}
