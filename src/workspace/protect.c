/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at the workspace before a run: which protected paths exist, as
 * what, and which do not (protect_scan.c, protect_git.c); and the mark by which other runs
 * know of this one.  protect_sweep.c looks again afterwards.
 */
#include "workspace/protect.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "workspace/protect_scan.h"

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

	/* The sweep goes by this order as well: what appears at an absent path is moved as
	 * a whole, not what is in it first. */
	if (p->n)
		qsort(p->v, p->n, sizeof p->v[0], by_path);
	for (size_t i = 0; i < p->n; i++) {
		/* the entry's own slot may be reused, so look before moving;
		 * a parent sorts first and is never dropped for its child */
		struct protect head = { .v = p->v, .n = kept };
		if (p->v[i].kind != PROTECT_WATCHED && below_read_only(&head, p->v[i].path))
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

/* One byte for a run, and behind it one for whatever can be at a path: see mark_of(). */
enum { MARK = 0x62726967, MARK_BITS = 62 };

static struct flock mark_at(short type, off_t from, off_t len)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = MARK + from,
			       .l_len = len };
}

static bool marked_by_another(const struct protect *p, off_t at)
{
	struct flock other = mark_at(F_WRLCK, at, 1);

	return p->blind || fcntl(p->lock, F_OFD_GETLK, &other) < 0 || other.l_type != F_UNLCK;
}

bool protect_shared(const struct protect *p)
{
	return marked_by_another(p, 0);
}

/*
 * A mark on the workspace's directory that other runs see, and that ends with us: a lock on
 * bytes far out, which nobody waits for.  That we hold it comes before the question who
 * else does: of two that begin at once both know.
 */
static void mark(struct protect *p, int wsfd)
{
	struct flock own = mark_at(F_RDLCK, 0, 1 + ((off_t)1 << MARK_BITS));

	p->lock = openat(wsfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->marked = p->lock >= 0;
	p->blind = !p->marked || fcntl(p->lock, F_OFD_SETLK, &own) < 0;
	p->others = protect_shared(p);
}

/*
 * Not by the path alone: our command may put something else there, and whoever finds that is
 * to doubt it.  What we hold open keeps its inode number to itself, and nobody can choose the time
 * of a link's change; so many bits, so that nobody tries until it fits.
 */
static off_t mark_of(const struct protect_entry *e)
{
	const bool link = e->kind == PROTECT_SYMLINK;
	const uint64_t what[] = { e->dev, e->ino, link ? (uint64_t)e->ctime.tv_sec : 0,
				  link ? (uint64_t)e->ctime.tv_nsec : 0 };
	uint64_t v = e->hash;

	for (size_t i = 0; i < sizeof what / sizeof what[0]; i++) {
		v = (v ^ what[i]) * 0x9e3779b97f4a7c15u;
		v ^= v >> 32;
	}
	return 1 + (off_t)(v >> (64 - MARK_BITS));
}

/* A link, or a directory on the way, that was there without any doubt is not marked any longer:
 * those who find it now need not doubt it because of us. */
static void unmark_found(struct protect *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct protect_entry *e = &p->v[i];
		if (e->kind != PROTECT_SYMLINK && e->kind != PROTECT_PIN)
			continue;
		const off_t at = mark_of(e);
		struct flock none = mark_at(F_UNLCK, at, 1);
		e->doubt = p->others && marked_by_another(p, at);
		if (!e->doubt && !p->blind)
			fcntl(p->lock, F_OFD_SETLK, &none);
	}
}

/*
 * What is held open must leave enough for the run, and for the sweep: what that cannot look
 * at it moves aside.  Descriptors are given out from below.
 */
static int check_room(const struct scan *s)
{
	enum { SPARE = 40 };
	struct rlimit limit = { 0 };
	int top = 0;

	for (size_t i = 0; i < s->p->n; i++)
		top = s->p->v[i].fd > top ? s->p->v[i].fd : top;
	if (!top || getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
	    limit.rlim_cur > (rlim_t)top + SPARE)
		return 0;
	return -EMFILE;
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

int protect_scan(struct protect *p, int wsfd, const char *root,
		 const char *const *patterns, const char *id, struct brig_error *err)
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
		return scan_no_memory(&s);
	mark(p, wsfd); /* before anything is looked at */
	if (!root || snprintf(s.root, sizeof s.root, "%s", root) >= (int)sizeof s.root)
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
		r = scan_no_memory(&s);
	if (r >= 0 && !s.failed)
		s.failed = check_room(&s);
	r = s.failed ? s.failed : r;
	if (r < 0) {
		/* whatever came of it; or a read that failed, of what was opened */
		if (s.failed || (err && err->code == BRIG_E_OK))
			err_set(err, BRIG_E_BAD_WORKSPACE, -r, "protect",
				"cannot look at what is protected in the workspace");
		protect_free(p);
		return r;
	}
	settle(p);
	unmark_found(p);
	return 0;
}

void protect_free(struct protect *p)
{
	for (size_t i = 0; i < p->n; i++)
		free_entry(&p->v[i]);
	free(p->v);
	free(p->root);
	if (p->marked)
		fd_close(&p->lock);
	*p = (struct protect){ .n = 0 };
}
