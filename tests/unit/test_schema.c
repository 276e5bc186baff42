/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys: each one is documented, has a default or an example, and is
 * explained when it is set; and what is made from the table and checked in is
 * what the table makes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/load.h"
#include "policy/schema.h"

static const char *root;

static char *made(void (*make)(struct buf *))
{
	struct buf b = { 0 };

	make(&b);
	char *text = buf_take(&b, NULL);
	assert_non_null(text);
	return text;
}

static void same_as_checked_in(const char *rel, void (*make)(struct buf *),
			       const char *how)
{
	char path[1024];
	cleanup_free char *have = NULL, *want = made(make);
	size_t len;

	snprintf(path, sizeof path, "%s/%s", root, rel);
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_all(fd, 4 << 20, &have, &len) < 0)
		fail_msg("%s is not there: %s", rel, how);
	if (!streq(have, want))
		fail_msg("%s is not what the tables say: %s", rel, how);
}

static void manual_is_up_to_date(void **state)
{
	(void)state;
	same_as_checked_in("man/brig-config.5", schema_man,
			   "brig config man > man/brig-config.5");
}

static void schema_is_up_to_date(void **state)
{
	(void)state;
	same_as_checked_in("docs/brig.schema.json", schema_json,
			   "brig config schema > docs/brig.schema.json");
}

static json_t *schema(void)
{
	cleanup_free char *text = made(schema_json);
	json_error_t e;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &e);

	if (!j)
		fail_msg("the schema is not JSON: line %d: %s", e.line, e.text);
	return j;
}

/* The mapping itself where a plain word may stand in its place. */
static json_t *mapping_of(json_t *n)
{
	json_t *any = json_object_get(n, "anyOf");

	return any ? json_array_get(any, json_array_size(any) - 1) : n;
}

static json_t *sandbox_of(json_t *j)
{
	return mapping_of(json_object_get(json_object_get(j, "$defs"), "sandbox"));
}

static json_t *find_key(json_t *j, const char *key)
{
	json_t *n = sandbox_of(j);
	cleanup_free char *copy = strdup(key);
	char *save = NULL;

	for (char *w = strtok_r(copy, ".", &save); w && n; w = strtok_r(NULL, ".", &save))
		n = mapping_of(json_object_get(json_object_get(n, "properties"), w));
	return n;
}

static void every_key_is_in_the_schema(void **state)
{
	json_t *j = schema();
	size_t n = 0;

	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct opt_def *d = &opt_table[i];
		if (!d->key)
			continue;
		n++;
		json_t *k = find_key(j, d->key);
		if (!k)
			fail_msg("%s is not in the schema", d->key);
		const char *text = json_string_value(json_object_get(k, "description"));
		if (!text || !streq(text, d->help))
			fail_msg("%s is not described in the schema", d->key);
		if (!json_object_get(k, "type") && !json_object_get(k, "enum"))
			fail_msg("%s has no type in the schema", d->key);
	}
	/* and nothing else: sections, other spellings, lock */
	size_t have = 0;
	const char *name;
	json_t *v;
	json_object_foreach(json_object_get(sandbox_of(j), "properties"), name, v) {
		json_t *inner = json_object_get(mapping_of(v), "properties");
		have += inner ? json_object_size(inner) : 1;
	}
	assert_int_equal(have, n + SCHEMA_ALIASES + 1);
	json_t *top = json_object_get(j, "properties");
	assert_int_equal(json_object_size(top), SCHEMA_TOP_COUNT);
	for (unsigned i = 0; i < SCHEMA_TOP_COUNT; i++)
		assert_non_null(json_object_get(top, schema_top[i].name));
	json_decref(j);
}

static void every_key_is_in_the_manual(void **state)
{
	cleanup_free char *man = made(schema_man);
	char line[100];

	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		if (!opt_table[i].key)
			continue;
		snprintf(line, sizeof line, "\n.B %s\n", opt_table[i].key);
		const char *at = strstr(man, line);
		if (!at)
			fail_msg("brig-config(5) does not describe %s", opt_table[i].key);
		const char *end = strstr(at + 1, "\n.TP");
		if (opt_table[i].def) {
			size_t n = end ? (size_t)(end - at) : strlen(at);
			if (!memmem(at, n, "Default: ", 9))
				fail_msg("brig-config(5) has no default of %s", opt_table[i].key);
		}
	}
	for (unsigned i = 0; i < SCHEMA_TOP_COUNT; i++) {
		snprintf(line, sizeof line, "\n.B %s\n", schema_top[i].name);
		assert_non_null(strstr(man, line));
	}
	for (unsigned i = 0; i < SCHEMA_ALIASES; i++)
		assert_non_null(strstr(man, schema_aliases[i].key));
	for (unsigned i = 0; profile_nth(i, NULL); i++) {
		const char *p = profile_nth(i, NULL);
		snprintf(line, sizeof line, "\n.B %.*s", (int)strcspn(p, "-"), p);
		assert_non_null(strstr(man, line));
	}
	/* a line that starts with a dot would be a request */
	for (const char *p = man; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (*p == '.' && strncmp(p, ".TP", 3) && strncmp(p, ".B", 2) &&
		    strncmp(p, ".SH", 3) && strncmp(p, ".TH", 3) && strncmp(p, ".\\\"", 3))
			fail_msg("a strange line: %.40s", p);
	}
}

/* A setting that is commented out: "#", spaces, a key, a colon. */
static bool is_setting(const char *line)
{
	if (*line != '#')
		return false;
	const char *p = line + 1 + strspn(line + 1, " ");
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz_");
	return n > 0 && p[n] == ':' && (p[n + 1] == ' ' || p[n + 1] == '\n');
}

static char *uncommented(void)
{
	cleanup_free char *text = made(schema_template);
	struct buf b = { 0 };

	for (char *line = text, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		next = next ? next + 1 : line + strlen(line);
		bool setting = is_setting(line);
		buf_add(&b, line + setting, (size_t)(next - line) - setting);
	}
	return buf_take(&b, NULL);
}

/* Reads a text as the user's file. */
static void load_text(const char *text, struct config *c)
{
	struct ywhere w;
	struct config_file f = { .path = strdup("template"), .dir = strdup("/d"),
				 .rank = RANK_USER, .layer = "user" };

	config_init(c);
	if (ydoc_parse(text, strlen(text), &f.doc, &w) < 0)
		fail_msg("%u:%u: %s\n%s", w.line, w.column, w.what, text);
	if (config_check_file(c, &f) < 0)
		fail_msg("%s (%s)\n%s", c->first.message, c->first.fix, text);
	c->file = malloc(sizeof f);
	assert_non_null(c->file);
	c->file[c->n++] = f;
}

static void template_as_it_is(void **state)
{
	cleanup_free char *text = made(schema_template);
	struct brig_spec *rq = brig_spec_new(), *out = brig_spec_new();
	struct brig_error err = { 0 };
	struct config c;

	(void)state;
	load_text(text, &c);
	assert_int_equal(policy_layers(&c, rq, out, &err), 0);
	for (unsigned i = 0; i < OPT__COUNT; i++)
		if (out->o[i].here || out->lock[i].layer)
			fail_msg("the commented file sets %s", opt_table[i].key);
	config_free(&c);
	brig_spec_free(rq);
	brig_spec_free(out);
}

/* Every line taken in: it loads, and what has a default has it. */
static void template_without_its_comments(void **state)
{
	cleanup_free char *text = uncommented();
	struct brig_spec *rq = brig_spec_new(), *out = brig_spec_new();
	struct brig_error err = { 0 };
	struct config c;

	(void)state;
	load_text(text, &c);
	if (policy_layers(&c, rq, out, &err) < 0)
		fail_msg("%s", err.message);
	struct brig_spec *none = brig_spec_new();
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct opt_def *d = &opt_table[i];
		bool failed;
		if (!d->key)
			continue;
		/* of an empty list that adds up nothing is left, and rightly so */
		bool empty = d->example && streq(d->example, "[]");
		if (!out->o[i].here && !(empty && d->merge == MERGE_ADD))
			fail_msg("the commented file has no %s", d->key);
		if (!d->def)
			continue;
		char **want = request_list(none, (enum opt)i, &failed);
		char **have = request_list(out, (enum opt)i, &failed);
		if (d->kind == OK_LIST || d->kind == OK_WORDS) {
			assert_int_equal(strv_len(want), strv_len(have));
			for (size_t k = 0; want[k]; k++)
				assert_string_equal(want[k], have[k]);
		} else if (!streq(d->def, request_text(out, (enum opt)i))) {
			fail_msg("%s is %s in the commented file, %s by default", d->key,
				 request_text(out, (enum opt)i), d->def);
		}
		strv_free(want);
		strv_free(have);
	}
	brig_spec_free(none);
	brig_spec_free(out);
	/* its profile and its tool fit its locks */
	for (int tool = 0; tool < 2; tool++) {
		out = brig_spec_new();
		assert_int_equal(request_set(rq, tool ? OPT_TOOL : OPT_PROFILE,
					     tool ? "fetch" : "quick", "test", &err), 0);
		if (policy_layers(&c, rq, out, &err) < 0)
			fail_msg("%s", err.message);
		brig_spec_free(out);
	}
	config_free(&c);
	brig_spec_free(rq);
}

/* What one key looks like in a file, by itself. */
static char *example_of(const struct opt_def *d)
{
	struct buf b = { 0 };
	const char *dot = strchr(d->key, '.');
	const char *value = d->def ? d->def : d->example ? d->example : "true";
	bool list = d->def && (d->kind == OK_LIST || d->kind == OK_WORDS);

	if (d->example && streq(d->example, "[]"))
		value = streq(d->key, "network.allow") ? "[a.example.com]" : "[CHOWN]";
	buf_adds(&b, "sandbox: {");
	if (dot)
		buf_addf(&b, "%.*s: {%s", (int)(dot - d->key), d->key, dot + 1);
	else
		buf_adds(&b, d->key);
	buf_addf(&b, ": %s%s%s}%s\n", list ? "[" : "", value, list ? "]" : "",
		 dot ? "}" : "");
	return buf_take(&b, NULL);
}

static json_t *explained(struct brig_spec *in_force)
{
	char none[] = "", place[] = "/w";
	struct spec s = { .cwd = none, .home = place };
	struct explained x = { .rq = in_force, .spec = &s };
	size_t len;

	s.workspace.src = s.workspace.dst = place;
	cleanup_free char *text = explain_json(&x, &len);
	assert_non_null(text);
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(j);
	return j;
}

/* Set in a file: `explain` has the key, the value, the file and the line. */
static void every_key_is_explained(void **state)
{
	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct opt_def *d = &opt_table[i];
		struct brig_spec *rq = brig_spec_new(), *out = brig_spec_new();
		struct brig_error err = { 0 };
		struct config c;
		if (!d->key) {
			brig_spec_free(rq);
			brig_spec_free(out);
			continue;
		}
		cleanup_free char *text = example_of(d);
		load_text(text, &c);
		if (policy_layers(&c, rq, out, &err) < 0)
			fail_msg("%s: %s", text, err.message);
		json_t *j = explained(out), *v, *found = NULL;
		size_t k;
		json_array_foreach(json_object_get(j, "settings"), k, v) {
			const char *key = json_string_value(json_object_get(v, "key"));
			if (key && streq(key, d->key))
				found = v;
		}
		if (!found)
			fail_msg("%s is set and not explained", d->key);
		json_t *value = json_object_get(found, "value");
		assert_non_null(value);
		assert_false(json_is_null(value));
		/* a word that is also built in may keep that origin */
		const char *file = json_string_value(json_object_get(found, "file"));
		if (!(d->def && d->merge == MERGE_ADD)) {
			if (!file || !streq(file, "template"))
				fail_msg("%s: where is it from?", d->key);
			assert_int_equal(json_integer_value(json_object_get(found, "line")), 1);
		}
		json_decref(j);
		config_free(&c);
		brig_spec_free(rq);
		brig_spec_free(out);
	}
}

/* Locks are explained with their author's line. */
static void locks_are_explained(void **state)
{
	struct brig_spec *rq = brig_spec_new(), *out = brig_spec_new();
	struct brig_error err = { 0 };
	struct config c;
	size_t k, n = 0;
	json_t *v;

	(void)state;
	load_text("version: 1\nlock: [limits]\n", &c);
	assert_int_equal(policy_layers(&c, rq, out, &err), 0);
	json_t *j = explained(out);
	json_array_foreach(json_object_get(j, "settings"), k, v) {
		const char *key = json_string_value(json_object_get(v, "key"));
		const char *lock = json_string_value(json_object_get(v, "locked"));
		bool limit = key && strncmp(key, "limits.", 7) == 0;
		if (limit && (!lock || !streq(lock, "template:2:8")))
			fail_msg("%s: locked at %s", key, lock ? lock : "nothing");
		if (!limit && lock)
			fail_msg("%s is not locked", key);
		n += limit;
	}
	assert_true(n >= 5);
	json_decref(j);
	config_free(&c);
	brig_spec_free(rq);
	brig_spec_free(out);
}

/* The sections of the table are those of the keys. */
static void sections_are_known(void **state)
{
	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const char *key = opt_table[i].key;
		const char *dot = key ? strchr(key, '.') : NULL;
		char name[40];
		if (!dot)
			continue;
		snprintf(name, sizeof name, "%.*s", (int)(dot - key), key);
		if (!schema_section(name))
			fail_msg("%s lies in no section", key);
		assert_null(strchr(dot + 1, '.'));
	}
	for (unsigned s = 0; s < SCHEMA_SECTIONS; s++) {
		bool used = false;
		for (unsigned i = 0; i < OPT__COUNT; i++)
			used = used || (opt_table[i].key &&
					opt_key_covers(schema_sections[s].name, (enum opt)i));
		if (!used)
			fail_msg("the section %s is empty", schema_sections[s].name);
		assert_int_equal(opt_by_key(schema_sections[s].name), OPT__COUNT);
	}
	for (unsigned i = 0; i < SCHEMA_ALIASES; i++)
		assert_int_equal(opt_by_key(schema_aliases[i].key), OPT__COUNT);
}

static void quotas(void **state)
{
	static const struct {
		const char *in, *out; /* NULL: refused */
	} t[] = {
		{ "0.5", "0.500" }, { "50000", "0.500" }, { "100000", "1.000" },
		{ "150000", "1.500" }, { "1", "1.000" }, { "2.25", "2.250" },
		{ "0", "0.000" }, { "999", "999.000" }, { "1000", "0.010" },
		{ "50001", "0.501" }, { "-1", NULL }, { "", NULL }, { "1e5", NULL },
		{ "0.0001", "0.001" }, /* never down to "no limit" */
		{ "half", NULL }, { "99999999999999999999", NULL },
	};
	static const struct {
		const char *in, *out;
	} mb[] = { { "512", "512M" }, { "0", "0M" }, { "1073741824", "1073741824M" },
		   { "1073741825", NULL }, { "0.5", NULL }, { "512M", NULL }, { "-1", NULL },
		   { "", NULL } };
	char out[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		int r = schema_aliases[1].convert(t[i].in, out, sizeof out);
		if ((r == 0) != (t[i].out != NULL) || (r == 0 && !streq(out, t[i].out)))
			fail_msg("cpu_quota %s: %d %s", t[i].in, r, r == 0 ? out : "");
	}
	for (size_t i = 0; i < ARRAY_LEN(mb); i++) {
		int r = schema_aliases[0].convert(mb[i].in, out, sizeof out);
		if ((r == 0) != (mb[i].out != NULL) || (r == 0 && !streq(out, mb[i].out)))
			fail_msg("memory_limit_mb %s: %d %s", mb[i].in, r, r == 0 ? out : "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(manual_is_up_to_date),
		cmocka_unit_test(schema_is_up_to_date),
		cmocka_unit_test(every_key_is_in_the_schema),
		cmocka_unit_test(every_key_is_in_the_manual),
		cmocka_unit_test(template_as_it_is),
		cmocka_unit_test(template_without_its_comments),
		cmocka_unit_test(every_key_is_explained),
		cmocka_unit_test(locks_are_explained),
		cmocka_unit_test(sections_are_known),
		cmocka_unit_test(quotas),
	};

	root = getenv("BRIG_SOURCE");
	if (!root) {
		puts("SKIP: BRIG_SOURCE is not set, so there is nothing to compare with");
		return 77;
	}
	setenv("HOME", "/home/somebody", 1);
	return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
