/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of options and the request it drives, through the functions every
 * way in uses: request_set() and the public brig_spec_set().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "policy/request.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"

static bool takes_value(const struct opt_def *d)
{
	return d->kind != OK_FLAG && d->kind != OK_LATER;
}

static void name_is_consistent(const struct opt_def *d, unsigned i)
{
	if (!d->name && !d->key)
		fail_msg("option %u has neither a name nor a key", i);
	if (!d->name)
		return;
	assert_true(strlen(d->name) < 32); /* the edit distance and the CLI */
	assert_int_equal(strspn(d->name, LOWER "-"), strlen(d->name));
	assert_true(d->name[0] != '-');
	for (unsigned j = 0; j < i; j++)
		if (opt_table[j].name)
			assert_string_not_equal(d->name, opt_table[j].name);
}

static void key_is_consistent(const struct opt_def *d, unsigned i)
{
	if (!d->key)
		return;
	assert_int_equal(strspn(d->key, LOWER "._"), strlen(d->key));
	for (unsigned j = 0; j < i; j++)
		if (opt_table[j].key)
			assert_string_not_equal(d->key, opt_table[j].key);
	/* everything a file can say has a default, an example or is a switch, so
	 * that the commented file shows how it is written */
	if (!d->def && !d->example && d->kind != OK_FLAG)
		fail_msg("%s has neither a default nor an example", d->key);
	/* a default is a value like any other */
	if (d->def && d->kind != OK_LIST && d->kind != OK_WORDS)
		assert_int_equal(opt_check((enum opt)i, "x", d->def, NULL), 0);
}

static void table_is_consistent(void **state)
{
	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct opt_def *d = &opt_table[i];
		const char *name = d->name ? d->name : d->key;
		name_is_consistent(d, i);
		key_is_consistent(d, i);
		assert_non_null(d->help);
		if (strlen(d->help) <= 8 || strlen(d->help) >= 80)
			fail_msg("%s: help of %zu characters", name, strlen(d->help));
		assert_null(strpbrk(d->help, "\n\t\033"));
		assert_true(d->help[strlen(d->help) - 1] != '.');
		if (takes_value(d) && (!d->metavar || !*d->metavar))
			fail_msg("%s takes a value and has no metavar", name);
		if (d->kind == OK_FLAG && d->metavar)
			fail_msg("%s is a flag with a metavar", name);
		if (d->kind == OK_CHOICE && !d->words)
			fail_msg("%s: a choice without words", name);
		if (d->tight == TIGHT_FIRST && !d->words)
			fail_msg("%s: an order of words without words", name);
		if (d->kind == OK_LATER && (d->def || d->key))
			fail_msg("%s is not here yet and has a default", name);
	}
}

static void metavars_match_kinds(void **state)
{
	static const struct {
		enum opt_kind kind;
		const char *words; /* allowed metavars */
	} t[] = {
		{ OK_SIZE, "SIZE BYTES" },
		{ OK_COUNT, "N" },
		{ OK_FD, "N" },
		{ OK_MILLI, "F SECONDS" },
		{ OK_WORDS, "L,... B,... NAME,..." },
	};

	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++)
		for (size_t k = 0; k < ARRAY_LEN(t); k++)
			if (opt_table[i].kind == t[k].kind &&
			    !strstr(t[k].words, opt_table[i].metavar))
				fail_msg("option %u %s", i, opt_table[i].metavar);
}

static void names_are_found(void **state)
{
	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		if (opt_table[i].name)
			assert_int_equal(opt_by_name(opt_table[i].name), i);
		if (opt_table[i].key)
			assert_int_equal(opt_by_key(opt_table[i].key), i);
	}
	assert_int_equal(opt_by_name("sandbox"), OPT_BACKEND);
	assert_int_equal(opt_by_name(""), OPT__COUNT);
	assert_int_equal(opt_by_name("--net"), OPT__COUNT);
	assert_int_equal(opt_by_name("Net"), OPT__COUNT);
	assert_int_equal(opt_by_name("ne"), OPT__COUNT);
	assert_int_equal(opt_by_name("net "), OPT__COUNT);
}

static void suggestions(void **state)
{
	static const struct {
		const char *typed, *meant;
	} t[] = {
		{ "workspce", "workspace" }, { "memry", "memory" },
		{ "time-out", "timeout" }, { "envfd", "env-fd" },
		{ "tmpsize", "tmp-size" }, { "requires", "require" },
		{ "seccmop", "seccomp" }, { "jsn", "json" },
		{ "protct", "protect" }, { "loopbck", "loopback" },
		{ "completely-different", NULL },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL },
	};
	char longer[4096];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		const char *s = opt_suggest(t[i].typed);
		if (!t[i].meant)
			assert_null(s);
		else if (!s || !streq(s, t[i].meant))
			fail_msg("%s suggests %s", t[i].typed, s ? s : "nothing");
	}
	/* never what would only be refused */
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		if (!opt_table[i].name)
			continue;
		const char *s = opt_suggest(opt_table[i].name);
		if (opt_table[i].kind != OK_LATER)
			assert_string_equal(s, opt_table[i].name);
		else if (s)
			assert_int_not_equal(opt_table[opt_by_name(s)].kind, OK_LATER);
	}
	memset(longer, 'w', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	assert_null(opt_suggest(longer));
}

static void defaults_parse(void **state)
{
	struct brig_spec *rq = brig_spec_new();
	struct brig_error err = { 0 };

	(void)state;
	assert_non_null(rq);
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct opt_def *d = &opt_table[i];
		const char *text = request_text(rq, (enum opt)i);
		assert_false(request_has(rq, (enum opt)i));
		if (!d->def) {
			assert_null(text);
			continue;
		}
		assert_string_equal(text, d->def);
		if (request_set(rq, (enum opt)i, d->def, "test", &err) < 0)
			fail_msg("--%s: its own default %s: %s", d->name, d->def,
				 err.message);
	}
	brig_spec_free(rq);
}

static void check_error(const struct brig_error *e, const char *what)
{
	if (e->code == BRIG_E_OK || !e->message[0] || !e->phase[0])
		fail_msg("%s: refused without saying why", what);
	if (strpbrk(e->message, "\n\r\033") || strpbrk(e->fix, "\n\r\033"))
		fail_msg("%s: the message is not one plain line", what);
}

struct value {
	enum opt o;
	const char *value;
	bool ok;
};

static void values_are_checked(void **state)
{
	static const struct value t[] = {
		{ OPT_WORKSPACE, "x", true }, { OPT_WORKSPACE, "", false },
		{ OPT_RO, "a:b", true }, { OPT_RO, "", false },
		{ OPT_ENV, "A=", true }, { OPT_ENV, "", false },
		{ OPT_MEMORY, "1.5G", true }, { OPT_MEMORY, "0", true },
		{ OPT_MEMORY, "lots", false }, { OPT_MEMORY, "-1", false },
		{ OPT_MEMORY, "", false }, { OPT_MEMORY, "1e9", false },
		{ OPT_MEMORY, "99999999999T", false },
		/* below this nothing could start */
		{ OPT_MEMORY, "1M", true }, { OPT_MEMORY, "1023K", false },
		{ OPT_MEMORY, "1", false }, { OPT_MEMORY, "0.5", false },
		{ OPT_CPUS, "0.01", true }, { OPT_CPUS, "0.009", false },
		{ OPT_CPUS, "0.0001", false }, { OPT_PIDS, "2", true },
		{ OPT_PIDS, "1", false }, { OPT_TMP_SIZE, "64K", true },
		{ OPT_TMP_SIZE, "65535", false }, { OPT_TMP_SIZE, "0", false },
		{ OPT_PIDS, "0", true }, { OPT_PIDS, "4194304", true },
		{ OPT_PIDS, "4194305", false }, { OPT_PIDS, "1.5", false },
		{ OPT_PIDS, "", false }, { OPT_PIDS, " 2", false },
		{ OPT_CPUS, "0.5", true }, { OPT_CPUS, "0", true },
		{ OPT_CPUS, "1,5", false }, { OPT_CPUS, "-0.5", false },
		{ OPT_CPUS, "", false }, { OPT_CPUS, "nan", false },
		{ OPT_TIMEOUT, "10000000", true }, { OPT_TIMEOUT, "10000001", false },
		{ OPT_TIMEOUT, "1s", false },
		{ OPT_ENV_FD, "3", true }, { OPT_ENV_FD, "0", true },
		{ OPT_ENV_FD, "-1", false }, { OPT_ENV_FD, "1048576", true },
		{ OPT_ENV_FD, "1048577", false }, { OPT_ENV_FD, "", false },
		{ OPT_STATUS_FD, "two", false },
		{ OPT_NET, "none", true }, { OPT_NET, "host", true },
		{ OPT_NET, "allow", true }, { OPT_NET, "", false },
		{ OPT_NET, "non", false }, { OPT_NET, "nones", false },
		{ OPT_NET, "None", false }, { OPT_NET, "|", false },
		{ OPT_LOOPBACK, "on", true }, { OPT_LOOPBACK, "o", false },
		{ OPT_BACKEND, "native", true }, { OPT_BACKEND, "seatbelt", true },
		{ OPT_BACKEND, "qemu", false },
		{ OPT_REQUIRE, "user", true }, { OPT_REQUIRE, "user,net,cpu", true },
		{ OPT_REQUIRE, "", false }, { OPT_REQUIRE, "user,", false },
		{ OPT_REQUIRE, ",user", false }, { OPT_REQUIRE, "user,,net", false },
		{ OPT_REQUIRE, "USER", false }, { OPT_REQUIRE, "user net", false },
		{ OPT_REQUIRE, "firewall", false }, { OPT_REQUIRE, "use", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct brig_spec *rq = brig_spec_new();
		struct brig_error err = { 0 };
		char what[128];
		snprintf(what, sizeof what, "--%s '%s'", opt_table[t[i].o].name,
			 t[i].value);
		int r = request_set(rq, t[i].o, t[i].value, "test", &err);
		if ((r == 0) != t[i].ok)
			fail_msg("%s: %d", what, r);
		assert_int_equal(request_has(rq, t[i].o), t[i].ok);
		if (t[i].ok) {
			/* words with commas are several */
			size_t n = strcspn(t[i].value, opt_table[t[i].o].kind == OK_WORDS ?
						       "," : "");
			assert_int_equal(strncmp(request_text(rq, t[i].o), t[i].value, n), 0);
			assert_string_equal(request_origin(rq, t[i].o)->layer, "test");
			assert_int_equal(err.code, BRIG_E_OK);
		} else {
			assert_int_equal(err.code, BRIG_E_BAD_VALUE);
			assert_true(err.fix[0]);
			check_error(&err, what);
			/* the same with nobody listening */
			assert_int_equal(request_set(rq, t[i].o, t[i].value, "test",
						     NULL), r);
		}
		brig_spec_free(rq);
	}
}

/* The separator of the table is not a word of it. */
static void choices_are_single_words(void **state)
{
	static const struct value t[] = {
		{ OPT_NET, "none|host", false }, { OPT_NET, "host|allow", false },
		{ OPT_NET, "none|host|allow", false }, { OPT_LOOPBACK, "on|off", false },
		{ OPT_BACKEND, "native|landlock", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct brig_spec *rq = brig_spec_new();
		int r = request_set(rq, t[i].o, t[i].value, "test", NULL);
		brig_spec_free(rq);
		if (r == 0)
			fail_msg("--%s '%s' was taken", opt_table[t[i].o].name,
				 t[i].value);
	}
}

static void scalars_replace_lists_append(void **state)
{
	struct brig_spec *rq = brig_spec_new();
	struct brig_error err = { 0 };

	(void)state;
	assert_int_equal(request_set(rq, OPT_MEMORY, "1G", "a", &err), 0);
	assert_int_equal(request_set(rq, OPT_MEMORY, "2G", "b", &err), 0);
	assert_string_equal(request_text(rq, OPT_MEMORY), "2G");
	assert_string_equal(request_origin(rq, OPT_MEMORY)->layer, "b");
	assert_int_equal(strv_len(rq->o[OPT_MEMORY].v), 1);
	/* a refused value leaves the old one */
	assert_true(request_set(rq, OPT_MEMORY, "3Q", "c", &err) < 0);
	assert_string_equal(request_text(rq, OPT_MEMORY), "2G");
	assert_string_equal(request_origin(rq, OPT_MEMORY)->layer, "b");

	for (int i = 0; i < 1000; i++)
		assert_int_equal(request_set(rq, OPT_RO, "/usr", "a", &err), 0);
	assert_int_equal(strv_len(rq->o[OPT_RO].v), 1000);

	assert_false(request_flag(rq, OPT_JSON));
	assert_int_equal(request_set(rq, OPT_JSON, "", "a", &err), 0);
	assert_true(request_flag(rq, OPT_JSON));
	brig_spec_free(rq);
}

static void later_options_are_refused(void **state)
{
	struct brig_spec *rq = brig_spec_new();
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		struct brig_error err = { 0 };
		if (opt_table[i].kind != OK_LATER)
			continue;
		n++;
		assert_true(request_set(rq, (enum opt)i, "x", "test", &err) < 0);
		assert_int_equal(err.code, BRIG_E_UNSUPPORTED);
		assert_non_null(strstr(err.message, opt_table[i].name));
		assert_false(request_has(rq, (enum opt)i));
		check_error(&err, opt_table[i].name);
	}
	assert_true(n > 0);
	brig_spec_free(rq);
}

static void public_api(void **state)
{
	static const char *const argv1[] = { "sh", "-c", "", NULL };
	static const char *const none[] = { NULL };
	struct brig_spec *rq = brig_spec_new();
	struct brig_error err = { 0 };

	(void)state;
	assert_int_equal(brig_spec_set(rq, "net", "host", &err), 0);
	assert_string_equal(request_origin(rq, OPT_NET)->layer, "api");
	assert_int_equal(brig_spec_set(rq, "sandbox", "native", &err), 0);
	assert_string_equal(request_text(rq, OPT_BACKEND), "native");
	assert_int_equal(brig_spec_set(rq, "json", NULL, &err), 0);
	assert_true(brig_spec_set(rq, "workspace", NULL, &err) < 0);
	assert_int_equal(err.code, BRIG_E_BAD_VALUE);
	assert_true(brig_spec_set(rq, "colour", "red", &err) < 0);
	assert_int_equal(err.code, BRIG_E_BAD_OPTION);
	assert_true(brig_spec_set(rq, "", "", &err) < 0);
	assert_int_equal(err.code, BRIG_E_BAD_OPTION);
	assert_true(brig_spec_set(rq, "colour", "red", NULL) < 0);

	/* what is handed over is copied */
	char value[] = "512M";
	assert_int_equal(brig_spec_set(rq, "memory", value, &err), 0);
	value[0] = 'x';
	assert_string_equal(request_text(rq, OPT_MEMORY), "512M");

	assert_int_equal(brig_spec_set_argv(rq, argv1, &err), 0);
	assert_int_equal(strv_len(rq->argv), 3);
	assert_ptr_not_equal(rq->argv[0], argv1[0]);
	assert_string_equal(rq->argv[2], "");
	assert_int_equal(brig_spec_set_argv(rq, none, &err), 0);
	assert_int_equal(strv_len(rq->argv), 0);
	brig_spec_free(rq);
	brig_spec_free(NULL);
	assert_true(strlen(brig_version()) >= 5);
}

/* brig.h promises one line; a caller's bytes must not break that. */
static void messages_are_one_line(void **state)
{
	static const char hostile[] = "1\nbrig: OK\033[31m";
	struct brig_error err = { 0 };
	struct brig_spec *rq = brig_spec_new();

	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		if (request_set(rq, (enum opt)i, hostile, "test", &err) < 0)
			check_error(&err, opt_table[i].name);
	}
	assert_true(brig_spec_set(rq, hostile, "x", &err) < 0);
	check_error(&err, "the name of a setting");
	brig_spec_free(rq);
}

/* Long values end up in a fixed buffer: cut, not overrun. */
static void long_values(void **state)
{
	char *big = malloc(100001);
	struct brig_spec *rq = brig_spec_new();

	(void)state;
	memset(big, '9', 100000);
	big[100000] = '\0';
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		struct brig_error err = { 0 };
		if (request_set(rq, (enum opt)i, big, "test", &err) < 0)
			check_error(&err, opt_table[i].name);
	}
	assert_true(brig_spec_set(rq, big, big, NULL) < 0);
	brig_spec_free(rq);
	free(big);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_consistent),
		cmocka_unit_test(metavars_match_kinds),
		cmocka_unit_test(names_are_found),
		cmocka_unit_test(suggestions),
		cmocka_unit_test(defaults_parse),
		cmocka_unit_test(values_are_checked),
		cmocka_unit_test(choices_are_single_words),
		cmocka_unit_test(scalars_replace_lists_append),
		cmocka_unit_test(later_options_are_refused),
		cmocka_unit_test(public_api),
		cmocka_unit_test(messages_are_one_line),
		cmocka_unit_test(long_values),
	};
	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
