/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can stand in a configuration file besides the table of options: the keys
 * at the top, the sections, the other spellings; and everything that is made from
 * both tables (JSON Schema, the commented file, the manual page).
 */
#ifndef POLICY_SCHEMA_H
#define POLICY_SCHEMA_H

#include "base/buf.h"
#include "policy/options.h"

struct schema_top {
	const char *name;
	const char *type; /* "mapping", "list", "text", "number" */
	const char *help;
};
enum { SCHEMA_TOP_COUNT = 9 };
extern const struct schema_top schema_top[SCHEMA_TOP_COUNT];

/* Sections below `sandbox:`, in the order in which they are written. */
struct schema_section {
	const char *name;
	const char *help;
	enum opt scalar; /* what a plain word in its place sets, or OPT__COUNT */
};
enum { SCHEMA_SECTIONS = 6 };
extern const struct schema_section schema_sections[SCHEMA_SECTIONS];

/* The section, or NULL. */
const struct schema_section *schema_section(const char *name);

/* Another spelling that operators already write; the value is converted. */
struct schema_alias {
	const char *key;
	enum opt opt;
	/* text of the option from the text that was written; 0, or -EINVAL */
	int (*convert)(const char *in, char *out, size_t cap);
	const char *expects, *help;
};
enum { SCHEMA_ALIASES = 2 };
extern const struct schema_alias schema_aliases[SCHEMA_ALIASES];

/* "did you mean" for an unknown key below a section ("" for `sandbox:` itself);
 * out holds a sentence. */
void schema_suggest(const char *section, const char *key, char *out, size_t cap);

/* The JSON Schema of a configuration file, for editors. */
void schema_json(struct buf *out);
/* A configuration file with everything commented out. */
void schema_template(struct buf *out);
/* The manual page brig-config(5). */
void schema_man(struct buf *out);

#endif
