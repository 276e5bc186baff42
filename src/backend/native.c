/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: brig's own engine. */
#include <errno.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/err.h"
#include "engine/plan.h"
#include "engine/run.h"

static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	struct plan *plan = calloc(1, sizeof *plan);

	if (!plan)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "plan", "a plan");
	int r = plan_build(plan, s, err);
	if (r < 0) {
		free(plan);
		return r;
	}
	*state = plan;
	return 0;
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	(void)s;
	engine_run(state, res);
}

static void release(void *state)
{
	if (state)
		plan_free(state);
	free(state);
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
