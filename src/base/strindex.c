/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strindex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct strindex_slot {
	uint32_t hash;
	uint32_t len;
	size_t at; /* one more; 0: nothing here */
};

/* Never full, so that a search ends. */
static struct strindex_slot *free_slot(struct strindex_slot *slot, size_t cap, uint32_t hash)
{
	size_t i = hash & (cap - 1);

	while (slot[i].at)
		i = (i + 1) & (cap - 1);
	return &slot[i];
}

static int grow(struct strindex *x)
{
	enum { FIRST = 16 };
	size_t cap = x->cap ? 2 * x->cap : FIRST;
	struct strindex_slot *slot = calloc(cap, sizeof *slot);

	if (!slot)
		return -ENOMEM;
	for (size_t i = 0; i < x->cap; i++)
		if (x->slot[i].at)
			*free_slot(slot, cap, x->slot[i].hash) = x->slot[i];
	free(x->slot);
	x->slot = slot;
	x->cap = cap;
	return 0;
}

int strindex_add(struct strindex *x, const char *key, size_t len, size_t at)
{
	uint32_t hash = str_hash(key, len);

	if (len > UINT32_MAX || at >= SIZE_MAX - 1)
		return -ENOMEM;
	if (2 * (x->n + 1) > x->cap && grow(x) < 0)
		return -ENOMEM;
	*free_slot(x->slot, x->cap, hash) =
		(struct strindex_slot){ hash, (uint32_t)len, at + 1 };
	x->n++;
	return 0;
}

size_t strindex_find(const struct strindex *x, char *const *v, const char *key, size_t len)
{
	if (x->n == 0)
		return STRINDEX_NONE;
	uint32_t hash = str_hash(key, len);
	for (size_t i = hash & (x->cap - 1); x->slot[i].at; i = (i + 1) & (x->cap - 1)) {
		const struct strindex_slot *s = &x->slot[i];
		if (s->hash == hash && s->len == len &&
		    memcmp(v[s->at - 1], key, len) == 0)
			return s->at - 1;
	}
	return STRINDEX_NONE;
}

void strindex_free(struct strindex *x)
{
	free(x->slot);
	*x = (struct strindex){ 0 };
}
