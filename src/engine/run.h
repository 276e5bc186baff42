/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include "engine/result.h"
#include "base/spec.h"
#include "engine/terminal.h"

/*
 * Carries out a spec: plans and builds the sandbox, reads the evidence, releases
 * the command and waits for it.  Always fills *res; nothing is left behind.  One
 * run at a time per process (root_idmap.c has a stack of its own, and just one).
 */
void engine_run(const struct spec *s, struct brig_result *res);

/* Refuses standard streams through which names of the host could be looked up, and notes in
 * *t what there is to know about the others.  0 or -errno with err. */
int run_check_stdio(struct terminal *t, struct brig_error *err);
/*
 * For a command whose output is captured, and whose standard input is its caller's standard
 * output, too: it could write a result object of its own there.  *fd becomes a descriptor of
 * the same, to be read only, or stays -1 when there is no need, or it is a socket.  0, or
 * -errno with err: there is none to be had.
 */
int run_input_to_read(const struct terminal *t, int *fd, struct brig_error *err);

#endif
