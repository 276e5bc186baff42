/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process opened a connection.  brig finds out, beside the connection's own
 * business, and tells; until it has, or a tenth of a second has gone by, the audit
 * line of a connection that is over already is kept back, and the socket of one
 * that was refused stays open, so that there is something to find.
 */
#ifndef EGRESS_WHO_H
#define EGRESS_WHO_H

#include <stdbool.h>

#include "egress/loop.h"
#include "egress/wire.h"

struct owners;

/* put: writes a line; who is NULL if it is not known.  NULL: out of memory. */
struct owners *owners_new(struct loop *l, void (*put)(void *arg, const struct eg_event *ev,
						  const struct eg_who *who), void *arg);

/* brig was asked. */
void owners_asked(struct owners *w, uint64_t serial);
/* It answered. */
void owners_told(struct owners *w, const struct eg_who *who);
/* The connection is over: its line is written now or when the answer is there. */
void owners_over(struct owners *w, const struct eg_event *ev);
/* Closes the socket of a connection that is over: now, or with its line. */
void owners_close(struct owners *w, uint64_t serial, int fd);
/* Writes all that is kept back. */
void owners_flush(struct owners *w);

#endif
