/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/seccomp_table.h"

#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_NAME = 32 }; /* longer than any */

/* The name itself, not a pointer to it: five hundred pointers would be adjusted, and two
 * pages of them written, at every start of brig, which looks none of them up. */
struct call {
	char name[CALL_NAME];
	short nr[SECCOMP_ARCH_COUNT];
};

static const struct call calls[] = {
#define CALL(name, x86_64, aarch64) { #name, { x86_64, aarch64 } },
#include "confine/seccomp_table.inc"
#undef CALL
};

#define CALLS (sizeof calls / sizeof calls[0])

/* Spelt out here so that a table line above SECCOMP_NR_MAX, which would
 * overrun the arrays indexed by number, does not compile. */
#define CALL(name, x86_64, aarch64)                                            \
	_Static_assert((x86_64) < SECCOMP_NR_MAX && (aarch64) < SECCOMP_NR_MAX && \
			       sizeof #name <= CALL_NAME,                         \
		       #name);
#include "confine/seccomp_table.inc"
#undef CALL

static const struct {
	const char *name;
	uint32_t audit;
} arches[SECCOMP_ARCH_COUNT] = {
	[SECCOMP_ARCH_X86_64] = { "x86_64", AUDIT_ARCH_X86_64 },
	[SECCOMP_ARCH_AARCH64] = { "aarch64", AUDIT_ARCH_AARCH64 },
};

static int by_name(const void *key, const void *elem)
{
	return strcmp(key, ((const struct call *)elem)->name);
}

int seccomp_table_number(enum seccomp_arch arch, const char *name)
{
	const struct call *c =
		bsearch(name, calls, CALLS, sizeof calls[0], by_name);

	if (!c)
		return SECCOMP_NAME_UNKNOWN;
	return c->nr[arch] < 0 ? SECCOMP_NAME_ELSEWHERE : c->nr[arch];
}

const char *seccomp_table_name(enum seccomp_arch arch, int nr)
{
	if (nr < 0)
		return NULL;
	for (size_t i = 0; i < CALLS; i++)
		if (calls[i].nr[arch] == nr)
			return calls[i].name;
	return NULL;
}

int seccomp_table_last(enum seccomp_arch arch)
{
	int last = 0;

	for (size_t i = 0; i < CALLS; i++)
		if (calls[i].nr[arch] > last)
			last = calls[i].nr[arch];
	return last;
}

const char *seccomp_table_entry(size_t i)
{
	return i < CALLS ? calls[i].name : NULL;
}

uint32_t seccomp_table_audit_arch(enum seccomp_arch arch)
{
	return arches[arch].audit;
}

enum seccomp_arch seccomp_table_arch(const char *name)
{
	size_t i = 0;

	while (i < SECCOMP_ARCH_COUNT && strcmp(arches[i].name, name) != 0)
		i++;
	return (enum seccomp_arch)i;
}
