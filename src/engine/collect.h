/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_COLLECT_H
#define ENGINE_COLLECT_H

/*
 * Closes a descriptor whose end takes long, without waiting for it: the kernel's
 * collector of unreachable sockets does it, in a worker of its own (before Linux
 * 6.8 it does it here and now).  *fd is -1 afterwards in any case.
 */
void collect_later(int *fd);

#endif
