/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protected paths without mounts.  Where native mounts what exists read-only,
 * a backend without a mount namespace can only look afterwards: the content is
 * kept in memory before the run, and whatever differs when every process is
 * gone is moved aside and put back.
 */
#ifndef BACKEND_GUARD_H
#define BACKEND_GUARD_H

#include "engine/result.h"
#include "workspace/protect.h"

struct guard;

/*
 * Takes the copy of every existing protected path below wsfd.  What cannot be
 * kept (more than a few megabytes, more than a few thousand files, a device, an
 * unreadable file) is refused: -errno with err.  *out is freed with guard_free.
 */
int guard_take(struct guard **out, const struct protect *p, int wsfd,
	       struct brig_error *err);

/*
 * Compares and puts back, when no process is left and before protect_sweep(), which finds its
 * way by what is put back here: directories on the way to protected paths, a repository's
 * settings.  Reports each path that differed.  No allocation.  Returns how many, or -errno
 * when one could not be put back (the others still are).
 */
int guard_settle(const struct guard *g, int wsfd, protect_report *report, void *arg);

/* The same, with what was found in the result's denials; res may be NULL. */
void guard_report(const struct guard *g, int wsfd, struct brig_result *res);

void guard_free(struct guard *g);

#endif
