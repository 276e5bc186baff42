/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

static int refuse(const struct brig_spec *in_force, const struct brig_spec *layer,
		  enum opt o, const char *word, struct brig_error *err)
{
	const struct opt_def *d = &opt_table[o];
	const struct origin *at = request_origin(layer, o);
	char here[300], there[300], shown[80];

	origin_text(at, here, sizeof here);
	origin_text(&in_force->lock[o], there, sizeof there);
	/* a variable's value may be a secret */
	str_clean(word, shown, sizeof shown);
	if (d->kind == OK_PAIRS)
		shown[strcspn(shown, "=")] = '\0';
	err_set(err, BRIG_E_LOCKED, 0, "policy",
		"%s: %s: '%s' is looser than what is locked at %s", here, d->key, shown,
		there);
	err_fix(err, "tighten it or leave it out; only the lock's author can open it");
	return -EPERM;
}

/* A locked NAME=VALUE list takes no new name and no other value. */
static bool pairs_loosen(const struct brig_spec *in_force,
			 const struct brig_spec *layer, enum opt o, const char **word)
{
	for (char **now = layer->o[o].v; now && *now; now++) {
		bool same = false;
		for (char **was = in_force->o[o].v; was && *was && !same; was++)
			same = streq(*was, *now);
		if (!same) {
			*word = *now;
			return true;
		}
	}
	return false;
}

static int check_lock(const struct brig_spec *in_force,
		      const struct brig_spec *layer, enum opt o,
		      struct brig_error *err)
{
	const char *word = "";

	if (!in_force->lock[o].layer || !layer->o[o].here)
		return 0;
	bool loosens = opt_table[o].merge == MERGE_BY_NAME ?
			       pairs_loosen(in_force, layer, o, &word) :
			       opt_loosens(o, in_force, layer, &word);
	return loosens ? refuse(in_force, layer, o, word, err) : 0;
}

static int copy_origin(struct brig_spec *to, const struct origin *at,
		       struct origin *out)
{
	*out = *at;
	out->layer = request_keep(to, at->layer);
	if (at->file)
		out->file = request_keep(to, at->file);
	return out->layer && (!at->file || out->file) ? 0 : -ENOMEM;
}

/* The words of one option, with their origins; the texts of origins repeat, so the last one
 * kept is looked at first. */
static int copy_all(struct brig_spec *to, const struct brig_spec *from, enum opt o)
{
	const struct req_value *rv = &from->o[o];
	struct origin last = { 0 };
	const struct origin *known = NULL;

	for (size_t i = 0; rv->v && rv->v[i]; i++) {
		const struct origin *at = &rv->at[i];
		int r = 0;
		if (known && known->layer == at->layer && known->file == at->file) {
			last.line = at->line;
			last.column = at->column;
		} else {
			r = copy_origin(to, at, &last);
			known = at;
		}
		if (r == 0)
			r = request_put(to, o, rv->v[i], &last);
		if (r < 0)
			return r;
	}
	return 0;
}

static int by_word(const void *x, const void *y)
{
	char **a = *(char **const *)x, **b = *(char **const *)y;
	int c = strcmp(*a, *b);

	return c ? c : (a > b) - (a < b);
}

/* Of several like words the first stays.  "none" drops what stands before it. */
static int drop_repeats(struct req_value *rv)
{
	size_t start = rv->n, kept;

	while (start && !streq(rv->v[start - 1], "none"))
		start--;
	const size_t n = rv->n - start;
	cleanup_free char ***sorted = calloc(n + 1, sizeof *sorted);
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &rv->v[start + i];
	qsort(sorted, n, sizeof *sorted, by_word);
	for (size_t i = n; i-- > 1;)
		if (streq(*sorted[i], *sorted[i - 1])) {
			free(*sorted[i]);
			*sorted[i] = NULL;
		}
	kept = start;
	for (size_t i = start; i < rv->n; i++)
		if (rv->v[i]) {
			rv->at[kept] = rv->at[i];
			rv->v[kept++] = rv->v[i];
		}
	rv->v[kept] = NULL;
	rv->n = kept;
	return 0;
}

static bool has_name(const struct req_value *rv, const char *entry)
{
	size_t len = strcspn(entry, "=");

	for (size_t i = 0; i < rv->n; i++)
		if (strncmp(rv->v[i], entry, len) == 0 && strcspn(rv->v[i], "=") == len)
			return true;
	return false;
}

/* Later values of a name replace earlier ones. */
static void drop_names(struct brig_spec *to, const struct brig_spec *from, enum opt o)
{
	struct req_value *rv = &to->o[o];
	size_t kept = 0;

	for (size_t i = 0; i < rv->n; i++) {
		if (has_name(&from->o[o], rv->v[i])) {
			free(rv->v[i]);
			continue;
		}
		rv->at[kept] = rv->at[i];
		rv->v[kept++] = rv->v[i];
	}
	if (!rv->v)
		return;
	rv->v[kept] = NULL;
	rv->n = kept;
	if (kept == 0)
		request_unset(to, o);
}

/* A default that is added to has to be written down first. */
static int write_default(struct brig_spec *to, enum opt o)
{
	static const struct origin builtin = { .layer = "built-in" };
	bool failed;

	if (to->o[o].here || !opt_table[o].def)
		return 0;
	char **v = request_list(to, o, &failed);
	int r = failed ? -ENOMEM : 0;
	for (char **w = v; w && *w && r == 0; w++)
		r = request_put(to, o, *w, &builtin);
	strv_free(v);
	return r;
}

static int apply_one(struct brig_spec *to, const struct brig_spec *from, enum opt o)
{
	const struct req_value *rv = &from->o[o];
	enum opt_kind kind = opt_table[o].kind;
	enum opt_merge merge = opt_table[o].merge;
	struct origin at;
	int r = 0;

	/* what a run lists comes on top of what the files list */
	if (merge == MERGE_REPLACE && kind == OK_LIST && rv->at[0].rank == RANK_RUN)
		merge = MERGE_ADD;
	if (merge == MERGE_ADD && !rv->v)
		return 0; /* an empty list adds nothing: it is not "none of them" */
	if (merge == MERGE_BY_NAME)
		drop_names(to, from, o);
	else if (merge == MERGE_REPLACE)
		request_unset(to, o);
	else
		r = write_default(to, o);
	if (r < 0)
		return r;
	if (!rv->v && !to->o[o].here) {
		r = copy_origin(to, &rv->at[0], &at);
		return r < 0 ? r : request_clear(to, o, &at);
	}
	r = copy_all(to, from, o);
	return r == 0 && merge == MERGE_ADD ? drop_repeats(&to->o[o]) : r;
}

/* Naming a host, or learning which, asks for the network the list is for, and for no
 * more: not for the whole network that an earlier layer may have opened. */
static int imply_allow(struct brig_spec *to, const struct brig_spec *layer,
		       struct brig_error *err)
{
	enum opt by = layer->o[OPT_ALLOW].v ? OPT_ALLOW : OPT_LEARN;

	if (layer->o[OPT_NET].here ||
	    (by == OPT_LEARN && !(layer->o[OPT_LEARN].v && request_flag(layer, OPT_LEARN))))
		return 0;
	struct brig_spec implied = { 0 };
	int r = request_put(&implied, OPT_NET, "allow", &layer->o[by].at[0]);
	if (r == 0)
		r = check_lock(to, &implied, OPT_NET, err);
	if (r == 0)
		r = apply_one(to, &implied, OPT_NET);
	request_unset(&implied, OPT_NET);
	return r;
}

/* Paths are compared once more when they have been opened: a name that lies
 * below a locked one may be a link that leads out of it. */
static int lock_one(struct brig_spec *in_force, const struct brig_spec *layer,
		    enum opt o)
{
	bool failed = false;

	if (!layer->lock[o].layer || in_force->lock[o].layer)
		return 0;
	if (o == OPT_RO || o == OPT_RW || o == OPT_WORKSPACE)
		in_force->locked[o] = request_list(in_force, o, &failed);
	return failed ? -ENOMEM : copy_origin(in_force, &layer->lock[o],
					      &in_force->lock[o]);
}

int layer_apply(struct brig_spec *in_force, const struct brig_spec *layer,
		struct brig_error *err)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		enum opt o = (enum opt)i;
		int r = check_lock(in_force, layer, o, err);
		if (r < 0)
			return r;
	}
	int r = imply_allow(in_force, layer, err);
	for (unsigned i = 0; r == 0 && i < OPT__COUNT; i++)
		if (layer->o[i].here)
			r = apply_one(in_force, layer, (enum opt)i);
	for (unsigned i = 0; r == 0 && i < OPT__COUNT; i++)
		r = lock_one(in_force, layer, (enum opt)i);
	return r == -ENOMEM ? err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy",
				      "merging the layers") : r;
}
