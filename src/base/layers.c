/* SPDX-License-Identifier: Apache-2.0 */
#include "base/layers.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *text;
} table[] = {
#define X(sym, name, text) { name, text },
	BRIG_LAYERS(X)
#undef X
};

const char *layer_name(enum layer l)
{
	return (unsigned)l < LAYER__COUNT ? table[l].name : "?";
}

enum layer layer_by_name(const char *name, size_t len)
{
	for (unsigned i = 0; i < LAYER__COUNT; i++)
		if (strlen(table[i].name) == len &&
		    memcmp(table[i].name, name, len) == 0)
			return (enum layer)i;
	return LAYER__COUNT;
}

void layers_list(unsigned bits, char *out, size_t cap)
{
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < LAYER__COUNT && at < cap; i++)
		if (bits & LAYER_BIT(i))
			at += (size_t)snprintf(out + at, cap - at, "%s%s",
					       at ? ", " : "", table[i].name);
}
