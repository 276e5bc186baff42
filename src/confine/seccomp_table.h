/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and numbers of the kernel's system calls, per architecture.  Our own
 * table, because the one in the installed libseccomp or in the installed
 * kernel headers is whatever the build machine happens to have: a filter must
 * not depend on that.
 */
#ifndef CONFINE_SECCOMP_TABLE_H
#define CONFINE_SECCOMP_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum seccomp_arch {
	SECCOMP_ARCH_X86_64,
	SECCOMP_ARCH_AARCH64,
	SECCOMP_ARCH_COUNT,
};

#if defined(__x86_64__) && !defined(__ILP32__)
#define SECCOMP_ARCH_NATIVE SECCOMP_ARCH_X86_64
#elif defined(__aarch64__) && !defined(__ILP32__)
#define SECCOMP_ARCH_NATIVE SECCOMP_ARCH_AARCH64
#else
#error "brig has no system-call table for this architecture"
#endif

enum {
	SECCOMP_NAME_UNKNOWN = -1,
	SECCOMP_NAME_ELSEWHERE = -2,
};

/* Numbers in every table are below this. */
#define SECCOMP_NR_MAX 512

/* Number of a call; SECCOMP_NAME_UNKNOWN when no architecture has the name,
 * SECCOMP_NAME_ELSEWHERE when only others have it. */
int seccomp_table_number(enum seccomp_arch arch, const char *name);

/* Name of a number, or NULL.  A linear search: for reports, not for loops. */
const char *seccomp_table_name(enum seccomp_arch arch, int nr);

/* The highest number in the table of this architecture. */
int seccomp_table_last(enum seccomp_arch arch);

/* The i-th name of the table, whatever its architecture; NULL past the end. */
const char *seccomp_table_entry(size_t i);

/* AUDIT_ARCH_… as the filter sees it in seccomp_data.arch. */
uint32_t seccomp_table_audit_arch(enum seccomp_arch arch);

/* "x86_64" → the architecture; SECCOMP_ARCH_COUNT when there is no such. */
enum seccomp_arch seccomp_table_arch(const char *name);

#endif
