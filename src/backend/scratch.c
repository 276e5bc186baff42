/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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
	/* The id is known to everybody as soon as a control group has its name: who could guess
	 * this one, too, could be there first. */
	char secret[17];
	if (scratch_random(secret, 8) < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, EIO, "temp", "random numbers");
	snprintf(s->name, sizeof s->name, "brig-%.40s-%s", id, secret);
	snprintf(s->path, sizeof s->path, "%.4000s/%s", parent, s->name);
	return 0;
}

static void note(struct scratch *s, int fd, const struct stat *st)
{
	s->dev = st->st_dev;
	s->ino = st->st_ino;
	s->fd = fd;
}

int scratch_make(struct scratch *s, uid_t uid, gid_t gid)
{
	struct stat st;

	if (mkdirat(s->parent, s->name, 0700) < 0)
		return -errno;
	cleanup_close int fd = openat(s->parent, s->name,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* the sticky bit keeps others from putting theirs in its place */
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid())
		return -EPERM;
	note(s, take_fd(&fd), &st);
	if (fchmod(s->fd, 0700) < 0)
		return -errno;
	if (geteuid() == 0 && (uid != geteuid() || gid != getegid()) &&
	    fchown(s->fd, uid, gid) < 0)
		return -errno;
	return 0;
}

/* Made by another process with the same plan, or left without permissions.  Who only knows the
 * name knows nothing: in a directory for everybody somebody may have put another one there. */
static int reopen(const struct scratch *s)
{
	const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct stat st;
	cleanup_close int path = openat(s->parent, s->name, O_PATH | flags);

	if (path < 0)
		return -errno;
	if (!s->ino || fstat(path, &st) < 0 || st.st_ino != s->ino || st.st_dev != s->dev)
		return -ESTALE;
	int fd = openat(path, ".", O_RDONLY | flags);
	if (fd < 0 && errno == EACCES && protect_unlock(path) >= 0)
		fd = openat(path, ".", O_RDONLY | flags);
	return fd < 0 ? -errno : fd;
}

static bool is_there(const struct scratch *s)
{
	struct stat st;

	return fstatat(s->parent, s->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* True when it was empty, and is gone.  That is looked at: it may have been another one, and
 * ours is elsewhere. */
static bool remove_name(const struct scratch *s, int fd)
{
	struct stat st;

	if (unlinkat(s->parent, s->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return false;
	return fd < 0 ? !is_there(s) : fstat(fd, &st) == 0 && st.st_nlink == 0;
}

int scratch_remove(struct scratch *s, uid_t uid, gid_t gid)
{
	int r = 0, fd = take_fd(&s->fd);

	if (!s->name[0] || s->parent < 0) {
		fd_close(&fd);
		return 0;
	}
	/* mostly there is nothing in it */
	if (!remove_name(s, fd)) {
		if (fd < 0)
			fd = reopen(s);
		r = fd < 0 ? fd : scratch_empty_as(fd, uid, gid);
		if (fd == -ENOENT)
			r = 0;
		else if (unlinkat(s->parent, s->name, AT_REMOVEDIR) < 0 && errno != ENOENT && r == 0)
			r = -errno;
	}
	if (r < 0 && fd >= 0) { /* the next try knows what it is about, wherever that is */
		s->fd = fd;
		return r;
	}
	fd_close(&fd);
	if (r == 0)
		s->name[0] = '\0';
	return r;
}

void scratch_took(struct scratch *s, int fd)
{
	struct stat st;

	if (s->fd >= 0 || fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode)) {
		close(fd);
		return;
	}
	note(s, fd, &st);
}

void scratch_forget(struct scratch *s)
{
	fd_close(&s->fd);
	fd_close(&s->parent);
}
