/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything the new processes need, prepared for them: they allocate nothing.
 * They have a copy of it, because they share the supervisor's memory and not its
 * descriptors.
 *
 *   supervisor ── clone3 (namespaces) ──▶ builder, pid 1: ids
 *    │                                     ├─ clone ─▶ job, pid 2: network namespace,
 *    ├─ plan ────────────────────────────▶ │           drops everything, says so,
 *    ├─ groups, as root the caller's       │           waits for the tree, reports,
 *    │  trees                              │           waits, exec
 *    └─ evidence, release                  │
 *                                          ├─ root tree
 *                                          └─ exec ──▶ brig-init, still pid 1
 *
 * Where memory is shared the builder is there before the plan: the network namespace,
 * which takes longest, is made meanwhile.
 *
 * Where the mounts have to be locked (see lock_mounts() in child.c) the first
 * process only makes the network namespace, and root's maps for the lock, and the job is
 * cloned after it.
 */
#ifndef ENGINE_LAUNCH_H
#define ENGINE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "confine/cgroup.h"
#include "engine/beside.h"
#include "confine/netns_allow.h"
#include "engine/place.h"
#include "plan/plan.h"
#include "confine/root.h"
#include "confine/seccomp.h"
#include "engine/spawn.h"
#include "engine/wire.h"

/* What follows from who runs brig: run_identify().  If that is root it is not known before
 * the plan, and comes with it. */
struct launch_who {
	bool called;      /* the release calls the job to where the supervisor is */
	bool late_groups; /* version 1: the job is told when they are made */
	uint64_t nproc;   /* RLIMIT_NPROC to set, 0 none */
	char uid_map[48], gid_map[48];           /* the one line of each map */
	char uid_map_same[48], gid_map_same[48]; /* the same id again, see lock_mounts() */
};

struct launch {
	const struct spec *spec;
	const struct plan *plan; /* this, the root and who: once plan_done is set */
	struct launch_who who;
	struct root root;
	bool shares;            /* the builder and the job use the supervisor's memory */
	unsigned table;         /* descriptors the builder and the job may come to need */
	const struct seccomp_prog *filter;
	int landlock_abi;       /* 0: none to apply */
	struct place place;     /* where the builder is born */
	int builder_cpu;        /* and still was when it started the job */
	mode_t umask;           /* the caller's, for the command */

	int ctl_child, ctl_supervisor;    /* SOCK_SEQPACKET, struct wire */
	int trees_child, trees_supervisor; /* the same, for WIRE_TREES alone; -1 none */
	int status_write, status_read;    /* struct init_report */
	int death_read, death_write;      /* end of file: the supervisor died */
	int beside[BESIDE_COUNT];         /* descriptors of the namespaces the job made */
	int beside_errno;                 /* or why it could not, */
	const char *beside_failed;        /* and what, */
	enum brig_code beside_code;       /* and what that is called; once done is set */
	struct allow_net *allow;          /* NULL: no allow-list, no sockets */
	struct spawn_rooms rooms;
	/* from the builder to the job, or back: word_set() */
	uint32_t mounts_done, beside_done, maker_done, plan_done, points, built, tree_done;
	uint32_t locked, mapped;          /* the second user namespace, see lock_mounts() */
	int first_mntns;                  /* see lock_mounts() */
	int cwdfd;                        /* where the command starts, in the new tree */
	int stdio[3];                     /* becomes 0, 1, 2; -1 keeps the caller's */
	char status_arg[12], death_arg[12], job_arg[12];
	char **script_argv;               /* sh FILE ARGS…, for files without #! */
};

/* The processes that borrow the supervisor's memory, each with a room. */
enum { ROOM_BUILDER, ROOM_EARLY, ROOM_LATE, ROOM_CUSTODIAN, ROOMS };

/* What the builder and the job change is in the copy; the plan comes with the second
 * call, perhaps when they are at work already.  0 or -ENOMEM. */
int launch_copy(struct launch *to, const struct launch *from);
int launch_give_plan(struct launch *to, const struct launch *from);
void launch_copy_free(struct launch *copy);

/* The builder: runs as pid 1 of the new namespaces, never returns. */
int child_main(void *launch) __attribute__((noreturn));

/* In the maker of the network namespace: all that an allow-list needs there.  0, or -errno
 * and what failed. */
int netns_populate(struct launch *l, const char **failed);
/* Gives the sockets of an allow-list to the supervisor, and closes them here. */
void netns_hand_over(const struct launch *l);

/* The job: confines itself for good, reports, waits for release, executes.
 * Runs on a stack of its own, sharing memory with the builder.  Early: the tree is
 * not there yet, and the descriptors are the builder's, too. */
void job_main(struct launch *l, bool early) __attribute__((noreturn));

/* Who is there beside the builder helps it with the caller's trees, if they are many: with the
 * rights it has at first, and without any. */
void job_help_builder(struct launch *l);
void job_help_more(const struct launch *l);

/* The mapped id: in the builder, and in a job that was cloned before it had one. */
void child_take_ids(const struct launch *l);
void child_own_keyring(const struct launch *l);

/* Lowers a limit of the calling process, if it is not lower already; 0 is none. */
void child_set_limit(const struct launch *l, unsigned what, uint64_t value, const char *name);

/* Waits for a record; without it the supervisor is gone, and so is who waited.  The builder
 * reads WIRE_PLAN and, on a socket of its own, WIRE_TREES; whoever has seen plan_done all
 * others. */
void child_await_record(const struct launch *l, enum wire_type type, struct wire_in *in);
/* Until a word is set; false when the process that sets it died, with a record of why or
 * without. */
bool child_await(const uint32_t *word, pid_t who);

/* Sends a WIRE_FAIL record; and ends the process. */
void child_tell(const struct launch *l, enum brig_code code, int errnum,
		const char *phase, const char *what);
void child_fail(const struct launch *l, enum brig_code code, int errnum,
		const char *phase, const char *what) __attribute__((noreturn));

/* The init program, embedded at build time. */
extern const unsigned char brig_init_image[];
extern const unsigned brig_init_image_len;

#endif
