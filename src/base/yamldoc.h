/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML (or JSON) text as a tree of nodes that know where they were written.
 * Built on libyaml's events, with limits of our own: what comes in may be
 * hostile, and its cost must be bounded before its meaning is known.
 *
 * Anchors and aliases work (an alias is the same node once more, never a copy),
 * so a document that expands without end costs nothing here; whoever walks the
 * tree counts its steps.  Tags and merge keys are refused.
 */
#ifndef BASE_YAMLDOC_H
#define BASE_YAMLDOC_H

#include <stdbool.h>
#include <stddef.h>

enum {
	YAML_MAX_BYTES = 1 << 20,
	YAML_MAX_NODES = 50000, /* and as many aliases */
	YAML_MAX_ANCHORS = 100,
	YAML_MAX_DEPTH = 24,
	YAML_MAX_KEYS = 1000, /* of one mapping */
};

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct ynode {
	enum yaml_kind kind;
	bool quoted;          /* a scalar in quotes: never null, never a boolean */
	unsigned line, column; /* from 1 */
	char *text;           /* YAML_SCALAR: without NUL bytes */
	unsigned hash;        /* of the text: most that differ differ in it */
	struct ynode **item;  /* YAML_LIST: items; YAML_MAP: key, value, key … */
	size_t n;             /* YAML_LIST: items; YAML_MAP: pairs */
};

struct ydoc; /* owns its nodes */

struct ywhere {
	unsigned line, column; /* 0: not known */
	char what[200];
	char fix[160];
};

/*
 * Reads a text.  *out owns everything and is freed with ydoc_free(); an empty
 * document has a root of NULL.  -EINVAL (malformed), -E2BIG (a limit) or
 * -ENOMEM, with *where filled.
 */
int ydoc_parse(const char *text, size_t len, struct ydoc **out,
	       struct ywhere *where);
void ydoc_free(struct ydoc *d);
const struct ynode *ydoc_root(const struct ydoc *d);

/* The value of a key, or NULL.  n may be NULL or of another kind. */
const struct ynode *ynode_get(const struct ynode *n, const char *key);
/* Down a path of keys, "tools.exec.sandbox"; NULL when any is not there. */
const struct ynode *ynode_path(const struct ynode *n, const char *path);
/* A plain scalar that stands for "nothing": empty, ~ or null. */
bool ynode_is_null(const struct ynode *n);
/* 1 or 0 for a plain true/false/yes/no/on/off, -1 for anything else. */
int ynode_bool(const struct ynode *n);

#endif
