/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memcpy for the brig executable with musl, whose own is one string instruction: to
 * start that takes the processor longer than most of our copies, and a run makes some
 * fifteen hundred, nearly all of them shorter than a line of text.
 */
#include <stddef.h>
#include <stdint.h>

#ifndef SMALL_COPY_NAME /* tests give them others */
#define SMALL_COPY_NAME memcpy
#define SMALL_MOVE_NAME memmove
#endif

#if defined(__x86_64__)

enum { STRING = 256 }; /* from here on the string instruction is worth it */

typedef uint64_t word __attribute__((may_alias, aligned(1)));
typedef uint32_t half __attribute__((may_alias, aligned(1)));

void *SMALL_COPY_NAME(void *restrict dst, const void *restrict src, size_t n);
void *SMALL_COPY_NAME(void *restrict dst, const void *restrict src, size_t n)
{
	unsigned char *to = dst;
	const unsigned char *from = src;

	if (n >= STRING) {
		void *d = dst;
		__asm__ volatile("rep movsb" : "+D"(d), "+S"(from), "+c"(n) : : "memory");
	} else if (n >= 8) {
		/* the last word may overlap the one before it */
		word last = *(const word *)(from + n - 8);
		size_t i = 0;
		for (; i + 8 < n; i += 8) {
			*(word *)(to + i) = *(const word *)(from + i);
			/* or the compiler makes a string instruction of the loop */
			__asm__ volatile("" : : : "memory");
		}
		*(word *)(to + n - 8) = last;
	} else if (n >= 4) {
		half first = *(const half *)from, last = *(const half *)(from + n - 4);
		*(half *)to = first;
		*(half *)(to + n - 4) = last;
	} else if (n) {
		unsigned char middle = from[n / 2], last = from[n - 1];
		to[0] = from[0];
		to[n / 2] = middle;
		to[n - 1] = last;
	}
	return dst;
}

/* musl's goes by its memcpy, and would bring that along. */
void *SMALL_MOVE_NAME(void *dst, const void *src, size_t n);
void *SMALL_MOVE_NAME(void *dst, const void *src, size_t n)
{
	unsigned char *to = dst;
	const unsigned char *from = src;

	if ((uintptr_t)to - (uintptr_t)from >= n) {
		if ((uintptr_t)from - (uintptr_t)to >= n)
			return SMALL_COPY_NAME(dst, src, n);
		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	} else {
		to += n - 1;
		from += n - 1;
		__asm__ volatile("std\n\trep movsb\n\tcld"
				 : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	}
	return dst;
}

#endif
