/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the profile reader only.  Functions that return int return 0, or a
 * negative errno after they have said in the reader's error what is wrong.
 */
#ifndef CONFINE_SECCOMP_PROFILE_H
#define CONFINE_SECCOMP_PROFILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "confine/seccomp.h"
#include "confine/seccomp_bpf.h"
#include "confine/seccomp_table.h"

#define SHOWN_MAX 64 /* characters of a bad word that an error shows */
#define TOP SIZE_MAX /* not in an entry */
#define ERRNO_MAX 4095 /* the kernel's MAX_ERRNO */

/* What the profile says about one call. */
struct call {
	struct seccomp_rule *rules;
	size_t nrules, cap;
	bool fixed; /* an entry without args decided */
	uint32_t action;
};

struct reader {
	const char *label;
	struct brig_error *err;
	size_t entry; /* index in "syscalls", or TOP */
	uint32_t default_action;
	size_t nrules;
	int kernel[2];
	struct call calls[SECCOMP_NR_MAX];
};

/* Sets the reader's error, with the label and the entry.  Always negative. */
int profile_bad(const struct reader *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Text of the profile for an error: short, one line, no control characters. */
const char *profile_shown(const char *text, char out[SHOWN_MAX]);

/* Every key of an object must be in the NULL-terminated list. */
int profile_check_keys(const struct reader *r, const json_t *obj,
		       const char *where, const char *const *known);

/* A member of an object, or NULL.  Absent and null are the same, as Go's
 * encoder writes both. */
const json_t *profile_get(const json_t *obj, const char *key);

/* A whole number from 0 to max; fallback when it is absent. */
int profile_get_number(const struct reader *r, const json_t *obj,
		       const char *key, uint64_t max, uint64_t fallback,
		       uint64_t *out);

/* The error an action answers with, by its number, by its name (Podman's files have both), or
 * EPERM when it is absent. */
int profile_get_errno(const struct reader *r, const json_t *obj, const char *number_key,
		      const char *name_key, uint64_t *out);

/* Checks an array of strings; absent is an empty one. */
int profile_check_strings(const struct reader *r, const json_t *v,
			  const char *what);

/* Reads "SCMP_ACT_…" as what a filter returns; errnum is for _ERRNO. */
int profile_read_action(const struct reader *r, const json_t *v,
			const char *what, uint64_t errnum, uint32_t *out);

#endif
