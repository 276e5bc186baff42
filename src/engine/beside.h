/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_BESIDE_H
#define ENGINE_BESIDE_H

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

#endif
