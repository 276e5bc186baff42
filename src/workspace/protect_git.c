/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git makes of a workspace: bare repositories, worktrees, submodules, and
 * configuration that names more files.  A part of the look before a run.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "workspace/gitindex.h"
#include "workspace/gitsafe.h"
#include "workspace/protect_scan.h"
#include "workspace/protect_walk.h"

/* The workspace as a bare repository: guarded as `.git` is. */
int scan_bare(struct scan *s, struct place *w)
{
	static const char *const names[] = { "config", "config.worktree", "hooks",
					     "commondir" };

	if (!gitsafe_is_gitdir(s->wsfd)) {
		int r = scan_find(s->p, "HEAD") ?
				0 :
				scan_add(s, PROTECT_ABSENT, "HEAD", -1, NULL, NULL);
		if (r == 0)
			scan_find(s->p, "HEAD")->check = PROTECT_CHECK_GIT_BARE;
		return r;
	}
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		int r = scan_pattern(s, w, names[i]);
		if (r < 0)
			return r;
		struct protect_entry *e = scan_find(s->p, names[i]);
		if (e)
			e->check = scan_check_of(names[i]);
	}
	return 0;
}

/* The state of reading one index; links come one at a time. */
struct links {
	struct scan *s;
	const char *tree; /* the work tree's path */
	int depth;
	size_t hash; /* the length of hashes; 0: not known yet */
	bool every; /* which entries are links is not known, so only directories can be */
};

static int scan_links(struct scan *s, const char *tree, const char *gitdir, int depth);
static int scan_configs(struct scan *s, struct place *w, const char *gitdir, const char *tree);

/* Where the git directory of the work tree at `dir` is, in w->cur; false when
 * nowhere in the workspace.  Symlinks in it are refused by whoever opens it. */
static bool gitdir_of(struct scan *s, struct place *w, const char *dir)
{
	struct stat st;

	if (!scan_join(w->path, dir, ".git"))
		return false;
	const struct protect_entry *e = scan_find(s->p, w->path);
	if (e && e->kind == PROTECT_PIN) {
		memcpy(w->cur, w->path, strlen(w->path) + 1);
		return true;
	}
	cleanup_close int fd = scan_open(s, w->path, O_PATH);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode)) {
		memcpy(w->cur, w->path, strlen(w->path) + 1);
		return true;
	}
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(fd, "", w->target, sizeof w->target - 1);
		w->target[n < 0 ? 0 : n] = '\0';
	} else if (!S_ISREG(st.st_mode) || !scan_read_gitdir(s, w->path, w->target)) {
		return false;
	}
	return w->target[0] && scan_resolve(s, dir, w->target, w->cur) &&
	       w->cur[0];
}

/* scan_from for one path where what is absent is left to the sweep. */
static int scan_existing(struct scan *s, struct place *w, const char *dir,
			 const char *tail)
{
	s->links = 0;
	w->cur[0] = '\0';
	return scan_join(w->rest, dir, tail) ? scan_from(s, w, true) : 0;
}

/* One whose git directory is at w->cur. */
static int scan_submodule(struct scan *s, struct place *w, const char *dir, int depth)
{
	big_buffer char git[PATH_MAX];

	memcpy(git, w->cur, strlen(w->cur) + 1);
	int r = scan_configs(s, w, git, dir);
	return r < 0 || depth > GITINDEX_NESTING ? r : scan_links(s, dir, git, depth);
}

static int scan_one_link(void *arg, const char *path, bool whole_directory)
{
	static const char *const names[] = { ".git/config", ".git/hooks",
					     ".git/config.worktree", ".git/commondir" };
	struct links *l = arg;
	struct scan *s = l->s;
	char dir[PATH_MAX];
	struct stat st;
	int r = 0;

	if (!scan_join(dir, l->tree, path))
		return 0;
	cleanup_close int fd = scan_open(s, dir, O_PATH | O_DIRECTORY);
	/* which of its directories are repositories is in git's objects */
	if (whole_directory)
		return fd >= 0 ? -EDQUOT : 0;
	if (fd == -ENOENT || (fd < 0 && l->every))
		return 0;
	if (fd >= 0 && fstat(fd, &st) == 0)
		r = gitindex_visit(s->work, &st);
	if (fd >= 0 && r <= 0)
		return r;
	cleanup_free struct place *w = malloc(sizeof *w);
	if (!w)
		return scan_no_memory(s);
	r = 0;
	for (size_t i = 0; r >= 0 && i < sizeof names / sizeof names[0]; i++)
		/* what is absent is not listed: the sweep reads the index again */
		r = scan_existing(s, w, dir, names[i]);
	if (r < 0 || !gitdir_of(s, w, dir))
		return r;
	return scan_submodule(s, w, dir, l->depth + 1);
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
	int r = scan_add_whole(s, gitdir);
	s->work = work;
	return r;
}

/* The length of hashes in a git directory; 0 when it cannot be told. */
static size_t hash_of(struct scan *s, const char *gitdir)
{
	cleanup_close int dir = scan_open(s, gitdir, O_PATH | O_DIRECTORY);

	return dir < 0 ? 0 : gitsafe_hash_at(dir, gitindex_buffer(s->work), sizeof s->work->buf);
}

/* One index.  A link is none that git would read; what is no file (a directory, a pipe) the
 * sweep moves aside. */
static int scan_index(struct scan *s, struct links *l, const char *gitdir, const char *name)
{
	big_buffer char path[PATH_MAX];
	struct stat st;

	if (!scan_join(path, gitdir, name))
		return 0;
	cleanup_close int fd = scan_open(s, path, O_RDONLY | O_NONBLOCK);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		return 0;
	if (fd >= 0 && !l->hash)
		l->hash = hash_of(s, gitdir);
	/* what we cannot read, git may */
	int r = fd >= 0 && l->hash ? gitindex_links(fd, l->hash, s->work, scan_one_link, l) :
				     -EDQUOT;
	/* a broken index stops the user's git as well: nothing to protect */
	if (r == -EBADMSG || r == -EPROTONOSUPPORT)
		return 0;
	if (r < 0 && r != -EDQUOT && s->err && s->err->code == BRIG_E_OK) {
		err_set(s->err, BRIG_E_BAD_WORKSPACE, -r, "protect",
			"cannot read %s in the workspace", path);
		err_fix(s->err, "look at the file; without it git makes a new one (git reset)");
	}
	return r;
}

/* The indexes that one may lean on: which of them, the sweep does not ask, either. */
static int scan_shared(struct scan *s, struct links *l, const char *gitdir)
{
	int r = 0, fd = scan_open(s, gitdir, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		fd_close(&fd);
		return -EDQUOT;
	}
	l->every = s->work->nameless;
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		if (strncmp(e->d_name, "sharedindex.", 12) != 0)
			continue;
		s->work->every = l->every;
		r = gitindex_late(s->work) ? -EDQUOT : scan_index(s, l, gitdir, e->d_name);
	}
	closedir(d);
	return r;
}

/* Protects the repositories of the submodules that an index names. */
static int scan_links(struct scan *s, const char *tree, const char *gitdir, int depth)
{
	struct links l = { .s = s, .tree = tree, .depth = depth, .hash = s->hash };

	s->work->split = s->work->every = false;
	int r = scan_index(s, &l, gitdir, "index");
	if (r == 0 && s->work->split)
		r = scan_shared(s, &l, gitdir);
	if (r == -EDQUOT) {
		r = close_whole(s, gitdir);
		return r < 0 ? r : -EDQUOT; /* whoever led here is not done either */
	}
	return r;
}

/* A linked worktree of the repository at `common`: where it is, the file that leads back,
 * what the configuration names in it, its submodules. */
static int scan_worktree(struct scan *s, struct place *w, const char *common, const char *git)
{
	big_buffer char place[PATH_MAX];

	if (!scan_join(w->path, git, "gitdir"))
		return 0;
	cleanup_close int fd = scan_open(s, w->path, O_RDONLY | O_NONBLOCK);
	if (fd < 0 || !protect_read_line(fd, "", w->target) ||
	    !scan_resolve(s, git, w->target, place))
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
	if (r >= 0)
		r = scan_configs(s, w, common, place);
	if (r >= 0)
		r = scan_configs(s, w, git, place);
	return r < 0 ? r : scan_links(s, place, git, 0);
}

/* The linked worktrees of the repository at `git`. */
static int scan_worktrees(struct scan *s, struct place *w, const char *git)
{
	big_buffer char list[PATH_MAX], path[PATH_MAX];
	int r = 0;

	if (!scan_join(list, git, "worktrees"))
		return 0;
	int fd = scan_open(s, list, O_RDONLY | O_DIRECTORY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		fd_close(&fd);
		return 0;
	}
	for (struct dirent *e; r >= 0 && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    scan_join(path, list, e->d_name))
			r = scan_worktree(s, w, git, path);
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

static int scan_config(struct scan *s, struct place *w, const char *path, const char *tree,
		       int depth);

/* Of a git directory's own config, where no commondir sends git to another one. */
static size_t config_hash(struct scan *s, const char *path, const char *text, size_t len)
{
	big_buffer char common[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (!slash || !streq(slash, "/config"))
		return s->hash;
	int n = snprintf(common, sizeof common, "%.*s/commondir", (int)(slash - path), path);
	if (n >= PATH_MAX || !protect_missing(s->wsfd, common))
		return 0;
	return gitsafe_hash_text(text, len);
}

/* Protects the path that a setting names, if it is in the workspace. */
static int scan_setting(struct scan *s, struct place *w, const char *config, const char *tree,
			const char *value, bool from_tree, int depth)
{
	big_buffer char base[PATH_MAX], path[PATH_MAX];

	snprintf(base, sizeof base, "%s", from_tree ? tree : config);
	if (!from_tree)
		scan_pop(base);
	if (!value[0] || !scan_resolve(s, base, value, path) || !path[0] ||
	    strchr(path, '*')) /* which would be a pattern here */
		return 0;
	int r = scan_pattern(s, w, path);
	return r < 0 || from_tree ? r : scan_config(s, w, path, tree, depth + 1);
}

/* Looks through one config of the user's for paths it makes git obey in the work tree. */
static int scan_config(struct scan *s, struct place *w, const char *path, const char *tree,
		       int depth)
{
	enum { CONFIG_MAX = 1 << 20, CONFIGS_MAX = 64, DEPTH_MAX = 4 };
	cleanup_free char *text = NULL;
	cleanup_free char *value = malloc(PATH_MAX);
	size_t len, section = 0, name_len = 0;
	int r = 0;

	cleanup_close int fd = scan_open(s, path, O_RDONLY | O_NONBLOCK);
	if (!value)
		return scan_no_memory(s);
	if (fd < 0 || depth > DEPTH_MAX || ++s->configs > CONFIGS_MAX ||
	    fd_read_all(fd, CONFIG_MAX, &text, &len) < 0)
		return 0;
	if (depth == 0)
		s->hash = config_hash(s, path, text, len);
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
					r = scan_setting(s, w, path, tree, value,
							 config_paths[i].from_tree, depth);
		}
	}
	return r;
}

/* What is in a git directory, for one of its work trees. */
static int scan_configs(struct scan *s, struct place *w, const char *gitdir, const char *tree)
{
	static const char *const configs[] = { "config", "config.worktree" };
	big_buffer char path[PATH_MAX];
	int r = 0;

	s->configs = 0;
	s->hash = 0;
	for (size_t i = 0; r >= 0 && i < sizeof configs / sizeof configs[0]; i++)
		if (scan_join(path, gitdir, configs[i]))
			r = scan_config(s, w, path, tree, 0);
	/* of many work trees each may name as much */
	return r >= 0 && s->work && gitindex_late(s->work) ? -EDQUOT : r;
}

/* Not part of its caller, whose frame every run would pay for. */
__attribute__((noinline)) static int scan_gitdir(struct scan *s, struct place *w)
{
	big_buffer char git[PATH_MAX];

	memcpy(git, w->cur, strlen(w->cur) + 1);
	int e = scan_configs(s, w, git, "");
	if (e < 0)
		return e;
	cleanup_free struct gitindex_work *work = malloc(sizeof *work);
	if (!work)
		return scan_no_memory(s);
	gitindex_begin(work);
	s->work = work;
	int r = scan_links(s, "", git, 0);
	if (r >= 0 || r == -EDQUOT) {
		e = scan_worktrees(s, w, git);
		r = e < 0 ? e : r;
	}
	if (r == -EDQUOT)
		r = close_whole(s, git);
	s->work = NULL;
	return r;
}

/* The repository of the workspace itself: where its config and indexes lead. */
int scan_repository(struct scan *s, struct place *w)
{
	if (s->no_git)
		return 0;
	return gitdir_of(s, w, "") ? scan_gitdir(s, w) : 0;
}
