/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"
#include "workspace/protect_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/fs.h> /* RENAME_NOREPLACE */
#include <stdio.h>    /* renameat */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int protect_open(int dirfd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	do
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
	while (fd < 0 && (errno == EINTR || errno == EAGAIN));
	return fd < 0 ? -errno : (int)fd;
}

bool protect_missing(int dirfd, const char *path)
{
	struct stat st;

	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

int protect_chmod(int fd, mode_t mode)
{
	char link[32] = "/proc/self/fd/";
	size_t at = sizeof "/proc/self/fd/" - 1;
	unsigned div = 1000000000;

#ifdef SYS_fchmodat2
	if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0)
		return 0;
#endif
	for (bool seen = false; div; div /= 10) {
		unsigned digit = (unsigned)fd / div % 10;
		seen = seen || digit || div == 1;
		if (seen)
			link[at++] = (char)('0' + digit);
	}
	link[at] = '\0';
	return chmod(link, mode) < 0 ? -errno : 0;
}

int protect_unlock(int dfd)
{
	struct stat st;

	if (fstat(dfd, &st) < 0)
		return -errno;
	int r = protect_chmod(dfd, (st.st_mode & 07777) | 0700);
	return r < 0 ? r : (int)(st.st_mode & 07777);
}

int protect_open_forced(int dfd, const char *name, int flags)
{
	int fd = protect_open(dfd, name, flags);

	if (fd == -EACCES) {
		int mode = protect_unlock(dfd);
		if (mode < 0)
			return -EACCES;
		fd = protect_open(dfd, name, flags);
		protect_chmod(dfd, (mode_t)mode);
	}
	return fd;
}

static int rename_name(int dfd, const char *from, const char *to)
{
	if (sys_renameat2(dfd, from, dfd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EINVAL) {
		/* a file system without the flag; nobody else is at work in
		 * the sandbox any more, so looking first is good enough */
		struct stat st;
		if (fstatat(dfd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return -EEXIST;
		if (renameat(dfd, from, dfd, to) == 0)
			return 0;
	}
	return -errno;
}

int protect_rename(int dfd, const char *from, const char *to)
{
	int r = rename_name(dfd, from, to);

	if (r == -EACCES) {
		int mode = protect_unlock(dfd);
		if (mode < 0)
			return -EACCES;
		r = rename_name(dfd, from, to);
		protect_chmod(dfd, (mode_t)mode);
	}
	return r;
}
