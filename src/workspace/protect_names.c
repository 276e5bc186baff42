/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/protect_names.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* Where a listing has every name that can be looked up.  A file system in user space, one
 * of the network or an automatic mount need not keep to that. */
static bool lists_all(int fd)
{
	static const uint32_t kinds[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
					  TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC };
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if ((uint32_t)fs.f_type == kinds[i])
			return true;
	return false;
}

/* The name of the entry at *at, which then is the next one; NULL at the end. */
static const char *next(const struct protect_names *names, size_t *at)
{
	const size_t head = offsetof(struct sys_dirent, name), left = names->n - *at;
	const struct sys_dirent *e = (const void *)(names->entries + *at);

	/* aligned, as the kernel makes every one; and long enough to end */
	if (left <= head || e->len <= head || e->len > left || e->len % _Alignof(struct sys_dirent))
		return NULL;
	*at += e->len;
	return e->name;
}

/* In a directory that takes upper and lower case for the same, letters of other scripts,
 * and signs that cannot be seen, can stand for plain ones. */
static bool plain(const struct protect_names *names)
{
	size_t at = 0;

	for (const char *name; (name = next(names, &at));)
		for (; *name; name++)
			if ((unsigned char)*name >= 0x80)
				return false;
	return at == names->n; /* all of it was understood */
}

void protect_names_read(struct protect_names *names, int dirfd)
{
	/* The time of the last access is not ours to change; who may not ask for that asks
	 * for the names one by one. */
	cleanup_close int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);

	names->n = 0;
	if (fd < 0 || !lists_all(fd))
		return;
	long n = syscall(SYS_getdents64, fd, names->entries, sizeof names->entries);
	char more[512];
	/* the second answer says that this was all */
	if (n <= 0 || n > (long)sizeof names->entries ||
	    syscall(SYS_getdents64, fd, more, sizeof more) != 0)
		return;
	names->n = (size_t)n;
	if (!plain(names))
		names->n = 0;
}

bool protect_names_lack(const struct protect_names *names, const char *name)
{
	size_t at = 0;

	if (!names->n)
		return false;
	for (const char *other; (other = next(names, &at));)
		if (!strcasecmp(other, name))
			return false;
	return true;
}
