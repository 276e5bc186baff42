/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program without a C library needs: system calls and, in the file that
 * defines INIT_ENTRY before including this, a first instruction.
 */
#ifndef INIT_FREESTANDING_H
#define INIT_FREESTANDING_H

#include <linux/audit.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#ifdef INIT_ENTRY
__asm__(".globl _start\n_start:\n\txor %ebp,%ebp\n\tmov %rsp,%rdi\n"
	"\tand $-16,%rsp\n\tcall init_main\n\thlt\n");
#endif
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#ifdef INIT_ENTRY
__asm__(".globl _start\n_start:\n\tmov x29,#0\n\tmov x0,sp\n"
	"\tbl init_main\n\tbrk #0\n");
#endif
#else
#error "brig knows x86_64 and aarch64"
#endif

#define SYS0(n) sys6(n, 0, 0, 0, 0, 0, 0)
#define SYS1(n, a) sys6(n, (long)(a), 0, 0, 0, 0, 0)
#define SYS2(n, a, b) sys6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define SYS3(n, a, b, c) sys6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS4(n, a, b, c, d) \
	sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define SYS5(n, a, b, c, d, e) \
	sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

/* Called by the first instruction with the stack as the kernel left it: argc,
 * the arguments, a null pointer, the environment. */
void init_main(long *stack) __attribute__((noreturn, used));

static inline void die(int code) __attribute__((noreturn));
static inline void die(int code)
{
	for (;;)
		SYS1(SYS_exit_group, code);
}

#endif
