/* SPDX-License-Identifier: Apache-2.0 */
/* libbrig: the public functions that tie policy, plan and engine together. */
#include <errno.h>
#include <stdlib.h>

#include "api/json.h"
#include "backend/backend.h"
#include "base/err.h"
#include "base/id.h"
#include "brig.h"
#include "engine/diagnose.h"
#include "engine/plan.h"
#include "policy/resolve.h"

#ifndef BRIG_VERSION
#define BRIG_VERSION "0.0.0"
#endif

const char *brig_version(void)
{
	return BRIG_VERSION;
}

int brig_run(const struct brig_spec *rq, struct brig_result **out,
	     struct brig_error *err)
{
	struct spec *spec = NULL;

	/* the spec has the run's id; a refusal before it has none to speak of */
	struct brig_result *res = result_new("");
	if (!res)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "run", "a result");
	res->captured = request_flag(rq, OPT_JSON);
	int r = policy_resolve(rq, &spec, &res->error);
	if (r < 0)
		id_make(res->id); /* without randomness it stays empty */
	if (r == 0) {
		for (int i = 0; i < 27; i++)
			res->id[i] = spec->id[i];
		backend_run(spec, res);
	}
	spec_free(spec);
	if (res->error.code != BRIG_E_OK && !res->error.fix[0])
		diagnose_fix(&res->error);
	if (err)
		*err = res->error;
	*out = res;
	return 0;
}

struct brig_result *brig_result_refused(const struct brig_error *why)
{
	char id[27] = "";

	id_make(id);
	struct brig_result *res = result_new(id);
	if (res) {
		res->captured = true;
		res->error = *why;
	}
	return res;
}

char *brig_explain_json(const struct brig_spec *rq, size_t *len,
			struct brig_error *err)
{
	struct spec *spec = NULL;
	struct plan plan;
	char *text = NULL;

	if (policy_resolve(rq, &spec, err) < 0)
		return NULL;
	if (plan_build(&plan, spec, err) == 0) {
		text = explain_json(rq, &plan, len);
		plan_free(&plan);
		if (!text)
			err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "explain", "text");
	}
	spec_free(spec);
	return text;
}
