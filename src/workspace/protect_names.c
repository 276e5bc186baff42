/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/protect_names.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum {
	LONGEST = 280,    /* an entry, with the longest name there is */
	LARGE = 16 << 10, /* see worth_listing() */
};

/* Where a listing has every name that can be looked up: not in user space, over the network
 * or where mounts come by themselves.  And where it is short: an ext4 directory that once
 * was large is read as a whole, though next to nothing is in it any more, and one of
 * overlayfs is put together from all its layers first. */
static bool worth_listing(int fd)
{
	static const uint32_t kinds[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
					  TMPFS_MAGIC };
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size > LARGE || fstatfs(fd, &fs) < 0)
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

static bool is_ascii(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name >= 0x80)
			return false;
	return true;
}

/* In a directory that takes upper and lower case for the same, letters of other scripts,
 * and signs that cannot be seen, can stand for plain ones. */
static bool plain(const struct protect_names *names)
{
	size_t at = 0;

	for (const char *name; (name = next(names, &at));)
		if (!is_ascii(name))
			return false;
	return at == names->n; /* all of it was understood */
}

/* Not the C library's: what it takes for the same is a matter of the caller's language. */
static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same(const char *a, const char *b)
{
	for (; *a && lower(*a) == lower(*b); a++, b++)
		;
	return !*a && !*b;
}

void protect_names_read(struct protect_names *names, int dirfd)
{
	/* The time of the last access is not ours to change; who may not ask for that asks
	 * for the names one by one. */
	cleanup_close int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);

	names->n = 0;
	if (fd < 0 || !worth_listing(fd))
		return;
	/* All of it in one call, during which nothing changes: there was room for one more,
	 * and the second call says that there is none (a signal may end one early). */
	long n = syscall(SYS_getdents64, fd, names->entries, sizeof names->entries);
	char more[512];
	if (n <= 0 || n > (long)sizeof names->entries - LONGEST ||
	    syscall(SYS_getdents64, fd, more, sizeof more) != 0)
		return;
	names->n = (size_t)n;
	if (!plain(names))
		names->n = 0;
}

bool protect_names_lack(const struct protect_names *names, const char *name)
{
	size_t at = 0;

	if (!names->n || !is_ascii(name))
		return false;
	for (const char *other; (other = next(names, &at));)
		if (same(other, name))
			return false;
	return true;
}
