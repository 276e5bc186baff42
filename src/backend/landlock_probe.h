/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_LANDLOCK_PROBE_H
#define BACKEND_LANDLOCK_PROBE_H

#include "engine/probe.h"

/* Restricts a throw-away process and sees that it holds. */
int landlock_probe(struct probe_result out[PROBE_MAX]);

/* What control groups can enforce here, as one entry. */
void limits_probe(struct probe_result *out);

#endif
