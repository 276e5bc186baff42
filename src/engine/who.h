/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process of the sandbox holds a connection: the kernel tells the inode of
 * its socket, the sandbox's own /proc tells who has it open.  What is not certain is
 * not said.
 */
#ifndef ENGINE_WHO_H
#define ENGINE_WHO_H

#include <stdint.h>
#include <sys/types.h>

enum { WHO_BATCH = 32, WHO_COMM = 16, WHO_COMMAND = 256 };

struct who {
	int diag;  /* NETLINK_SOCK_DIAG of the sandbox's network, or -1 */
	int proc;  /* its /proc, or -1 */
	pid_t init; /* its pid 1 as seen here; 0: nothing can be found */
	/* Time that may be spent on this, so that a flood of connections does not
	 * keep the supervisor from its work: a tenth of all, saved up a little. */
	uint64_t left_ns, filled_at;
};

/* A connection, as the one who made it sees it. */
struct who_ask {
	uint8_t family;
	uint8_t from[16], to[16];
	uint16_t from_port, to_port;
	/* the answer */
	uint64_t inode;
	uint32_t holders;
	uint32_t unseen;     /* processes that could not be looked at */
	uint32_t pid;        /* inside the sandbox; 0: not known */
	char comm[WHO_COMM]; /* printable ASCII, both */
	char command[WHO_COMMAND];
};

/* diag is taken over. */
void who_init(struct who *w, int diag, pid_t init);
/* Fills in the answers to up to WHO_BATCH questions. */
void who_find(struct who *w, struct who_ask *ask, unsigned n);
void who_end(struct who *w);

#endif
