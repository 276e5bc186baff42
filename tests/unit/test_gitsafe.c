/* SPDX-License-Identifier: Apache-2.0 */
/* What the sweep of protected paths decides by texts alone; the rest of it, on real trees,
 * is in test_protect.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "workspace/gitsafe.h"
#include "workspace/protect_walk.h"

static void test_config_texts(void **state)
{
	static const struct {
		bool safe;
		const char *text;
	} cases[] = {
		{ true, "" },
		{ true, "[core]\n\tbare = false\n\tfilemode\n; x\n# y\n" },
		{ true, "[remote \"o]\\\"x\"]\r\n\turl = https://h/x.git\r\n" },
		{ true, "[branch \"main\"] remote = origin\n" },
		{ true, "[User]\nNAME = A \"quoted\" B\n" },
		{ false, "[core]\n\tfsmonitor = ./x\n" },
		{ false, "[core] hooksPath = x\n" },
		{ false, "[core]\nbare = false\n[core] sshCommand=x" },
		{ false, "[alias]\nst = !x\n" },
		{ false, "[include]\npath = ../x\n" },
		{ false, "[includeIf \"gitdir:.\"]\npath = x\n" },
		{ false, "[filter \"x\"]\nclean = x\n" },
		{ false, "[diff \"x\"]\ncommand = x\n" },
		{ false, "[credential]\nhelper = !x\n" },
		{ false, "[core]\nworktree = /home/u\n" },
		{ false, "[remote \"o\"]\nurl = ext::sh -c x\n" },
		{ false, "[remote \"o\"]\nurl = \"ext:\":sh\n" },
		{ false, "[remote \"o\"]\nurl = e\\\nxt::x\n" },
		{ false, "[remote \"o\"]\nuploadpack = x\n" },
		{ false, "[branch \"m\"]\nremote = ext::x\n" },
		{ false, "[extensions]\npartialclone = o\n" },
		{ false, "[remote \"o\"]\npromisor = true\n" },
		{ false, "[remote \"o\"]\npartialclonefilter = blob:none\n" },
		{ false, "[core.x]\nbare = false\n" },
		{ false, "[core]\nbare = fal\\\nfsmonitor = x\n" },
		{ false, "[core]\rfsmonitor = x\n" },
		{ false, "bare = false\n" },
		{ false, "[core\nbare = false\n" },
		{ false, "[core \"x]\nbare = false\n" },
		{ false, "\xef\xbb\xbf[core]\nbare = false\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		if (gitsafe_config_text(cases[i].text, strlen(cases[i].text)) !=
		    cases[i].safe)
			fail_msg("case %zu: %s", i, cases[i].text);
	assert_false(gitsafe_config_text("[core]\nbare\0=x", 14));
}

static void test_resolve(void **state)
{
	static const struct {
		const char *base, *target, *out;
	} cases[] = {
		{ "", ".real", ".real" },
		{ "a/b", "../../.git/modules/x", ".git/modules/x" },
		{ "a", "/ws/c/./d//e", "c/d/e" },
		{ "a", "/wsx/c", NULL },
		{ "a", "../../c", NULL },
		{ "a", "..", "" },
	};
	char out[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		bool ok = protect_resolve("/ws", cases[i].base, cases[i].target, out);
		assert_int_equal(ok, cases[i].out != NULL);
		if (ok)
			assert_string_equal(out, cases[i].out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config_texts),
		cmocka_unit_test(test_resolve),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
