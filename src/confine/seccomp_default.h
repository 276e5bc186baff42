/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default policy.  Used by tools/gen-seccomp when brig is built and by
 * the tests; a running brig only has the compiled result.
 */
#ifndef CONFINE_SECCOMP_DEFAULT_H
#define CONFINE_SECCOMP_DEFAULT_H

#include <stdbool.h>

#include "confine/seccomp_bpf.h"
#include "confine/seccomp_table.h"

#define SECCOMP_DEFAULT_RULES 64

/* A policy with its storage; large, but only build-time code has one. */
struct seccomp_default_policy {
	struct seccomp_policy policy;
	struct seccomp_verdict calls[SECCOMP_NR_MAX];
	struct seccomp_rule rules[SECCOMP_DEFAULT_RULES];
	/* Per call: the errno of its reported refusals, 0 when it has none. */
	unsigned char refusal[SECCOMP_NR_MAX];
};

/*
 * Builds the policy for one architecture.  With notify, refusals worth a
 * report return SECCOMP_RET_USER_NOTIF in place of their errno.  0, or
 * -EINVAL with *problem (static text) and *name saying which call is unknown,
 * named twice, or in the table but without a verdict.  The policy points into
 * *out, which must not be moved.
 */
int seccomp_default_build(enum seccomp_arch arch, bool notify,
			  struct seccomp_default_policy *out,
			  const char **problem, const char **name);

/*
 * The same, with notify, for a process that shares the host's namespaces and has no
 * network: no sockets, no IPC objects, no limits of others.  Returns as above.
 */
int seccomp_hostns_build(enum seccomp_arch arch, struct seccomp_default_policy *out,
			 const char **problem, const char **name);

/*
 * The floor: what stays refused under a caller's own profile, because it would
 * outlive the sandbox or reach out of it by itself (set-id files and devices
 * in the workspace, typing into a terminal).  Everything else is allowed: the
 * profile, loaded beside it, decides.  Returns as above.
 */
int seccomp_floor_build(enum seccomp_arch arch,
			struct seccomp_default_policy *out,
			const char **problem, const char **name);

#endif
