/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in for the C library's own in the brig executable, compared with that; and
 * how the kernel's id maps are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/idmap.h"
#include "base/str.h"

#define SMALL_LEN_NAME small_len
#define SMALL_CHR_NAME small_chr
#define SMALL_MEM_NAME small_mem
#include "base/small_find.c"

static unsigned fell_back;
static int counted(char *out, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
#define SMALL_PRINT_NAME small_print
#define SMALL_PRINT_REAL counted
#include "base/small_print.c"

static int counted(char *out, size_t size, const char *fmt, va_list ap)
{
	fell_back++;
	return vsnprintf(out, size, fmt, ap);
}

#if defined(__x86_64__)
/* Two pages, of which the second must not be touched. */
static char *page_with_a_wall(size_t *size)
{
	*size = (size_t)sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, 2 * *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(mprotect(at + *size, *size, PROT_NONE), 0);
	return at;
}

static void finds_what_a_search_finds(void **state)
{
	size_t size;
	char *page = page_with_a_wall(&size);

	(void)state;
	/* every length at every alignment, up to the last byte of the page; what lies
	 * before and behind is what is looked for */
	for (size_t len = 0; len < 80; len++)
		for (size_t shift = 0; shift < 40; shift++) {
			char *s = page + size - 1 - len - shift;
			memset(page + size - 256, 'x', 256);
			memset(s - 40, 0, 40);
			memset(s, 'a', len);
			s[len] = '\0';
			memset(s + len + 1, shift % 2 ? 'x' : 0, shift);
			assert_int_equal(small_len(s), len);
			assert_ptr_equal(small_chr(s, 'x'), s + len);
			assert_ptr_equal(small_chr(s, 0), s + len);
			assert_null(small_mem(s, 'x', len));
			assert_ptr_equal(small_mem(s, 0, len + 1), s + len);
			assert_null(small_mem(s, 0, len));
			for (size_t i = 0; i < len; i++) {
				s[i] = (char)0xE4; /* negative, where char has a sign */
				assert_ptr_equal(small_chr(s, 0xE4), s + i);
				assert_ptr_equal(small_mem(s, 0xE4, len), s + i);
				assert_null(small_mem(s, 0xE4, i));
				/* as strnlen() and some others ask */
				assert_ptr_equal(small_mem(s, 0xE4, SIZE_MAX), s + i);
				s[i] = 'a';
			}
		}
	/* at the very beginning of a page nothing before it is read */
	memset(page, 'a', 64);
	page[64] = '\0';
	assert_int_equal(small_len(page), 64);
	assert_null(small_mem(page, 'a', 0));
	munmap(page, 2 * size);
}
#endif

static void prints(size_t size, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Without the compiler looking at the format: some of them are wrong. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static int small(char *out, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = small_print(out, size, fmt, ap);
	va_end(ap);
	return n;
}
#pragma GCC diagnostic pop

/* The same text, cut in the same place, and nothing behind it. */
static void prints(size_t size, const char *fmt, ...)
{
	char got[256], want[256];
	va_list ap;

	memset(got, '#', sizeof got);
	memset(want, '#', sizeof want);
	va_start(ap, fmt);
	int w = vsnprintf(want, size, fmt, ap);
	va_end(ap);
	va_start(ap, fmt);
	int g = small_print(got, size, fmt, ap);
	va_end(ap);
	assert_int_equal(g, w);
	assert_memory_equal(got, want, sizeof got);
}

static void prints_what_the_library_prints(void **state)
{
	(void)state;
	for (size_t size = 0; size < 100; size++) {
		fell_back = 0;
		prints(size, "no conversion at all");
		prints(size, "%s", "");
		prints(size, "%s/%s", "a directory", "a name");
		prints(size, "/proc/%d/%s", 12345, "ns/user");
		prints(size, "%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
		prints(size, "%u %u", 0u, UINT_MAX);
		prints(size, "%zu %zu", (size_t)0, SIZE_MAX);
		prints(size, "%llu|%llu", 0ull, ULLONG_MAX);
		prints(size, "100%% of %s%%", "it");
		assert_int_equal(fell_back, 0);
		/* not ours: from the beginning, with all arguments */
		prints(size, "%s %016lx %s", "a", 255ul, "b");
		prints(size, "%s=%.3s", "tenant", "abcdef");
		prints(size, "%d %-5d|%5d", 1, 2, 3);
		prints(size, "%s %ld %lu %lld", "x", -1l, 1ul, -2ll);
		prints(size, "%d %c %x %p", 1, 'c', 255u, (void *)0);
		prints(size, "%s %zd %hhu", "x", (ssize_t)-1, (unsigned char)7);
		assert_int_equal(fell_back, 6);
	}
}

static void prints_odd_ones_as_the_library_does(void **state)
{
	const char *nothing = NULL;
	char out[32];

	(void)state;
	fell_back = 0;
	/* what a null pointer looks like is the library's business */
	assert_int_equal(small(out, sizeof out, "%s %s", "a", nothing), 8);
	assert_string_equal(out, "a (null)");
	assert_int_equal(fell_back, 1);
	/* a format may end too early */
	fell_back = 0;
	small(out, sizeof out, "a %");
	assert_int_equal(fell_back, 1);
	small(out, sizeof out, "a ");
	assert_string_equal(out, "a ");
	assert_int_equal(fell_back, 1);
	/* what underflowed is not a size */
	strcpy(out, "untouched");
	fell_back = 0;
	small(out, SIZE_MAX - 3, "%s", "x");
	assert_int_equal(fell_back, 1);
	/* without room nothing is written, not even the end */
	assert_int_equal(small(NULL, 0, "%s-%d", "abc", 12), 6);
}

/* Texts as the kernel writes them, and as nobody should. */
static bool reads(const char *text, struct idmap *m)
{
	char name[] = "/tmp/brig-idmap-XXXXXX";
	cleanup_close int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, text, strlen(text)), 0);
	bool ok = idmap_read(AT_FDCWD, name, m);
	unlink(name);
	return ok;
}

static void id_maps_are_read(void **state)
{
	struct idmap m;

	(void)state;
	assert_true(reads("         0          0 4294967295\n", &m));
	assert_true(m.alone && idmap_is_identity(&m));
	assert_true(reads("      1000 1879055429          1\n", &m));
	assert_true(m.alone && m.inside == 1000 && m.outside == 1879055429 && m.count == 1);
	assert_false(idmap_is_identity(&m));
	assert_true(reads("         0       1000          1\n         1     100000      65536\n", &m));
	assert_true(!m.alone && m.outside == 1000 && !idmap_is_identity(&m));
	/* a part of all ids, or others, is not all of them */
	assert_true(reads("0 0 4294967294\n", &m));
	assert_false(idmap_is_identity(&m));
	assert_true(reads("1 0 4294967295\n", &m));
	assert_false(idmap_is_identity(&m));
	assert_true(reads("0 1 4294967295\n", &m));
	assert_false(idmap_is_identity(&m));
	static const char *const bad[] = { "", "\n", "0\n", "0 0\n", "0 0 \n", "a 0 1\n",
					   "0 0 1", "0 0 1x\n", "-1 0 1\n", "0 0 1 1\n" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(reads(bad[i], &m));
	assert_false(idmap_read(AT_FDCWD, "/nowhere/uid_map", &m));
	/* our own */
	assert_true(idmap_read(AT_FDCWD, "/proc/self/uid_map", &m));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
		cmocka_unit_test(finds_what_a_search_finds),
#endif
		cmocka_unit_test(prints_what_the_library_prints),
		cmocka_unit_test(prints_odd_ones_as_the_library_does),
		cmocka_unit_test(id_maps_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
