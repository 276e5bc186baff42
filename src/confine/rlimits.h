/* SPDX-License-Identifier: Apache-2.0 */
/* Resource limits of the calling process.  RLIMIT_NPROC is read back by evidence.c. */
#ifndef CONFINE_RLIMITS_H
#define CONFINE_RLIMITS_H

#include <stdint.h>

/* Lowers a limit to value, soft and hard; one that is tighter already stays.  0 is no
 * limit.  No allocation, no errno.  0 or -errno. */
int rlimit_lower(unsigned what, uint64_t value);

#endif
