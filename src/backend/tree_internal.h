/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_TREE_INTERNAL_H
#define BACKEND_TREE_INTERNAL_H

#include <stdint.h>

#include "backend/tree.h"
#include "engine/cgroup.h"
#include "engine/notify.h"
#include "engine/terminal.h"
#include "engine/watch.h"

/* supervisor → keeper: one byte */
#define KEEPER_END 'E'     /* end everything now */
#define KEEPER_DISMISS 'D' /* cleaned up; you may go */

/* keeper → supervisor */
enum { NOTE_FAILED = 1, NOTE_GONE };
struct keeper_note {
	uint32_t type;
	int32_t status;   /* GONE: wait status of what was started; FAILED: errno */
	int32_t left;     /* GONE: processes that could not be ended */
	int32_t spare;
	uint64_t cpu_us;  /* GONE: of the whole tree */
	uint64_t max_rss_kb;
};

/* One run. */
struct tree {
	const struct tree_job *job;
	struct brig_result *res;
	struct cgroup cg;
	uint64_t nproc;

	int ctl, ctl_child;     /* SOCK_SEQPACKET, struct wire */
	int keep, keep_child;   /* SOCK_SEQPACKET, struct keeper_note */
	int out_read, err_read; /* capture */
	int say_read, say_write; /* messages of a sandbox program */
	int status_read, status_write; /* struct init_report of an init inside */
	int death_read, death_write;   /* its end tells init that we are gone */
	char **script_argv;     /* sh FILE ARGS…, for files without #! */
	int stdio[3];           /* become 0, 1, 2; -1 keeps the caller's */
	struct terminal term;

	pid_t keeper;
	int keeper_pidfd;
	pid_t ready_pid; /* the process that said READY, and its descriptor */
	int ready_pidfd;
	int mntns;    /* of a sandbox program's making, once released */
	int listener; /* of the filter's refusals; -1 without */
	uint32_t refused[DENY_MAX_CALL];
	struct signals sig;

	bool init_ready; /* what has to be there before the release */
	struct wire ready_wire;
	bool inner_known;       /* init told how the command ended */
	int inner;
	bool released, status_known, tree_gone, keeper_gone, ending, settled;
	int left; /* processes that could not be ended */
	int status;
	char said[400]; /* the first words of a sandbox program */
	size_t n_said;
	uint64_t t_start, t_release, t_end, t_ending;
	int old_subreaper;
};

/* The keeper's process; never returns. */
void keeper_main(struct tree *t, pid_t supervisor) __attribute__((noreturn));
/* The command's process; never returns. */
void tree_child_main(struct tree *t, pid_t keeper) __attribute__((noreturn));

/* What is done when every process is gone. */
void tree_settle(struct tree *t, struct brig_result *res);

/* Control groups for the limits, as far as they can be had.  -errno with err
 * when one that was asked for cannot. */
int tree_limits(struct tree *t, struct brig_error *err);

#endif
