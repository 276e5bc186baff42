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

#endif
