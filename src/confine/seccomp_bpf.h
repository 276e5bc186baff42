/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter compiler: a verdict per call number in, classic BPF out.
 *
 * Knows nothing of names, profiles or policy.  The output is one range tree
 * over the call numbers followed by argument checks; every verdict that does
 * not depend on arguments is reached by loads of arch and nr and constant
 * jumps only, which is what lets the kernel prove it and cache it (a call
 * that is always allowed then never runs the filter at all).
 */
#ifndef CONFINE_SECCOMP_BPF_H
#define CONFINE_SECCOMP_BPF_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum seccomp_op {
	SECCOMP_OP_EQ,
	SECCOMP_OP_NE,
	SECCOMP_OP_LT,
	SECCOMP_OP_LE,
	SECCOMP_OP_GT,
	SECCOMP_OP_GE,
	SECCOMP_OP_MASKED_EQ, /* (argument & mask) == (value & mask) */
	SECCOMP_OP_MASKED_NE, /* the contrary; profiles cannot say it */
};

struct seccomp_cond {
	unsigned char arg; /* 0 to 5 */
	enum seccomp_op op;
	/* Look at the low 32 bits only: for arguments the kernel itself takes
	 * as int.  A 64-bit comparison there is a hole, since the kernel drops
	 * the high half after the filter has looked at it (CVE-2019-10063). */
	bool low32;
	uint64_t mask; /* for the masked ones */
	uint64_t value;
};

#define SECCOMP_CONDS_MAX 6

/* All conditions hold → action (a SECCOMP_RET_… value with its data). */
struct seccomp_rule {
	uint32_t action;
	unsigned char nconds;
	struct seccomp_cond conds[SECCOMP_CONDS_MAX];
};

/* The first rule that matches decides; otherwise, otherwise. */
struct seccomp_verdict {
	const struct seccomp_rule *rules;
	size_t nrules;
	uint32_t otherwise;
};

struct seccomp_policy {
	uint32_t audit_arch;
	const struct seccomp_verdict *calls; /* of numbers 0 … ncalls-1 */
	size_t ncalls;
	uint32_t above;   /* numbers from ncalls to 0x3fffffff */
	uint32_t x32;     /* numbers from 0x40000000 up, -1 included */
	uint32_t foreign; /* any other architecture */
};

/*
 * Compiles.  *insns is fresh memory, the caller's.  0, -ENOMEM, -EINVAL for
 * a condition on an argument that does not exist, or -E2BIG when the result
 * would exceed the kernel's BPF_MAXINSNS.
 */
int seccomp_bpf_compile(const struct seccomp_policy *policy,
			struct sock_filter **insns, unsigned short *len);

#endif
