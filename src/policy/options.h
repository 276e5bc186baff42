/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of everything that can be set for a run.  It drives the command
 * line, brig_spec_set(), the defaults, `explain` and the help text; the layered
 * configuration will drive the same table by its key paths.
 */
#ifndef POLICY_OPTIONS_H
#define POLICY_OPTIONS_H

#include <stdbool.h>

#include "brig.h"

#define BRIG_OPTIONS(X) \
	X(WORKSPACE) X(AT) X(CWD) X(RO) X(RW) X(MASK) X(PROTECT) X(ALLOW_HOME) \
	X(NET) X(LOOPBACK) X(ENV) X(ENV_FD) X(TIMEOUT) X(MEMORY) X(CPUS) X(PIDS) \
	X(TMP_SIZE) X(FILE_SIZE) X(MAX_OUTPUT) X(BACKEND) X(REQUIRE) X(SECCOMP) \
	X(JSON) X(STATUS_FD) X(PTY) X(NAME) \
	X(IMAGE) X(RUNTIME) X(DOCKER_SOCKET) X(POOL) X(POOL_IDLE) \
	X(HOLD) X(ALLOW) X(TENANT) X(TOOL) X(CONFIG) X(PROFILE)

enum opt {
#define X(sym) OPT_##sym,
	BRIG_OPTIONS(X)
#undef X
	OPT__COUNT
};

enum opt_kind {
	OK_FLAG,
	OK_TEXT,
	OK_LIST,    /* repeatable */
	OK_SIZE,
	OK_COUNT,
	OK_MILLI,   /* decimal, kept in thousandths */
	OK_FD,
	OK_CHOICE,  /* one of the words in .words */
	OK_LAYERS,  /* comma-separated layer names */
	OK_LATER,   /* in the contract, not in this version: refused */
};

struct opt_def {
	const char *name;     /* "tmp-size" */
	const char *metavar;  /* "SIZE", NULL for a flag */
	enum opt_kind kind;
	const char *key;      /* path in a policy file, NULL when per run only */
	const char *def;      /* default as text, NULL for none */
	const char *words;    /* OK_CHOICE: "none|host" */
	const char *help;
};

extern const struct opt_def opt_table[OPT__COUNT];

/* The option with this name (as written, aliases resolved), or OPT__COUNT. */
enum opt opt_by_name(const char *name);
/* The closest name, for "did you mean", or NULL. */
const char *opt_suggest(const char *name);

/* What a caller asked for: words, with the origin of each. */
struct req_value {
	char **v;           /* NULL: not set here */
	const char *origin; /* "command line", "api"; static text */
};
struct brig_spec {
	struct req_value o[OPT__COUNT];
	char **argv;
};

/* Checks a value's form and stores it.  -errno with err when malformed. */
int request_set(struct brig_spec *rq, enum opt o, const char *value,
		const char *origin, struct brig_error *err);
/* The value in force: what was set last, else the default, else NULL. */
const char *request_text(const struct brig_spec *rq, enum opt o);
bool request_has(const struct brig_spec *rq, enum opt o);
static inline bool request_flag(const struct brig_spec *rq, enum opt o)
{
	return request_has(rq, o);
}

#endif
