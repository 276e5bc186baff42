/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at the protected paths after a run.  The workspace is hostile
 * input here: every step goes one name at a time from an open directory,
 * never follows a link, and renames only within that directory, so nothing
 * outside the workspace can be touched however the tree was rearranged.
 *
 * No allocation and no stdio in this file: see the header.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "workspace/gitindex.h"
#include "workspace/gitsafe.h"
#include "workspace/protect.h"
#include "workspace/protect_walk.h"

enum { NESTING_MAX = 8 }; /* submodules of submodules; deeper ones go */

struct sweep {
	const struct protect *p;
	protect_report *report;
	void *arg;
	int wsfd;
	int moved, error;
	char missing[NAME_MAX + 1]; /* in the workspace itself, just looked for */
	char path[PATH_MAX]; /* of the place being looked at, for the report */
	size_t len;
};

static void note_error(struct sweep *s, int r)
{
	if (r < 0 && !s->error)
		s->error = r;
}

static void put_hex(char *out, unsigned v)
{
	for (int i = 0; i < 8; i++)
		out[i] = "0123456789abcdef"[v >> (28 - 4 * i) & 15];
	out[8] = '\0';
}

static bool path_push(struct sweep *s, const char *name)
{
	size_t n = strlen(name), sep = s->len ? 1 : 0;

	if (s->len + sep + n >= sizeof s->path)
		return false;
	if (sep)
		s->path[s->len] = '/';
	memcpy(s->path + s->len + sep, name, n + 1);
	s->len += sep + n;
	return true;
}

static void path_cut(struct sweep *s, size_t len)
{
	s->len = len;
	s->path[len] = '\0';
}

static void tell(struct sweep *s, const char *moved_to)
{
	s->moved++;
	if (s->report)
		s->report(s->arg, s->path, moved_to);
}

/*
 * Renames `name` in dfd aside; s->path already ends with it.  The first
 * choice of a name is predictable to a run that learnt its id, so the next
 * ones are random.
 */
static int move_aside(struct sweep *s, int dfd, const char *name)
{
	char to[NAME_MAX + 1], moved[PATH_MAX];
	size_t n = strlen(name), m = strlen(s->p->suffix);
	size_t dir = s->len - n;
	int r = -EEXIST;

	if (n + m + 10 > NAME_MAX || dir + n + m + 10 >= sizeof moved)
		return -ENAMETOOLONG;
	memcpy(to, name, n); // NOLINT(bugprone-not-null-terminated-result): a suffix follows
	memcpy(to + n, s->p->suffix, m + 1);
	for (int i = 0; i < 16 && r == -EEXIST; i++) {
		if (i) {
			unsigned rnd = 0;
			if (getrandom(&rnd, sizeof rnd, 0) != sizeof rnd)
				rnd = (unsigned)i;
			to[n + m] = '-';
			put_hex(to + n + m + 1, rnd);
		}
		r = protect_rename(dfd, name, to);
	}
	if (r < 0)
		return r;
	memcpy(moved, s->path, dir);
	memcpy(moved + dir, to, strlen(to) + 1);
	tell(s, moved);
	return 0;
}

/* May what appeared stay?  (Only pieces of a repository ever may.) */
static bool acceptable(enum protect_check check, int dfd, const char *name,
		       const struct stat *st)
{
	cleanup_close int fd = -1;

	switch (check) {
	case PROTECT_CHECK_GIT_BARE:
		return !gitsafe_is_gitdir(dfd);
	case PROTECT_CHECK_GIT_CONFIG:
		/* a second name would let the next run write it around its
		 * read-only mount */
		if (!S_ISREG(st->st_mode) || st->st_nlink != 1)
			return false;
		fd = protect_open_forced(dfd, name, O_RDONLY | O_NONBLOCK);
		return fd >= 0 && gitsafe_config(fd);
	case PROTECT_CHECK_GIT_COMMONDIR:
		if (!S_ISREG(st->st_mode) || st->st_nlink != 1)
			return false;
		fd = protect_open_forced(dfd, name, O_RDONLY | O_NONBLOCK);
		return fd >= 0 && gitsafe_commondir(fd);
	case PROTECT_CHECK_GIT_HOOKS:
		if (!S_ISDIR(st->st_mode))
			return false;
		fd = protect_open_forced(dfd, name, O_RDONLY | O_DIRECTORY);
		return fd >= 0 && gitsafe_hooks(fd);
	case PROTECT_CHECK_NONE:
		break;
	}
	return false;
}

/* Copies the first component of *rest to name and steps over it. */
static bool take_name(const char **rest, char name[NAME_MAX + 1])
{
	size_t n = strcspn(*rest, "/");

	if (!n || n > NAME_MAX)
		return false;
	memcpy(name, *rest, n);
	name[n] = '\0';
	*rest += n + ((*rest)[n] == '/');
	return true;
}

/* Was there before the run, so that its own entry judges it. */
static bool known(const struct protect *p, const char *path)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].kind != PROTECT_ABSENT && !strcmp(p->v[i].path, path))
			return true;
	return false;
}

static void absent_below(struct sweep *s, int dfd, const char *rest,
			 enum protect_check check);

/*
 * One directory entry a "*" may stand for.  Names that were there before are
 * walked too: a known worktree may have gained a config.
 */
static void absent_match(struct sweep *s, int dfd, const char *name,
			 const char *rest, enum protect_check check)
{
	size_t len = s->len;
	struct stat st;

	if (!path_push(s, name)) {
		note_error(s, -ENAMETOOLONG);
		return;
	}
	cleanup_close int fd = protect_open_forced(dfd, name, O_PATH);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		if (S_ISDIR(st.st_mode)) {
			absent_below(s, fd, rest, check);
		} else if (S_ISLNK(st.st_mode) && !known(s->p, s->path) &&
			   fstatat(dfd, name, &st, 0) == 0 && S_ISDIR(st.st_mode)) {
			/* git never makes such a link; followed, it would hide
			 * what is behind it from the test above */
			note_error(s, move_aside(s, dfd, name));
		}
	}
	path_cut(s, len);
}

static void absent_glob(struct sweep *s, int dfd, const char *rest,
			enum protect_check check)
{
	/* getdents64 and not readdir(): the latter allocates */
	_Alignas(struct dirent64) char buf[2048];
	int mode = -1;
	cleanup_close int fd = openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == EACCES) {
		mode = protect_unlock(dfd);
		fd = openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (mode >= 0)
			protect_chmod(dfd, (mode_t)mode);
	}
	if (fd < 0) {
		note_error(s, -errno);
		return;
	}
	for (;;) {
		long n = syscall(SYS_getdents64, fd, buf, sizeof buf);
		if (n < 0)
			note_error(s, -errno);
		if (n <= 0)
			return;
		for (long at = 0; at < n;) {
			struct dirent64 *d = (struct dirent64 *)(void *)(buf + at);
			at += d->d_reclen;
			/* what was just moved aside may come by again */
			if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..") ||
			    strstr(d->d_name, s->p->suffix))
				continue;
			absent_match(s, dfd, d->d_name, rest, check);
		}
	}
}

/* Looks for `rest`, which was absent, below dfd (the place s->path names). */
static void absent_below(struct sweep *s, int dfd, const char *rest,
			 enum protect_check check)
{
	char name[NAME_MAX + 1];
	size_t len = s->len;
	struct stat st;

	if (!take_name(&rest, name))
		return;
	if (!strcmp(name, "*")) {
		absent_glob(s, dfd, rest, check);
		return;
	}
	/* most of the list lies below .git: its absence is asked for once */
	if (dfd == s->wsfd && !strcmp(name, s->missing))
		return;
	if (protect_missing(dfd, name)) {
		if (dfd == s->wsfd)
			memcpy(s->missing, name, sizeof s->missing);
		return;
	}
	cleanup_close int fd = protect_open_forced(dfd, name, O_PATH);
	if (fd == -ENOENT)
		return;
	if (fd < 0 || fstat(fd, &st) < 0) {
		note_error(s, fd < 0 ? fd : -errno);
		return;
	}
	if (!path_push(s, name)) {
		note_error(s, -ENAMETOOLONG);
		return;
	}
	if (*rest && S_ISDIR(st.st_mode))
		absent_below(s, fd, rest, check);
	else if (*rest || (!known(s->p, s->path) && !acceptable(check, dfd, name, &st)))
		/* With a rest this is a link or a file in the place of a
		 * directory on the way: a link hides what is behind it, and a
		 * `.git` file sends git to a repository of the agent's choice. */
		note_error(s, move_aside(s, dfd, name));
	path_cut(s, len);
}

static bool same(const struct protect_entry *e, const struct stat *st)
{
	if (st->st_dev != e->dev || st->st_ino != e->ino)
		return false;
	/* the same file, but written through a second name it has */
	return e->kind != PROTECT_RO || e->is_dir || e->nlink < 2 ||
	       (st->st_ctim.tv_sec == e->ctime.tv_sec &&
		st->st_ctim.tv_nsec == e->ctime.tv_nsec);
}

static void judge_link(struct sweep *s, const struct protect_entry *e, int dfd,
		       const char *name, int fd, const struct stat *st)
{
	big_buffer char target[PATH_MAX];

	if (fd >= 0 && S_ISLNK(st->st_mode)) {
		ssize_t n = readlinkat(fd, "", target, sizeof target - 1);
		target[n < 0 ? 0 : n] = '\0';
		if (!strcmp(target, e->target))
			return;
	}
	if (fd >= 0) {
		int r = move_aside(s, dfd, name);
		if (r < 0) {
			note_error(s, r);
			return;
		}
	}
	int r = symlinkat(e->target, dfd, name) < 0 ? -errno : 0;
	if (r == -EACCES) {
		int mode = protect_unlock(dfd);
		r = symlinkat(e->target, dfd, name) < 0 ? -errno : 0;
		if (mode >= 0)
			protect_chmod(dfd, (mode_t)mode);
	}
	note_error(s, r);
	if (fd < 0 && r == 0)
		tell(s, NULL);
}

static void judge(struct sweep *s, const struct protect_entry *e, int dfd,
		  const char *name)
{
	struct stat st;
	cleanup_close int fd = protect_open_forced(dfd, name, O_PATH);

	if (fd < 0 && fd != -ENOENT) {
		note_error(s, fd);
		return;
	}
	if (fd >= 0 && fstat(fd, &st) < 0) {
		note_error(s, -errno);
		return;
	}
	if (e->kind == PROTECT_SYMLINK)
		judge_link(s, e, dfd, name, fd, &st);
	else if (fd < 0)
		tell(s, NULL);
	/* The user's own `git config` replaces the file as well; one that can
	 * do no harm is left to him. */
	else if (!same(e, &st) &&
		 !(e->kind == PROTECT_RO && acceptable(e->check, dfd, name, &st)))
		note_error(s, move_aside(s, dfd, name));
}

/* A path that was there: walks to its directory and judges the last name. */
static void sweep_present(struct sweep *s, const struct protect_entry *e)
{
	cleanup_close int dir = -1;
	int dfd = s->wsfd;
	const char *rest = e->path;
	char name[NAME_MAX + 1];

	while (take_name(&rest, name)) {
		if (!path_push(s, name)) {
			note_error(s, -ENAMETOOLONG);
			return;
		}
		if (!*rest) {
			judge(s, e, dfd, name);
			return;
		}
		int next = protect_open_forced(dfd, name, O_PATH | O_DIRECTORY);
		if (next < 0) {
			/* its directory is gone or no directory any more: the
			 * directory's own entry has reported that */
			if (next != -ENOENT && next != -ENOTDIR && next != -ELOOP)
				note_error(s, next);
			return;
		}
		fd_close(&dir);
		dir = dfd = next;
	}
}

/* A work tree whose index is being read. */
struct tree {
	struct sweep *s;
	int fd, depth;
};

static void sweep_links(struct sweep *s, int tree_fd, int git_fd, int depth);

/* The pieces of one git directory, whose path is s->path. */
static void sweep_gitdir(struct sweep *s, int git_fd)
{
	static const struct {
		const char *name;
		enum protect_check check;
	} pieces[] = {
		{ "config", PROTECT_CHECK_GIT_CONFIG },
		{ "config.worktree", PROTECT_CHECK_GIT_CONFIG },
		{ "hooks", PROTECT_CHECK_GIT_HOOKS },
		{ "commondir", PROTECT_CHECK_NONE },
	};

	for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
		absent_below(s, git_fd, pieces[i].name, pieces[i].check);
}

/*
 * `.git` as a file, as `git submodule update` writes it: "gitdir: " and a way
 * up to the workspace and down into .git/modules.  Opens that directory; any
 * other place is refused with -1.  path receives its place, for reports.
 */
static int open_gitfile(struct sweep *s, int dfd, char path[PATH_MAX])
{
	static const char key[] = "gitdir: ", home[] = ".git/modules/";
	cleanup_close int fd = protect_open_forced(dfd, ".git", O_RDONLY | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : fd_read_full(fd, path, PATH_MAX - 1);
	size_t at = sizeof key - 1, up = 0, depth = 0;

	if (n <= 0)
		return -1;
	path[n] = '\0';
	path[strcspn(path, "\r\n")] = '\0';
	if (strncmp(path, key, at) != 0)
		return -1;
	for (; !strncmp(path + at, "../", 3); at += 3)
		up++;
	for (const char *p = s->path; *p; p++) /* ends in "/.git" */
		depth += *p == '/';
	if (up != depth || strncmp(path + at, home, sizeof home - 1) != 0 ||
	    strstr(path + at, ".."))
		return -1;
	memmove(path, path + at, strlen(path + at) + 1);
	return protect_open(s->wsfd, path, O_PATH | O_DIRECTORY);
}

/* `.git` in the directory of a submodule; s->path ends with it. */
static void sweep_nested(struct sweep *s, int dfd, int depth)
{
	big_buffer char place[PATH_MAX], here[PATH_MAX];
	size_t len = s->len;
	struct stat st;
	cleanup_close int fd = protect_open_forced(dfd, ".git", O_PATH);
	cleanup_close int git_fd = -1;

	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	memcpy(here, s->path, len + 1);
	if (S_ISDIR(st.st_mode) && depth <= NESTING_MAX) {
		git_fd = take_fd(&fd);
	} else if (S_ISREG(st.st_mode) && depth <= NESTING_MAX) {
		git_fd = open_gitfile(s, dfd, place);
		if (git_fd >= 0) {
			path_cut(s, 0);
			path_push(s, place);
		}
	}
	if (git_fd >= 0) {
		sweep_gitdir(s, git_fd);
		memcpy(s->path, here, len + 1);
		path_cut(s, len - (sizeof "/.git" - 1));
		sweep_links(s, dfd, git_fd, depth);
		memcpy(s->path, here, len + 1);
		s->len = len;
	} else if (!known(s->p, s->path)) {
		note_error(s, move_aside(s, dfd, ".git"));
	}
}

static void sweep_one_link(void *arg, const char *path)
{
	const struct tree *t = arg;
	struct sweep *s = t->s;
	cleanup_close int dir = -1;
	int dfd = t->fd;
	char name[NAME_MAX + 1], was[PATH_MAX];
	size_t len = s->len;

	memcpy(was, s->path, len + 1);
	while (take_name(&path, name)) {
		/* git itself goes through no symlink and no ".." here */
		int next = !strcmp(name, "..") ?
				   -1 :
				   protect_open_forced(dfd, name, O_PATH | O_DIRECTORY);
		if (next < 0 || !path_push(s, name)) {
			fd_close(&next);
			break;
		}
		fd_close(&dir);
		dir = dfd = next;
		if (!*path && path_push(s, ".git"))
			sweep_nested(s, dfd, t->depth + 1);
	}
	memcpy(s->path, was, len + 1);
	s->len = len;
}

static void sweep_index(struct sweep *s, int tree_fd, int git_fd, const char *name,
			int depth)
{
	struct tree t = { .s = s, .fd = tree_fd, .depth = depth };
	size_t len = s->len;
	cleanup_close int fd = protect_open_forced(git_fd, name, O_RDONLY | O_NONBLOCK);
	struct stat st;
	int r = -EBADMSG;

	if (fd == -ENOENT)
		r = 0;
	else if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		r = gitindex_links(fd, sweep_one_link, &t);
	/* What we cannot read, git may read its own way.  Git makes a new
	 * index from the last commit (git reset). */
	if (r == -EBADMSG && path_push(s, ".git") && path_push(s, name))
		r = move_aside(s, git_fd, name);
	note_error(s, r);
	path_cut(s, len);
}

/* The index of a work tree (s->path), and any shared one it may lean on. */
static void sweep_links(struct sweep *s, int tree_fd, int git_fd, int depth)
{
	_Alignas(struct dirent64) char buf[2048];
	cleanup_close int dir = protect_open_forced(git_fd, ".", O_RDONLY | O_DIRECTORY);

	sweep_index(s, tree_fd, git_fd, "index", depth);
	for (long n; dir >= 0 && (n = syscall(SYS_getdents64, dir, buf, sizeof buf)) > 0;) {
		for (long at = 0; at < n;) {
			struct dirent64 *d = (struct dirent64 *)(void *)(buf + at);
			at += d->d_reclen;
			if (!strncmp(d->d_name, "sharedindex.", 12) &&
			    !strstr(d->d_name, s->p->suffix))
				sweep_index(s, tree_fd, git_fd, d->d_name, depth);
		}
	}
}

int protect_sweep(const struct protect *p, int wsfd, protect_report *report,
		  void *arg)
{
	struct sweep s = { .p = p, .report = report, .arg = arg, .wsfd = wsfd };

	for (size_t i = 0; i < p->n; i++) {
		path_cut(&s, 0);
		if (p->v[i].kind == PROTECT_ABSENT)
			absent_below(&s, wsfd, p->v[i].path, p->v[i].check);
		else
			sweep_present(&s, &p->v[i]);
	}
	path_cut(&s, 0);
	cleanup_close int git_fd =
		p->git_links ? protect_open_forced(wsfd, ".git", O_PATH | O_DIRECTORY) : -1;
	if (git_fd >= 0)
		sweep_links(&s, wsfd, git_fd, 0);
	return s.error ? s.error : s.moved;
}
