/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/base: errors, buffers, the JSON writer, numbers, paths, text for
 * people, vectors, ids and whole reads.  Tables where the subject is a
 * function of its input; jansson as the second opinion on JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "base/str.h"
#include "base/timed.h"

static void err_code_names(void **state)
{
	static const char *const names[] = {
#define X(name, text) #name,
		BRIG_ERROR_CODES(X)
#undef X
	};
	(void)state;
	assert_int_equal(ARRAY_LEN(names), BRIG_E__COUNT);
	assert_int_equal(BRIG_E_OK, 0);
	for (unsigned i = 0; i < BRIG_E__COUNT; i++) {
		const char *n = brig_code_name((enum brig_code)i);
		assert_string_equal(n, names[i]);
		assert_int_equal(strspn(n, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), strlen(n));
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(n, names[j]);
	}
	assert_string_equal(brig_code_name(BRIG_E__COUNT), "INTERNAL");
	assert_string_equal(brig_code_name((enum brig_code)9999), "INTERNAL");
}

static void err_fills_and_returns(void **state)
{
	struct brig_error e;
	char big[2000];

	(void)state;
	assert_int_equal(err_set(&e, BRIG_E_BAD_FD, EBADF, "policy", "fd %d", 7), -EBADF);
	assert_int_equal(e.code, BRIG_E_BAD_FD);
	assert_int_equal(e.errnum, EBADF);
	assert_string_equal(e.phase, "policy");
	assert_string_equal(e.message, "fd 7: Bad file descriptor");
	assert_string_equal(e.fix, "");
	err_fix(&e, "open %d", 7);
	assert_string_equal(e.fix, "open 7");

	/* no errno: no text after the message, and the old fix is gone */
	assert_int_equal(err_set(&e, BRIG_E_BAD_VALUE, 0, "p", "x"), -EINVAL);
	assert_string_equal(e.message, "x");
	assert_string_equal(e.fix, "");

	/* nobody to tell */
	assert_int_equal(err_set(NULL, BRIG_E_INTERNAL, ENOMEM, "p", "x"), -ENOMEM);
	err_fix(NULL, "x");

	/* too long is cut, never overrun */
	memset(big, 'a', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	assert_int_equal(err_set(&e, BRIG_E_INTERNAL, EIO, big, "%s", big), -EIO);
	assert_int_equal(strlen(e.message), sizeof e.message - 1);
	assert_int_equal(strlen(e.phase), sizeof e.phase - 1);
	err_fix(&e, "%s", big);
	assert_int_equal(strlen(e.fix), sizeof e.fix - 1);
}

static void buf_grows(void **state)
{
	cleanup_buf struct buf b = { 0 };
	size_t len;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		buf_addc(&b, 'a');
		buf_adds(&b, "bc");
		buf_addf(&b, "%05d", i);
		buf_add(&b, "\0\n", 2);
	}
	assert_true(buf_ok(&b));
	assert_int_equal(b.len, 5000 * 10);
	assert_true(b.cap >= b.len && b.cap <= 4 * b.len);
	cleanup_free char *text = buf_take(&b, &len);
	assert_int_equal(len, 50000);
	assert_int_equal(text[len], '\0');
	for (int i = 0; i < 5000; i++) {
		char want[16];
		snprintf(want, sizeof want, "abc%05d", i);
		assert_memory_equal(text + i * 10, want, 8);
	}
	/* taken: empty and usable again */
	assert_null(b.data);
	buf_add(&b, NULL, 0);
	cleanup_free char *none = buf_take(&b, NULL);
	assert_string_equal(none, "");
}

static void buf_failure_is_sticky(void **state)
{
	struct buf b = { 0 };
	volatile size_t huge = SIZE_MAX / 2;
	size_t len = 99;

	(void)state;
	buf_adds(&b, "before");
	buf_add(&b, "x", huge); /* refused before anything is copied */
	assert_false(buf_ok(&b));
	buf_adds(&b, "after");
	buf_addf(&b, "%d", 1);
	assert_int_equal(b.len, 6);
	assert_null(buf_take(&b, &len));
	assert_int_equal(len, 99);
	assert_null(b.data); /* nothing left to free */
	assert_true(buf_ok(&b));
}

static json_t *parsed(struct buf *b)
{
	json_error_t e;
	size_t len;
	cleanup_free char *text = buf_take(b, &len);

	assert_non_null(text);
	json_t *v = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES |
			       JSON_ALLOW_NUL, &e);
	if (!v)
		fail_msg("%s at %d in %s", e.text, e.position, text);
	return v;
}

static void json_escapes(void **state)
{
	struct buf b = { 0 };
	struct json j;
	char all[0x80];

	(void)state;
	for (int i = 0; i < 0x80; i++)
		all[i] = (char)i;
	jw_init(&j, &b);
	jw_bytes(&j, all, sizeof all);
	json_t *v = parsed(&b);
	assert_int_equal(json_string_length(v), sizeof all);
	assert_memory_equal(json_string_value(v), all, sizeof all);
	json_decref(v);

	jw_init(&j, &b);
	jw_string(&j, "\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9");
	cleanup_free char *text = buf_take(&b, NULL);
	assert_string_equal(text, "\"\\\"\\\\/\\u0008\\u000c\\n\\r\\t\\u0001\\u001f"
				  "\x7f\xc3\xa9\"");
}

static void json_nests(void **state)
{
	struct buf b = { 0 };
	struct json j;

	(void)state;
	jw_init(&j, &b);
	jw_object(&j);
	jw_key(&j, "empty");
	jw_object(&j);
	jw_end_object(&j);
	jw_key(&j, "list");
	jw_array(&j);
	jw_int(&j, INT64_MIN);
	jw_uint(&j, UINT64_MAX);
	jw_fixed(&j, 1.24, 1);
	jw_bool(&j, true);
	jw_bool(&j, false);
	jw_null(&j);
	jw_string(&j, NULL);
	jw_array(&j);
	jw_end_array(&j);
	jw_end_array(&j);
	jw_key(&j, "k\"ey");
	jw_string(&j, "");
	jw_end_object(&j);
	cleanup_free char *text = buf_take(&b, NULL);
	assert_string_equal(text,
			    "{\"empty\":{},\"list\":[-9223372036854775808,"
			    "18446744073709551615,1.2,true,false,null,null,[]],"
			    "\"k\\\"ey\":\"\"}");
}

static void json_base64(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *base64; /* NULL: good text */
	} t[] = {
		{ "\xff", 1, "/w==" },
		{ "\xff\xfe", 2, "//4=" },
		{ "\xff\xfe\xfd", 3, "//79" },
		{ "a\0\xff" "b", 4, "YQD/Yg==" },
		{ "\xed\xa0\x80", 3, "7aCA" },         /* surrogate */
		{ "\xed\xbf\xbf", 3, "7b+/" },         /* the last of them */
		{ "\xc0\x80", 2, "wIA=" },             /* overlong NUL */
		{ "\xc1\xbf", 2, "wb8=" },
		{ "\xe0\x80\xaf", 3, "4ICv" },         /* overlong slash */
		{ "\xe0\x9f\xbf", 3, "4J+/" },
		{ "\xf0\x8f\xbf\xbf", 4, "8I+/vw==" },
		{ "\xf4\x90\x80\x80", 4, "9JCAgA==" }, /* above U+10FFFF */
		{ "\xf5\x80\x80\x80", 4, "9YCAgA==" },
		{ "\x80", 1, "gA==" },                 /* lone continuation */
		{ "\xc3", 1, "ww==" },                 /* cut short */
		{ "\xe2\x82", 2, "4oI=" },
		{ "\xf0\x9f\x98", 3, "8J+Y" },
		{ "\xc3(", 2, "wyg=" },
		{ "", 0, NULL },
		{ "\xed\x9f\xbf\xee\x80\x80", 6, NULL }, /* around the surrogates */
		{ "\xc2\x80\xe0\xa0\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 13, NULL },
		{ "\xef\xbf\xbf\xef\xbb\xbf", 6, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct buf b = { 0 };
		struct json j;
		jw_init(&j, &b);
		jw_bytes(&j, t[i].bytes, t[i].len);
		json_t *v = parsed(&b);
		assert_int_equal(utf8_valid(t[i].bytes, t[i].len), !t[i].base64);
		if (t[i].base64) {
			assert_int_equal(json_object_size(v), 1);
			assert_string_equal(
				json_string_value(json_object_get(v, "base64")),
				t[i].base64);
		} else {
			assert_int_equal(json_string_length(v), t[i].len);
			assert_memory_equal(json_string_value(v), t[i].bytes, t[i].len);
		}
		json_decref(v);
	}
}

static void json_depth_is_limited(void **state)
{
	struct buf b = { 0 };
	struct json j;
	const int levels = (int)ARRAY_LEN(j.first);

	(void)state;
	jw_init(&j, &b);
	for (int i = 1; i < levels; i++)
		jw_array(&j);
	assert_true(buf_ok(&b));
	for (int i = 1; i < levels; i++)
		jw_end_array(&j);
	json_decref(parsed(&b));

	jw_init(&j, &b);
	for (int i = 0; i < 1000; i++)
		jw_object(&j);
	assert_false(buf_ok(&b));
	assert_null(buf_take(&b, NULL));

	jw_init(&j, &b);
	jw_array(&j);
	jw_end_array(&j);
	jw_end_array(&j); /* one too many */
	assert_null(buf_take(&b, NULL));
}

struct num {
	const char *text;
	int r;
	uint64_t v;
};

static void numbers_size(void **state)
{
	static const struct num t[] = {
		{ "0", 0, 0 }, { "4096", 0, 4096 }, { "1B", 0, 1 },
		{ "1K", 0, 1024 }, { "1k", 0, 1024 }, { "1KB", 0, 1024 },
		{ "1KiB", 0, 1024 }, { "512M", 0, 512ull << 20 },
		{ "1.5G", 0, 3ull << 29 }, { "2T", 0, 2ull << 40 },
		{ "0.5K", 0, 512 }, { "1.0", 0, 1 }, { "007", 0, 7 },
		{ "8388607T", 0, 8388607ull << 40 },
		{ "", -EINVAL, 0 }, { "-1", -EINVAL, 0 }, { "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 }, { "1 ", -EINVAL, 0 }, { "1e9", -EINVAL, 0 },
		{ "12X", -EINVAL, 0 }, { "1.", -EINVAL, 0 }, { ".5", -EINVAL, 0 },
		{ "1.5.5", -EINVAL, 0 }, { "1iB", -EINVAL, 0 }, { "1Ki", -EINVAL, 0 },
		{ "1KK", -EINVAL, 0 }, { "1KBB", -EINVAL, 0 }, { "1BK", -EINVAL, 0 },
		{ "K", -EINVAL, 0 }, { "0x10", -EINVAL, 0 }, { "nan", -EINVAL, 0 },
		{ "inf", -EINVAL, 0 }, { "1,5G", -EINVAL, 0 }, { "1\n", -EINVAL, 0 },
		{ "8388608T", -ERANGE, 0 },
		{ "18446744073709551615", -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999999999999999999T", -ERANGE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		uint64_t v = 12345;
		int r = parse_size(t[i].text, &v);
		if (r != t[i].r || v != (r ? 12345 : t[i].v))
			fail_msg("parse_size '%s': %d, %llu", t[i].text, r,
				 (unsigned long long)v);
	}
}

static void numbers_uint(void **state)
{
	static const struct num t[] = {
		{ "0", 0, 0 }, { "00", 0, 0 }, { "1000", 0, 1000 },
		{ "1001", -ERANGE, 0 }, { "", -EINVAL, 0 }, { "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 }, { "1e9", -EINVAL, 0 }, { "12X", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 }, { " 1", -EINVAL, 0 }, { "1K", -EINVAL, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "184467440737095516160000", -ERANGE, 0 },
	};
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		v = 12345;
		int r = parse_uint(t[i].text, 1000, &v);
		if (r != t[i].r || v != (r ? 12345 : t[i].v))
			fail_msg("parse_uint '%s': %d", t[i].text, r);
	}
	assert_int_equal(parse_uint("18446744073709551615", UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
}

static void numbers_milli(void **state)
{
	static const struct num t[] = {
		{ "1", 0, 1000 }, { "0.5", 0, 500 }, { "2.25", 0, 2250 },
		{ "0", 0, 0 }, { "0.000", 0, 0 }, { "1.0000000000", 0, 1000 },
		{ "0.001", 0, 1 }, { "100", 0, 100000 }, { "99.999", 0, 99999 },
		{ "100.001", -ERANGE, 0 }, { "", -EINVAL, 0 }, { "-1", -EINVAL, 0 },
		{ "1e9", -EINVAL, 0 }, { "12X", -EINVAL, 0 }, { "1.", -EINVAL, 0 },
		{ ".5", -EINVAL, 0 }, { "1.5G", -EINVAL, 0 }, { "1KiB", -EINVAL, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "18446744073709551615.999", -ERANGE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		uint64_t v = 12345;
		int r = parse_milli(t[i].text, 100000, &v);
		if (r != t[i].r || v != (r ? 12345 : t[i].v))
			fail_msg("parse_milli '%s': %d, %llu", t[i].text, r,
				 (unsigned long long)v);
	}
}

/* Zero means "no limit" to every caller, so a little must not become nothing. */
static void numbers_a_little_is_not_zero(void **state)
{
	static const char *const tiny[] = { "0.0001", "0.0009", "0.00000000001" };
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tiny); i++) {
		v = 1;
		if (parse_milli(tiny[i], 1000, &v) == 0 && v == 0)
			fail_msg("parse_milli '%s' is 0", tiny[i]);
	}
	v = 1;
	if (parse_size("0.9", &v) == 0 && v == 0)
		fail_msg("parse_size '0.9' is 0");
}

static void paths_normalise(void **state)
{
	static const struct {
		const char *in, *out;
	} t[] = {
		{ "/", "/" }, { "//", "/" }, { "/.", "/" }, { "/./", "/" },
		{ "/a", "/a" }, { "/a/", "/a" }, { "//a///b//", "/a/b" },
		{ "/a/./b/.", "/a/b" }, { "/...", "/..." }, { "/.a/..b", "/.a/..b" },
		{ "/a b\n", "/a b\n" },
		{ "", NULL }, { "a", NULL }, { "./a", NULL }, { "/..", NULL },
		{ "/a/..", NULL }, { "/a/../b", NULL }, { "..", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		char *out = NULL;
		int r = path_normalise(t[i].in, &out);
		assert_int_equal(r, t[i].out ? 0 : -EINVAL);
		if (t[i].out)
			assert_string_equal(out, t[i].out);
		else
			assert_null(out);
		free(out);
	}
	assert_true(path_is_under("/a", "/a") && path_is_under("/a/b", "/a"));
	assert_true(path_is_under("/a/b", "/") && path_is_under("/", "/"));
	assert_false(path_is_under("/ab", "/a") || path_is_under("/a", "/a/b"));
	assert_false(path_is_under("/", "/a") || path_is_under("a", "/"));
}

static void text_printable(void **state)
{
	static const struct {
		const char *in, *out;
	} t[] = {
		{ "", "" }, { "plain ~", "plain ~" }, { "\xc3\xa9\xe2\x82\xac", "\xc3\xa9\xe2\x82\xac" },
		{ "\033[31m", "\\x1b[31m" }, { "a\nb\tc\r", "a\\x0ab\\x09c\\x0d" },
		{ "\x7f", "\\x7f" },
		{ "\xc2\xa0", "\xc2\xa0" },        /* the first after C1 */
		{ "\xff\xc3\xa9", "\\xff\xc3\xa9" }, /* only what is broken is escaped */
		{ "\x9b" "31m", "\\x9b31m" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		cleanup_free char *out = str_printable(t[i].in);
		assert_string_equal(out, t[i].out);
	}
}

/* Whatever goes in, what comes out is UTF-8 without any control character. */
static void text_printable_controls_nothing(void **state)
{
	(void)state;
	for (unsigned c = 0x80; c < 0xa0; c++) {
		char in[] = { 'a', (char)0xc2, (char)c, '3', '1', 'm', '\0' };
		cleanup_free char *out = str_printable(in);
		size_t len = strlen(out);
		if (!utf8_valid(out, len))
			fail_msg("U+%04X leaves a raw byte behind", c);
		for (size_t i = 0; i < len; i++)
			assert_true((unsigned char)out[i] >= 0x20 && out[i] != 0x7f);
		assert_null(strstr(out, in + 1));
	}
}

static void strv_to_ten_thousand(void **state)
{
	char **v = NULL;
	char text[16];

	(void)state;
	assert_int_equal(strv_take(&v, NULL), -ENOMEM);
	assert_null(v);
	for (int i = 0; i < 10000; i++) {
		snprintf(text, sizeof text, "%d", i);
		assert_int_equal(strv_add(&v, text), 0);
	}
	assert_int_equal(strv_len(v), 10000);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(atoi(v[i]), i);
	assert_null(v[10000]);
	strv_free(v);
	strv_free(NULL);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Long vectors are made without counting again for each. */
static void strv_put_and_append(void **state)
{
	static const char *const more[] = { "b", "c", NULL }, *const none[] = { NULL };
	char **v = NULL;
	size_t n = 0;

	(void)state;
	assert_int_equal(strv_put(&v, &n, NULL), -ENOMEM);
	assert_int_equal(n, 0);
	assert_null(v);
	assert_int_equal(strv_append(&v, NULL), 0);
	assert_int_equal(strv_append(&v, none), 0);
	assert_null(v);
	assert_int_equal(strv_put(&v, &n, strdup("a")), 0);
	assert_int_equal(strv_append(&v, more), 0);
	n = strv_len(v);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < 5000; i++)
		assert_int_equal(strv_put(&v, &n, strdup("x")), 0);
	assert_int_equal(n, 5003);
	assert_int_equal(strv_len(v), 5003);
	assert_string_equal(v[0], "a");
	assert_string_equal(v[2], "c");
	assert_string_equal(v[5002], "x");
	strv_free(v);
}

static void ids(void **state)
{
	enum { N = 10000 };
	char (*id)[27] = calloc(N, sizeof *id);
	char later[27];

	(void)state;
	assert_non_null(id);
	for (int i = 0; i < N; i++) {
		id_make(id[i]);
		assert_int_equal(strspn(id[i], "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), 26);
		assert_int_equal(id[i][26], '\0');
		assert_true(id[i][0] <= '7'); /* 128 bits in 130 */
		if (i) /* the time part never runs backwards */
			assert_true(strncmp(id[i - 1], id[i], 10) <= 0);
	}
	nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
	id_make(later);
	assert_true(strcmp(id[N - 1], later) < 0);
	qsort(id, N, sizeof *id, by_text);
	for (int i = 1; i < N; i++)
		assert_string_not_equal(id[i - 1], id[i]);
	free(id);
}

static int file_of(size_t size)
{
	int fd = memfd_create("t", MFD_CLOEXEC);

	assert_true(fd >= 0);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(write(fd, i % 3 ? "x" : "\0", 1), 1);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void fd_reads_whole_files(void **state)
{
	static const size_t sizes[] = { 0, 1, 8190, 8191, 8192, 8193, 20000 };
	size_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		cleanup_close int fd = file_of(sizes[i]);
		char *data = NULL;
		len = 77;
		assert_int_equal(fd_read_all(fd, sizes[i], &data, &len), 0);
		assert_int_equal(len, sizes[i]);
		assert_int_equal(data[len], '\0');
		for (size_t k = 0; k < len; k++)
			assert_int_equal(data[k], k % 3 ? 'x' : '\0');
		free(data);
		data = NULL;
		if (!sizes[i])
			continue;
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_int_equal(fd_read_all(fd, sizes[i] - 1, &data, &len), -EFBIG);
		assert_null(data);
	}
	char *data = NULL;
	cleanup_close int dir = open("/", O_RDONLY | O_CLOEXEC);
	cleanup_close int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fd_read_all(-1, 10, &data, &len), -EBADF);
	assert_int_equal(fd_read_all(dir, 10, &data, &len), -EISDIR);
	assert_int_equal(fd_read_all(zero, 1 << 20, &data, &len), -EFBIG);
	assert_null(data);
}

static void fd_small_helpers(void **state)
{
	char text[8];
	int p[2], mine = 5;

	(void)state;
	assert_int_equal(take_fd(&mine), 5);
	assert_int_equal(mine, -1);
	fd_close(&mine);
	assert_int_equal(fd_read_at(AT_FDCWD, "/dev/zero", text, sizeof text), 7);
	assert_int_equal(text[7], '\0');
	assert_int_equal(fd_read_at(AT_FDCWD, "/dev/null", text, sizeof text), 0);
	assert_int_equal(fd_read_at(AT_FDCWD, "/nonexistent", text, sizeof text), -ENOENT);
	assert_int_equal(fd_write_at(AT_FDCWD, "/nonexistent", "x"), -ENOENT);
	assert_int_equal(fd_write_at(AT_FDCWD, "/dev/null", "x"), 0);
	assert_int_equal(fd_write_at(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(fd_write_full(p[1], "hello", 5), 0);
	assert_int_equal(close(p[1]), 0);
	assert_int_equal(fd_read_full(p[0], text, sizeof text), 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(fd_read_full(p[0], text, sizeof text), 0);
	assert_int_equal(close(p[0]), 0);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(close(p[0]), 0);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(fd_write_full(p[1], "x", 1), -EPIPE);
	assert_int_equal(close(p[1]), 0);
}

static bool is_blocked(int sig)
{
	sigset_t now;

	assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, sig);
}

static void set_blocked(int sig, bool blocked)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	assert_int_equal(sigprocmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL), 0);
}

/* An empty pipe and a full one do not keep it, whether the caller has the signal blocked or not;
 * afterwards signals are as they were. */
static void timed_calls_end(void **state)
{
	static char much[1 << 20];
	int p[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(p), 0);
	for (int blocked = 0; blocked < 2; blocked++) {
		set_blocked(SIGRTMAX, blocked);
		set_blocked(SIGUSR1, true);
		assert_int_equal(timed_read(p[0], &byte, 1, 20), -EAGAIN);
		/* poll() says that there is room, and write() waits for more */
		ssize_t n = timed_write(p[1], much, sizeof much, 20);
		assert_in_range(n, 4096, sizeof much - 1);
		assert_int_equal(timed_write(p[1], much, 1, 20), -EAGAIN);
		while (n > 0)
			n -= timed_read(p[0], much, (size_t)n, 20);
		assert_true(is_blocked(SIGUSR1));
		set_blocked(SIGUSR1, false);
		assert_int_equal(is_blocked(SIGRTMAX), blocked);
		struct sigaction now;
		assert_int_equal(sigaction(SIGRTMAX, NULL, &now), 0);
		assert_true(now.sa_handler == SIG_DFL);
	}
	set_blocked(SIGRTMAX, false);
	close(p[0]);
	close(p[1]);
}

/* A listener whose queue is full does not answer, and the socket is one that blocks. */
static void timed_connect_ends(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	int fds[8], r = 0;
	size_t n = 0;

	(void)state;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	while (r == 0 && n < ARRAY_LEN(fds)) {
		fds[n] = socket(AF_INET, SOCK_STREAM, 0);
		r = timed_connect(fds[n++], (struct sockaddr *)&a, sizeof a, 50);
	}
	assert_int_equal(r, -EINTR);
	while (n)
		close(fds[--n]);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_code_names),
		cmocka_unit_test(err_fills_and_returns),
		cmocka_unit_test(buf_grows),
		cmocka_unit_test(buf_failure_is_sticky),
		cmocka_unit_test(json_escapes),
		cmocka_unit_test(json_nests),
		cmocka_unit_test(json_base64),
		cmocka_unit_test(json_depth_is_limited),
		cmocka_unit_test(numbers_size),
		cmocka_unit_test(numbers_uint),
		cmocka_unit_test(numbers_milli),
		cmocka_unit_test(numbers_a_little_is_not_zero),
		cmocka_unit_test(paths_normalise),
		cmocka_unit_test(text_printable),
		cmocka_unit_test(text_printable_controls_nothing),
		cmocka_unit_test(strv_to_ten_thousand),
		cmocka_unit_test(strv_put_and_append),
		cmocka_unit_test(ids),
		cmocka_unit_test(fd_reads_whole_files),
		cmocka_unit_test(fd_small_helpers),
		cmocka_unit_test(timed_calls_end),
		cmocka_unit_test(timed_connect_ends),
	};
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
