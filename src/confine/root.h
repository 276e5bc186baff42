/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root tree: built from a plan, inside the new namespaces, with the mount calls
 * of Linux 5.12 and later.  Sources are named by descriptors, never by a path that
 * somebody could exchange between the check and the mount.
 */
#ifndef CONFINE_ROOT_H
#define CONFINE_ROOT_H

#include "plan/plan.h"

struct root {
	const struct plan *plan;
	int *trees;          /* one per operation: its source as a detached mount, or -1 */
	bool given;          /* host root opened the caller's trees before the clone */
	int rootfd;          /* top of the new root */
	int scratchfd;       /* top of the private tmpfs */
	int dirfd;           /* where the last mount point was made: many share a directory */
	const char *dir;     /* its path, dir_len bytes of it */
	size_t dir_len;
	const char *what;    /* on failure: the path or step */
	enum brig_code code; /* and what kind of failure it is */
};

/* Outside: allocates what there is one of per operation.  0 or -ENOMEM. */
int root_prepare(struct root *r, const struct plan *plan);
/* Outside, only when host root runs brig: opens the caller's trees as detached mounts,
 * because the id that the builder takes may not enter the directories above them;
 * id-mapped when the workspace belongs to root.  The builder inherits the descriptors.
 * 0 or -errno with err. */
int root_open_callers(struct root *r, struct brig_error *err);
void root_release(struct root *r);

/* Inside.  No allocation, no stdio.  0, or -errno with r->what and r->code. */
int root_build(struct root *r); /* builds and attaches it; the old root is still there */
int root_pivot(struct root *r); /* makes it the root; the old one hangs on top at "." */
int root_detach(struct root *r); /* detaches the old root */

/* A detached tree of one bind, in which what belongs to its owner belongs to the
 * ids given.  With swap the owner exists there, too, as an id that nobody has: else it
 * could not even make a file there to give away.  The descriptor, or -errno with
 * err. */
int root_idmap_tree(const struct spec_bind *b, uid_t to_uid, gid_t to_gid, bool swap,
		    struct brig_error *err);

/* True when the file system at path can be shown under other ids.  -errno in
 * *why (negative) otherwise. */
bool root_idmap_works(const char *path, int *why);

/* Whether the mount calls are there.  A container's filter may hide them. */
bool root_calls_work(void);

/* Shared by the two files: a detached clone that has its final flags, which go as deep
 * as the clone.  A descriptor or -errno. */
struct mnt_attr;
int root_clone(int at, const char *path, unsigned flags, const struct mnt_attr *a);

/* Number → decimal text without stdio. */
const char *root_decimal(uint64_t v, char buf[24]);
/* How many inodes a private tmpfs of this size may hold: they are not free. */
uint64_t root_inodes(uint64_t size);

#endif
