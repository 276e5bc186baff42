/* SPDX-License-Identifier: Apache-2.0 */
/* brig-seccomp LABEL: compiles a profile in Docker's JSON format.  Run by brig,
 * so that brig itself carries no JSON reader. */
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "confine/seccomp.h"
#include "confine/seccomp_helper.h"

int main(int argc, char **argv)
{
	struct seccomp_helper_reply rep = { .magic = SECCOMP_HELPER_MAGIC };
	struct seccomp_prog *prog = NULL;
	char *json = NULL;
	size_t len = 0;

	int r = fd_read_all(STDIN_FILENO, 1 << 20, &json, &len);
	if (r < 0)
		err_set(&rep.error, BRIG_E_BAD_SECCOMP_PROFILE, -r, "policy", "reading");
	else if (seccomp_profile_compile(json, len, argc > 1 ? argv[1] : "profile",
					 &prog, &rep.error) == 0)
		rep.len = prog->len;
	if (fd_write_full(STDOUT_FILENO, &rep, sizeof rep) < 0 ||
	    (prog && fd_write_full(STDOUT_FILENO, prog->insns,
				   prog->len * sizeof *prog->insns) < 0))
		return 1;
	seccomp_prog_free(prog);
	free(json);
	return 0;
}
