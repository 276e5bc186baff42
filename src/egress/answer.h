/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's resolver: UDP and TCP port 53. */
#ifndef EGRESS_ANSWER_H
#define EGRESS_ANSWER_H

#include "egress/conn.h"

/* Serves a socket of EG_DNS_UDP or EG_DNS_TCP.  Takes fd.  0 or -errno. */
int answer_listen(struct egress *eg, enum eg_role role, int fd);

#endif
