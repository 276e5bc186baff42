/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds bytes to the profile reader.  Whatever comes out must be a program
 * the kernel would take, that returns for every call, and that never lets a
 * foreign architecture through; whatever does not must have said why, on one
 * line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/bpf_sim.h"
#include "confine/seccomp.h"
#include "confine/seccomp_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_program(const struct seccomp_prog *prog)
{
	static const uint64_t values[] = { 0, 1, 0x5412, 0xffffffff,
					   0x100000000, UINT64_MAX };

	if (!bpf_sim_valid(prog->insns, prog->len))
		abort();
	for (int nr = -1; nr < SECCOMP_NR_MAX; nr++) {
		struct seccomp_data d = {
			.nr = nr,
			.arch = seccomp_table_audit_arch(SECCOMP_ARCH_NATIVE),
		};
		for (int i = 0; i < 6; i++)
			d.args[i] = values[(nr + 1 + i) % 6];
		if (bpf_sim_run(prog->insns, prog->len, &d, NULL) ==
		    BPF_SIM_ERROR)
			abort();
		d.arch ^= 1;
		if (bpf_sim_run(prog->insns, prog->len, &d, NULL) ==
		    SECCOMP_RET_ALLOW)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seccomp_prog *prog = NULL;
	struct brig_error err = { 0 };

	int r = seccomp_profile_compile((const char *)data, size, "fuzz", &prog,
					&err);
	if (r == 0) {
		check_program(prog);
		seccomp_prog_free(prog);
	} else if (prog || err.code == BRIG_E_OK || !err.message[0] ||
		   strpbrk(err.message, "\n\r\033")) {
		abort();
	}
	return 0;
}
