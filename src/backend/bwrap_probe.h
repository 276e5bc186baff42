/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_BWRAP_PROBE_H
#define BACKEND_BWRAP_PROBE_H

#include "backend/bwrap_args.h"
#include "engine/probe.h"

/* The bubblewrap to use, or NULL; the caller frees it. */
char *bwrap_find(void);
/* What it knows.  0 or -errno when it cannot be read. */
int bwrap_features(const char *path, struct bwrap_features *f);

/* Runs it with the flags that matter. */
int bwrap_probe(struct probe_result out[PROBE_MAX]);

#endif
