/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two halves of the sweep share: names that may not be there, and git
 * directories, which are found by reading their indexes.  No allocation and no
 * stdio.
 */
#ifndef WORKSPACE_PROTECT_SWEEP_H
#define WORKSPACE_PROTECT_SWEEP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "workspace/gitindex.h"
#include "workspace/protect.h"

/*
 * Some of the callers have small stacks.  What is large is here once, and the levels
 * of nesting (GITINDEX_NESTING) share it.
 */
struct sweep {
	const struct protect *p;
	const struct protect_hooks *hooks;
	int wsfd;
	int moved, error;
	int sealed; /* 0 not asked yet, 1 yes, -1 no */
	struct timespec end; /* of the time for patterns with "*" */
	char missing[NAME_MAX + 1]; /* in the workspace itself, just looked for */
	char *path; /* of the place being looked at, for the report */
	size_t len, cap;
	struct gitindex_work work;
};

/* Another place that s->path tells about for a while. */
struct detour {
	char *path;
	size_t len, cap;
};

/* Keeps the first error. */
void sweep_error(struct sweep *s, int r);

/* The path that is told about: one name more (false: too long), cut back, another
 * one for a while, and back to the first. */
bool sweep_push(struct sweep *s, const char *name);
void sweep_cut(struct sweep *s, size_t len);
struct detour sweep_detour(struct sweep *s, char *buf, size_t cap);
void sweep_back(struct sweep *s, const struct detour *d);

/* The i-th PATH_MAX bytes of the buffer, for what is done with at once. */
char *sweep_scratch(struct sweep *s, int i);

/* Takes the first component off *rest; false when there is none. */
bool sweep_name(const char **rest, char name[NAME_MAX + 1]);
/* The path was there before. */
bool sweep_known(const struct protect *p, const char *path);
/* Moves what s->path names aside, or where the disk is full removes it, and tells.  0 or
 * -errno. */
int sweep_aside(struct sweep *s, int dfd, const char *name);
/* Looks for `rest`, which was absent, below dfd (the place s->path names).  0, or -EDQUOT
 * when that takes too long: then dfd may not stay. */
int sweep_absent(struct sweep *s, int dfd, const char *rest, enum protect_check check);

/* protect_sweep_git.c: the repository of the workspace itself. */
void sweep_repository(struct sweep *s);

#endif
