/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_TREE_INTERNAL_H
#define BACKEND_TREE_INTERNAL_H

#include <signal.h>
#include <stdint.h>

#include "backend/tree.h"
#include "confine/cgroup.h"
#include "engine/collect.h"
#include "confine/notify.h"
#include "engine/spawn.h"
#include "engine/terminal.h"
#include "engine/watch.h"

/* supervisor → keeper: signals, which both of them block.  When there is nothing left
 * to clean up it is simply killed. */
#define KEEPER_END SIGUSR1 /* end everything now */

/* keeper → supervisor */
enum { NOTE_FAILED = 1, NOTE_GONE };
struct keeper_note {
	uint32_t type;
	int32_t status;   /* GONE: wait status of what was started; FAILED: errno */
	int32_t left;     /* GONE: processes that could not be ended */
	int32_t leaves;   /* GONE: the keeper removes the groups and ends by itself */
	uint64_t cpu_us;  /* GONE: of the whole tree */
	uint64_t max_rss_kb;
};

/* The command's ends of what connects it with the supervisor. */
struct tree_ends {
	int ctl;      /* SOCK_SEQPACKET, struct wire */
	int say;      /* messages of a sandbox program */
	int status;   /* struct init_report of an init inside */
	int death;    /* its end tells init that we are gone */
	int stdio[3]; /* become 0, 1, 2; -1 keeps the caller's */
};

/* Stacks.  The keeper, which may have to compare directory trees, has the use of what
 * lies below its own. */
enum { ROOM_COMMAND = 0, ROOM_KEEPER = 3, TREE_ROOMS };

/* One run. */
struct tree {
	struct tree_job *job;
	struct brig_result *res;
	struct cgroup cg;
	uint64_t nproc; /* RLIMIT_NPROC that the gate sets */
	bool counted;   /* the command's process sets one, from what its user runs already */
	struct spawn_rooms rooms;
	pid_t self;        /* the supervisor's pid */
	pid_t keeper_self; /* written by the keeper, for the command's process */

	/* The keeper has our memory and our table of descriptors: what we make after its
	 * start it sees. */
	bool borrowed;
	/* The command's process has what the keeper has.  If that is ours it copies the
	 * table when it is told that all is there, so that nothing of it is closed here
	 * before it says READY.  Else it is born when there is a plan. */
	bool share;
	bool blind;       /* see watch_poll() */
	unsigned odd_polls;
	bool planned;     /* settle() has something to go by */
	bool late_limits; /* groups are made while it starts, and handed over */
	/* Version 2: it is born in its group, which is made when the keeper is there, who
	 * would have to remove it. */
	bool group_first, group_failed;
	uint32_t in_office;  /* word: the keeper on our memory does what it is there for */
	uint32_t group_done; /* word: the group is there, or will not be */

	int offered; /* what offer() made, or -1 */
	struct tree_ends ends;
	int ctl;
	int born_ctl, born_death; /* ctl and death_write as they were made */
	int note_read, note_write; /* pipe, struct keeper_note */
	int out_read, err_read; /* capture */
	int say_read, status_read, death_write;
	char **script_argv;     /* sh FILE ARGS…, for files without #! */
	struct terminal term;

	pid_t keeper;
	int keeper_pidfd;
	pid_t ready_pid; /* the process that said READY, and its descriptor */
	pid_t read_pid;  /* the one whose evidence was read */
	int ready_pidfd;
	struct collect held; /* namespaces of a sandbox program's making, once released */
	int listener; /* of the filter's refusals; -1 without */
	uint32_t refused[DENY_MAX_CALL];
	struct signals sig;

	bool init_ready; /* what has to be there before the release */
	struct wire ready_wire;
	bool inner_known;       /* init told how the command ended */
	int inner;
	bool released, status_known, tree_gone, keeper_gone, ending;
	bool swept, settled, accounted;
	bool clean; /* for the keeper: settled, there may be groups and nothing else; atomic */
	bool keeper_leaves;
	int left; /* processes that could not be ended */
	int status;
	char said[400]; /* the first words of a sandbox program */
	size_t n_said;
	uint64_t t_start, t_release, t_end, t_ending;
	int old_subreaper;
};

/* Does this result of spawn() mean that clone3() is not to be had? */
bool tree_no_clone3(pid_t pid);
/* Until the keeper on our memory is told of our end, and of its children's.  False: it is not
 * any more. */
bool tree_await_office(const struct tree *t);
/* The keeper's process, and the command's; arg is a struct tree. */
int keeper_main(void *arg);
int tree_child_main(void *arg);

/* Closes the command's ends here, where one terminal may stand for all three. */
void tree_close_ends(struct tree_ends *e);
/* What the groups counted: once. */
void tree_account(struct tree *t);
/* Has the keeper end everything. */
void tree_end(struct tree *t);
/* What is done when every process is gone. */
void tree_settle(struct tree *t, struct brig_result *res);
/* The last of it, and of what was made for the run.  False: somebody may still use our
 * memory. */
bool tree_finish(struct tree *t);

#endif
