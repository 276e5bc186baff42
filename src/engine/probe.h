/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes: what this machine can enforce, found by doing it.  Each really makes
 * the thing (a namespace, a mount, a filter, a control group) in a throw-away
 * process and says what happened.
 */
#ifndef ENGINE_PROBE_H
#define ENGINE_PROBE_H

#include "brig.h"
#include "base/layers.h"

enum probe_state { PROBE_OK, PROBE_DEGRADED, PROBE_FAILED };

struct probe_result {
	const char *name;     /* static: "user namespace", "landlock" … */
	unsigned layers;      /* LAYER_BITs that depend on it */
	enum probe_state state;
	char detail[512];     /* what was found */
	char fix[512];        /* what to do, empty when fine */
};

enum { PROBE_MAX = 24 };

/* Runs all probes of the native engine; returns how many were filled in. */
int probe_native(struct probe_result out[PROBE_MAX]);

#endif
