/* SPDX-License-Identifier: Apache-2.0 */
/* Strings, vectors of strings, numbers with units, paths as text. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline bool streq(const char *a, const char *b)
{
	return __builtin_strcmp(a, b) == 0;
}

/* Appends a copy of s to a NULL-terminated vector.  0 or -ENOMEM. */
int strv_add(char ***v, const char *s);
/* Appends s itself, taking it over even on failure. */
int strv_take(char ***v, char *s);
/* The same where the number of strings is known, and kept: for long vectors. */
int strv_put(char ***v, size_t *n, char *s);
/* Appends copies of all in another; what is there after -ENOMEM is some of them. */
int strv_append(char ***v, const char *const *more);
size_t strv_len(char *const *v);
void strv_free(char **v);

/* FNV-1a. */
uint32_t str_hash(const char *s, size_t len);

/* printf into fresh memory; NULL when out of memory. */
char *str_fmt(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "512M", "1G", "4096", "1.5G": bytes.  K, M, G, T are powers of 1024; a
 * trailing "B" or "iB" is allowed.  0, -EINVAL or -ERANGE. */
int parse_size(const char *s, uint64_t *out);
/* A plain decimal number, no sign, no spaces, at most max. */
int parse_uint(const char *s, uint64_t max, uint64_t *out);
/* "1", "0.5", "2.25" in thousandths, at most max_milli.  No sign, no exponent. */
int parse_milli(const char *s, uint64_t max_milli, uint64_t *out);

/*
 * Normalises an absolute path as text: one slash between names, no ".",
 * no trailing slash.  -EINVAL when it is not absolute or contains "..".
 */
int path_normalise(const char *path, char **out);
/* True when path equals dir or lies below it (both normalised). */
bool path_is_under(const char *path, const char *dir);
/* True when it is absolute, not "/", and has no ".", "..", empty or trailing part. */
bool path_is_plain(const char *path);

/* Text for a person: control characters, ESC and invalid bytes are shown as
 * \xNN, so that a hostile name cannot drive the terminal.  Fresh memory. */
char *str_printable(const char *s);

/* The same into a buffer, cut between characters when it does not fit. */
void str_clean(const char *s, char *out, size_t cap);

#endif
