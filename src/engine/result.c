/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct brig_result *result_new(const char *id)
{
	struct brig_result *r = calloc(1, sizeof *r);

	if (r) {
		snprintf(r->id, sizeof r->id, "%s", id);
		r->backend = "native";
		r->exit_code = -1;
	}
	return r;
}

void result_again(struct brig_result *r)
{
	capture_free(&r->out);
	capture_free(&r->err);
	r->exit_code = -1;
	r->signal = 0;
	r->timed_out = r->oom = r->have_evidence = false;
	r->enforced = r->missing = 0;
	r->evidence = (struct evidence){ 0 };
	r->wall_ms = r->cpu_ms = 0;
	r->max_rss_kb = r->setup_us = 0;
	r->error = (struct brig_error){ 0 };
}

int result_deny(struct brig_result *r, const char *kind, const char *target,
		const char *rule, const char *fix, uint64_t count)
{
	struct denial *v = realloc(r->denied, (r->n_denied + 1) * sizeof *v);

	if (!v)
		return -ENOMEM;
	r->denied = v;
	char *copy = strdup(target);
	if (!copy)
		return -ENOMEM;
	struct denial *d = &v[r->n_denied++];
	*d = (struct denial){ .kind = kind, .target = copy, .count = count };
	d->rule = strdup(rule);
	d->fix = strdup(fix);
	return d->rule && d->fix ? 0 : -ENOMEM;
}

enum { LEARNED_MAX = 1024 };

void result_learn(struct brig_result *r, const char *target, const char *why, bool refused,
		  uint64_t count)
{
	struct learned *v = r->learned;
	size_t at = 0;

	/* in order, so that two runs give one list */
	for (; at < r->n_learned; at++) {
		int c = strcmp(v[at].target, target);
		if (c == 0 && v[at].why == why) {
			v[at].count += count;
			return;
		}
		if (c > 0)
			break;
	}
	v = r->n_learned < LEARNED_MAX ?
		    realloc(v, (r->n_learned + 1) * sizeof *v) : NULL;
	char *copy = v ? strdup(target) : NULL;
	if (v)
		r->learned = v;
	if (!copy) {
		r->learn_lost += count;
		return;
	}
	memmove(v + at + 1, v + at, (r->n_learned - at) * sizeof *v);
	v[at] = (struct learned){ copy, why, refused, count };
	r->n_learned++;
}

void brig_result_free(struct brig_result *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_denied; i++) {
		free(r->denied[i].target);
		free(r->denied[i].rule);
		free(r->denied[i].fix);
	}
	free(r->denied);
	for (size_t i = 0; i < r->n_learned; i++)
		free(r->learned[i].target);
	free(r->learned);
	free(r->name);
	capture_free(&r->out);
	capture_free(&r->err);
	free(r);
}

void brig_result_warn(const struct brig_result *r,
		      void (*warn)(void *arg, const char *target, const char *text),
		      void *arg)
{
	for (size_t i = 0; i < r->n_denied; i++)
		if (strcmp(r->denied[i].kind, "path") == 0)
			warn(arg, r->denied[i].target, r->denied[i].fix ? r->denied[i].fix : "?");
}

int brig_result_exit_code(const struct brig_result *r)
{
	switch (r->error.code) {
	case BRIG_E_OK:
		break;
	case BRIG_E_NOT_FOUND:
		return 127;
	case BRIG_E_EXEC_FAILED:
		return 126;
	default:
		return 125;
	}
	if (r->timed_out)
		return 124;
	if (r->signal)
		return 128 + r->signal;
	return r->exit_code >= 0 ? r->exit_code : 125;
}
