/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with descriptors over a unix socket. */
#ifndef BASE_MSG_H
#define BASE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { MSG_FDS = 64 };

/* What came with a message.  The descriptors are the caller's, close-on-exec. */
struct msg_in {
	pid_t from;     /* by the kernel's word, where SO_PASSCRED is on; else -1 */
	bool truncated; /* more came than there was room for */
	size_t n_fds;
	int fds[MSG_FDS];
};

/* Sends all of it as one message, with up to MSG_FDS descriptors.  No allocation.  0 or
 * -errno. */
int msg_send(int sock, const void *data, size_t len, const int *fds, size_t n);

/* Receives one message; flags are recvmsg()'s.  The length, 0 at the end, or -errno.  No
 * allocation. */
ssize_t msg_recv(int sock, void *data, size_t len, int flags, struct msg_in *in);

/* The first descriptor that came, or -1; all others are closed. */
int msg_fd(struct msg_in *in);

#endif
