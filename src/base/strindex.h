/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a vector of strings a key is, without looking at all of them: lists of binds,
 * variables and names may be long, and each new one is compared with those before it.
 * The key of a string is its beginning, or all of it.
 */
#ifndef BASE_STRINDEX_H
#define BASE_STRINDEX_H

#include <stddef.h>
#include <stdint.h>

#define STRINDEX_NONE SIZE_MAX

struct strindex {
	struct strindex_slot *slot; /* NULL: empty */
	size_t cap, n;
};

/* The string at a place, not in there yet, has this key.  0 or -ENOMEM. */
int strindex_add(struct strindex *x, const char *key, size_t len, size_t at);
/* The place of a key, or STRINDEX_NONE.  v is the vector as it is now: the strings may
 * have been replaced by others with the same keys. */
size_t strindex_find(const struct strindex *x, char *const *v, const char *key, size_t len);
/* Empty again. */
void strindex_free(struct strindex *x);

#endif
