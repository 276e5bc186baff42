/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to bubblewrap's arguments: the same tree that native shows. */
#ifndef BACKEND_BWRAP_ARGS_H
#define BACKEND_BWRAP_ARGS_H

#include "base/buf.h"
#include "plan/plan.h"

/* What the installed bubblewrap knows; options came one by one, and
 * distributions carry some of them back to older versions. */
struct bwrap_features {
	bool perms;          /* --perms */
	bool size;           /* --size */
	bool bind_fd;        /* --bind-fd, --ro-bind-fd */
	bool add_seccomp_fd; /* --add-seccomp-fd */
	bool disable_userns; /* --disable-userns */
	bool own;            /* it is bubblewrap itself, not a script around it */
};

enum { BWRAP_PIPE = 4096 }; /* what a pipe holds at least */

/* Descriptors the arguments name; owned ones are closed at the end. */
struct bwrap_fds {
	int *v;
	bool *own;
	size_t n;
};
void bwrap_fds_free(struct bwrap_fds *f);
/* Adds one; takes it over when own.  -ENOMEM when it cannot (then closed). */
int bwrap_fds_add(struct bwrap_fds *f, int fd, bool own);

/* A descriptor from which this content can be read once, added to fds as an owned
 * one; it or -errno. */
int bwrap_data_fd(struct bwrap_fds *f, const char *name, const void *data, size_t len);
/* The same that can be executed. */
int bwrap_image_fd(struct bwrap_fds *f, const char *name, const void *data, size_t len);

/* Reads what the program itself says it knows; text is its help, or its bytes. */
void bwrap_features_find(struct bwrap_features *f, const char *text, size_t len);

/*
 * Whether the gate is to lock the mounts, as something may be mounted below a tree of the
 * caller's; known before the plan is finished.  Not with a profile of his, which is loaded
 * before the gate, and may not let it.
 */
bool bwrap_locks(const struct plan *p);

/*
 * Appends the arguments for the plan, NUL-separated, to out, and every
 * descriptor they name to fds.  Nothing of the environment is on a command line
 * that others can read: all of it goes this way.  The default filter is not
 * among them: the gate loads it.  0 or -errno with err.
 */
int bwrap_args(struct buf *out, struct bwrap_fds *fds, const struct plan *p,
	       const struct bwrap_features *f, struct brig_error *err);

#endif
