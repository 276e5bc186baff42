/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distribution's libyaml.a was compiled against glibc's headers, so that it
 * calls the checked variants of a few functions, which musl does not have.  Its
 * other needs (malloc, memcpy, strlen ...) are the same in every C library.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names are glibc's. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
int __sprintf_chk(char *out, int flag, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void *__memcpy_chk(void *to, const void *from, size_t n, size_t cap);
void *__memmove_chk(void *to, const void *from, size_t n, size_t cap);
void *__memset_chk(void *to, int c, size_t n, size_t cap);

int __sprintf_chk(char *out, int flag, size_t cap, const char *fmt, ...)
{
	va_list ap;

	(void)flag;
	va_start(ap, fmt);
	int n = vsnprintf(out, cap, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= cap)
		abort(); /* what the check is for */
	return n;
}

void *__memcpy_chk(void *to, const void *from, size_t n, size_t cap)
{
	if (n > cap)
		abort();
	return memcpy(to, from, n);
}

void *__memmove_chk(void *to, const void *from, size_t n, size_t cap)
{
	if (n > cap)
		abort();
	return memmove(to, from, n);
}

void *__memset_chk(void *to, int c, size_t n, size_t cap)
{
	if (n > cap)
		abort();
	return memset(to, c, n);
}
/* NOLINTEND(bugprone-reserved-identifier) */
