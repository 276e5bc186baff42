/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable byte buffer.  Errors are sticky: after an allocation fails,
 * appends do nothing and buf_ok() is false, so a writer checks once.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data;
	size_t len, cap;
	bool failed;
};

void buf_free(struct buf *b);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_addc(struct buf *b, char c);
void buf_adds(struct buf *b, const char *s);
void buf_addf(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static inline bool buf_ok(const struct buf *b)
{
	return !b->failed;
}

/* The text, ended with NUL, taken out of the buffer; the caller frees it.
 * NULL when an append failed.  *len may be NULL. */
char *buf_take(struct buf *b, size_t *len);

#define cleanup_buf __attribute__((cleanup(buf_free)))

#endif
