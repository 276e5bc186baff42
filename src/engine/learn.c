/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning: which entries an allow-list would need for what the command did.  Only
 * connections count: a name that was looked up and never called is not needed.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "engine/egress_internal.h"

/* The target as --allow takes it.  False for what it would not take. */
static bool as_entry(const struct eg_event *ev, char *out, size_t cap)
{
	unsigned char addr[16];
	size_t n = strspn(ev->name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:");

	if (!ev->name[0] || ev->name[n] || !ev->port)
		return false;
	bool v6 = inet_pton(AF_INET6, ev->name, addr) == 1;
	if (!v6 && strchr(ev->name, ':'))
		return false;
	snprintf(out, cap, v6 ? "[%s]:%u" : "%s:%u", ev->name, ev->port);
	return true;
}

void learn_event(struct brig_result *res, const struct eg_event *ev)
{
	char target[EG_NAME_LEN + 16];

	if (!ev->serial || ev->via == EG_VIA_DNS || !ev->count)
		return;
	if (!as_entry(ev, target, sizeof target))
		return; /* it is in `denied` */
	bool ok = ev->verdict == EG_ALLOWED;
	result_learn(res, target, ok ? NULL : eg_reason_text(ev->reason),
		     ev->verdict == EG_DENIED, ev->count);
}
