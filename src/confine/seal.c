/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mountapi.h"
#include "base/raw.h"

enum {
	TRIES = 10,
	PAUSE_NS = 5000000, /* the last process may still hold a file open */
};

/* In a process of its own: it enters the sandbox's user namespace, where the owner has
 * every capability, and none outside.  Bare calls only: it is a fork of a program that
 * may have threads. */
static long seal(int mntns)
{
	const struct mnt_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	long user = SYS2(SYS_ioctl, mntns, NS_GET_USERNS);
	long r = user < 0 ? user : SYS2(SYS_setns, user, CLONE_NEWUSER);

	if (r == 0)
		r = SYS2(SYS_setns, mntns, CLONE_NEWNS);
	for (int i = 0; r == 0 && i < TRIES; i++) {
		long e = SYS5(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &ro, sizeof ro);
		if (e != -EBUSY)
			return e;
		SYS2(SYS_nanosleep, &pause, 0);
	}
	return r < 0 ? r : -EBUSY;
}

int seal_mounts(int mntns)
{
	long got;
	int st = -1; /* nobody ends like that */

	if (mntns < 0)
		return -ENOENT;
	long pid = SYS5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		die((int)-seal(mntns));
	if (pid < 0)
		return (int)pid;
	do
		got = SYS4(SYS_wait4, pid, &st, 0, 0);
	while (got == -EINTR);
	return got == pid && WIFEXITED(st) ? -WEXITSTATUS(st) : -ECHILD;
}
