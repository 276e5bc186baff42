/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every supervisor does alike, whether the sandbox is of brig's own making
 * (engine/supervise.c) or an ordinary process tree (backend/tree_watch.c):
 * deadlines, the caller's signals, output, and words for the result.
 */
#ifndef ENGINE_WATCH_H
#define ENGINE_WATCH_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/capture.h"
#include "confine/cgroup.h"
#include "engine/result.h"
#include "base/spec.h"
#include "engine/terminal.h"
#include "engine/wire.h"
#include "workspace/protect.h"

/* A set-up that takes this long hangs on something (a dead network mount). */
#define SETUP_DEADLINE_MS 30000u

uint64_t now_ns(void);

/* poll() that clears revents when it fails. */
void watch_poll(struct pollfd *p, size_t n, int timeout);

/* Milliseconds until limit_ms after from (now_ns()), as poll() takes them: -1
 * without a limit, 0 when it has passed. */
int deadline_left(uint64_t from, uint64_t limit_ms);

/* The caller's signals, which are for the command: blocked, and read from fd. */
struct signals {
	int fd; /* -1 before, and after a failure */
	sigset_t old_mask;
	struct sigaction old_chld;
	bool taken, chld_changed;
};
#define SIGNALS_NONE (struct signals){ .fd = -1 }

int signals_take(struct signals *s); /* 0 or -errno */
/* Lets signals act as they did before, for a while, or takes them again. */
void signals_pass(const struct signals *s, bool pass);
void signals_restore(struct signals *s);
/* Whether brig's caller ignores this signal for it (nohup, a shell's background job).  The
 * command is not to get it either, although a blocked signal arrives all the same. */
bool signals_ignored(int sig);
/* The next one, 0 when there is none. */
int signals_next(const struct signals *s);
/* Would the caller, by this, have us stop before the command runs? */
bool signals_ends_setup(int sig);
/* To the command's whole process group, as a terminal would do it.  Without a pty SIGTSTP
 * stops the group, and then us, until somebody continues us. */
void signals_forward(int pidfd, int sig, bool pty);
/* Between SIGTSTP and SIGSTOP: a handler for the former gets to run.  False: SIGCONT
 * has come meanwhile, which our stop would undo, and nobody would send another one. */
bool signals_let_stop(void);

/* One of them: to the terminal, or to the command once it is released.  True: it
 * ends a set-up that has not come that far. */
bool watch_signal(const struct signals *s, struct terminal *term, bool released, int pidfd);

/* What there is to read now, from a pipe of fd_pipe_from_command(); closes the descriptor at
 * its end. */
void watch_drain(int *fd, struct capture *c);
/* All that is there without waiting for more, and no more than that: a process outside that
 * was handed the other end cannot make us wait for it. */
void watch_drain_rest(int *fd, struct capture *c);

/* The terminals, of the command and of the caller, before the command is released. */
void watch_terminal(struct terminal *t, const struct signals *s);
/* The rest of a terminal's output, as long as the reader takes any of it: one that is stuck
 * gets a moment, and so does anyone after the deadline (late).  A signal ends it, too. */
void watch_drain_terminal(struct terminal *t, const struct signals *s, bool late);

/* The fields of a WIRE_FAIL record, checked: what may be wrong with one from
 * inside is put right.  phase and what are allocated, or NULL. */
void watch_fail_record(struct wire *w, enum brig_code *code, int *errnum, char **phase,
		       char **what);
/* Why the command could not be executed. */
void watch_exec_failed(const char *command, int errnum, struct brig_error *err);

/* Moves aside what became of protected paths.  mntns is the mount namespace by which the
 * command reached them, -1 for the machine's own.  res is NULL where there is nobody to
 * tell. */
enum {
	SWEEP_KEPT = 1, /* what was there has been put back by a guard */
	SWEEP_SEAL = 2, /* make the mounts read-only, even if no other run is at work here */
};
void watch_sweep(const struct protect *p, int wsfd, int mntns, unsigned how,
		 struct brig_result *res);
/* A protect_report; the argument is the result, or NULL. */
void watch_denied(void *arg, const char *path, enum protect_fate fate, const char *moved_to);
/* Processor time by one way of counting.  The largest is right: a process that nobody reaps,
 * as his parent ignores SIGCHLD, is in the group's only; who came into a group late has been
 * elsewhere before. */
void watch_cpu(uint64_t us, struct brig_result *res);
/* What the control groups counted. */
void watch_account(struct cgroup *cg, struct brig_result *res);

/* In a process that outlives the supervisor, its parent: waits until that is really gone.  The
 * kernel closes its sockets, which wakes us, before it takes it out of its control group, and a
 * group with a process in it stays. */
void watch_supervisor_end(pid_t supervisor);

/* The layers native gives for this spec. */
unsigned watch_wanted(const struct spec *s);
/* Of so many processes at most, what RLIMIT_NPROC can hold; 0: nothing.  It counts per user
 * namespace from Linux 5.14, and does not hold the machine's root at all, which the command is
 * outside when root's namespace is nested so. */
uint64_t watch_nproc(uint64_t pids, bool nested);

/* -errno with err when a limit that is required has nothing that enforces it. */
int watch_limits(const struct spec *s, const struct cgroup *cg, uint64_t nproc,
		 struct brig_error *err);

#endif
