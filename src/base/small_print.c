/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vsnprintf for the brig executable with musl, whose own makes a stream for every call: a
 * microsecond, and a run makes some sixty, nearly all of them a path from two parts or one
 * number.  Those are written here; every other format goes to musl's, from its beginning.
 * The linker puts it in between (--wrap), so that snprintf() and vasprintf() come by, too.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The names are the linker's; tests give them others. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
#ifndef SMALL_PRINT_NAME
#define SMALL_PRINT_NAME __wrap_vsnprintf
#define SMALL_PRINT_REAL __real_vsnprintf
#endif

int SMALL_PRINT_REAL(char *out, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
int SMALL_PRINT_NAME(char *out, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
/* NOLINTEND(bugprone-reserved-identifier) */

struct line {
	char *out;
	size_t size;
	size_t len; /* of all of it, also of what does not fit */
	va_list ap; /* in here, as a function cannot be handed one and take from it */
};

static void put(struct line *l, const char *s, size_t n)
{
	if (l->len < l->size) {
		size_t room = l->size - l->len;
		memcpy(l->out + l->len, s, n < room ? n : room);
	}
	l->len += n;
}

static void put_number(struct line *l, unsigned long long v, bool minus)
{
	char digits[24];
	size_t i = sizeof digits;

	do {
		digits[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	if (minus)
		digits[--i] = '-';
	put(l, digits + i, sizeof digits - i);
}

/* One conversion, from behind its '%'.  The end of it, or NULL: not one of ours. */
static const char *convert(struct line *l, const char *f)
{
	const char *s;
	long long v;

	switch (*f) {
	case '%':
		put(l, f, 1);
		return f + 1;
	case 's':
		s = va_arg(l->ap, const char *);
		if (!s)
			return NULL;
		put(l, s, strlen(s));
		return f + 1;
	case 'd':
		v = va_arg(l->ap, int);
		put_number(l, v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v, v < 0);
		return f + 1;
	case 'u':
		put_number(l, va_arg(l->ap, unsigned), false);
		return f + 1;
	case 'z':
		if (f[1] != 'u')
			return NULL;
		put_number(l, va_arg(l->ap, size_t), false);
		return f + 2;
	case 'l':
		if (f[1] != 'l' || f[2] != 'u')
			return NULL;
		put_number(l, va_arg(l->ap, unsigned long long), false);
		return f + 3;
	default:
		return NULL;
	}
}

static bool print(struct line *l, const char *fmt)
{
	while (fmt && *fmt) {
		size_t n = 0;
		while (fmt[n] && fmt[n] != '%')
			n++;
		put(l, fmt, n);
		fmt = fmt[n] ? convert(l, fmt + n + 1) : fmt + n;
	}
	return fmt && l->len < INT_MAX;
}

int SMALL_PRINT_NAME(char *out, size_t size, const char *fmt, va_list ap)
{
	struct line l = { .out = out, .size = size };

	/* a size that was computed wrong is the library's to refuse */
	if (size > INT_MAX)
		return SMALL_PRINT_REAL(out, size, fmt, ap);
	va_copy(l.ap, ap);
	bool ours = print(&l, fmt);
	va_end(l.ap);
	if (!ours)
		return SMALL_PRINT_REAL(out, size, fmt, ap);
	if (size)
		out[l.len < size ? l.len : size - 1] = '\0';
	return (int)l.len;
}
