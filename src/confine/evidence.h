/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about the command's process, read from outside by the
 * supervisor while the process waits to be released.
 */
#ifndef CONFINE_EVIDENCE_H
#define CONFINE_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "brig.h"
#include "confine/cgroup.h"
#include "base/layers.h"

/* The namespaces, in the order of the layers USER … CGROUP. */
enum { EV_NS_COUNT = LAYER_CGROUP + 1 };

struct evidence {
	int seccomp;      /* mode: 2 is a filter */
	int seccomp_filters;
	int seccomp_filters_own; /* the supervisor's own, inherited by all */
	int no_new_privs;
	uint64_t cap_inh, cap_prm, cap_eff, cap_bnd, cap_amb;
	uint64_t ns[EV_NS_COUNT];      /* inode numbers; 0 unknown */
	uint64_t ns_host[EV_NS_COUNT]; /* the supervisor's own */
	uint64_t uid_host;             /* the id the process has outside */
	bool nested;                   /* id 0 here is not root of the machine */
	bool uid_ok;                   /* uid and gid maps are the one entry asked for */
	bool root_ok;                  /* its root directory is not the supervisor's */
	int landlock_abi;              /* from the process, with the canary's verdict */
	int landlock_canary;           /* errno; EACCES is proof */
	unsigned cgroup;               /* CG_ bits that were read back and hold */
	uint64_t nproc;                /* RLIMIT_NPROC, 0 unlimited */
	bool init_clean;               /* pid 1 is the fresh init, filtered */
	const char *source;            /* who says so, when it is not the kernel read
					  from outside; static text or NULL */
};

/* Namespace file names, indexed as ns[]. */
extern const char *const evidence_ns_names[EV_NS_COUNT];

/* The supervisor's own namespaces and filters, to compare with; any time before. */
void evidence_read_own(struct evidence *ev);

/* Reads everything about pid (and its pidfd), which waits to be released.  *mntns, if it is
 * asked for, becomes a descriptor of its mount namespace, or -1.  0, or -errno with err when
 * something needed could not be read at all. */
int evidence_read(struct evidence *ev, pid_t pid, int pidfd, int *mntns,
		  struct brig_error *err);

/* The same of a process in no namespaces but ours: its privileges and filters, in one
 * read.  Namespaces and limits stay unknown, which is no evidence of them. */
int evidence_read_status(struct evidence *ev, pid_t pid, struct brig_error *err);

/* Whether every tree of the plan is mounted with the flags it asks for, seen through the
 * root of pid.  0, or -errno with the path in bad (-EROFS: it is there, with other flags). */
struct plan;
int evidence_mounts(const struct plan *p, pid_t pid, char *bad, size_t cap);

/* The LAYER_BIT set the evidence supports. */
unsigned evidence_layers(const struct evidence *ev);

#endif
