/* SPDX-License-Identifier: Apache-2.0 */
/* What came of one run.  JSON is made of it elsewhere (src/api). */
#ifndef ENGINE_RESULT_H
#define ENGINE_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/capture.h"
#include "confine/evidence.h"
#include "base/layers.h"

struct denial {
	const char *kind; /* "syscall", "path", "pids", "memory"; static text */
	char *target;
	char *rule;
	char *fix;
	uint64_t count;
};

/* Learning: a host and port that was called, as an allow-list writes it. */
struct learned {
	char *target;
	const char *why; /* NULL: it worked; else why it cannot be learned (static) */
	bool refused;    /* and it was not the network's fault */
	uint64_t count;
};

struct brig_result {
	char id[27];
	char *name;
	const char *backend;
	bool ran;
	int exit_code; /* -1: did not exit by itself */
	int signal;    /* 0: not by a signal */
	bool timed_out, oom;
	bool captured;
	struct capture out, err;
	unsigned enforced, missing; /* LAYER_BIT sets */
	bool have_evidence;
	struct evidence evidence;
	struct denial *denied;
	size_t n_denied;
	bool learning;
	struct learned *learned;
	size_t n_learned;
	uint64_t learn_lost; /* connections that are not among them */
	double wall_ms, cpu_ms;
	uint64_t max_rss_kb, setup_us;
	struct brig_error error; /* code OK: none */
};

struct brig_result *result_new(const char *id);
/* For another backend, when one has run nothing: what that has left of evidence and numbers is
 * not the next one's.  Its refusals stay. */
void result_again(struct brig_result *r);
/* Appends; target, rule and fix are copied.  -ENOMEM when it cannot. */
int result_deny(struct brig_result *r, const char *kind, const char *target,
		const char *rule, const char *fix, uint64_t count);
/* Notes a connection to target, once more or for the first time. */
void result_learn(struct brig_result *r, const char *target, const char *why, bool refused,
		  uint64_t count);

#endif
