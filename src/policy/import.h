/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs' settings as a brig configuration. */
#ifndef POLICY_IMPORT_H
#define POLICY_IMPORT_H

#include "base/buf.h"
#include "base/yamldoc.h"

struct import_from {
	const char *name;    /* "nanobot" */
	const char *summary;
	/* Writes YAML.  A setting that cannot be carried over is an error: nothing
	 * may be lost without a word.  -EINVAL with where filled. */
	int (*convert)(const struct ynode *root, struct buf *out, struct ywhere *where);
};

/* JSON writes a character outside the first plane as two escapes, which YAML does
 * not know: they become the character itself, in place.  The new length. */
size_t import_join_escapes(char *text, size_t len);

/* NULL-terminated by name. */
extern const struct import_from import_table[];

#endif
