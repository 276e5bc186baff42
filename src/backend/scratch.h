/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private directory on the host for one run: made fresh, known by its
 * descriptor, and removed afterwards whatever the command put into it.
 */
#ifndef BACKEND_SCRATCH_H
#define BACKEND_SCRATCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "brig.h"

struct scratch {
	int parent, fd;      /* -1: there is none */
	dev_t dev;           /* which directory it is; ino 0: not known here */
	ino_t ino;
	char name[64];       /* below parent */
	char path[PATH_MAX];
};

/* Chooses the place, "brig-ID-SECRET" below XDG_RUNTIME_DIR or /tmp; makes nothing.
 * nested: the caller is root of a user namespace only.  -errno with err. */
int scratch_plan(struct scratch *s, const char *id, bool nested, struct brig_error *err);

/* Makes it, mode 0700, for uid and gid.  No allocation.  0 or -errno. */
int scratch_make(struct scratch *s, uid_t uid, gid_t gid);

/* In a process with the same plan: what another one made, fd, which is taken over. */
void scratch_took(struct scratch *s, int fd);

/* Removes it with all it holds: directories of any depth and mode, names of any bytes, never
 * through a link or into a mount, and as root with the rights of uid and gid.  Who does
 * not know which directory it is removes it only if it is empty, as it is before a command
 * ran.  No allocation; safe to call twice, and again after a failure.  0, or -errno when
 * something is left. */
int scratch_remove(struct scratch *s, uid_t uid, gid_t gid);

/* Closes its descriptors. */
void scratch_forget(struct scratch *s);

/* scratch_empty.c: the same for any directory: everything below dir (readable directory
 * descriptor), which itself stays; with the rights there are, or as root with those of a user. */
int scratch_empty(int dir);
int scratch_empty_as(int dir, uid_t uid, gid_t gid);

/* So many random bytes, at most 16, in hexadecimal.  0 or -errno. */
int scratch_random(char *to, size_t bytes);

#endif
