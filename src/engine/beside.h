/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_BESIDE_H
#define ENGINE_BESIDE_H

#include <stdbool.h>
#include <sys/types.h>

struct launch;

/* The namespaces that the job makes, and leaves a descriptor of each. */
enum { BESIDE_MOUNT, BESIDE_IPC, BESIDE_NET, BESIDE_COUNT };

/* Makes them and is in them.  If one cannot be had the process ends, and the builder says
 * why. */
void beside_make(struct launch *l);
/* In the builder: waits for them, and moves there.  The mounts first. */
void beside_join_mounts(struct launch *l, pid_t maker);
void beside_join(struct launch *l, pid_t maker);
/* Brings the network's loopback interface up, if there is to be one and it is for the caller
 * to do: the builder, when it has joined, or who made the namespaces, when the plan is there. */
void beside_loopback(struct launch *l, bool builder);

#endif
