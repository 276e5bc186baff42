/* SPDX-License-Identifier: Apache-2.0 */
/* Which of two values is the tighter one: what locks are decided by. */
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/layers.h"
#include "egress/allow.h"
#include "policy/merge.h"
#include "policy/toolchain.h"

/* The place of a word in "a|b|c"; the end when it is not there. */
static unsigned place_of(const char *words, const char *word)
{
	size_t n = strlen(word);
	unsigned at = 0;

	for (const char *w = words; w; w = strchr(w, '|')) {
		if (*w == '|')
			w++;
		if (strncmp(w, word, n) == 0 && (w[n] == '|' || !w[n]))
			return at;
		at++;
	}
	return at;
}

/* SRC or SRC:DST; what lies below something shown under its own name is shown
 * already. */
static bool bind_covers(const char *wide, const char *narrow)
{
	cleanup_free char *w = NULL, *n = NULL;

	if (streq(wide, narrow))
		return true;
	if (strchr(wide, ':') || strchr(narrow, ':'))
		return false; /* another place inside is not the same thing */
	return path_normalise(wide, &w) == 0 && path_normalise(narrow, &n) == 0 &&
	       path_is_under(n, w);
}

static bool toolchain_covers(const char *wide, const char *narrow)
{
	unsigned w = 0, n = 0;

	return toolchain_parse(wide, &w) && toolchain_parse(narrow, &n) && !(n & ~w);
}

static bool covers(enum opt o, const char *wide, const char *narrow)
{
	struct allow_entry w, n;
	char why[120];

	switch (o) {
	case OPT_RO:
	case OPT_RW:
	case OPT_WORKSPACE:
		return bind_covers(wide, narrow);
	case OPT_ALLOW:
		return allow_parse(wide, &w, why, sizeof why) == 0 &&
		       allow_parse(narrow, &n, why, sizeof why) == 0 &&
		       allow_covers(&w, &n);
	case OPT_TOOLCHAINS:
		return toolchain_covers(wide, narrow);
	default:
		return streq(wide, narrow);
	}
}

/* A word of the new list that nothing in the old one covers. */
static const char *not_covered(enum opt o, char **was, char **now)
{
	for (; now && *now; now++) {
		bool found = false;
		for (char **w = was; w && *w && !found; w++)
			found = covers(o, *w, *now);
		if (!found)
			return *now;
	}
	return NULL;
}

static bool number_loosens(enum opt o, const char *was, const char *now)
{
	uint64_t a = 0, b = 0;

	if (was)
		opt_number(o, was, &a);
	opt_number(o, now, &b);
	if (a == 0)
		return false; /* there was no limit to loosen */
	return b == 0 || b > a;
}

/* With no list everything must hold that is asked for; a first list that leaves
 * something out is less than that. */
static bool requires_less(const struct brig_spec *in_force, char **now)
{
	unsigned bits = 0;

	if (!now || request_has(in_force, OPT_REQUIRE))
		return false;
	for (; *now; now++)
		bits |= LAYER_BIT(layer_by_name(*now, strlen(*now)));
	return LAYERS_BASE & ~bits;
}

bool opt_loosens(enum opt o, const struct brig_spec *in_force,
		 const struct brig_spec *layer, const char **word)
{
	const struct opt_def *d = &opt_table[o];
	char **now = layer->o[o].v;
	const char *was = request_text(in_force, o);
	bool failed;

	*word = now ? now[0] : "[]";
	switch (d->tight) {
	case TIGHT_FREE:
		return false;
	case TIGHT_LESS:
		return now && number_loosens(o, was, now[0]);
	case TIGHT_FIRST:
		return now && place_of(d->words, now[0]) >
			      (was ? place_of(d->words, was) : 0);
	case TIGHT_MORE:
		if (o == OPT_REQUIRE && requires_less(in_force, now))
			return true;
		/* they add up; only dropping what is there loosens */
		for (; now && *now; now++)
			if (streq(*now, "none")) {
				*word = *now;
				return true;
			}
		return false;
	case TIGHT_SUBSET: {
		char **list = request_list(in_force, o, &failed);
		const char *w = not_covered(o, list, now);
		strv_free(list);
		*word = w ? w : *word;
		return failed || w;
	}
	case TIGHT_SAME:
		break;
	}
	/* no order among values: the same words, or it is a change */
	char **old = request_list(in_force, o, &failed);
	size_t i = 0;
	bool same = !failed;
	for (; same && now && now[i]; i++)
		same = old && i < strv_len(old) && streq(old[i], now[i]);
	same = same && i == strv_len(old);
	strv_free(old);
	return !same;
}
