/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of YAML: where things are, what is refused and where, and that no
 * text makes it work for long.
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
#include <time.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/yamldoc.h"
#include "policy/config.h"

/* Sanitizers make everything several times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 10
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWER 10
#endif
#endif
#ifndef SLOWER
#define SLOWER 1
#endif

static struct ydoc *good_n(const char *text, size_t len)
{
	struct ydoc *d = NULL;
	struct ywhere w;

	if (ydoc_parse(text, len, &d, &w) < 0)
		fail_msg("%.60s: %u:%u: %s", text, w.line, w.column, w.what);
	assert_non_null(d);
	return d;
}

static struct ydoc *good(const char *text)
{
	return good_n(text, strlen(text));
}

static void bad_n(const char *text, size_t len, int error, unsigned line,
		  unsigned column, const char *word)
{
	struct ydoc *d = NULL;
	struct ywhere w;
	int r = ydoc_parse(text, len, &d, &w);

	if (r == 0) {
		ydoc_free(d);
		fail_msg("%.60s: was read", text);
	}
	if (r != -error || w.line != line || w.column != column ||
	    !strstr(w.what, word))
		fail_msg("%.60s: error %d, %u:%u: %s; expected %u:%u %s", text, r, w.line,
			 w.column, w.what, line, column, word);
	assert_null(d);
	assert_true(w.fix[0]); /* what to do about it */
}

static void bad(const char *text, unsigned line, unsigned column, const char *word)
{
	bad_n(text, strlen(text), EINVAL, line, column, word);
}

static void at(const struct ynode *n, unsigned line, unsigned column)
{
	assert_non_null(n);
	if (n->line != line || n->column != column)
		fail_msg("'%s' is at %u:%u, not at %u:%u", n->text ? n->text : "",
			 n->line, n->column, line, column);
}

/* Processor time, so that neighbours on the machine do not matter. */
static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Reads it, refused or not, and says how long that took. */
static double cost(const struct buf *b)
{
	struct ydoc *d = NULL;
	struct ywhere w;
	double start = seconds();

	assert_true(buf_ok(b));
	ydoc_parse(b->data, b->len, &d, &w);
	ydoc_free(d);
	return seconds() - start;
}

static void cheap(const struct buf *b, const char *what)
{
	double took = cost(b);

	if (took > 0.1 * SLOWER)
		fail_msg("%s (%zu bytes) takes %.0f ms", what, b->len, took * 1000);
}

static void positions(void **state)
{
	struct ydoc *d = good("version: 1\n"
			      "sandbox:\n"
			      "  mode: native   # why\n"
			      "\n"
			      "  env: {set: {A: x,\n"
			      "      B: [one, two]}}\n"
			      "list:\n"
			      "- first\n"
			      "-   second\n");
	const struct ynode *r = ydoc_root(d);

	(void)state;
	at(r, 1, 1);
	at(ynode_get(r, "version"), 1, 10);
	at(ynode_path(r, "sandbox.mode"), 3, 9);
	at(ynode_path(r, "sandbox.env"), 5, 8);
	at(ynode_path(r, "sandbox.env.set.A"), 5, 18);
	at(ynode_path(r, "sandbox.env.set.B"), 6, 10);
	at(ynode_path(r, "sandbox.env.set.B")->item[1], 6, 16);
	at(ynode_get(r, "list")->item[0], 8, 3);
	at(ynode_get(r, "list")->item[1], 9, 5);
	ydoc_free(d);
}

/* Columns are characters, as an editor counts them, not bytes. */
static void positions_behind_wide_text(void **state)
{
	struct ydoc *d = good("# äöü 中文 \xf0\x9f\x98\x80\n"
			      "{ä: \"中文\", b: [ü, x]}\n"
			      "# end\n");
	const struct ynode *r = ydoc_root(d);

	(void)state;
	at(ynode_get(r, "ä"), 2, 5);
	at(ynode_get(r, "b"), 2, 14);
	at(ynode_get(r, "b")->item[1], 2, 18);
	assert_string_equal(ynode_get(r, "ä")->text, "中文");
	ydoc_free(d);
	bad("ä: 1\nüü: 2\nä: 3\n", 3, 1, "second time");
	bad("a: \"中文\"\nb: \"中\xff\"\n", 2, 6, "UTF-8");
	bad("# 中文中文中文\nsandbox:\n\tmode: native\n", 3, 1, "tab");
	bad("中: {a: ä, a: b}\n", 1, 11, "second time");
}

static void line_ends(void **state)
{
	struct ydoc *d = good("a: 1\r\nb: 2\r\n");

	(void)state;
	at(ynode_get(ydoc_root(d), "b"), 2, 4);
	assert_string_equal(ynode_get(ydoc_root(d), "b")->text, "2");
	ydoc_free(d);
}

static void empty_documents(void **state)
{
	static const char *const t[] = { "", "\n", "# only\n# comments\n", "   \n",
					 "---\n", "~\n", "null", "---\n...\n" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct ydoc *d = good(t[i]);
		if (!ynode_is_null(ydoc_root(d)))
			fail_msg("'%s' is not empty", t[i]);
		ydoc_free(d);
	}
}

static void duplicate_keys(void **state)
{
	(void)state;
	bad("a: 1\nb: 2\na: 3\n", 3, 1, "the first is on line 1");
	bad("{\"a\": 1, 'a': 2}", 1, 10, "'a' for the second time");
	bad("x:\n  y:\n    z: 1\n    z: 1\n", 4, 5, "'z'");
	bad("? a\n: 1\n? a\n: 2\n", 3, 3, "'a'");
	bad("&k a: 1\n*k : 2\n", 1, 1, "'a'"); /* the alias is where its node is */
	/* the same name in two places is two keys */
	ydoc_free(good("a: {x: 1}\nb: {x: 1}\n"));
	/* a hostile key does not reach the terminal */
	struct ydoc *d = NULL;
	struct ywhere w;
	const char *text = "\"\\e[31m\": 1\n\"\\e[31m\": 2\n";
	assert_int_equal(ydoc_parse(text, strlen(text), &d, &w), -EINVAL);
	assert_null(strchr(w.what, '\033'));
}

static void tabs(void **state)
{
	(void)state;
	bad("sandbox:\n\tmode: native\n", 2, 1, "tab");
	bad("a:\n  b: 1\n\tc: 2\n", 3, 1, "tab");
	bad("\ta: 1\n", 1, 1, "tab");
	bad("a:\n -\tb: 1\n", 2, 3, "tab");
	/* where they do no harm: between words, in text, in JSON */
	ydoc_free(good("a: 1\t# comment\n"));
	ydoc_free(good("a: \"x\ty\"\n"));
	ydoc_free(good("{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}\n"));
}

static void aliases_are_the_same_node(void **state)
{
	struct ydoc *d = good("a: &x [1, 2]\nb: *x\nc: *x\n");
	const struct ynode *r = ydoc_root(d);

	(void)state;
	assert_ptr_equal(ynode_get(r, "a"), ynode_get(r, "b"));
	assert_ptr_equal(ynode_get(r, "a"), ynode_get(r, "c"));
	ydoc_free(d);
	/* the last anchor of a name counts */
	d = good("a: &x 1\nb: &x 2\nc: *x\n");
	assert_string_equal(ynode_get(ydoc_root(d), "c")->text, "2");
	ydoc_free(d);
	bad("a: *x\n", 1, 4, "without an anchor");
	bad("a: *x\nb: &x 1\n", 1, 4, "without an anchor");
}

static void anchors_have_an_end(void **state)
{
	cleanup_buf struct buf b = { 0 }, many = { 0 };

	(void)state;
	for (int i = 0; i < YAML_MAX_ANCHORS; i++)
		buf_addf(&b, "- &a%d x\n", i);
	ydoc_free(good_n(b.data, b.len));
	buf_adds(&b, "- &more x\n");
	bad_n(b.data, b.len, E2BIG, YAML_MAX_ANCHORS + 1, 3, "too many anchors");
	buf_adds(&many, "- &a x\n");
	for (int i = 0; i < YAML_MAX_NODES; i++)
		buf_adds(&many, "- *a\n");
	ydoc_free(good_n(many.data, many.len));
	buf_adds(&many, "- *a\n");
	bad_n(many.data, many.len, E2BIG, YAML_MAX_NODES + 2, 3, "too many aliases");
}

static void circles(void **state)
{
	(void)state;
	bad("a: &x [1, *x]\n", 1, 11, "inside what it stands for");
	bad("&x a: {b: &y {c: *y}}\n", 1, 18, "inside what it stands for");
	bad("&r\na: {b: *r}\n", 2, 8, "inside what it stands for");
	bad("a: &x\n  b:\n    - *x\n", 3, 7, "inside what it stands for");
	/* in a key */
	bad("? &x [*x]\n: 1\n", 1, 7, "inside what it stands for");
}

/* Nine lists, each nine times the one before: three thousand million words
 * when written out, a few dozen nodes here. */
static void laughs(struct buf *b)
{
	buf_adds(b, "a0: &a0 lol\n");
	for (int i = 1; i <= 10; i++) {
		buf_addf(b, "a%d: &a%d [", i, i);
		for (int k = 0; k < 9; k++)
			buf_addf(b, "%s*a%d", k ? ", " : "", i - 1);
		buf_adds(b, "]\n");
	}
}

static void bombs_load_cheaply(void **state)
{
	cleanup_buf struct buf b = { 0 };

	(void)state;
	laughs(&b);
	cheap(&b, "a billion laughs");
	struct ydoc *d = good_n(b.data, b.len);
	assert_int_equal(ynode_get(ydoc_root(d), "a10")->n, 9);
	ydoc_free(d);
}

static size_t reports;

static void count_report(void *arg, const struct brig_error *e)
{
	(void)arg;
	assert_true(e->message[0]);
	reports++;
}

/* Checks a text as a file; its first error, and how long it took. */
static double check_as_file(const struct buf *b, bool report, struct brig_error *err)
{
	struct config c;
	struct config_file f = { .path = (char *)"f", .dir = (char *)"/",
				 .rank = RANK_USER, .layer = "user" };

	config_init(&c);
	c.report = report ? count_report : NULL;
	reports = 0;
	double start = seconds();
	f.doc = good_n(b->data, b->len);
	int r = config_check_file(&c, &f);
	double took = seconds() - start;
	assert_true(r < 0 || c.n_errors > 0);
	*err = c.first;
	ydoc_free(f.doc);
	config_free(&c);
	return took;
}

/* Walking has a price, and running out of it is an error, not a wait. */
static void bombs_are_refused_when_walked(void **state)
{
	static const struct {
		const char *each; /* what 900 tools have, or the section has once */
		int words;        /* in the list that they all share */
		const char *said;
	} t[] = {
		{ "env: {pass: *list}", 1000, "too many values" },
		{ "filesystem: {mask: *list, read: *list}", 1000, "too many values" },
		{ "lock: *list", 1000, "too many values" },
		{ "lock: *list", 45000, "too many values" },
		{ "env: {pass: *list}", 1001, "more than 1000 words" },
		{ "env: {pass: *list}", 45000, "more than 1000 words" },
	};

	(void)state;
	for (size_t u = 0; u < ARRAY_LEN(t); u++) {
		cleanup_buf struct buf b = { 0 };
		struct brig_error err;
		buf_adds(&b, "description: [&w mode, &list [");
		for (int i = 0; i < t[u].words; i++)
			buf_adds(&b, "*w,");
		buf_adds(&b, "]]\ntools:\n");
		for (int i = 0; i < 900; i++)
			buf_addf(&b, " t%d: {sandbox: {%s}}\n", i, t[u].each);
		for (int report = 0; report < 2; report++) {
			double took = check_as_file(&b, report, &err);
			if (took > 0.5 * SLOWER)
				fail_msg("%s: %.0f ms", t[u].each, took * 1000);
			assert_int_equal(err.code, BRIG_E_BAD_CONFIG);
			if (!strstr(err.message, t[u].said))
				fail_msg("%s: %s", t[u].each, err.message);
		}
	}
}

/* A list of everything that is wrong must itself have an end. */
static void complaints_have_an_end(void **state)
{
	cleanup_buf struct buf b = { 0 };
	struct brig_error err;

	(void)state;
	buf_adds(&b, "description: &bad {");
	for (int i = 0; i < 900; i++)
		buf_addf(&b, "k%d: 1, ", i);
	buf_adds(&b, "}\ntools:\n");
	for (int i = 0; i < 900; i++)
		buf_addf(&b, " t%d: *bad\n", i);
	double took = check_as_file(&b, true, &err);
	if (took > 0.5 * SLOWER || reports > 1000)
		fail_msg("%zu complaints in %.0f ms", reports, took * 1000);
}

static void what_is_not_supported(void **state)
{
	(void)state;
	bad("a: &x {b: 1}\nc:\n  <<: *x\n", 3, 3, "merge keys");
	ydoc_free(good("\"<<\": 1\n"));
	bad("a: !!str 1\n", 1, 4, "tags");
	bad("a: !!python/object:os.system x\n", 1, 4, "tags");
	bad("!x\na: 1\n", 1, 1, "tags");
	bad("a: !local [1]\n", 1, 4, "tags");
	bad("a: !!map {b: 1}\n", 1, 4, "tags");
	bad("!!str a: 1\n", 1, 1, "tags");
	bad("a: 1\n---\nb: 2\n", 2, 1, "second document");
	bad("---\n---\n", 2, 1, "second document");
	bad("a: 1\n...\n---\n", 3, 1, "second document");
	bad("[a, b]: 1\n", 1, 1, "not a word");
	bad("{a: 1}: 1\n", 1, 1, "not a word");
	bad("? {a: 1}\n: 1\n", 1, 3, "not a word");
}

static void malformed(void **state)
{
	static const char *const t[] = {
		"a: [1, 2\n", "a: \"open\n", "a: 1\n b: 2\n", "a: b: c\n", "{a: 1", "}",
		"a: |x\n", "- a\nb: 1\n", "%FOO\na: 1\n", "@x\n", "`x\n", "a: *\n", "&\n",
		"a: \"\\q\"\n", "[1]]\n", "a\nb: 1\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct ydoc *d = NULL;
		struct ywhere w;
		int r = ydoc_parse(t[i], strlen(t[i]), &d, &w);
		if (r != -EINVAL || !w.line || !w.column || !w.what[0] || !w.fix[0])
			fail_msg("'%s': %d %u:%u %s", t[i], r, w.line, w.column, w.what);
	}
}

static void bytes_that_are_no_text(void **state)
{
	(void)state;
	bad_n("a: 1\nb\0: 2\n", 11, EINVAL, 2, 2, "NUL");
	bad_n("\0", 1, EINVAL, 1, 1, "NUL");
	bad("a: \"x\\0y\"\n", 1, 4, "NUL"); /* the escape is no better */
	bad_n("\xff\xfe" "a\0:\0", 6, EINVAL, 1, 4, "NUL"); /* UTF-16 */
	bad_n("\xfe\xff", 2, EINVAL, 1, 1, "UTF-8");
	bad("ok: 1\nbad: \xc3\x28\n", 2, 6, "UTF-8");
	bad("\xc0\xaf", 1, 1, "UTF-8");             /* overlong */
	bad("a: \xed\xa0\x80\n", 1, 4, "UTF-8");    /* a surrogate */
	bad("a: \xf4\x90\x80\x80\n", 1, 4, "UTF-8"); /* beyond the last */
	bad("a: \xe4\xb8", 1, 4, "UTF-8");          /* cut short */
	/* a byte-order mark of UTF-8 is harmless */
	struct ydoc *d = good("\xef\xbb\xbf" "a: 1\nb: 2\n");
	assert_string_equal(ynode_get(ydoc_root(d), "a")->text, "1");
	at(ynode_get(ydoc_root(d), "b"), 2, 4);
	ydoc_free(d);
	/* control characters */
	bad("a: 1\nb: \x01\n", 2, 4, "control");
	bad("a: 1\nb: \x7f\n", 2, 4, "control");
}

static void add_nested(struct buf *b, const char *open, const char *close, int n)
{
	for (int i = 0; i < n; i++)
		buf_adds(b, open);
	buf_adds(b, "x");
	for (int i = 0; i < n; i++)
		buf_adds(b, close);
}

static void depth(void **state)
{
	cleanup_buf struct buf fits = { 0 }, deep = { 0 }, map = { 0 };

	(void)state;
	add_nested(&fits, "[", "]", YAML_MAX_DEPTH);
	ydoc_free(good_n(fits.data, fits.len));
	add_nested(&deep, "[", "]", YAML_MAX_DEPTH + 1);
	bad_n(deep.data, deep.len, E2BIG, 1, YAML_MAX_DEPTH + 2, "deeply");
	add_nested(&map, "{a: ", "}", YAML_MAX_DEPTH + 1);
	bad_n(map.data, map.len, E2BIG, 1, 4 * YAML_MAX_DEPTH + 2, "deeply");
}

static void sizes(void **state)
{
	cleanup_buf struct buf b = { 0 };

	(void)state;
	buf_adds(&b, "# ");
	while (b.len < YAML_MAX_BYTES - 1)
		buf_addc(&b, 'x');
	buf_addc(&b, '\n');
	ydoc_free(good_n(b.data, b.len));
	cheap(&b, "a comment of 1M");
	buf_addc(&b, '\n');
	bad_n(b.data, b.len, E2BIG, 0, 0, "larger than 1M");
}

static void keys_of_one_mapping(void **state)
{
	for (int n = YAML_MAX_KEYS; n <= YAML_MAX_KEYS + 1; n++) {
		cleanup_buf struct buf b = { 0 };
		for (int i = 0; i < n; i++)
			buf_addf(&b, "k%d: 1\n", i);
		if (n == YAML_MAX_KEYS)
			ydoc_free(good_n(b.data, b.len));
		else
			bad_n(b.data, b.len, E2BIG, YAML_MAX_KEYS + 1, 1, "too many keys");
		cheap(&b, "many keys");
	}
	(void)state;
}

static void nodes(void **state)
{
	cleanup_buf struct buf b = { 0 }, more = { 0 };

	(void)state;
	/* the list itself is one of them */
	for (int i = 0; i < YAML_MAX_NODES - 1; i++)
		buf_adds(&b, "- x\n");
	ydoc_free(good_n(b.data, b.len));
	cheap(&b, "50,000 nodes");
	buf_add(&more, b.data, b.len);
	buf_adds(&more, "- x\n");
	bad_n(more.data, more.len, E2BIG, YAML_MAX_NODES, 3, "too many values");
}

/* Texts of a megabyte that make naive readers take seconds or minutes. */
static void expensive_texts(void **state)
{
	static const struct {
		const char *what, *head, *unit, *tail;
	} t[] = {
		{ "nested lists", "", "[", "" },
		{ "nested maps", "", "{a: ", "" },
		{ "nested maps without space", "", "{a:", "" },
		{ "nested flow pairs", "", "[a: ", "" },
		{ "nested block lists", "", "- ", "" },
		{ "nested keys", "", "? ", "" },
		{ "colons", "", ": ", "" },
		{ "nested lists in a value", "a: ", "[", "" },
		{ "empty lists", "[", "[],", "]" },
		{ "commas", "[", "x,", "]" },
		{ "quotes", "a: '", "''", "'" },
		{ "escapes", "a: \"", "\\x41", "\"" },
		{ "folded lines", "a: \"", "x\n\n ", "\"" },
		{ "spaces", "a: x", " ", "y" },
		{ "blank lines", "a: x\n", "\n", "b: y" },
		{ "a block text", "a: |\n", " x\n", "" },
		{ "a folded text", "a: >\n", " x\n", "" },
		{ "anchors", "", "&a ", "x" },
		{ "one plain word", "a: ", "x", "" },
		{ "one plain key", "", "x", ": 1" },
		{ "plain lines", "a: x\n", " x\n", "" },
		{ "directives", "", "%TAG !a! !b\n", "---\nx" },
		{ "different directives", "", "%YAML 1.1\n", "---\nx" },
		{ "document starts", "", "---\n", "" },
		{ "document ends", "", "...\n", "" },
		{ "comments", "", "#\n", "" },
		{ "tags", "", "!a ", "x" },
		{ "stars", "[", "*a,", "]" },
		{ "carriage returns", "a: x", "\r", "" },
		{ "wide characters", "a: ", "\xe4\xb8\xad", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		cleanup_buf struct buf b = { 0 };
		size_t tail = strlen(t[i].tail), unit = strlen(t[i].unit);
		buf_adds(&b, t[i].head);
		while (b.len + unit + tail <= YAML_MAX_BYTES)
			buf_adds(&b, t[i].unit);
		buf_adds(&b, t[i].tail);
		cheap(&b, t[i].what);
	}
}

/* The same where each part differs from the others. */
static void expensive_names(void **state)
{
	cleanup_buf struct buf anchors = { 0 }, keys = { 0 }, maps = { 0 };

	(void)state;
	/* aliases of the oldest of many anchors */
	buf_adds(&anchors, "[&a x,");
	for (int i = 0; anchors.len < YAML_MAX_BYTES / 4; i++)
		buf_addf(&anchors, "&%x x,", i + 0x100);
	while (anchors.len < YAML_MAX_BYTES - 8)
		buf_adds(&anchors, "*a,");
	buf_adds(&anchors, "]");
	cheap(&anchors, "anchors and aliases");
	/* keys that differ at their ends only */
	for (int i = 0; i < 1000; i++) {
		buf_adds(&keys, "? ");
		for (int k = 0; k < 1000; k++)
			buf_addc(&keys, 'k');
		buf_addf(&keys, "%d\n: 1\n", i);
	}
	cheap(&keys, "long keys");
	for (int m = 0; maps.len < YAML_MAX_BYTES - 16000; m++) {
		buf_addf(&maps, "m%d:\n", m);
		for (int i = 0; i < 1000; i++)
			buf_addf(&maps, " k%d: 1\n", i);
	}
	cheap(&maps, "many maps of many keys");
}

static void json(void **state)
{
	struct ydoc *d = good("{\"sandbox\":{\"mode\":\"docker\",\"list\":[1,2.5,true,null,"
			      "\"\\u00e9\\n\\/\"],\"empty\":{},\"none\":[]}}");
	const struct ynode *s = ynode_get(ydoc_root(d), "sandbox");
	const struct ynode *l = ynode_get(s, "list");

	(void)state;
	assert_string_equal(ynode_get(s, "mode")->text, "docker");
	assert_true(ynode_get(s, "mode")->quoted);
	assert_int_equal(l->n, 5);
	assert_string_equal(l->item[1]->text, "2.5");
	assert_int_equal(ynode_bool(l->item[2]), 1);
	assert_true(ynode_is_null(l->item[3]));
	assert_string_equal(l->item[4]->text, "\xc3\xa9\n/");
	assert_int_equal(ynode_get(s, "empty")->kind, YAML_MAP);
	assert_int_equal(ynode_get(s, "none")->n, 0);
	ydoc_free(d);
}

/* JSON writes characters beyond 0xffff as two escapes; YAML 1.1 has no such
 * thing.  It is said, with the place, and not turned into something else. */
static void json_surrogate_pairs(void **state)
{
	(void)state;
	bad("{\"name\": \"bot \\ud83d\\ude00\", \"x\": 1}", 1, 17, "escape");
	bad("{\"a\": \"\\ud83d\"}", 1, 10, "escape");
	struct ydoc *d = good("{\"a\": \"\\U0001f600 \xf0\x9f\x98\x80\"}");
	assert_string_equal(ynode_get(ydoc_root(d), "a")->text,
			    "\xf0\x9f\x98\x80 \xf0\x9f\x98\x80");
	ydoc_free(d);
}

static void nulls_and_booleans(void **state)
{
	static const struct {
		const char *text;
		bool null;
		int yes;
	} t[] = {
		{ "", true, -1 }, { "~", true, -1 }, { "null", true, -1 },
		{ "Null", true, -1 }, { "NULL", true, -1 }, { "\"\"", false, -1 },
		{ "'~'", false, -1 }, { "'null'", false, -1 }, { "true", false, 1 },
		{ "True", false, 1 }, { "yes", false, 1 }, { "on", false, 1 },
		{ "ON", false, 1 }, { "false", false, 0 }, { "no", false, 0 },
		{ "off", false, 0 }, { "'true'", false, -1 }, { "\"no\"", false, -1 },
		{ "y", false, -1 }, { "n", false, -1 }, { "1", false, -1 },
		{ "0", false, -1 }, { "truee", false, -1 }, { "[true]", false, -1 },
		{ "{}", false, -1 }, { "[]", false, -1 }, { "nul", false, -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		char text[40];
		snprintf(text, sizeof text, "a: %s\n", t[i].text);
		struct ydoc *d = good(text);
		const struct ynode *n = ynode_get(ydoc_root(d), "a");
		if (ynode_is_null(n) != t[i].null || ynode_bool(n) != t[i].yes)
			fail_msg("%s: null %d, boolean %d", text, ynode_is_null(n),
				 ynode_bool(n));
		ydoc_free(d);
	}
	assert_true(ynode_is_null(NULL));
	assert_int_equal(ynode_bool(NULL), -1);
}

static void lookups(void **state)
{
	struct ydoc *d = good("a: {b: {c: 1}, bb: 2}\nl: [x]\ns: text\n");
	const struct ynode *r = ydoc_root(d);

	(void)state;
	assert_string_equal(ynode_path(r, "a.b.c")->text, "1");
	assert_string_equal(ynode_path(r, "a.bb")->text, "2");
	assert_null(ynode_path(r, "a.b.c.d"));
	assert_null(ynode_path(r, "a.x.c"));
	assert_null(ynode_path(r, "a.bbb"));
	assert_null(ynode_path(r, "l.x"));
	assert_null(ynode_path(r, "s.text"));
	assert_null(ynode_get(r, "A"));
	assert_null(ynode_get(r, ""));
	assert_null(ynode_get(NULL, "a"));
	assert_null(ynode_path(NULL, "a.b"));
	assert_ptr_equal(ynode_path(r, ""), r);
	ydoc_free(d);
	ydoc_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(positions),
		cmocka_unit_test(positions_behind_wide_text),
		cmocka_unit_test(line_ends),
		cmocka_unit_test(empty_documents),
		cmocka_unit_test(duplicate_keys),
		cmocka_unit_test(tabs),
		cmocka_unit_test(aliases_are_the_same_node),
		cmocka_unit_test(anchors_have_an_end),
		cmocka_unit_test(circles),
		cmocka_unit_test(bombs_load_cheaply),
		cmocka_unit_test(bombs_are_refused_when_walked),
		cmocka_unit_test(complaints_have_an_end),
		cmocka_unit_test(what_is_not_supported),
		cmocka_unit_test(malformed),
		cmocka_unit_test(bytes_that_are_no_text),
		cmocka_unit_test(depth),
		cmocka_unit_test(sizes),
		cmocka_unit_test(keys_of_one_mapping),
		cmocka_unit_test(nodes),
		cmocka_unit_test(expensive_texts),
		cmocka_unit_test(expensive_names),
		cmocka_unit_test(json),
		cmocka_unit_test(json_surrogate_pairs),
		cmocka_unit_test(nulls_and_booleans),
		cmocka_unit_test(lookups),
	};

	return cmocka_run_group_tests_name("yamldoc", tests, NULL, NULL);
}
