/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "plan/plan_internal.h"

const char *plan_op_name(enum op_kind kind)
{
	static const char *const names[] = {
		[OP_DIR] = "dir",	  [OP_SYMLINK] = "symlink",
		[OP_FILE] = "file",	  [OP_BIND] = "bind",
		[OP_SCRATCH] = "tmpfs",	  [OP_PROC] = "proc",
		[OP_DEVPTS] = "devpts",	  [OP_MASK] = "mask",
		[OP_RO] = "read-only",	  [OP_PIN] = "pin",
	};
	return (unsigned)kind < ARRAY_LEN(names) ? names[kind] : "?";
}

static bool is_place(enum op_kind kind);
static void remember(struct planner *pl, size_t i);

/* A tree of the host, or one whose content the kernel makes. */
static bool covers(enum op_kind kind)
{
	return kind == OP_BIND || kind == OP_PROC || kind == OP_DEVPTS;
}

struct plan_op *plan_add(struct planner *pl, enum op_kind kind, const char *dst,
			 unsigned flags)
{
	struct plan *p = pl->p;

	if (pl->failed)
		return NULL;
	if (p->n_ops == pl->cap_ops) {
		size_t cap = pl->cap_ops ? pl->cap_ops * 2 : 128;
		struct plan_op *v = realloc(p->ops, cap * sizeof *v);
		if (!v) {
			pl->failed = true;
			return NULL;
		}
		p->ops = v;
		pl->cap_ops = cap;
	}
	struct plan_op *op = &p->ops[p->n_ops];
	*op = (struct plan_op){ .kind = kind, .flags = flags, .mode = 0755 };
	op->dst = strdup(dst);
	if (!op->dst) {
		pl->failed = true;
		return NULL;
	}
	p->n_ops++;
	if (is_place(kind))
		remember(pl, p->n_ops - 1);
	return &p->ops[p->n_ops - 1];
}


/* Whether something can be mounted or made below what this operation makes. */
static bool is_place(enum op_kind kind)
{
	return kind == OP_DIR || kind == OP_SCRATCH || covers(kind);
}

static size_t slot_of(const struct planner *pl, const char *path, size_t len)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)path[i]) * 1099511628211u;
	size_t at = (size_t)(h ^ h >> 32) & (pl->cap_places - 1);
	for (;; at = (at + 1) & (pl->cap_places - 1)) {
		uint32_t op = pl->places[at];
		if (!op)
			return at;
		const char *dst = pl->p->ops[op - 1].dst;
		if (strncmp(dst, path, len) == 0 && dst[len] == '\0')
			return at;
	}
}

/* Remembers operation i as a place; the latest at a path is the one on top. */
static void remember(struct planner *pl, size_t i)
{
	if (pl->failed)
		return;
	if (2 * pl->n_places >= pl->cap_places) {
		size_t cap = pl->cap_places ? 2 * pl->cap_places : 256;
		uint32_t *old = pl->places;
		size_t n = pl->cap_places;
		pl->places = calloc(cap, sizeof *pl->places);
		if (!pl->places) {
			pl->places = old;
			pl->failed = true;
			return;
		}
		pl->cap_places = cap;
		for (size_t k = 0; k < n; k++) {
			const char *dst = old[k] ? pl->p->ops[old[k] - 1].dst : NULL;
			if (dst)
				pl->places[slot_of(pl, dst, strlen(dst))] = old[k];
		}
		free(old);
	}
	const char *dst = pl->p->ops[i].dst;
	size_t at = slot_of(pl, dst, strlen(dst));
	pl->n_places += pl->places[at] == 0;
	pl->places[at] = (uint32_t)i + 1;
}

unsigned plan_parents(struct planner *pl, const char *dst)
{
	big_buffer char part[PATH_MAX];
	size_t len = strlen(dst), from = 0;

	if (len >= sizeof part) {
		pl->failed = pl->too_long = true;
		return 0;
	}
	/* Upwards to the deepest place that exists.  A tree of the host further
	 * up that came later has covered it. */
	uint32_t found = 0;
	for (size_t i = len; i-- > 1 && pl->cap_places;) {
		if (dst[i] != '/')
			continue;
		uint32_t op = pl->places[slot_of(pl, dst, i)];
		if (op > found && covers(pl->p->ops[op - 1].kind))
			return 0;
		if (op && !found) {
			found = op;
			from = i;
		}
	}
	/* and down again, making what is missing */
	for (size_t i = from + 1; i < len; i++) {
		if (dst[i] != '/')
			continue;
		memcpy(part, dst, i);
		part[i] = '\0';
		plan_add(pl, OP_DIR, part, 0);
	}
	return OPF_MKPOINT;
}

void plan_rule(struct planner *pl, enum ll_class class, const char *path,
	       bool is_dir)
{
	struct plan *p = pl->p;

	if (pl->failed)
		return;
	if (p->n_rules == pl->cap_rules) {
		size_t cap = pl->cap_rules ? pl->cap_rules * 2 : 32;
		struct plan_rule *v = realloc(p->rules, cap * sizeof *v);
		if (!v) {
			pl->failed = true;
			return;
		}
		p->rules = v;
		pl->cap_rules = cap;
	}
	char *copy = strdup(path);
	if (!copy) {
		pl->failed = true;
		return;
	}
	p->rules[p->n_rules++] = (struct plan_rule){ class, is_dir, copy };
}

void plan_bind(struct planner *pl, const char *src, const char *dst,
	       unsigned flags)
{
	flags |= plan_parents(pl, dst);
	struct plan_op *op = plan_add(pl, OP_BIND, dst, flags);
	if (op && !(op->src = strdup(src)))
		pl->failed = true;
}

void plan_file(struct planner *pl, const char *dst, char *text, mode_t mode)
{
	plan_parents(pl, dst);
	struct plan_op *op = plan_add(pl, OP_FILE, dst, 0);
	if (!op || !text) {
		free(text);
		pl->failed = true;
		return;
	}
	op->text = text;
	op->mode = mode;
}

static void add_scratch(struct planner *pl, const char *name, const char *dst,
			mode_t mode)
{
	unsigned own = plan_parents(pl, dst);
	struct plan_op *op = plan_add(pl, OP_SCRATCH, dst, OPF_DIR | own);
	if (!op)
		return;
	op->mode = mode;
	op->src = strdup(name);
	if (!op->src)
		pl->failed = true;
	plan_rule(pl, LL_WRITE, dst, true);
}

static void add_bind(struct planner *pl, const struct spec_bind *b)
{
	plan_bind(pl, b->src, b->dst,
		  OPF_USER | OPF_IDENTITY | (b->writable ? 0 : OPF_RO) |
			  (b->is_dir ? OPF_DIR : 0));
	if (pl->failed)
		return;
	struct plan_op *op = &pl->p->ops[pl->p->n_ops - 1];
	op->bind = b;
	op->dev = b->dev;
	op->ino = b->ino;
	if (b->writable)
		plan_rule(pl, LL_WRITE, b->dst, b->is_dir);
}

/* Something mounted after the system: a caller's bind or a private tree. */
struct placed {
	const char *dst;
	const struct spec_bind *bind; /* NULL: private tree */
	const char *name;
	mode_t mode;
};

static int by_dst(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	return strcmp(x->dst, y->dst);
}

/*
 * The caller's binds, the workspace and the private trees, parents before
 * children: a sorted list of normalised paths has that order.  So a bind of
 * /home cannot cover the private HOME, whatever the order of the options.
 */
static void plan_placed(struct planner *pl)
{
	const struct spec *s = pl->p->spec;
	/* /var/tmp is a link to /tmp, unless something has to appear below it */
	bool var_tmp = path_is_under(s->workspace.dst, "/var/tmp");
	for (size_t i = 0; i < s->n_binds; i++)
		var_tmp = var_tmp || path_is_under(s->binds[i].dst, "/var/tmp");
	if (!var_tmp) {
		struct plan_op *op = plan_add(pl, OP_SYMLINK, "/var/tmp", 0);
		if (op && !(op->text = strdup("../tmp")))
			pl->failed = true;
	}
	const struct placed fixed[] = {
		{ "/tmp", NULL, "tmp", 01777 },
		{ var_tmp ? "/var/tmp" : "/tmp", NULL, "var-tmp", 01777 },
		{ "/dev/shm", NULL, "shm", 01777 },
		{ s->home, NULL, "home", 0700 },
		{ s->workspace.dst, &s->workspace, NULL, 0 },
	};
	struct placed *v = calloc(s->n_binds + ARRAY_LEN(fixed), sizeof *v);
	size_t n = 0;

	if (!v) {
		pl->failed = true;
		return;
	}
	for (size_t i = 0; i < s->n_binds; i++)
		v[n++] = (struct placed){ s->binds[i].dst, &s->binds[i], NULL, 0 };
	size_t callers = n;
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		/* what the caller puts at exactly such a place replaces it */
		bool taken = !fixed[i].bind && (streq(fixed[i].dst, s->workspace.dst) ||
						(i == 1 && !var_tmp));
		for (size_t j = 0; j < callers && !taken; j++)
			taken = streq(v[j].dst, fixed[i].dst);
		if (!taken)
			v[n++] = fixed[i];
	}
	qsort(v, n, sizeof *v, by_dst);
	for (size_t i = 0; i < n && !pl->failed; i++) {
		if (v[i].bind)
			add_bind(pl, v[i].bind);
		else
			add_scratch(pl, v[i].name, v[i].dst, v[i].mode);
	}
	free(v);
}

/* Existing protected paths become read-only mounts of themselves. */
static void plan_protect(struct planner *pl)
{
	struct plan *p = pl->p;
	big_buffer char path[PATH_MAX];

	for (size_t i = 0; i < p->protect.n; i++) {
		const struct protect_entry *e = &p->protect.v[i];
		if (e->kind != PROTECT_RO && e->kind != PROTECT_PIN)
			continue;
		int n = snprintf(path, sizeof path, "%s/%s", p->spec->workspace.dst,
				 e->path);
		if (n < 0 || (size_t)n >= sizeof path) {
			pl->failed = pl->too_long = true;
			return;
		}
		struct plan_op *op = plan_add(
			pl, e->kind == PROTECT_RO ? OP_RO : OP_PIN, path,
			OPF_IDENTITY | (e->is_dir ? OPF_DIR : 0));
		if (op) {
			op->dev = e->dev;
			op->ino = e->ino;
		}
	}
}

/* Whether it is mounted on a tree of the caller's or the host's, and covers what is there. */
static bool op_covers(const struct plan_op *op)
{
	switch (op->kind) {
	case OP_BIND:
	case OP_SCRATCH:
		return !(op->flags & OPF_MKPOINT); /* its mount point was there before us */
	case OP_RO:
	case OP_PIN:
		return op->flags & OPF_IDENTITY; /* a protected path */
	case OP_MASK:
		return op->flags & OPF_USER;
	default:
		return false;
	}
}

/*
 * Whether anything is mounted below a tree of the caller's.  Such a mount covers
 * what is there, and a descriptor of the tree can outlive the sandbox (handed on
 * over a socket): see lock_mounts().  What is mounted on brig's own tmpfs and
 * procfs covers nothing that anybody else has.
 */
static bool covers_callers_tree(const struct plan *p)
{
	for (size_t i = 0; i < p->n_ops; i++)
		if (op_covers(&p->ops[i]))
			return true;
	return false;
}

/* Which trees of the system's are not to be seen, as the caller has put one of his at the same
 * place or above it. */
static void plan_hide(struct planner *pl)
{
	for (size_t k = 0; k < pl->p->n_ops && !pl->failed; k++) {
		struct plan_op *op = &pl->p->ops[k];
		if (op->kind != OP_BIND || op->bind)
			continue;
		for (size_t i = strlen(op->dst); i > 0; i--) {
			uint32_t on = op->dst[i] == '/' || !op->dst[i] ?
					      pl->places[slot_of(pl, op->dst, i)] : 0;
			if (on > k + 1 && pl->p->ops[on - 1].bind)
				op->flags |= OPF_HIDDEN;
		}
	}
}

int plan_exec_paths(char **argv, char **env, char ***paths)
{
	const char *name = argv[0];
	const char *path = "/usr/bin:/bin";

	if (strchr(name, '/'))
		return strv_add(paths, name);
	for (char **e = env; e && *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	for (;;) {
		size_t n = strcspn(path, ":");
		/* an empty element means the working directory: the workspace is
		 * hostile, so it is never searched by accident */
		if (n > 0 && path[0] == '/') {
			int r = strv_take(paths, str_fmt("%.*s/%s", (int)n, path, name));
			if (r < 0)
				return r;
		}
		if (!path[n] && *paths)
			return 0;
		/* nothing usable in it: the places every system has */
		path = path[n] ? path + n + 1 : "/usr/bin:/bin";
	}
}

int plan_look(struct plan *p, const struct spec *s, struct brig_error *err)
{
	*p = (struct plan){ .spec = s, .hostname = "sandbox" };
	int r = protect_scan(&p->protect, s->workspace.fd, s->workspace.src,
			     (const char *const *)s->protect, s->id, err);
	if (r < 0)
		plan_free(p);
	return r;
}

int plan_finish(struct plan *p, struct brig_error *err)
{
	const struct spec *s = p->spec;
	struct planner pl = { .p = p };

	/* One rule lets everything in the tree be read and executed: the tree
	 * holds only what the policy shows.  Writing is granted by name. */
	plan_rule(&pl, LL_READ, "/", true);
	plan_system(&pl);
	plan_etc(&pl);
	plan_dev(&pl);
	plan_proc(&pl);
	plan_placed(&pl);
	plan_protect(&pl);
	for (char **m = s->masks; m && *m; m++)
		plan_add(&pl, OP_MASK, *m, OPF_USER);
	/* what is gone by now needs no mask */
	for (char **m = s->key_masks; m && *m; m++)
		plan_add(&pl, OP_MASK, *m, OPF_USER | OPF_OPTIONAL);

	plan_hide(&pl);
	p->lock = covers_callers_tree(p);
	p->cwd = *s->cwd ? str_fmt("%s/%s", s->workspace.dst, s->cwd) :
			   strdup(s->workspace.dst);
	free(pl.places);
	if (!pl.failed && p->cwd &&
	    plan_exec_paths(s->argv, s->env, &p->exec_paths) == 0)
		return 0;
	plan_free(p);
	if (!pl.too_long)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "plan", "planning");
	err_set(err, BRIG_E_BAD_MOUNT, ENAMETOOLONG, "plan",
		"something in the workspace, or what is shown, would have a path inside");
	err_fix(err, "show it under a shorter one: --at DIR, or SRC:DST");
	return -ENAMETOOLONG;
}

int plan_build(struct plan *p, const struct spec *s, struct brig_error *err)
{
	int r = plan_look(p, s, err);

	return r < 0 ? r : plan_finish(p, err);
}

void plan_free(struct plan *p)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		free(p->ops[i].dst);
		free(p->ops[i].src);
		free(p->ops[i].text);
	}
	free(p->ops);
	for (size_t i = 0; i < p->n_rules; i++)
		free(p->rules[i].path);
	free(p->rules);
	protect_free(&p->protect);
	free(p->cwd);
	strv_free(p->exec_paths);
	*p = (struct plan){ 0 };
}
