/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A streaming JSON writer onto a buf.  Commas and nesting are kept here, so
 * callers cannot produce malformed text.  Strings that are not UTF-8 are
 * written as {"base64": "…"}.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct json {
	struct buf *out;
	int depth;
	bool first[32]; /* no element written yet at this depth */
	bool after_key;
};

void jw_init(struct json *j, struct buf *out);
void jw_object(struct json *j);
void jw_array(struct json *j);
void jw_end_object(struct json *j);
void jw_end_array(struct json *j);
void jw_key(struct json *j, const char *key);
void jw_string(struct json *j, const char *s); /* NULL writes null */
void jw_bytes(struct json *j, const char *s, size_t len);
void jw_int(struct json *j, int64_t v);
void jw_uint(struct json *j, uint64_t v);
void jw_fixed(struct json *j, double v, int decimals);
void jw_bool(struct json *j, bool v);
void jw_null(struct json *j);

/* True when all len bytes are strict UTF-8 (no surrogates, no overlongs). */
bool utf8_valid(const char *s, size_t len);
/* How many bytes from the start are. */
size_t utf8_valid_part(const char *s, size_t len);

#endif
