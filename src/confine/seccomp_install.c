/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a filter.  No C library: the gate has none. */
#include <errno.h>
#include <linux/seccomp.h>

#include "base/raw.h"
#include "base/sys.h"
#include "confine/seccomp.h"

static long load(const struct seccomp_prog *prog, unsigned long flags)
{
	const struct sock_fprog p = { prog->len, (struct sock_filter *)prog->insns };

	return SYS3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p);
}

int seccomp_install(const struct seccomp_prog *prog, const struct seccomp_prog *quiet,
		 int *listener)
{
	const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;

	*listener = -1;
	if (!prog->notify)
		return (int)load(prog, 0);
	long fd = load(prog, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
	if (fd == -EINVAL) /* before Linux 5.19 */
		fd = load(prog, flags);
	/* Around us is somebody else's supervisor (a container manager's), and a
	 * process may have one: the same verdicts, of which nobody is told. */
	if (fd == -EBUSY && quiet)
		return (int)load(quiet, 0);
	if (fd < 0)
		return (int)fd;
	*listener = (int)fd;
	return 0;
}
