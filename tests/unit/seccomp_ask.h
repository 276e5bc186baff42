/* SPDX-License-Identifier: Apache-2.0 */
/* What filters answer, and what they are meant to. */
#ifndef TESTS_SECCOMP_ASK_H
#define TESTS_SECCOMP_ASK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/audit.h>
#include <stdlib.h>
#include <string.h>

#include "bpf_sim.h"
#include "confine/seccomp.h"
#include "confine/seccomp_bpf.h"
#include "confine/seccomp_table.h"

#define ALLOW SECCOMP_RET_ALLOW
#define ERR(e) (SECCOMP_RET_ERRNO | (uint32_t)(e))
#define NOTIFY SECCOMP_RET_USER_NOTIF
#define HIGH 0x100000000ull
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#ifdef __x86_64__
#define FOREIGN AUDIT_ARCH_I386
#else
#define FOREIGN AUDIT_ARCH_ARM
#endif

static inline uint32_t native(void)
{
	return seccomp_table_audit_arch(SECCOMP_ARCH_NATIVE);
}

static inline uint32_t ask(const struct seccomp_prog *p, uint32_t arch, int nr,
		    const uint64_t args[6])
{
	struct seccomp_data d = { .nr = nr, .arch = arch };

	if (args)
		memcpy(d.args, args, sizeof d.args);
	return bpf_sim_run(p->insns, p->len, &d, NULL);
}

static inline uint64_t rnd(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Values near the edges that rules are about. */
static inline uint64_t interesting(uint64_t *seed)
{
	static const uint64_t base[] = {
		0,    1,     2,		 3,	     6,		 8,
		10,   16,    17,	 40,	     58,	 06000,
		0xf000, 0x1000, 0x8000,	 0xc000,     0x2000,	 0x40,
		0x400000, 0x5412, 0x541c, 0x5423,    0x20000,	 0x20008, 0x540a,
		0x40000, 0x7e020000, 0x20000000, 0x7fffffff, 0x80000000,
		0xffffffff, HIGH, HIGH + 1, HIGH * 5, 0x7fffffffffffffff,
		0x8000000000000000, UINT64_MAX,
	};
	uint64_t v = base[rnd(seed) % COUNT(base)];

	switch (rnd(seed) % 8) {
	case 0:
		return v + 1;
	case 1:
		return v - 1;
	case 2:
		return v | HIGH;
	case 3:
		return v | base[rnd(seed) % COUNT(base)];
	case 4:
		return v << 32 | base[rnd(seed) % COUNT(base)];
	default:
		return v;
	}
}

static inline void fill_args(struct seccomp_data *d, uint64_t *seed)
{
	for (int i = 0; i < 6; i++)
		d->args[i] = interesting(seed);
}

/* The meaning of a policy, straight from its definition. */
static inline uint32_t evaluate(const struct seccomp_policy *p,
			 const struct seccomp_data *d)
{
	uint32_t nr = (uint32_t)d->nr;

	if (d->arch != p->audit_arch)
		return p->foreign;
	if (nr >= 0x40000000u)
		return p->x32;
	if (nr >= p->ncalls)
		return p->above;
	for (size_t r = 0; r < p->calls[nr].nrules; r++) {
		const struct seccomp_rule *rule = &p->calls[nr].rules[r];
		bool all = true;
		for (unsigned i = 0; i < rule->nconds; i++) {
			const struct seccomp_cond *c = &rule->conds[i];
			uint64_t a = d->args[c->arg], v = c->value, m = c->mask;
			if (c->low32) {
				a = (uint32_t)a;
				v = (uint32_t)v;
				m = (uint32_t)m;
			}
			switch (c->op) {
			case SECCOMP_OP_EQ: all &= a == v; break;
			case SECCOMP_OP_NE: all &= a != v; break;
			case SECCOMP_OP_LT: all &= a < v; break;
			case SECCOMP_OP_LE: all &= a <= v; break;
			case SECCOMP_OP_GT: all &= a > v; break;
			case SECCOMP_OP_GE: all &= a >= v; break;
			case SECCOMP_OP_MASKED_EQ: all &= (a & m) == (v & m); break;
			case SECCOMP_OP_MASKED_NE: all &= (a & m) != (v & m); break;
			}
		}
		if (all)
			return rule->action;
	}
	return p->calls[nr].otherwise;
}

#endif
