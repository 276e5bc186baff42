/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the root tree from a plan, inside the new namespaces.  Everything
 * here runs after clone and before exec: no allocation, no stdio.
 */
#ifndef ENGINE_ROOT_H
#define ENGINE_ROOT_H

#include "engine/plan.h"

enum root_api { ROOT_API_NEW, ROOT_API_CLASSIC };

struct root {
	const struct plan *plan;
	enum root_api api;
	int *slots;     /* one per op: a detached tree (new) or O_PATH (classic) */
	int rootfd;     /* top of the new root */
	int scratchfd;  /* top of the private tmpfs */
	int dirfd;      /* where the last mount point was made, if dir_len is not 0 */
	const char *dir_path;
	size_t dir_len;
	pid_t holder;   /* ended, to be reaped: it held an id map; 0 none */
	bool two_calls; /* the one that clones a tree and sets its flags is missing */
	bool keep_open; /* there is room to leave descriptors to the execve */
	bool given;     /* the caller's trees come from host root, opened */
	const char *what; /* on failure: the path or step */
	enum brig_code code;
};

/* Which mount interface this kernel (or the filter around us) offers. */
enum root_api root_probe_api(void);

/* Outside: allocates the slots.  0 or -ENOMEM. */
int root_prepare(struct root *r, const struct plan *plan);
/* How many descriptors building a tree of so many operations takes, at most. */
unsigned root_descriptors(size_t n_ops);
void root_release(struct root *r);

/*
 * Outside, only when host root runs brig: opens the caller's binds as detached
 * mounts, id-mapped when the workspace belongs to root, because inside nobody has
 * root's id.  They are handed to the builder.  0 or -errno with err.
 */
int root_prepare_callers(struct root *r, struct brig_error *err);
/* The first operation from `at` whose tree is handed over; n_ops: none. */
size_t root_next_caller(const struct root *r, size_t at);

/* When there is nothing else left to do; at the end it is waited for. */
void root_reap_holder(struct root *r, bool wait);

/* A detached tree of one bind, in which what belongs to its owner belongs to the
 * ids given.  With swap the owner exists there, too, as whom nobody has: else it
 * could not even make a file there to give away.  The descriptor, or -errno with
 * err. */
int root_idmap_tree(const struct spec_bind *b, uid_t to_uid, gid_t to_gid, bool swap,
		    struct brig_error *err);

/* True when the file system at path can be shown under other ids.  -errno in
 * *why (negative) otherwise. */
bool root_idmap_works(const char *path, int *why);

/* Inside: builds the tree and attaches it; the old root is still there.
 * -errno with r->what and r->code. */
int root_build(struct root *r);
/* Inside: makes it the root; the old one hangs on top of it at ".".  -errno. */
int root_pivot(struct root *r);
/* Inside, in the process that pivoted: detaches the old root.  -errno. */
int root_detach(struct root *r);

/* A detached clone with its final flags, which go as deep as the clone.  In one call
 * where there is one (Linux 6.15); else, and to know why it failed, in two, from then on.
 * A descriptor or -errno. */
struct mnt_attr;
int root_clone(bool *two_calls, int at, const char *path, unsigned flags,
	       const struct mnt_attr *a);

/* Shared by the two executors. */
int root_fail(struct root *r, enum brig_code code, int errnum, const char *what);
int root_make_node(struct root *r, const struct plan_op *op);
/* The place to mount on, made if need be, as a descriptor. */
int root_target(struct root *r, const struct plan_op *op);
int root_check_identity(struct root *r, const struct plan_op *op, int fd);
int root_build_classic(struct root *r);
/* Number → decimal text without stdio. */
const char *root_decimal(uint64_t v, char buf[24]);
/* How many inodes a private tmpfs of this size may hold: they are not free. */
uint64_t root_inodes(uint64_t size);

/* The place in the old tree that is covered while building: it exists on every
 * system, and what it holds was cloned before. */
#define SCRATCH_ATTACH "/usr"
/* Room for the root directory itself, on top of what the caller may use. */
#define ROOT_TMPFS_BYTES (64u << 10)

#endif
