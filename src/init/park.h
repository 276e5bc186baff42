/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What brig and the parked init of a container say to each other: frames, each
 * a head and a payload, over a unix socket (descriptors travel with them) or
 * over the container's own standard input and output.
 *
 *	brig                       container
 *	                           brig-park forks the job and waits
 *	HELLO filter, paths  ──▶   the job loads the filter, looks at the paths,
 *	                     ◀──   REPORT what it is
 *	   (evidence is read and judged)
 *	GO argv, environment ──▶   the job executes the command
 *	                     ◀──   STARTED, or FAIL
 *	STDIN, SIGNAL, SIZE  ◀─▶   OUT, ERR
 *	END (the deadline)   ──▶
 *	                     ◀──   STATUS: everything inside has ended
 *	   (counters are read)
 *	BYE                  ──▶   the container ends
 *
 * End of file instead of any of these means that brig is gone: everything
 * inside ends at once.
 *
 * The frames up to GO are read by the job, not by pid 1: arguments and
 * environment are never in pid 1's memory.
 */
#ifndef INIT_PARK_H
#define INIT_PARK_H

#include <stdint.h>

#define PARK_MAGIC 0x6b726170u
#define PARK_VERSION 1u

enum park_type {
	PARK_HELLO = 1,
	PARK_REPORT,
	PARK_GO,
	PARK_PTY,     /* socket only: the terminal's master comes with it */
	PARK_STARTED,
	PARK_FAIL,
	PARK_STDIN,   /* stream only; no payload: end of file.  The next one only
			 after TAKEN: what the command does not read must not hold
			 up a signal or the deadline */
	PARK_TAKEN,
	PARK_OUT,     /* stream only */
	PARK_ERR,     /* stream only */
	PARK_SIGNAL,
	PARK_SIZE,    /* stream only */
	PARK_END,     /* the deadline: end everything */
	PARK_STATUS,
	PARK_BYE,
	PARK_NET,     /* socket only, before GO: listeners that the job shall make */
	PARK_SOCKET,  /* one of them, in order; the descriptor comes with it */
};

struct park_head {
	uint32_t type, len;
};

enum {
	PARK_DATA_MAX = 32 * 1024,       /* STDIN, OUT, ERR */
	PARK_HELLO_MAX = 512 * 1024,     /* filter and paths */
	PARK_GO_MAX = 8 * 1024 * 1024,   /* what execve takes at most, and more */
	PARK_PATHS_MAX = 2048,
	PARK_FILTER_MAX = 4096,
};

/*
 * The last word of pid 1 counts: after it the workspace is judged.  On a stream
 * the command may be able to write there too (gVisor lets it open /proc/1/fd), so
 * STATUS carries a key that came with HELLO.  Only the job, which forgets it by
 * execve, and pid 1, whose memory nobody inside can read, have ever had it.
 */
enum { PARK_KEY = 16 };

/* Followed by the filter's instructions, then n_paths texts, each ended by NUL. */
struct park_hello {
	uint32_t magic, version;
	uint8_t key[PARK_KEY];
	uint32_t n_filter, n_paths;
};

/* Followed by n_paths struct park_path in the order they were asked for. */
struct park_report {
	uint32_t magic, version;
	uint32_t pid, parent; /* as seen inside */
	uint32_t uid, gid;
	int32_t no_new_privs, seccomp; /* prctl's answers */
	uint64_t cap_inh, cap_prm, cap_eff, cap_bnd, cap_amb;
	int32_t foreign_links; /* network interfaces besides loopback; -1 unknown */
	uint32_t gvisor;       /* its kernel log says so */
	char release[65];      /* uname */
	char nodename[65];
	uint32_t n_paths;
};

struct park_path {
	uint64_t dev, ino;
	uint32_t mode;
	int32_t errnum; /* of looking at it; 0 */
	uint32_t read_only;
	uint32_t pad;
};

/* Followed by count struct park_place.  They are for the egress process outside; the
 * job keeps none of them. */
enum { PARK_PLACES_MAX = 64 };
struct park_net {
	uint32_t count;
};
struct park_place {
	uint32_t stream;  /* 1: TCP, listening; 0: UDP */
	uint8_t addr[4];
	uint16_t port;    /* in the host's order; 0: any */
	uint16_t pad;
};
struct park_socket {
	int32_t errnum; /* 0: the descriptor is there */
};

enum { PARK_GO_PTY = 1u };

/* Followed by the directory, argc arguments and envc variables, each ended by
 * NUL.  Over a socket, and without a terminal, three descriptors come along. */
struct park_go {
	uint32_t flags;
	uint32_t argc, envc;
	uint16_t rows, cols;
};

enum park_step { PARK_STEP_PROTOCOL, PARK_STEP_FILTER, PARK_STEP_PTY, PARK_STEP_CWD,
		 PARK_STEP_EXEC };
struct park_fail {
	uint32_t step;
	int32_t errnum;
};

struct park_signal {
	int32_t sig;
};

struct park_size {
	uint16_t rows, cols;
};

struct park_status {
	int32_t status; /* as wait() has it; -1: ended at the deadline, unknown */
	uint32_t max_rss_kb;
	uint64_t cpu_us;
	uint8_t key[PARK_KEY];
};

#endif
