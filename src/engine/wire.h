/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of one run say to each other: fixed-size records over a
 * SOCK_SEQPACKET pair, one enum, nothing variable.  The sandbox side is not
 * trusted: the supervisor checks size, type and range of all of it.
 */
#ifndef ENGINE_WIRE_H
#define ENGINE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/msg.h"
#include "brig.h"

enum wire_type {
	WIRE_MAPPED = 1, /* supervisor → builder, as root: its ids are mapped */
	WIRE_PTY,        /* builder → supervisor: the terminal's master, one descriptor */
	WIRE_NET,        /* a visitor of a network namespace → supervisor: sockets for the
			    egress process, in the order of struct allow_net */
	WIRE_READY,      /* job → supervisor: confined and waiting; the filter's listener */
	WIRE_GO,         /* supervisor → job: evidence is in, execute */
	WIRE_FAIL,       /* builder or job → supervisor: set-up failed, nothing ran */
	WIRE_EXEC_FAIL,  /* job → supervisor: execve failed after the release */
	WIRE__COUNT
};

struct wire {
	uint32_t type;
	uint32_t code;        /* WIRE_FAIL: enum brig_code */
	int32_t errnum;
	int32_t landlock_abi; /* WIRE_READY: version enforced, 0 none */
	int32_t canary;       /* WIRE_READY: errno of the Landlock probe */
	int32_t nproc;        /* of a tree's job, WIRE_READY: its RLIMIT_NPROC, 0 none of brig's */
	char phase[24];
	char what[200];
};


/* A record as it arrived: who sent it, and what came along. */
struct wire_in {
	struct wire w;
	struct msg_in msg;
};

/* Takes one record without waiting, from a socket with SO_PASSCRED.  1, 0 at the
 * end (or for what is no record), -EAGAIN when there is none now. */
int wire_recv(int sock, struct wire_in *in);
/* The same for the other side: waits, and takes nothing but a record of this type with
 * all of its descriptors (-EMFILE: there was no room for them).  No allocation.  0, or
 * -errno. */
int wire_wait(int sock, enum wire_type type, struct wire_in *in);
/* Sends one record with up to MSG_FDS descriptors.  No allocation.  0, -errno. */
int wire_send(int sock, const struct wire *w, const int *fds, size_t n);

/* init → supervisor, over its own pipe. */
enum {
	INIT_DONE = 0,      /* the command ended; its status is in the record */
	INIT_READY = 1,     /* init is clean and watching */
	INIT_NO_FILTER = 2, /* it could not confine itself, and ends */
	INIT_ENDED = 3,     /* as INIT_DONE, but it was told to end it */
};
struct init_report {
	uint32_t ready;  /* one of the above */
	int32_t status;  /* wait status of the command, in the second record */
};

#endif
