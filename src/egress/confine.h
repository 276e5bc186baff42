/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress process reads hostile bytes all day, in the host's network namespace.
 * It gives up what it does not need, in two steps: what can go at once, and the
 * rest when configuration is read and sockets are there.
 */
#ifndef EGRESS_CONFINE_H
#define EGRESS_CONFINE_H

#include <stdint.h>

/* No environment, no descriptors but the control socket, no new privileges, not
 * traceable by its own user.  0 or -errno. */
int confine_begin(int keep_fd);

/*
 * No capabilities, no root, no files (Landlock), no programs, no other system
 * calls than those of the loop (seccomp), as many descriptors as max_conns need.
 * Lowers *max_conns to what the descriptor limit allows.  0 or -errno with the
 * step that failed in *what.  Layers the kernel does not have are left out.
 */
int confine_finish(uint32_t *max_conns, const char **what);

#endif
