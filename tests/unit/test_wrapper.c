/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of the wrapper backend, with /bin/sh as the judge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/wrapper_quote.h"
#include "base/fd.h"
#include "base/str.h"

/* Runs argv and reads what it prints. */
static char *output(char *const *argv, size_t *len)
{
	int p[2];
	char *data = NULL;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(p[1], 1);
		execv(argv[0], argv);
		_exit(127);
	}
	close(p[1]);
	assert_int_equal(fd_read_all(p[0], 1 << 24, &data, len), 0);
	close(p[0]);
	int st;
	assert_int_equal(waitpid(pid, &st, 0), pid);
	return data;
}

/* What the words of a command must look like when they arrive. */
static void check_words(const char *out, size_t len, char *const *argv)
{
	size_t at = 0;

	for (size_t i = 0; argv[i]; i++) {
		size_t n = strlen(argv[i]) + 1;
		assert_true(at + n <= len);
		assert_memory_equal(out + at, argv[i], n);
		at += n;
	}
	assert_int_equal(at, len);
}

static char *run_text(const char *tmpl, char *const *argv, const char *cwd, size_t *len)
{
	char *text = NULL;
	struct brig_error err = { 0 };

	assert_int_equal(wrapper_expand_text(tmpl, argv, cwd, &text, &err), 0);
	char *const sh[] = { (char *)"/bin/sh", (char *)"-c", text, NULL };
	char *out = output(sh, len);
	free(text);
	return out;
}

static uint32_t seed = 12345;
static unsigned pick(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* Random bytes, and often the ones that mean something. */
static char *random_word(void)
{
	static const char *const nasty[] = { "'", "\"", "\\", "$(", ")", "`", "{cwd}", "{command}",
					     "{argv}", "\n", " ", "$X", "#", ";", "&", "|", "!",
					     "*", "~", "\t", "\xff\xfe", "''", "\\'", "-", "" };
	struct buf b = { 0 };
	unsigned n = pick(12);

	for (unsigned i = 0; i < n; i++) {
		if (pick(2))
			buf_adds(&b, nasty[pick(ARRAY_LEN(nasty))]);
		else
			buf_addc(&b, (char)(1 + pick(255)));
	}
	buf_adds(&b, "");
	char *s = buf_take(&b, NULL);
	return s ? s : strdup("");
}

static void test_round_trip(void **state)
{
	/* each prints the words it got, NUL after each */
	static const char *const tmpls[] = {
		"printf '%s\\0' {command}", "printf \"%s\\0\"  {command} ",
		"sh -c 'printf %b%s {command}' x >/dev/null; printf '%s\\0' {command}",
	};

	(void)state;
	for (int round = 0; round < 150; round++) {
		char **argv = NULL;
		unsigned n = 1 + pick(5);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(strv_take(&argv, random_word()), 0);
		size_t len;
		char *out = run_text(tmpls[(unsigned)round % ARRAY_LEN(tmpls)], argv, "/", &len);
		check_words(out, len, argv);
		free(out);
		strv_free(argv);
	}
}

/* In quotes the command is text for a second shell. */
static void test_nested_shell(void **state)
{
	static const char *const tmpls[] = { "sh -c {command}", "env sh -ec  {command}",
					     "sh -c '{command}'", "sh -c \"{command}\"",
					     "sh -c 'exec {command}'", "sh -c \" {command}\n\"" };

	(void)state;
	for (int round = 0; round < 100; round++) {
		char **argv = NULL;
		strv_add(&argv, "printf");
		strv_add(&argv, "%s\\0");
		unsigned n = 1 + pick(4);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(strv_take(&argv, random_word()), 0);
		size_t len;
		char *out = run_text(tmpls[(unsigned)round % ARRAY_LEN(tmpls)], argv, "/", &len);
		check_words(out, len, argv + 2);
		free(out);
		strv_free(argv);
	}
}

static void test_directory(void **state)
{
	static const char *const tmpls[] = { "printf '%s\\0' {cwd} {command}",
					     "printf '%s\\0' '{cwd}' {command}",
					     "printf '%s\\0' \"{cwd}\" {command}" };
	char *argv[] = { (char *)"x", NULL };

	(void)state;
	for (int round = 0; round < 90; round++) {
		char *cwd = random_word();
		size_t len;
		char *out = run_text(tmpls[round % 3], argv, cwd, &len);
		char *const want[] = { cwd, argv[0], NULL };
		check_words(out, len, want);
		free(out);
		free(cwd);
	}
}

static void test_refused_texts(void **state)
{
	static const char *const bad[] = {
		"true", "", "{cwd}", "echo '{command}", "echo \"{command}", "x{command}",
		"{command}x", "{command}{command}", "echo `{command}`", "echo $({command})",
		"echo \"$({command})\"", "echo \"`{command}`\"", "echo ${X:-{command}}",
		"cat <<E\n{command}\nE", "true # {command}", "echo \\{command}",
		"sh -c \"echo '{command}'\"", "sh -c 'echo \"{command}\"'", "sh -c 'a{command}'",
		"sh -c '$X {command}'", "sh -c 'cd {cwd}; ls' {command}", "{command} \\",
		"echo $'{command}'", "${cwd} {command}", "x\\\n{command}", "x\\ {command}",
	};
	char *argv[] = { (char *)"x", NULL };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct brig_error err = { 0 };
		char *text = NULL;
		assert_true(wrapper_expand_text(bad[i], argv, "/", &text, &err) < 0);
		assert_int_equal(err.code, BRIG_E_BAD_VALUE);
		assert_true(err.fix[0]);
		assert_null(text);
	}
}

static void test_lists(void **state)
{
	char *tmpl[] = { (char *)"w", (char *)"--dir={cwd}", (char *)"{cwd}", (char *)"a b'$(x)",
			 (char *)"--", (char *)"{argv}", (char *)"{command}", NULL };
	char *argv[] = { (char *)"c{cwd}", (char *)"{argv}", (char *)"", (char *)"q'", NULL };
	char **out = NULL;
	struct brig_error err = { 0 };

	(void)state;
	assert_int_equal(wrapper_expand_list(tmpl, argv, "/x '{command}", &out, &err), 0);
	static const char *const want[] = { "w", "--dir=/x '{command}", "/x '{command}", "a b'$(x)",
					    "--", "c{cwd}", "{argv}", "", "q'",
					    "'c{cwd}' '{argv}' '' 'q'\\'''" };
	assert_int_equal(strv_len(out), ARRAY_LEN(want));
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_string_equal(out[i], want[i]);
	strv_free(out);
}

static void test_refused_lists(void **state)
{
	static const char *const bad[][4] = {
		{ "w", "x" }, { "w", "x{command}" }, { "w", "{argv} " }, { "{command}" },
		{ "w{cwd}", "{argv}" }, { "sh", "-c", "cd {cwd}; exec \"$@\"", "{argv}" },
		{ "", "{argv}" },
	};
	char *argv[] = { (char *)"x", NULL };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char **tmpl = NULL, **out = NULL;
		struct brig_error err = { 0 };
		for (size_t k = 0; k < 4 && bad[i][k]; k++)
			strv_add(&tmpl, bad[i][k]);
		assert_true(wrapper_expand_list(tmpl, argv, "/", &out, &err) < 0);
		assert_int_equal(err.code, BRIG_E_BAD_VALUE);
		strv_free(tmpl);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_nested_shell),
		cmocka_unit_test(test_directory),  cmocka_unit_test(test_refused_texts),
		cmocka_unit_test(test_lists),	   cmocka_unit_test(test_refused_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
