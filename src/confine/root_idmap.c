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
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mountapi.h"
#include "base/str.h"
#include "engine/diagnose.h"
#include "confine/root.h"

/* Shares memory with the parent, so it does nothing.  Until it is reaped it has a place
 * in /proc, and there its namespace. */
static int hold_namespace(void *arg)
{
	(void)arg;
	return 0;
}

static int write_map(pid_t pid, const char *file, unsigned disk, unsigned host, bool swap)
{
	char path[48], lines[96];
	size_t n = (size_t)snprintf(lines, sizeof lines, "%u %u 1\n", disk, host);

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
	if (swap && disk != host)
		snprintf(lines + n, sizeof lines - n, "%u %u 1\n", host, disk);
	return fd_write_at(AT_FDCWD, path, lines);
}

/* It ends without a signal, so that a caller's disposition for SIGCHLD does not make it
 * vanish before it was looked at. */
static bool reap(pid_t pid, bool wait)
{
	pid_t got;

	while ((got = waitpid(pid, NULL, __WALL | (wait ? 0 : WNOHANG))) < 0 && errno == EINTR)
		;
	return got != 0;
}

/* A user namespace whose only content is the map disk id → sandbox id; with swap
 * also the way back.  The process that held it is reaped by whoever gave a place for
 * its pid, or here. */
static int map_namespace(uid_t uid, gid_t gid, uid_t to_uid, gid_t to_gid, bool swap,
			 pid_t *ended)
{
	/* Two may be on it, one of whom was not reaped yet: both do the same nothing. */
	static char stack[4096] __attribute__((aligned(16)));
	char path[48];

	pid_t pid = clone(hold_namespace, stack + sizeof stack,
			  CLONE_NEWUSER | CLONE_VM | CLONE_FILES | CLONE_SIGHAND, NULL);
	if (pid < 0)
		return -errno;
	int r = write_map(pid, "uid_map", uid, to_uid, swap);
	if (r == 0)
		r = write_map(pid, "gid_map", gid, to_gid, swap);
	if (r == 0) {
		snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
		r = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
		if (r < 0)
			r = -errno;
	}
	if (ended)
		*ended = pid;
	else
		reap(pid, true);
	return r;
}

/* A detached tree of a caller's source, which is open; with a user namespace, id-mapped. */
static int caller_tree(bool *two_calls, int source, bool writable, int userns)
{
	struct mnt_attr a = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			    (writable ? 0 : MOUNT_ATTR_RDONLY),
		.propagation = MS_PRIVATE,
	};
	if (userns >= 0) {
		a.attr_set |= MOUNT_ATTR_IDMAP;
		a.userns_fd = (unsigned)userns;
	}
	/* Of the very directory or file that was checked, whatever has its name by now. */
	cleanup_close int fd = root_clone(two_calls, source, "", AT_EMPTY_PATH | AT_RECURSIVE, &a);
	if (fd < 0)
		return fd;
	/* A filter around us may have answered in the kernel's place.  Then the
	 * tree would still share its mounts with the host's, and what is mounted
	 * on it later would appear there.  The flags came with the same call. */
	struct statfs fs = { 0 };
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	const long want = ST_NOSUID | ST_NODEV | (writable ? 0 : ST_RDONLY);
	if (((long)fs.f_flags & want) != want)
		return -EPROTO;
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

int root_idmap_tree(const struct spec_bind *b, uid_t to_uid, gid_t to_gid, bool swap,
		    struct brig_error *err)
{
	cleanup_close int userns =
		map_namespace(b->owner_uid, b->owner_gid, to_uid, to_gid, swap, NULL);
	if (userns < 0)
		return diagnose_userns(-userns, err);
	bool two_calls = false;
	cleanup_close int source = openat(AT_FDCWD, b->src, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int tree = source < 0 ? -errno : caller_tree(&two_calls, source, b->writable, userns);
	return tree < 0 ? refuse(b, -tree, err) : tree;
}

bool root_idmap_works(const char *path, int *why)
{
	cleanup_close int source = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
	cleanup_close int userns = map_namespace(0, 0, 65534, 65534, false, NULL);
	bool two_calls = false;
	cleanup_close int tree = userns < 0 ? userns :
					      caller_tree(&two_calls, source, true, userns);

	*why = tree < 0 ? tree : 0;
	return tree >= 0;
}

int root_open_caller(struct root *r, size_t i, struct root_map *m, struct brig_error *err)
{
	const struct spec_bind *b = r->plan->ops[i].bind;
	const struct spec *s = r->plan->spec;

	if (s->idmapped &&
	    (m->userns < 0 || m->uid != b->owner_uid || m->gid != b->owner_gid)) {
		fd_close(&m->userns);
		m->uid = b->owner_uid;
		m->gid = b->owner_gid;
		/* the first one dies while we go on: it is the only one, as a rule */
		int ns = map_namespace(m->uid, m->gid, s->host_uid, s->host_gid, false,
				       r->holder ? NULL : &r->holder);
		if (ns < 0)
			return diagnose_userns(-ns, err);
		m->userns = ns;
	}
	int tree = caller_tree(&r->two_calls, b->fd, b->writable, m->userns);
	if (tree < 0 && m->userns >= 0) {
		if (b->writable || b == &s->workspace)
			return refuse(b, -tree, err);
		/* A read-only tree on a file system without id maps is shown as
		 * it is: the command then reads what everybody may read. */
		tree = caller_tree(&r->two_calls, b->fd, b->writable, -1);
	}
	if (tree < 0) {
		err_set(err, BRIG_E_MOUNT_FAILED, -tree, "mount", "%.200s", b->src);
		diagnose_fix(err);
		return tree;
	}
	r->slots[i] = tree;
	return 0;
}

int root_check_callers(const struct root *r, struct brig_error *err)
{
	const struct spec *s = r->plan->spec;

	return s->idmapped && r->api == ROOT_API_CLASSIC ? refuse(&s->workspace, ENOSYS, err) :
							   0;
}

size_t root_next_caller(const struct root *r, size_t at)
{
	size_t n = r->plan->n_ops;

	if (!r->given)
		return n;
	while (at < n && !r->plan->ops[at].bind)
		at++;
	return at;
}

void root_reap_holder(struct root *r, bool wait)
{
	if (r->holder > 0 && reap(r->holder, wait))
		r->holder = 0;
}
