/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a protected directory is read-only by the directory's mount, but only under the
 * names in there.  A link leads elsewhere, as from .git/hooks to a script in the
 * repository, and a file may have a second name.  Two levels deep: that is where tools look.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "workspace/protect_scan.h"
#include "workspace/protect_walk.h"

enum {
	LEVELS = 2,
	NAMES_MAX = 1000, /* for one pattern; a directory with more is no handful of settings */
};

/* What git itself puts there, and never runs. */
static bool is_sample(const char *name)
{
	size_t n = strlen(name), m = sizeof ".sample" - 1;

	return n > m && streq(name + n - m, ".sample");
}

static int look(struct scan *s, const char *dir, int levels);

static int look_at(struct scan *s, int dfd, const char *dir, const char *name, int levels)
{
	struct stat st;

	if (fstatat(dfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISREG(st.st_mode) && st.st_nlink == 1)
		return 0;
	cleanup_free struct place *w = malloc(sizeof *w);
	if (!w)
		return scan_no_memory(s);
	if (!scan_join(w->path, dir, name))
		return 0;
	if (S_ISREG(st.st_mode)) {
		int fd = scan_open(s, w->path, O_PATH);
		if (fd < 0 || fstat(fd, &st) < 0) {
			fd_close(&fd);
			return 0; /* gone, just now */
		}
		return scan_add(s, PROTECT_WATCHED, w->path, fd, &st, NULL);
	}
	if (S_ISLNK(st.st_mode)) {
		const int links = s->links; /* of this one's way alone, if it is in a circle */
		memcpy(w->cur, dir, strlen(dir) + 1);
		memcpy(w->rest, name, strlen(name) + 1);
		int r = scan_from(s, w, false);
		s->links = links;
		return r;
	}
	return S_ISDIR(st.st_mode) && levels > 1 ? look(s, w->path, levels - 1) : 0;
}

static int look(struct scan *s, const char *dir, int levels)
{
	int r = 0, fd = scan_open(s, dir, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		/* nobody can, then: its mode cannot be changed through a read-only mount */
		fd_close(&fd);
		return 0;
	}
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		if (streq(e->d_name, ".") || streq(e->d_name, "..") || is_sample(e->d_name))
			continue;
		if (++s->inside > NAMES_MAX)
			break;
		r = look_at(s, dirfd(d), dir, e->d_name, levels);
	}
	closedir(d);
	return r;
}

int scan_inside(struct scan *s, const char *path)
{
	big_buffer char dir[PATH_MAX];

	memcpy(dir, path, strlen(path) + 1); /* it is a place's, which is walked on */
	return look(s, dir, LEVELS);
}
