/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect() for a command without a network namespace.  Landlock can hold a process
 * to ports, but not to addresses: a server anywhere that listens on the same port
 * would be within reach.  So the filter hands every connect() to the supervisor, which
 * reads the address, compares it, and makes the connection itself, on the process's
 * own socket and to its own copy of the address: what the process changes meanwhile
 * does not matter.
 */
#ifndef BACKEND_CONNECTS_H
#define BACKEND_CONNECTS_H

#include <stdint.h>

#include "confine/notify.h"
#include "engine/result.h"

struct connects {
	uint16_t ports[2]; /* of 127.0.0.1: all that may be reached */
	unsigned n_denied; /* entries of the result that are from here */
};

/* Answers one connect(), or counts one refused call, as notify_handle() does.  Closes
 * the listener when nobody is left to answer. */
void connects_handle(struct connects *c, int *listener, uint32_t refused[DENY_MAX_CALL],
		     struct brig_result *res);

#endif
