/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/rlimits.h"

#include "base/raw.h"

int rlimit_lower(unsigned what, uint64_t value)
{
	struct {
		uint64_t soft, hard;
	} old = { UINT64_MAX, UINT64_MAX }, new = { value, value };

	if (!value)
		return 0;
	long r = SYS4(SYS_prlimit64, 0, what, 0, &old);
	if (r == 0 && old.hard < value)
		new.soft = new.hard = old.hard;
	r = SYS4(SYS_prlimit64, 0, what, &new, 0);
	return (int)r;
}
