/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#include "base/mountapi.h"
#include "base/raw.h"
#include "engine/collect.h"

enum {
	TRIES = 10,
	PAUSE_NS = 5000000, /* the last process may not have let go of all it had */
};

/* --- without mount_setattr: one mount after the other --- */

static char table[1 << 17]; /* of the mounts; in whoever seals, who has a copy of our memory */

/* 0, or -errno: one that does not fit is a failure, as something would be missed. */
static long read_table(long proc)
{
	long fd = SYS4(SYS_openat, proc, "self/mountinfo", O_RDONLY | O_CLOEXEC, 0), n = fd;
	size_t len = 0;

	while (fd >= 0 && len < sizeof table - 1 &&
	       (n = SYS3(SYS_read, fd, table + len, sizeof table - 1 - len)) > 0)
		len += (size_t)n;
	if (fd >= 0)
		SYS1(SYS_close, fd);
	table[len] = '\0';
	return n < 0 ? n : n > 0 ? -E2BIG : 0;
}

/* Cuts the next line off the table: where it is mounted, and its options.  False: no more. */
static bool next_mount(char **rest, char **point, char **options)
{
	char *line = *rest, *end = strchr(line, '\n'), *w;

	if (!end)
		return false;
	*end = '\0';
	*rest = end + 1;
	for (int i = 0; i < 4; i++) /* id, parent, device, what of it */
		line += strcspn(line, " ") + (line[strcspn(line, " ")] != '\0');
	*point = w = line;
	for (; *line && *line != ' '; line++) {
		bool octal = line[0] == '\\' && line[1] && line[2] && line[3];
		*w++ = octal ? (char)((line[1] - '0') << 6 | (line[2] - '0') << 3 |
				      (line[3] - '0')) : *line;
		line += octal ? 3 : 0;
	}
	*options = *line ? line + 1 : line;
	*w = '\0';
	return true;
}

/* What a remount has to keep, or the kernel refuses it. */
static unsigned long kept(const char *options)
{
	return (strstr(options, "nosuid") ? MS_NOSUID : 0) |
	       (strstr(options, "nodev") ? MS_NODEV : 0) |
	       (strstr(options, "noexec") ? MS_NOEXEC : 0);
}

/*
 * A path is looked up anew, in directories that somebody outside may change meanwhile.  So
 * nothing is believed that was not read again: it is done when all of the table is read-only.
 */
static long seal_each(long proc)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	long why = -EBUSY;

	for (int i = 0; i < TRIES; i++) {
		char *rest = table, *point, *options;
		bool open = false, refused = false;
		long r = read_table(proc);
		if (r < 0)
			return r;
		while (next_mount(&rest, &point, &options)) {
			if (strncmp(options, "ro", 2) == 0)
				continue;
			open = true;
			r = SYS5(SYS_mount, 0, point, 0,
				 MS_REMOUNT | MS_BIND | MS_RDONLY | kept(options), 0);
			if (r < 0)
				why = r;
			refused = refused || r < 0;
		}
		if (!open)
			return 0;
		if (refused)
			SYS2(SYS_nanosleep, &pause, 0);
	}
	return why;
}

/*
 * In a process of its own, as it gets into the sandbox's user namespace for it: whose owner
 * we are, with every capability in there, and none out here.  It has a copy of our memory
 * and makes system calls only.
 */
static long seal(int mounts)
{
	const struct mnt_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	/* ours: the one in there belongs to processes that are gone */
	long proc = SYS4(SYS_openat, AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	long user = SYS2(SYS_ioctl, mounts, NS_GET_USERNS);
	long r = user < 0 ? user : SYS2(SYS_setns, user, CLONE_NEWUSER);

	if (r == 0)
		r = SYS2(SYS_setns, mounts, CLONE_NEWNS);
	for (int i = 0; r == 0 && i < TRIES; i++) {
		long e = SYS5(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &ro, sizeof ro);
		if (e == -ENOSYS)
			return proc < 0 ? proc : seal_each(proc);
		if (e != -EBUSY)
			return e;
		SYS2(SYS_nanosleep, &pause, 0);
	}
	return r < 0 ? r : -EBUSY;
}

int seal_mounts(void *held)
{
	const struct collect *c = held;
	long got;
	int st = -1; /* nobody ends like that */

	if (c->mounts < 0)
		return -ENOENT;
	/* not the C library's: the custodian has no business with its locks */
	long pid = SYS5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		die((int)-seal(c->mounts));
	if (pid < 0)
		return (int)pid;
	do
		got = SYS4(SYS_wait4, pid, &st, 0, 0);
	while (got == -EINTR);
	return got == pid && WIFEXITED(st) ? -WEXITSTATUS(st) : -ECHILD;
}
