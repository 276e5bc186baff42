/* SPDX-License-Identifier: Apache-2.0 */
/* The look at a workspace before a run, as its files share it. */
#ifndef WORKSPACE_PROTECT_SCAN_H
#define WORKSPACE_PROTECT_SCAN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "workspace/protect.h"

struct gitindex_work;

struct scan {
	struct protect *p;
	struct brig_error *err;
	size_t cap;
	int wsfd, links;
	int failed; /* -errno of an open that failed for want of something of ours */
	int inside;  /* names looked at in protected directories, for this pattern */
	int configs; /* read so far: they may include each other in circles */
	/* The last path that needs no second look, as it is absent or leads out of the
	 * workspace: much of the list lies below .git. */
	char done[64];
	bool done_absent; /* which of the two */
	bool no_git;      /* .git is such a path */
	/* The length of hashes by the config that was read last; 0: ask gitsafe_hash_at(). */
	size_t hash;
	char root[PATH_MAX]; /* the workspace's path, to recognise absolute links into it */
	struct gitindex_work *work; /* while indexes are read */
};

/*
 * One place in a walk: what is resolved, and what is left to resolve.  The
 * scratch buffers live here, on the heap, because the release build clears
 * those on the stack for every path.
 */
struct place {
	char cur[PATH_MAX], rest[PATH_MAX];
	char path[PATH_MAX], target[PATH_MAX];
};

/* protect_scan.c.  All of them: 0 or -errno with s->err. */
int scan_add(struct scan *s, enum protect_kind kind, const char *path, int fd,
	     const struct stat *st, char *target);
int scan_add_whole(struct scan *s, const char *path);
int scan_pattern(struct scan *s, struct place *w, const char *pattern);
int scan_from(struct scan *s, struct place *w, bool globbed);
int scan_no_memory(struct scan *s);
/* The entry for a path, or NULL. */
struct protect_entry *scan_find(const struct protect *p, const char *path);
/* Which leniency a name in a git directory deserves. */
enum protect_check scan_check_of(const char *name);
/* a/b; false when it is too long. */
bool scan_join(char out[PATH_MAX], const char *a, const char *b);
/* protect_enter(); false when it leads elsewhere. */
bool scan_enter(struct scan *s, const char *target, char out[PATH_MAX]);
/* protect_resolve(); an absolute target may come to the workspace by any name. */
bool scan_resolve(struct scan *s, const char *base, const char *target, char out[PATH_MAX]);
/* Takes the last component away. */
void scan_pop(char *path);
/* protect_open(); what is not there is not taken for that because we cannot look: see failed. */
int scan_open(struct scan *s, const char *path, int flags);
bool scan_read_gitdir(struct scan *s, const char *path, char out[PATH_MAX]);

/* protect_inside.c: what leads out of the protected directory at path. */
int scan_inside(struct scan *s, const char *path);

/* protect_git.c */
int scan_bare(struct scan *s, struct place *w);
int scan_repository(struct scan *s, struct place *w);

#endif
