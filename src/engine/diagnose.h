/* SPDX-License-Identifier: Apache-2.0 */
/* From an errno to a cause and a fix a person can act on. */
#ifndef ENGINE_DIAGNOSE_H
#define ENGINE_DIAGNOSE_H

#include "brig.h"

/* Why a user namespace (or the clone that makes it) was refused. */
int diagnose_userns(int errnum, struct brig_error *err);
/* Why ids could not be mapped in a namespace that was made. */
int diagnose_idmap(int errnum, struct brig_error *err);
/* Adds a fix to a failure reported from inside, by its code. */
void diagnose_fix(struct brig_error *err);

/* Kernel release of at least major.minor. */
int kernel_at_least(unsigned major, unsigned minor);

#endif
