/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The custodian cleans up after a supervisor that was killed: it ends the
 * sandbox, sweeps the protected paths, removes the control groups and makes the caller's
 * terminal usable again.  A
 * process that shares the supervisor's memory and descriptors, so it costs next
 * to nothing and sees every group the moment it is named; it sleeps until the
 * kernel tells it that its parent is gone.
 */
#ifndef ENGINE_CUSTODIAN_H
#define ENGINE_CUSTODIAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "confine/cgroup.h"
#include "engine/spawn.h"
#include "engine/terminal.h"
#include "workspace/protect.h"

/* What it looks at when the time comes: the supervisor's own variables. */
struct custodian {
	pid_t pid;            /* -1: there is none */
	pid_t parent;
	bool dismissed;       /* killed, but not yet reaped */
	const struct spawn_rooms *rooms;
	unsigned room;
	struct cgroup *cg;
	const struct protect *protect;
	int wsfd;
	struct collect *held;   /* of the mounts' namespace, see watch_sweep() */
	const int *death_write; /* closing these is what ends the sandbox: init watches */
	const int *ctl, *trees; /* the one, builder and job wait on the others */
	const int *init_pidfd;  /* -1 as long as there is no sandbox */
	const struct caller_tty *tty;
};

/* Starts it; before anything exists that it would have to clean, and before the
 * command is released.  The fields above pid are the caller's to fill.  -errno. */
int custodian_start(struct custodian *c);
/* The supervisor cleaned up itself: ends it.  It dies while we go on; reaped when
 * there is nothing else left to do. */
void custodian_dismiss(struct custodian *c);
/* False: it may still be there. */
bool custodian_reap(struct custodian *c);

#endif
