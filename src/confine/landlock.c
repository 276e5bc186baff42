/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"

/* Our own copies: the kernel headers of the floor know only the first version. */
#define FS_EXECUTE (1ull << 0)
#define FS_WRITE_FILE (1ull << 1)
#define FS_READ_FILE (1ull << 2)
#define FS_READ_DIR (1ull << 3)
#define FS_REMOVE_DIR (1ull << 4)
#define FS_REMOVE_FILE (1ull << 5)
#define FS_MAKE_CHAR (1ull << 6)
#define FS_MAKE_DIR (1ull << 7)
#define FS_MAKE_REG (1ull << 8)
#define FS_MAKE_SOCK (1ull << 9)
#define FS_MAKE_FIFO (1ull << 10)
#define FS_MAKE_BLOCK (1ull << 11)
#define FS_MAKE_SYM (1ull << 12)
#define FS_REFER (1ull << 13)     /* version 2 */
#define FS_TRUNCATE (1ull << 14)  /* version 3 */
#define FS_IOCTL_DEV (1ull << 15) /* version 5 */
#define NET_BIND_TCP (1ull << 0)  /* version 4 */
#define NET_CONNECT_TCP (1ull << 1)
#define SCOPE_ABSTRACT_UNIX (1ull << 0) /* version 6 */
#define SCOPE_SIGNAL (1ull << 1)

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT 2 /* version 4 */

struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};
struct path_beneath_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));

struct net_port_attr {
	uint64_t allowed_access;
	uint64_t port;
};

/* Highest right known per version: a kernel refuses bits it does not know. */
static uint64_t fs_mask(int abi)
{
	uint64_t all = (FS_IOCTL_DEV << 1) - 1;

	if (abi < 2)
		all &= ~FS_REFER;
	if (abi < 3)
		all &= ~FS_TRUNCATE;
	if (abi < 5)
		all &= ~FS_IOCTL_DEV;
	return all;
}

static const uint64_t class_rights[] = {
	[LL_READ] = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR,
	/* never MAKE_CHAR or MAKE_BLOCK: no device, no overlay whiteout */
	[LL_WRITE] = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE |
		     FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG |
		     FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER |
		     FS_TRUNCATE,
	[LL_DEVICE] = FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE |
		      FS_IOCTL_DEV,
	[LL_LOOK] = FS_READ_FILE | FS_READ_DIR,
	/* own /proc/self/{comm,oom_score_adj,…}; what must not be written is
	 * mounted read-only */
	[LL_PROC] = FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE,
};
#define DIR_ONLY                                                               \
	(FS_READ_DIR | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_CHAR |         \
	 FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO |             \
	 FS_MAKE_BLOCK | FS_MAKE_SYM | FS_REFER)

int landlock_abi(void)
{
	long r = syscall(SYS_landlock_create_ruleset, NULL, 0,
			 CREATE_RULESET_VERSION);
	return r < 0 ? -errno : (int)r;
}

int landlock_allow(int ruleset, int fd, enum ll_class class, bool is_dir, int abi)
{
	uint64_t rights = class_rights[class] & fs_mask(abi);

	if (!is_dir)
		rights &= ~DIR_ONLY;
	struct path_beneath_attr attr = { .allowed_access = rights,
					  .parent_fd = fd };
	return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0) < 0 ? -errno : 0;
}

int landlock_allow_port(int ruleset, unsigned port)
{
	const struct net_port_attr attr = { .allowed_access = NET_CONNECT_TCP, .port = port };

	return syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &attr, 0) < 0 ? -errno : 0;
}

static int add_rule(int ruleset, const struct plan_rule *rule, int abi)
{
	cleanup_close int fd = openat(AT_FDCWD, rule->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : landlock_allow(ruleset, fd, rule->class, rule->is_dir, abi);
}

int landlock_ruleset(const struct plan_rule *rules, size_t n, int abi, bool deny_tcp)
{
	struct ruleset_attr attr = { .handled_access_fs = fs_mask(abi) };
	size_t size = sizeof attr.handled_access_fs;

	if (abi >= 4) {
		size = 2 * sizeof(uint64_t);
		if (deny_tcp)
			attr.handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
	}
	if (abi >= 6) {
		size = sizeof attr;
		attr.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
	}
	cleanup_close int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < n; i++) {
		int r = add_rule(fd, &rules[i], abi);
		if (r < 0)
			return r;
	}
	return take_fd(&fd);
}

int landlock_apply(int ruleset)
{
	return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}

int landlock_canary(int dirfd)
{
	static const char name[] = ".brig-canary";

	/* Device 0:0 is the one character device anybody may make, so without
	 * Landlock this succeeds; it runs before the filter that also refuses
	 * it, and in a private tmpfs. */
	if (mknodat(dirfd, name, S_IFCHR | 0600, makedev(0, 0)) == 0) {
		unlinkat(dirfd, name, 0);
		return 0;
	}
	return errno;
}

int landlock_canary_file(int dirfd)
{
	static const char name[] = ".brig-canary";

	if (mknodat(dirfd, name, S_IFREG | 0600, 0) == 0) {
		unlinkat(dirfd, name, 0);
		return 0;
	}
	return errno;
}
