/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_RUN_INTERNAL_H
#define ENGINE_RUN_INTERNAL_H

#include <stdint.h>

#include "confine/notify.h"
#include "engine/janitor.h"
#include "engine/launch.h"
#include "engine/result.h"
#include "engine/terminal.h"
#include "engine/watch.h"

/* How far a run has come.  Which records are allowed in which state: supervise.c. */
enum run_state {
	RUN_BUILDING, /* the builder is at work */
	RUN_HELD,     /* the job is confined and waits for its release */
	RUN_RELEASED, /* the command runs, or was told that it may */
	RUN_ENDED,    /* init has told how it ended, and everything else inside is gone */
	RUN_STATES
};

/* One run as the supervisor sees it. */
struct run {
	struct launch l;
	struct plan plan;
	bool planned;
	enum run_state state;
	struct janitor janitor;
	struct brig_result *res;

	pid_t init;      /* pid 1 of the sandbox, as seen here */
	int init_pidfd;
	bool init_ready; /* it has said that it is clean and watching */
	bool init_gone;
	pid_t job;       /* the command's process, as seen here */
	int job_pidfd;
	int mntns;       /* the sandbox's mounts: see watch_sweep() */
	struct egress *egress; /* NULL: no allow-list */
	int listener;    /* seccomp notifications */
	struct signals sig;
	int out_read, err_read; /* capture */
	struct terminal term;

	bool ran;        /* it was released, whatever came of it */
	bool status_known, settled;
	int status;      /* wait status of the command */
	bool ending;     /* init was asked to end everything */
	uint64_t t_start, t_planned, t_release, t_ending, t_end; /* nanoseconds, monotonic */
	uint32_t refused[DENY_MAX_CALL];
	struct cgroup cg; /* large: last */
};

/* start.c: everything up to the builder at work.  0 or -errno with err. */
int run_start(struct run *r, struct brig_error *err);

/* run.c: judges what the command left in the workspace; once, when everything
 * inside has ended. */
void run_settle(struct run *r);

/* supervise.c: waits until the process tree is gone, or set-up has failed
 * (then res->error is set and the tree has been killed). */
void supervise(struct run *r);
/* Kills pid 1, and with it everything inside. */
void run_kill(struct run *r);

#endif
