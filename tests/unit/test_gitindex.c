/* SPDX-License-Identifier: Apache-2.0 */
/* Which submodules an index names, by git's own word. */
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
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "workspace/gitindex.h"
#include "workspace/gitsafe.h"
#include "workspace/protect.h"

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

static int collect(void *arg, const char *path, bool whole_directory)
{
	assert_false(whole_directory);
	buf_addf(arg, "%s\n", path);
	return 0;
}

/* As git sees it; and where somebody else uses the buffer after each one. */
static int collect_and_spoil(void *arg, const char *path, bool whole_directory)
{
	(void)whole_directory;
	struct {
		struct buf *b;
		struct gitindex_work *w;
	} *both = arg;

	buf_addf(both->b, "%s\n", path);
	memset(gitindex_buffer(both->w), 'x', sizeof both->w->buf);
	return 0;
}

static char *read_index(size_t hash, bool spoil)
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
		assert_int_equal(gitindex_links(fd, hash, &w, collect_and_spoil, &both), 0);
	else
		assert_int_equal(gitindex_links(fd, hash, &w, collect, &b), 0);
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
			char *want = git_says(), *got = read_index(f ? 32 : 20, false),
			     *spoilt = read_index(f ? 32 : 20, true);
			assert_true(strlen(want) > 50000);
			assert_string_equal(got, want);
			assert_string_equal(spoilt, want);
			free(want);
			free(got);
			free(spoilt);
		}
	}
}

static int count_links(void *arg, const char *path, bool whole_directory)
{
	(void)whole_directory;
	assert_true(*path);
	++*(int *)arg;
	return 0;
}

/* What reads well under the other hash is no index of this repository: one that is not
 * quite sound under its own may still be one for git. */
static void test_the_other_hash(void **state)
{
	static const size_t lengths[] = { GITINDEX_SHA1, GITINDEX_SHA256, 0 };
	static const char *const formats[] = { "sha1", "sha256" };
	static struct gitindex_work w;
	int n = 0;

	(void)state;
	for (int f = 0; f < 2; f++) {
		sh("rm -rf .git && git init -q --object-format=%s . && touch a && git add a",
		   formats[f]);
		char *path = str_fmt("%s/.git/index", dir), *config = str_fmt("%s/.git/config", dir);
		int fd = open(path, O_RDONLY | O_CLOEXEC), c = open(config, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0 && c >= 0);
		assert_int_equal(gitsafe_hash(c, w.buf, sizeof w.buf), lengths[f]);
		for (int i = 0; i < 3; i++) {
			gitindex_begin(&w);
			assert_int_equal(gitindex_links(fd, lengths[i], &w, count_links, &n),
					 i == f ? 0 : -EBADMSG);
		}
		close(fd);
		close(c);
		free(path);
		free(config);
	}
	assert_int_equal(n, 0);
}

static int swept(const struct protect *p, int fd)
{
	const struct protect_hooks none = { 0 };

	return protect_sweep(p, fd, &none);
}

/* A sparse index names no submodule of a directory it leaves out.  Git finds them in its
 * objects, and goes into what is there. */
static void test_sparse(void **state)
{
	struct brig_error err = { 0 };
	struct protect p;

	(void)state;
	sh("rm -rf .git ./* && git init -q . && mkdir a b && touch a/f b/f && git add . && "
	   "git -c user.name=a -c user.email=a@b commit -qm x && "
	   "git sparse-checkout init --cone --sparse-index && git sparse-checkout set a && "
	   "test ! -e b && git ls-files -s --sparse | grep -q '^040000.*b/$'");
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(protect_scan(&p, fd, NULL, protect_defaults, "ID", &err), 0);
	assert_int_equal(swept(&p, fd), 0);
	sh("mkdir b");
	assert_int_equal(swept(&p, fd), 1);
	sh("test ! -e .git/index && ls .git/index.brig-denied-ID");
	protect_free(&p);
	close(fd);
}

/* With threads git reads by a table, which has to lead to the same entries. */
static void test_blocks(void **state)
{
	static struct gitindex_work w;
	static const char *const spoil[] = {
		NULL,
		/* the second block begins elsewhere; it has one more; the table is elsewhere */
		"i = d.index(b'IEOT') + 20; d[i + 3] ^= 8",
		"i = d.index(b'IEOT') + 24; d[i + 3] ^= 1",
		"i = d.rindex(b'EOIE') + 8; d[i + 3] ^= 8",
	};
	char *path = str_fmt("%s/.git/index", dir);

	(void)state;
	for (int version = 2; version <= 4; version += 2)
		for (size_t i = 0; i < ARRAY_LEN(spoil); i++) {
			int n = 0;
			sh("rm -rf .git && git init -q . && git config index.threads 3 && "
			   "h=$(echo x | git hash-object -w --stdin) && "
			   "for i in $(seq 40000); do echo \"100644 $h\tf$i\"; done | "
			   "git update-index --index-version %d --index-info && "
			   "grep -q IEOT .git/index && grep -q EOIE .git/index", version);
			if (spoil[i])
				sh("python3 -c \"d = bytearray(open('.git/index', 'rb').read()); %s; "
				   "open('.git/index', 'wb').write(d)\"", spoil[i]);
			int fd = open(path, O_RDONLY | O_CLOEXEC);
			assert_true(fd >= 0);
			gitindex_begin(&w);
			assert_int_equal(gitindex_links(fd, GITINDEX_SHA1, &w, count_links, &n),
					 spoil[i] ? -EBADMSG : 0);
			close(fd);
		}
	free(path);
}

static void put32(struct buf *b, uint32_t v)
{
	const char bytes[] = { (char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v };

	buf_add(b, bytes, 4);
}

/* An entry; in version 4 with so much less of the last name. */
static void put_entry(struct buf *b, int version, uint32_t mode, int strip, const char *name,
		      size_t whole)
{
	static const char zero[64];
	size_t from = b->len;

	buf_add(b, zero, 24);
	put32(b, mode);
	buf_add(b, zero, 12 + 20);
	buf_addc(b, 0);
	buf_addc(b, (char)whole);
	if (version == 4)
		buf_addc(b, (char)strip);
	buf_adds(b, name);
	buf_addc(b, 0);
	while (version < 4 && (b->len - from) % 8)
		buf_addc(b, 0);
}

static int verdict(struct buf *b, int *n)
{
	static struct gitindex_work w;
	int fd = memfd_create("index", MFD_CLOEXEC);

	assert_int_equal(write(fd, b->data, b->len), b->len);
	gitindex_begin(&w);
	*n = 0;
	int r = gitindex_links(fd, GITINDEX_SHA1, &w, count_links, n);
	close(fd);
	buf_free(b);
	*b = (struct buf){ 0 };
	return r;
}

static void head(struct buf *b, uint32_t version, uint32_t count)
{
	buf_adds(b, "DIRC");
	put32(b, version);
	put32(b, count);
}

/* Where git would see other names than those that are written. */
static void test_other_names(void **state)
{
	static const char zero[20];
	struct buf b = { 0 };
	int n;

	(void)state;
	/* a directory's name ends with a slash, or what is in it is put right behind */
	for (int slash = 0; slash < 2; slash++) {
		head(&b, 2, 1);
		put_entry(&b, 2, 0040000, 0, slash ? "s/" : "s", slash ? 2 : 1);
		buf_add(&b, zero, 20);
		assert_int_equal(verdict(&b, &n), slash ? 0 : -EBADMSG);
		assert_int_equal(n, slash);
	}
	/* the first of a block has nothing of the last name */
	for (int strip = 0; strip < 2; strip++) {
		head(&b, 4, 2);
		put_entry(&b, 4, 0100644, 0, "a", 1);
		uint32_t second = (uint32_t)b.len;
		put_entry(&b, 4, 0160000, strip, "sub", strip ? 3 : 4);
		uint32_t first = (uint32_t)b.len;
		buf_adds(&b, "IEOT");
		put32(&b, 20);
		put32(&b, 1);
		put32(&b, 12);
		put32(&b, 1);
		put32(&b, second);
		put32(&b, 1);
		buf_adds(&b, "EOIE");
		put32(&b, 24);
		put32(&b, first);
		buf_add(&b, zero, 20);
		buf_add(&b, zero, 20);
		assert_int_equal(verdict(&b, &n), strip ? 0 : -EBADMSG);
		assert_int_equal(n, 1);
	}
	/* entries do not reach into the checksum, where git looks for extensions */
	for (size_t left = 19; left <= 20; left++) {
		head(&b, 2, 1);
		put_entry(&b, 2, 0100644, 0, "a", 1);
		buf_add(&b, zero, left);
		assert_int_equal(verdict(&b, &n), left == 20 ? 0 : -EBADMSG);
	}
}

/* As git reads a configuration; and what we would have to guess. */
static void test_hash_of(void **state)
{
#define ONE "[core]\nrepositoryformatversion = 1\n"
	static const struct {
		const char *text;
		size_t want;
	} cases[] = {
		{ "", 20 },
		{ "[core]\n\tbare = false\n", 20 },
		{ ONE "[extensions]\n\tobjectformat = sha256\n", 32 },
		{ ONE "[Extensions]\nObjectFormat=sha256", 32 },
		{ ONE "[core] bare = false\n[extensions] objectFormat = sha256 \r\n", 32 },
		/* git goes by SHA-1, or not at all */
		{ "[extensions]\nobjectformat = sha256\n", 0 },
		{ "[core]\nrepositoryformatversion = 0\n[extensions]\nobjectformat = sha256\n", 0 },
		{ ONE "[extensions]\nobjectformat = sha256\n[core]\nrepositoryformatversion = -1\n", 0 },
		{ "[extensions]\nobjectformat = sha1\n", 20 },
		{ ONE "[extensions]\nobjectformat = sha256\nobjectformat = sha1\n", 20 },
		{ "# objectformat = sha256\n[core]\n", 20 },
		{ "[core]\n; [extensions]\n; objectformat = sha256\n", 20 },
		{ "[other]\nobjectformat = sha256\n", 20 },
		{ "[extensions \"x\"]\nobjectformat = sha256\n", 20 },
		{ ONE "[extensions]\nobjectformat = sha512\n", 0 },
		{ ONE "[extensions]\nobjectformat = \"sha256\"\n", 0 },
		{ ONE "[extensions]\nobjectformat\n", 0 },
		{ "[user]\nname = x\\\n[extensions]\nobjectformat = sha256\n", 0 },
		{ "[extensions.x]\nobjectformat = sha256\n", 0 },
	};
	static char large[300000], buf[16384];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (gitsafe_hash_text(cases[i].text, strlen(cases[i].text)) != cases[i].want)
			fail_msg("%s", cases[i].text);
	/* one that is large is of SHA-1 if it does not say anything; the word may lie
	 * across any boundary */
	for (size_t at = 16384 - 12; at <= 16384; at++) {
		int fd = memfd_create("config", MFD_CLOEXEC);
		memset(large, ' ', sizeof large);
		assert_int_equal(write(fd, large, sizeof large), sizeof large);
		assert_int_equal(gitsafe_hash(fd, buf, sizeof buf), 20);
		assert_int_equal(pwrite(fd, "objectformat", 12, (off_t)at), 12);
		assert_int_equal(gitsafe_hash(fd, buf, sizeof buf), 0);
		close(fd);
	}
	assert_int_equal(gitsafe_hash(-1, buf, sizeof buf), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_as_git, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_other_hash, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sparse, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_blocks, set_up, tear_down),
		cmocka_unit_test(test_other_names),
		cmocka_unit_test(test_hash_of),
	};
	return cmocka_run_group_tests_name("gitindex", tests, NULL, NULL);
}
