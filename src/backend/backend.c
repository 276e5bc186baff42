/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

static const struct backend *const table[BACKEND__COUNT] = {
	[BACKEND_NATIVE] = &backend_native,
	[BACKEND_LANDLOCK] = &backend_landlock,
	[BACKEND_BWRAP] = &backend_bwrap,
	[BACKEND_WRAPPER] = &backend_wrapper,
	[BACKEND_SEATBELT] = &backend_seatbelt,
	[BACKEND_NONE] = &backend_none,
	[BACKEND_DOCKER] = &backend_docker,
};

const struct backend *backend_get(enum backend_id id)
{
	return (unsigned)id < BACKEND__COUNT ? table[id] : NULL;
}

const char *backend_name(enum backend_id id)
{
	static const char *const names[] = {
#define X(sym, name) name,
		BRIG_BACKENDS(X)
#undef X
	};
	return (unsigned)id < ARRAY_LEN(names) ? names[id] : "?";
}

enum backend_id backend_by_name(const char *name)
{
	for (unsigned i = 0; i < BACKEND__COUNT; i++)
		if (streq(backend_name((enum backend_id)i), name))
			return (enum backend_id)i;
	return BACKEND__COUNT;
}

/* What must hold with this backend: what somebody wrote down, in full, or else
 * all that the backend can give. */
static unsigned required(const struct spec *s, const struct backend *b)
{
	return s->require_explicit ? s->required :
				     s->required & (b->can | s->asked);
}

/* What only an image can give.  Asked for elsewhere it is refused, not ignored. */
static int check_image_only(const struct spec *s, const struct backend *b,
			    struct brig_error *err)
{
	if (b->images)
		return 0;
	if (s->add_caps && s->add_caps[0]) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "policy",
			"add_caps: the %s backend gives no capability, ever", b->name);
		err_fix(err, "leave add_caps out, or use mode: docker");
		return -EOPNOTSUPP;
	}
	if (s->writable_root) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "policy",
			"read_only: false: the %s backend has no root file system of its own "
			"to write to", b->name);
		err_fix(err, "name the trees to write in filesystem.write");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int check_learns(const struct spec *s, const struct backend *b,
			struct brig_error *err)
{
	if (b->learns || !(s->learn || s->proxy_env))
		return 0;
	err_set(err, BRIG_E_UNSUPPORTED, 0, "policy", "network.%s is not available with the "
		"%s backend", s->learn ? "learn" : "proxy_env", b->name);
	err_fix(err, "leave it out, or use --backend native");
	return -EOPNOTSUPP;
}

static int attempt(const struct spec *s, enum backend_id id, struct brig_result *res)
{
	const struct backend *b = backend_get(id);
	struct brig_error *err = &res->error;
	void *state = NULL;

	res->backend = backend_name(id);
	if (!b) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "backend",
			"the %s backend is not available in this version",
			backend_name(id));
		err_fix(err, "use --backend native");
		return -EOPNOTSUPP;
	}
	unsigned unmet = required(s, b) & ~b->can;
	if (unmet) {
		char list[200] = "";
		layers_list(unmet, list, sizeof list);
		err_set(err, BRIG_E_REQUIRE_UNMET, 0, "backend",
			"the %s backend cannot give: %s", b->name, list);
		err_fix(err, "choose another backend, or do not require it");
		return -EINVAL;
	}
	int r = check_image_only(s, b, err);
	if (r == 0)
		r = check_learns(s, b, err);
	if (r < 0)
		return r;
	r = b->prepare(s, &state, err);
	if (r == 0) {
		b->run(s, state, res);
		r = res->ran || err->code == BRIG_E_OK ? 0 : -EIO;
	}
	b->release(state);
	return r;
}

/* Running unconfined is never what happens when something else fails. */
static int check_fallback(const struct spec *s, struct brig_error *err)
{
	for (size_t i = 0; i < s->n_fallback; i++)
		if (s->fallback[i] == BACKEND_NONE) {
			err_set(err, BRIG_E_BAD_VALUE, 0, "backend",
				"\"none\" cannot be a fallback");
			err_fix(err, "list sandboxes only; no sandbox is an explicit "
				     "choice: --backend none");
			return -EINVAL;
		}
	return 0;
}

/*
 * Another one is for what this one cannot do here.  Not for who has said that nothing is to
 * run any more; nor for a command that was not there, which chooses its name, and would
 * choose its sandbox by that.
 */
static bool another_may(const struct brig_result *res)
{
	const struct brig_error *err = &res->error;

	return !res->ran && err->errnum != EINTR && err->code != BRIG_E_NOT_FOUND &&
	       err->code != BRIG_E_EXEC_FAILED;
}

void backend_run(const struct spec *s, struct brig_result *res)
{
	res->backend = backend_name(s->backend);
	if (check_fallback(s, &res->error) < 0)
		return;
	if (attempt(s, s->backend, res) == 0)
		return;
	for (size_t i = 0; i < s->n_fallback && another_may(res); i++) {
		struct brig_error first = res->error;
		result_again(res);
		if (attempt(s, s->fallback[i], res) < 0 && another_may(res)) {
			/* the backend that was asked for is the one to speak of */
			result_again(res);
			res->error = first;
			res->backend = backend_name(s->backend);
			continue;
		}
		/* never silent: it is a fact about this run */
		result_deny(res, "backend", backend_name(s->backend), first.message,
			    first.fix, 1);
		return;
	}
}
