/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at the protected paths after a run.  The workspace is hostile
 * input here: every step goes one name at a time from an open directory,
 * never follows a link, and renames only within that directory, so nothing
 * outside the workspace can be touched however the tree was rearranged.
 *
 * No allocation and no stdio in this file: see the header.
 */
#include "workspace/protect_sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/sys.h"
#include "workspace/gitsafe.h"
#include "workspace/protect_walk.h"

void sweep_error(struct sweep *s, int r)
{
	if (r < 0 && !s->error)
		s->error = r;
}

bool sweep_push(struct sweep *s, const char *name)
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

void sweep_cut(struct sweep *s, size_t len)
{
	s->len = len;
	s->path[len] = '\0';
}

struct detour sweep_detour(struct sweep *s, char *buf, size_t cap)
{
	struct detour d = { s->path, s->len, s->cap };

	s->path = buf;
	s->cap = cap;
	sweep_cut(s, 0);
	return d;
}

void sweep_back(struct sweep *s, const struct detour *d)
{
	s->path = d->path;
	s->len = d->len;
	s->cap = d->cap;
	sweep_cut(s, d->len);
}

/* The i-th PATH_MAX bytes of the buffer, for what is done with at once. */
char *sweep_scratch(struct sweep *s, int i)
{
	_Static_assert(sizeof s->work.buf >= (size_t)4 * PATH_MAX, "room for paths");
	return gitindex_buffer(&s->work) + (size_t)i * PATH_MAX;
}

static void tell(struct sweep *s, enum protect_fate fate, const char *moved_to)
{
	if (s->moved++ < PROTECT_REPORTS && s->hooks->report)
		s->hooks->report(s->hooks->report_arg, s->path, fate, moved_to);
}

/* One report for all that were too many. */
static void tell_rest(struct sweep *s)
{
	static const char what[] = "more protected paths: ";
	char text[sizeof what + 10], to[sizeof s->p->suffix + 1] = "*";
	unsigned n = (unsigned)(s->moved - PROTECT_REPORTS), div = 1;
	size_t at = sizeof what - 1;

	if (s->moved <= PROTECT_REPORTS || !s->hooks->report)
		return;
	memcpy(text, what, at);
	while (n / div >= 10)
		div *= 10;
	for (; div; div /= 10)
		text[at++] = (char)('0' + n / div % 10);
	text[at] = '\0';
	memcpy(to + 1, s->p->suffix, strlen(s->p->suffix) + 1);
	s->hooks->report(s->hooks->report_arg, text, PROTECT_MOVED, to);
}

/* Tells of a name in the directory that is s->path up to `dir`. */
static void tell_moved(struct sweep *s, size_t dir, enum protect_fate fate, const char *to)
{
	char *moved = sweep_scratch(s, 2);
	size_t n = strlen(to);

	/* a report too long for its buffer gives the end of the path */
	if (dir + n >= (size_t)2 * PATH_MAX) {
		memcpy(moved, ".../", 4); // NOLINT(bugprone-not-null-terminated-result): the end follows
		memcpy(moved + 4, to, n + 1);
	} else {
		memcpy(moved, s->path, dir);
		memcpy(moved + dir, to, n + 1);
	}
	tell(s, fate, moved);
}

/* `secret` asks for a name that this sweep can recognise. */
static void aside_name(const struct sweep *s, const char *name, bool secret, int attempt,
		       char to[NAME_MAX + 1])
{
	char mark[sizeof s->p->suffix + sizeof s->p->secret];
	const size_t m = strlen(s->p->suffix);

	memcpy(mark, s->p->suffix, m + 1);
	if (secret) {
		mark[m] = '-';
		memcpy(mark + m + 1, s->p->secret, sizeof s->p->secret);
	}
	protect_aside_name(name, mark, attempt, to);
}

/* Renames `name` in dfd aside; s->path already ends with it. */
static int rename_aside(struct sweep *s, int dfd, const char *name, bool secret)
{
	char to[NAME_MAX + 1];
	size_t dir = s->len - strlen(name);
	int r = -EEXIST;

	for (int i = 0; i < PROTECT_ASIDE_TRIES && r == -EEXIST; i++) {
		aside_name(s, name, secret, i, to);
		r = protect_rename(dfd, name, to);
	}
	if (r == 0) {
		tell_moved(s, dir, PROTECT_MOVED, to);
		return 0;
	}
	/* A longer name takes room that a command can have used up to the last byte.  To
	 * remove one takes none. */
	if (r == -ENOSPC || r == -EDQUOT)
		r = protect_remove(s->wsfd, dfd, name);
	if (r != -ENOENT)
		tell(s, r == 0 ? PROTECT_DELETED : PROTECT_STUCK, NULL);
	return r;
}

int sweep_aside(struct sweep *s, int dfd, const char *name)
{
	return rename_aside(s, dfd, name, false);
}

/* What is found to do no harm must stay that way. */
static bool is_sealed(struct sweep *s)
{
	if (!s->sealed)
		s->sealed = !s->hooks->seal || s->hooks->seal(s->hooks->seal_arg) == 0 ? 1 : -1;
	return s->sealed > 0;
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
		if (!S_ISREG(st->st_mode) || st->st_nlink != 1 || !is_sealed(s))
			return false;
		fd = protect_open_forced(dfd, name, O_RDONLY | O_NONBLOCK);
		return fd >= 0 && gitsafe_config(fd, gitindex_buffer(&s->work), sizeof s->work.buf);
	case PROTECT_CHECK_GIT_COMMONDIR:
		if (!S_ISREG(st->st_mode) || st->st_nlink != 1 || !is_sealed(s))
			return false;
		fd = protect_open_forced(dfd, name, O_RDONLY | O_NONBLOCK);
		return fd >= 0 && gitsafe_commondir(fd);
	case PROTECT_CHECK_GIT_HOOKS:
		if (!S_ISDIR(st->st_mode) || !is_sealed(s))
			return false;
		fd = protect_open_forced(dfd, name, O_RDONLY | O_DIRECTORY);
		return fd >= 0 && gitsafe_hooks(fd);
	case PROTECT_CHECK_NONE:
		break;
	}
	return false;
}

/* Copies the first component of *rest to name and steps over it. */
bool sweep_name(const char **rest, char name[NAME_MAX + 1])
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
bool sweep_known(const struct protect *p, const char *path)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].kind != PROTECT_ABSENT && !strcmp(p->v[i].path, path))
			return true;
	return false;
}

/*
 * One directory entry a "*" may stand for.  Names that were there before are
 * walked too: a known worktree may have gained a config.
 */
static int absent_match(struct sweep *s, int dfd, const char *name,
			const char *rest, enum protect_check check)
{
	size_t len = s->len;
	struct stat st;
	int r = 0;

	if (!sweep_push(s, name)) {
		sweep_error(s, -ENAMETOOLONG);
		return 0;
	}
	cleanup_close int fd = protect_open_forced(dfd, name, O_PATH);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		if (S_ISDIR(st.st_mode)) {
			r = sweep_absent(s, fd, rest, check);
		} else if (S_ISLNK(st.st_mode) && !sweep_known(s->p, s->path) &&
			   fstatat(dfd, name, &st, 0) == 0 && S_ISDIR(st.st_mode)) {
			/* git never makes such a link; followed, it would hide
			 * what is behind it from the test above */
			sweep_error(s, rename_aside(s, dfd, name, true));
		}
	} else if (fd != -ENOENT) {
		sweep_error(s, fd < 0 ? fd : -errno);
	}
	sweep_cut(s, len);
	return r;
}

/* What all "*" stand for may take GITINDEX_SECONDS to look through.  A command can make so
 * many directories that it would take longer than its own run. */
static bool out_of_time(struct sweep *s)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!s->end.tv_sec) {
		s->end = now;
		s->end.tv_sec += GITINDEX_SECONDS;
	}
	return now.tv_sec > s->end.tv_sec ||
	       (now.tv_sec == s->end.tv_sec && now.tv_nsec > s->end.tv_nsec);
}

static int absent_glob(struct sweep *s, int dfd, const char *rest,
		       enum protect_check check)
{
	/* getdents64 and not readdir(): the latter allocates */
	_Alignas(struct sys_dirent) char buf[2048];
	int mode = -1;
	cleanup_close int fd = openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == EACCES) {
		mode = protect_unlock(dfd);
		fd = openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (mode >= 0)
			protect_chmod(dfd, (mode_t)mode);
	}
	if (fd < 0) {
		sweep_error(s, -errno);
		return 0;
	}
	for (;;) {
		long n = syscall(SYS_getdents64, fd, buf, sizeof buf);
		if (n < 0)
			sweep_error(s, -errno);
		if (n <= 0)
			return 0;
		if (out_of_time(s))
			return -EDQUOT;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			/* what was just moved aside may come by again */
			if (!strcmp(d->name, ".") || !strcmp(d->name, "..") ||
			    own_rename(s, d->name))
				continue;
			if (absent_match(s, dfd, d->name, rest, check) < 0)
				return -EDQUOT;
		}
	}
}

int sweep_absent(struct sweep *s, int dfd, const char *rest, enum protect_check check)
{
	char name[NAME_MAX + 1];
	size_t len = s->len;
	struct stat st;

	if (!sweep_name(&rest, name))
		return 0;
	if (!strcmp(name, "*"))
		return absent_glob(s, dfd, rest, check);
	/* most of the list lies below .git: its absence is asked for once */
	if (dfd == s->wsfd && !strcmp(name, s->missing))
		return 0;
	if (protect_missing(dfd, name)) {
		if (dfd == s->wsfd)
			memcpy(s->missing, name, sizeof s->missing);
		return 0;
	}
	cleanup_close int fd = protect_open_forced(dfd, name, O_PATH);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0) {
		sweep_error(s, fd < 0 ? fd : -errno);
		return 0;
	}
	if (!sweep_push(s, name)) {
		sweep_error(s, -ENAMETOOLONG);
		return 0;
	}
	bool whole = false;
	if (*rest && S_ISDIR(st.st_mode)) {
		/* too many for the "*" below: that directory goes as a whole */
		whole = sweep_absent(s, fd, rest, check) < 0;
		if (whole)
			s->end = (struct timespec){ 0 };
	}
	if (whole || (*rest && !S_ISDIR(st.st_mode)) ||
	    (!*rest && !sweep_known(s->p, s->path) && !acceptable(s, check, dfd, name, &st)))
		/* With a rest this is a link or a file in the place of a
		 * directory on the way: a link hides what is behind it, and a
		 * `.git` file sends git to a repository of the agent's choice. */
		sweep_error(s, sweep_aside(s, dfd, name));
	sweep_cut(s, len);
	return 0;
}

bool protect_unchanged(const struct protect_entry *e, const struct stat *st)
{
	return st->st_dev == e->dev && st->st_ino == e->ino &&
	       st->st_ctim.tv_sec == e->ctime.tv_sec &&
	       st->st_ctim.tv_nsec == e->ctime.tv_nsec;
}

static bool same(const struct protect_entry *e, const struct stat *st)
{
	if (st->st_dev != e->dev || st->st_ino != e->ino)
		return false;
	/* The same file, but written through a second name, which may be gone since.  With
	 * one name only the host can have written it, its mount being read-only and locked:
	 * a person may edit their files while a long command runs. */
	return (e->kind != PROTECT_RO && e->kind != PROTECT_WATCHED) || e->is_dir ||
	       (e->nlink == 1 && st->st_nlink == 1) || protect_unchanged(e, st);
}

static int make_link(const char *target, int dfd, const char *name)
{
	int r = symlinkat(target, dfd, name) < 0 ? -errno : 0;

	if (r == -EACCES) {
		int mode = protect_unlock(dfd);
		r = symlinkat(target, dfd, name) < 0 ? -errno : 0;
		if (mode >= 0)
			protect_chmod(dfd, (mode_t)mode);
	}
	return r;
}

/* Another run may have made the link that this one found, and removed it at its end as
 * nothing that was there before: it is not for us to make it again under its name. */
static int make_beside(struct sweep *s, const struct protect_entry *e, int dfd, const char *name)
{
	char to[NAME_MAX + 1];
	int r = -EEXIST;

	for (int i = 0; i < PROTECT_ASIDE_TRIES && r == -EEXIST; i++) {
		aside_name(s, name, false, i, to);
		r = make_link(e->target, dfd, to);
	}
	if (r == 0)
		tell_moved(s, s->len - strlen(name), PROTECT_BESIDE, to);
	return r;
}

static void judge_link(struct sweep *s, const struct protect_entry *e, int dfd,
		       const char *name, int fd, const struct stat *st)
{
	big_buffer char target[PATH_MAX];
	bool like = false;

	if (fd >= 0 && S_ISLNK(st->st_mode)) {
		ssize_t n = readlinkat(fd, "", target, sizeof target - 1);
		target[n < 0 ? 0 : n] = '\0';
		like = !strcmp(target, e->target);
		/* The other run may have removed what it had made; then this one's command has
		 * made it again, or moved it back. */
		if (like && (!e->doubt || protect_unchanged(e, st)))
			return;
	}
	if (fd >= 0) {
		int r = sweep_aside(s, dfd, name);
		if (r < 0) {
			sweep_error(s, r);
			return;
		}
	}
	if (like)
		return;
	if (e->doubt) {
		sweep_error(s, make_beside(s, e, dfd, name));
		return;
	}
	int r = make_link(e->target, dfd, name);
	sweep_error(s, r);
	if (r < 0)
		tell(s, PROTECT_GONE, NULL);
	else if (fd < 0)
		tell(s, PROTECT_BACK, NULL);
}

static void judge(struct sweep *s, const struct protect_entry *e, int dfd,
		  const char *name)
{
	struct stat st;
	cleanup_close int fd = protect_open_forced(dfd, name, O_PATH);

	if (fd < 0 && fd != -ENOENT) {
		sweep_error(s, fd);
		return;
	}
	if (fd >= 0 && fstat(fd, &st) < 0) {
		sweep_error(s, -errno);
		return;
	}
	/* Whatever it was before, and whether it is still that: now the workspace is a
	 * repository by it, and was none. */
	bool bare = fd >= 0 && e->check == PROTECT_CHECK_GIT_BARE && gitsafe_is_gitdir(dfd);
	if (e->kind == PROTECT_SYMLINK && !bare)
		judge_link(s, e, dfd, name, fd, &st);
	else if (s->hooks->kept && !bare)
		;
	else if (fd < 0)
		tell(s, PROTECT_GONE, NULL);
	/* The user's own `git config` replaces the file as well; one that can
	 * do no harm is left to him. */
	else if (bare || (!same(e, &st) &&
			  (e->kind != PROTECT_RO || e->check == PROTECT_CHECK_GIT_BARE ||
			   !acceptable(s, e->check, dfd, name, &st))))
		sweep_error(s, sweep_aside(s, dfd, name));
}

/* A path that was there: walks to its directory and judges the last name. */
static void sweep_present(struct sweep *s, const struct protect_entry *e)
{
	cleanup_close int dir = -1;
	int dfd = s->wsfd;
	const char *rest = e->path;
	char name[NAME_MAX + 1];

	while (sweep_name(&rest, name)) {
		if (!sweep_push(s, name)) {
			sweep_error(s, -ENAMETOOLONG);
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
				sweep_error(s, next);
			return;
		}
		fd_close(&dir);
		dir = dfd = next;
	}
}

/* The usual end.  Anything else is looked at in full. */
bool protect_untouched(const struct protect *p, int wsfd)
{
	bool git = !p->git_links; /* its absence is known, or of no interest */
	char name[NAME_MAX + 1] = "";

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
		if (!protect_missing(wsfd, name))
			return false;
		git = git || !strcmp(name, ".git");
	}
	return true;
}

/* Not part of its caller: the kernel makes a page for every page of its frame. */
__attribute__((noinline)) static int sweep_all(const struct protect *p, int wsfd,
						const struct protect_hooks *hooks)
{
	big_buffer char path[2 * PATH_MAX];
	big_buffer struct sweep s;

	s.p = p;
	s.hooks = hooks;
	s.wsfd = wsfd;
	s.moved = s.error = s.sealed = 0;
	s.end = (struct timespec){ 0 };
	s.missing[0] = '\0';
	s.path = path;
	s.cap = sizeof path;
	gitindex_begin(&s.work);
	for (size_t i = 0; i < p->n; i++) {
		sweep_cut(&s, 0);
		if (p->v[i].kind == PROTECT_ABSENT)
			sweep_absent(&s, wsfd, p->v[i].path, p->v[i].check);
		else
			sweep_present(&s, &p->v[i]);
	}
	sweep_cut(&s, 0);
	if (p->git_links) {
		gitindex_begin(&s.work); /* the time of the above is not counted */
		sweep_repository(&s);
	}
	tell_rest(&s);
	return s.error ? s.error : s.moved;
}

int protect_sweep(const struct protect *p, int wsfd, const struct protect_hooks *hooks)
{
	return protect_untouched(p, wsfd) ? 0 : sweep_all(p, wsfd, hooks);
}
