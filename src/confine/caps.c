/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

#include "base/raw.h"

static int drop_bounding_set(bool owner)
{
	for (unsigned long cap = 0; cap < 64; cap++) {
		long r = SYS5(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
		if (r == -EINVAL && cap > 0)
			return 0; /* past the last one this kernel knows */
		if (r == -EPERM && !owner)
			return 0;
		if (r < 0)
			return (int)r;
	}
	return 0;
}

int caps_drop(bool owner, const char **what)
{
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
				   SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
				   SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
				   SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };

	/* Needs CAP_SETPCAP, so it comes before the sets are emptied. */
	*what = "securebits";
	long r = owner ? SYS5(SYS_prctl, PR_SET_SECUREBITS, bits, 0, 0, 0) : 0;
	if (r == 0) {
		*what = "bounding set";
		r = drop_bounding_set(owner);
	}
	if (r == 0) {
		*what = "emptying the sets";
		r = SYS5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	}
	if (r == 0)
		r = SYS2(SYS_capset, &hdr, none);
	if (r == 0) {
		/* from here on no execve can raise anything, whatever file it finds */
		*what = "no_new_privs";
		r = SYS5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	}
	return (int)r;
}
