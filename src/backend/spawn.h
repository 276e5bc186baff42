/* SPDX-License-Identifier: Apache-2.0 */
/* A short program run for its output, for probes. */
#ifndef BACKEND_SPAWN_H
#define BACKEND_SPAWN_H

#include <stddef.h>

/*
 * Runs argv (an absolute path) with an empty environment, as nobody when the
 * caller is root, and keeps the first bytes of what it prints on both streams.
 * Killed after ten seconds.  Its exit code, 128 and more for a signal, or
 * -errno when it could not be started.
 */
int spawn_output(char *const *argv, char *out, size_t cap);

#endif
