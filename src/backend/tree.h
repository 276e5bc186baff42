/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of an ordinary process tree, for backends without a pid
 * namespace of their own making: start, confine, prove, release, watch, and at
 * the end nothing is left of it.
 *
 *   supervisor (brig) ── fork ──▶ keeper ── fork ──▶ the command's process
 *      deadline, output,          subreaper: every        confines itself, says
 *      signals, evidence          orphan becomes its      READY, waits for GO,
 *                                 child; ends them all    executes
 *
 * All that is known of a run is made before the fork.  The keeper outlives a supervisor that
 * was killed: it ends the tree and cleans up.  If the keeper is killed, its descendants fall
 * to the supervisor, which is a subreaper as well.
 */
#ifndef BACKEND_TREE_H
#define BACKEND_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/egress.h"
#include "confine/evidence.h"
#include "confine/notify.h"
#include "engine/result.h"
#include "base/spec.h"
#include "engine/wire.h"
#include "workspace/protect.h"

struct tree_job {
	const struct spec *spec;
	char **argv;  /* what is executed … */
	char **paths; /* … and the candidates for it, in order */
	char **env;

	bool sandbox;    /* gives up every privilege first: ids, capabilities,
			    no_new_privs, raised priority */
	bool gate;       /* what is executed is a sandbox's own program: it goes
			    ahead, and brig's gate inside it says READY */
	/* With gate: the numbers at which it finds our socket, the command's
	 * standard error (2 is a pipe for messages then), and init's two pipes. */
	int ctl_at, stderr_at, status_at, death_at;
	int groups_at;   /* and the `tasks` of CG_MAX_DIRS version 1 groups, which it
			    enters; 0: the sandbox program is in them, too */
	const int *keep; /* more descriptors that survive the execve, or NULL */
	size_t n_keep;
	bool nproc_inside; /* the gate sets RLIMIT_NPROC, in a namespace where it
			      counts this tree alone */

	unsigned wanted; /* LAYER_BITs native would give: what of them has no
			    evidence is listed as missing */
	unsigned can;    /* LAYER_BITs this backend may claim */

	/* In the supervisor, when there is a keeper that would remove it: makes a private
	 * directory.  Its descriptor, which arg keeps, or -errno.  May be NULL. */
	int (*make)(void *arg);
	/* In the keeper: its own descriptor of that, to keep. */
	void (*took)(void *arg, int fd);
	/* Last step of the command's process before READY.  No allocation, no stdio.  Fills
	 * *ready, and *listener when a filter tells of refused calls; 0, or -errno with *what
	 * and *code.  May be NULL. */
	int (*confine)(const void *arg, struct wire *ready, int *listener, const char **what,
		       enum brig_code *code);
	/* The listener has something to ask; NULL: only refusals, which are counted. */
	void (*notified)(void *arg, int *listener, uint32_t refused[DENY_MAX_CALL],
			 struct brig_result *res);
	/* What else the evidence shows, added to or taken from bits. */
	unsigned (*judge)(const void *arg, const struct evidence *ev,
			  const struct wire *ready, pid_t pid, unsigned bits);
	/* Before the release, in the supervisor: the last chance to refuse.  May
	 * be NULL.  -errno with err. */
	int (*before_release)(const void *arg, struct brig_error *err);
	/* When every process of the tree is gone, before and after the sweep of protected
	 * paths.  res is NULL in the keeper of a supervisor that was killed; no allocation
	 * then.  May be NULL. */
	void (*place)(void *arg, struct brig_result *res);
	void (*settle)(void *arg, struct brig_result *res);
	void *arg;

	const struct protect *protect; /* swept at the end; may be NULL */

	/* NULL: no allow-list.  What has no sockets yet gets them before the
	 * release, from the network namespace of the command's process. */
	struct egress *egress;
};

/* Runs it.  Always fills *res. */
void tree_run(struct tree_job *job, struct brig_result *res);

/*
 * Ends every descendant of the calling process, which has to be a subreaper, and reaps
 * them.  With since, children that began before that time, and what they started, are
 * left alone.  No allocation.  Returns how many could not be ended in some seconds (of
 * another user, or stuck in the kernel).
 */
int tree_sweep(uint64_t since);

/* When a process began, in the kernel's ticks; 0 when it cannot be told. */
uint64_t tree_began(pid_t pid);

/* Who the command runs as: as root the owner of the workspace, never root
 * itself.  0, or -errno with err when that is not possible. */
int tree_check_ids(const struct spec *s, const char *backend, struct brig_error *err);

/* Refuses what only a mount namespace of brig's making can do: a workspace or
 * bind that appears elsewhere, a mask.  0 or -errno with err. */
int tree_check_places(const struct spec *s, const char *backend,
		      struct brig_error *err);
/* The same for a backend in which brig itself confines nothing: there every
 * explicit wish about files or system calls is refused. */
int tree_check_open(const struct spec *s, const char *backend, struct brig_error *err);

/* Fills a wire record's text. */
void tree_fail_text(char *to, size_t cap, const char *from);

#endif
