/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How layers combine.  Single values: the last layer that sets one wins.  Lists
 * that open something (read, write, allow, pass, toolchains ...) are taken whole
 * from the last layer of the files that sets them, so that what is written is
 * what holds; repeatable options of a run (--ro, --rw, --allow) come on top.  Lists that close something
 * (mask, protect, require, drop_caps) add up.
 *
 * A layer may lock keys.  From then on a later layer may tighten such a value,
 * never loosen it: the attempt is an error, not something to be ignored.
 */
#ifndef POLICY_MERGE_H
#define POLICY_MERGE_H

#include "policy/request.h"

/*
 * Puts a layer on top of what is in force.  The layer stays the caller's; what
 * is taken from it is copied.  -EPERM with err (LOCKED) when it loosens a locked
 * key, -ENOMEM.
 */
int layer_apply(struct brig_spec *in_force, const struct brig_spec *layer,
		struct brig_error *err);

/* Whether the layer's value of o is looser than what is in force; *word is the
 * part that is, for the message. */
bool opt_loosens(enum opt o, const struct brig_spec *in_force,
		 const struct brig_spec *layer, const char **word);

#endif
