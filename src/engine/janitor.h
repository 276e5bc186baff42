/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The janitor cleans up after a supervisor that was killed: it makes the caller's terminal
 * usable again, waits for the end of the sandbox, sweeps the protected paths and removes
 * the control groups.  It is a fork of the supervisor with a socket.  What is not known
 * when it starts is told to it in small messages; the end of the socket means that the
 * supervisor is gone.
 */
#ifndef ENGINE_JANITOR_H
#define ENGINE_JANITOR_H

#include <stdbool.h>
#include <sys/types.h>

#include "confine/cgroup.h"
#include "engine/terminal.h"
#include "workspace/protect.h"

struct janitor {
	pid_t pid; /* -1: there is none */
	int sock;  /* the supervisor's end: nobody else may keep a copy */
};

/* Starts it, before anything exists that it would have to clean.  It has copies of all
 * three; wsfd is the workspace.  0 or -errno. */
int janitor_start(struct janitor *j, const struct cgroup *cg, const struct protect *protect,
		  int wsfd);

/* What it learns later: each before, or as soon as, there is something to clean.  -errno
 * when it is gone, and nothing may be released. */
int janitor_know_init(const struct janitor *j, int pidfd);
int janitor_know_mounts(const struct janitor *j, int mntns);
int janitor_know_tty(const struct janitor *j, const struct caller_tty *tty);

/* The supervisor has cleaned up by itself: ends it, and reaps it when there is nothing else
 * left to do. */
void janitor_dismiss(struct janitor *j);
void janitor_reap(struct janitor *j);

#endif
