/* SPDX-License-Identifier: Apache-2.0 */
/* Inside docker_call.c and docker_streams.c: one command while it runs. */
#ifndef BACKEND_DOCKER_CALL_H
#define BACKEND_DOCKER_CALL_H

#include <signal.h>

#include "backend/docker.h"
#include "engine/terminal.h"

/* What was read for one side and waits for the other.  As long as it is not
 * empty nothing more is read from where it came: a stuck reader stops the
 * command, never the deadline. */
struct docker_queue {
	char data[PARK_DATA_MAX];
	size_t at, len;
};

struct docker_run {
	const struct docker_job *job;
	const struct spec *spec;
	struct docker_parked *p;
	const struct docker_stop *stop;
	struct brig_result *res;
	struct docker_groups groups;
	struct docker_frames frames;
	struct egress *egress; /* NULL: no allow-list */
	struct docker_demux demux;
	int sigfd, init_pidfd;
	int out_read, err_read; /* socket: captured streams */
	int pty, pty_slave;     /* socket: the terminal */
	struct docker_queue to_out, to_err; /* for our own standard output, error */
	struct docker_queue to_pty;
	bool stdin_open, stdin_busy; /* stream: one frame at a time */
	bool started, released, failed, status_known, hung_up, ending;
	struct park_fail fail;
	struct park_status status;
	uint64_t t_release, t_ending;
	sigset_t old_mask;
	struct caller_tty caller;
};

/* docker_streams.c */
void docker_terminal_start(struct docker_run *r);
void docker_terminal_resize(struct docker_run *r);
void docker_terminal_end(struct docker_run *r);
/* The caller's terminal size, or a usual one. */
void docker_window(uint16_t *rows, uint16_t *cols);
/* Output that came by the channel: captured, or queued for our own. */
void docker_output(struct docker_run *r, bool is_err, const char *data, size_t len);
void docker_flush(struct docker_queue *q, int fd);
void docker_from_stdin(struct docker_run *r);
void docker_from_pty(struct docker_run *r);
/* What is left in pipes and queues when everything has ended. */
void docker_drain_rest(struct docker_run *r);

#endif
