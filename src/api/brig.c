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
#include "plan/plan.h"
#include "policy/load.h"
#include "policy/resolve.h"

#ifndef BRIG_VERSION
#define BRIG_VERSION "0.0.0"
#endif

const char *brig_version(void)
{
	return BRIG_VERSION;
}

/* The policy in force has been loaded: this is the run itself. */
static void run_loaded(const struct brig_spec *rq, struct brig_result *res)
{
	struct spec *spec = NULL;

	if (policy_resolve(rq, &spec, &res->error) < 0)
		return;
	for (int i = 0; i < 27; i++)
		res->id[i] = spec->id[i];
	backend_run(spec, res);
	spec_free(spec);
}

int brig_run(const struct brig_spec *rq, struct brig_result **out,
	     struct brig_error *err)
{
	struct brig_spec *loaded = NULL;

	/* the spec has the run's id; a refusal before it has none to speak of */
	struct brig_result *res = result_new("");
	if (!res)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "run", "a result");
	res->captured = request_flag(rq, OPT_JSON);
	if (rq->loaded)
		run_loaded(rq, res);
	else if (policy_load(rq, &loaded, &res->error) == 0)
		run_loaded(loaded, res);
	brig_spec_free(loaded);
	if (!res->id[0])
		id_make(res->id); /* without randomness it stays empty */
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

/* A backend that cannot run here still has a policy to explain; why it cannot is
 * part of the explanation. */
static int describe_backend(struct explained *x, struct brig_error *err)
{
	const struct backend *b = backend_get(x->spec->backend);
	struct brig_error why = { 0 };
	struct buf text = { 0 };
	void *state = NULL;

	if (!b || !b->describe)
		return 0;
	if (b->describes_bare) {
		b->describe(x->spec, NULL, &text);
	} else {
		if (b->prepare(x->spec, &state, &why) < 0)
			buf_addf(&text, "it cannot run here: %s (%s)\n", why.message, why.fix);
		else
			b->describe(x->spec, state, &text);
		b->release(state);
	}
	x->described = buf_take(&text, NULL);
	return x->described ? 0 : err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "explain", "text");
}

int explain_prepare(const struct brig_spec *rq, struct explained *x,
		    struct brig_error *err)
{
	*x = (struct explained){ 0 };
	int r = policy_load(rq, &x->rq, err);
	if (r == 0)
		r = policy_resolve(x->rq, &x->spec, err);
	if (r < 0)
		return r;
	if (x->spec->backend == BACKEND_NATIVE) {
		x->plan = calloc(1, sizeof *x->plan);
		if (!x->plan)
			return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "explain", "a plan");
		return plan_build(x->plan, x->spec, err);
	}
	return describe_backend(x, err);
}

void explain_free(struct explained *x)
{
	if (x->plan)
		plan_free(x->plan);
	free(x->plan);
	free(x->described);
	spec_free(x->spec);
	brig_spec_free(x->rq);
}

char *brig_explain_json(const struct brig_spec *rq, size_t *len,
			struct brig_error *err)
{
	struct explained x;
	char *text = NULL;

	if (explain_prepare(rq, &x, err) == 0) {
		text = explain_json(&x, len);
		if (!text)
			err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "explain", "text");
	}
	explain_free(&x);
	return text;
}
