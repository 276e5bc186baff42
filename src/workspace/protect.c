/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at the workspace before a run: which protected paths exist, as
 * what, and which do not.  protect_sweep.c looks again afterwards.
 */
#include "workspace/protect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "workspace/gitindex.h"
#include "workspace/gitsafe.h"
#include "workspace/protect_walk.h"

enum {
	ENTRIES_MAX = 4096, /* each may become a mount */
	MATCHES_MAX = 64,   /* of one "*"; beyond it the whole directory is read-only */
	ENTRIES_SPARE = 64, /* that submodules may not take */
	LINKS_MAX = 32,
};

struct scan {
	struct protect *p;
	struct brig_error *err;
	size_t cap;
	int wsfd, links;
	int configs; /* read so far: they may include each other in circles */
	char missing[64];    /* a top-level name known to be absent: most of the
				list lies below .git */
	char root[PATH_MAX]; /* the workspace's path, to recognise absolute links into it */
	struct gitindex_work *work; /* while indexes are read */
};

static const struct {
	const char *name;
	enum protect_check check;
} checks[] = {
	{ "config", PROTECT_CHECK_GIT_CONFIG },
	{ "config.worktree", PROTECT_CHECK_GIT_CONFIG },
	{ "hooks", PROTECT_CHECK_GIT_HOOKS },
};

/* Which leniency a path deserves if something appears there. */
static enum protect_check check_for(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash || (strncmp(path, ".git/", 5) != 0 && !strstr(path, "/.git/")))
		return PROTECT_CHECK_NONE;
	for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
		if (!strcmp(slash + 1, checks[i].name))
			return checks[i].check;
	/* exactly .git/worktrees/NAME/commondir: `git worktree add` writes it */
	size_t n = sizeof ".git/worktrees/" - 1;
	if (!strncmp(path, ".git/worktrees/", n) &&
	    strchr(path + n, '/') == slash && !strcmp(slash, "/commondir"))
		return PROTECT_CHECK_GIT_COMMONDIR;
	return PROTECT_CHECK_NONE;
}

static struct protect_entry *find_entry(const struct protect *p, const char *path)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->v[i].path, path))
			return &p->v[i];
	return NULL;
}

static int no_memory(struct scan *s)
{
	return err_set(s->err, BRIG_E_NO_MEMORY, ENOMEM, "protect",
		       "listing protected paths");
}

/*
 * Records a path.  Takes fd (may be -1) and target (may be NULL) in every
 * case.  A path recorded twice keeps the stricter kind.
 */
static int add(struct scan *s, enum protect_kind kind, const char *path, int fd,
	       const struct stat *st, char *target)
{
	struct protect *p = s->p;
	struct protect_entry *old = find_entry(p, path);

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
			"more than %d protected paths", ENTRIES_MAX);
		err_fix(s->err, "shorten the policy's workspace.protect list");
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
		return no_memory(s);
	}
	struct protect_entry *e = &p->v[p->n++];
	*e = (struct protect_entry){ .kind = kind, .path = copy, .fd = fd,
				     .target = target, .check = check_for(path) };
	if (st) {
		e->is_dir = S_ISDIR(st->st_mode);
		e->dev = st->st_dev;
		e->ino = st->st_ino;
		e->ctime = st->st_ctim;
	}
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

static bool join(char out[PATH_MAX], const char *a, const char *b)
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

/*
 * One place in a walk: what is resolved, and what is left to resolve.  The
 * scratch buffers live here, on the heap, because the release build clears
 * those on the stack for every path.
 */
struct place {
	char cur[PATH_MAX], rest[PATH_MAX];
	char path[PATH_MAX], target[PATH_MAX];
};

/*
 * Continues a walk at a link's target, as the kernel would.  False when that
 * leads out of the workspace, where the sandbox can write nothing anyway, or
 * to nowhere.
 */
static bool follow(struct scan *s, struct place *w, const char *target)
{
	big_buffer char rest[PATH_MAX];
	size_t n = strlen(s->root);

	if (++s->links > LINKS_MAX)
		return false;
	if (target[0] == '/') {
		if (!n || strncmp(target, s->root, n) != 0 ||
		    (target[n] && target[n] != '/'))
			return false;
		target += n;
		w->cur[0] = '\0';
	}
	if (!join(rest, target, w->rest))
		return false;
	memcpy(w->rest, rest, sizeof rest);
	return true;
}

/* The X of "gitdir: X": `.git` of a linked worktree or a submodule. */
static bool read_gitdir(struct scan *s, const char *path, char out[PATH_MAX])
{
	cleanup_close int fd = protect_open(s->wsfd, path, O_RDONLY | O_NONBLOCK);

	return fd >= 0 && protect_read_line(fd, "gitdir: ", out);
}

static int scan_from(struct scan *s, struct place *w, bool globbed);

/* A directory's own entry; used where one cannot be looked into. */
static int add_whole(struct scan *s, const char *path)
{
	struct stat st;
	int fd = protect_open(s->wsfd, path, O_PATH);

	if (fd < 0 || fstat(fd, &st) < 0) {
		fd_close(&fd);
		return err_set(s->err, BRIG_E_BAD_WORKSPACE, EACCES, "protect",
			       "cannot look at %s in the workspace", path);
	}
	struct protect_entry *old = find_entry(s->p, path);
	if (old)
		old->kind = PROTECT_RO;
	return add(s, PROTECT_RO, path, fd, &st, NULL);
}

/* One directory that a "*" stands for. */
static int scan_match(struct scan *s, const struct place *w, const char *name,
		      bool link)
{
	cleanup_free struct place *sub = malloc(sizeof *sub);
	if (!sub)
		return no_memory(s);

	if (link) {
		memcpy(sub->cur, w->cur, sizeof sub->cur);
		return join(sub->rest, name, w->rest) ? scan_from(s, sub, true) : 0;
	}
	if (!join(sub->cur, w->cur, name))
		return 0;
	cleanup_close int fd = protect_open(s->wsfd, sub->cur, O_PATH);
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
	return add(s, PROTECT_PIN, dir, take_fd(&fd), &st, NULL);
}

/* What "*" stands for now; what it may stand for later is the sweep's. */
static int scan_glob(struct scan *s, struct place *w, bool globbed)
{
	big_buffer char later[PATH_MAX], tail[PATH_MAX];
	int matches = 0, r = 0;

	if (!globbed && join(tail, "*", w->rest) && join(later, w->cur, tail)) {
		r = add(s, PROTECT_ABSENT, later, -1, NULL, NULL);
		if (r < 0)
			return r;
	}
	int fd = protect_open(s->wsfd, w->cur, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return add_whole(s, w->cur);
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
			r = add_whole(s, w->cur);
			break;
		}
		r = scan_match(s, w, e->d_name, link);
	}
	closedir(d);
	return r;
}

/* Nothing is there: remembers the whole path that must stay absent. */
static int scan_absent(struct scan *s, struct place *w, bool globbed)
{
	if (globbed)
		return 0; /* the entry with the "*" covers it */
	if (!strchr(w->path, '/') && strlen(w->path) < sizeof s->missing)
		strcpy(s->missing, w->path);
	/* rest may come from a link: what is beyond an absent ".." is not known */
	if (strstr(w->rest, "..") || !join(w->target, w->path, w->rest))
		return add(s, PROTECT_ABSENT, w->path, -1, NULL, NULL);
	return add(s, PROTECT_ABSENT, w->target, -1, NULL, NULL);
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
		return no_memory(s);
	}
	*go_on = follow(s, w, w->target);
	return add(s, PROTECT_SYMLINK, w->path, fd, st, copy);
}

static void pop(char *path)
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
static int scan_from(struct scan *s, struct place *w, bool globbed)
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
			pop(w->cur);
			continue;
		}
		if (!strcmp(name, "*"))
			return scan_glob(s, w, globbed);
		if (!join(path, w->cur, name))
			return 0;
		struct protect_entry *seen = last ? NULL : find_entry(s->p, path);
		if (seen && seen->kind == PROTECT_PIN) {
			memcpy(w->cur, path, strlen(path) + 1);
			continue;
		}
		if (!strcmp(path, s->missing) || protect_missing(s->wsfd, path))
			return scan_absent(s, w, globbed);
		int fd = protect_open(s->wsfd, path, O_PATH);
		if (fd == -ENOENT)
			return scan_absent(s, w, globbed);
		if (fd == -EACCES && w->cur[0])
			/* a directory we may not search: the sandbox could
			 * open it up again, so it becomes read-only whole */
			return add_whole(s, w->cur);
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
		if (last)
			return add(s, PROTECT_RO, path, fd, &st, NULL);
		if (S_ISDIR(st.st_mode)) {
			int r = add(s, PROTECT_PIN, path, fd, &st, NULL);
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
		int r = add(s, PROTECT_RO, path, fd, &st, NULL);
		if (r < 0 || strcmp(name, ".git") != 0 ||
		    !read_gitdir(s, path, w->target) || !follow(s, w, w->target))
			return r;
	}
	return 0;
}

static int scan_pattern(struct scan *s, struct place *w, const char *pattern)
{
	s->links = 0;
	w->cur[0] = '\0';
	snprintf(w->rest, sizeof w->rest, "%s", pattern);
	return scan_from(s, w, false);
}

static bool pattern_ok(const char *p)
{
	if (!p[0] || p[0] == '/' || strlen(p) >= PATH_MAX)
		return false;
	while (*p) {
		size_t n = strcspn(p, "/");
		if (n == 2 && !memcmp(p, "..", 2))
			return false;
		p += n + (p[n] == '/');
	}
	return true;
}

/* The workspace as a bare repository: guarded as `.git` is. */
static int scan_bare(struct scan *s, struct place *w)
{
	static const char *const names[] = { "config", "config.worktree", "hooks",
					     "commondir" };

	if (!gitsafe_is_gitdir(s->wsfd)) {
		int r = find_entry(s->p, "HEAD") ?
				0 :
				add(s, PROTECT_ABSENT, "HEAD", -1, NULL, NULL);
		if (r == 0)
			find_entry(s->p, "HEAD")->check = PROTECT_CHECK_GIT_BARE;
		return r;
	}
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		int r = scan_pattern(s, w, names[i]);
		if (r < 0)
			return r;
		struct protect_entry *e = find_entry(s->p, names[i]);
		for (size_t k = 0; e && k < sizeof checks / sizeof checks[0]; k++)
			if (!strcmp(names[i], checks[k].name))
				e->check = checks[k].check;
	}
	return 0;
}

/* The state of reading one index; links come one at a time. */
struct links {
	struct scan *s;
	const char *tree; /* the work tree's path */
	int depth;
};

static int scan_links(struct scan *s, const char *tree, const char *gitdir, int depth);

/* Where the git directory of the work tree at `dir` is, in w->cur; false when
 * nowhere in the workspace.  Symlinks in it are refused by whoever opens it. */
static bool gitdir_of(struct scan *s, struct place *w, const char *dir)
{
	struct stat st;

	if (!join(w->path, dir, ".git"))
		return false;
	cleanup_close int fd = protect_open(s->wsfd, w->path, O_PATH);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode)) {
		memcpy(w->cur, w->path, strlen(w->path) + 1);
		return true;
	}
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(fd, "", w->target, sizeof w->target - 1);
		w->target[n < 0 ? 0 : n] = '\0';
	} else if (!S_ISREG(st.st_mode) || !read_gitdir(s, w->path, w->target)) {
		return false;
	}
	return w->target[0] && protect_resolve(s->root, dir, w->target, w->cur) &&
	       w->cur[0];
}

/* scan_from for one path where what is absent is left to the sweep. */
static int scan_existing(struct scan *s, struct place *w, const char *dir,
			 const char *tail)
{
	s->links = 0;
	w->cur[0] = '\0';
	return join(w->rest, dir, tail) ? scan_from(s, w, true) : 0;
}

static int scan_one_link(void *arg, const char *path)
{
	static const char *const names[] = { ".git/config", ".git/hooks",
					     ".git/config.worktree", ".git/commondir" };
	struct links *l = arg;
	struct scan *s = l->s;
	char dir[PATH_MAX];
	struct stat st;
	int r = 0;

	if (!join(dir, l->tree, path))
		return 0;
	cleanup_close int fd = protect_open(s->wsfd, dir, O_PATH | O_DIRECTORY);
	if (fd == -ENOENT)
		return 0;
	if (fd >= 0 && fstat(fd, &st) == 0)
		r = gitindex_visit(s->work, &st);
	if (fd >= 0 && r <= 0)
		return r;
	cleanup_free struct place *w = malloc(sizeof *w);
	if (!w)
		return no_memory(s);
	r = 0;
	for (size_t i = 0; r >= 0 && i < sizeof names / sizeof names[0]; i++)
		/* what is absent is not listed: the sweep reads the index again */
		r = scan_existing(s, w, dir, names[i]);
	if (r >= 0 && l->depth < GITINDEX_NESTING && gitdir_of(s, w, dir))
		r = scan_links(s, dir, w->cur, l->depth + 1);
	return r;
}

/*
 * Reading took more than it may: what is not known cannot be protected by
 * itself, so the git directory is, as a whole.  The sweep finds the same and
 * takes away the index, by which git would go on.
 */
static int close_whole(struct scan *s, const char *gitdir)
{
	s->p->closed = "its index, or the submodules that names, are too many or too "
		       "large to look at";
	struct gitindex_work *work = s->work;
	s->work = NULL; /* this entry may use the spare ones */
	int r = add_whole(s, gitdir);
	s->work = work;
	return r;
}

/* Protects the repositories of the submodules that an index names. */
static int scan_links(struct scan *s, const char *tree, const char *gitdir, int depth)
{
	struct links l = { .s = s, .tree = tree, .depth = depth };
	big_buffer char path[PATH_MAX];

	if (!join(path, gitdir, "index"))
		return 0;
	cleanup_close int fd = protect_open(s->wsfd, path, O_RDONLY | O_NONBLOCK);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	int r = fd < 0 ? -EDQUOT : gitindex_links(fd, s->work, scan_one_link, &l);
	if (r == -EDQUOT) {
		r = close_whole(s, gitdir);
		return r < 0 ? r : -EDQUOT; /* whoever led here is not done either */
	}
	/* a broken index stops the user's git as well: nothing to protect */
	return r == -EBADMSG || r == -EPROTONOSUPPORT ? 0 : r;
}

/* A linked worktree: where it is, the file that leads back, its submodules. */
static int scan_worktree(struct scan *s, struct place *w, const char *git)
{
	big_buffer char place[PATH_MAX];

	if (!join(w->path, git, "gitdir"))
		return 0;
	cleanup_close int fd = protect_open(s->wsfd, w->path, O_RDONLY | O_NONBLOCK);
	if (fd < 0 || !protect_read_line(fd, "", w->target) ||
	    !protect_resolve(s->root, git, w->target, place))
		return 0;
	size_t len = strlen(place);
	struct stat st;
	if (len < 6 || strcmp(place + len - 5, "/.git") != 0 ||
	    fstatat(s->wsfd, place, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return 0;
	/* the sweep goes by it, so it must not change */
	int r = scan_existing(s, w, git, "gitdir");
	if (r >= 0)
		r = scan_existing(s, w, place, "");
	place[len - 5] = '\0';
	return r < 0 ? r : scan_links(s, place, git, 0);
}

/* The linked worktrees of the repository at `git`. */
static int scan_worktrees(struct scan *s, struct place *w, const char *git)
{
	big_buffer char list[PATH_MAX], path[PATH_MAX];
	int r = 0;

	if (!join(list, git, "worktrees"))
		return 0;
	int fd = protect_open(s->wsfd, list, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return 0;
	}
	for (struct dirent *e; r >= 0 && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    join(path, list, e->d_name))
			r = scan_worktree(s, w, path);
	closedir(d);
	return r;
}

/* What a setting of the existing config makes git obey, and from where a
 * relative path starts. */
static const struct {
	const char *section, *key;
	bool from_tree;
} config_paths[] = {
	{ "core", "hookspath", true },
	{ "include", "path", false },
	{ "includeif", "path", false },
};

/* A value as git reads it: quotes, escapes, comments.  Returns its end. */
static const char *config_value(const char *p, char out[PATH_MAX])
{
	size_t n = 0, keep = 0;
	bool quoted = false;

	for (; *p && *p != '\n'; p++) {
		char c = *p;
		if (c == '"') {
			quoted = !quoted;
			keep = n;
			continue;
		}
		if (!quoted && (c == '#' || c == ';'))
			break;
		if (c == '\\' && p[1]) {
			p += p[1] == '\r' && p[2] == '\n' ? 2 : 1;
			if (*p == '\n')
				continue;
			c = *p;
		}
		if (n + 1 < PATH_MAX)
			out[n++] = c;
		if (quoted || (c != ' ' && c != '\t' && c != '\r'))
			keep = n;
	}
	out[keep] = '\0';
	return p + strcspn(p, "\n");
}

static int scan_config(struct scan *s, struct place *w, const char *path, int depth);

/* Protects the path that a setting names, if it is in the workspace. */
static int scan_setting(struct scan *s, struct place *w, const char *config,
			const char *value, bool from_tree, int depth)
{
	big_buffer char base[PATH_MAX], path[PATH_MAX];

	snprintf(base, sizeof base, "%s", from_tree ? "" : config);
	pop(base);
	if (!value[0] || !protect_resolve(s->root, base, value, path) || !path[0] ||
	    strchr(path, '*')) /* which would be a pattern here */
		return 0;
	int r = scan_pattern(s, w, path);
	return r < 0 || from_tree ? r : scan_config(s, w, path, depth + 1);
}

/* Looks through one config of the user's for paths it makes git obey. */
static int scan_config(struct scan *s, struct place *w, const char *path, int depth)
{
	enum { CONFIG_MAX = 1 << 20, CONFIGS_MAX = 64, DEPTH_MAX = 4 };
	cleanup_free char *text = NULL;
	cleanup_free char *value = malloc(PATH_MAX);
	size_t len, section = 0, name_len = 0;
	int r = 0;

	cleanup_close int fd = protect_open(s->wsfd, path, O_RDONLY | O_NONBLOCK);
	if (!value)
		return no_memory(s);
	if (fd < 0 || depth > DEPTH_MAX || ++s->configs > CONFIGS_MAX ||
	    fd_read_all(fd, CONFIG_MAX, &text, &len) < 0)
		return 0;
	for (const char *p = text; *p && r >= 0;) {
		if (strchr(" \t\r\n", *p)) {
			p++;
		} else if (*p == '[') {
			section = (size_t)(++p - text);
			name_len = strcspn(p, " \t.]\"\n");
			for (bool quoted = false; *p && *p != '\n' && (quoted || *p != ']'); p++) {
				if (*p == '\\' && p[1])
					p++;
				else if (*p == '"')
					quoted = !quoted;
			}
			p += *p == ']';
		} else {
			const char *key = p;
			size_t key_len = strcspn(p, " \t=\r\n#;");
			p += key_len;
			p += strspn(p, " \t");
			if (*p != '=') {
				p += strcspn(p, "\n");
				continue;
			}
			p++;
			p += strspn(p, " \t");
			p = config_value(p, value);
			for (size_t i = 0; i < sizeof config_paths / sizeof config_paths[0]; i++)
				if (strlen(config_paths[i].section) == name_len &&
				    strlen(config_paths[i].key) == key_len &&
				    !strncasecmp(config_paths[i].section, text + section, name_len) &&
				    !strncasecmp(config_paths[i].key, key, key_len) && r >= 0)
					r = scan_setting(s, w, path, value,
							 config_paths[i].from_tree, depth);
		}
	}
	return r;
}

/* The repository of the workspace itself: where its config and indexes lead. */
static int scan_repository(struct scan *s, struct place *w)
{
	big_buffer char git[PATH_MAX];

	if (!gitdir_of(s, w, ""))
		return 0;
	memcpy(git, w->cur, strlen(w->cur) + 1);
	static const char *const configs[] = { "config", "config.worktree" };
	for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
		big_buffer char path[PATH_MAX];
		int e = join(path, git, configs[i]) ? scan_config(s, w, path, 0) : 0;
		if (e < 0)
			return e;
	}
	cleanup_free struct gitindex_work *work = malloc(sizeof *work);
	if (!work)
		return no_memory(s);
	gitindex_begin(work);
	s->work = work;
	int r = scan_links(s, "", git, 0);
	if (r >= 0 || r == -EDQUOT) {
		int e = scan_worktrees(s, w, git);
		r = e < 0 ? e : r;
	}
	if (r == -EDQUOT)
		r = close_whole(s, git);
	s->work = NULL;
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct protect_entry *)a)->path,
		      ((const struct protect_entry *)b)->path);
}

static void free_entry(struct protect_entry *e)
{
	free(e->path);
	free(e->target);
	fd_close(&e->fd);
}

static bool below_read_only(const struct protect *p, const char *path)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct protect_entry *e = &p->v[i];
		size_t n = strlen(e->path);
		if (e->kind == PROTECT_RO && e->is_dir &&
		    !strncmp(path, e->path, n) && path[n] == '/')
			return true;
	}
	return false;
}

/*
 * Parents first; and nothing below a read-only directory, where a writable
 * pin would open a hole in it.
 */
static void settle(struct protect *p)
{
	size_t kept = 0;

	if (!p->n)
		return;
	qsort(p->v, p->n, sizeof p->v[0], by_path);
	for (size_t i = 0; i < p->n; i++) {
		/* the entry's own slot may be reused, so look before moving;
		 * a parent sorts first and is never dropped for its child */
		struct protect head = { .v = p->v, .n = kept };
		if (below_read_only(&head, p->v[i].path))
			free_entry(&p->v[i]);
		else
			p->v[kept++] = p->v[i];
	}
	p->n = kept;
}

static void read_root(struct scan *s)
{
	char link[32];

	snprintf(link, sizeof link, "/proc/self/fd/%d", s->wsfd);
	ssize_t n = readlink(link, s->root, sizeof s->root - 1);
	s->root[n > 1 ? n : 0] = '\0';
}

static int make_secret(struct scan *s)
{
	uint64_t v;

	if (getrandom(&v, sizeof v, 0) != sizeof v)
		return err_set(s->err, BRIG_E_INTERNAL, EIO, "protect",
			       "no random number");
	snprintf(s->p->secret, sizeof s->p->secret, "%016" PRIx64, v);
	return 0;
}

int protect_scan(struct protect *p, int wsfd, const char *const *patterns,
		 const char *id, struct brig_error *err)
{
	struct scan s = { .p = p, .err = err, .wsfd = wsfd };
	int r = 0;

	*p = (struct protect){ .n = 0 };
	if (strchr(id, '/') ||
	    snprintf(p->suffix, sizeof p->suffix, ".brig-denied-%s", id) >=
		    (int)sizeof p->suffix)
		return err_set(err, BRIG_E_INTERNAL, EINVAL, "protect",
			       "run id \"%s\" cannot be part of a file name", id);
	cleanup_free struct place *w = malloc(sizeof *w);
	if (!w)
		return no_memory(&s);
	read_root(&s);
	r = make_secret(&s);
	for (size_t i = 0; r >= 0 && patterns && patterns[i]; i++) {
		if (!pattern_ok(patterns[i])) {
			r = err_set(err, BRIG_E_BAD_VALUE, EINVAL, "protect",
				    "protected path \"%s\"", patterns[i]);
			err_fix(err, "give a path relative to the workspace, without \"..\"");
		} else if (!strcmp(patterns[i], "HEAD")) {
			r = scan_bare(&s, w);
		} else {
			r = scan_pattern(&s, w, patterns[i]);
		}
	}
	for (size_t i = 0; patterns && patterns[i]; i++)
		p->git_links = p->git_links || !strcmp(patterns[i], ".git/config");
	if (r >= 0 && p->git_links)
		r = scan_repository(&s, w);
	if (r >= 0 && !(p->root = strdup(s.root)))
		r = no_memory(&s);
	if (r < 0) {
		protect_free(p);
		return r;
	}
	settle(p);
	return 0;
}

void protect_free(struct protect *p)
{
	for (size_t i = 0; i < p->n; i++)
		free_entry(&p->v[i]);
	free(p->v);
	free(p->root);
	*p = (struct protect){ .n = 0 };
}
