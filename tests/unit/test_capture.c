/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured streams against a model that keeps everything: whatever the sizes
 * of the pieces, what is kept is the first half and the last half of the
 * budget, and every byte is either kept or counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/capture.h"

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

/* xorshift64*: the same numbers everywhere, from a fixed seed */
static uint64_t next(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545f4914f6cdd1dull;
}

static size_t below(uint64_t *s, size_t n)
{
	return (size_t)(next(s) % n);
}

/* What must be kept of a stream, worked out the obvious way. */
static char *model(const char *all, size_t len, size_t max, size_t *kept)
{
	size_t head = max - max / 2, tail = max / 2;
	char *out = malloc(max + len + 1);

	assert_non_null(out);
	if (len <= max) {
		memcpy(out, all, len);
		*kept = len;
	} else {
		memcpy(out, all, head);
		memcpy(out + head, all + len - tail, tail);
		*kept = max;
	}
	return out;
}

static void check(const struct capture *c, const char *all, size_t len, size_t max,
		  const char *what, uint64_t seed)
{
	size_t got, want;
	char *text = capture_text(c, &got);
	char *expected = model(all, len, max, &want);

	assert_non_null(text);
	if (got != want || memcmp(text, expected, want) != 0 ||
	    c->dropped != len - want || text[got] != '\0')
		fail_msg("%s, seed %llu: %zu of %zu bytes with budget %zu: kept %zu, "
			 "expected %zu, dropped %llu",
			 what, (unsigned long long)seed, len, len, max, got, want,
			 (unsigned long long)c->dropped);
	/* memory: never more than the budget in each half */
	assert_true(c->head_alloc <= c->head_cap);
	assert_true(c->head_len <= c->head_alloc);
	assert_true(c->tail_len <= c->tail_cap);
	assert_int_equal(c->head_cap + c->tail_cap, max);
	free(text);
	free(expected);
}

/* A stream in which every place can be told from its neighbours. */
static char *stream(size_t len)
{
	char *all = malloc(len + 1);

	assert_non_null(all);
	for (size_t i = 0; i < len; i++)
		all[i] = (char)(i * 7 + i / 251 + i / 65521);
	return all;
}

static void random_chunkings(void **state)
{
	enum { ROUNDS = 3000 };

	(void)state;
	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		uint64_t s = seed * 0x9e3779b97f4a7c15ull;
		size_t max = below(&s, 4) ? below(&s, 300) : below(&s, 20000);
		size_t len = below(&s, 4 * max + 50);
		size_t most = 1 + below(&s, below(&s, 2) ? 5 : max + 100);
		char *all = stream(len);
		struct capture c;

		capture_init(&c, max);
		for (size_t at = 0; at < len;) {
			size_t n = below(&s, most + 1); /* empty pieces too */
			if (n > len - at)
				n = len - at;
			assert_int_equal(capture_add(&c, all + at, n), 0);
			at += n;
			if (below(&s, 64) == 0) /* also in the middle */
				check(&c, all, at, max, "prefix", seed);
		}
		check(&c, all, len, max, "whole", seed);
		capture_free(&c);
		free(all);
	}
}

/* Every length around every boundary, in one piece, two pieces and bytes. */
static void exact_boundaries(void **state)
{
	(void)state;
	for (size_t max = 0; max <= 12; max++) {
		char *all = stream(40);
		for (size_t len = 0; len <= 40; len++) {
			for (size_t cut = 0; cut <= len; cut++) {
				struct capture c;
				capture_init(&c, max);
				assert_int_equal(capture_add(&c, all, cut), 0);
				assert_int_equal(capture_add(&c, all + cut, len - cut), 0);
				check(&c, all, len, max, "two pieces", cut);
				capture_free(&c);
			}
			struct capture c;
			capture_init(&c, max);
			for (size_t i = 0; i < len; i++)
				assert_int_equal(capture_add(&c, all + i, 1), 0);
			check(&c, all, len, max, "bytes", 0);
			capture_free(&c);
		}
		free(all);
	}
}

/* The growing head buffer: sizes around its doubling. */
static void head_growth(void **state)
{
	static const size_t lens[] = { 4095, 4096, 4097, 8191, 8192, 8193, 12288,
				       16384, 16385, 40000 };
	char *all = stream(40000);

	(void)state;
	for (size_t m = 0; m < sizeof lens / sizeof lens[0]; m++)
		for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++)
			for (size_t piece = 1000; piece <= 16384; piece *= 4) {
				struct capture c;
				capture_init(&c, lens[m]);
				for (size_t at = 0; at < lens[i];) {
					size_t n = lens[i] - at < piece ? lens[i] - at : piece;
					assert_int_equal(capture_add(&c, all + at, n), 0);
					at += n;
				}
				check(&c, all, lens[i], lens[m], "growth", piece);
				capture_free(&c);
			}
	free(all);
}

static void zero_budget_counts(void **state)
{
	struct capture c;
	size_t len = 9;

	(void)state;
	capture_init(&c, 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(capture_add(&c, "0123456789", 10), 0);
	assert_int_equal(c.dropped, 1000);
	assert_null(c.head);
	assert_null(c.tail);
	char *text = capture_text(&c, &len);
	assert_int_equal(len, 0);
	assert_string_equal(text, "");
	free(text);
	capture_free(&c);
}

static void nothing_written(void **state)
{
	struct capture c;
	size_t len = 9;

	(void)state;
	capture_init(&c, 1 << 20);
	char *text = capture_text(&c, &len);
	assert_int_equal(len, 0);
	assert_string_equal(text, "");
	assert_null(c.head); /* memory is taken as it is needed */
	assert_null(c.tail);
	free(text);
	capture_free(&c);
	capture_free(&c); /* harmless */
}

/* A large budget must not cost memory for a small output, nor a large output
 * more than the budget. */
static void memory_is_bounded(void **state)
{
	struct capture c;
	static char piece[65536];

	(void)state;
	capture_init(&c, (size_t)1 << 40);
	assert_int_equal(capture_add(&c, piece, 100), 0);
	assert_true(c.head_alloc <= 8192);
	assert_null(c.tail);
	capture_free(&c);

	capture_init(&c, 100000);
	uint64_t total = 0;
	for (int i = 0; i < 4096; i++) { /* 256 MiB */
		assert_int_equal(capture_add(&c, piece, sizeof piece), 0);
		total += sizeof piece;
	}
	assert_int_equal(c.head_alloc, 50000);
	assert_int_equal(c.tail_cap, 50000);
	assert_int_equal(c.dropped, total - 100000);
	capture_free(&c);
}

/* A tail that cannot be had: every byte is still either kept or counted. */
static void no_memory_is_counted(void **state)
{
	struct capture c;
	static char piece[4096];
	size_t len;

	(void)state;
	if (UNDER_ASAN) {
		print_message("SKIP: a sanitizer's malloc aborts instead of failing\n");
		skip();
	}
	capture_init(&c, 1000);
	c.tail_cap = SIZE_MAX / 2 - 1; /* no malloc gives this */
	assert_int_equal(capture_add(&c, piece, 500), 0);
	assert_true(capture_add(&c, piece, sizeof piece) < 0);
	char *text = capture_text(&c, &len);
	assert_int_equal(len, 500);
	assert_int_equal(c.dropped + len, 500 + sizeof piece);
	free(text);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_chunkings),
		cmocka_unit_test(exact_boundaries),
		cmocka_unit_test(head_growth),
		cmocka_unit_test(zero_budget_counts),
		cmocka_unit_test(nothing_written),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(no_memory_is_counted),
	};
	return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
