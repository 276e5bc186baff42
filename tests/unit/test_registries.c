/* SPDX-License-Identifier: Apache-2.0 */
/* @registries: host names out of other programs' settings, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "policy/registries.h"

static void hosts_of_urls(void **state)
{
	static const struct {
		const char *url, *host; /* NULL: none */
	} t[] = {
		{ "https://mirror.example/simple", "mirror.example:443" },
		{ "http://mirror.example", "mirror.example:80" },
		{ "https://mirror.example:8443/x", "mirror.example:8443" },
		{ "https://user:se@cret@mirror.example/x", "mirror.example:443" },
		{ "sparse+https://index.example/", "index.example:443" },
		{ "https://MIRROR.example", "MIRROR.example:443" },
		{ "https://10.0.0.1/simple", NULL }, /* an address has to be written out */
		{ "https://[::1]/", NULL },
		{ "https://*.example.com/", NULL },
		{ "https:///x", NULL },
		{ "https://host.example:0/", NULL },
		{ "https://host.example:99999/", NULL },
		{ "https://host.example./", NULL },
		{ "ftp://host.example/", NULL },
		{ "direct", NULL },
		{ "", NULL },
	};
	char out[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		int r = registries_host(t[i].url, out, sizeof out);
		if (!t[i].host && r == 0)
			fail_msg("'%s' gave %s", t[i].url, out);
		if (t[i].host && (r < 0 || !streq(out, t[i].host)))
			fail_msg("'%s' gave %s", t[i].url, r < 0 ? "nothing" : out);
	}
	/* a small buffer is no overflow and no cut name */
	assert_true(registries_host("https://mirror.example/", out, 8) < 0);
}

static const char *env(const char *name)
{
	return streq(name, "GOPROXY") ? "https://go.example|https://two.example,direct" :
	       streq(name, "PIP_INDEX_URL") ? "https://tok:en@pip.example/simple" : NULL;
}

static void put(const char *dir, const char *name, const char *text, mode_t mode)
{
	char path[200];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static bool has(char **v, const char *word)
{
	for (; v && *v; v++)
		if (streq(*v, word))
			return true;
	return false;
}

static void settings_are_read(void **state)
{
	char dir[] = "/tmp/brig-registries-XXXXXX", sub[64], cmd[100];
	char **out = NULL;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(sub, sizeof sub, "%s/.cargo", dir);
	assert_int_equal(mkdir(sub, 0700), 0);
	put(dir, ".npmrc", "//npm.example/:_authToken=hunter2\n# registry=https://no.example\n"
			   "registry = https://npm.example/\n@my:registry=https://scope.example\n",
	    0600);
	put(sub, "config.toml", "[source.x]\nregistry = \"sparse+https://cargo.example/\"\n", 0644);
	put(dir, ".yarnrc.yml", "npmRegistryServer: \"https://evil.example\"\n", 0646);
	assert_int_equal(registries_find(dir, env, &out), 0);
	assert_true(has(out, "npm.example:443"));
	assert_true(has(out, "scope.example:443"));
	assert_true(has(out, "cargo.example:443"));
	assert_true(has(out, "go.example:443") && has(out, "two.example:443"));
	assert_true(has(out, "pip.example:443"));
	assert_false(has(out, "no.example:443"));
	assert_false(has(out, "evil.example:443")); /* anybody can write that file */
	for (char **v = out; *v; v++)
		assert_null(strstr(*v, "hunter"));
	strv_free(out);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
	assert_int_equal(system(cmd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_of_urls),
		cmocka_unit_test(settings_are_read),
	};

	return cmocka_run_group_tests_name("registries", tests, NULL, NULL);
}
