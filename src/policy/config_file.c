/* SPDX-License-Identifier: Apache-2.0 */
/* Finding, trusting and reading configuration files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/config.h"
#include "policy/resolve.h"

void config_init(struct config *c)
{
	*c = (struct config){ .home = caller_home() };
}

static void file_free(struct config_file *f)
{
	free(f->path);
	free(f->dir);
	ydoc_free(f->doc);
	*f = (struct config_file){ 0 };
}

void config_free(struct config *c)
{
	for (size_t i = 0; i < c->n; i++)
		file_free(&c->file[i]);
	free(c->file);
	free(c->home);
	*c = (struct config){ 0 };
}

static int untrusted(struct brig_error *err, const char *path, const char *what,
		     const char *fix)
{
	err_set(err, BRIG_E_UNTRUSTED_CONFIG, 0, "config", "%.300s: %s", path, what);
	err_fix(err, "%s", fix);
	return -EPERM;
}

static bool others_write(const struct stat *st, uid_t me)
{
	/* an ordinary user's group is often his own, root's policy is root's */
	mode_t bits = me == 0 ? 022 : 002;

	return (st->st_mode & bits) || (st->st_uid != 0 && st->st_uid != me);
}

/* Whoever can replace a directory on the way can replace the file. */
static int check_parents(const char *path, uid_t me, struct brig_error *err)
{
	big_buffer char part[PATH_MAX];
	struct stat st;

	snprintf(part, sizeof part, "%s", path);
	for (char *slash = strrchr(part, '/'); slash; slash = strrchr(part, '/')) {
		slash[slash == part] = '\0'; /* "/" stays "/" */
		if (lstat(part, &st) < 0)
			return err_set(err, BRIG_E_BAD_CONFIG, errno, "config", "%.300s",
				       part);
		bool sticky = (st.st_mode & S_ISVTX) && st.st_uid == 0;
		if (others_write(&st, me) && !sticky) {
			err_set(err, BRIG_E_UNTRUSTED_CONFIG, 0, "config",
				"%.200s: others can write its directory %.200s", path, part);
			err_fix(err, "chown root and chmod go-w that directory, or keep the "
				     "file elsewhere");
			return -EPERM;
		}
		if (slash == part)
			break;
	}
	return 0;
}

/*
 * A policy that somebody else can write is somebody else's policy.  The check is
 * on the descriptor that is read from, and on the way the kernel says leads to
 * it, so that nothing can be swapped in between.
 */
static int check_trust(int fd, const char *path, struct stat *st,
		       struct brig_error *err)
{
	uid_t me = geteuid();
	char link[40], real[PATH_MAX];

	if (fstat(fd, st) < 0)
		return err_set(err, BRIG_E_BAD_CONFIG, errno, "config", "%.300s", path);
	if (!S_ISREG(st->st_mode)) {
		err_set(err, BRIG_E_BAD_CONFIG, 0, "config",
			"%.300s: not a regular file", path);
		err_fix(err, "give a file");
		return -EINVAL;
	}
	if (st->st_uid != 0 && st->st_uid != me)
		return untrusted(err, path, "it belongs to another user",
				 me == 0 ? "chown root the file; root takes its policy only "
					   "from files that nobody else can write" :
					   "use a file of your own");
	if (others_write(st, me))
		return untrusted(err, path, "other users can write it",
				 me == 0 ? "chmod go-w the file" : "chmod o-w the file");
	if (me != 0)
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, real, sizeof real - 1);
	if (n <= 0)
		return err_set(err, BRIG_E_BAD_CONFIG, errno, "config", "%.300s", path);
	real[n] = '\0';
	return check_parents(real, me, err);
}

static int open_file(const char *path, struct stat *st, char **text, size_t *len,
		     struct brig_error *err)
{
	/* O_NONBLOCK: a FIFO must not hang us; it is refused as no regular file */
	cleanup_close int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		int e = errno;
		err_set(err, BRIG_E_BAD_CONFIG, e, "config", "%.300s", path);
		err_fix(err, e == ENOENT ? "create it (brig config init), or name "
					   "another file" :
					   "make it readable");
		return -e;
	}
	int r = check_trust(fd, path, st, err);
	if (r < 0)
		return r;
	r = fd_read_all(fd, YAML_MAX_BYTES, text, len);
	if (r < 0) {
		err_set(err, BRIG_E_BAD_CONFIG, r == -EFBIG ? 0 : -r, "config",
			"%.300s%s", path, r == -EFBIG ? ": larger than 1M" : "");
		err_fix(err, "a configuration has at most 1M");
	}
	return r;
}

/* Paths in a file are relative to its directory, whatever the caller's is: they
 * are wanted absolute, without the ".." of a --config ../F. */
static int file_init(struct config_file *f, const char *path, enum layer_rank rank,
		     const char *layer)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *dir = slash ? strndup(path, slash == path ? 1 :
						 (size_t)(slash - path)) : strdup(".");
	big_buffer char real[PATH_MAX];

	*f = (struct config_file){ .rank = rank, .layer = layer, .path = strdup(path) };
	if (dir && realpath(dir, real))
		f->dir = strdup(real);
	return f->path && f->dir ? 0 : -ENOMEM;
}

/* Takes the file over. */
static int keep_file(struct config *c, struct config_file *f)
{
	struct config_file *v = realloc(c->file, (c->n + 1) * sizeof *v);

	if (!v)
		return -ENOMEM;
	c->file = v;
	v[c->n++] = *f;
	*f = (struct config_file){ 0 };
	return 0;
}

struct including {
	const struct including *by;
	unsigned long dev, ino;
	int depth;
};

static int read_one(struct config *c, const char *path, enum layer_rank rank,
		    const char *layer, const struct including *by,
		    struct brig_error *err);

static int include_one(struct config *c, const struct config_file *f,
		       const struct ynode *n, const struct including *by,
		       struct brig_error *err)
{
	if (n->kind != YAML_SCALAR || ynode_is_null(n))
		return config_complain(c, f, n, "include", "not a file name",
				       "write include: FILE or a list of files");
	cleanup_free char *path = config_path(c, f, n->text);
	if (!path)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "config", "include");
	if (by->depth >= CONFIG_MAX_INCLUDES)
		return config_complain(c, f, n, "include", "files include one another "
				       "too deeply", "include fewer, or write it out");
	struct brig_error why = { 0 };
	int r = read_one(c, path, f->rank, f->layer, by, &why);
	/* a complaint about the included file's content names that file already */
	if (r < 0 && (why.code != BRIG_E_BAD_CONFIG || !why.errnum)) {
		*err = why;
		return r;
	}
	return r < 0 ? config_complain(c, f, n, "include", why.message, why.fix) : 0;
}

static int read_includes(struct config *c, const struct config_file *f,
			 const struct including *by, struct brig_error *err)
{
	const struct ynode *inc = ynode_get(ydoc_root(f->doc), "include");
	int r = 0;

	if (!inc)
		return 0;
	if (inc->kind != YAML_LIST)
		return include_one(c, f, inc, by, err);
	for (size_t i = 0; i < inc->n && r == 0; i++)
		r = include_one(c, f, inc->item[i], by, err);
	return r;
}

static int parse_failed(struct config *c, const char *path, const struct ywhere *w,
			struct brig_error *err)
{
	if (w->line)
		err_set(err, BRIG_E_BAD_CONFIG, 0, "config", "%.200s:%u:%u: %s", path,
			w->line, w->column, w->what);
	else
		err_set(err, BRIG_E_BAD_CONFIG, 0, "config", "%.200s: %s", path, w->what);
	err_fix(err, "%s", w->fix[0] ? w->fix : "see brig help config");
	c->n_errors++;
	if (c->report)
		c->report(c->report_arg, err);
	return -EINVAL;
}

static int check_again(const struct including *by, const struct stat *st,
		       const struct config *c, const char *path, struct brig_error *err)
{
	for (const struct including *i = by; i; i = i->by)
		if (i->dev == st->st_dev && i->ino == st->st_ino) {
			err_set(err, BRIG_E_BAD_CONFIG, 0, "config",
				"%.300s includes itself", path);
			err_fix(err, "remove the include");
			err->errnum = ELOOP; /* not for its text, which speaks of links */
			return -ELOOP;
		}
	if (c->n < CONFIG_MAX_FILES)
		return 0;
	err_set(err, BRIG_E_BAD_CONFIG, 0, "config", "%.300s: more than %d files", path,
		CONFIG_MAX_FILES);
	err_fix(err, "include fewer files");
	err->errnum = EMFILE;
	return -EMFILE;
}

static int read_one(struct config *c, const char *path, enum layer_rank rank,
		    const char *layer, const struct including *by,
		    struct brig_error *err)
{
	cleanup_free char *text = NULL;
	size_t len = 0;
	struct stat st;
	struct ywhere where;
	struct config_file f;

	int r = open_file(path, &st, &text, &len, err);
	if (r == 0)
		r = check_again(by, &st, c, path, err);
	if (r < 0)
		return r;
	r = file_init(&f, path, rank, layer);
	if (r == 0) {
		r = ydoc_parse(text, len, &f.doc, &where);
		if (r < 0)
			r = parse_failed(c, path, &where, err);
	}
	const struct including me = { by, st.st_dev, st.st_ino,
				      by ? by->depth + 1 : 0 };
	/* what it includes comes first: the including file has the last word */
	if (r == 0)
		r = read_includes(c, &f, &me, err);
	if (r == 0)
		r = config_check_file(c, &f);
	if (r == 0)
		r = keep_file(c, &f);
	file_free(&f);
	if (r == -ENOMEM && err->code == BRIG_E_OK)
		err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "config", "%.300s", path);
	return r;
}

int config_read(struct config *c, const char *path, enum layer_rank rank,
		const char *layer, bool required, struct brig_error *err)
{
	struct stat st;

	/* a link that leads nowhere is no missing file: somebody put it there */
	if (!required && lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	struct brig_error why = { 0 };
	int r = read_one(c, path, rank, layer, NULL, &why);
	if (r < 0 && why.code == BRIG_E_OK)
		why = c->first;
	if (r < 0 && err)
		*err = why;
	return r;
}

int config_read_global(struct config *c, const char *named, struct brig_error *err)
{
	int r = config_read(c, BRIG_SYSTEM_CONFIG, RANK_SYSTEM, "system", false, err);
	if (r < 0)
		return r;
	if (named) {
		cleanup_free char *path = strcmp(named, "-") ? strdup(named) : NULL;
		if (!path) {
			err_set(err, BRIG_E_BAD_CONFIG, 0, "config",
				"--config: a file is needed");
			err_fix(err, "name a file, not '-'");
			return -EINVAL;
		}
		return config_read(c, path, RANK_USER, "user", true, err);
	}
	const char *xdg = getenv("XDG_CONFIG_HOME");
	cleanup_free char *path = NULL;
	if (xdg && xdg[0] == '/')
		path = str_fmt("%s/brig/config.yaml", xdg);
	else if (c->home)
		path = str_fmt("%s/.config/brig/config.yaml", c->home);
	else
		return 0;
	if (!path)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "config", "a path");
	return config_read(c, path, RANK_USER, "user", false, err);
}

char *config_path(const struct config *c, const struct config_file *f,
		  const char *path)
{
	if (path[0] == '~' && (path[1] == '/' || !path[1]))
		return c->home ? str_fmt("%s%s", c->home, path + 1) : NULL;
	if (path[0] == '/')
		return strdup(path);
	return str_fmt("%s/%s", f->dir, path);
}
