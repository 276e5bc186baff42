/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of brig's own that borrow its memory until they execute something or
 * end.  Copying an address space, faulting its pages in again and taking the copy
 * apart is a tenth of what a run costs, and none of these processes needs one:
 * they run brig's code on brig's data.
 *
 * What such a process must not do: allocate, use stdio, or write to what the
 * supervisor reads (it is given a copy of what it changes).  It has a stack of its
 * own, no signal handler of the caller's, and an errno of its own where that can be
 * arranged: see SPAWN_OWN_ERRNO.
 */
#ifndef ENGINE_SPAWN_H
#define ENGINE_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sys.h"

/* musl keeps errno in the thread's block, whose layout is known for this
 * processor.  Elsewhere the builder gets memory of its own. */
#if defined(BRIG_MUSL) && defined(__x86_64__)
#define SPAWN_OWN_ERRNO 1
#else
#define SPAWN_OWN_ERRNO 0
#endif

/* A process that is killed for want of memory takes along all that share its own.
 * Above this limit nothing that happens before the execve comes near it: at most
 * 6 MiB of arguments, and what the kernel needs to know about mounts. */
#define SPAWN_SHARE_MEMORY (64ull << 20)

/* Stacks for the processes of one run. */
struct spawn_rooms {
	char *at;
	size_t size;
	bool hidden; /* spawn_hide() was here; as it was before: */
	bool was_open;
};

/* 0 or -ENOMEM.  Freed when all of them have ended. */
int spawn_rooms_make(struct spawn_rooms *r, unsigned n);
void spawn_rooms_free(struct spawn_rooms *r);

/*
 * True when a process in a group with this limit (0: none) may share our memory
 * while it confines itself.  Not before Linux 5.16, where a signal that dumps core
 * kills all who share.  Root asks spawn_hide(), too.
 */
bool spawn_may_share(unsigned long long memory_limit);

/*
 * For root, whose process takes another id while it shares our memory.  The owner of
 * that id, if it has one, may do things to the process that concern everybody who
 * shares.  True when there is nothing left of that; until the rooms are freed.
 *
 * - Below its /proc some files are a matter of the memory (oom_score_adj, for one).  So
 *   the memory is made undumpable: all of /proc/PID belongs to root then, and nobody
 *   else may look at it or write there.  The kernel keeps it so when the id changes,
 *   unless fs.suid_dumpable is 1.  Whoever reads the evidence needs CAP_SYS_PTRACE then.
 *   Only for the first who asked for rooms: two could not agree when it ends.
 * - In version 1 of control groups a process may be moved by the owner of its id, to a
 *   group with so little memory that the kernel kills all who share.  In version 2 that
 *   takes rights over the group it is in.  `movable`: the id has an owner, and version 1
 *   is, or may be, in use.
 */
bool spawn_hide(struct spawn_rooms *r, bool movable);
/* It was not necessary: as it was before. */
void spawn_show(struct spawn_rooms *r);

/*
 * clone3() with a function to run, in room number i; with CLONE_VM in args->flags
 * on our memory.  The process ends when entry returns.  The pid, or -errno.
 */
pid_t spawn(struct clone_args *args, const struct spawn_rooms *r, unsigned i,
	    int (*entry)(void *), void *arg);

/*
 * When nobody else uses our memory any more.  A processor where somebody did remembers it,
 * and is interrupted for that when it ends: now, instead, while it is awake.  It takes 40 µs to
 * wake a virtual one that sleeps.
 */
void spawn_forget(void);

/* A word that one of two processes on the same memory waits for.  A wait may end
 * early, and does after a while, to look. */
void word_set(uint32_t *word);
bool word_is_set(const uint32_t *word);
void word_await(const uint32_t *word);

#endif
