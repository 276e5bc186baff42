/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The custodian cleans up after a supervisor that was killed: it removes the
 * control groups and sweeps the protected paths.  A process that shares the
 * supervisor's memory (so it costs no copy and sees every group the moment it
 * is named) and holds nothing but one end of a socket, on which it sleeps.
 */
#ifndef ENGINE_CUSTODIAN_H
#define ENGINE_CUSTODIAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/cgroup.h"
#include "workspace/protect.h"

struct custodian {
	pid_t pid;
	bool watching; /* it was told which process to wait for */
	int sock;  /* the supervisor's end: closing it is the signal */
	int other; /* its end */
	struct cgroup *cg;
	const struct protect *protect;
	int wsfd;
};

/* Starts it; before anything exists that it would have to clean.  -errno. */
int custodian_start(struct custodian *c, struct cgroup *cg,
		    const struct protect *protect, int wsfd);
/* Tells it which process must be gone before it sweeps. */
int custodian_watch(struct custodian *c, int init_pidfd);
/* The supervisor cleaned up itself: ends it and reaps it. */
void custodian_dismiss(struct custodian *c);

#endif
