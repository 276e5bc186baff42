/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_RESOLVE_H
#define POLICY_RESOLVE_H

#include "base/spec.h"
#include "policy/request.h"

/*
 * Words → spec.  Opens what is named (by descriptor, so that what was checked
 * is what will be used), checks everything, decides nothing by guessing.
 * *out is freed with spec_free().  -errno with err.
 */
int policy_resolve(const struct brig_spec *rq, struct spec **out,
		   struct brig_error *err);

/* The caller's home directory: $HOME when absolute, else passwd; or NULL. */
char *caller_home(void);

#endif
