/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: one JSON object per line, appended, never rewritten.  Root's is
 * /var/log/brig/audit.log, a user's ${XDG_STATE_HOME:-~/.local/state}/brig/
 * audit.log, mode 0600 in directories of mode 0700.
 */
#ifndef ENGINE_AUDIT_H
#define ENGINE_AUDIT_H

#include "brig.h"

struct audit_entry {
	const char *event;   /* "run" … */
	const char *id;      /* of the run */
	const char *backend;
	char *const *argv;   /* NULL-terminated; long words are cut, which is said */
	const char *cwd;
};

/* The log, open for appending, or -errno: for a process that writes lines of its
 * own. */
int audit_open(void);
/* Says that it cannot be written; returns r, which is negative. */
int audit_failed(int r, struct brig_error *err);

/* Appends one line with the time and the caller's id.  0, or -errno with err:
 * what has to be in the log must not happen then. */
int audit_append(const struct audit_entry *e, struct brig_error *err);

#endif
