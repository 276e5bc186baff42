/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program without a C library needs: system calls and, in the file that
 * defines INIT_ENTRY before including this, a first instruction.
 */
#ifndef INIT_FREESTANDING_H
#define INIT_FREESTANDING_H

#include <linux/audit.h>

#include "base/raw.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#ifdef INIT_ENTRY
__asm__(".globl _start\n_start:\n\txor %ebp,%ebp\n\tmov %rsp,%rdi\n"
	"\tand $-16,%rsp\n\tcall init_main\n\thlt\n");
#endif
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#ifdef INIT_ENTRY
__asm__(".globl _start\n_start:\n\tmov x29,#0\n\tmov x0,sp\n"
	"\tbl init_main\n\tbrk #0\n");
#endif
#endif

/* Called by the first instruction with the stack as the kernel left it: argc,
 * the arguments, a null pointer, the environment. */
void init_main(long *stack) __attribute__((noreturn, used));

#endif
