/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles for macOS: balanced, escaped, and closed where they must be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "backend/seatbelt_profile.h"
#include "base/str.h"

static char argv0[] = "true";
static char *argv[] = { argv0, NULL };

static struct spec make(const char *ws)
{
	return (struct spec){
		.argv = argv,
		.workspace = { .src = (char *)ws, .dst = (char *)ws, .is_dir = true,
			       .writable = true, .fd = -1 },
	};
}

/*
 * A small reader of the language: returns the number of top-level expressions,
 * -1 when quotes or parentheses do not match, and keeps every string literal,
 * unescaped.
 */
static int read_profile(const char *p, char ***strings)
{
	int depth = 0, top = 0;

	for (; *p; p++) {
		if (*p == '(') {
			top += depth++ == 0;
		} else if (*p == ')') {
			if (--depth < 0)
				return -1;
		} else if (*p == '"') {
			struct buf b = { 0 };
			for (p++; *p && *p != '"'; p++) {
				if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
					return -1;
				if (*p == '\\' && p[1] == 'x') {
					char hex[3] = { p[2], p[3], 0 };
					buf_addc(&b, (char)strtoul(hex, NULL, 16));
					p += 3;
				} else {
					if (*p == '\\')
						p++;
					buf_addc(&b, *p);
				}
			}
			if (!*p)
				return -1;
			buf_addc(&b, '\0');
			strv_take(strings, buf_take(&b, NULL));
		}
	}
	return depth == 0 ? top : -1;
}

static bool has(char **v, const char *s)
{
	for (; v && *v; v++)
		if (streq(*v, s))
			return true;
	return false;
}

static void test_hostile_names(void **state)
{
	static const char *const names[] = {
		"/w/a\"b", "/w/a\\", "/w/a\\\"", "/w/new\nline", "/w/(allow default)",
		"/w/\")(allow default)(deny nothing \"", "/w/\xff\xfe", "/w/\x01\x1b[2J", "/w/;x",
		"/w/\xc3\xa4", "/w/\\x41",
	};
	int plain = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct spec s = make(names[i]);
		struct buf b = { 0 };
		char **strings = NULL;
		seatbelt_profile(&b, &s, "/private/tmp/x");
		char *text = buf_take(&b, NULL);
		int n = read_profile(text, &strings);
		assert_true(n > 0);
		/* the same number of rules, whatever the name */
		if (!plain)
			plain = n;
		assert_int_equal(n, plain);
		assert_true(has(strings, names[i]));
		strv_free(strings);
		free(text);
	}
}

static void test_rules(void **state)
{
	struct spec s = make("/tmp/ws");
	char ro[] = "/opt/tool", mask[] = "/tmp/ws/secret";
	char *masks[] = { mask, NULL };
	char p1[] = ".git/hooks", p2[] = ".git/modules/*/config";
	char *protect[] = { p1, p2, NULL };
	struct spec_bind bind = { .src = ro, .dst = ro, .is_dir = true, .fd = -1 };
	struct buf b = { 0 };

	(void)state;
	s.masks = masks;
	s.protect = protect;
	s.binds = &bind;
	s.n_binds = 1;
	seatbelt_profile(&b, &s, "/private/tmp/x");
	char *t = buf_take(&b, NULL);
	assert_non_null(strstr(t, "(version 1)\n(deny default)\n"));
	assert_null(strstr(t, "network"));
	assert_null(strstr(t, "(allow file-read*)"));
	const char *allow = strstr(t, "(allow file-read* process-exec file-write* (subpath "
				      "\"/private/tmp/ws\"))");
	const char *deny = strstr(t, "(deny file-write* (subpath \"/private/tmp/ws/.git/hooks\"))");
	const char *glob = strstr(t, "(deny file-write* (regex \"^/private/tmp/ws/\\\\.git/modules/"
				     "[^/]+/config(/.*)?$\"))");
	const char *hide = strstr(t, "(deny file* process-exec (subpath "
				     "\"/private/tmp/ws/secret\"))");
	/* later rules win */
	assert_true(allow && deny && glob && hide && allow < deny && deny < hide);
	assert_non_null(strstr(t, "(deny file-write* (subpath \"/opt/tool\"))"));
	free(t);
	s.net = NET_HOST;
	b = (struct buf){ 0 };
	seatbelt_profile(&b, &s, "/private/tmp/x");
	t = buf_take(&b, NULL);
	assert_non_null(strstr(t, "(allow network*)"));
	free(t);
}

static void test_call(void **state)
{
	struct spec s = make("/w");
	struct brig_error err = { 0 };
	char **v = NULL;

	(void)state;
	assert_int_equal(seatbelt_argv(&s, "/private/tmp/x", &v, &err), 0);
	assert_int_equal(strv_len(v), 4);
	assert_string_equal(v[0], "/usr/bin/sandbox-exec");
	assert_string_equal(v[1], "-p");
	assert_string_equal(v[3], "true");
	strv_free(v);
	char other[] = "/elsewhere";
	s.workspace.dst = other;
	assert_true(seatbelt_argv(&s, "/private/tmp/x", &v, &err) < 0);
	assert_int_equal(err.code, BRIG_E_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
