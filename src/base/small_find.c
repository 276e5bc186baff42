/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strlen, strchrnul and memchr for the brig executable with musl, whose own go byte by byte
 * up to a word's border, and then by the word: a run looks for the end of a text fifteen
 * hundred times, and mostly it is within a line.  Here sixteen bytes are looked at in one
 * step, at addresses that are multiples of it: such a step reads past the end of the text,
 * and never past the end of a page.
 */
#include <stddef.h>
#include <stdint.h>

#ifndef SMALL_LEN_NAME /* tests give them others */
#define SMALL_LEN_NAME strlen
#define SMALL_CHR_NAME __strchrnul /* what strchr() and strcspn() of musl go by */
#define SMALL_CHR_ALIAS strchrnul
#define SMALL_MEM_NAME memchr
#endif

#if defined(__x86_64__)

enum { STEP = 16 };

typedef char step __attribute__((vector_size(STEP), may_alias));

/* The names are the C library's. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
size_t SMALL_LEN_NAME(const char *s);
char *SMALL_CHR_NAME(const char *s, int c);
void *SMALL_MEM_NAME(const void *s, int c, size_t n);
/* NOLINTEND(bugprone-reserved-identifier) */
#ifdef SMALL_CHR_ALIAS
char *SMALL_CHR_ALIAS(const char *s, int c);
#endif

/* Past the end of the text, on purpose. */
#define READS_PAST __attribute__((no_sanitize_address))

/* One bit for every byte of the step at `at` that is `what`, the first one lowest. */
static inline READS_PAST unsigned equal(const char *at, char what)
{
	const step all = what - (step){ 0 };

	return (unsigned)__builtin_ia32_pmovmskb128(*(const step *)(const void *)at == all);
}

/* The step that s is in. */
static inline const char *step_of(const char *s)
{
	return s - ((uintptr_t)s & (STEP - 1));
}

/* Without what lies before s in its step. */
static inline unsigned from(const char *s, unsigned bits)
{
	return bits >> ((uintptr_t)s & (STEP - 1)) << ((uintptr_t)s & (STEP - 1));
}

READS_PAST size_t SMALL_LEN_NAME(const char *s)
{
	const char *at = step_of(s);
	unsigned found = from(s, equal(at, '\0'));

	while (!found) {
		at += STEP;
		found = equal(at, '\0');
	}
	return (size_t)(at + __builtin_ctz(found) - s);
}

READS_PAST char *SMALL_CHR_NAME(const char *s, int c)
{
	const char what = (char)c;
	const char *at = step_of(s);
	unsigned found = from(s, equal(at, '\0') | equal(at, what));

	while (!found) {
		at += STEP;
		found = equal(at, '\0') | equal(at, what);
	}
	return (char *)at + __builtin_ctz(found);
}

#ifdef SMALL_CHR_ALIAS
char *SMALL_CHR_ALIAS(const char *s, int c)
{
	return SMALL_CHR_NAME(s, c);
}
#endif

READS_PAST void *SMALL_MEM_NAME(const void *s, int c, size_t n)
{
	const char what = (char)c;
	const char *at = step_of(s);
	/* of the steps, from the first one's beginning */
	const size_t before = (size_t)((const char *)s - at);
	const size_t end = n <= SIZE_MAX - before ? n + before : SIZE_MAX;

	if (!n)
		return NULL;
	unsigned found = from(s, equal(at, what));
	size_t done = 0;
	while (!found && end - done > STEP) {
		done += STEP;
		found = equal(at + done, what);
	}
	size_t pos = done + (found ? (size_t)__builtin_ctz(found) : 0);
	return found && pos < end ? (char *)at + pos : NULL;
}

#endif
