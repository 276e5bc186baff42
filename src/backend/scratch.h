/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private directory on the host for one run: made fresh, known by its
 * descriptor, and removed afterwards whatever the command put into it.
 */
#ifndef BACKEND_SCRATCH_H
#define BACKEND_SCRATCH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "brig.h"

struct scratch {
	int parent, fd;      /* -1: there is none */
	char name[64];       /* below parent */
	char path[PATH_MAX];
};

/* Chooses the place, "brig-ID" below XDG_RUNTIME_DIR or /tmp; makes nothing.
 * nested: the caller is root of a user namespace only.  -errno with err. */
int scratch_plan(struct scratch *s, const char *id, bool nested, struct brig_error *err);

/* Makes it, mode 0700, for uid and gid.  No allocation.  0 or -errno. */
int scratch_make(struct scratch *s, uid_t uid, gid_t gid);

/* Removes it with all it holds, whoever of two processes with the same plan made
 * it: directories of any depth and mode, names of any bytes, never through a
 * link.  No allocation; safe to call twice, and again after a failure.  0, or -errno
 * when something is left. */
int scratch_remove(struct scratch *s, uid_t uid);

/* Closes its descriptors. */
void scratch_forget(struct scratch *s);

/* The same for any directory: everything below dir (readable directory
 * descriptor), which itself stays. */
int scratch_empty(int dir);

#endif
