/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files: found, trusted or refused, read whole, and turned into
 * the layers of the policy.
 */
#ifndef POLICY_CONFIG_H
#define POLICY_CONFIG_H

#include <stddef.h>

#include "base/yamldoc.h"
#include "policy/request.h"

#define BRIG_SYSTEM_CONFIG "/etc/brig/config.yaml"

enum {
	CONFIG_MAX_FILES = 32,   /* with all includes */
	CONFIG_MAX_INCLUDES = 8, /* one inside the other */
	CONFIG_MAX_STEPS = 100000, /* of one walk: aliases repeat nodes */
	CONFIG_MAX_WORDS = 1000,   /* of one list */
	CONFIG_MAX_ERRORS = 100,   /* that are reported */
};

/* One file that was read. */
struct config_file {
	char *path;
	char *dir;   /* what relative paths in it are relative to */
	enum layer_rank rank;
	const char *layer; /* for origins: "system", "user", "tenant NAME" */
	struct ydoc *doc;
};

struct config {
	struct config_file *file; /* in the order in which they apply */
	size_t n;
	char *home;      /* for ~; NULL when there is none */
	size_t steps;
	/* every complaint is given to this, if set; the first one is also the
	 * error that is returned */
	void (*report)(void *arg, const struct brig_error *e);
	void *report_arg;
	size_t n_errors;
	struct brig_error first;
};

void config_init(struct config *c);
void config_free(struct config *c);

/*
 * Reads a file and, before it, what it includes; checks every section of it.
 * required: a missing file is an error, else it is 0 and nothing happens.
 * -errno with err.
 */
int config_read(struct config *c, const char *path, enum layer_rank rank,
		const char *layer, bool required, struct brig_error *err);

/* The files that apply to everything: the system's, then the user's own or the
 * one that was named. */
int config_read_global(struct config *c, const char *named, struct brig_error *err);

/* The files' value for a key at the top ("profile", "tenants_dir"), the last one
 * that has it; NULL without.  *from is its file. */
const struct ynode *config_top(const struct config *c, const char *key,
			       const struct config_file **from);

/* A path as written in a file: ~ and relative ones made absolute.  Fresh memory,
 * NULL when out of memory or without a HOME. */
char *config_path(const struct config *c, const struct config_file *f,
		  const char *path);

/* Everything in a file, whether this run uses it or not. */
int config_check_file(struct config *c, const struct config_file *f);

/* An error at a node.  Returns -EINVAL, or continues quietly (0) when the
 * config has a report function, so that all complaints are heard (there is an
 * end to it: CONFIG_MAX_ERRORS). */
int config_complain(struct config *c, const struct config_file *f,
		    const struct ynode *at, const char *path, const char *what,
		    const char *fix);

/*
 * section.c: one `sandbox:` section into a layer.  path is how a person would
 * write the way to it ("tools.fetch.sandbox").  0 or -errno with c->first set.
 */
int section_read(struct config *c, const struct config_file *f,
		 const struct ynode *n, const char *path, enum layer_rank rank,
		 const char *layer, struct brig_spec *out);
/* `lock:` at the top of a file or inside a section. */
int section_lock(struct config *c, const struct config_file *f,
		 const struct ynode *n, const char *path, const struct origin *at,
		 struct brig_spec *out);

/* "PATH.KEY", cut between characters when it does not fit.  No printf: this is
 * made for every key of a file, and only errors ever show it. */
void config_join(char *out, size_t cap, const char *path, const char *key);

/* Names of tools, tenants and profiles: letters, digits, . _ - and no more. */
bool config_name_ok(const char *name);

#endif
