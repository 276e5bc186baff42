/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of everything that can be set.  It drives the command line,
 * brig_spec_set(), the configuration files, the defaults, locks, `explain`,
 * `config init`, the JSON Schema and the manual pages.
 */
#ifndef POLICY_OPTIONS_H
#define POLICY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "brig.h"

#define BRIG_OPTIONS(X) \
	X(BACKEND) X(FALLBACK) X(REQUIRE) \
	X(WORKSPACE) X(ROOT) X(AT) X(ACCESS) X(CWD) X(PROTECT) X(ALLOW_HOME) \
	X(RO) X(RW) X(MASK) X(TMP_SIZE) \
	X(NET) X(ALLOW) X(LEARN) X(PROXY_ENV) X(LOOPBACK) \
	X(ENV) X(ENV_FD) X(ENV_PASS) X(PATH_PREPEND) X(TOOLCHAINS) X(CACHES) \
	X(TIMEOUT) X(MEMORY) X(CPUS) X(PIDS) X(FILE_SIZE) X(MAX_OUTPUT) X(DISK) \
	X(SECCOMP) X(IMAGE) X(RUNTIME) X(READ_ONLY) X(DROP_CAPS) X(ADD_CAPS) \
	X(DOCKER_SOCKET) X(DOCKER_POOL) X(DOCKER_IDLE) X(WRAPPER) \
	X(CONFIG) X(PROFILE) X(TENANT) X(TOOL) \
	X(JSON) X(STATUS_FD) X(PTY) X(NAME) X(HOLD)

enum opt {
#define X(sym) OPT_##sym,
	BRIG_OPTIONS(X)
#undef X
	OPT__COUNT
};

enum opt_kind {
	OK_FLAG,    /* a switch; true or false in a file */
	OK_TEXT,
	OK_LIST,    /* repeatable; a list in a file */
	OK_WORDS,   /* comma-separated on the command line; a list in a file */
	OK_PAIRS,   /* NAME=VALUE, repeatable; a mapping in a file */
	OK_ARGV,    /* one text, or a list of words */
	OK_SIZE,
	OK_COUNT,
	OK_MILLI,   /* decimal, kept in thousandths */
	OK_FD,
	OK_CHOICE,  /* one of the words in .words */
	OK_LATER,   /* in the contract, not in this version: refused */
};

/* What a later layer's value does to an earlier one. */
enum opt_merge {
	MERGE_REPLACE, /* the last layer that says something wins */
	MERGE_ADD,     /* it adds to what is there: lists that close something */
	MERGE_BY_NAME, /* NAME=VALUE: each name by itself */
};

/* Which way is tighter, for locks. */
enum opt_tight {
	TIGHT_SAME,   /* no order: a locked value cannot change */
	TIGHT_LESS,   /* smaller is tighter; 0 means no limit */
	TIGHT_FIRST,  /* of .words the earlier one is tighter */
	TIGHT_SUBSET, /* only what is there already */
	TIGHT_MORE,   /* more of it is tighter */
	TIGHT_FREE,   /* never loosens anything */
};

enum {
	OPTF_PATH = 1u << 0,  /* ~ and paths relative to the file */
	OPTF_BIND = 1u << 1,  /* the same, for SRC[:DST] */
};

struct opt_def {
	const char *name;     /* "tmp-size"; NULL: in files only */
	const char *metavar;  /* "SIZE", NULL for a flag */
	enum opt_kind kind;
	const char *key;      /* path below `sandbox:`, NULL when per run only */
	const char *def;      /* default as text (words with commas), NULL for none */
	const char *words;    /* OK_CHOICE, OK_FLAG with TIGHT_FIRST: "none|host" */
	const char *help;
	const char *least;    /* smallest value besides 0, NULL for none */
	enum opt_merge merge;
	enum opt_tight tight;
	unsigned flags;
	const char *example;  /* for `config init` when there is no default */
};

extern const struct opt_def opt_table[OPT__COUNT];

/* The option with this name (as written, aliases resolved), or OPT__COUNT. */
enum opt opt_by_name(const char *name);
/* The option with this key path below `sandbox:`, or OPT__COUNT. */
enum opt opt_by_key(const char *key);
/* The closest option name, for "did you mean", or NULL. */
const char *opt_suggest(const char *name);
/* True when the key is option o's or a part above it ("limits" for
 * "limits.memory"). */
bool opt_key_covers(const char *key, enum opt o);

/* How far two words are apart, in edits; 99 when they are long. */
unsigned word_distance(const char *a, const char *b);
/* True when value is one of "a|b|c". */
bool word_one_of(const char *words, const char *value);

/*
 * Checks the form of one value (one item of a list).  label is what the person
 * wrote it under: "--memory" or "limits.memory".  -EINVAL with err.
 */
int opt_check(enum opt o, const char *label, const char *value,
	      struct brig_error *err);

/* The number behind a SIZE, COUNT, MILLI or FD value.  -EINVAL or -ERANGE. */
int opt_number(enum opt o, const char *value, uint64_t *n);

/* What is expected, for messages and the schema: "a size such as 512M". */
const char *opt_expects(enum opt o);

#endif
