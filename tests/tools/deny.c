/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deny CALL[,CALL...]=ERRNO [CALL...=ERRNO ...] -- COMMAND [ARG...]
 *
 * Runs COMMAND where these system calls fail with that error, for it and for
 * all its descendants: an older kernel, or a container's filter, for the price
 * of one seccomp filter.  ERRNO 0 makes a call that claims success and does
 * nothing (which some containers do).
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "callnames.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "deny knows x86_64 and aarch64"
#endif

enum { MAX = 256, EXIT_SELF = 99 };

static struct sock_filter code[MAX];
static unsigned short len;

static void add(struct sock_filter f)
{
	if (len == MAX) {
		fprintf(stderr, "deny: too many calls\n");
		_exit(EXIT_SELF);
	}
	code[len++] = f;
}

static void add_spec(char *spec)
{
	char *eq = strchr(spec, '='), *save = NULL;

	if (eq)
		*eq = '\0';
	int e = eq ? errno_number(eq + 1) : -1;
	if (e < 0) {
		fprintf(stderr, "deny: %s: an error is missing or unknown\n", spec);
		_exit(EXIT_SELF);
	}
	for (char *n = strtok_r(spec, ",", &save); n; n = strtok_r(NULL, ",", &save)) {
		long nr = call_number(n);
		if (nr < 0) {
			fprintf(stderr, "deny: %s: unknown call\n", n);
			_exit(EXIT_SELF);
		}
		add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
						 (unsigned)nr, 0, 1));
		add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						 SECCOMP_RET_ERRNO | (unsigned)e));
	}
}

int main(int argc, char **argv)
{
	int i = 1;

	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					 offsetof(struct seccomp_data, arch)));
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0));
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					 offsetof(struct seccomp_data, nr)));
	for (; i < argc && strcmp(argv[i], "--") != 0; i++)
		add_spec(argv[i]);
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	if (i < 2 || i + 1 >= argc) {
		fprintf(stderr, "usage: deny CALL[,CALL...]=ERRNO... -- COMMAND...\n");
		return EXIT_SELF;
	}
	const struct sock_fprog prog = { len, code };
	/* With CAP_SYS_ADMIN no_new_privs stays off, so that evidence of it is
	 * the command's own doing. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)) {
		perror("deny: the filter");
		return EXIT_SELF;
	}
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return EXIT_SELF;
}
