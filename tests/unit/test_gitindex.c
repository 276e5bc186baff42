/* SPDX-License-Identifier: Apache-2.0 */
/* Which submodules an index names, by git's own word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "workspace/gitindex.h"

static char dir[] = "/tmp/brig-index-XXXXXX";

__attribute__((format(printf, 1, 2))) static void sh(const char *fmt, ...)
{
	char command[600];
	va_list ap;

	size_t n = (size_t)snprintf(command, sizeof command, "cd %s && ", dir);
	va_start(ap, fmt);
	vsnprintf(command + n, sizeof command - n, fmt, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("%s", command);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(dir + sizeof dir - 7, 7, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	sh("rm -rf %s", dir);
	return 0;
}

static int collect(void *arg, const char *path)
{
	buf_addf(arg, "%s\n", path);
	return 0;
}

/* As git sees it; and where somebody else uses the buffer after each one. */
static int collect_and_spoil(void *arg, const char *path)
{
	struct {
		struct buf *b;
		struct gitindex_work *w;
	} *both = arg;

	buf_addf(both->b, "%s\n", path);
	memset(gitindex_buffer(both->w), 'x', sizeof both->w->buf);
	return 0;
}

static char *read_index(bool spoil)
{
	static struct gitindex_work w;
	struct buf b = { 0 };
	struct {
		struct buf *b;
		struct gitindex_work *w;
	} both = { &b, &w };
	char *path = str_fmt("%s/.git/index", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	gitindex_begin(&w);
	if (spoil)
		assert_int_equal(gitindex_links(fd, &w, collect_and_spoil, &both), 0);
	else
		assert_int_equal(gitindex_links(fd, &w, collect, &b), 0);
	close(fd);
	free(path);
	buf_addc(&b, '\0');
	return buf_take(&b, NULL);
}

static char *git_says(void)
{
	struct buf b = { 0 };
	char line[4200];

	sh("git ls-files -s | sed -n 's/^160000 [0-9a-f]* 0\t//p' >links");
	char *path = str_fmt("%s/links", dir);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		buf_adds(&b, line);
	fclose(f);
	free(path);
	buf_addc(&b, '\0');
	return buf_take(&b, NULL);
}

/* 6,000 entries of all lengths, so that they lie across the ends of the buffer in every way;
 * every seventh names a submodule.  All versions and both hashes. */
static void test_as_git(void **state)
{
	static const char *const formats[] = { "sha1", "sha256" };

	(void)state;
	for (int f = 0; f < 2; f++) {
		sh("rm -rf .git && git init -q --object-format=%s .", formats[f]);
		sh("h=$(echo x | git hash-object -w --stdin); awk -v h=$h 'BEGIN { "
		   "for (i = 0; i < 6000; i++) { n = sprintf(\"d%%d/\", i %% 90); "
		   "for (k = 0; k < i * 7 %% 229; k++) n = n substr(\"abcdefgh\", k %% 8 + 1, 1); "
		   "printf \"%%s %%s\\t%%s%%d\\n\", i %% 7 ? \"100644\" : \"160000\", h, n, i } }' "
		   "| git update-index --index-info");
		for (int version = 2; version <= 4; version++) {
			sh("git update-index --index-version %d", version);
			/* an entry that is extended, and so of version 3 */
			if (version == 3)
				sh("git add -N links 2>/dev/null || { echo >y && git add -N y; }");
			char *want = git_says(), *got = read_index(false),
			     *spoilt = read_index(true);
			assert_true(strlen(want) > 50000);
			assert_string_equal(got, want);
			assert_string_equal(spoilt, want);
			free(want);
			free(got);
			free(spoilt);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_as_git, set_up, tear_down),
	};
	return cmocka_run_group_tests_name("gitindex", tests, NULL, NULL);
}
