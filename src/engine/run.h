/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include "engine/plan.h"
#include "engine/result.h"

/*
 * Carries out a plan: builds the sandbox, reads the evidence, releases the
 * command and waits for it.  Always fills *res; nothing is left behind.  One
 * run at a time per process (stacks of the helper processes are static).
 */
void engine_run(const struct plan *plan, struct brig_result *res);

/* Refuses standard streams through which names of the host could be looked up.
 * 0 or -errno with err. */
int run_check_stdio(struct brig_error *err);

#endif
