/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers on top of one another: a property test that what is locked never gets
 * looser, whatever later layers say.  What "looser" means is decided in
 * merge_oracle.h, by what the two values would let through, and not by the code
 * under test.
 *
 * Everything random comes from a seed, which is printed on failure;
 * BRIG_SEED=N runs that one alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/layers.h"
#include "merge_oracle.h"
#include "policy/merge.h"
#include "policy_text.h"

enum { ITERATIONS = 20000, LAYERS_MAX = 6 };

/* -- layers ---------------------------------------------------------------- */

static const char *const layer_names[] = { "zero", "system", "user", "profile x",
					   "tenant y", "tool z", "command line" };

/* A line number says which layer and option a word was written by, and as the
 * which of its words. */
static struct origin origin_of(unsigned rank, unsigned o, unsigned nth)
{
	return (struct origin){ .rank = (enum layer_rank)rank, .layer = layer_names[rank],
				.file = rank == RANK_RUN ? NULL : "f.yaml",
				.line = (rank * 100 + o) * 10 + nth, .column = rank };
}

static void random_value(struct brig_spec *s, enum opt o, unsigned rank)
{
	struct origin at = origin_of(rank, o, 0);

	if (is_list(o) && rnd(6) == 0 && rank != RANK_RUN) {
		assert_int_equal(request_clear(s, o, &at), 0);
		return;
	}
	/* a mapping in a file cannot have a name twice */
	bool once = opt_table[o].kind == OK_PAIRS && rank != RANK_RUN;
	for (unsigned n = is_list(o) ? 1 + rnd(3) : 1; n > 0; n--) {
		const char *word = pick(o);
		if (once && last_of(s->o[o].v, word))
			continue;
		at = origin_of(rank, o, (unsigned)strv_len(s->o[o].v));
		assert_int_equal(request_put(s, o, word, &at), 0);
	}
}

/* The options that a stack of layers is about.  Mostly few of them: of layers
 * that say much, hardly one gets past all locks. */
static bool active[OPT__COUNT];

static void choose_options(void)
{
	bool all = rnd(5) == 0;

	for (unsigned o = 0; o < OPT__COUNT; o++)
		active[o] = all;
	for (unsigned n = 1 + rnd(4); n > 0; n--)
		active[rnd(OPT__COUNT)] = true;
	if (rnd(6) == 0)
		active[OPT_ALLOW] = active[OPT_NET] = true;
}

static struct brig_spec *random_layer(unsigned rank, unsigned density)
{
	struct brig_spec *s = brig_spec_new();

	assert_non_null(s);
	for (unsigned o = 0; o < OPT__COUNT; o++) {
		if (!opt_table[o].key || !active[o])
			continue;
		if (rnd(density) == 0)
			random_value(s, (enum opt)o, rank);
		if (rank != RANK_RUN && rnd(density) == 0)
			s->lock[o] = origin_of(rank, o, 0);
	}
	return s;
}

static char *text_of(const struct brig_spec *s)
{
	struct buf b = { 0 };

	policy_text(&b, s, NULL);
	char *t = buf_take(&b, NULL);
	return t ? t : strdup("");
}

static struct brig_spec *copy_of(const struct brig_spec *s)
{
	struct brig_spec *c = brig_spec_new();

	assert_non_null(c);
	for (unsigned o = 0; o < OPT__COUNT; o++) {
		const struct req_value *rv = &s->o[o];
		for (size_t i = 0; rv->v && rv->v[i]; i++)
			assert_int_equal(request_put(c, (enum opt)o, rv->v[i], &rv->at[i]), 0);
		if (rv->here && !rv->v)
			assert_int_equal(request_clear(c, (enum opt)o, &rv->at[0]), 0);
		c->lock[o] = s->lock[o];
	}
	return c;
}

/* Every word in force was written by a layer that was accepted. */
static void check_origins(const struct brig_spec *s, struct brig_spec **layers,
			  const bool *taken)
{
	for (unsigned o = 0; o < OPT__COUNT; o++) {
		const struct req_value *rv = &s->o[o];
		for (size_t i = 0; rv->v && rv->v[i]; i++) {
			const struct origin *at = &rv->at[i];
			bool found = false;
			if (streq(at->layer, "built-in")) {
				found = opt_table[o].def && strstr(opt_table[o].def, rv->v[i]);
			} else {
				unsigned rank = at->line / 1000, by = at->line / 10 % 100;
				unsigned nth = at->line % 10;
				/* an allow-list, or learning one, says which network it
				 * is for */
				bool implied = o == OPT_NET && (by == OPT_ALLOW || by == OPT_LEARN) &&
					       streq(rv->v[i], "allow");
				found = rank && taken[rank] && (by == o || implied) &&
					streq(at->layer, layer_names[rank]);
				const struct req_value *from = rank ? &layers[rank]->o[o] : rv;
				bool there = implied;
				for (size_t k = 0; from->v && from->v[k]; k++)
					there = there || (k == nth && streq(from->v[k], rv->v[i]));
				found = found && there;
			}
			if (!found)
				broken("%s: '%s' comes from nowhere (%s:%u)", opt_table[o].key,
				       rv->v[i], at->layer, at->line);
		}
	}
}

static void check_accepted(const struct brig_spec *before, const struct brig_spec *after)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		enum opt o = (enum opt)i;
		if (!before->lock[o].layer)
			continue;
		if (!after->lock[o].layer || after->lock[o].line != before->lock[o].line)
			broken("%s lost its lock", opt_table[o].key);
		if (looser(o, before, after)) {
			cleanup_free char *a = text_of(before), *b = text_of(after);
			broken("%s is locked and got looser.\nBefore:\n%s\nAfter:\n%s",
			       opt_table[o].key, a, b);
		}
	}
}

static void one_stack(unsigned long n)
{
	struct brig_spec *layers[LAYERS_MAX + 1] = { NULL };
	bool taken[LAYERS_MAX + 1] = { false };
	struct brig_spec *in_force = brig_spec_new(), *again = brig_spec_new();

	seed(n);
	choose_options();
	unsigned density = 2 + rnd(active[OPT_BACKEND] && active[OPT_WRAPPER] ? 20 : 2);
	for (unsigned rank = RANK_SYSTEM; rank <= RANK_RUN; rank++) {
		struct brig_error err = { 0 };
		layers[rank] = random_layer(rank, density);
		struct brig_spec *before = copy_of(in_force);
		cleanup_free char *was = text_of(in_force);
		int r = layer_apply(in_force, layers[rank], &err);
		taken[rank] = r == 0;
		if (r == 0) {
			check_accepted(before, in_force);
			if (layer_apply(again, layers[rank], &err) != 0)
				broken("not accepted the second time: %s", err.message);
		} else {
			cleanup_free char *is = text_of(in_force);
			if (r != -EPERM || err.code != BRIG_E_LOCKED || !err.message[0])
				broken("%d: %s", r, err.message);
			/* refused as a whole: nothing of it is there */
			if (!streq(was, is))
				broken("a refused layer left something:\n%s\nnow:\n%s", was, is);
		}
		brig_spec_free(before);
	}
	cleanup_free char *a = text_of(in_force), *b = text_of(again);
	if (!streq(a, b))
		broken("the same layers, two results:\n%s\n%s", a, b);
	check_origins(in_force, layers, taken);
	for (unsigned rank = RANK_SYSTEM; rank <= RANK_RUN; rank++)
		brig_spec_free(layers[rank]);
	/* the origins live on without the layers they were copied from */
	cleanup_free char *c = text_of(in_force);
	assert_string_equal(a, c);
	brig_spec_free(in_force);
	brig_spec_free(again);
}

static void locked_values_never_get_looser(void **state)
{
	const char *given = getenv("BRIG_SEED");

	(void)state;
	if (given) {
		one_stack(strtoul(given, NULL, 10));
		return;
	}
	for (unsigned long n = 0; n < ITERATIONS; n++)
		one_stack(n);
}

/* The property must be able to fail: both outcomes are common. */
static void the_property_is_not_vacuous(void **state)
{
	unsigned accepted = 0, refused = 0;

	(void)state;
	for (unsigned long n = 0; n < 2000; n++) {
		struct brig_spec *to = brig_spec_new();
		struct brig_error err = { 0 };
		seed(n);
		unsigned o = rnd(OPT__COUNT);
		if (opt_table[o].key) {
			struct origin at = origin_of(RANK_SYSTEM, o, 0);
			struct brig_spec *first = brig_spec_new(), *second = brig_spec_new();
			random_value(first, (enum opt)o, RANK_SYSTEM);
			first->lock[o] = at;
			random_value(second, (enum opt)o, RANK_TOOL);
			assert_int_equal(layer_apply(to, first, &err), 0);
			struct brig_spec *plain = brig_spec_new(), *locked = copy_of(to);
			/* what it would be without the lock */
			for (unsigned i = 0; i < OPT__COUNT; i++)
				first->lock[i] = (struct origin){ 0 };
			assert_int_equal(layer_apply(plain, first, &err), 0);
			assert_int_equal(layer_apply(plain, second, &err), 0);
			bool would = looser((enum opt)o, locked, plain);
			int r = layer_apply(to, second, &err);
			if (would && r == 0)
				broken("%s: loosened", opt_table[o].key);
			accepted += r == 0;
			refused += would;
			brig_spec_free(first);
			brig_spec_free(second);
			brig_spec_free(plain);
			brig_spec_free(locked);
		}
		brig_spec_free(to);
	}
	assert_true(accepted > 300 && refused > 300);
}

static void every_key_has_a_rule(void **state)
{
	(void)state;
	for (unsigned o = 0; o < OPT__COUNT; o++) {
		if (opt_table[o].key && how((enum opt)o) < 0)
			fail_msg("%s: this test does not know what loosens it",
				 opt_table[o].key);
		if (!opt_table[o].key && how((enum opt)o) >= 0)
			fail_msg("%s has no key", opt_table[o].name);
	}
}

static void nothing_changes_nothing(void **state)
{
	struct brig_spec *empty = brig_spec_new();
	struct brig_error err = { 0 };

	(void)state;
	for (unsigned long n = 0; n < 500; n++) {
		seed(n);
		choose_options();
		struct brig_spec *s = brig_spec_new(), *l = random_layer(RANK_USER, 2);
		assert_int_equal(layer_apply(s, empty, &err), 0);
		cleanup_free char *zero = text_of(s);
		assert_string_equal(zero, "");
		assert_int_equal(layer_apply(s, l, &err), 0);
		cleanup_free char *a = text_of(s);
		assert_int_equal(layer_apply(s, empty, &err), 0);
		cleanup_free char *b = text_of(s);
		assert_string_equal(a, b);
		brig_spec_free(s);
		brig_spec_free(l);
	}
	brig_spec_free(empty);
}

/* -- single cases, by hand -------------------------------------------------- */

/* "rank:key=value value", the same order as written. */
static struct brig_spec *layer(unsigned rank, const char *text)
{
	struct brig_spec *s = brig_spec_new();
	cleanup_free char *copy = strdup(text);
	char *save = NULL;

	for (char *item = strtok_r(copy, ";", &save); item;
	     item = strtok_r(NULL, ";", &save)) {
		while (*item == ' ')
			item++;
		bool lock = strncmp(item, "lock ", 5) == 0;
		char *eq = strchr(item, '='), *inner = NULL;
		if (eq)
			*eq = '\0';
		enum opt o = opt_by_key(lock ? item + 5 : item);
		if (o == OPT__COUNT)
			fail_msg("no key %s", item);
		struct origin at = origin_of(rank, o, 0);
		if (lock)
			s->lock[o] = at;
		else if (!eq[1])
			assert_int_equal(request_clear(s, o, &at), 0);
		for (char *w = eq ? strtok_r(eq + 1, " ", &inner) : NULL; w;
		     w = strtok_r(NULL, " ", &inner))
			assert_int_equal(request_put(s, o, w, &at), 0);
	}
	return s;
}

static char *words_of(const struct brig_spec *s, enum opt o)
{
	bool failed;
	char **v = request_list(s, o, &failed);
	struct buf b = { 0 };

	buf_adds(&b, "");
	for (char **w = v; w && *w; w++)
		buf_addf(&b, "%s%s", w == v ? "" : " ", *w);
	strv_free(v);
	return b.data ? buf_take(&b, NULL) : strdup("");
}

static void how_lists_combine(void **state)
{
	static const struct {
		const char *key, *file, *later, *run, *made;
	} t[] = {
		/* what opens: the last file's, and the run's on top */
		{ "filesystem.read", "/a /b", "/c", NULL, "/c" },
		{ "filesystem.read", "/a", NULL, "/b", "/a /b" },
		{ "filesystem.read", "/a", "/b", "/c", "/b /c" },
		{ "filesystem.read", "/a", NULL, "/a", "/a" }, /* not two binds in one place */
		{ "filesystem.read", "/a", "", NULL, "" },
		{ "filesystem.write", "/a", "", "/b", "/b" },
		{ "network.allow", "a.x:1", "b.x:1", "c.x:1", "b.x:1 c.x:1" },
		{ "env.pass", NULL, NULL, "A", "LANG LC_ALL TERM TZ A" },
		{ "env.pass", "A", NULL, NULL, "A" },
		{ "env.pass", "", NULL, NULL, "" },
		{ "add_caps", "CHOWN", "NET_RAW", NULL, "NET_RAW" },
		{ "env.path_prepend", "/a", "/b", NULL, "/b" },
		/* words in one option are that option's whole value */
		{ "toolchains", "auto", NULL, "none", "none" },
		{ "fallback", "landlock", NULL, "docker", "docker" },
		/* what closes adds up, and an empty list adds nothing */
		{ "filesystem.mask", "/a", "/b", "/c", "/a /b /c" },
		{ "filesystem.mask", "/a", "", "/a", "/a" },
		{ "require", "user", "net", "pid", "user net pid" },
		{ "require", "user", "", NULL, "user" },
		{ "drop_caps", "CHOWN", NULL, NULL, "ALL CHOWN" },
		{ "drop_caps", "", NULL, NULL, "ALL" },
		{ "workspace.protect", "ci", "Makefile", "ci", "ci Makefile" },
		{ "workspace.protect", "ci", NULL, "none", "ci none" },
		/* 'none' drops what was there; what follows it stays */
		{ "workspace.protect", "ci", NULL, "none ci", "ci none ci" },
		{ "workspace.protect", "ci", "none ci", "ci", "ci none ci" },
		{ "env.set", "A=1 B=1", "A=2", "C=3", "B=1 A=2 C=3" },
		{ "env.set", "A=1", "", "A", "A" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct brig_spec *s = brig_spec_new();
		const char *const parts[] = { t[i].file, t[i].later, t[i].run };
		static const unsigned ranks[] = { RANK_SYSTEM, RANK_TOOL, RANK_RUN };
		for (size_t k = 0; k < 3; k++) {
			char text[200];
			struct brig_error err = { 0 };
			if (!parts[k])
				continue;
			snprintf(text, sizeof text, "%s=%s", t[i].key, parts[k]);
			struct brig_spec *l = layer(ranks[k], text);
			assert_int_equal(layer_apply(s, l, &err), 0);
			brig_spec_free(l);
		}
		cleanup_free char *made = words_of(s, opt_by_key(t[i].key));
		if (!streq(made, t[i].made))
			fail_msg("%s: %s, %s, %s make '%s', not '%s'", t[i].key,
				 t[i].file ? t[i].file : "-", t[i].later ? t[i].later : "-",
				 t[i].run ? t[i].run : "-", made, t[i].made);
		brig_spec_free(s);
	}
}

/* A list that requires nothing is not the same as no list. */
static void an_empty_require_is_no_require(void **state)
{
	struct brig_spec *s = brig_spec_new(), *l = layer(RANK_USER, "require=");
	struct brig_error err = { 0 };

	(void)state;
	assert_int_equal(layer_apply(s, l, &err), 0);
	assert_false(request_has(s, OPT_REQUIRE));
	brig_spec_free(s);
	brig_spec_free(l);
}

static void what_an_allow_list_implies(void **state)
{
	static const struct {
		const char *first, *second, *mode; /* NULL: refused */
	} t[] = {
		{ "", "network.allow=a.x:1", "allow" },
		{ "network.mode=none", "network.allow=a.x:1", "allow" },
		{ "network.mode=host", "network.allow=a.x:1", "allow" },
		{ "network.mode=none; lock network.mode", "network.allow=a.x:1", NULL },
		{ "network.mode=allow; lock network.mode", "network.allow=a.x:1", "allow" },
		{ "network.mode=host; lock network.mode", "network.allow=a.x:1", "allow" },
		{ "lock network.mode", "network.allow=a.x:1", NULL },
		{ "network.mode=host", "network.allow=", "host" },
		{ "network.allow=a.x:1", "network.mode=none", "none" },
		{ "network.allow=a.x:1", "network.mode=host", "host" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct brig_spec *s = brig_spec_new();
		struct brig_spec *a = layer(RANK_USER, t[i].first), *b = layer(RANK_RUN,
									      t[i].second);
		struct brig_error err = { 0 };
		assert_int_equal(layer_apply(s, a, &err), 0);
		int r = layer_apply(s, b, &err);
		if ((r == 0) != (t[i].mode != NULL))
			fail_msg("%s, %s: %d %s", t[i].first, t[i].second, r, err.message);
		if (t[i].mode && !streq(request_text(s, OPT_NET), t[i].mode))
			fail_msg("%s, %s: mode %s", t[i].first, t[i].second,
				 request_text(s, OPT_NET));
		brig_spec_free(s);
		brig_spec_free(a);
		brig_spec_free(b);
	}
}

/* What tightens must be possible, or locks would be of no use. */
static void tightening_is_fine(void **state)
{
	static const struct {
		const char *first, *second;
		bool ok;
	} t[] = {
		{ "limits.memory=1G; lock limits.memory", "limits.memory=1G", true },
		{ "limits.memory=1G; lock limits.memory", "limits.memory=512M", true },
		{ "limits.memory=1G; lock limits.memory", "limits.memory=1025M", false },
		{ "limits.memory=1G; lock limits.memory", "limits.memory=0", false },
		{ "limits.memory=0; lock limits.memory", "limits.memory=1T", true },
		{ "lock limits.memory", "limits.memory=1G", true }, /* the default */
		{ "lock limits.memory", "limits.memory=2G", false },
		{ "lock limits.disk", "limits.disk=2G", true },
		{ "lock limits.timeout", "limits.timeout=60.001", false },
		{ "lock limits.cpus", "limits.cpus=0.5", true },
		{ "workspace.access=rw; lock workspace.access", "workspace.access=ro", true },
		{ "workspace.access=ro; lock workspace.access", "workspace.access=rw", false },
		{ "lock workspace.allow_home", "workspace.allow_home=false", true },
		{ "lock workspace.allow_home", "workspace.allow_home=true", false },
		{ "mode=docker; lock mode", "mode=docker", true },
		{ "mode=docker; lock mode", "mode=native", false },
		{ "lock mode", "mode=native", true },
		{ "lock mode", "mode=none", false },
		{ "filesystem.read=/opt; lock filesystem.read", "filesystem.read=/opt/x", true },
		{ "filesystem.read=/opt; lock filesystem.read", "filesystem.read=/opt/../etc", false },
		{ "filesystem.read=/opt; lock filesystem.read", "filesystem.read=/optx", false },
		{ "filesystem.read=/opt; lock filesystem.read", "filesystem.read=/opt:/x", false },
		{ "filesystem.read=/a:/x; lock filesystem.read", "filesystem.read=/a:/x", true },
		{ "lock filesystem.write", "filesystem.write=/a", false },
		{ "lock filesystem.mask", "filesystem.mask=/a", true },
		{ "lock workspace.protect", "workspace.protect=ci", true },
		{ "lock workspace.protect", "workspace.protect=none", false },
		{ "network.allow=*.x.y; lock network.allow", "network.allow=a.x.y:443", true },
		{ "network.allow=*.x.y; lock network.allow", "network.allow=x.y", false },
		{ "env.set=A=1; lock env.set", "env.set=A=1", true },
		{ "env.set=A=1; lock env.set", "env.set=A=2", false },
		{ "env.set=A=1; lock env.set", "env.set=B=1", false },
		{ "lock env.pass", "env.pass=LANG", true },
		{ "lock env.pass", "env.pass=HOME", false },
		{ "lock add_caps", "add_caps=NET_RAW", false },
		{ "lock drop_caps", "drop_caps=NET_RAW", true },
		{ "require=user net; lock require", "require=pid", true },
		/* nothing listed means that all must hold: a list would be less */
		{ "lock require", "require=net", false },
		{ "lock toolchains", "toolchains=none", true },
		{ "toolchains=none; lock toolchains", "toolchains=auto", false },
		{ "workspace.path=/w; lock workspace.path", "workspace.path=/w/a", true },
		{ "workspace.path=/w; lock workspace.path", "workspace.path=a", false },
		{ "workspace.path=/w; lock workspace.path", "workspace.path=/w/..", false },
		{ "read_only=true; lock read_only", "read_only=false", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct brig_spec *s = brig_spec_new();
		struct brig_spec *a = layer(RANK_SYSTEM, t[i].first), *b = layer(RANK_RUN,
										t[i].second);
		struct brig_error err = { 0 };
		assert_int_equal(layer_apply(s, a, &err), 0);
		int r = layer_apply(s, b, &err);
		if ((r == 0) != t[i].ok)
			fail_msg("%s, then %s: %d %s", t[i].first, t[i].second, r, err.message);
		if (r < 0) {
			assert_int_equal(err.code, BRIG_E_LOCKED);
			assert_non_null(strstr(err.message, "f.yaml:"));
			assert_true(err.fix[0]);
		}
		brig_spec_free(s);
		brig_spec_free(a);
		brig_spec_free(b);
	}
}

/* The message is for people; a value of a variable is not. */
static void refusals_name_no_values(void **state)
{
	struct brig_spec *s = brig_spec_new();
	struct brig_spec *a = layer(RANK_SYSTEM, "lock env.set"),
			 *b = layer(RANK_RUN, "env.set=TOKEN=topsecret");
	struct brig_error err = { 0 };

	(void)state;
	assert_int_equal(layer_apply(s, a, &err), 0);
	assert_int_equal(layer_apply(s, b, &err), -EPERM);
	assert_non_null(strstr(err.message, "TOKEN"));
	assert_null(strstr(err.message, "topsecret"));
	brig_spec_free(s);
	brig_spec_free(a);
	brig_spec_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_has_a_rule),
		cmocka_unit_test(how_lists_combine),
		cmocka_unit_test(an_empty_require_is_no_require),
		cmocka_unit_test(what_an_allow_list_implies),
		cmocka_unit_test(tightening_is_fine),
		cmocka_unit_test(refusals_name_no_values),
		cmocka_unit_test(nothing_changes_nothing),
		cmocka_unit_test(the_property_is_not_vacuous),
		cmocka_unit_test(locked_values_never_get_looser),
	};

	return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
