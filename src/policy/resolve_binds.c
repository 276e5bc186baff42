/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of the host besides the workspace, and what of it is hidden. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/resolve.h"
#include "policy/resolve_internal.h"

/* Trees brig builds itself: nothing may be put there or above. */
static const char *const own_trees[] = { "/proc", "/dev", "/sys" };
/* Trees that come from the host read-only: a workspace may not replace them. */
static const char *const system_trees[] = {
	"/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/boot", "/var", "/run",
};

int bind_identify(struct spec_bind *b, const struct stat *st, const char *real)
{
	if (st->st_nlink == 0)
		return -ENOENT;
	if (!real) {
		big_buffer char path[PATH_MAX];
		int r = fd_real_path(b->fd, path, sizeof path);
		if (r < 0)
			return r;
		b->src = strdup(path);
	} else {
		b->src = strdup(real);
	}
	b->dev = st->st_dev;
	b->ino = st->st_ino;
	b->is_dir = S_ISDIR(st->st_mode);
	b->owner_uid = st->st_uid;
	b->owner_gid = st->st_gid;
	return b->src ? 0 : -ENOMEM;
}

static bool hits(const char *path, const char *const *trees, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (path_is_under(path, trees[i]) ||
		    path_is_under(trees[i], path))
			return true;
	return false;
}

bool path_hits_own(const char *path)
{
	return hits(path, own_trees, ARRAY_LEN(own_trees));
}

bool path_hits_system(const char *path)
{
	return hits(path, system_trees, ARRAY_LEN(system_trees));
}

/* Splits SRC[:DST]; "\:" is a colon in a name. */
static int split_bind(const char *text, char **src, char **dst)
{
	char *s = malloc(strlen(text) + 1);
	if (!s)
		return -ENOMEM;
	size_t n = 0;
	const char *p = text;
	for (; *p && *p != ':'; p++) {
		if (*p == '\\' && p[1] == ':')
			p++;
		s[n++] = *p;
	}
	s[n] = '\0';
	*src = s;
	*dst = *p ? strdup(p + 1) : NULL;
	return *p && !*dst ? -ENOMEM : 0;
}

/* Room for one more; it counts when n_binds is raised. */
static struct spec_bind *next_bind(struct spec *s)
{
	if ((s->n_binds & (s->n_binds - 1)) == 0) { /* a power of two */
		size_t cap = s->n_binds ? 2 * s->n_binds : 1;
		struct spec_bind *v = realloc(s->binds, cap * sizeof *v);
		if (!v)
			return NULL;
		s->binds = v;
	}
	struct spec_bind *b = &s->binds[s->n_binds];
	*b = (struct spec_bind){ .fd = -1 };
	return b;
}

int bind_add(struct spec *s, int fd, const struct stat *st, const char *real,
	     const char *dst)
{
	struct spec_bind *b = next_bind(s);

	if (!b) {
		close(fd);
		return -ENOMEM;
	}
	b->fd = fd;
	b->dst = strdup(dst);
	s->n_binds++; /* from here on spec_free() owns it */
	return b->dst ? bind_identify(b, st, real) : -ENOMEM;
}

bool is_kernel_fs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC ||
	       fs.f_type == SYSFS_MAGIC;
}

/* Nothing is shown of, or put in the place of, what brig makes itself. */
static int check_own(const struct spec_bind *b, const char *opt, const char *text,
		     struct brig_error *err)
{
	if (!streq(b->dst, "/") && !streq(b->src, "/") && !is_kernel_fs(b->fd) &&
	    !path_hits_own(b->dst) && !path_hits_own(b->src))
		return 0;
	err_set(err, BRIG_E_BAD_MOUNT, 0, "policy",
		"%s %.200s: '/' and brig's own /proc, /dev and /sys cannot be "
		"replaced or shared", opt, text);
	err_fix(err, "name the trees that are needed, one by one");
	return -EINVAL;
}

/* opt is what the bind was written under, for messages. */
static int add_bind(struct spec *s, const char *text, bool writable,
		    const char *opt, struct brig_error *err)
{
	cleanup_free char *src = NULL, *dst = NULL;

	struct spec_bind *b = next_bind(s);
	if (!b || split_bind(text, &src, &dst) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "%s", opt);
	b->writable = writable;
	/* An empty source must never become "the whole root" or ".". */
	if (!*src || (dst && !*dst)) {
		err_set(err, BRIG_E_BAD_MOUNT, 0, "policy",
			"%s %.200s: an empty path", opt, text);
		err_fix(err, "write SRC or SRC:DST");
		return -EINVAL;
	}
	big_buffer char real[PATH_MAX];
	b->fd = fd_open_real(AT_FDCWD, src, real, sizeof real);
	if (b->fd < 0) {
		int e = -b->fd;
		err_set(err, BRIG_E_BAD_MOUNT, e, "policy", "%s %.200s", opt, src);
		err_fix(err, "create it first, or leave the option out; a missing "
			     "source is never skipped");
		return -e;
	}
	s->n_binds++; /* from here on spec_free() owns it */
	struct stat st;
	int r = fstat(b->fd, &st) < 0 ? -errno : bind_identify(b, &st, real);
	if (r < 0) {
		err_set(err, BRIG_E_BAD_MOUNT, -r, "policy", "%s %.200s", opt, src);
		err_fix(err, "give a path that exists");
		return r;
	}
	if (!dst) {
		/* as the caller wrote it, so that links to it keep working */
		big_buffer char cwd[PATH_MAX];
		if (src[0] == '/')
			dst = strdup(src);
		else if (getcwd(cwd, sizeof cwd))
			dst = str_fmt("%s/%s", cwd, src);
		if (!dst)
			return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "%s", opt);
	}
	r = path_normalise(dst, &b->dst);
	if (r < 0) {
		err_set(err, BRIG_E_BAD_MOUNT, 0, "policy",
			"%s: the target '%.200s' is not an absolute path without '..'",
			opt, dst);
		err_fix(err, "write the target as an absolute path: SRC:/DST");
		return r;
	}
	return check_own(b, opt, text, err);
}

static int by_text(const void *x, const void *y)
{
	return strcmp(*(char *const *)x, *(char *const *)y);
}

static int check_overlap(const struct spec *s, struct brig_error *err)
{
	const size_t n = s->n_binds + 1;
	cleanup_free char **dst = calloc(n, sizeof *dst);

	if (!dst)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "binds");
	for (size_t i = 0; i < n; i++)
		dst[i] = i ? s->binds[i - 1].dst : s->workspace.dst;
	qsort(dst, n, sizeof *dst, by_text);
	for (size_t i = 1; i < n; i++)
		if (streq(dst[i - 1], dst[i])) {
			err_set(err, BRIG_E_BAD_MOUNT, 0, "policy",
				"two binds would appear at %.200s", dst[i]);
			err_fix(err, "give each a target of its own: SRC:DST");
			return -EINVAL;
		}
	return 0;
}

/* The command would start in a place that it may not enter.  Links on the way are the
 * kernel's to follow, and it is told of later. */
static int check_mask_place(const struct spec *s, const char *mask, const char *label,
			    struct brig_error *err)
{
	cleanup_free char *in = str_fmt("%s/%s", s->workspace.dst, s->cwd), *norm = NULL;
	bool all = path_is_under(s->workspace.dst, mask);

	if (!all && (!in || path_normalise(in, &norm) < 0 || !path_is_under(norm, mask)))
		return 0;
	err_set(err, BRIG_E_BAD_MOUNT, 0, "policy", "%s: '%.200s' would hide the %s", label, mask,
		all ? "workspace" : "working directory");
	err_fix(err, "mask what is in it, or give another %s", all ? "--workspace" : "--cwd");
	return -EINVAL;
}

static int resolve_masks(const struct brig_spec *rq, struct spec *s,
			 struct brig_error *err)
{
	char label[300];
	size_t n = 0, kept = strv_len(s->masks);

	for (char **m = rq->o[OPT_MASK].v; m && *m; m++, n++) {
		char *norm = NULL;
		int r = path_normalise(*m, &norm);
		if (r < 0 || streq(norm, "/") ||
		    path_hits_own(norm)) {
			free(norm);
			request_label(rq, OPT_MASK, n, label, sizeof label);
			err_set(err, BRIG_E_BAD_MOUNT, 0, "policy",
				"%s: '%.200s' cannot be masked", label, *m);
			err_fix(err, "give an absolute path below / other than /proc, "
				     "/dev and /sys");
			return -EINVAL;
		}
		r = strv_put(&s->masks, &kept, norm);
		if (r < 0)
			return err_set(err, BRIG_E_NO_MEMORY, -r, "policy", "--mask");
		request_label(rq, OPT_MASK, n, label, sizeof label);
		r = check_mask_place(s, norm, label, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int check_locked_path(const struct brig_spec *rq, enum opt o, const char *real,
		      struct brig_error *err)
{
	big_buffer char top[PATH_MAX];
	char where[300];

	if (!rq->lock[o].layer || !rq->o[o].here)
		return 0;
	for (char **l = rq->locked[o]; l && *l; l++) {
		cleanup_free char *src = NULL, *dst = NULL;
		if (split_bind(*l, &src, &dst) == 0 && realpath(src, top) &&
		    path_is_under(real, top))
			return 0;
	}
	origin_text(&rq->lock[o], where, sizeof where);
	err_set(err, BRIG_E_LOCKED, 0, "policy",
		"%s: %.200s lies outside of what is locked at %s", opt_table[o].key, real,
		where);
	err_fix(err, "leave it out; only the lock's author can open it");
	return -EPERM;
}

static int add_binds(const struct brig_spec *rq, enum opt o, bool writable,
		     struct spec *s, struct brig_error *err)
{
	char label[300];
	size_t n = 0;
	int r = 0;

	for (char **b = rq->o[o].v; r == 0 && b && *b; b++, n++) {
		request_label(rq, o, n, label, sizeof label);
		r = add_bind(s, *b, writable, label, err);
		if (r == 0)
			r = check_locked_path(rq, o, s->binds[s->n_binds - 1].src, err);
	}
	return r;
}

int resolve_binds(const struct brig_spec *rq, struct spec *s, const struct home *home,
		  struct brig_error *err)
{
	int r = add_binds(rq, OPT_RO, false, s, err);

	if (r == 0)
		r = add_binds(rq, OPT_RW, true, s, err);
	if (r == 0)
		r = check_overlap(s, err);
	if (r == 0)
		r = resolve_masks(rq, s, err);
	return r == 0 ? resolve_tools(rq, s, home, err) : r;
}
