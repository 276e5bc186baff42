/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFINE_NOTIFY_H
#define CONFINE_NOTIFY_H

#include <stdint.h>

#include "engine/result.h"

enum { DENY_MAX_CALL = 600 };

/* Answers one notification of a filter's listener and counts it.  Closes the
 * listener when there is nobody left to answer. */
void notify_handle(int *listener, uint32_t refused[DENY_MAX_CALL]);

struct seccomp_notif_resp;

/* Sends an answer.  Who asked and got none would wait for ever. */
void notify_answer(int listener, struct seccomp_notif_resp *resp);

/* One more refusal of this call. */
static inline void notify_count(int nr, uint32_t refused[DENY_MAX_CALL])
{
	if (nr >= 0 && nr < DENY_MAX_CALL)
		refused[nr]++;
}

/* Each refused call as an entry of `denied`. */
void notify_report(const uint32_t refused[DENY_MAX_CALL], struct brig_result *res);

#endif
