/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of brig-park: pid 1 (park.c) and the job (park_job.c). */
#ifndef INIT_PARK_INTERNAL_H
#define INIT_PARK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "init/park.h"

enum { E_INTR = 4, E_AGAIN = 11, E_PROTO = 71 };
enum { O_RDONLY_ = 0, O_RDWR_ = 2, O_NOCTTY_ = 0400, O_NONBLOCK_ = 04000,
       O_CLOEXEC_ = 02000000 };
enum { AT_FDCWD_ = -100, AT_SYMLINK_NOFOLLOW_ = 0x100 };

/* park_io.c; also what the compiler may call by itself. */
void *memset(void *to, int c, size_t n);
void *memcpy(void *to, const void *from, size_t n);

struct channel {
	bool stream;  /* standard input and output instead of a socket */
	int in, out;  /* the same descriptor for a socket */
};

/* What the job holds besides the channel. */
struct job_ends {
	int parent;    /* to pid 1: an errno record, a terminal's master; closed by
			  execve */
	int stdio[3];  /* stream only: pipes */
};

/* From the job to pid 1: a failure, "trying" (no errno), a terminal's master
 * (a descriptor with it), or the key. */
struct job_word {
	struct park_fail fail;
	uint32_t has_key;
	uint8_t key[PARK_KEY];
};

/* The job: never returns. */
void park_job(const struct channel *ch, const struct job_ends *ends)
	__attribute__((noreturn));

/* Reads or writes all of it; false at the end of file or on an error. */
bool park_read(int fd, void *buf, size_t len);
bool park_write(int fd, const void *buf, size_t len);
bool park_frame(int fd, uint32_t type, const void *data, size_t len);

/* A socket message with one descriptor (or -1).  False on an error. */
bool park_send_fd(int sock, const void *data, size_t len, int fd);
/* Bytes or a negative errno; descriptors that come along go to fds, of which
 * *n says how many fit, and then how many came. */
long park_recv_fds(int sock, void *buf, size_t len, int *fds, int *n);

#endif
