/* SPDX-License-Identifier: Apache-2.0 */
/* Results, errors and plans as JSON and as text for people and models. */
#ifndef API_JSON_H
#define API_JSON_H

#include "base/json.h"
#include "engine/plan.h"
#include "engine/result.h"
#include "policy/options.h"

void json_error(struct json *j, const struct brig_error *e);
void json_layers(struct json *j, unsigned bits);

/* All three return fresh text, or NULL when out of memory. */
char *explain_json(const struct brig_spec *rq, const struct plan *p, size_t *len);
char *explain_text(const struct brig_spec *rq, const struct plan *p, bool colour);
char *explain_for_model(const struct plan *p);

/* "512M" from bytes; "none" for 0. */
const char *size_text(uint64_t bytes, char buf[32]);

#endif
