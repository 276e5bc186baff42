/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file-descriptor mount interface (Linux 5.2 to 5.12, one call 6.15) as thin wrappers
 * of our own, because not every C library that brig is built with has them.
 */
#ifndef BASE_MOUNTAPI_H
#define BASE_MOUNTAPI_H

#include <stdint.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#define OPEN_TREE_CLOEXEC 02000000
#define MOVE_MOUNT_F_EMPTY_PATH 0x04
#define MOVE_MOUNT_T_EMPTY_PATH 0x40
#define FSOPEN_CLOEXEC 1
#define FSMOUNT_CLOEXEC 1
#define FSCONFIG_SET_STRING 1
#define FSCONFIG_CMD_CREATE 6
#define MOUNT_ATTR_RDONLY 0x01
#define MOUNT_ATTR_NOSUID 0x02
#define MOUNT_ATTR_NODEV 0x04
#define MOUNT_ATTR_NOEXEC 0x08
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

struct mnt_attr {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};

static inline int sys_open_tree(int dirfd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dirfd, path, flags);
}
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
static inline int sys_open_tree_attr(int dirfd, const char *path, unsigned flags,
				     const struct mnt_attr *attr, size_t size)
{
	return (int)syscall(SYS_open_tree_attr, dirfd, path, flags, attr, size);
}
static inline int sys_move_mount(int from, const char *from_path, int to,
				 const char *to_path, unsigned flags)
{
	return (int)syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}
static inline int sys_fsopen(const char *type, unsigned flags)
{
	return (int)syscall(SYS_fsopen, type, flags);
}
static inline int sys_fsconfig(int fd, unsigned cmd, const char *key,
			       const char *value)
{
	return (int)syscall(SYS_fsconfig, fd, cmd, key, value, 0);
}
static inline int sys_fsmount(int fd, unsigned flags, unsigned attrs)
{
	return (int)syscall(SYS_fsmount, fd, flags, attrs);
}
static inline int sys_mount_setattr(int dirfd, const char *path, unsigned flags,
				    const struct mnt_attr *attr, size_t size)
{
	return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, size);
}

#endif
