/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/watch.h"
#include "workspace/protect_walk.h"

#define RENAME_NOREPLACE_ 1u
#define RENAME_EXCHANGE_ 2u

enum { BYTES_MAX = 8 << 20, ITEMS_MAX = 4000, DEPTH_MAX = 32 };

/* One file, directory or link; its children follow it directly. */
struct item {
	char *path;   /* below the workspace */
	size_t name;  /* where its last component begins */
	mode_t mode;
	uid_t uid;
	gid_t gid;
	nlink_t nlink; /* of a file: a new name is a way in for later */
	char *data;   /* content, or target of a link */
	size_t len;
	size_t below; /* how many items of it follow */
	const struct protect_entry *top; /* of a protected path itself, else NULL */
};

struct guard {
	const struct protect *p;
	struct item *v;
	size_t n, cap, bytes;
	char suffix[64];
};

static bool is_dots(const char *n)
{
	return n[0] == '.' && (!n[1] || (n[1] == '.' && !n[2]));
}

static struct item *add(struct guard *g, const char *path, const struct stat *st)
{
	if (g->n == ITEMS_MAX)
		return NULL;
	if (g->n == g->cap) {
		size_t cap = g->cap ? 2 * g->cap : 64;
		struct item *v = realloc(g->v, cap * sizeof *v);
		if (!v)
			return NULL;
		g->v = v;
		g->cap = cap;
	}
	char *copy = strdup(path);
	if (!copy)
		return NULL;
	const char *slash = strrchr(copy, '/');
	struct item *it = &g->v[g->n++];
	*it = (struct item){ .path = copy, .name = slash ? (size_t)(slash + 1 - copy) : 0,
			     .mode = st->st_mode, .uid = st->st_uid, .gid = st->st_gid,
			     .nlink = st->st_nlink };
	return it;
}

static int take_file(struct guard *g, size_t at, int wsfd, const char *path,
		     const struct stat *st)
{
	if (st->st_size > BYTES_MAX || g->bytes + (size_t)st->st_size > BYTES_MAX)
		return -EFBIG;
	cleanup_close int fd = protect_open(wsfd, path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return fd;
	int r = fd_read_all(fd, BYTES_MAX, &g->v[at].data, &g->v[at].len);
	g->bytes += g->v[at].len;
	return r < 0 ? r : g->bytes > BYTES_MAX ? -EFBIG : 0;
}

static int take_link(struct guard *g, size_t at, int fd)
{
	big_buffer char target[PATH_MAX];
	ssize_t n = readlinkat(fd, "", target, sizeof target - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	g->v[at].data = strdup(target);
	g->v[at].len = (size_t)n;
	return g->v[at].data ? 0 : -ENOMEM;
}

static int take(struct guard *g, int wsfd, const char *path, int depth);

static int take_dir(struct guard *g, int wsfd, const char *path, int depth)
{
	char buf[4096] __attribute__((aligned(8)));
	cleanup_close int fd = protect_open(wsfd, path, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return fd;
	if (depth > DEPTH_MAX)
		return -EFBIG;
	for (;;) {
		long n = syscall(SYS_getdents64, fd, buf, sizeof buf);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (is_dots(d->name))
				continue;
			cleanup_free char *sub = str_fmt("%s/%s", path, d->name);
			int r = sub ? take(g, wsfd, sub, depth + 1) : -ENOMEM;
			if (r < 0)
				return r;
		}
	}
}

static int take(struct guard *g, int wsfd, const char *path, int depth)
{
	struct stat st;
	cleanup_close int fd = protect_open(wsfd, path, O_PATH);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	size_t at = g->n;
	if (!add(g, path, &st))
		return g->n == ITEMS_MAX ? -EFBIG : -ENOMEM;
	int r = S_ISREG(st.st_mode) ? take_file(g, at, wsfd, path, &st) :
		S_ISLNK(st.st_mode) ? take_link(g, at, fd) :
		S_ISDIR(st.st_mode) ? take_dir(g, wsfd, path, depth) : -EINVAL;
	g->v[at].below = g->n - at - 1;
	return r;
}

int guard_take(struct guard **out, const struct protect *p, int wsfd,
	       struct brig_error *err)
{
	struct guard *g = calloc(1, sizeof *g);

	if (!g)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "protect", "protected paths");
	g->p = p;
	memcpy(g->suffix, p->suffix, sizeof g->suffix);
	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].kind != PROTECT_RO)
			continue;
		size_t at = g->n;
		int r = take(g, wsfd, p->v[i].path, 0);
		if (r == 0 && g->v) {
			g->v[at].top = &p->v[i];
			continue;
		}
		guard_free(g);
		cleanup_free char *shown = str_printable(p->v[i].path);
		err_set(err, BRIG_E_BAD_WORKSPACE, -r, "protect",
			"the protected path %.200s is too large or too odd to be kept "
			"and put back", shown ? shown : "?");
		err_fix(err, "use --backend native, which mounts it read-only, or give up "
			     "its protection: --protect none");
		return r;
	}
	*out = g;
	return 0;
}

void guard_free(struct guard *g)
{
	for (size_t i = 0; g && i < g->n; i++) {
		free(g->v[i].path);
		free(g->v[i].data);
	}
	if (g)
		free(g->v);
	free(g);
}

/* --- afterwards: no allocation from here on --- */

static bool same_content(int dir, const struct item *it)
{
	char buf[4096];
	size_t at = 0;
	cleanup_close int fd = openat(dir, it->path + it->name,
				      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return false;
	for (;;) {
		ssize_t n = read(fd, buf, sizeof buf);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 && at == it->len;
		if ((size_t)n > it->len - at || memcmp(buf, it->data + at, (size_t)n) != 0)
			return false;
		at += (size_t)n;
	}
}

static bool same(int dir, const struct item *it);

/* Exactly the children that were there, each the same. */
static bool same_dir(int dir, const struct item *it)
{
	char buf[4096] __attribute__((aligned(8)));
	size_t found = 0, direct = 0;
	cleanup_close int fd = openat(dir, it->path + it->name,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return false;
	for (size_t i = 1; i <= it->below; i += it[i].below + 1, direct++)
		if (!same(fd, &it[i]))
			return false;
	for (;;) {
		long n = syscall(SYS_getdents64, fd, buf, sizeof buf);
		if (n <= 0)
			return n == 0 && found == direct;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			found += !is_dots(d->name);
		}
	}
}

static bool same(int dir, const struct item *it)
{
	big_buffer char target[PATH_MAX];
	struct stat st;

	if (fstatat(dir, it->path + it->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_mode != it->mode || st.st_uid != it->uid || st.st_gid != it->gid)
		return false;
	if (S_ISREG(it->mode))
		return st.st_nlink == it->nlink && same_content(dir, it);
	if (S_ISDIR(it->mode))
		return same_dir(dir, it);
	ssize_t n = readlinkat(dir, it->path + it->name, target, sizeof target);
	return n >= 0 && (size_t)n == it->len && memcmp(target, it->data, it->len) == 0;
}

/* By descriptor: a name could be given to another file meanwhile. */
static int give_owner(int fd, const struct item *it)
{
	if (geteuid() != 0)
		return 0;
	return fchownat(fd, "", it->uid, it->gid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static int put_back_link(int dir, const char *name, const struct item *it)
{
	struct stat st;

	if (symlinkat(it->data, dir, name) < 0)
		return -errno;
	cleanup_close int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISLNK(st.st_mode) ? give_owner(fd, it) : -EAGAIN;
}

/* Where there is no room for all of it: no half of a file (whoever has the rest of the room
 * decides where it would end), and of a directory what can be had. */
static int put_back(int dir, const char *name, const struct item *it)
{
	int r = 0;

	if (S_ISLNK(it->mode))
		return put_back_link(dir, name, it);
	if (S_ISDIR(it->mode) && mkdirat(dir, name, 0700) < 0)
		return -errno;
	cleanup_close int fd =
		S_ISDIR(it->mode) ?
			openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) :
			openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			       0600);
	if (fd < 0)
		return -errno;
	if (S_ISREG(it->mode))
		r = fd_write_full(fd, it->data, it->len);
	for (size_t i = 1; i <= it->below; i += it[i].below + 1) {
		int e = put_back(fd, it[i].path + it[i].name, &it[i]);
		r = r ? r : e;
	}
	if (r < 0 && S_ISREG(it->mode)) {
		unlinkat(dir, name, 0);
		return r;
	}
	int e = give_owner(fd, it);
	if (e == 0 && fchmod(fd, it->mode & 07777) < 0)
		e = -errno;
	return r ? r : e;
}

/* Where what the command left goes. */
static int aside(int dir, const char *name, const char *suffix, char to[NAME_MAX + 1])
{
	int r = -EEXIST;

	for (int i = 0; i < PROTECT_ASIDE_TRIES && r == -EEXIST; i++) {
		protect_aside_name(name, suffix, i, to);
		r = protect_rename(dir, name, to);
	}
	return r;
}

/* The directory that holds a path below the workspace, to be opened up; the path's own name
 * goes to *name. */
static int open_parent(int wsfd, const char *path, const char **name)
{
	big_buffer char parent[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	*name = slash ? slash + 1 : path;
	if (n >= sizeof parent)
		return -ENAMETOOLONG;
	if (!slash) {
		int fd = fcntl(wsfd, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	memcpy(parent, path, n);
	parent[n] = '\0';
	return protect_walk(wsfd, parent, O_PATH | O_DIRECTORY);
}

/* The command may have taken the owner's rights to a directory away.  We have them while we
 * are at work in it; the mode to put back afterwards, or -1. */
static int open_up(int dir)
{
	struct stat st;

	return fstat(dir, &st) < 0 || (st.st_mode & 0700) == 0700 ? -1 : protect_unlock(dir);
}

static void close_again(int dir, int mode)
{
	if (mode >= 0)
		protect_chmod(dir, (mode_t)mode);
}

/* Where a directory that is held by a descriptor is now, below the workspace;
 * false when it is gone or elsewhere. */
static bool where_is(const struct guard *g, int fd, char out[PATH_MAX])
{
	char link[40] = "/proc/self/fd/", digits[12];
	size_t n = sizeof "/proc/self/fd/" - 1, k = 0, root = strlen(g->p->root);
	struct stat st;

	for (unsigned v = (unsigned)fd; k == 0 || v; v /= 10)
		digits[k++] = (char)('0' + v % 10);
	while (k)
		link[n++] = digits[--k];
	link[n] = '\0';
	ssize_t len = readlink(link, out, PATH_MAX - 1);
	if (len <= 0 || !root || fstat(fd, &st) < 0 || st.st_nlink == 0)
		return false;
	out[len] = '\0';
	if ((size_t)len <= root + 1 || memcmp(out, g->p->root, root) != 0 || out[root] != '/')
		return false;
	memmove(out, out + root + 1, (size_t)len - root);
	return true;
}

/* It has this name, and not something else, or nothing. */
static bool is_there(int dir, const char *name, const struct protect_entry *e)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == e->dev &&
	       st.st_ino == e->ino;
}

static bool is_dir(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static bool move_back(const struct protect_entry *e, const char *now, int wsfd, int dir,
		      const char *name, unsigned how)
{
	const char *old_name;
	cleanup_close int from = open_parent(wsfd, now, &old_name);

	if (from < 0)
		return false;
	/* a directory that gets another parent is written to */
	const int mode = open_up(from), own = open_up(e->fd);
	bool back = is_there(from, old_name, e) &&
		    sys_renameat2(from, old_name, dir, name, how) == 0;
	close_again(e->fd, own);
	close_again(from, mode);
	return back;
}

/* A directory on the way to a protected path: native makes it a mount point, so
 * that it cannot be moved.  Here it is moved back, or made anew. */
static int settle_pin_in(const struct guard *g, const struct protect_entry *e, int wsfd, int dir,
			 const char *name, protect_report *report, void *arg)
{
	char to[NAME_MAX + 1];
	big_buffer char now[PATH_MAX];

	/* One that the other run's command had put there is not to come back in the place of what
	 * that run has put back.  What counts in either is settled below. */
	if (is_there(dir, name, e) || (e->doubt && is_dir(dir, name)))
		return 0;
	/* what is in its place may be what it was moved into */
	int r = aside(dir, name, g->suffix, to);
	bool somewhere = !e->doubt && where_is(g, e->fd, now), back = false;
	if (r == -ENOSPC || r == -EDQUOT) {
		/* a longer name takes room; to change places, or to remove one, takes none */
		back = somewhere && move_back(e, now, wsfd, dir, name, RENAME_EXCHANGE_);
		if (!somewhere && protect_remove(wsfd, dir, name) == 0)
			r = -ENOENT;
	}
	if (!back && r < 0 && r != -ENOENT)
		return r;
	if (!back)
		back = somewhere && move_back(e, now, wsfd, dir, name, RENAME_NOREPLACE_);
	if (!back && mkdirat(dir, name, 0755) < 0)
		return -errno;
	report(arg, e->path, back ? PROTECT_BACK : PROTECT_LOST, r == 0 ? to : NULL);
	return 1;
}

static int settle_pin(const struct guard *g, const struct protect_entry *e, int wsfd,
		      protect_report *report, void *arg)
{
	const char *name;
	cleanup_close int dir = open_parent(wsfd, e->path, &name);

	if (dir < 0)
		return dir;
	const int mode = open_up(dir);
	int r = settle_pin_in(g, e, wsfd, dir, name, report, arg);
	close_again(dir, mode);
	return r;
}

/* What is there like before may have been moved aside by another run meanwhile, which had
 * made it, and then moved back, or been made anew: see judge_link() of the sweep. */
static bool is_found(const struct guard *g, const struct item *it, int dir)
{
	struct stat st;

	return !g->p->others || (fstatat(dir, it->path + it->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				 protect_unchanged(it->top, &st));
}

/* Another run may have made what this one found, and moved it aside at its end as nothing
 * that was there before: it is not for us to make it again under its name. */
static int settle_beside(const struct guard *g, const struct item *it, int dir,
			 protect_report *report, void *arg)
{
	char to[NAME_MAX + 1];
	int r = -EEXIST;

	for (int i = 0; i < PROTECT_ASIDE_TRIES && r == -EEXIST; i++) {
		protect_aside_name(it->path + it->name, g->suffix, i, to);
		r = put_back(dir, to, it);
	}
	if (r < 0)
		return r;
	report(arg, it->path, PROTECT_BESIDE, to);
	return 1;
}

static int settle_in(const struct guard *g, const struct item *it, int wsfd, int dir,
		     protect_report *report, void *arg)
{
	const char *name = it->path + it->name;
	char to[NAME_MAX + 1];
	const bool like = same(dir, it);
	if (like && is_found(g, it, dir))
		return 0;
	int r = aside(dir, name, g->suffix, to);
	bool moved = r == 0;
	if (like) { /* nothing is to be put back, and nothing of what may be the user's removed */
		report(arg, it->path, moved ? PROTECT_MOVED : PROTECT_STUCK, to);
		return moved ? 1 : r;
	}
	if (r == -ENOSPC || r == -EDQUOT) /* a longer name takes room */
		r = protect_remove(wsfd, dir, name);
	if (r == -ENOENT)
		r = 0; /* it was removed */
	if (r == 0 && g->p->others) {
		r = settle_beside(g, it, dir, report, arg);
		if (r > 0)
			return r;
	} else if (r == 0) {
		r = put_back(dir, name, it);
	}
	report(arg, it->path, r < 0 ? PROTECT_LOST : PROTECT_BACK, moved ? to : NULL);
	return r < 0 ? r : 1;
}

static int settle_one(const struct guard *g, const struct item *it, int wsfd,
		      protect_report *report, void *arg)
{
	const char *name;
	cleanup_close int dir = open_parent(wsfd, it->path, &name);

	if (dir < 0)
		return dir;
	const int mode = open_up(dir);
	int r = settle_in(g, it, wsfd, dir, report, arg);
	close_again(dir, mode);
	return r;
}

/* How many there were, or the last error. */
static void count_one(int r, int *n)
{
	if (r < 0)
		*n = r;
	else if (*n >= 0)
		*n += r;
}

int guard_settle(const struct guard *g, int wsfd, protect_report *report, void *arg)
{
	int n = 0;

	for (size_t i = 0; g && i < g->p->n; i++)
		if (g->p->v[i].kind == PROTECT_PIN)
			count_one(settle_pin(g, &g->p->v[i], wsfd, report, arg), &n);
	for (size_t i = 0; g && i < g->n; i += g->v[i].below + 1)
		if (g->v[i].top)
			count_one(settle_one(g, &g->v[i], wsfd, report, arg), &n);
	return n;
}

void guard_report(const struct guard *g, int wsfd, struct brig_result *res)
{
	if (guard_settle(g, wsfd, watch_denied, res) < 0 && res)
		result_deny(res, "path", "protected paths",
			    "a protected path was changed and could not be put back",
			    "look at the workspace before using it", 1);
}
