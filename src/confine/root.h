/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the root tree from a plan, inside the new namespaces.  Everything
 * here runs after clone and before exec: no allocation, no stdio.
 */
#ifndef CONFINE_ROOT_H
#define CONFINE_ROOT_H

#include "plan/plan.h"

enum root_api { ROOT_API_NEW, ROOT_API_CLASSIC };

/* How far an operation is, for whoever else works on the tree or looks at it; or -errno. */
enum root_done {
	ROOT_NOT_BEGUN,
	ROOT_CLONED,      /* its source */
	ROOT_TAKEN,       /* somebody is at it */
	ROOT_POINT_MADE,  /* its mount point */
	ROOT_POINT_THERE, /* which was there before, or is not ours to make */
	ROOT_PLACED,
};

struct root {
	const struct plan *plan;
	enum root_api api;
	int *slots;     /* one per op: a detached tree (new) or O_PATH (classic) */
	int *dirs;      /* one per op: where its mount point belongs, if opened ahead */
	int *done;      /* one per op: enum root_done */
	size_t n_leaves; /* operations that plan_op_is_leaf() */
	size_t next;    /* the operation that root_place() goes on with */
	pid_t helper;   /* a child of the builder's who may be at one of them; 0 none */
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

/* Outside: allocates what there is one of per operation.  0 or -ENOMEM. */
int root_prepare(struct root *r, const struct plan *plan);
/* The same for a second process, which has descriptors of its own. */
int root_copy(struct root *to, const struct root *from);
/* How many descriptors building a tree of so many operations takes, at most. */
unsigned root_descriptors(size_t n_ops);
void root_release(struct root *r);

/*
 * Outside, only when host root runs brig: opens the tree of one of the caller's binds as a
 * detached mount, id-mapped when the workspace belongs to root, because inside nobody has
 * root's id.  They are handed to the builder.  The map serves binds of one owner, and is
 * closed by whoever has it.  0 or -errno with err.
 */
struct root_map {
	int userns; /* -1 none yet */
	uid_t uid;
	gid_t gid;
};
int root_open_caller(struct root *r, size_t i, struct root_map *m, struct brig_error *err);
/* Before: whether that can be done here at all. */
int root_check_callers(const struct root *r, struct brig_error *err);
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

/*
 * Inside: builds the tree and attaches it; the old root is still there.  In steps, because
 * the caller's trees may come from elsewhere, and later: what those may be put in; all else
 * that is not the caller's, nor on top of it; the rest up to one whose tree is not there yet, as
 * often as there are more; the end.  -errno with r->what and r->code.
 */
int root_begin(struct root *r);
int root_build(struct root *r);
int root_place(struct root *r, size_t end);
int root_finish(struct root *r);

/*
 * Beside it, if the caller has so many trees with nothing on them that it is worth it.  After
 * root_begin() the builder opens where their mount points belong.  Until then another
 * process with the same rights can clone sources; from then on one without any, or with
 * nothing else to do, can make mount points.  -errno as above.
 */
bool root_wants_help(const struct root *r);
int root_open_points(struct root *r);
int root_clone_beside(struct root *r, const uint32_t *until);
void root_make_points(const struct root *r);

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
/* A name relative to the new root. */
static inline const char *root_name(const char *dst)
{
	return dst[1] ? dst + 1 : ".";
}
/* Where something is mounted: at a descriptor itself (the name is empty), or at a name in
 * a directory. */
struct spot {
	int at;
	const char *name;
	bool opened; /* for this spot alone */
};
/* True: the operation is ours.  Else how far whoever had it has come, once he is through. */
bool root_take(const struct root *r, size_t i);
int root_await(const struct root *r, size_t i);
/* The place to mount operation i on, made if need be and nobody has.  0; -ENOENT for what is optional and
 * not there; else -errno with r->what and r->code. */
int root_find_spot(struct root *r, size_t i, bool made, struct spot *s);
/* Something was mounted there: what is remembered of below is out of date. */
void root_forget_below(struct root *r, const struct plan_op *op);
int root_fail(struct root *r, enum brig_code code, int errnum, const char *what);
int root_make_node(struct root *r, const struct plan_op *op);
/* The same as a descriptor. */
int root_target(struct root *r, size_t i);
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
/* Most terminals of one sandbox.  All sandboxes of the machine, and its containers, have
 * kernel.pty.max less kernel.pty.reserve between them: 3072, where nobody says otherwise. */
#define ROOT_TERMINALS "128"

#endif
