/* SPDX-License-Identifier: Apache-2.0 */
/* Files: what must be absent, read-only, or impossible to leave behind. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Names in a directory besides . and .., or -1 when it cannot be listed. */
static int count_names(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	if (!d)
		return -1;
	for (struct dirent *e; (e = readdir(d));)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n;
}

/* A mask may leave an empty directory or an empty, unreadable file. */
static bool has_content(const char *path)
{
	struct stat st;
	char c;

	if (stat(path, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode))
		return count_names(path) > 0;
	if (S_ISSOCK(st.st_mode))
		return true;
	if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return st.st_rdev != makedev(1, 3); /* /dev/null is a mask */
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, &c, 1);
	close(fd);
	return n > 0;
}

static int hidden(int argc, char **argv)
{
	static const char *const paths[] = {
		"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d",
		"/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ed25519_key",
		"/etc/ssl/private", "/root/.ssh", "/root/.bashrc", "/root/.bash_history",
		"/var/lib/docker", "/var/run/docker.sock", "/run/docker.sock",
		"/run/containerd", "/run/systemd", "/run/user", "/run/lock",
		"/run/dbus/system_bus_socket", "/run/udev", "/run/secrets",
		"/var/run/secrets", "/var/log", "/var/spool/cron", "/var/backups",
		"/boot", "/lost+found", "/mnt", "/media", "/srv", "/initrd.img",
		"/sys/kernel", "/sys/class", "/sys/fs/cgroup", "/sys/firmware",
		"/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/kvm",
		"/dev/fuse", "/dev/net/tun", "/dev/loop-control", "/dev/input",
	};
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
		if (has_content(paths[i]))
			return escaped("%s is there", paths[i]);
	return held("%zu host paths absent or empty", sizeof paths / sizeof paths[0]);
}

static int absent(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (has_content(argv[i]))
			return escaped("%s is there", argv[i]);
	return held("%d paths absent or empty", argc);
}

/* Homes may hold nothing but the way to the workspace (the argument). */
static int homes(int argc, char **argv)
{
	const char *ws = argc ? argv[0] : "";
	static const char *const roots[] = { "/home", "/root" };
	char path[4096];

	for (size_t i = 0; i < 2; i++) {
		DIR *d = opendir(roots[i]);
		if (!d)
			continue;
		for (struct dirent *e; (e = readdir(d));) {
			if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
				continue;
			int n = snprintf(path, sizeof path, "%s/%s", roots[i], e->d_name);
			if (strncmp(ws, path, (size_t)n) ||
			    (ws[n] && ws[n] != '/')) {
				closedir(d);
				return escaped("%s is visible", path);
			}
		}
		closedir(d);
	}
	return held("no home but the workspace");
}

/* A home of the sandbox's own, which goes away with it, may be written. */
static bool private_home(const char *dir)
{
	const char *home = getenv("HOME");
	struct statfs fs;

	return home && !strcmp(home, dir) && statfs(dir, &fs) == 0 &&
	       fs.f_type == TMPFS_MAGIC;
}

static int readonly(int argc, char **argv)
{
	static const char *const dirs[] = { "/", "/usr", "/usr/bin", "/usr/lib", "/etc",
					    "/bin", "/lib", "/lib64", "/sbin", "/opt",
					    "/var", "/home", "/root", "/run", "/boot",
					    "/sys", "/proc", "/dev/pts" };
	static const char *const files[] = { "/etc/passwd", "/etc/hosts", "/etc/ld.so.cache",
					     "/etc/resolv.conf", "/usr/bin/env",
					     "/bin/sh", "/proc/1/exe" };
	char path[128];

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
		snprintf(path, sizeof path, "%s/.probe-%d", dirs[i], (int)getpid());
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd >= 0) {
			unlink(path);
			close(fd);
			if (!private_home(dirs[i]))
				return escaped("a file could be made in %s", dirs[i]);
		}
	}
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		if (open(files[i], O_WRONLY) >= 0)
			return escaped("%s opened for writing", files[i]);
	return held("system trees refuse writing");
}

static int writable(int argc, char **argv)
{
	char path[4200];

	for (int i = 0; i < argc; i++) {
		snprintf(path, sizeof path, "%s/.probe-%d", argv[i], (int)getpid());
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
		if (fd < 0 || write(fd, "x", 1) != 1 || unlink(path) < 0)
			return unusable("%s: %s", path, why());
		close(fd);
	}
	return held("%d directories writable, as they should be", argc);
}

static int remount(int argc, char **argv)
{
	static const char *const paths[] = { "/", "/usr", "/etc", "/proc", "/sys", "/dev" };

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
		if (mount(NULL, paths[i], NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
			return escaped("%s was remounted writable", paths[i]);
		if (mount(paths[i], paths[i], NULL, MS_BIND, NULL) == 0)
			return escaped("%s was bound onto itself", paths[i]);
		if (umount2(paths[i], MNT_DETACH) == 0)
			return escaped("%s was unmounted", paths[i]);
	}
	if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0)
		return escaped("a tmpfs was mounted");
	return held("mount and umount refused");
}

static int fds(int argc, char **argv)
{
	int open_fds = 0;

	(void)argc;
	(void)argv;
	for (int fd = 0; fd < 65536; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		open_fds++;
		if (fd > 2)
			return escaped("descriptor %d is open", fd);
	}
	return held("%d descriptors, none above 2", open_fds);
}

/* CVE-2024-21626: a descriptor or a cwd that lies outside leads to the host. */
static int fd_walk(int argc, char **argv)
{
	struct stat root, up;
	char path[256];

	(void)argc;
	(void)argv;
	if (stat("/", &root) < 0)
		return unusable("/: %s", why());
	for (int fd = -1; fd < 1024; fd++) {
		if (fd < 0)
			snprintf(path, sizeof path, "/proc/self/cwd");
		else
			snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		size_t n = strlen(path);
		struct stat st;
		if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
			continue;
		for (int i = 0; i < 40; i++)
			n += (size_t)snprintf(path + n, sizeof path - n, "/..");
		if (stat(path, &up) == 0 &&
		    (up.st_dev != root.st_dev || up.st_ino != root.st_ino))
			return escaped("%.20s… leads to another root", path);
	}
	return held("every walk upwards ends at the sandbox's own root");
}

static int in_dir(int argc, char **argv)
{
	return argc && chdir(argv[0]) < 0 ? unusable("%s: %s", argv[0], why()) : 0;
}

static int make_nodes(int argc, char **argv)
{
	static const struct {
		const char *what;
		mode_t type;
		unsigned major, minor;
	} nodes[] = {
		{ "character device", S_IFCHR, 1, 3 },
		{ "block device", S_IFBLK, 8, 0 },
		{ "whiteout", S_IFCHR, 0, 0 },
	};
	static const char name[] = ".probe-node", moved[] = ".probe-node-moved";
	int r = in_dir(argc, argv);

	for (size_t i = 0; !r && i < sizeof nodes / sizeof nodes[0]; i++) {
		dev_t dev = makedev(nodes[i].major, nodes[i].minor);
		unlink(name);
		if (mknod(name, nodes[i].type | 0600, dev) == 0) {
			unlink(name);
			return escaped("mknod made a %s", nodes[i].what);
		}
		if (syscall(SYS_mknodat, AT_FDCWD, name,
			    (1UL << 32) | nodes[i].type | 0600, dev) == 0) {
			unlink(name);
			return escaped("mknodat with high bits made a %s", nodes[i].what);
		}
	}
	if (r)
		return r;
	/* or left behind by a rename, which asks nobody for the right to make a device */
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;
	if (fd < 0)
		return unusable("%s: %s", name, why());
	close(fd);
	for (unsigned long high = 0; high < 2; high++) {
		syscall(SYS_renameat2, AT_FDCWD, name, AT_FDCWD, moved,
			high << 32 | 4 /* RENAME_WHITEOUT */);
		unlink(moved);
		if (lstat(name, &st) < 0 || !S_ISREG(st.st_mode)) {
			unlink(name);
			return escaped("renameat2 left a whiteout%s",
				       high ? ", with high bits" : "");
		}
	}
	unlink(name);
	if (mkfifo(name, 0600) < 0)
		return unusable("mkfifo, which should work: %s", why());
	unlink(name);
	return held("no device node, no whiteout; a FIFO works");
}

/* The ways to a setuid bit, each a system call on a fresh or ready file. */
enum way { W_CHMOD, W_FCHMOD, W_FCHMODAT, W_FCHMODAT2, W_OPEN, W_OPENAT, W_CREAT,
	   W_MKNOD, W_HIGH, W_MKDIR, W_OPENAT2, W_COUNT };
static const char *const way_names[W_COUNT] = {
	"chmod", "fchmod", "fchmodat", "fchmodat2", "open", "openat", "creat",
	"mknod", "chmod with high bits", "mkdir", "openat2",
};

static void try_way(enum way way, const char *name, mode_t mode)
{
	struct {
		unsigned long long flags, mode, resolve;
	} how = { O_CREAT | O_WRONLY, mode, 0 };
	int fd = -1;

	if (way <= W_FCHMODAT2 || way == W_HIGH)
		fd = open(name, O_WRONLY | O_CREAT, 0600);
	switch (way) {
	case W_CHMOD: chmod(name, mode); break;
	case W_FCHMOD: fchmod(fd, mode); break;
	case W_FCHMODAT: (void)!fchmodat(AT_FDCWD, name, mode, 0); break;
	case W_FCHMODAT2: syscall(452, AT_FDCWD, name, mode, 0); break;
	case W_OPEN: fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_CREAT | O_WRONLY, mode); break;
	case W_OPENAT: fd = openat(AT_FDCWD, name, O_CREAT | O_RDWR | O_EXCL, mode); break;
	case W_CREAT: fd = creat(name, mode); break;
	case W_MKNOD: mknod(name, S_IFREG | mode, 0); break;
	case W_HIGH:
		syscall(SYS_fchmod, fd, (1UL << 40) | mode);
		break;
	case W_MKDIR: mkdir(name, mode); break;
	case W_OPENAT2:
		fd = (int)syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how);
		break;
	case W_COUNT: break;
	}
	if (fd >= 0)
		close(fd);
}

static int setuid_bits(int argc, char **argv)
{
	static const mode_t modes[] = { 04755, 02755, 06711 };
	static const char name[] = ".probe-suid";
	int r = in_dir(argc, argv);

	umask(0);
	for (int way = 0; !r && way < W_COUNT; way++) {
		for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
			struct stat st;
			unlink(name);
			rmdir(name);
			try_way((enum way)way, name, modes[i]);
			if (stat(name, &st) == 0 && !S_ISDIR(st.st_mode) &&
			    (st.st_mode & 06000)) {
				unlink(name);
				return escaped("%s left mode %o", way_names[way],
					       (unsigned)st.st_mode & 07777);
			}
		}
	}
	unlink(name);
	rmdir(name);
	return r ? r : held("%d ways to a setuid or setgid file refused", W_COUNT);
}

static int file_caps(int argc, char **argv)
{
	/* VFS_CAP_REVISION_2, effective, CAP_SYS_ADMIN */
	static const unsigned char cap[20] = { 1, 0, 0, 2, 0, 0, 0x20, 0 };
	static const char name[] = ".probe-cap";
	int r = in_dir(argc, argv);

	if (r)
		return r;
	int fd = open(name, O_RDWR | O_CREAT, 0700);
	if (fd < 0)
		return unusable("%s: %s", name, why());
	bool set = fsetxattr(fd, "security.capability", cap, sizeof cap, 0) == 0;
	bool trusted = fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) == 0;
	unlink(name);
	if (set || trusted)
		return escaped("a %s attribute was set", set ? "capability" : "trusted");
	return held("file capabilities and trusted attributes refused");
}

static int devices(int argc, char **argv)
{
	static const char ok[] = " . .. null zero full random urandom tty console ptmx pts "
				 "shm mqueue fd stdin stdout stderr core ";
	char word[300];
	DIR *d = opendir("/dev");

	(void)argc;
	(void)argv;
	if (!d)
		return held("no /dev");
	for (struct dirent *e; (e = readdir(d));) {
		snprintf(word, sizeof word, " %s ", e->d_name);
		if (!strstr(ok, word))
			return escaped("/dev/%s", e->d_name);
	}
	closedir(d);
	return held("only the harmless devices");
}

const struct probe probes_files[] = {
	{ "hidden", "", "secrets and sockets of the host are absent", ALWAYS, false, 0, hidden },
	{ "absent", "PATH...", "these paths are absent or empty", BY_NAME, false, 1, absent },
	{ "homes", "[WORKSPACE]", "no home directory but the way to the workspace", BY_NAME, false, 0, homes },
	{ "readonly", "", "system trees cannot be written", ALWAYS, true, 0, readonly },
	{ "writable", "DIR...", "these can be written (the sandbox is usable)", BY_NAME, false, 1, writable },
	{ "remount", "", "mount, remount, umount refused", ALWAYS, true, 0, remount },
	{ "fds", "", "no descriptor above 2", ALWAYS, false, 0, fds },
	{ "fd-walk", "", "descriptors and cwd do not lead out", ALWAYS, false, 0, fd_walk },
	{ "mknod", "[DIR]", "no device nodes or whiteouts", ALWAYS, true, 0, make_nodes },
	{ "setuid-bits", "[DIR]", "no setuid or setgid files", ALWAYS, true, 0, setuid_bits },
	{ "file-caps", "[DIR]", "no file capabilities", ALWAYS, true, 0, file_caps },
	{ "devices", "", "/dev holds only harmless names", ALWAYS, false, 0, devices },
	{ 0 },
};
