/* SPDX-License-Identifier: Apache-2.0 */
/* Results, errors and plans as JSON and as text for people and models. */
#ifndef API_JSON_H
#define API_JSON_H

#include "base/json.h"
#include "plan/plan.h"
#include "engine/result.h"
#include "policy/request.h"

void json_error(struct json *j, const struct brig_error *e);
void json_layers(struct json *j, unsigned bits);

/* A request with all layers, what it resolves to, and what would be done. */
struct explained {
	struct brig_spec *rq; /* in force */
	struct spec *spec;
	struct plan *plan;    /* native backend only */
	char *described;      /* what another backend would be told, or NULL */
};

/* Loads, resolves and plans; runs nothing.  -errno with err.  Freed with
 * explain_free() either way. */
int explain_prepare(const struct brig_spec *rq, struct explained *x,
		    struct brig_error *err);
void explain_free(struct explained *x);

/* All three return fresh text, or NULL when out of memory. */
char *explain_json(const struct explained *x, size_t *len);
char *explain_text(const struct explained *x, bool colour);
char *explain_for_model(const struct spec *s);

/* Whether a setting has a value to show, and one word of it with nothing in it
 * that may be a secret; fresh memory. */
bool explain_shows(const struct brig_spec *rq, enum opt o);
char *explain_value(enum opt o, const char *v);

/* "512M" from bytes; "none" for 0. */
const char *size_text(uint64_t bytes, char buf[32]);

/* learned.c: what a learning run came to; text for a person, in fresh memory. */
char *learned_text(const struct brig_result *r);
void learned_json(struct json *j, const struct brig_result *r);

#endif
