/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/plan_internal.h"

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif

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
	return op;
}

static bool covers(enum op_kind kind)
{
	return kind == OP_BIND || kind == OP_PROC || kind == OP_DEVPTS;
}

/* Linear in the number of operations that matter: called once per bind with a
 * few components each, and it looks for directories brig made, of which there
 * are few.  Binds of a caller usually share parents; the search runs backwards
 * so that it finds them first. */
bool plan_parents(struct planner *pl, const char *dst)
{
	struct plan *p = pl->p;
	char part[PATH_MAX];
	size_t len = strlen(dst), from = 0;

	if (len >= sizeof part) {
		pl->failed = true;
		return false;
	}
	/* the deepest place that exists already */
	for (size_t i = p->n_ops; i-- > 0;) {
		const struct plan_op *op = &p->ops[i];
		if (op->kind == OP_SYMLINK || op->kind == OP_FILE ||
		    op->kind == OP_MASK || op->kind == OP_RO || op->kind == OP_PIN)
			continue;
		size_t n = strlen(op->dst);
		if (n <= from || n >= len || !path_is_under(dst, op->dst))
			continue;
		from = n;
		if (covers(op->kind))
			return false;
	}
	for (size_t i = from + 1; i < len; i++) {
		if (dst[i] != '/')
			continue;
		memcpy(part, dst, i);
		part[i] = '\0';
		plan_add(pl, OP_DIR, part, 0);
	}
	return true;
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
	if (plan_parents(pl, dst))
		flags |= OPF_MKPOINT;
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
	unsigned own = plan_parents(pl, dst) ? OPF_MKPOINT : 0;
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
	const struct placed fixed[] = {
		{ "/tmp", NULL, "tmp", 01777 },
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
		bool taken = !fixed[i].bind && streq(fixed[i].dst, s->workspace.dst);
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
	char path[PATH_MAX];

	for (size_t i = 0; i < p->protect.n; i++) {
		const struct protect_entry *e = &p->protect.v[i];
		if (e->kind != PROTECT_RO && e->kind != PROTECT_PIN)
			continue;
		int n = snprintf(path, sizeof path, "%s/%s", p->spec->workspace.dst,
				 e->path);
		if (n < 0 || (size_t)n >= sizeof path) {
			pl->failed = true;
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

/* argv[0] without a slash is looked up in the PATH inside. */
static int plan_exec_paths(struct plan *p)
{
	const char *name = p->spec->argv[0];
	const char *path = "/usr/bin:/bin";

	if (strchr(name, '/'))
		return strv_add(&p->exec_paths, name);
	for (char **e = p->spec->env; e && *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	for (;;) {
		size_t n = strcspn(path, ":");
		/* an empty element means the working directory: the workspace is
		 * hostile, so it is never searched by accident */
		if (n > 0 && path[0] == '/') {
			int r = strv_take(&p->exec_paths,
					  str_fmt("%.*s/%s", (int)n, path, name));
			if (r < 0)
				return r;
		}
		if (!path[n])
			return p->exec_paths ? 0 : strv_add(&p->exec_paths, name);
		path += n + 1;
	}
}

int plan_build(struct plan *p, const struct spec *s, struct brig_error *err)
{
	*p = (struct plan){ .spec = s, .hostname = "sandbox" };
	struct planner pl = { .p = p };

	int r = protect_scan(&p->protect, s->workspace.fd,
			     (const char *const *)s->protect, s->id, err);
	if (r < 0)
		goto fail;
	p->clone_flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
			 CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP |
			 (s->net == NET_NONE ? CLONE_NEWNET : 0);

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

	p->cwd = *s->cwd ? str_fmt("%s/%s", s->workspace.dst, s->cwd) :
			   strdup(s->workspace.dst);
	if (pl.failed || !p->cwd || plan_exec_paths(p) < 0) {
		r = err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "plan", "planning");
		goto fail;
	}
	return 0;
fail:
	plan_free(p);
	return r;
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
