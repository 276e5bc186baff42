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
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "workspace/gitindex.h"
#include "workspace/gitsafe.h"
#include "workspace/protect.h"
#include "workspace/protect_walk.h"

/*
 * The custodian's stack is small.  What is large is here once, and the levels
 * of nesting (GITINDEX_NESTING) share it.
 */
struct sweep {
	const struct protect *p;
	protect_report *report;
	void *arg;
	int wsfd;
	int moved, error;
	char missing[NAME_MAX + 1]; /* in the workspace itself, just looked for */
	char *path; /* of the place being looked at, for the report */
	size_t len, cap;
	struct gitindex_work work;
};

/* Another place that s->path tells about for a while. */
struct detour {
	char *path;
	size_t len, cap;
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

	if (s->len + sep + n >= s->cap)
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

static struct detour path_set(struct sweep *s, char *buf, size_t cap)
{
	struct detour d = { s->path, s->len, s->cap };

	s->path = buf;
	s->cap = cap;
	path_cut(s, 0);
	return d;
}

static void path_back(struct sweep *s, const struct detour *d)
{
	s->path = d->path;
	s->len = d->len;
	s->cap = d->cap;
	path_cut(s, d->len);
}

/* The i-th PATH_MAX bytes of the buffer, for what is done with at once. */
static char *scratch(struct sweep *s, int i)
{
	_Static_assert(sizeof s->work.buf >= (size_t)4 * PATH_MAX, "room for paths");
	return gitindex_buffer(&s->work) + (size_t)i * PATH_MAX;
}

static void tell(struct sweep *s, const char *moved_to)
{
	if (s->moved++ < PROTECT_REPORTS && s->report)
		s->report(s->arg, s->path, moved_to);
}

/* One report for all that were too many. */
static void tell_rest(struct sweep *s)
{
	static const char what[] = "more protected paths: ";
	char text[sizeof what + 10], to[sizeof s->p->suffix + 1] = "*";
	unsigned n = (unsigned)(s->moved - PROTECT_REPORTS), div = 1;
	size_t at = sizeof what - 1;

	if (s->moved <= PROTECT_REPORTS || !s->report)
		return;
	memcpy(text, what, at);
	while (n / div >= 10)
		div *= 10;
	for (; div; div /= 10)
		text[at++] = (char)('0' + n / div % 10);
	text[at] = '\0';
	memcpy(to + 1, s->p->suffix, strlen(s->p->suffix) + 1);
	s->report(s->arg, text, to);
}

/* Tells of a rename in the directory that is s->path up to `dir`. */
static void tell_moved(struct sweep *s, size_t dir, const char *to)
{
	char *moved = scratch(s, 2);
	size_t n = strlen(to);

	/* a report too long for its buffer gives the end of the path */
	if (dir + n >= (size_t)2 * PATH_MAX) {
		memcpy(moved, ".../", 4); // NOLINT(bugprone-not-null-terminated-result): the end follows
		memcpy(moved + 4, to, n + 1);
	} else {
		memcpy(moved, s->path, dir);
		memcpy(moved + dir, to, n + 1);
	}
	tell(s, moved);
}

/*
 * Renames `name` in dfd aside; s->path already ends with it.  The first
 * choice of a name is predictable to a run that learnt its id, so the next
 * ones are random; `secret` asks for a name this sweep can recognise.
 */
static int rename_aside(struct sweep *s, int dfd, const char *name, bool secret)
{
	char to[NAME_MAX + 1];
	size_t n = strlen(name), m = strlen(s->p->suffix);
	size_t dir = s->len - n, k = sizeof s->p->secret;
	int r = -EEXIST;

	/* a long name loses its end, never its rename */
	if (n + m + k + 10 > NAME_MAX)
		n = NAME_MAX - m - k - 10;
	memcpy(to, name, n); // NOLINT(bugprone-not-null-terminated-result): a suffix follows
	memcpy(to + n, s->p->suffix, m + 1);
	n += m;
	if (secret) {
		to[n] = '-';
		memcpy(to + n + 1, s->p->secret, k);
		n += k;
	}
	for (int i = 0; i < 16 && r == -EEXIST; i++) {
		if (i) {
			unsigned rnd = 0;
			if (getrandom(&rnd, sizeof rnd, 0) != sizeof rnd)
				rnd = (unsigned)i;
			to[n] = '-';
			put_hex(to + n + 1, rnd);
		}
		r = protect_rename(dfd, name, to);
	}
	if (r == 0)
		tell_moved(s, dir, to);
	return r;
}

static int move_aside(struct sweep *s, int dfd, const char *name)
{
	return rename_aside(s, dfd, name, false);
}

/* A name that rename_aside made with the secret. */
static bool own_rename(const struct sweep *s, const char *name)
{
	const char *at = strstr(name, s->p->secret);

	return s->p->secret[0] && at && at > name && at[-1] == '-';
}

/* May what appeared stay?  (Only pieces of a repository ever may.) */
static bool acceptable(struct sweep *s, enum protect_check check, int dfd,
		       const char *name, const struct stat *st)
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
		return fd >= 0 && gitsafe_config(fd, gitindex_buffer(&s->work), sizeof s->work.buf);
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
			note_error(s, rename_aside(s, dfd, name, true));
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
			    own_rename(s, d->d_name))
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
	else if (*rest || (!known(s->p, s->path) && !acceptable(s, check, dfd, name, &st)))
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
	/* The same file, but written through a second name.  With one name only
	 * the host can have written it, its mount being read-only and locked: a
	 * person may edit their files while a long command runs. */
	return e->kind != PROTECT_RO || e->is_dir || st->st_nlink == 1 ||
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
		 !(e->kind == PROTECT_RO && acceptable(s, e->check, dfd, name, &st)))
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

/*
 * A work tree whose index is being read; s->path is its path.  The git
 * directory is told about as git_path, or as .git in the tree when NULL.
 */
struct tree {
	struct sweep *s;
	const char *git_path;
	int fd, git_fd, depth;
};

static int sweep_links(const struct tree *t);

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

/* sweep_gitdir for one that is told about under another path. */
__attribute__((noinline)) static void sweep_gitdir_at(struct sweep *s, int git_fd, const char *path)
{
	big_buffer char buf[PATH_MAX + 64];
	struct detour d = path_set(s, buf, sizeof buf);

	if (path_push(s, path))
		sweep_gitdir(s, git_fd);
	else
		note_error(s, -ENAMETOOLONG);
	path_back(s, &d);
}

/*
 * Is a `.git` file as `git submodule update` writes it: "gitdir: ", a way up
 * to the workspace and down into .git/modules?  s->path ends in "/.git".
 */
static bool leads_to_modules(const struct sweep *s, const char *target)
{
	static const char home[] = ".git/modules/";
	size_t up = 0, depth = 0;

	for (; !strncmp(target, "../", 3); target += 3)
		up++;
	for (const char *p = s->path; *p; p++)
		depth += *p == '/';
	return up == depth && !strncmp(target, home, sizeof home - 1) &&
	       !strstr(target, "..");
}

/*
 * The git directory that the file or link `.git` in dfd (s->path) names, when
 * it is one that may be named: any, if the file was there before the run, as
 * it is unchanged then.  path receives its place.  A descriptor, -ENOENT when
 * there is none in the workspace, -EPERM when it may not be named.
 */
static int open_gitfile(struct sweep *s, int dfd, bool link, char path[PATH_MAX])
{
	char *text = scratch(s, 0), *base = scratch(s, 1);
	size_t len = s->len > 5 ? s->len - 5 : 0; /* without "/.git" */
	bool trusted = known(s->p, s->path);

	if (link) {
		ssize_t n = readlinkat(dfd, ".git", text, PATH_MAX - 1);
		text[n < 0 ? 0 : n] = '\0';
		if (!trusted || n <= 0)
			return -EPERM;
	} else {
		cleanup_close int fd =
			protect_open_forced(dfd, ".git", O_RDONLY | O_NONBLOCK);
		if (fd < 0 || !protect_read_line(fd, "gitdir: ", text))
			return -EPERM;
	}
	if (!trusted && !leads_to_modules(s, text))
		return -EPERM;
	if (len >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(base, s->path, len);
	base[len] = '\0';
	if (!protect_resolve(s->p->root ? s->p->root : "", base, text, path) || !path[0])
		return -ENOENT;
	int fd = protect_walk(s->wsfd, path, O_PATH | O_DIRECTORY);
	if (fd == -ENOENT && !trusted)
		return -EPERM;
	return fd;
}

/* Moves an index aside: what we cannot read, git may read its own way.  It
 * makes a new one from the last commit (git reset). */
static int move_index(const struct tree *t, const char *name)
{
	struct sweep *s = t->s;
	/* the rename's report uses the buffer's other half */
	struct detour d = path_set(s, scratch(s, 0), (size_t)2 * PATH_MAX);
	bool ok = true;

	if (t->git_path)
		ok = path_push(s, t->git_path);
	else
		ok = (!d.len || path_push(s, d.path)) && path_push(s, ".git");
	if (!ok || !path_push(s, name)) {
		/* only the report suffers */
		path_cut(s, 0);
		path_push(s, "...");
		path_push(s, name);
	}
	int r = move_aside(s, t->git_fd, name);
	path_back(s, &d);
	return r == -ENOENT ? 0 : r;
}

/*
 * `.git` in the directory of a work tree, whose path s->path ends with it.
 * 0, or -errno when the index that named this tree must not stay.
 */
static int sweep_nested(struct sweep *s, int dfd, int depth)
{
	big_buffer char place[PATH_MAX];
	size_t len = s->len;
	struct stat st;
	cleanup_close int fd = protect_open_forced(dfd, ".git", O_PATH);
	struct tree t = { .s = s, .fd = dfd, .git_fd = -EPERM, .depth = depth };
	int r = 0;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	if (S_ISDIR(st.st_mode)) {
		t.git_fd = take_fd(&fd);
	} else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
		t.git_fd = open_gitfile(s, dfd, S_ISLNK(st.st_mode), place);
		t.git_path = place;
	}
	cleanup_close int git_fd = t.git_fd;
	bool was = known(s->p, s->path);
	if (git_fd < 0 || (depth > GITINDEX_NESTING && !was)) {
		/* one that was there and leads out of the workspace, or
		 * nowhere, is the user's own affair */
		if (!was)
			r = move_aside(s, dfd, ".git");
		else if (git_fd != -ENOENT && git_fd != -ENOTDIR && git_fd != -ELOOP &&
			 git_fd != -EPERM)
			r = git_fd;
		note_error(s, r);
		return r;
	}
	if (t.git_path)
		sweep_gitdir_at(s, git_fd, place);
	else
		sweep_gitdir(s, git_fd);
	path_cut(s, len > 5 ? len - 5 : 0);
	r = sweep_links(&t);
	s->len = len;
	if (len > 5)
		memcpy(s->path + len - 5, "/.git", sizeof "/.git");
	else
		memcpy(s->path, ".git", sizeof ".git");
	return r;
}

/* Opens the directory of a gitlink; s->path follows. */
__attribute__((noinline)) static int enter_link(struct sweep *s, int dfd, const char *path)
{
	cleanup_close int dir = -1;
	char name[NAME_MAX + 1];

	while (take_name(&path, name)) {
		/* git itself goes through no symlink here */
		int next = protect_open_forced(dfd, name, O_PATH | O_DIRECTORY);
		if (next < 0)
			return next;
		fd_close(&dir);
		dir = dfd = next;
		if (!path_push(s, name))
			return -ENAMETOOLONG;
	}
	return take_fd(&dir);
}

static int sweep_one_link(void *arg, const char *path)
{
	const struct tree *t = arg;
	struct sweep *s = t->s;
	size_t len = s->len;
	struct stat st;

	/* where we do not look any deeper, git shall not, either */
	if (t->depth > GITINDEX_NESTING)
		return -EBADMSG;
	cleanup_close int fd = enter_link(s, t->fd, path);
	int r = fd;
	if (fd >= 0)
		r = fstat(fd, &st) < 0 ? -errno : gitindex_visit(&s->work, &st);
	if (r > 0)
		r = path_push(s, ".git") ? sweep_nested(s, fd, t->depth + 1) :
					   -ENAMETOOLONG;
	else if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		r = 0; /* nothing git could enter */
	path_cut(s, len);
	if (r < 0 && r != -EDQUOT)
		note_error(s, r);
	return r;
}

/*
 * One index.  0, or -EDQUOT when the work is used up: then whatever index led
 * here goes as well, since the rest of it is not looked at.
 */
static int sweep_index(const struct tree *t, const char *name)
{
	struct sweep *s = t->s;
	struct stat st;
	cleanup_close int fd =
		protect_open_forced(t->git_fd, name, O_RDONLY | O_NONBLOCK);
	int r = -EBADMSG;

	if (fd == -ENOENT)
		return 0;
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		r = gitindex_links(fd, &s->work, sweep_one_link, (void *)(uintptr_t)t); // NOLINT(performance-no-int-to-ptr): only its constness goes
	if (r == -EPROTONOSUPPORT)
		note_error(s, r);
	else if (r < 0)
		note_error(s, move_index(t, name));
	return r == -EDQUOT ? r : 0;
}

/* The index of a work tree (s->path), and any shared one it may lean on. */
static int sweep_links(const struct tree *t)
{
	_Alignas(struct dirent64) char buf[1024];
	cleanup_close int dir =
		protect_open_forced(t->git_fd, ".", O_RDONLY | O_DIRECTORY);
	int r = sweep_index(t, "index");

	if (dir < 0)
		note_error(t->s, dir);
	for (long n; dir >= 0 && (n = syscall(SYS_getdents64, dir, buf, sizeof buf)) > 0;) {
		for (long at = 0; at < n;) {
			struct dirent64 *d = (struct dirent64 *)(void *)(buf + at);
			at += d->d_reclen;
			/* git reads "sharedindex." and a hash, so none with the
			 * suffix, which may be one just moved aside */
			if (strncmp(d->d_name, "sharedindex.", 12) != 0 ||
			    strstr(d->d_name, t->s->p->suffix))
				continue;
			int e = sweep_index(t, d->d_name);
			r = r ? r : e;
		}
	}
	return r;
}

/* A linked worktree: .git/worktrees/NAME, open as fd, with the path `git`. */
static void sweep_worktree(struct sweep *s, int git_fd, const char *git)
{
	big_buffer char place[PATH_MAX];
	char *text = scratch(s, 0);
	struct tree t = { .s = s, .git_path = git, .git_fd = git_fd };
	cleanup_close int fd =
		protect_open_forced(git_fd, "gitdir", O_RDONLY | O_NONBLOCK);

	/* git works in it by its `.git` file alone, whatever is said here; but
	 * what says nothing was never a worktree of the user's */
	if (fd < 0 || !protect_read_line(fd, "", text) ||
	    !protect_resolve(s->p->root ? s->p->root : "", git, text, place))
		return;
	size_t len = strlen(place);
	if (len < 6 || strcmp(place + len - 5, "/.git") != 0)
		return;
	place[len - 5] = '\0';
	cleanup_close int dir = protect_walk(s->wsfd, place, O_PATH | O_DIRECTORY);
	if (dir < 0) {
		if (dir != -ENOENT && dir != -ENOTDIR && dir != -ELOOP)
			note_error(s, dir);
		return;
	}
	t.fd = dir;
	path_cut(s, 0);
	if (!path_push(s, place)) {
		note_error(s, -ENAMETOOLONG);
		return;
	}
	sweep_links(&t);
}

/* The linked worktrees of the git directory whose path is `git`. */
static void sweep_worktrees(struct sweep *s, int git_fd, const char *git)
{
	static const char sub[] = "/worktrees/";
	_Alignas(struct dirent64) char buf[1024];
	big_buffer char path[PATH_MAX + NAME_MAX + 16];
	size_t len = strlen(git);
	cleanup_close int dir = protect_open_forced(git_fd, "worktrees", O_PATH | O_DIRECTORY);
	cleanup_close int list =
		dir < 0 ? -ENOENT : protect_open_forced(dir, ".", O_RDONLY | O_DIRECTORY);

	if (list < 0) {
		if (dir >= 0)
			note_error(s, list);
		return;
	}
	memcpy(path, git, len); // NOLINT(bugprone-not-null-terminated-result): the end follows
	memcpy(path + len, sub, sizeof sub);
	for (long n; (n = syscall(SYS_getdents64, list, buf, sizeof buf)) > 0;) {
		for (long at = 0; at < n;) {
			struct dirent64 *d = (struct dirent64 *)(void *)(buf + at);
			at += d->d_reclen;
			if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
				continue;
			cleanup_close int fd = protect_open_forced(dir, d->d_name,
								   O_PATH | O_DIRECTORY);
			memcpy(path + len + sizeof sub - 1, d->d_name,
			       strlen(d->d_name) + 1);
			if (fd >= 0)
				sweep_worktree(s, fd, path);
		}
	}
}

/* The repository of the workspace itself. */
static void sweep_repository(struct sweep *s)
{
	big_buffer char place[PATH_MAX];
	struct stat st;
	cleanup_close int fd = protect_open_forced(s->wsfd, ".git", O_PATH);
	cleanup_close int git_fd = -1;
	struct tree t = { .s = s, .fd = s->wsfd, .git_path = place };

	if (fd < 0 || fstat(fd, &st) < 0) {
		if (fd != -ENOENT)
			note_error(s, fd < 0 ? fd : -errno);
		return;
	}
	path_push(s, ".git");
	memcpy(place, ".git", 5);
	if (S_ISDIR(st.st_mode))
		git_fd = take_fd(&fd);
	else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
		git_fd = open_gitfile(s, s->wsfd, S_ISLNK(st.st_mode), place);
	if (git_fd < 0) {
		/* what may not stay is gone by now; this leads elsewhere */
		if (git_fd != -ENOENT && git_fd != -ENOTDIR && git_fd != -ELOOP &&
		    git_fd != -EPERM)
			note_error(s, git_fd);
		return;
	}
	if (strcmp(place, ".git") != 0)
		sweep_gitdir_at(s, git_fd, place);
	path_cut(s, 0);
	t.git_fd = git_fd;
	sweep_links(&t);
	sweep_worktrees(s, git_fd, place);
}

/* The usual end: of all that was not there, nothing is, not even a directory on
 * the way to it.  Anything else is looked at in full. */
static bool all_absent(const struct protect *p, int wsfd)
{
	bool git = !p->git_links; /* its absence is known, or of no interest */
	char name[NAME_MAX + 1] = "";
	struct stat st;

	for (size_t i = 0; i <= p->n; i++) {
		const char *path = i < p->n ? p->v[i].path : ".git";
		size_t n = strcspn(path, "/");
		if (i == p->n ? git : strlen(name) == n && !memcmp(name, path, n))
			continue;
		if ((i < p->n && p->v[i].kind != PROTECT_ABSENT) || n > NAME_MAX ||
		    path[0] == '*')
			return false;
		memcpy(name, path, n);
		name[n] = '\0';
		if (fstatat(wsfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
			return false;
		git = git || !strcmp(name, ".git");
	}
	return true;
}

/* Not part of its caller: the kernel makes a page for every page of its frame. */
__attribute__((noinline)) static int sweep_all(const struct protect *p, int wsfd,
						protect_report *report, void *arg)
{
	big_buffer char path[2 * PATH_MAX];
	big_buffer struct sweep s;

	s.p = p;
	s.report = report;
	s.arg = arg;
	s.wsfd = wsfd;
	s.moved = s.error = 0;
	s.missing[0] = '\0';
	s.path = path;
	s.cap = sizeof path;
	gitindex_begin(&s.work);
	for (size_t i = 0; i < p->n; i++) {
		path_cut(&s, 0);
		if (p->v[i].kind == PROTECT_ABSENT)
			absent_below(&s, wsfd, p->v[i].path, p->v[i].check);
		else
			sweep_present(&s, &p->v[i]);
	}
	path_cut(&s, 0);
	if (p->git_links) {
		gitindex_begin(&s.work); /* the time of the above is not counted */
		sweep_repository(&s);
	}
	tell_rest(&s);
	return s.error ? s.error : s.moved;
}

int protect_sweep(const struct protect *p, int wsfd, protect_report *report,
		  void *arg)
{
	return all_absent(p, wsfd) ? 0 : sweep_all(p, wsfd, report, arg);
}
