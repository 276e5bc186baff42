/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFINE_PTY_H
#define CONFINE_PTY_H

/* Opens a terminal: its master by the name of a ptmx, its other side by descriptor, so
 * that no name is looked up twice.  Both are close-on-exec and nobody's controlling
 * terminal yet.  No allocation.  0 or -errno. */
int pty_open(int dirfd, const char *ptmx, int *master, int *slave);

#endif
