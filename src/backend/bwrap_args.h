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

/* The files of brig's own making in a plan are not more than this, and those whose length
 * the caller has no say in are shorter than half of what a pipe holds. */
enum { BWRAP_FILES = 6, BWRAP_PIPE = 4096 };

/* Descriptors the arguments name; owned ones are closed at the end. */
struct bwrap_fds {
	int *v;
	bool *own;
	size_t n;
	/* bwrap_fds_reserve(): pipes that are written to when bubblewrap has them already */
	struct {
		int read, write;
	} empty[BWRAP_FILES];
	size_t n_empty, n_filled;
	bool closed; /* there can be no more */
};
void bwrap_fds_free(struct bwrap_fds *f);
/* Those that are its own; none is left in it.  No allocation. */
void bwrap_fds_close(struct bwrap_fds *f);
/* Adds one; takes it over when own.  -ENOMEM when it cannot (then closed), -EBADF when
 * it is too late. */
int bwrap_fds_add(struct bwrap_fds *f, int fd, bool own);

/* Pipes for what is not known yet: bwrap_data_fd() fills them, one by one, once f->closed
 * is set.  From then on bubblewrap has its descriptors, and gets no other.  -errno. */
int bwrap_fds_reserve(struct bwrap_fds *f);
/* An empty pipe among the descriptors: *write is the caller's.  Its end for reading, or
 * -errno. */
int bwrap_pipe(struct bwrap_fds *f, int *write);
/* All that there will be to read; closes it.  0 or -errno. */
int bwrap_pipe_fill(int *write, const void *data, size_t len);

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
