/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_TREE_INTERNAL_H
#define BACKEND_TREE_INTERNAL_H

#include <stdint.h>

#include "backend/tree.h"
#include "confine/cgroup.h"
#include "confine/notify.h"
#include "engine/terminal.h"
#include "engine/watch.h"

/*
 * Supervisor and keeper have a pair of sockets.  The keeper is forked before anything exists
 * that it would have to clean up; what is made afterwards it is told here, the control groups
 * by their journal (struct cg_note).  The end of it means that the supervisor is gone.
 */
enum {
	KEEPER_START = CG_NOTE__LAST, /* clone the command's process; struct keeper_start */
	KEEPER_MOUNTS,                /* a descriptor of its mount namespace */
	KEEPER_TTY,                   /* the caller's terminal, as it was */
	KEEPER_END,                   /* end everything now */
};
struct keeper_word {
	uint32_t kind;
	struct caller_tty tty;
};
/* With descriptors, in this order: the private directory; the version 2 group to be born in. */
struct keeper_start {
	uint32_t kind;
	bool made, born; /* which of them come along */
	bool counted;    /* see struct tree */
};

/* keeper → supervisor, on the same pair */
enum { NOTE_FAILED = 1, NOTE_GONE };
struct keeper_note {
	uint32_t type;
	int32_t status;   /* GONE: wait status of what was started; FAILED: errno */
	int32_t left;     /* GONE: processes that could not be ended */
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

/* What the command's process may say: see on_control(). */
enum tree_state { TREE_SETUP, TREE_READY, TREE_RELEASED, TREE_STATES };

/* One run.  The keeper and the command's process have copies of it. */
struct tree {
	struct tree_job *job;
	struct brig_result *res;
	struct cgroup cg;
	uint64_t nproc; /* RLIMIT_NPROC that the gate sets */
	bool counted;   /* the command's process sets one, from what its user runs already */
	pid_t self;     /* the supervisor's pid */
	struct tree_ends ends;
	char **script_argv; /* sh FILE ARGS…, for files without #! */

	/* the supervisor's: nobody else keeps a copy of the descriptors */
	int ctl, sock;          /* to the command's process; to the keeper */
	int out_read, err_read; /* capture */
	int say_read, status_read, death_write;
	struct terminal term;
	struct signals sig;
	pid_t keeper;
	int keeper_pidfd;
	enum tree_state state;
	pid_t ready_pid; /* the process that said READY, and its descriptor */
	int ready_pidfd;
	struct wire ready_wire;
	int mntns; /* of a sandbox program's making, or -1 */
	int listener; /* of the filter's refusals; -1 without */
	uint32_t refused[DENY_MAX_CALL];
	bool init_ready;  /* an init inside is clean and watching */
	bool inner_known; /* it told how the command ended */
	int inner;
	bool started; /* there may be a command's process */
	bool status_known, tree_gone, keeper_gone, ending;
	int left; /* processes that could not be ended */
	int status;
	char said[400]; /* the first words of a sandbox program */
	size_t n_said;
	uint64_t t_start, t_release, t_end, t_ending;
	int old_subreaper;

	/* the keeper's */
	int keeper_sock;
	pid_t keeper_self;
	union {
		struct keeper_word word;
		struct keeper_start start;
		struct cg_note group;
	} heard;
};

/* The keeper's process, a fork of the supervisor; and the command's, a fork of the keeper. */
void keeper_main(struct tree *t) __attribute__((noreturn));
void tree_child_main(struct tree *t) __attribute__((noreturn));

/* tree_talk.c.  In the supervisor: a message for the keeper, with a descriptor or -1.  -errno
 * when it is gone. */
int keeper_tell(const struct tree *t, const struct keeper_word *w, int fd);
/* The same: clone the command's process.  made is the private directory, or -1. */
int keeper_start(const struct tree *t, int made);
/* In the keeper: the next message, into t->heard; its length, 0 at the end, or -errno. */
struct msg_in;
ssize_t keeper_hear(struct tree *t, int flags, struct msg_in *in);
/* Takes over what came with KEEPER_START. */
void keeper_started(struct tree *t, const int *fds, size_t n_fds);

/* Closes the command's ends here, where one terminal may stand for all three. */
void tree_close_ends(struct tree_ends *e);
/* The supervisor's own descriptors. */
void tree_close_own(struct tree *t);
/* The supervisor's loop: from the keeper's start until the tree is gone.  Reads the evidence,
 * releases or refuses, keeps the deadline. */
void tree_watch(struct tree *t);
/* Has the keeper end everything. */
void tree_end(struct tree *t);
/* What is done when every process is gone; res is NULL in the keeper. */
void tree_settle(struct tree *t, struct brig_result *res);
/* The last of it, and of what was made for the run. */
void tree_finish(struct tree *t);

#endif
