/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits by control group: version 2 where a writable, delegated group with
 * the controllers exists (or the systemd user manager gives us a scope),
 * version 1 hierarchies where that is what the machine has.
 */
#ifndef CONFINE_CGROUP_H
#define CONFINE_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "brig.h"

enum {
	CG_MEMORY = 1u << 0,
	CG_PIDS = 1u << 1,
	CG_CPU = 1u << 2,
};

struct cgroup_want {
	uint64_t memory;     /* bytes; 0 = no limit */
	uint64_t pids;       /* tasks; 0 = no limit */
	uint64_t cpu_milli;  /* thousandths of a CPU; 0 = no limit */
	unsigned asked;      /* CG_ bits a person asked for: worth a slow path */
};

enum { CG_ALL = CG_MEMORY | CG_PIDS | CG_CPU };

enum { CG_MAX_DIRS = 4 };

/* Something for people to read, and which limits it is about. */
struct cg_words {
	unsigned bits;
	char text[384];
};
enum { CG_WHY_MAX = 8 };

struct cgroup_usage {
	uint64_t memory_peak;  /* bytes, 0 unknown */
	uint64_t oom_kills;
	uint64_t pids_refused; /* forks refused by the limit */
	uint64_t cpu_us;       /* of all that were ever in it, reaped or not; 0 unknown */
};

/*
 * Something that has to be undone when the supervisor is killed: a message on
 * cgroup.journal, before the thing is made.
 */
enum cg_note_kind { CG_NOTE_GROUP = 1, CG_NOTE_LEAF, CG_NOTE__LAST };
struct cg_note {
	uint32_t kind;
	uint32_t bits;       /* LEAF: what was switched on above it */
	char path[PATH_MAX]; /* as long as it is; the message ends behind it */
};

/*
 * One sandbox's groups.  Plain data with fixed-size fields: the janitor, which removes
 * them after a supervisor that was killed, allocates nothing.
 */
struct cgroup {
	int version;               /* 0 none, 1, 2 */
	unsigned enforced;         /* CG_ bits whose limit was written and read back */
	int clone_fd;              /* v2: directory for CLONE_INTO_CGROUP, else -1 */
	int task_fds[CG_MAX_DIRS]; /* v1: `tasks` files, opened; the child writes "0" */
	int n_task_fds;
	int slot_fds[CG_MAX_DIRS]; /* v1: directories, locked as long as one of these is open */
	struct cgroup_usage before; /* v1: what earlier runs have left in counters */
	int n_dirs;                /* that many of dirs[] and groups[] are filled in */
	unsigned bits[CG_MAX_DIRS]; /* CG_ bits the group in dirs[] limits */
	bool scope;                /* v2 scope made by the systemd manager */
	int lock;                  /* v2: of the group that is being worked on, else -1 */
	int journal;               /* socket for struct cg_note, or -1: nobody listens */
	unsigned leaf_bits;        /* what was switched on above the leaf */
	struct cg_words why[CG_WHY_MAX], fix[CG_WHY_MAX]; /* cgroup_why(), cgroup_fix() */
	int n_why, n_fix;
	/* Last what is large and often not touched: each page costs. */
	char leaf[PATH_MAX];       /* v2: where the supervisor had to step aside to;
				      undone last */
	char *dirs[CG_MAX_DIRS];   /* absolute paths, to remove; in text */
	char *groups[CG_MAX_DIRS]; /* the same as /proc/PID/cgroup says it */
	char text[2 * CG_MAX_DIRS][PATH_MAX]; /* one behind the other, close together */
};

/* Marks *cg as empty (all descriptors -1). */
void cgroup_init(struct cgroup *cg);

/* True when this machine keeps its controllers in version 1 hierarchies: then
 * a process enters its group by itself, at any time, and the groups need not
 * exist before it is born. */
bool cgroup_is_v1(void);

/*
 * Makes a group named for id (letters, digits and "._-", at most 64), or with version 1
 * takes a slot, with the wanted limits; *cg was cgroup_init()ed.  The child enters it: by
 * CLONE_INTO_CGROUP with clone_fd (CLONE_NEWCGROUP in the same clone3 is then
 * rooted in the group), or, version 1, by writing "0" to every task_fds while
 * it has one thread; there it takes its cgroup namespace only afterwards, with
 * unshare, or it would be rooted in the supervisor's group.  What cannot be
 * enforced is simply absent from cg->enforced, with a reason (cgroup_why()):
 * the caller decides whether that is fatal.  Returns 0, or -errno when a
 * group was half made and had to be undone (err is filled).  May move the
 * calling process to another group: into a leaf with its children and other
 * processes of the same program in that group, into a scope alone.
 */
int cgroup_prepare(struct cgroup *cg, const struct cgroup_want *want,
		   const char *id, struct brig_error *err);

/* Version 1: enters the groups, as the calling process.  How many, or -errno.  No
 * allocation. */
int cgroup_enter(const struct cgroup *cg);

/* In the process that hears the journal: takes note.  What is no note is ignored. */
void cgroup_remember(struct cgroup *cg, const struct cg_note *note, size_t len);

/* True when process pid (in the caller's pid namespace) is really inside
 * every group in *cg, read from /proc/PID/cgroup. */
bool cgroup_holds(const struct cgroup *cg, pid_t pid);

/* Counters, to be read after the run and before removal. */
void cgroup_read_usage(struct cgroup *cg, struct cgroup_usage *u);

/* Kills whatever is left inside (cgroup.kill, else signals).  Do not use the
 * group again: kernels (6.1.190 and 6.18 do) go on killing at birth whatever
 * is cloned into it by CLONE_INTO_CGROUP. */
void cgroup_kill(const struct cgroup *cg);

/* Removes the groups; slots of version 1 stay, for the next run.  No allocation, no stdio;
 * may be called more than once.  Waits at most about 200 ms for tasks to be gone. */
void cgroup_remove(struct cgroup *cg);

/* Closes the descriptors only.  Slots are free for others when all copies are closed. */
void cgroup_close(struct cgroup *cg);

/* Why one of the limits, or any of several, cannot be enforced, in one line, and what to do
 * about it; always something.  The buffer is for the former. */
const char *cgroup_why(const struct cgroup *cg, unsigned bits, char *out, size_t cap);
const char *cgroup_fix(const struct cgroup *cg, unsigned bits);

/* What this machine offers, found by really making (and removing) a group:
 * CG_ bits that could be enforced; version and reason in *cg.  Goes as far as
 * a run whose limits were all asked for: it may ask systemd for a scope. */
unsigned cgroup_probe(struct cgroup *cg);

#endif
