/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"
#include "workspace/protect_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/fs.h> /* RENAME_NOREPLACE */
#include <limits.h>
#include <stdio.h>    /* renameat */
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

enum { TRIES_MAX = 64 };

static int open_below(int dirfd, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS | resolve,
	};
	static const struct timespec pause = { .tv_nsec = 1000000 };

	/* EAGAIN: something was renamed meanwhile, or a lease is held on the
	 * file, which another sandbox may do for as long as it likes */
	for (int i = 0;; i++) {
		long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
		if (fd >= 0)
			return (int)fd;
		if ((errno != EINTR && errno != EAGAIN) || i == TRIES_MAX)
			return -errno;
		if (i > TRIES_MAX / 2)
			nanosleep(&pause, NULL);
	}
}

int protect_open(int dirfd, const char *path, int flags)
{
	return open_below(dirfd, path, flags, 0);
}

bool protect_missing(int dirfd, const char *path)
{
	struct stat st;

	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

enum { FD_LINK = 32 };

/* "/proc/self/fd/N" without stdio. */
static const char *fd_link(int fd, char link[FD_LINK])
{
	size_t at = sizeof "/proc/self/fd/" - 1;
	unsigned div = 1000000000;

	memcpy(link, "/proc/self/fd/", at);
	for (bool seen = false; div; div /= 10) {
		unsigned digit = (unsigned)fd / div % 10;
		seen = seen || digit || div == 1;
		if (seen)
			link[at++] = (char)('0' + digit);
	}
	link[at] = '\0';
	return link;
}

int protect_chmod(int fd, mode_t mode)
{
	char link[FD_LINK];

#ifdef SYS_fchmodat2
	if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0)
		return 0;
#endif
	return chmod(fd_link(fd, link), mode) < 0 ? -errno : 0;
}

int protect_open_linked(int dirfd, const char *path)
{
	char link[FD_LINK];
	struct stat dir, st;
	cleanup_close int there = openat(dirfd, path, O_PATH | O_CLOEXEC);

	if (there < 0 || fstat(there, &st) < 0 || fstat(dirfd, &dir) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (geteuid() == 0 && st.st_uid != dir.st_uid))
		return -EPERM;
	int fd = open(fd_link(there, link), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int protect_unlock(int dfd)
{
	struct stat st;

	if (fstat(dfd, &st) < 0)
		return -errno;
	int r = protect_chmod(dfd, (st.st_mode & 07777) | 0700);
	return r < 0 ? r : (int)(st.st_mode & 07777);
}

static int open_forced(int dfd, const char *name, int flags, uint64_t resolve)
{
	int fd = open_below(dfd, name, flags, resolve);

	if (fd == -EACCES) {
		int mode = protect_unlock(dfd);
		if (mode < 0)
			return -EACCES;
		fd = open_below(dfd, name, flags, resolve);
		protect_chmod(dfd, (mode_t)mode);
	}
	return fd;
}

int protect_open_forced(int dfd, const char *name, int flags)
{
	return open_forced(dfd, name, flags, 0);
}

static int rename_name(int dfd, const char *from, const char *to)
{
	if (sys_renameat2(dfd, from, dfd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EINVAL) {
		/* a file system without the flag; nobody else is at work in
		 * the sandbox any more, so looking first is good enough */
		struct stat st;
		if (fstatat(dfd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return -EEXIST;
		if (renameat(dfd, from, dfd, to) == 0)
			return 0;
	}
	return -errno;
}

static void put_hex(char *out, unsigned v)
{
	for (int i = 0; i < 8; i++)
		out[i] = "0123456789abcdef"[v >> (28 - 4 * i) & 15];
	out[8] = '\0';
}

void protect_aside_name(const char *name, const char *mark, int attempt, char to[NAME_MAX + 1])
{
	size_t n = strlen(name), m = strlen(mark);

	/* a long name loses its end, never its rename */
	if (n + m + 9 > NAME_MAX)
		n = NAME_MAX - m - 9;
	memcpy(to, name, n); // NOLINT(bugprone-not-null-terminated-result): the mark follows
	memcpy(to + n, mark, m + 1);
	n += m;
	if (attempt) {
		unsigned rnd = 0;
		if (getrandom(&rnd, sizeof rnd, 0) != sizeof rnd)
			rnd = (unsigned)attempt;
		to[n] = '-';
		put_hex(to + n + 1, rnd);
	}
}

int protect_rename(int dfd, const char *from, const char *to)
{
	int r = rename_name(dfd, from, to);

	if (r == -EACCES) {
		int mode = protect_unlock(dfd);
		if (mode < 0)
			return -EACCES;
		r = rename_name(dfd, from, to);
		protect_chmod(dfd, (mode_t)mode);
	}
	return r;
}

static int unlink_name(int dfd, const char *name, int flags)
{
	int r = unlinkat(dfd, name, flags) < 0 ? -errno : 0;

	if (r == -EACCES) {
		int mode = protect_unlock(dfd);
		if (mode < 0)
			return -EACCES;
		r = unlinkat(dfd, name, flags) < 0 ? -errno : 0;
		protect_chmod(dfd, (mode_t)mode);
	}
	return r;
}

/* owner: of all directories that are to be emptied, or -1. */
static int remove_below(uid_t owner, int dfd, const char *name, int depth)
{
	enum { DEEP = 16 }; /* the stack is small */
	_Alignas(struct sys_dirent) char buf[1024];
	int r = unlink_name(dfd, name, 0);

	if (r == 0 || (r != -EISDIR && r != -EPERM) || depth == DEEP)
		return r;
	struct stat st;
	cleanup_close int dir = open_forced(dfd, name, O_PATH | O_DIRECTORY, RESOLVE_NO_XDEV);
	if (dir < 0 || fstat(dir, &st) < 0)
		return r;
	const bool ours = owner == (uid_t)-1 || st.st_uid == owner;
	if (ours)
		protect_unlock(dir);
	cleanup_close int list = ours ? protect_open(dir, ".", O_RDONLY | O_DIRECTORY) : -EPERM;
	for (long n; list >= 0 && (n = syscall(SYS_getdents64, list, buf, sizeof buf)) > 0;) {
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (strcmp(d->name, ".") != 0 && strcmp(d->name, "..") != 0)
				remove_below(owner, dir, d->name, depth + 1);
		}
	}
	return unlink_name(dfd, name, AT_REMOVEDIR);
}

int protect_remove(int wsfd, int dfd, const char *name)
{
	struct stat ws;

	if (fstat(wsfd, &ws) < 0)
		return -errno;
	return remove_below(geteuid() == 0 ? ws.st_uid : (uid_t)-1, dfd, name, 0);
}

int protect_walk(int dfd, const char *path, int flags)
{
	cleanup_close int dir = -1;
	char name[NAME_MAX + 1];

	for (;;) {
		size_t n = strcspn(path, "/");
		if (!n || n > NAME_MAX)
			return -ENOENT;
		memcpy(name, path, n);
		name[n] = '\0';
		path += n;
		if (!*path)
			return protect_open_forced(dfd, name, flags);
		path++;
		int next = protect_open_forced(dfd, name, O_PATH | O_DIRECTORY);
		if (next < 0)
			return next;
		fd_close(&dir);
		dir = dfd = next;
	}
}

bool protect_resolve(const char *root, const char *base, const char *target,
		     char out[PATH_MAX])
{
	size_t len = strlen(base), n = strlen(root);

	if (target[0] == '/') {
		if (!n || strncmp(target, root, n) != 0 || (target[n] && target[n] != '/'))
			return false;
		target += n;
		len = 0;
	}
	if (len >= PATH_MAX)
		return false;
	memcpy(out, base, len);
	while (*target) {
		size_t part = strcspn(target, "/");
		if (part == 2 && !memcmp(target, "..", 2)) {
			if (!len)
				return false;
			while (len && out[len - 1] != '/')
				len--;
			if (len)
				len--;
		} else if (part && !(part == 1 && target[0] == '.')) {
			if (len + 1 + part >= PATH_MAX)
				return false;
			if (len)
				out[len++] = '/';
			memcpy(out + len, target, part);
			len += part;
		}
		target += part + (target[part] == '/');
	}
	out[len] = '\0';
	return true;
}

/* What is behind a descriptor: at `root` or below it.  The path from there, or NULL. */
static const char *below_root(int fd, const char *root, char real[PATH_MAX])
{
	char link[FD_LINK];
	const size_t n = strlen(root);
	const ssize_t len = readlink(fd_link(fd, link), real, PATH_MAX - 1);

	if (len <= 0 || !n || (size_t)len < n || memcmp(real, root, n) != 0)
		return NULL;
	real[len] = '\0';
	return !real[n] || real[n] == '/' ? real + n : NULL;
}

/* dir/rest, without a slash in front; 0, or -ENOENT: nobody could open it. */
static int enter_at(const char *dir, const char *rest, char out[PATH_MAX])
{
	dir += strspn(dir, "/");
	rest += strspn(rest, "/");
	const size_t n = strlen(dir), m = strlen(rest), sep = n && m ? 1 : 0;

	if (n + sep + m >= PATH_MAX)
		return -ENOENT;
	memcpy(out, dir, n); // NOLINT(bugprone-not-null-terminated-result): the rest follows
	if (sep)
		out[n] = '/';
	memcpy(out + n + sep, rest, m + 1);
	return 0;
}

int protect_enter(int wsfd, const char *root, const char *target, char out[PATH_MAX])
{
	const size_t n = strlen(root), len = strlen(target);
	big_buffer char start[PATH_MAX], real[PATH_MAX];
	struct stat ws, st;
	bool linked = false;

	if (n && !strncmp(target, root, n) && (!target[n] || target[n] == '/'))
		return enter_at("", target + n, out);
	if (len >= PATH_MAX || fstat(wsfd, &ws) < 0)
		return -ENOENT;
	/* from the top: links in the workspace are for who walks there */
	for (size_t i = 1; i <= len; i++) {
		start[i - 1] = target[i - 1];
		start[i] = '\0';
		if (target[i] && target[i] != '/')
			continue;
		int r = fstatat(AT_FDCWD, start, &st, linked ? 0 : AT_SYMLINK_NOFOLLOW);
		if (r == 0 && !linked && S_ISLNK(st.st_mode)) {
			linked = true;
			r = fstatat(AT_FDCWD, start, &st, 0);
		}
		if (r < 0)
			return errno == ENOMEM ? -ENOMEM : -ENOENT;
		/* by that path, through links, or by another mount of it */
		if (st.st_dev == ws.st_dev && st.st_ino == ws.st_ino)
			return enter_at("", target + i, out);
		if (!linked)
			continue;
		cleanup_close int fd = open(start, O_PATH | O_CLOEXEC);
		if (fd < 0)
			return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno :
										       -ENOENT;
		const char *dir = below_root(fd, root, real);
		if (dir)
			return enter_at(dir, target + i, out);
	}
	return -ENOENT;
}

bool protect_read_line(int fd, const char *key, char out[PATH_MAX])
{
	size_t n = strlen(key);
	ssize_t got = fd_read_full(fd, out, PATH_MAX - 1);

	if (got <= 0 || got == PATH_MAX - 1)
		return false;
	out[got] = '\0';
	out[strcspn(out, "\r\n")] = '\0';
	if (strncmp(out, key, n) != 0 || !out[n])
		return false;
	memmove(out, out + n, strlen(out + n) + 1);
	return true;
}
