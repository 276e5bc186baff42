/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: brig's own engine. */
#include "backend/backend.h"
#include "engine/run.h"

/* The engine plans while it starts. */
static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	(void)s, (void)state, (void)err;
	return 0;
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	(void)state;
	engine_run(s, res);
}

static void release(void *state)
{
	(void)state;
}

const struct backend backend_native = {
	.name = "native",
	.summary = "brig's own engine: namespaces, seccomp, Landlock, control groups",
	.can = LAYERS_BASE | LAYERS_LIMITS | LAYERS_ALLOW,
	.allow_list = "by name, for every program, through routes of the sandbox's own "
		      "network namespace",
	.learns = true,
	.probe = probe_native,
	.prepare = prepare,
	.run = run,
	.release = release,
};
