/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The documentation against the tables: every error code, option and verb is
 * described, and nothing is described that is not there.  The source tree is
 * found through BRIG_SOURCE, which meson sets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/layers.h"
#include "policy/options.h"

static const char *root;

static char *slurp(const char *rel)
{
	char path[1024];
	char *text = NULL;
	size_t len;

	snprintf(path, sizeof path, "%s/%s", root, rel);
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_all(fd, 4 << 20, &text, &len) < 0)
		fail_msg("cannot read %s", path);
	return text;
}

/* All C files of a folder of src, behind one another. */
static void slurp_folder(struct buf *b, const char *rel)
{
	char path[1024];

	snprintf(path, sizeof path, "%s/%s", root, rel);
	DIR *d = opendir(path);
	if (!d)
		fail_msg("cannot read %s", path);
	for (struct dirent *e; (e = readdir(d));) {
		size_t n = strlen(e->d_name);
		if (n < 3 || !streq(e->d_name + n - 2, ".c"))
			continue;
		char file[1400];
		snprintf(file, sizeof file, "%s/%s", rel, e->d_name);
		cleanup_free char *text = slurp(file);
		buf_adds(b, text);
	}
	closedir(d);
}

/* How often a line is exactly this. */
static int count_lines(const char *text, const char *line)
{
	size_t n = strlen(line);
	int found = 0;

	for (const char *p = text; p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		found += strncmp(p, line, n) == 0 && (p[n] == '\n' || p[n] == '\0');
	}
	return found;
}

/* Roff text as read: "\-" is "-", font changes are gone. */
static char *plain_roff(const char *text)
{
	char *out = malloc(strlen(text) + 1), *to = out;

	assert_non_null(out);
	while (*text) {
		if (text[0] == '\\' && text[1] == 'f' && text[2]) {
			text += 3;
		} else if (text[0] == '\\' && text[1] == '-') {
			*to++ = '-';
			text += 2;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
	return out;
}

/* True when the word occurs with no letter, digit or '-' directly after it. */
static bool mentions(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p++) {
		char c = p[n];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      (c >= '0' && c <= '9') || c == '-' || c == '_'))
			return true;
	}
	return false;
}

static void every_error_has_its_section(void **state)
{
	cleanup_free char *text = slurp("docs/errors.md");

	(void)state;
	for (unsigned i = 0; i < BRIG_E__COUNT; i++) {
		const char *name = brig_code_name((enum brig_code)i);
		char line[64];
		snprintf(line, sizeof line, "## %s", name);
		int n = count_lines(text, line);
		/* "no error" may be described or not */
		if (i == BRIG_E_OK ? n > 1 : n != 1)
			fail_msg("docs/errors.md has %d sections %s", n, name);
	}
}

static void no_section_without_its_error(void **state)
{
	cleanup_free char *text = slurp("docs/errors.md");

	(void)state;
	for (const char *p = strstr(text, "\n## "); p; p = strstr(p + 1, "\n## ")) {
		char name[64];
		bool known = false;
		snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 4, "\n"), p + 4);
		for (unsigned i = 0; i < BRIG_E__COUNT; i++)
			known = known || streq(brig_code_name((enum brig_code)i), name);
		if (!known)
			fail_msg("docs/errors.md describes %s, which is no code", name);
	}
}

/* A section without a remedy is half a section. */
static void every_section_says_what_to_do(void **state)
{
	cleanup_free char *text = slurp("docs/errors.md");

	(void)state;
	for (unsigned i = BRIG_E_OK + 1; i < BRIG_E__COUNT; i++) {
		char line[64];
		snprintf(line, sizeof line, "\n## %s\n", brig_code_name((enum brig_code)i));
		const char *from = strstr(text, line);
		assert_non_null(from);
		const char *to = strstr(from + 1, "\n## ");
		size_t n = to ? (size_t)(to - from) : strlen(from);
		if (n < 60)
			fail_msg("%s is hardly described", line + 4);
		if (!memmem(from, n, "**Fix**", 7) && !memmem(from, n, "| fix |", 7))
			fail_msg("no fix for %s", line + 4);
	}
}

static void codes_are_used(void **state)
{
	static const char *const folders[] = { "src/api", "src/backend", "src/cli", "src/engine",
					       "src/policy", "src/seccompc",
					       "src/workspace" };
	cleanup_buf struct buf b = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		slurp_folder(&b, folders[i]);
	buf_addc(&b, '\0');
	assert_true(buf_ok(&b));
	for (unsigned i = 0; i < BRIG_E__COUNT; i++) {
		const char *name = brig_code_name((enum brig_code)i);
		char symbol[64];
		snprintf(symbol, sizeof symbol, "BRIG_E_%s", name);
		char quoted[64]; /* some are only printed by the command line */
		snprintf(quoted, sizeof quoted, "brig: %s:", name);
		if (!mentions(b.data, symbol) && !strstr(b.data, quoted))
			fail_msg("%s is never reported", name);
	}
}

static void manual_has_every_option(void **state)
{
	cleanup_free char *raw = slurp("man/brig.1");
	cleanup_free char *man = plain_roff(raw);

	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		char word[64];
		if (!opt_table[i].name)
			continue; /* in files only: brig-config(5) has it */
		snprintf(word, sizeof word, "--%s", opt_table[i].name);
		if (opt_table[i].kind == OK_LATER) {
			if (mentions(man, word))
				fail_msg("man/brig.1 describes %s, which is refused", word);
		} else if (!mentions(man, word)) {
			fail_msg("man/brig.1 does not mention %s", word);
		}
	}
	assert_true(mentions(man, "--sandbox"));
}

/* The defaults the manual states are those of the table. */
static void manual_has_the_defaults(void **state)
{
	cleanup_free char *raw = slurp("man/brig.1");
	cleanup_free char *man = plain_roff(raw);

	(void)state;
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct opt_def *d = &opt_table[i];
		char word[64], text[64];
		if (!d->def || !d->name || (d->kind != OK_SIZE && d->kind != OK_COUNT &&
				d->kind != OK_MILLI))
			continue;
		snprintf(word, sizeof word, "\n.BI --%s", d->name);
		snprintf(text, sizeof text, "default %s", d->def);
		const char *from = strstr(man, word);
		if (!from)
			fail_msg("man/brig.1 has no entry --%s", d->name);
		const char *to = strstr(from, "\n.TP");
		size_t n = to ? (size_t)(to - from) : strlen(from);
		if (!memmem(from, n, text, strlen(text)))
			fail_msg("man/brig.1: --%s does not say '%s'", d->name, text);
	}
}

static void manual_has_every_layer(void **state)
{
	cleanup_free char *raw = slurp("man/brig.1");
	cleanup_free char *man = plain_roff(raw);
	cleanup_free char *layers = slurp("docs/layers.md");

	(void)state;
	for (unsigned i = 0; i < LAYER__COUNT; i++) {
		const char *name = layer_name((enum layer)i);
		if (!mentions(man, name))
			fail_msg("man/brig.1 does not name the layer %s", name);
		if (!mentions(layers, name))
			fail_msg("docs/layers.md does not name the layer %s", name);
	}
}

static void verbs_are_described(void **state)
{
	static const char *const verbs[] = { "run", "shell", "explain", "doctor",
					     "config", "version", "help" };
	cleanup_free char *raw = slurp("man/brig.1");
	cleanup_free char *man = plain_roff(raw);
	cleanup_free char *readme = slurp("README.md");
	cleanup_free char *main_c = slurp("src/cli/main.c");
	char word[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		snprintf(word, sizeof word, "&verb_%s", verbs[i]);
		if (!strstr(main_c, word))
			fail_msg("%s is not a verb", verbs[i]);
		snprintf(word, sizeof word, "\n.B %s\n", verbs[i]);
		if (!strstr(man, word))
			fail_msg("man/brig.1 does not describe %s", verbs[i]);
	}
	/* and none that this list does not have */
	size_t n = 0;
	for (const char *p = strstr(main_c, "verbs[] = {"); p && *p && *p != ';'; p++)
		n += strncmp(p, "&verb_", 6) == 0;
	assert_int_equal(n, ARRAY_LEN(verbs));
	for (size_t i = 0; i < 5; i++) { /* version and help speak for themselves */
		snprintf(word, sizeof word, "brig %s", verbs[i]);
		if (!mentions(readme, word))
			fail_msg("README.md does not mention '%s'", word);
	}
}

static void manual_has_the_exit_codes(void **state)
{
	static const char *const codes[] = { "\n.B 124\n", "\n.B 125\n", "\n.B 126\n",
					     "\n.B 127\n", "\n.RI 128+ n\n", "\n.B 2\n" };
	cleanup_free char *man = slurp("man/brig.1");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (!strstr(man, codes[i]))
			fail_msg("man/brig.1 lacks the exit code%s", codes[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_error_has_its_section),
		cmocka_unit_test(no_section_without_its_error),
		cmocka_unit_test(every_section_says_what_to_do),
		cmocka_unit_test(codes_are_used),
		cmocka_unit_test(manual_has_every_option),
		cmocka_unit_test(manual_has_the_defaults),
		cmocka_unit_test(manual_has_every_layer),
		cmocka_unit_test(verbs_are_described),
		cmocka_unit_test(manual_has_the_exit_codes),
	};

	root = getenv("BRIG_SOURCE");
	if (!root) {
		puts("SKIP: BRIG_SOURCE is not set, so there is no documentation to read");
		return 77;
	}
	return cmocka_run_group_tests_name("docs", tests, NULL, NULL);
}
