/* SPDX-License-Identifier: Apache-2.0 */
/* /proc and /sys, and the sandbox's init seen through /proc/1. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int pid1_files(int argc, char **argv)
{
	static const char *const files[] = { "environ", "mem", "maps", "auxv", "stack",
					     "pagemap", "syscall", "io" };
	static const char *const links[] = { "exe", "root", "cwd", "ns/mnt", "ns/user" };
	char path[64], buf[256];

	(void)argc;
	(void)argv;
	if (getpid() == 1)
		return unusable("this process is PID 1 itself");
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		snprintf(path, sizeof path, "/proc/1/%s", files[i]);
		int fd = open(path, O_RDONLY);
		ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf);
		if (fd >= 0)
			close(fd);
		if (n > 0)
			return escaped("%s can be read", path);
	}
	for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
		snprintf(path, sizeof path, "/proc/1/%s", links[i]);
		if (readlink(path, buf, sizeof buf) >= 0)
			return escaped("%s can be read", path);
	}
	if (open("/proc/1/mem", O_RDWR) >= 0)
		return escaped("/proc/1/mem opened for writing");
	DIR *d = opendir("/proc/1/fd");
	if (d && readdir(d))
		return escaped("/proc/1/fd can be listed");
	return held("PID 1 shows nothing of itself");
}

static int pid1_trace(int argc, char **argv)
{
	char c;
	struct iovec mine = { &c, 1 }, theirs = { (void *)0x400000, 1 };

	(void)argc;
	(void)argv;
	if (getpid() == 1)
		return unusable("this process is PID 1 itself");
	if (ptrace(PTRACE_SEIZE, 1, 0, 0) == 0)
		return escaped("PTRACE_SEIZE of PID 1");
	if (ptrace(PTRACE_ATTACH, 1, 0, 0) == 0)
		return escaped("PTRACE_ATTACH of PID 1");
	if (process_vm_readv(1, &mine, 1, &theirs, 1, 0) == 1 || errno == EFAULT)
		return escaped("process_vm_readv reaches PID 1");
	int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
	if (pidfd >= 0 && syscall(SYS_pidfd_getfd, pidfd, 0, 0) >= 0)
		return escaped("pidfd_getfd took a descriptor of PID 1");
	return held("PID 1 cannot be traced");
}

static char state_of(int pid)
{
	char path[64], buf[512];

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return '?';
	buf[n] = '\0';
	char *end = strrchr(buf, ')');
	return end && end[1] ? end[2] : '?';
}

static int pid1_kill(int argc, char **argv)
{
	static const int signals[] = { SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGALRM,
				       SIGSTOP, SIGTSTP, SIGABRT, SIGSEGV, SIGSYS, SIGKILL };
	const struct timespec bit = { .tv_nsec = 20 * 1000000 };

	(void)argc;
	(void)argv;
	if (getpid() == 1)
		return unusable("this process is PID 1 itself");
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		kill(1, signals[i]);
		nanosleep(&bit, NULL);
		char state = state_of(1);
		if (state == 'T' || state == 't' || state == 'Z' || state == 'X')
			return escaped("signal %d put PID 1 into state %c", signals[i], state);
	}
	return held("PID 1 survives every signal");
}

/* A masked file may exist; reading it must give nothing. */
static int masked(int argc, char **argv)
{
	static const char *const files[] = {
		"/proc/kcore", "/proc/keys", "/proc/timer_list",
		"/proc/sched_debug", "/proc/latency_stats", "/proc/timer_stats",
		"/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags",
		"/proc/kpagecgroup", "/proc/vmallocinfo", "/proc/slabinfo",
		"/proc/pagetypeinfo",
	};
	static const char *const dirs[] = {
		"/proc/scsi", "/proc/acpi", "/proc/asound", "/sys/firmware",
		"/sys/devices/virtual/powercap", "/sys/kernel", "/sys/module",
	};
	char c;

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		int fd = open(files[i], O_RDONLY | O_NONBLOCK);
		ssize_t n = fd < 0 ? 0 : read(fd, &c, 1);
		if (fd >= 0)
			close(fd);
		if (n > 0)
			return escaped("%s can be read", files[i]);
	}
	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
		DIR *d = opendir(dirs[i]);
		for (struct dirent *e; d && (e = readdir(d));)
			if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
				return escaped("%s/%s", dirs[i], e->d_name);
		if (d)
			closedir(d);
	}
	return held("masked files give nothing");
}

/* Opening is enough to know, and changes nothing. */
static int kernel_writes(int argc, char **argv)
{
	static const char *const files[] = {
		"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
		"/proc/sys/kernel/sysrq", "/proc/sys/kernel/poweroff_cmd",
		"/proc/sys/kernel/usermodehelper/bset", "/proc/sys/kernel/ns_last_pid",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches",
		"/proc/sys/fs/binfmt_misc/register", "/proc/sys/fs/suid_dumpable",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces",
		"/proc/irq/0/smp_affinity", "/proc/mtrr", "/proc/acpi/wakeup",
		"/proc/self/uid_map", "/proc/self/gid_map", "/proc/1/oom_score_adj",
		"/proc/1/uid_map", "/proc/1/setgroups",
		"/sys/kernel/uevent_helper", "/sys/power/state",
		"/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs",
		"/sys/kernel/mm/transparent_hugepage/enabled",
	};
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		int fd = open(files[i], O_WRONLY | O_NONBLOCK);
		if (fd < 0)
			continue;
		/* the id maps open for their owner and refuse a second write */
		bool map = strstr(files[i], "id_map");
		bool took = !map || write(fd, "0 0 1\n", 6) == 6;
		close(fd);
		if (took)
			return escaped("%s opened for writing", files[i]);
	}
	return held("kernel settings refuse writing");
}

static char walk_found[512];

static int walk_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type != FTW_F)
		return 0;
	int fd = open(path, O_WRONLY | O_NONBLOCK);
	if (fd < 0)
		return 0;
	close(fd);
	snprintf(walk_found, sizeof walk_found, "%s", path);
	return 1;
}

static int kernel_walk(int argc, char **argv)
{
	static const char *const roots[] = { "/proc/sys", "/proc/irq", "/proc/bus",
					     "/proc/fs", "/proc/driver", "/sys" };
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
		if (nftw(roots[i], walk_one, 16, FTW_PHYS) == 1)
			return escaped("%s opened for writing", walk_found);
	return held("nothing below /proc/sys, irq, bus, fs or /sys is writable");
}

static int count_pids(int argc, char **argv)
{
	long max = number(argc, argv, 0, 4);
	DIR *d = opendir("/proc");
	int n = 0;

	if (!d)
		return held("no /proc");
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] >= '0' && e->d_name[0] <= '9';
	closedir(d);
	return n > max ? escaped("%d processes are visible", n) :
			 held("%d processes visible", n);
}

const struct probe probes_proc[] = {
	{ "pid1-files", "", "/proc/1 shows nothing", ALWAYS, false, 0, pid1_files },
	{ "pid1-trace", "", "PID 1 cannot be traced", ALWAYS, true, 0, pid1_trace },
	{ "pid1-kill", "", "signals do not touch PID 1", ALWAYS, true, 0, pid1_kill },
	{ "masked", "", "masked files give nothing", ALWAYS, false, 0, masked },
	{ "kernel-writes", "", "well-known kernel settings are not writable", ALWAYS, true, 0, kernel_writes },
	{ "kernel-walk", "", "no kernel setting at all is writable", ALWAYS, true, 0, kernel_walk },
	{ "pids", "[MAX]", "only the sandbox's processes are visible", ALWAYS, false, 0, count_pids },
	{ 0 },
};
