/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words with the place each was written: what one layer of the policy says, what
 * a caller asks for, and (merged) what is in force.
 */
#ifndef POLICY_REQUEST_H
#define POLICY_REQUEST_H

#include "policy/options.h"

/* From the most general to the most particular; later wins. */
enum layer_rank {
	RANK_BUILTIN,
	RANK_SYSTEM,  /* /etc/brig/config.yaml */
	RANK_USER,    /* the user's own file, or --config */
	RANK_PROFILE,
	RANK_TENANT,
	RANK_TOOL,
	RANK_RUN,     /* the command line or the API: not the operator */
};

struct origin {
	enum layer_rank rank;
	const char *layer; /* "command line", "profile strict" */
	const char *file;  /* NULL: not from a file */
	unsigned line, column;
};

struct req_value {
	char **v;          /* NULL: not set here; lists may be set and empty */
	size_t n;          /* words in it */
	struct origin *at; /* one per word, and one more for an empty list */
	bool here;         /* set, perhaps to an empty list */
};

struct brig_spec {
	struct req_value o[OPT__COUNT];
	struct origin lock[OPT__COUNT]; /* .layer NULL: not locked */
	char **locked[OPT__COUNT]; /* of locked paths: what was in force by then */
	char **texts; /* what origins point at */
	char **argv;
	bool loaded; /* all layers are in it */
};

/* "/etc/brig/config.yaml:3:5", "command line": where a value is from. */
void origin_text(const struct origin *at, char *out, size_t cap);

/* What the n-th word of a value was written under, for messages: "--ro", or
 * "/etc/brig/config.yaml:3:5: filesystem.read". */
void request_label(const struct brig_spec *rq, enum opt o, size_t n, char *out,
		   size_t cap);

/* Keeps a copy of the text for as long as the request lives.  NULL: no memory. */
const char *request_keep(struct brig_spec *rq, const char *text);

/* Checks a value's form and stores it; a list is appended to.  -errno with err
 * when malformed. */
int request_set(struct brig_spec *rq, enum opt o, const char *value,
		const char *origin, struct brig_error *err);
/* The same without a check, for a value that has been checked. */
int request_put(struct brig_spec *rq, enum opt o, const char *value,
		const struct origin *at);
/* Sets a list to "empty", as opposed to "not set". */
int request_clear(struct brig_spec *rq, enum opt o, const struct origin *at);
void request_unset(struct brig_spec *rq, enum opt o);

/* The value in force: what was set, else the default, else NULL. */
const char *request_text(const struct brig_spec *rq, enum opt o);
/* Somebody set it: it is not the default. */
bool request_has(const struct brig_spec *rq, enum opt o);
bool request_flag(const struct brig_spec *rq, enum opt o);
/* Where it was set; NULL when it is the default. */
const struct origin *request_origin(const struct brig_spec *rq, enum opt o);
/* The words of a list in force, defaults included: fresh memory, for strv_free().
 * NULL with *failed set when out of memory, NULL for none. */
char **request_list(const struct brig_spec *rq, enum opt o, bool *failed);

#endif
