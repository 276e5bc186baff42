/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened, twice: a line of JSON in the audit log, a record to brig.  Both
 * are bounded: refusals that a sandbox can make without a connection are counted
 * and told once a second.  Neither ever blocks the loop.
 */
#ifndef EGRESS_AUDIT_H
#define EGRESS_AUDIT_H

#include "egress/addr.h"
#include "egress/loop.h"
#include "egress/wire.h"

struct audit;

/* fd: the log or -1; ctl: the control socket; owners: brig tells for each audit_open()
 * which process it is.  NULL when out of memory. */
struct audit *audit_new(struct loop *l, int ctl, int fd, const char *id, bool owners);

/* A connection that ended, or was refused.  Fills verdict, count and lost. */
void audit_event(struct audit *a, struct eg_event *ev);
/* One that began: to brig only. */
void audit_open(struct audit *a, struct eg_event *ev);
/* brig's answer to that. */
void audit_who(struct audit *a, const struct eg_who *who);
/* Closes the socket of a connection that was refused, when brig has had the time to
 * find whose it is. */
void audit_close(struct audit *a, const struct eg_event *ev, int fd);
/* Writes what waits to be written: this is the end. */
void audit_flush(struct audit *a);
/* A refusal that costs the sandbox nothing to repeat: the first is told at once,
 * equal ones are counted for a second; past a number of different ones only the
 * number is told. */
void audit_refused(struct audit *a, struct eg_event *ev);

/* Milliseconds since 1970. */
uint64_t audit_clock(void);
void audit_client(struct eg_event *ev, const struct eaddr *a, uint16_t port);

/* Sends one record; false if it could not be sent now. */
bool audit_send(int ctl, const struct eg_msg *m);

#endif
