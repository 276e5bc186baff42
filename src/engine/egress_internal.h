/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_EGRESS_INTERNAL_H
#define ENGINE_EGRESS_INTERNAL_H

#include "egress/wire.h"
#include "engine/egress.h"

_Static_assert(sizeof((struct egress_proxy *)0)->host == EG_NAME_LEN, "as in the record");
_Static_assert(sizeof((struct egress_proxy *)0)->auth == EG_AUTH_LEN, "as in the record");

/* egress_proxy.c: HTTPS_PROXY or ALL_PROXY, NO_PROXY.  -errno with err when there is
 * one that cannot be used: going without it would be another network. */
int egress_proxy_read(struct egress_proxy *p, struct brig_error *err);
void egress_proxy_free(struct egress_proxy *p);

/* learn.c: what a connection that ended teaches. */
void learn_event(struct brig_result *res, const struct eg_event *ev);

#endif
