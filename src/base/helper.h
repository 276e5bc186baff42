/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HELPER_H
#define BASE_HELPER_H

#include <limits.h>

/* The absolute path of a helper executable: beside the running executable (a
 * build tree, libexec) or in ../libexec/brig from it.  The place comes from the
 * kernel, never from PATH or the environment.  0, or -ENOENT or another -errno. */
int helper_find(const char *name, char out[PATH_MAX]);

#endif
