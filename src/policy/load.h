/* SPDX-License-Identifier: Apache-2.0 */
/* All layers, in order, into what is in force for one run. */
#ifndef POLICY_LOAD_H
#define POLICY_LOAD_H

#include "policy/config.h"

/*
 * built-in -> global files -> profile -> tenant -> tool -> the request itself.
 * *out is a request like any other, with every value's origin and all locks; it
 * is freed with brig_spec_free().  -errno with err; nothing is in force then.
 */
int policy_load(const struct brig_spec *rq, struct brig_spec **out,
		struct brig_error *err);

/* The same on files that have been read, for `config check`. */
int policy_layers(struct config *c, const struct brig_spec *rq,
		  struct brig_spec *out, struct brig_error *err);

/* Built-in profiles: YAML text of a `sandbox:` section, NULL when there is none
 * of that name. */
const char *profile_builtin(const char *name);
/* Name and description of the n-th; NULL at the end. */
const char *profile_nth(unsigned n, const char **text);

#endif
