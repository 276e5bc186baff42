/* SPDX-License-Identifier: Apache-2.0 */
/* Which names a directory certainly does not have: what a listing may be taken to say, and
 * where nothing may be concluded from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "workspace/protect.h"
#include "workspace/protect_names.h"

struct dir {
	char path[64];
	int fd;
	struct protect_names names;
};

static int set_up(void **state)
{
	struct dir *d = calloc(1, sizeof *d);

	assert_non_null(d);
	*state = d;
	snprintf(d->path, sizeof d->path, "/tmp/brig-names-XXXXXX");
	assert_non_null(mkdtemp(d->path));
	d->fd = open(d->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(d->fd >= 0);
	return 0;
}

static int tear_down(void **state)
{
	struct dir *d = *state;
	char command[128];

	close(d->fd);
	snprintf(command, sizeof command, "rm -rf %s", d->path);
	assert_int_equal(system(command), 0);
	free(d);
	return 0;
}

static void make(const struct dir *d, const char *name)
{
	int fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

/* Elsewhere nothing is concluded, and there is nothing to try. */
static void need_known_fs(const struct dir *d)
{
	static const unsigned known[] = { 0xEF53, 0x58465342, 0x9123683E, 0x01021994 };
	struct statfs fs;

	assert_int_equal(statfs(d->path, &fs), 0);
	if (fs.f_bsize > 16384) {
		print_message("SKIP: every directory of /tmp is larger than what is listed\n");
		skip();
	}
	for (size_t i = 0; i < 4; i++)
		if ((unsigned)fs.f_type == known[i])
			return;
	print_message("SKIP: /tmp is a file system whose listings are not relied upon\n");
	skip();
}

static bool lacks(struct dir *d, const char *name)
{
	protect_names_read(&d->names, d->fd);
	return protect_names_lack(&d->names, name);
}

static void test_empty(void **state)
{
	struct dir *d = *state;

	need_known_fs(d);
	assert_true(lacks(d, ".git"));
	assert_true(lacks(d, "HEAD"));
	/* what every directory has */
	assert_false(lacks(d, "."));
	assert_false(lacks(d, ".."));
}

static void test_there_and_not(void **state)
{
	static const char *const there[] = { ".git", "a", ".envrc.old", "README.md" };
	struct dir *d = *state;

	need_known_fs(d);
	for (size_t i = 0; i < 4; i++)
		make(d, there[i]);
	for (size_t i = 0; i < 4; i++)
		assert_false(lacks(d, there[i]));
	assert_true(lacks(d, ".envrc"));
	assert_true(lacks(d, ".gi"));
	assert_true(lacks(d, ".gitt"));
	assert_true(lacks(d, ".vscode"));
	assert_int_equal(unlinkat(d->fd, ".git", 0), 0);
	assert_true(lacks(d, ".git"));
}

/* On a file system that takes them for the same it would be found by name. */
static void test_other_case(void **state)
{
	struct dir *d = *state;

	need_known_fs(d);
	make(d, ".GIT");
	make(d, "head");
	assert_false(lacks(d, ".git"));
	assert_false(lacks(d, "HEAD"));
	assert_true(lacks(d, ".envrc"));
}

/* Letters that fold to plain ones, and signs that are passed over. */
static void test_other_letters(void **state)
{
	static const char *const strange[] = { ".g\xe2\x80\x8cit", ".\xef\xbd\x87it",
					       "\xff", "\xc3\xa4" };
	struct dir *d = *state;

	need_known_fs(d);
	for (size_t i = 0; i < 4; i++) {
		make(d, strange[i]);
		assert_false(lacks(d, ".git"));
		assert_false(lacks(d, "no such thing"));
		assert_int_equal(unlinkat(d->fd, strange[i], 0), 0);
		assert_true(lacks(d, ".git"));
	}
}

/* And the other way round: who asks for such a name is not told that it is absent. */
static void test_asked_for_other_letters(void **state)
{
	struct dir *d = *state;

	need_known_fs(d);
	make(d, "k");
	assert_true(lacks(d, "j"));
	assert_false(lacks(d, "\xe2\x84\xaa")); /* KELVIN SIGN */
	assert_false(lacks(d, "\xc5\xbf"));
}

/* It is not read as a whole, for the next to nothing that is in it. */
static void test_was_large_once(void **state)
{
	struct dir *d = *state;
	struct statfs fs;
	struct stat st;
	char name[256];

	need_known_fs(d);
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < 400; i++) {
			snprintf(name, sizeof name, "%0240d", i);
			if (pass == 0)
				make(d, name);
			else
				assert_int_equal(unlinkat(d->fd, name, 0), 0);
		}
	assert_int_equal(stat(d->path, &st), 0);
	assert_int_equal(statfs(d->path, &fs), 0);
	if (st.st_size <= 16384) { /* of the others, ext4 is the one that stays large */
		assert_int_not_equal(fs.f_type, 0xEF53);
		assert_true(lacks(d, ".git"));
	} else {
		assert_false(lacks(d, ".git"));
	}
}

/* One listing, or none: with every number of names around what it has room for. */
static void test_many(void **state)
{
	struct dir *d = *state;
	char name[24];
	int known = 0, unknown = 0;

	need_known_fs(d);
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "some-name-%04d", i);
		make(d, name);
		/* whatever is concluded, it is never that a name is not there */
		assert_false(lacks(d, name));
		assert_false(lacks(d, "some-name-0000"));
		if (lacks(d, ".git")) {
			assert_int_equal(unknown, 0);
			known++;
		} else {
			unknown++;
		}
	}
	assert_true(known > 50);
	assert_true(unknown > 50);
}

/* Where names can be looked up that are not listed. */
static void test_other_file_systems(void **state)
{
	struct protect_names names;

	(void)state;
	int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	protect_names_read(&names, fd);
	assert_false(protect_names_lack(&names, "no such thing"));
	close(fd);
}

static void test_cannot_list(void **state)
{
	struct dir *d = *state;

	protect_names_read(&d->names, -1);
	assert_false(protect_names_lack(&d->names, ".git"));
	if (geteuid() == 0)
		return; /* root may */
	assert_int_equal(chmod(d->path, 0300), 0);
	assert_false(lacks(d, ".git"));
	assert_int_equal(chmod(d->path, 0700), 0);
}

/* The time of the last access is not changed. */
static void test_no_trace(void **state)
{
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	struct dir *d = *state;
	struct stat st;

	need_known_fs(d);
	assert_int_equal(utimensat(AT_FDCWD, d->path, old, 0), 0);
	assert_true(lacks(d, ".git"));
	assert_int_equal(stat(d->path, &st), 0);
	assert_int_equal(st.st_atim.tv_sec, 1000000000);
}

/* What a scan records, as text. */
static char *recorded(const struct dir *d, const char *const *patterns)
{
	struct brig_error err = { 0 };
	struct protect p;
	char *text = calloc(1, 1), *more;

	assert_int_equal(protect_scan(&p, d->fd, NULL, patterns, "ID", &err), 0);
	for (size_t i = 0; i < p.n; i++) {
		more = str_fmt("%s%s %d %d;", text, p.v[i].path, p.v[i].kind, p.v[i].check);
		free(text);
		text = more;
	}
	protect_free(&p);
	return text;
}

/* A scan says the same whether it has the names or has to ask, of patterns that are odd as
 * well; in a directory that has none of them, and in one that has some. */
static void test_a_scan_says_the_same(void **state)
{
	static const char *const odd[] = {
		"a//b", "b/", "c/./d", "./e", "f..g/h", "f/g..h", "j/*/k", "l*", "m",
		"n/o/p", "q", "q/r", ".git/config", ".git/hooks", ".git/modules/*/config", "HEAD",
		".", "s//", "t/u/", NULL,
	};
	const char *const *const lists[] = { odd, protect_defaults };
	struct dir *d = *state;

	need_known_fs(d);
	for (int there = 0; there < 2; there++) {
		char *with[2];
		for (int i = 0; i < 2; i++)
			with[i] = recorded(d, lists[i]);
		protect_names_read(&d->names, d->fd);
		assert_true(d->names.n > 0);
		make(d, "\xc3\xa4"); /* so that nothing is concluded */
		protect_names_read(&d->names, d->fd);
		assert_int_equal(d->names.n, 0);
		for (int i = 0; i < 2; i++) {
			char *asked = recorded(d, lists[i]);
			assert_string_equal(with[i], asked);
			assert_non_null(strstr(asked, "HEAD "));
			free(asked);
			free(with[i]);
		}
		assert_int_equal(unlinkat(d->fd, "\xc3\xa4", 0), 0);
		if (there)
			break;
		make(d, "q");
		make(d, ".bashrc");
		assert_int_equal(mkdirat(d->fd, "n", 0700), 0);
		assert_int_equal(mkdirat(d->fd, "b", 0700), 0);
		assert_int_equal(mkdirat(d->fd, ".git", 0700), 0);
		make(d, ".git/config");
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_empty),
		TEST(test_there_and_not),
		TEST(test_other_case),
		TEST(test_other_letters),
		TEST(test_asked_for_other_letters),
		TEST(test_was_large_once),
		TEST(test_many),
		cmocka_unit_test(test_other_file_systems),
		TEST(test_cannot_list),
		TEST(test_no_trace),
		TEST(test_a_scan_says_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
