/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at git directories after a run: the workspace's own, those of its linked
 * worktrees, and those that an index names as submodules.  The same rules as in
 * protect_sweep.c: one name at a time, no link followed, renames in place.
 *
 * No allocation and no stdio in this file: see the header.
 */
#include "workspace/protect_sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "workspace/gitsafe.h"
#include "workspace/protect_walk.h"

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
		sweep_absent(s, git_fd, pieces[i].name, pieces[i].check);
}

/* sweep_gitdir for one that is told about under another path. */
__attribute__((noinline)) static void sweep_gitdir_at(struct sweep *s, int git_fd, const char *path)
{
	big_buffer char buf[PATH_MAX + 64];
	struct detour d = sweep_detour(s, buf, sizeof buf);

	if (sweep_push(s, path))
		sweep_gitdir(s, git_fd);
	else
		sweep_error(s, -ENAMETOOLONG);
	sweep_back(s, &d);
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

/* As the scan did it, where the text is the user's: by whatever name it comes to the workspace. */
static bool resolve(struct sweep *s, bool trusted, const char *base, const char *text,
		    char out[PATH_MAX])
{
	const char *root = s->p->root ? s->p->root : "";
	big_buffer char in[PATH_MAX];

	if (!trusted || text[0] != '/')
		return protect_resolve(root, base, text, out);
	int r = protect_enter(s->wsfd, root, text, in);
	if (r < 0 && r != -ENOENT)
		sweep_error(s, r);
	return r == 0 && protect_resolve(root, "", in, out);
}

/*
 * The git directory that the file or link `.git` in dfd (s->path) names, when
 * it is one that may be named: any, if the file was there before the run, as
 * it is unchanged then.  path receives its place.  A descriptor, -ENOENT when
 * there is none in the workspace, -EPERM when it may not be named.
 */
static int open_gitfile(struct sweep *s, int dfd, bool link, char path[PATH_MAX])
{
	char *text = sweep_scratch(s, 0), *base = sweep_scratch(s, 1);
	size_t len = s->len > 5 ? s->len - 5 : 0; /* without "/.git" */
	bool trusted = sweep_known(s->p, s->path);

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
	if (!resolve(s, trusted, base, text, path) || !path[0])
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
	struct detour d = sweep_detour(s, sweep_scratch(s, 0), (size_t)2 * PATH_MAX);
	bool ok = true;

	if (t->git_path)
		ok = sweep_push(s, t->git_path);
	else
		ok = (!d.len || sweep_push(s, d.path)) && sweep_push(s, ".git");
	if (!ok || !sweep_push(s, name)) {
		/* only the report suffers */
		sweep_cut(s, 0);
		sweep_push(s, "...");
		sweep_push(s, name);
	}
	int r = sweep_aside(s, t->git_fd, name);
	sweep_back(s, &d);
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
	bool was = sweep_known(s->p, s->path);
	if (git_fd < 0 || (depth > GITINDEX_NESTING && !was)) {
		/* one that was there and leads out of the workspace, or
		 * nowhere, is the user's own affair */
		if (!was)
			r = sweep_aside(s, dfd, ".git");
		else if (git_fd != -ENOENT && git_fd != -ENOTDIR && git_fd != -ELOOP &&
			 git_fd != -EPERM)
			r = git_fd;
		sweep_error(s, r);
		return r;
	}
	if (t.git_path)
		sweep_gitdir_at(s, git_fd, place);
	else
		sweep_gitdir(s, git_fd);
	sweep_cut(s, len > 5 ? len - 5 : 0);
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

	while (sweep_name(&path, name)) {
		/* git itself goes through no symlink here */
		int next = protect_open_forced(dfd, name, O_PATH | O_DIRECTORY);
		if (next < 0)
			return next;
		fd_close(&dir);
		dir = dfd = next;
		if (!sweep_push(s, name))
			return -ENAMETOOLONG;
	}
	return take_fd(&dir);
}

static int sweep_one_link(void *arg, const char *path, bool whole_directory)
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
	/* a sparse index leaves out what is not checked out; git looks into what is there */
	if (fd >= 0 && whole_directory)
		r = -EBADMSG;
	else if (fd >= 0)
		r = fstat(fd, &st) < 0 ? -errno : gitindex_visit(&s->work, &st);
	if (r > 0)
		r = sweep_push(s, ".git") ? sweep_nested(s, fd, t->depth + 1) :
					   -ENAMETOOLONG;
	else if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		r = 0; /* nothing git could enter */
	sweep_cut(s, len);
	if (r < 0 && r != -EDQUOT && !(whole_directory && r == -EBADMSG))
		sweep_error(s, r);
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
	size_t hash = gitsafe_hash_at(t->git_fd, gitindex_buffer(&s->work), sizeof s->work.buf);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		r = gitindex_links(fd, hash, &s->work, sweep_one_link,
				   /* only its constness goes */
				   // NOLINTNEXTLINE(performance-no-int-to-ptr)
				   (void *)(uintptr_t)t);
	if (r == -EPROTONOSUPPORT)
		sweep_error(s, r);
	else if (r < 0)
		sweep_error(s, move_index(t, name));
	return r == -EDQUOT ? r : 0;
}

/*
 * May git find it as "sharedindex." and a hash?  In a directory that does not tell upper and
 * lower case apart, signs that cannot be seen count for nothing there, and a long s is an s.
 * None with the suffix: that may be one just moved aside.
 */
static bool may_be_shared(const struct sweep *s, const char *name)
{
	const char *want = "sharedindex.";
	bool ascii = true;

	if (strstr(name, s->p->suffix))
		return false;
	for (; *want && *name; name++) {
		if ((unsigned char)*name >= 0x80) {
			ascii = false;
			continue;
		}
		if (!ascii && *want == 's' && (*name | 32) == 'h')
			want++;
		if ((*name | 32) != (*want | 32))
			return false;
		want++;
	}
	return !*want;
}

/* The index of a work tree (s->path), and any shared one it may lean on. */
static int sweep_links(const struct tree *t)
{
	_Alignas(struct sys_dirent) char buf[1024];
	cleanup_close int dir =
		protect_open_forced(t->git_fd, ".", O_RDONLY | O_DIRECTORY);

	t->s->work.nameless = t->s->work.every = false;
	int r = sweep_index(t, "index");
	const bool every = t->s->work.nameless;

	if (dir < 0)
		sweep_error(t->s, dir);
	for (long n; dir >= 0 && (n = syscall(SYS_getdents64, dir, buf, sizeof buf)) > 0;) {
		/* There can be more of them than could be looked at, or moved, in the time the
		 * command had.  Git comes to them by way of the index alone. */
		if (gitindex_late(&t->s->work)) {
			int e = move_index(t, "index");
			sweep_error(t->s, e);
			return -EDQUOT;
		}
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (!may_be_shared(t->s, d->name))
				continue;
			t->s->work.every = every;
			int e = sweep_index(t, d->name);
			r = r ? r : e;
		}
	}
	return r;
}

/* A linked worktree: .git/worktrees/NAME, open as fd, with the path `git`. */
static void sweep_worktree(struct sweep *s, int git_fd, const char *git)
{
	big_buffer char place[PATH_MAX];
	char *text = sweep_scratch(s, 0);
	struct tree t = { .s = s, .git_path = git, .git_fd = git_fd };
	cleanup_close int fd =
		protect_open_forced(git_fd, "gitdir", O_RDONLY | O_NONBLOCK);

	/* git works in it by its `.git` file alone, whatever is said here; but
	 * what says nothing was never a worktree of the user's */
	size_t len = strlen(git);
	if (fd < 0 || len + sizeof "/gitdir" > sizeof place ||
	    !protect_read_line(fd, "", text))
		return;
	memcpy(place, git, len); // NOLINT(bugprone-not-null-terminated-result): the end follows
	memcpy(place + len, "/gitdir", sizeof "/gitdir");
	if (!resolve(s, sweep_known(s->p, place), git, text, place))
		return;
	len = strlen(place);
	if (len < 6 || strcmp(place + len - 5, "/.git") != 0)
		return;
	place[len - 5] = '\0';
	cleanup_close int dir = protect_walk(s->wsfd, place, O_PATH | O_DIRECTORY);
	if (dir < 0) {
		if (dir != -ENOENT && dir != -ENOTDIR && dir != -ELOOP)
			sweep_error(s, dir);
		return;
	}
	t.fd = dir;
	sweep_cut(s, 0);
	if (!sweep_push(s, place)) {
		sweep_error(s, -ENAMETOOLONG);
		return;
	}
	sweep_links(&t);
}

/* The linked worktrees of the git directory whose path is `git`. */
static void sweep_worktrees(struct sweep *s, int git_fd, const char *git)
{
	static const char sub[] = "/worktrees/";
	_Alignas(struct sys_dirent) char buf[1024];
	big_buffer char path[PATH_MAX + NAME_MAX + 16];
	size_t len = strlen(git);
	cleanup_close int dir = protect_open_forced(git_fd, "worktrees", O_PATH | O_DIRECTORY);
	cleanup_close int list =
		dir < 0 ? -ENOENT : protect_open_forced(dir, ".", O_RDONLY | O_DIRECTORY);

	if (list < 0) {
		if (dir >= 0)
			sweep_error(s, list);
		return;
	}
	memcpy(path, git, len); // NOLINT(bugprone-not-null-terminated-result): the end follows
	memcpy(path + len, sub, sizeof sub);
	for (long n; (n = syscall(SYS_getdents64, list, buf, sizeof buf)) > 0;) {
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (!strcmp(d->name, ".") || !strcmp(d->name, ".."))
				continue;
			cleanup_close int fd = protect_open_forced(dir, d->name,
								   O_PATH | O_DIRECTORY);
			memcpy(path + len + sizeof sub - 1, d->name,
			       strlen(d->name) + 1);
			if (fd >= 0)
				sweep_worktree(s, fd, path);
		}
	}
}

void sweep_repository(struct sweep *s)
{
	big_buffer char place[PATH_MAX];
	struct stat st;
	cleanup_close int fd = protect_open_forced(s->wsfd, ".git", O_PATH);
	cleanup_close int git_fd = -1;
	struct tree t = { .s = s, .fd = s->wsfd, .git_path = place };

	if (fd < 0 || fstat(fd, &st) < 0) {
		if (fd != -ENOENT)
			sweep_error(s, fd < 0 ? fd : -errno);
		return;
	}
	sweep_push(s, ".git");
	memcpy(place, ".git", 5);
	if (S_ISDIR(st.st_mode))
		git_fd = take_fd(&fd);
	else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
		git_fd = open_gitfile(s, s->wsfd, S_ISLNK(st.st_mode), place);
	if (git_fd < 0) {
		/* what may not stay is gone by now; this leads elsewhere */
		if (git_fd != -ENOENT && git_fd != -ENOTDIR && git_fd != -ELOOP &&
		    git_fd != -EPERM)
			sweep_error(s, git_fd);
		return;
	}
	if (strcmp(place, ".git") != 0)
		sweep_gitdir_at(s, git_fd, place);
	sweep_cut(s, 0);
	t.git_fd = git_fd;
	sweep_links(&t);
	sweep_worktrees(s, git_fd, place);
}
