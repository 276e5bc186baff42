/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_LANDLOCK_FILTER_H
#define BACKEND_LANDLOCK_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>

#include "confine/seccomp.h"

#include "base/spec.h"

enum { LANDLOCK_FILTER_MAX = 128 };

/*
 * The second system-call filter of the landlock backend: it closes what
 * namespaces close elsewhere.  Sockets (a path-name socket is out of Landlock's
 * sight: the user's service manager listens on one), System V and POSIX IPC of
 * the host, limits of other processes; with an old Landlock also truncation.
 * Everything else it allows: brig's default filter decides.
 *
 * With an allow-list there are TCP sockets of IPv4 and nothing else, no listeners,
 * and every connect() is asked of the supervisor (engine/seccomp's notifications):
 * Landlock knows ports, but no addresses.
 *
 * Writes the program into insns and returns its length.  No allocation.
 */
unsigned short landlock_filter(struct sock_filter insns[LANDLOCK_FILTER_MAX], int abi,
			       enum net_mode net);

enum { LANDLOCK_JOINED_MAX = LANDLOCK_FILTER_MAX + 1024 };

/*
 * Both as one program, since loading costs more than running: where the first
 * allows, the second is asked.  Returns its length, 0 when there is no room.
 */
unsigned short landlock_filter_join(struct sock_filter out[LANDLOCK_JOINED_MAX],
				    const struct sock_filter *first, unsigned short n,
				    const struct seccomp_prog *second);

#endif
