/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small interpreter for the classic BPF that seccomp filters use.  It also
 * checks what the kernel's verifier would: loads inside seccomp_data and on a
 * word, jumps forward and inside the program, nothing else than filters need.
 */
#ifndef TESTS_BPF_SIM_H
#define TESTS_BPF_SIM_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BPF_SIM_ERROR 0xdeadbeefu

/* What the filter answers to data; *steps, when not NULL, counts the
 * instructions.  BPF_SIM_ERROR for a program the kernel would not take. */
static inline uint32_t bpf_sim_run(const struct sock_filter *f, size_t len,
				   const struct seccomp_data *data,
				   unsigned *steps)
{
	uint32_t a = 0;
	size_t pc = 0;

	for (unsigned n = 1; pc < len; n++) {
		const struct sock_filter *i = &f[pc++];
		bool yes;

		if (steps)
			*steps = n;
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k % 4 || i->k > sizeof *data - 4)
				return BPF_SIM_ERROR;
			memcpy(&a, (const char *)data + i->k, sizeof a);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			continue;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_JMP | BPF_JA:
			if (i->k >= len)
				return BPF_SIM_ERROR;
			pc += i->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = a == i->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			yes = a > i->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = a >= i->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			yes = a & i->k;
			break;
		default:
			return BPF_SIM_ERROR;
		}
		pc += yes ? i->jt : i->jf;
	}
	return BPF_SIM_ERROR;
}

/* Would the kernel take it?  Every jump lands inside, the last instruction
 * returns, every opcode is known. */
static inline bool bpf_sim_valid(const struct sock_filter *f, size_t len)
{
	if (len == 0 || len > BPF_MAXINSNS ||
	    BPF_CLASS(f[len - 1].code) != BPF_RET)
		return false;
	for (size_t pc = 0; pc < len; pc++) {
		size_t room = len - pc - 1;
		switch (f[pc].code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (f[pc].k % 4 || f[pc].k > sizeof(struct seccomp_data) - 4)
				return false;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
		case BPF_RET | BPF_K:
			break;
		case BPF_JMP | BPF_JA:
			if (f[pc].k >= room)
				return false;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
		case BPF_JMP | BPF_JGT | BPF_K:
		case BPF_JMP | BPF_JGE | BPF_K:
		case BPF_JMP | BPF_JSET | BPF_K:
			if (f[pc].jt >= room || f[pc].jf >= room)
				return false;
			break;
		default:
			return false;
		}
	}
	return true;
}

#endif
