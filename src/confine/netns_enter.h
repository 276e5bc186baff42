/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of an allow-list in a namespace that somebody else made: the
 * sandbox of another program, or a container.
 */
#ifndef CONFINE_NETNS_ENTER_H
#define CONFINE_NETNS_ENTER_H

#include <sys/types.h>

#include "engine/egress.h"

/*
 * Makes routes and sockets in the network namespace of a process, which pidfd
 * holds, and adopts them.  The process must be brig's own program, waiting: from
 * the moment it runs the command it may not be trusted.  -errno with err when the
 * namespace is our own or we may not enter it.
 */
int netns_enter(struct egress *e, pid_t pid, int pidfd, struct brig_error *err);

#endif
