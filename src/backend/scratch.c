/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"
#include "workspace/protect_walk.h"

/* How root of the machine looks from inside a user namespace. */
enum { UNMAPPED = 65534 };

/* A place that is ours alone, or one where the sticky bit keeps others off. */
static int open_parent(char path[PATH_MAX], bool nested)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	if (run && run[0] == '/' && strlen(run) < PATH_MAX - 80) {
		int fd = openat(AT_FDCWD, run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
		    !(st.st_mode & 077) && geteuid() != 0) {
			snprintf(path, PATH_MAX, "%s", run);
			return fd;
		}
		fd_close(&fd);
	}
	int fd = openat(AT_FDCWD, "/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 ||
	    ((st.st_mode & 022) && !(st.st_mode & S_ISVTX)) ||
	    (st.st_uid != 0 && st.st_uid != geteuid() &&
	     !(nested && st.st_uid == UNMAPPED))) {
		close(fd);
		return -EPERM;
	}
	/* an image without a /tmp for everybody: said now, with what to do */
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0) {
		int e = errno;
		close(fd);
		return -e;
	}
	snprintf(path, PATH_MAX, "/tmp");
	return fd;
}

int scratch_plan(struct scratch *s, const char *id, bool nested, struct brig_error *err)
{
	big_buffer char parent[PATH_MAX];

	*s = (struct scratch){ .fd = -1 };
	s->parent = open_parent(parent, nested);
	if (s->parent < 0) {
		err_set(err, BRIG_E_SETUP_FAILED, -s->parent, "temp", "a private directory");
		err_fix(err, "set XDG_RUNTIME_DIR to a directory of yours with mode 0700, or "
			     "give /tmp its mode 1777");
		return -EPERM;
	}
	snprintf(s->name, sizeof s->name, "brig-%s", id);
	snprintf(s->path, sizeof s->path, "%.4000s/%s", parent, s->name);
	return 0;
}

int scratch_make(struct scratch *s, uid_t uid, gid_t gid)
{
	struct stat st;

	if (mkdirat(s->parent, s->name, 0700) < 0)
		return -errno;
	s->fd = openat(s->parent, s->name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* the sticky bit keeps others from putting theirs in its place */
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	if (fchmod(s->fd, 0700) < 0)
		return -errno;
	if (geteuid() == 0 && (uid != geteuid() || gid != getegid()) &&
	    fchown(s->fd, uid, gid) < 0)
		return -errno;
	return 0;
}

static bool is_dots(const char *n)
{
	return n[0] == '.' && (!n[1] || (n[1] == '.' && !n[2]));
}

/* Opens a directory below dir, made ours to use first if need be. */
static int open_dir(int dir, const char *name)
{
	int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, name, O_RDONLY | flags);

	if (fd >= 0 || errno != EACCES)
		return fd < 0 ? -errno : fd;
	cleanup_close int path = openat(dir, name, O_PATH | flags);
	if (path < 0)
		return -errno;
	int mode = protect_unlock(path);
	if (mode < 0)
		return mode;
	fd = openat(dir, name, O_RDONLY | flags);
	return fd < 0 ? -errno : fd;
}

/*
 * One pass over a directory: files go, of the directories the first that is
 * not empty is opened and returned in *deeper.  1 when something was left for
 * another pass, 0 when it is empty, -errno when nothing more can be done.
 */
static int pass(int dir, int *deeper)
{
	char buf[4096] __attribute__((aligned(8)));
	int left = 0, err = 0;
	bool any = false;

	*deeper = -1;
	if (lseek(dir, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		long n = syscall(SYS_getdents64, dir, buf, sizeof buf);
		if (n <= 0)
			break;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (is_dots(d->name))
				continue;
			if (unlinkat(dir, d->name, 0) == 0 ||
			    unlinkat(dir, d->name, AT_REMOVEDIR) == 0) {
				any = true;
				continue;
			}
			left = 1;
			int e = errno;
			if (*deeper >= 0)
				continue;
			*deeper = open_dir(dir, d->name);
			if (*deeper < 0)
				err = e == ENOTDIR ? EPERM : e;
		}
	}
	if (!left)
		return 0;
	return *deeper >= 0 || any ? 1 : -(err ? err : EPERM);
}

/* Takes away what makes a directory of ours unusable to us. */
static void unlock(int dir)
{
	fchmod(dir, 0700);
}

/* Moves the directories in sub that hold something up into dir.  How many. */
static int lift(int sub, int dir, const char *prefix, unsigned *serial)
{
	char buf[4096] __attribute__((aligned(8)));
	int moved = 0;

	if (lseek(sub, 0, SEEK_SET) < 0)
		return 0;
	long n = syscall(SYS_getdents64, sub, buf, sizeof buf);
	for (long at = 0; at < n;) {
		const struct sys_dirent *d = (const void *)(buf + at);
		char up[40];
		size_t k = strlen(prefix);
		unsigned v = (*serial)++;

		at += d->len;
		if (is_dots(d->name))
			continue;
		memcpy(up, prefix, k);
		for (int i = 0; i < 8; i++, v >>= 4)
			up[k++] = "0123456789abcdef"[v & 15];
		up[k] = '\0';
		int in = open_dir(sub, d->name);
		if (in >= 0) {
			unlock(in); /* its ".." is written when it moves */
			close(in);
		}
		moved += renameat(sub, d->name, dir, up) == 0;
	}
	return moved;
}

/*
 * Deep trees: not by recursion and not with a descriptor per level.  What lies
 * in a directory that is not empty is moved up to the top, under names that
 * nobody could have foreseen, so that no level is ever more than two below it.
 */
int scratch_empty(int dir)
{
	unsigned serial = 0;
	unsigned char seed[8];
	char prefix[24] = ".brig-";

	if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
		return -EIO;
	for (size_t i = 0; i < sizeof seed; i++) {
		prefix[6 + 2 * i] = "0123456789abcdef"[seed[i] >> 4];
		prefix[7 + 2 * i] = "0123456789abcdef"[seed[i] & 15];
	}
	prefix[6 + 2 * sizeof seed] = '\0';
	for (;;) {
		int sub = -1;
		int r = pass(dir, &sub);
		if (r <= 0 || sub < 0) {
			fd_close(&sub);
			if (r <= 0)
				return r;
			continue;
		}
		unlock(sub);
		for (;;) {
			int inner = -1;
			r = pass(sub, &inner);
			bool stuck = r > 0 && inner >= 0 && lift(sub, dir, prefix, &serial) == 0;
			fd_close(&inner);
			if (stuck)
				r = -EPERM;
			if (r <= 0)
				break;
		}
		close(sub);
		if (r < 0)
			return r; /* an immutable file, a mount: not ours to remove */
	}
}

/* Made by somebody else who had the same plan, or left without permissions. */
static int reopen(const struct scratch *s, uid_t uid)
{
	struct stat st;
	int fd = s->parent < 0 || !s->name[0] ? -ENOENT : open_dir(s->parent, s->name);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) == 0 && (st.st_uid == uid || st.st_uid == geteuid()))
		return fd;
	close(fd);
	return -EPERM;
}

int scratch_remove(struct scratch *s, uid_t uid)
{
	/* Taken first: who is killed in here leaves a number behind that another
	 * process must not take for the directory. */
	int r = 0, fd = take_fd(&s->fd);

	if (!s->name[0] || s->parent < 0) {
		fd_close(&fd);
		return 0;
	}
	if (fd < 0)
		fd = reopen(s, uid);
	if (fd >= 0) {
		unlock(fd);
		r = scratch_empty(fd);
	} else if (fd != -ENOENT) {
		r = fd;
	}
	fd_close(&fd);
	if (unlinkat(s->parent, s->name, AT_REMOVEDIR) < 0 && errno != ENOENT && r == 0)
		r = -errno;
	if (r == 0)
		s->name[0] = '\0';
	return r;
}

void scratch_forget(struct scratch *s)
{
	fd_close(&s->fd);
	fd_close(&s->parent);
}
