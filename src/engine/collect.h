/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_COLLECT_H
#define ENGINE_COLLECT_H

/*
 * For a descriptor whose end takes long, in fd[0].  Afterwards there are two others, which
 * hold it; to close them, by collect_now(), does not wait: the kernel's collector of
 * unreachable sockets ends what they held, in a worker of its own (before Linux 6.8 here and
 * now).  Where that cannot be had fd[0] stays what it is, and closing it only takes longer.
 */
void collect_later(int fd[2]);
/* Closes both, or what there is. */
void collect_now(int fd[2]);

#endif
