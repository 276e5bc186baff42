/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, writes and connects that end after a while, on descriptors which may not be made
 * non-blocking: O_NONBLOCK belongs to the open file, and others have that, too.
 *
 * poll() alone is not enough.  A terminal is writable when one byte fits, and a write of more
 * waits; another reader may take what poll() has seen.  So a timer interrupts the call.
 */
#ifndef BASE_TIMED_H
#define BASE_TIMED_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* As read(), waiting ms milliseconds at most.  Bytes, or -errno: -EAGAIN or -EINTR when
 * there was nothing to read. */
ssize_t timed_read(int fd, void *buf, size_t len, int ms);
/* As write(), the same: bytes that were taken, which may be fewer than len, or -errno. */
ssize_t timed_write(int fd, const void *buf, size_t len, int ms);
/* As connect().  0 or -errno; after -EINTR the connection is still being made. */
int timed_connect(int fd, const struct sockaddr *to, socklen_t len, int ms);

#endif
