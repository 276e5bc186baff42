/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock: the second, path-based layer on the command itself. */
#ifndef CONFINE_LANDLOCK_H
#define CONFINE_LANDLOCK_H

#include <stdbool.h>

#include "plan/plan.h"

/* The kernel's Landlock version, or -errno (ENOSYS, EOPNOTSUPP). */
int landlock_abi(void);

/*
 * Makes a ruleset for the plan's rules, with their paths as the calling process sees them,
 * and returns its descriptor, or -errno.  No allocation.  deny_tcp refuses every TCP bind
 * and connect where the kernel can.
 */
int landlock_ruleset(const struct plan_rule *rules, size_t n, int abi, bool deny_tcp);

/* Adds one rule for what an open (O_PATH) descriptor stands for: no name is
 * looked up again.  0 or -errno.  No allocation. */
int landlock_allow(int ruleset, int fd, enum ll_class class, bool is_dir, int abi);

/* Lets TCP connections go to this port, of any address, where deny_tcp refused them.
 * Version 4 or later.  0 or -errno. */
int landlock_allow_port(int ruleset, unsigned port);

/* Applies it to the calling thread, for good.  0 or -errno. */
int landlock_apply(int ruleset);

/*
 * The kernel offers no way to read a Landlock domain from outside, so the
 * evidence is an operation that only Landlock refuses: making a whiteout
 * device in a directory the caller may otherwise write to.  Returns the errno
 * that came back: EACCES means the domain is in force; 0 means it is not.
 */
int landlock_canary(int dirfd);
/* The same with a plain file, for a process that has brig's filter already and a
 * directory that no rule lets it write to. */
int landlock_canary_file(int dirfd);

#endif
