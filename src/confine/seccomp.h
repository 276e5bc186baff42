/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System-call filters.  The default filters are compiled when brig is built
 * (const data, nothing to do per run); a profile given by --seccomp is
 * compiled by the same compiler at run time.
 */
#ifndef CONFINE_SECCOMP_H
#define CONFINE_SECCOMP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#include "brig.h"

struct seccomp_prog {
	const struct sock_filter *insns;
	unsigned short len;
	bool notify; /* returns SECCOMP_RET_USER_NOTIF for refused calls that matter */
};

/* The built-in default-deny filter.  With notify, refused calls that matter
 * are reported to the supervisor's listener, which answers with
 * seccomp_refusal_errno(); without it the same errno comes from the filter. */
const struct seccomp_prog *seccomp_default(bool notify);

/* The same, with notify, for a process in the host's namespaces that has no network; what
 * those would close it closes. */
const struct seccomp_prog *seccomp_hostns(void);

/* Loaded beside a caller's own profile, which it can only tighten: what would
 * outlive the sandbox stays refused whatever the profile says. */
const struct seccomp_prog *seccomp_floor(void);

/*
 * Reads a profile in Docker's JSON format from memory and compiles it.  The
 * profile is evaluated for a process with no capabilities (rules that need
 * "includes.caps" do not apply, rules that "excludes.caps" do).  A name the
 * table does not know is an error.  *out is freed with seccomp_prog_free().
 */
int seccomp_profile_compile(const char *json, size_t len, const char *label,
			    struct seccomp_prog **out, struct brig_error *err);
void seccomp_prog_free(struct seccomp_prog *prog);

/* Loads a filter into the calling process.  *listener is the listener's descriptor with
 * prog->notify, and -1 without.  Where somebody else listens already, `quiet` is loaded
 * instead, if there is one.  No allocation, no errno.  0 or -errno. */
int seccomp_install(const struct seccomp_prog *prog, const struct seccomp_prog *quiet,
		 int *listener);

/* What the supervisor answers to a notification for this call: an errno. */
int seccomp_refusal_errno(int nr);

/* Name of a call number of the native architecture, or NULL. */
const char *seccomp_call_name(int nr);
/* Number of a call by name on the native architecture, or -1 when the name is
 * not in the table, -2 when it is known but does not exist here. */
int seccomp_call_number(const char *name);

#endif
