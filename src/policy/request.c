/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

void origin_text(const struct origin *at, char *out, size_t cap)
{
	if (!at || !at->layer)
		snprintf(out, cap, "built-in");
	else if (at->file && at->rank > RANK_USER)
		snprintf(out, cap, "%s (%s:%u:%u)", at->layer, at->file, at->line,
			 at->column);
	else if (at->file)
		snprintf(out, cap, "%s:%u:%u", at->file, at->line, at->column);
	else
		snprintf(out, cap, "%s", at->layer);
}

void request_label(const struct brig_spec *rq, enum opt o, size_t n, char *out,
		   size_t cap)
{
	const struct opt_def *d = &opt_table[o];
	const struct origin *at = rq->o[o].here ? &rq->o[o].at[n] : NULL;
	char where[280];

	if (!at || at->rank == RANK_RUN || at->rank == RANK_BUILTIN) {
		const char *name = d->name ? d->name : d->key;
		size_t len = strnlen(name, cap - 3);
		memcpy(out, "--", 2); /* not printed: once per bind */
		memcpy(out + 2, name, len);
		out[len + 2] = '\0';
		return;
	}
	origin_text(at, where, sizeof where);
	snprintf(out, cap, "%s: %s", where, d->key);
}

const char *request_keep(struct brig_spec *rq, const char *text)
{
	if (strv_add(&rq->texts, text) < 0)
		return NULL;
	return rq->texts[strv_len(rq->texts) - 1];
}

void request_unset(struct brig_spec *rq, enum opt o)
{
	strv_free(rq->o[o].v);
	free(rq->o[o].at);
	rq->o[o] = (struct req_value){ 0 };
}

int request_put(struct brig_spec *rq, enum opt o, const char *value,
		const struct origin *at)
{
	enum opt_kind kind = opt_table[o].kind;
	struct req_value *rv = &rq->o[o];

	if (kind != OK_LIST && kind != OK_WORDS && kind != OK_PAIRS && kind != OK_ARGV)
		request_unset(rq, o);
	size_t n = rv->n;
	if (!rv->at || (n & (n - 1)) == 0) { /* room for a power of two */
		struct origin *v = realloc(rv->at, (n ? 2 * n : 1) * sizeof *v);
		if (!v)
			return -ENOMEM;
		rv->at = v;
	}
	rv->at[n] = *at;
	rv->here = true;
	return strv_put(&rv->v, &rv->n, strdup(value));
}

int request_clear(struct brig_spec *rq, enum opt o, const struct origin *at)
{
	struct req_value *rv = &rq->o[o];

	request_unset(rq, o);
	rv->at = malloc(sizeof *rv->at);
	if (!rv->at)
		return -ENOMEM;
	*rv->at = *at;
	rv->here = true;
	return 0;
}

/* "a,b" is two words.  All are checked before the first is taken. */
static int set_words(struct brig_spec *rq, enum opt o, const char *label,
		     const char *value, const struct origin *at,
		     struct brig_error *err)
{
	for (int pass = 0; pass < 2; pass++) {
		for (const char *p = value; p;) {
			size_t n = strcspn(p, ",");
			cleanup_free char *word = strndup(p, n);
			if (!word)
				return -ENOMEM;
			int r = pass ? request_put(rq, o, word, at) :
				       opt_check(o, label, word, err);
			if (r < 0)
				return r;
			p = p[n] ? p + n + 1 : NULL;
		}
	}
	return 0;
}

int request_set(struct brig_spec *rq, enum opt o, const char *value,
		const char *origin, struct brig_error *err)
{
	const struct opt_def *d = &opt_table[o];
	const struct origin at = { .rank = RANK_RUN, .layer = origin };
	char label[40];
	int r;

	snprintf(label, sizeof label, "--%s", d->name ? d->name : d->key);
	if (d->kind == OK_FLAG && !*value)
		value = "true";
	if (d->kind == OK_WORDS) {
		r = set_words(rq, o, label, value, &at, err);
	} else {
		r = opt_check(o, label, value, err);
		if (r == 0 && d->kind == OK_ARGV)
			request_unset(rq, o); /* the option gives one text, whole */
		if (r == 0)
			r = request_put(rq, o, value, &at);
	}
	return r == -ENOMEM ? err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "options", "%s",
				      label) : r;
}

const char *request_text(const struct brig_spec *rq, enum opt o)
{
	return rq->o[o].v ? rq->o[o].v[0] : opt_table[o].def;
}

bool request_has(const struct brig_spec *rq, enum opt o)
{
	return rq->o[o].here;
}

bool request_flag(const struct brig_spec *rq, enum opt o)
{
	const char *t = request_text(rq, o);

	return t && streq(t, "true");
}

const struct origin *request_origin(const struct brig_spec *rq, enum opt o)
{
	return rq->o[o].here ? &rq->o[o].at[0] : NULL;
}

char **request_list(const struct brig_spec *rq, enum opt o, bool *failed)
{
	char **out = NULL;
	int r = 0;

	*failed = false;
	if (rq->o[o].here) {
		r = strv_append(&out, (const char *const *)rq->o[o].v);
	} else {
		for (const char *p = opt_table[o].def; p && r == 0;) {
			size_t n = strcspn(p, ",");
			r = strv_take(&out, strndup(p, n));
			p = p[n] ? p + n + 1 : NULL;
		}
	}
	if (r < 0) {
		*failed = true;
		strv_free(out);
		return NULL;
	}
	return out;
}

struct brig_spec *brig_spec_new(void)
{
	return calloc(1, sizeof(struct brig_spec));
}

void brig_spec_free(struct brig_spec *rq)
{
	if (!rq)
		return;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		request_unset(rq, (enum opt)i);
		strv_free(rq->locked[i]);
	}
	strv_free(rq->texts);
	strv_free(rq->argv);
	free(rq);
}

int brig_spec_set(struct brig_spec *rq, const char *key, const char *value,
		  struct brig_error *err)
{
	enum opt o = opt_by_name(key);

	if (o == OPT__COUNT)
		o = opt_by_key(key); /* "limits.memory" as in a file */
	if (o == OPT__COUNT)
		return err_set(err, BRIG_E_BAD_OPTION, 0, "options",
			       "'%.60s' is not a setting", key);
	return request_set(rq, o, value ? value : "", "api", err);
}

int brig_spec_set_argv(struct brig_spec *rq, const char *const *argv,
		       struct brig_error *err)
{
	strv_free(rq->argv);
	rq->argv = NULL;
	return strv_append(&rq->argv, argv) < 0 ?
		       err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "options", "the command") : 0;
}
