/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities.  What is left of them is read back by evidence.c. */
#ifndef CONFINE_CAPS_H
#define CONFINE_CAPS_H

#include <stdbool.h>

/*
 * Gives up every capability of the calling process, for good: bounding, ambient and the
 * three others, then no_new_privs.  An owner of its user namespace also locks the
 * securebits, so that no execve gives root's capabilities back.  Anybody else may lack the
 * right to empty the bounding set; with no_new_privs that set gives nothing, and the
 * evidence shows it.  No allocation, no errno.  0, or -errno and what failed.
 */
int caps_drop(bool owner, const char **what);

#endif
