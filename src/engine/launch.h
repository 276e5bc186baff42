/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything the new processes need, complete before the first of them is cloned.  They
 * have a copy of it, as after every fork, and allocate nothing.
 *
 *   supervisor ── clone3 (all namespaces) ──▶ builder, pid 1: ids, network, root tree
 *    │                                         ├─ fork ─▶ job, pid 2: drops everything,
 *    │                                         │          says READY, waits, executes
 *    └─ evidence, release                      └─ exec ─▶ brig-init, still pid 1
 */
#ifndef ENGINE_LAUNCH_H
#define ENGINE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "confine/cgroup.h"
#include "confine/ids.h"
#include "confine/root.h"
#include "confine/seccomp.h"
#include "engine/wire.h"
#include "plan/plan.h"

struct launch {
	const struct spec *spec;
	const struct plan *plan;
	const struct seccomp_prog *filter;
	const struct cgroup *cg;        /* version 1: `tasks` files for the job to enter by */
	struct root root;
	int landlock_abi;               /* 0: none to apply */
	uint64_t nproc;                 /* RLIMIT_NPROC to set, 0 none */
	struct id_maps maps;            /* of the sandbox's user namespace */
	struct id_maps maps_again;      /* of a second one, see lock_mounts() */
	mode_t umask;                   /* the caller's, for the command */

	int ctl_child, ctl_supervisor;  /* SOCK_SEQPACKET, struct wire */
	int status_write, status_read;  /* struct init_report */
	int death_read, death_write;    /* end of file: the supervisor died */
	int janitor;                    /* the supervisor's end of the janitor's socket */
	int stdio[3];                   /* becomes 0, 1, 2; -1 keeps the caller's */
	int cwdfd;                      /* where the command starts, in the new tree */
	char **script_argv;             /* sh FILE ARGS…, for files without #! */
};

/* The builder: runs as pid 1 of the new namespaces, never returns. */
void builder_main(struct launch *l) __attribute__((noreturn));

/* The job: confines itself for good, reports, waits for the release, executes. */
void job_main(struct launch *l) __attribute__((noreturn));

/* Sends a WIRE_FAIL record, and ends the process. */
void child_fail(const struct launch *l, enum brig_code code, int errnum,
		const char *phase, const char *what) __attribute__((noreturn));

/* The init program, embedded at build time. */
extern const unsigned char brig_init_image[];
extern const unsigned brig_init_image_len;

#endif
