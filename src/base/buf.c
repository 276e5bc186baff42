/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}

static bool reserve(struct buf *b, size_t more)
{
	if (b->failed)
		return false;
	if (more > SIZE_MAX / 4 - b->len) {
		b->failed = true;
		return false;
	}
	if (b->len + more <= b->cap)
		return true;
	size_t cap = b->cap ? b->cap * 2 : 256;
	while (cap < b->len + more)
		cap *= 2;
	char *p = realloc(b->data, cap);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->data = p;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!len || !reserve(b, len))
		return;
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

void buf_addc(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_adds(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !reserve(b, (size_t)n + 1)) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

char *buf_take(struct buf *b, size_t *len)
{
	if (!reserve(b, 1)) {
		buf_free(b);
		return NULL;
	}
	b->data[b->len] = '\0';
	char *p = b->data;
	if (len)
		*len = b->len;
	*b = (struct buf){ 0 };
	return p;
}
