/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_TREE_WATCH_H
#define BACKEND_TREE_WATCH_H

#include "backend/tree_internal.h"

/* The supervisor's loop: from the keeper's start until the tree is gone.
 * Reads the evidence, releases or refuses, keeps the deadline. */
void tree_watch(struct tree *t);

#endif
