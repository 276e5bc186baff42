/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a network allow-list: what is one, what only looks like one to some
 * other program, and which of two allows more.
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
#include <sys/socket.h>

#include "base/str.h"
#include "egress/allow.h"

static struct allow_entry entry(const char *text)
{
	struct allow_entry e;
	char why[120] = "";

	if (allow_parse(text, &e, why, sizeof why) < 0)
		fail_msg("'%s' %s", text, why);
	return e;
}

static bool has_ports(const struct allow_entry *e, const char *list)
{
	char made[200] = "";

	for (unsigned i = 0; i < e->n_ports; i++)
		snprintf(made + strlen(made), sizeof made - strlen(made), "%s%u",
			 i ? "," : "", e->ports[i]);
	return streq(made, list);
}

static void good_entries(void **state)
{
	static const struct {
		const char *text;
		enum allow_kind kind;
		const char *name;
		const char *ports;
	} t[] = {
		{ "api.example.com", ALLOW_HOST, "api.example.com", "443,80" },
		{ "API.Example.COM:8443", ALLOW_HOST, "api.example.com", "8443" },
		{ "localhost:80", ALLOW_HOST, "localhost", "80" },
		{ "a.example:1,65535", ALLOW_HOST, "a.example", "1,65535" },
		{ "_srv.example.com", ALLOW_HOST, "_srv.example.com", "443,80" },
		{ "xn--bcher-kva.example", ALLOW_HOST, "xn--bcher-kva.example", "443,80" },
		{ "1.example.com", ALLOW_HOST, "1.example.com", "443,80" },
		{ "1.2.3.4x", ALLOW_HOST, "1.2.3.4x", "443,80" },
		{ "0xample.com", ALLOW_HOST, "0xample.com", "443,80" },
		{ "a.0xyz", ALLOW_HOST, "a.0xyz", "443,80" },
		{ "*.example.com", ALLOW_WILDCARD, "example.com", "443,80" },
		{ "*.A.example.com:443", ALLOW_WILDCARD, "a.example.com", "443" },
		{ "192.0.2.7", ALLOW_ADDRESS, "192.0.2.7", "443,80" },
		{ "192.0.2.7:5432", ALLOW_ADDRESS, "192.0.2.7", "5432" },
		{ "192.0.2.0/24:22", ALLOW_ADDRESS, "192.0.2.0/24", "22" },
		{ "0.0.0.0/0", ALLOW_ADDRESS, "0.0.0.0/0", "443,80" },
		{ "[2001:db8::1]", ALLOW_ADDRESS, "2001:db8::1", "443,80" },
		{ "[2001:db8::/32]:443", ALLOW_ADDRESS, "2001:db8::/32", "443" },
		{ "[::1]:80,81", ALLOW_ADDRESS, "::1", "80,81" },
		{ "@registries", ALLOW_GROUP, "registries", "" },
		{ "h.example:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", ALLOW_HOST,
		  "h.example", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct allow_entry e = entry(t[i].text);
		if (e.kind != t[i].kind || !streq(e.name, t[i].name) ||
		    !has_ports(&e, t[i].ports))
			fail_msg("%s: kind %d, name %s", t[i].text, e.kind, e.name);
		assert_int_equal(allow_check(t[i].text, (char[120]){ 0 }, 120), 0);
	}
	struct allow_entry e = entry("192.0.2.0/24");
	assert_int_equal(e.family, AF_INET);
	assert_int_equal(e.bits, 24);
	e = entry("[2001:db8::1]");
	assert_int_equal(e.family, AF_INET6);
	assert_int_equal(e.bits, 128);
}

/* Each of these is one host to some programs and another, or all, to others. */
static void bad_entries(void **state)
{
	static const struct {
		const char *text, *why;
	} t[] = {
		{ "", "no host name" }, { ":443", "no host name" },
		{ "user@example.com", "character" }, { "@example.com", "group" },
		{ "@", "group" }, { "@Registries", "group" },
		{ "@registries:443", "group" },
		{ "exa mple.com", "character" }, { " example.com", "character" },
		{ "example.com ", "character" }, { "example.com\t", "character" },
		{ "example.com\n", "character" }, { "exam\001ple.com", "character" },
		{ "example.com.", "dot" }, { "example.com.:443", "dot" },
		{ ".example.com", "dot" }, { ".", "dot" }, { "a..b", "empty part" },
		{ "b\xc3\xbc" "cher.example", "xn--" },
		{ "ex\xd0\xb0mple.com", "xn--" }, /* a Cyrillic letter */
		{ "example\xe3\x80\x82" "com", "xn--" }, /* an ideographic full stop */
		{ "http://example.com", "port" }, { "example.com/path", "character" },
		{ "example.com%00.evil.example", "character" },
		{ "example.com\\evil", "character" }, { "example.com#x", "character" },
		{ "-a.example", "character" }, { "a-.example", "ends with '-'" },
		{ "example.com:", "port" }, { "example.com:0", "port" },
		{ "example.com:65536", "port" }, { "example.com:70000", "port" },
		{ "example.com:443,", "port" }, { "example.com:,443", "port" },
		{ "example.com:443,,80", "port" }, { "example.com:443 ,80", "port" },
		{ "example.com:-1", "port" }, { "example.com:+443", "port" },
		{ "example.com:https", "port" }, { "example.com:0x1bb", "port" },
		{ "example.com:443-445", "port" }, { "example.com:99999999999", "port" },
		{ "h.example:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "16 ports" },
		{ "*", "first part" }, { "*:443", "first part" },
		{ "*.com", "top-level" }, { "*.", "top-level" }, { "*.*.com", "character" },
		{ "a.*.example.com", "first part" }, { "*example.com", "first part" },
		{ "*.example.com.", "dot" }, { "**.example.com", "first part" },
		/* addresses in the spellings that inet_aton() takes */
		{ "127.1", "address" }, { "1", "address" }, { "2130706433", "address" },
		{ "017700000001", "address" }, { "0177.0.0.1", "address" },
		{ "0x7f.1", "address" }, { "0x7f000001", "address" },
		{ "0x7f.0.0.0x1", "address" }, { "127.0.0.0x1", "address" },
		{ "0X7F000001", "address" }, { "0x", "address" },
		{ "1.2.3", "address" }, { "1.2.3.4.5", "address" },
		{ "256.1.1.1", "address" }, { "1.2.3.04", "address" },
		{ "*.1.2", "address" }, { "*.0.0x1", "address" },
		{ "192.0.2.1/33", "prefix" }, { "192.0.2.1/", "prefix" },
		{ "192.0.2.1/-1", "prefix" }, { "192.0.2.0/24/8", "prefix" },
		{ "192.0.2.1/24", "bits set" }, { "[2001:db8::1/64]", "bits set" },
		{ "[2001:db8::/129]", "prefix" }, { "192.0.2.0/2 4", "prefix" },
		/* brackets are for IPv6, and IPv6 is for brackets */
		{ "2001:db8::1", "brackets" }, { "::1", "brackets" }, { "::", "brackets" },
		{ "example.com:443:80", "brackets" },
		{ "[example.com]", "IPv6" }, { "[example.com]:443", "IPv6" },
		{ "[192.0.2.1]", "IPv6" }, { "[*.example.com]", "IPv6" },
		{ "[]", "IPv6" }, { "[", "']'" }, { "[::1", "']'" }, { "[::1]x", "']'" },
		{ "[::1]443", "']'" }, { "[::1]:", "port" }, { "[fe80::1%eth0]", "IPv6" },
		{ "[[::1]]", "']'" }, { "[::1]:443:80", "port" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct allow_entry e;
		char why[120] = "";
		int r = allow_parse(t[i].text, &e, why, sizeof why);
		if (r != -EINVAL)
			fail_msg("'%s' was taken as %s", t[i].text, e.name);
		if (!strstr(why, t[i].why))
			fail_msg("'%s' %s; expected ...%s...", t[i].text, why, t[i].why);
	}
}

static void lengths(void **state)
{
	char name[400], why[120];
	struct allow_entry e;

	(void)state;
	/* four parts of 63 and their dots are 255: one too many is 254 */
	for (size_t n = 250; n <= 300; n++) {
		for (size_t i = 0; i < n; i++)
			name[i] = i % 64 == 63 ? '.' : 'a';
		name[n] = '\0';
		if (name[n - 1] == '.')
			continue;
		int r = allow_parse(name, &e, why, sizeof why);
		if ((r == 0) != (n <= 253))
			fail_msg("a name of %zu characters: %d %s", n, r, why);
		char wild[420];
		snprintf(wild, sizeof wild, "*.%s:443", name);
		r = allow_parse(wild, &e, why, sizeof why);
		if ((r == 0) != (n <= 253))
			fail_msg("a wildcard of %zu characters: %d %s", n, r, why);
	}
	memset(name, 'a', 64);
	strcpy(name + 64, ".example");
	assert_int_equal(allow_parse(name, &e, why, sizeof why), -EINVAL);
	assert_int_equal(allow_parse(name + 1, &e, why, sizeof why), 0);
	/* very long ones do not overflow anything */
	char *huge = malloc(100001);
	assert_non_null(huge);
	memset(huge, 'a', 100000);
	huge[100000] = '\0';
	assert_int_equal(allow_parse(huge, &e, why, sizeof why), -EINVAL);
	huge[0] = '[';
	huge[99999] = ']';
	assert_int_equal(allow_parse(huge, &e, why, sizeof why), -EINVAL);
	free(huge);
}

static bool covers(const char *wide, const char *narrow)
{
	struct allow_entry w = entry(wide), n = entry(narrow);

	return allow_covers(&w, &n);
}

static void coverage(void **state)
{
	static const struct {
		const char *wide, *narrow;
		bool yes;
	} t[] = {
		{ "example.com", "EXAMPLE.com", true },
		{ "example.com", "example.com:443", true },
		{ "example.com", "example.com:80", true },
		{ "example.com", "example.com:80,443", true },
		{ "example.com:443", "example.com", false },
		{ "example.com", "example.com:22", false },
		{ "example.com", "www.example.com", false },
		{ "*.example.com", "www.example.com", true },
		{ "*.example.com", "a.b.example.com", true },
		{ "*.example.com", "example.com", false },
		{ "*.example.com", "badexample.com", false },
		{ "*.example.com", "www.example.com.evil.net", false },
		{ "*.example.com", "*.www.example.com", true },
		{ "*.www.example.com", "*.example.com", false },
		{ "*.example.com:443", "www.example.com", false },
		{ "www.example.com", "*.example.com", false },
		{ "192.0.2.0/24", "192.0.2.7", true },
		{ "192.0.2.0/24", "192.0.2.128/25", true },
		{ "192.0.2.0/25", "192.0.2.0/24", false },
		{ "192.0.2.0/24", "192.0.3.1", false },
		{ "192.0.2.0/24:443", "192.0.2.1:22", false },
		{ "0.0.0.0/0", "203.0.113.9", true },
		{ "0.0.0.0/0", "[2001:db8::1]", false },
		{ "[::/0]", "192.0.2.1", false },
		{ "[2001:db8::/32]", "[2001:db8:1::/48]", true },
		{ "[2001:db8::/33]", "[2001:db8:8000::1]", false },
		/* an address never stands for a name, nor the other way round */
		{ "0.0.0.0/0", "example.com", false },
		{ "example.com", "192.0.2.1", false },
		{ "*.example.com", "192.0.2.1", false },
		{ "@registries", "@registries", true },
		{ "@registries", "example.com", false },
		{ "*.example.com", "@registries", false },
		{ "0.0.0.0/0", "@registries", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		if (covers(t[i].wide, t[i].narrow) != t[i].yes)
			fail_msg("%s covers %s: not %d", t[i].wide, t[i].narrow, t[i].yes);
}

/* An order: reflexive, transitive, and two that cover each other are the same. */
static void coverage_is_an_order(void **state)
{
	static const char *const t[] = {
		"example.com", "example.com:443", "example.com:80,443", "www.example.com",
		"www.example.com:80", "a.www.example.com:443", "*.example.com",
		"*.example.com:443", "*.www.example.com", "*.www.example.com:80",
		"other.example.net", "192.0.2.0/24", "192.0.2.0/25:80", "192.0.2.1",
		"192.0.2.1:80", "0.0.0.0/0", "0.0.0.0/0:80", "[::/0]", "[2001:db8::/32]",
		"[2001:db8::1]:443", "[::ffff:192.0.2.1]", "@registries", "h.example:1,2",
		"h.example:2,1", "h.example:2",
	};
	enum { N = ARRAY_LEN(t) };
	bool c[N][N];
	unsigned pairs = 0;

	(void)state;
	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < N; k++)
			pairs += c[i][k] = covers(t[i], t[k]);
	assert_true(pairs > N); /* the sample says something */
	for (size_t i = 0; i < N; i++) {
		assert_true(c[i][i]);
		for (size_t k = 0; k < N; k++) {
			struct allow_entry a = entry(t[i]), b = entry(t[k]);
			if (i != k && c[i][k] && c[k][i] &&
			    (a.kind != b.kind || !streq(a.name, b.name) ||
			     a.n_ports != b.n_ports))
				fail_msg("%s and %s cover each other", t[i], t[k]);
			for (size_t m = 0; m < N; m++)
				if (c[i][k] && c[k][m] && !c[i][m])
					fail_msg("%s > %s > %s", t[i], t[k], t[m]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_entries),
		cmocka_unit_test(bad_entries),
		cmocka_unit_test(lengths),
		cmocka_unit_test(coverage),
		cmocka_unit_test(coverage_is_an_order),
	};

	return cmocka_run_group_tests_name("allow", tests, NULL, NULL);
}
