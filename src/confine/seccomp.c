/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled-in filters and the questions other modules ask about calls. */
#include "confine/seccomp.h"

#include <errno.h>
#include <stdlib.h>

#include "confine/seccomp_table.h"
#include "seccomp_data.h" /* made by tools/gen-seccomp */

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct seccomp_prog plain = {
	.insns = default_plain,
	.len = COUNT(default_plain),
};

static const struct seccomp_prog with_notify = {
	.insns = default_notify,
	.len = COUNT(default_notify),
	.notify = true,
};

const struct seccomp_prog *seccomp_default(bool notify)
{
	return notify ? &with_notify : &plain;
}

const struct seccomp_prog *seccomp_hostns(void)
{
	static const struct seccomp_prog prog = { .insns = hostns_notify,
						  .len = COUNT(hostns_notify),
						  .notify = true };
	return &prog;
}

const struct seccomp_prog *seccomp_floor(void)
{
	static const struct seccomp_prog prog = { .insns = floor_insns,
						  .len = COUNT(floor_insns) };
	return &prog;
}

int seccomp_refusal_errno(int nr)
{
	/* A call the filter never reports: whatever made the kernel ask, the
	 * answer is no. */
	if (nr < 0 || (size_t)nr >= COUNT(refusal_errno) || !refusal_errno[nr])
		return EPERM;
	return refusal_errno[nr];
}

const char *seccomp_call_name(int nr)
{
	return seccomp_table_name(SECCOMP_ARCH_NATIVE, nr);
}

int seccomp_call_number(const char *name)
{
	return seccomp_table_number(SECCOMP_ARCH_NATIVE, name);
}
