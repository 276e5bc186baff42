/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/raw.h"

void ids_format(struct id_maps *m, uid_t in_uid, uid_t out_uid, gid_t in_gid, gid_t out_gid)
{
	snprintf(m->uid, sizeof m->uid, "%u %u 1\n", in_uid, out_uid);
	snprintf(m->gid, sizeof m->gid, "%u %u 1\n", in_gid, out_gid);
}

int ids_map(const char *proc, const struct id_maps *m, int deny_setgroups)
{
	cleanup_close int dir = openat(AT_FDCWD, proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = dir < 0 ? -errno : 0;

	if (r == 0 && deny_setgroups)
		r = fd_write_at(dir, "setgroups", "deny");
	if (r == 0)
		r = fd_write_at(dir, "gid_map", m->gid);
	if (r == 0)
		r = fd_write_at(dir, "uid_map", m->uid);
	return r;
}

/* Bare calls: a C library's would change the ids of all threads it knows of. */
int ids_become(uid_t uid, gid_t gid, int drop_groups)
{
	long r = drop_groups ? SYS2(SYS_setgroups, 0, 0) : 0;

	if (r == 0)
		r = SYS3(SYS_setresgid, gid, gid, gid);
	if (r == 0)
		r = SYS3(SYS_setresuid, uid, uid, uid);
	return (int)r;
}

int ids_own_keyring(void)
{
	long r = SYS2(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0);

	return r < 0 && r != -ENOSYS && r != -EOPNOTSUPP ? (int)r : 0;
}
