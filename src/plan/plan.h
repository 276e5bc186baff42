/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: the root tree of one sandbox as an array of typed operations, in
 * the order in which they are carried out.  Making a plan needs no privilege,
 * and a plan can be printed.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <linux/sched.h>
#include <stdint.h>

#include "base/spec.h"
#include "workspace/protect.h"

enum op_kind {
	OP_DIR,     /* make a directory in brig's own tmpfs */
	OP_SYMLINK, /* make a symlink (text is the target) */
	OP_FILE,    /* make a file with the given text */
	OP_BIND,    /* a tree or file of the host */
	OP_SCRATCH, /* a directory of the private, size-limited tmpfs */
	OP_PROC,    /* a fresh procfs */
	OP_DEVPTS,  /* a fresh devpts instance */
	OP_MASK,    /* hide what is there behind something empty */
	OP_RO,      /* make what is there read-only */
	OP_PIN,     /* make a directory a mount point so that it cannot be moved */
};

enum {
	OPF_RO = 1u << 0,
	OPF_NOEXEC = 1u << 1,
	OPF_OPTIONAL = 1u << 2, /* absent inside: skip (kernel files that vary) */
	OPF_DIR = 1u << 3,
	OPF_DEVICE = 1u << 4,   /* a device node: the mount must allow devices */
	OPF_IDENTITY = 1u << 5, /* dev/ino must match what was checked */
	OPF_USER = 1u << 6,     /* asked for by the caller, not by brig's own table */
	OPF_MKPOINT = 1u << 7,  /* lies in brig's own tmpfs: make the mount point */
	OPF_HIDDEN = 1u << 8,   /* a tree of the system's that one of the caller's is put over */
};

struct plan_op {
	enum op_kind kind;
	unsigned flags;
	mode_t mode;
	char *dst;  /* absolute path inside, normalised */
	char *src;  /* OP_BIND: path on the host; OP_SCRATCH: name of the subtree */
	char *text; /* OP_FILE content, OP_SYMLINK target */
	const struct spec_bind *bind; /* OP_BIND from the spec: identity, id map */
	dev_t dev;
	ino_t ino;
};

enum ll_class { LL_READ, LL_WRITE, LL_DEVICE, LL_PROC, LL_LOOK };

/* One Landlock rule, by path inside. */
struct plan_rule {
	enum ll_class class;
	bool is_dir;
	char *path;
};

struct plan {
	const struct spec *spec;
	struct plan_op *ops;
	size_t n_ops;
	struct plan_rule *rules;
	size_t n_rules;
	struct protect protect;
	char *cwd;          /* absolute path inside */
	char **exec_paths;  /* candidates for argv[0], in order */
	const char *hostname;
	bool lock;          /* something of the caller's is covered by a mount, which
			       must stay covered even after the end */
};

/* The namespaces of every sandbox; its own network unless it has the host's. */
#define PLAN_NAMESPACES                                                         \
	(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC |            \
	 CLONE_NEWUTS | CLONE_NEWCGROUP)

static inline bool plan_own_net(const struct spec *s)
{
	return s->net != NET_HOST;
}

/* Makes the plan for a spec, which must outlive it.  0 or -errno with err. */
int plan_build(struct plan *p, const struct spec *s, struct brig_error *err);
/* The same in two steps: first what is in the workspace, then the rest. */
int plan_look(struct plan *p, const struct spec *s, struct brig_error *err);
int plan_finish(struct plan *p, struct brig_error *err);
void plan_free(struct plan *p);

/* Candidates for argv[0]: itself, or along the PATH in env, never in the working
 * directory.  0 or -ENOMEM. */
int plan_exec_paths(char **argv, char **env, char ***paths);

/* "bind", "tmpfs" … for explain and for error messages. */
const char *plan_op_name(enum op_kind kind);

#endif
