/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_RUN_INTERNAL_H
#define ENGINE_RUN_INTERNAL_H

#include <stdint.h>

#include "engine/collect.h"
#include "engine/custodian.h"
#include "engine/launch.h"
#include "confine/notify.h"
#include "engine/result.h"
#include "engine/terminal.h"
#include "engine/watch.h"

/* One run as the supervisor sees it. */
struct run {
	struct launch l, child; /* ours, and what the builder and the job have */
	struct plan plan;
	bool planned;     /* it is made */
	bool plan_sent;   /* and the builder has it */
	bool late_limits; /* version 1: groups are made while the child builds */
	struct custodian cust;
	struct brig_result *res;

	pid_t init;      /* pid 1 of the sandbox, as seen here */
	int init_pidfd;
	pid_t job;       /* the command's process, as seen here */
	int job_pidfd;
	int job_cpu;     /* where it was, by its own word */
	struct egress *egress; /* NULL: no allow-list */
	struct mounts_seen seen; /* while the tree was built */
	struct collect held; /* namespaces of the sandbox's, from the evidence on */
	int listener;    /* seccomp notifications */
	struct signals sig;
	int out_read, err_read; /* capture */
	struct terminal term;

	bool job_confined, job_ready, net_ready, judged, init_ready, released, status_known, init_gone;
	int status;      /* wait status of the command */
	uint64_t t_start, t_planned, t_release, t_end; /* nanoseconds, monotonic */
	uint32_t refused[DENY_MAX_CALL];
	bool untouched;  /* nothing is at any protected path, nor will be */
	bool blind;      /* see watch_poll() */
	unsigned odd_polls;
	bool settled;    /* run_settle() was here */
	bool executed;   /* the command is, or cannot be: foresee() was here */
	bool napped;     /* since the release, until it should be */
	bool lingered;   /* for init's end */
	bool ending;     /* init was asked to end everything */
	uint64_t t_ending;
	struct cgroup cg; /* large: last */
};

/* start.c, in this order.  run_custodian() and run_limits() come first where a group
 * must be there before the clone, else run_start() calls them.  0 or -errno with err. */
int run_channels(struct run *r, struct brig_error *err);
int run_identify(struct run *r, struct brig_error *err);
int run_custodian(struct run *r, struct brig_error *err);
int run_limits(struct run *r, struct brig_error *err);
int run_start(struct run *r, struct brig_error *err);

/* run.c: judges what the command left in the workspace; once, when everything
 * inside has ended. */
void run_settle(struct run *r);
/* Version 1 groups, and with them who would have to remove them, if nobody is in there. */
void run_try_remove(struct run *r);

/* supervise.c: waits until the process tree is gone, or set-up has failed
 * (then res->error is set and the tree has been killed). */
void supervise(struct run *r);
/* Kills pid 1, and with it everything inside. */
void run_kill(struct run *r);

#endif
