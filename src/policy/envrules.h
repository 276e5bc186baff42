/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about environment variables by their names and values. */
#ifndef POLICY_ENVRULES_H
#define POLICY_ENVRULES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Why a variable of this name (n bytes) makes programs run or load something
 * that is not on their command line, or NULL.  Such a variable is the operator's
 * to set, not the caller's.
 */
const char *env_injects(const char *name, size_t n);

/* NAME=VALUE looks like a secret, by its name or by its value. */
bool env_looks_secret(const char *entry);

#endif
