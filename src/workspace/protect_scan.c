/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pattern of the list before a run: walked name by name, links followed as far as they stay
 * in the workspace, "*" as what it stands for now.  What is found becomes an entry.
 */
#include "workspace/protect_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "workspace/gitsafe.h"
#include "workspace/protect_walk.h"

enum {
	ENTRIES_MAX = 4096, /* each may become a mount */
	MATCHES_MAX = 64,   /* of one "*"; beyond it the whole directory is read-only */
	ENTRIES_SPARE = 64, /* that submodules may not take */
	LINKS_MAX = 32,
};

static const struct {
	const char *name;
	enum protect_check check;
} checks[] = {
	{ "config", PROTECT_CHECK_GIT_CONFIG },
	{ "config.worktree", PROTECT_CHECK_GIT_CONFIG },
	{ "hooks", PROTECT_CHECK_GIT_HOOKS },
};

enum protect_check scan_check_of(const char *name)
{
	for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
		if (!strcmp(name, checks[i].name))
			return checks[i].check;
	return PROTECT_CHECK_NONE;
}

/* Which leniency a path deserves if something appears there. */
static enum protect_check check_for(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash || (strncmp(path, ".git/", 5) != 0 && !strstr(path, "/.git/")))
		return PROTECT_CHECK_NONE;
	enum protect_check known = scan_check_of(slash + 1);
	if (known != PROTECT_CHECK_NONE)
		return known;
	/* exactly .git/worktrees/NAME/commondir: `git worktree add` writes it */
	size_t n = sizeof ".git/worktrees/" - 1;
	if (!strncmp(path, ".git/worktrees/", n) &&
	    strchr(path + n, '/') == slash && !strcmp(slash, "/commondir"))
		return PROTECT_CHECK_GIT_COMMONDIR;
	return PROTECT_CHECK_NONE;
}

struct protect_entry *scan_find(const struct protect *p, const char *path)
{
	uint32_t hash = str_hash(path, strlen(path));

	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].hash == hash && !strcmp(p->v[i].path, path))
			return &p->v[i];
	return NULL;
}

int scan_open(struct scan *s, const char *path, int flags)
{
	int fd = protect_open(s->wsfd, path, flags);

	if ((fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM) && !s->failed)
		s->failed = fd;
	return fd;
}

int scan_no_memory(struct scan *s)
{
	return err_set(s->err, BRIG_E_NO_MEMORY, ENOMEM, "protect",
		       "listing protected paths");
}

static void set_entry(struct protect_entry *e, enum protect_kind kind, int fd,
		      const struct stat *st, char *target)
{
	e->kind = kind;
	e->fd = fd;
	e->target = target;
	if (st) {
		e->is_dir = S_ISDIR(st->st_mode);
		e->dev = st->st_dev;
		e->ino = st->st_ino;
		e->ctime = st->st_ctim;
		e->nlink = st->st_nlink;
	}
}

/*
 * Records a path.  Takes fd (may be -1) and target (may be NULL) in every
 * case.  A path recorded twice keeps the stricter kind.
 */
int scan_add(struct scan *s, enum protect_kind kind, const char *path, int fd,
	     const struct stat *st, char *target)
{
	struct protect *p = s->p;
	struct protect_entry *old = scan_find(p, path);

	/* HEAD: not a repository's, but there all the same, and something leads to it.
	 * Nothing else: a name "*" could take a pattern's place. */
	if (old && old->kind == PROTECT_ABSENT && old->check == PROTECT_CHECK_GIT_BARE &&
	    kind != PROTECT_ABSENT) {
		set_entry(old, kind, fd, st, target);
		return 0;
	}
	if (!old && s->work && p->n >= ENTRIES_MAX - ENTRIES_SPARE) {
		fd_close(&fd);
		free(target);
		return -EDQUOT;
	}
	if (old || p->n >= ENTRIES_MAX) {
		if (old && old->kind == PROTECT_PIN && kind == PROTECT_RO)
			old->kind = PROTECT_RO;
		fd_close(&fd);
		free(target);
		if (old)
			return 0;
		err_set(s->err, BRIG_E_BAD_WORKSPACE, E2BIG, "protect",
			"more than %d protected paths (the last is %.200s)", ENTRIES_MAX, path);
		err_fix(s->err, "take away what is too many there, or shorten the policy's "
				"workspace.protect list");
		return -E2BIG;
	}
	if (p->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct protect_entry *v = realloc(p->v, cap * sizeof *v);
		if (v) {
			p->v = v;
			s->cap = cap;
		}
	}
	char *copy = p->n < s->cap ? strdup(path) : NULL;
	if (!copy) {
		fd_close(&fd);
		free(target);
		return scan_no_memory(s);
	}
	struct protect_entry *e = &p->v[p->n++];
	*e = (struct protect_entry){ .path = copy, .hash = str_hash(path, strlen(path)),
				     .check = check_for(path) };
	set_entry(e, kind, fd, st, target);
	return 0;
}

/* Takes the first component off *rest.  "" when there is none. */
static int next_name(const char **rest, char name[NAME_MAX + 1])
{
	const char *p = *rest;

	while (*p == '/')
		p++;
	size_t len = strcspn(p, "/");
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, p, len);
	name[len] = '\0';
	p += len;
	while (*p == '/')
		p++;
	*rest = p;
	return 0;
}

bool scan_join(char out[PATH_MAX], const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), sep = n && m ? 1 : 0;

	if (n + sep + m >= PATH_MAX)
		return false;
	memcpy(out, a, n); // NOLINT(bugprone-not-null-terminated-result): b follows
	if (sep)
		out[n] = '/';
	memcpy(out + n + sep, b, m + 1);
	return true;
}

bool scan_enter(struct scan *s, const char *target, char out[PATH_MAX])
{
	int r = protect_enter(s->wsfd, s->root, target, out);

	if (r < 0 && r != -ENOENT && !s->failed)
		s->failed = r;
	return r == 0;
}

bool scan_resolve(struct scan *s, const char *base, const char *target, char out[PATH_MAX])
{
	big_buffer char in[PATH_MAX];

	if (target[0] != '/')
		return protect_resolve(s->root, base, target, out);
	return scan_enter(s, target, in) && protect_resolve(s->root, "", in, out);
}

/*
 * Continues a walk at a link's target, as the kernel would.  False when that
 * leads out of the workspace, where the sandbox can write nothing anyway, or
 * to nowhere.
 */
static bool follow(struct scan *s, struct place *w, const char *target)
{
	big_buffer char rest[PATH_MAX], in[PATH_MAX];

	if (++s->links > LINKS_MAX)
		return false;
	if (!w->cur[0] && strncmp(target, "../", 3) == 0)
		return false;
	if (target[0] == '/') {
		if (!scan_enter(s, target, in))
			return false;
		target = in;
		w->cur[0] = '\0';
	}
	if (!scan_join(rest, target, w->rest))
		return false;
	memcpy(w->rest, rest, sizeof rest);
	return true;
}

/* The X of "gitdir: X": `.git` of a linked worktree or a submodule. */
bool scan_read_gitdir(struct scan *s, const char *path, char out[PATH_MAX])
{
	cleanup_close int fd = scan_open(s, path, O_RDONLY | O_NONBLOCK);

	return fd >= 0 && protect_read_line(fd, "gitdir: ", out);
}

/* A directory's own entry; used where one cannot be looked into. */
int scan_add_whole(struct scan *s, const char *path)
{
	struct stat st;
	int fd = scan_open(s, path, O_PATH);

	if (fd < 0 || fstat(fd, &st) < 0) {
		fd_close(&fd);
		return err_set(s->err, BRIG_E_BAD_WORKSPACE, EACCES, "protect",
			       "cannot look at %s in the workspace", path);
	}
	struct protect_entry *old = scan_find(s->p, path);
	if (old && old->kind == PROTECT_PIN)
		old->kind = PROTECT_RO;
	return scan_add(s, PROTECT_RO, path, fd, &st, NULL);
}

/* One directory that a "*" stands for. */
static int scan_match(struct scan *s, const struct place *w, const char *name,
		      bool link)
{
	cleanup_free struct place *sub = malloc(sizeof *sub);
	if (!sub)
		return scan_no_memory(s);

	if (link) {
		memcpy(sub->cur, w->cur, sizeof sub->cur);
		return scan_join(sub->rest, name, w->rest) ? scan_from(s, sub, true) : 0;
	}
	if (!scan_join(sub->cur, w->cur, name))
		return 0;
	cleanup_close int fd = scan_open(s, sub->cur, O_PATH);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	if (!strchr(w->rest, '*') && !gitsafe_is_gitdir(fd))
		return 0;
	memcpy(sub->rest, w->rest, sizeof sub->rest);
	size_t before = s->p->n;
	big_buffer char dir[PATH_MAX];
	memcpy(dir, sub->cur, sizeof dir);
	int r = scan_from(s, sub, true);
	if (r < 0 || s->p->n == before)
		return r;
	/* something below needs it to stay where it is */
	return scan_add(s, PROTECT_PIN, dir, take_fd(&fd), &st, NULL);
}

/* What "*" stands for now; what it may stand for later is the sweep's. */
static int scan_glob(struct scan *s, struct place *w, bool globbed)
{
	big_buffer char later[PATH_MAX], tail[PATH_MAX];
	int matches = 0, r = 0;

	if (!globbed && scan_join(tail, "*", w->rest) && scan_join(later, w->cur, tail)) {
		r = scan_add(s, PROTECT_ABSENT, later, -1, NULL, NULL);
		if (r < 0)
			return r;
	}
	int fd = scan_open(s, w->cur, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return scan_add_whole(s, w->cur);
	}
	for (struct dirent *e; r >= 0 && (e = readdir(d));) {
		struct stat st;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    (e->d_type != DT_DIR && e->d_type != DT_LNK &&
		     e->d_type != DT_UNKNOWN))
			continue;
		/* following is safe here: the answer is only "a directory" */
		if (fstatat(dirfd(d), e->d_name, &st, 0) < 0 || !S_ISDIR(st.st_mode))
			continue;
		bool link = readlinkat(dirfd(d), e->d_name, tail, 1) >= 0;
		if (!globbed && ++matches > MATCHES_MAX) {
			r = scan_add_whole(s, w->cur);
			break;
		}
		r = scan_match(s, w, e->d_name, link);
	}
	closedir(d);
	return r;
}

static void done_with(struct scan *s, const char *path, bool absent)
{
	/* further down a way out may be one of several */
	if (strlen(path) >= sizeof s->done || (!absent && strchr(path, '/')))
		return;
	strcpy(s->done, path);
	s->done_absent = absent;
	s->no_git = s->no_git || streq(path, ".git");
}

/* Nothing is there: remembers the whole path that must stay absent. */
static int scan_absent(struct scan *s, struct place *w, bool globbed)
{
	if (globbed)
		return 0; /* the entry with the "*" covers it */
	done_with(s, w->path, true);
	/* rest may come from a link: what is beyond an absent ".." is not known */
	if (strstr(w->rest, "..") || !scan_join(w->target, w->path, w->rest))
		return scan_add(s, PROTECT_ABSENT, w->path, -1, NULL, NULL);
	return scan_add(s, PROTECT_ABSENT, w->target, -1, NULL, NULL);
}

/* A symlink: remembered for its own sake, then followed. */
static int scan_link(struct scan *s, struct place *w, int fd, const struct stat *st,
		     bool *go_on)
{
	ssize_t n = readlinkat(fd, "", w->target, sizeof w->target - 1);

	if (n < 0)
		n = 0;
	w->target[n] = '\0';
	char *copy = strdup(w->target);
	if (!copy) {
		close(fd);
		return scan_no_memory(s);
	}
	*go_on = follow(s, w, w->target);
	if (!*go_on)
		done_with(s, w->path, false);
	return scan_add(s, PROTECT_SYMLINK, w->path, fd, st, copy);
}

void scan_pop(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash)
		*slash = '\0';
	else
		path[0] = '\0';
}

/*
 * Resolves w->rest below w->cur one component at a time, and records what it
 * meets: directories on the way are pinned, symlinks remembered and followed
 * inside the workspace, the end is made read-only or must stay absent.
 */
int scan_from(struct scan *s, struct place *w, bool globbed)
{
	while (w->rest[0]) {
		char name[NAME_MAX + 1], *path = w->path;
		const char *rest = w->rest;
		struct stat st;

		if (next_name(&rest, name) < 0)
			return 0;
		memmove(w->rest, rest, strlen(rest) + 1);
		bool last = !w->rest[0];
		if (!name[0] || !strcmp(name, "."))
			continue;
		if (!strcmp(name, "..")) {
			if (!w->cur[0])
				return 0; /* leads out */
			scan_pop(w->cur);
			continue;
		}
		if (!strcmp(name, "*"))
			return scan_glob(s, w, globbed);
		if (!scan_join(path, w->cur, name))
			return 0;
		struct protect_entry *seen = last ? NULL : scan_find(s->p, path);
		if (seen && seen->kind == PROTECT_PIN) {
			memcpy(w->cur, path, strlen(path) + 1);
			continue;
		}
		if (!strcmp(path, s->done))
			return s->done_absent ? scan_absent(s, w, globbed) : 0;
		if (protect_missing(s->wsfd, path))
			return scan_absent(s, w, globbed);
		int fd = scan_open(s, path, O_PATH);
		if (fd == -ENOENT)
			return scan_absent(s, w, globbed);
		if (fd == -EACCES && w->cur[0])
			/* a directory we may not search: the sandbox could
			 * open it up again, so it becomes read-only whole */
			return scan_add_whole(s, w->cur);
		if (fd < 0 || fstat(fd, &st) < 0)
			return err_set(s->err, BRIG_E_BAD_WORKSPACE,
				       fd < 0 ? -fd : errno, "protect",
				       "cannot look at %s in the workspace", path);
		if (S_ISLNK(st.st_mode)) {
			bool go_on = false;
			int r = scan_link(s, w, fd, &st, &go_on);
			if (r < 0 || !go_on)
				return r;
			continue;
		}
		if (last) {
			int r = scan_add(s, PROTECT_RO, path, fd, &st, NULL);
			return r == 0 && S_ISDIR(st.st_mode) ? scan_inside(s, path) : r;
		}
		if (S_ISDIR(st.st_mode)) {
			int r = scan_add(s, PROTECT_PIN, path, fd, &st, NULL);
			if (r < 0)
				return r;
			memcpy(w->cur, path, strlen(path) + 1);
			continue;
		}
		/*
		 * A file where a directory was expected.  For `.git` that is a
		 * linked worktree: rewritten, it would send the host's git to
		 * a configuration of the agent's making.
		 */
		int r = scan_add(s, PROTECT_RO, path, fd, &st, NULL);
		if (r < 0 || strcmp(name, ".git") != 0 ||
		    !scan_read_gitdir(s, path, w->target) || !follow(s, w, w->target)) {
			done_with(s, path, false);
			return r;
		}
	}
	return 0;
}

int scan_pattern(struct scan *s, struct place *w, const char *pattern)
{
	size_t n = strnlen(pattern, sizeof w->rest - 1);

	s->links = s->inside = 0;
	w->cur[0] = '\0';
	memcpy(w->rest, pattern, n);
	w->rest[n] = '\0';
	return scan_from(s, w, false);
}
