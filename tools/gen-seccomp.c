/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gen-seccomp ARCH [raw]: compiles the default filters when brig is built and
 * prints them as C, or the plain one as the kernel takes it.  Runs on the build machine; ARCH is what brig is being
 * built for ("x86_64", "aarch64").  A name that the table does not know, and
 * a call of the table without a verdict, end the build here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confine/seccomp_default.h"

static void print_array(const char *name, const struct sock_filter *insns,
			unsigned short len)
{
	printf("\nstatic const struct sock_filter %s[] = {\n", name);
	for (unsigned i = 0; i < len; i++)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", insns[i].code,
		       insns[i].jt, insns[i].jf, insns[i].k);
	printf("};\n");
}

/* Builds one of the policies by its name in the output. */
static int build(const char *which, enum seccomp_arch arch,
		 struct seccomp_default_policy *policy, const char **problem,
		 const char **name)
{
	if (strcmp(which, "floor") == 0)
		return seccomp_floor_build(arch, policy, problem, name);
	if (strcmp(which, "hostns_notify") == 0)
		return seccomp_hostns_build(arch, policy, problem, name);
	return seccomp_default_build(arch, strcmp(which, "default_notify") == 0,
				     policy, problem, name);
}

static int print_filter(const char *which, enum seccomp_arch arch,
			struct seccomp_default_policy *policy)
{
	const char *problem = "", *name = "";
	struct sock_filter *insns = NULL;
	unsigned short len = 0;

	int r = build(which, arch, policy, &problem, &name);
	if (r < 0) {
		fprintf(stderr, "gen-seccomp: in seccomp_default.c, %s %s\n",
			name, problem);
		return r;
	}
	r = seccomp_bpf_compile(&policy->policy, &insns, &len);
	if (r < 0) {
		fprintf(stderr, "gen-seccomp: compiling: %s\n", strerror(-r));
		return r;
	}
	print_array(strcmp(which, "floor") ? which : "floor_insns", insns, len);
	free(insns);
	return 0;
}

/* For programs that load a filter from a file, bubblewrap in the benchmark. */
static int write_raw(enum seccomp_arch arch, struct seccomp_default_policy *policy)
{
	const char *problem = "", *name = "";
	struct sock_filter *insns = NULL;
	unsigned short len = 0;

	if (build("default_plain", arch, policy, &problem, &name) < 0 ||
	    seccomp_bpf_compile(&policy->policy, &insns, &len) < 0)
		return 1;
	size_t n = fwrite(insns, sizeof *insns, len, stdout);
	free(insns);
	return n != len || fflush(stdout) != 0;
}

int main(int argc, char **argv)
{
	enum seccomp_arch arch = argc == 2 || argc == 3 ? seccomp_table_arch(argv[1]) :
					     SECCOMP_ARCH_COUNT;
	if (arch == SECCOMP_ARCH_COUNT) {
		fprintf(stderr, "usage: gen-seccomp x86_64|aarch64\n");
		return 2;
	}
	struct seccomp_default_policy *policy = calloc(1, sizeof *policy);
	if (!policy)
		return 1;
	if (argc == 3 && strcmp(argv[2], "raw") == 0) {
		int raw = write_raw(arch, policy);
		free(policy);
		return raw;
	}

	printf("/* Made by tools/gen-seccomp for %s from"
	       " src/confine/seccomp_default.c. */\n", argv[1]);
	/* Other architectures must not compile someone else's numbers in. */
	printf("#ifndef __%s__\n#error \"these filters are for %s\"\n#endif\n",
	       argv[1], argv[1]);
	int r = print_filter("floor", arch, policy);
	if (r == 0)
		r = print_filter("default_plain", arch, policy);
	if (r == 0)
		r = print_filter("hostns_notify", arch, policy);
	/* last: the policy's table of reported errnos is printed below */
	if (r == 0)
		r = print_filter("default_notify", arch, policy);

	printf("\nstatic const unsigned char refusal_errno[] = {");
	for (size_t i = 0; i < policy->policy.ncalls; i++)
		printf("%s%u,", i % 16 ? " " : "\n\t", policy->refusal[i]);
	printf("\n};\n");
	free(policy);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("gen-seccomp: writing");
		return 1;
	}
	return r < 0;
}
