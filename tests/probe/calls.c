/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that must be refused.  The arguments are such that the kernel
 * itself would answer EFAULT, EBADF or EINVAL and change nothing: seeing one
 * of those means that the filter let the call through.
 */
#include "probe.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum answer {
	REFUSED, /* EPERM, EACCES or ENOSYS */
	NOSYS,   /* ENOSYS exactly, so that libc falls back */
};

#define BAD 1UL /* an address that faults */
#define NOFD (~0UL)

/* Numbers that the headers of an old distribution may lack. */
enum {
	NR_statmount = 457, NR_listmount = 458, NR_cachestat = 451,
	NR_memfd_secret = 447, NR_mount_setattr = 442, NR_open_tree_attr = 467,
};

static const struct call {
	const char *name;
	long nr;
	enum answer answer;
	unsigned long a[6];
} calls[] = {
	{ "mount", SYS_mount, REFUSED, { BAD, BAD, BAD, 0, 0 } },
	{ "umount2", SYS_umount2, REFUSED, { BAD, 0 } },
	{ "pivot_root", SYS_pivot_root, REFUSED, { BAD, BAD } },
	{ "chroot", SYS_chroot, REFUSED, { BAD } },
	{ "open_tree", SYS_open_tree, REFUSED, { NOFD, BAD, 1 } },
	{ "move_mount", SYS_move_mount, REFUSED, { NOFD, BAD, NOFD, BAD, 0 } },
	{ "fsopen", SYS_fsopen, REFUSED, { BAD, 0 } },
	{ "fsconfig", SYS_fsconfig, REFUSED, { NOFD, 99 } },
	{ "fsmount", SYS_fsmount, REFUSED, { NOFD, 0, 0 } },
	{ "fspick", SYS_fspick, REFUSED, { NOFD, BAD, 0 } },
	{ "mount_setattr", NR_mount_setattr, REFUSED, { NOFD, BAD, 0, BAD, 32 } },
	{ "open_tree_attr", NR_open_tree_attr, REFUSED, { NOFD, BAD, 0, BAD, 32 } },
	{ "statmount", NR_statmount, REFUSED, { BAD, BAD, 0, 0 } },
	{ "listmount", NR_listmount, REFUSED, { BAD, BAD, 0, 0 } },
	{ "unshare user", SYS_unshare, REFUSED, { CLONE_NEWUSER | 1 } },
	{ "unshare mount", SYS_unshare, REFUSED, { CLONE_NEWNS | 1 } },
	{ "unshare net", SYS_unshare, REFUSED, { CLONE_NEWNET | 1 } },
	{ "unshare pid", SYS_unshare, REFUSED, { CLONE_NEWPID | 1 } },
	{ "setns", SYS_setns, REFUSED, { NOFD, 0 } },
	{ "bpf", SYS_bpf, REFUSED, { 0, BAD, 8 } },
	{ "perf_event_open", SYS_perf_event_open, REFUSED, { BAD, 0, 0, NOFD, 0 } },
	{ "userfaultfd", SYS_userfaultfd, NOSYS, { ~0U } },
	{ "io_uring_setup", SYS_io_uring_setup, NOSYS, { 1, BAD } },
	{ "io_uring_enter", SYS_io_uring_enter, NOSYS, { NOFD } },
	{ "io_uring_register", SYS_io_uring_register, NOSYS, { NOFD } },
	{ "keyctl", SYS_keyctl, REFUSED, { 9999 } },
	{ "add_key", SYS_add_key, REFUSED, { BAD, BAD, 0, 0, 0 } },
	{ "request_key", SYS_request_key, REFUSED, { BAD, BAD, 0, 0 } },
	{ "kexec_load", SYS_kexec_load, REFUSED, { 0, 0, 0, ~0UL } },
	{ "init_module", SYS_init_module, REFUSED, { BAD, 0, BAD } },
	{ "finit_module", SYS_finit_module, REFUSED, { NOFD, BAD, ~0UL } },
	{ "delete_module", SYS_delete_module, REFUSED, { BAD, 0 } },
	{ "open_by_handle_at", SYS_open_by_handle_at, REFUSED, { NOFD, BAD, 0 } },
	{ "name_to_handle_at", SYS_name_to_handle_at, REFUSED, { NOFD, BAD, BAD, BAD, 0 } },
	{ "fanotify_init", SYS_fanotify_init, REFUSED, { ~0U, 0 } },
	{ "fanotify_mark", SYS_fanotify_mark, REFUSED, { NOFD, 0, 0, NOFD, 0 } },
	{ "memfd_secret", NR_memfd_secret, REFUSED, { ~0U } },
	{ "cachestat", NR_cachestat, REFUSED, { NOFD, BAD, BAD, 0 } },
	{ "reboot", SYS_reboot, REFUSED, { 0, 0, 0 } },
	{ "swapon", SYS_swapon, REFUSED, { BAD, 0 } },
	{ "swapoff", SYS_swapoff, REFUSED, { BAD } },
	{ "acct", SYS_acct, REFUSED, { BAD } },
	{ "syslog", SYS_syslog, REFUSED, { 99 } },
	{ "quotactl", SYS_quotactl, REFUSED, { ~0U, BAD } },
	{ "settimeofday", SYS_settimeofday, REFUSED, { BAD, 0 } },
	{ "clock_settime", SYS_clock_settime, REFUSED, { 0, BAD } },
	{ "adjtimex", SYS_adjtimex, REFUSED, { BAD } },
	{ "clock_adjtime", SYS_clock_adjtime, REFUSED, { 0, BAD } },
	{ "sethostname", SYS_sethostname, REFUSED, { BAD, 1 } },
	{ "setdomainname", SYS_setdomainname, REFUSED, { BAD, 1 } },
	{ "vhangup", SYS_vhangup, REFUSED, { 0 } },
	{ "personality", SYS_personality, REFUSED, { READ_IMPLIES_EXEC } },
#ifdef __x86_64__
	{ "iopl", SYS_iopl, REFUSED, { 9 } },
	{ "ioperm", SYS_ioperm, REFUSED, { ~0UL, 1, 1 } },
	{ "modify_ldt", SYS_modify_ldt, REFUSED, { 0, BAD, 1 } },
	{ "kexec_file_load", SYS_kexec_file_load, REFUSED, { NOFD, NOFD, 0, 0, ~0UL } },
	{ "lookup_dcookie", SYS_lookup_dcookie, REFUSED, { 0, BAD, 1 } },
	{ "x32 getpid", SYS_getpid | 0x40000000, NOSYS, { 0 } },
#endif
	{ "openat2", SYS_openat2, NOSYS, { NOFD, BAD, BAD, 24 } },
	{ "clone3", SYS_clone3, NOSYS, { BAD, 0 } },
	{ "number -1", -1, NOSYS, { 0 } },
	{ "number 1000", 1000, NOSYS, { 0 } },
	{ "number 2^31", 0x7fffffff, NOSYS, { 0 } },
};

static int try_call(const struct call *c)
{
	errno = 0;
	long r = syscall(c->nr, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);

	if (r != -1)
		return escaped("%s returned %ld", c->name, r);
	if (errno == ENOSYS ||
	    (c->answer == REFUSED && (errno == EPERM || errno == EACCES)))
		return 0;
	return escaped("%s answered %s, not %s", c->name, why(),
		       c->answer == NOSYS ? "ENOSYS" : "EPERM or ENOSYS");
}

static int call_one(int argc, char **argv)
{
	(void)argc;
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		if (strcmp(calls[i].name, argv[0]))
			continue;
		int r = try_call(&calls[i]);
		return r ? r : held("%s: %s", argv[0], why());
	}
	return unusable("no call \"%s\" in the table", argv[0]);
}

/* The call in a process of its own: a filter that kills for it stops it, too. */
static int try_apart(const struct call *c)
{
	int st;
	pid_t pid = fork();

	if (pid < 0)
		return unusable("fork: %s", why());
	if (pid == 0)
		_exit(try_call(c));
	if (waitpid(pid, &st, 0) != pid)
		return unusable("waitpid: %s", why());
	if (WIFSIGNALED(st) && WTERMSIG(st) == SIGSYS)
		return 0;
	return WIFEXITED(st) ? WEXITSTATUS(st) : escaped("%s: signal", c->name);
}

static int call_all(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		/* numbers that some filters take for another machine's */
		bool foreign = calls[i].nr < 0 || calls[i].nr >= 0x40000000;
		int r = foreign ? try_apart(&calls[i]) : try_call(&calls[i]);
		if (r)
			return r;
	}
	return held("%zu system calls refused", sizeof calls / sizeof calls[0]);
}

/* fork through clone(2) with one namespace flag at a time. */
static int clone_flags(int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} flags[] = {
		{ "CLONE_NEWUSER", CLONE_NEWUSER }, { "CLONE_NEWNS", CLONE_NEWNS },
		{ "CLONE_NEWPID", CLONE_NEWPID }, { "CLONE_NEWNET", CLONE_NEWNET },
		{ "CLONE_NEWIPC", CLONE_NEWIPC }, { "CLONE_NEWUTS", CLONE_NEWUTS },
		{ "CLONE_NEWCGROUP", CLONE_NEWCGROUP },
	};
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		for (int high = 0; high < 2; high++) {
			unsigned long f = flags[i].flag | SIGCHLD |
					  (high ? 1UL << 32 : 0);
			long pid = syscall(SYS_clone, f, 0, 0, 0, 0);
			if (pid == 0)
				_exit(0);
			if (pid > 0) {
				waitpid((pid_t)pid, NULL, 0);
				return escaped("clone with %s", flags[i].name);
			}
		}
	}
	pid_t pid = fork();
	if (pid < 0)
		return unusable("fork, which should work: %s", why());
	if (pid == 0) {
		int r = unshare(CLONE_NEWUSER);
		_exit(r == 0);
	}
	int st;
	waitpid(pid, &st, 0);
	return st ? escaped("a nested user namespace") : held("no new namespaces");
}

/* The 32-bit table has other numbers, so a filter of names is void there. */
static int int80(int argc, char **argv)
{
	(void)argc;
	(void)argv;
#ifdef __x86_64__
	pid_t pid = fork();

	if (pid == 0) {
		long r = 20; /* getpid of i386 */
		__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "cc", "r8", "r9", "r10", "r11");
		_exit((int)r == getpid() ? 1 : 0);
	}
	int st;
	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		return unusable("fork: %s", why());
	if (WIFSIGNALED(st))
		return held("int $0x80 ends in signal %d", WTERMSIG(st));
	return WEXITSTATUS(st) ? escaped("int $0x80 reaches the kernel") :
				 held("int $0x80 is refused");
#else
	return held("no second system-call table on this architecture");
#endif
}

static int families(int argc, char **argv)
{
	static const int list[] = { 3, 4, 5, 9, 15, 17, 19, 21, 23, 24, 26, 27, 29, 30,
				    31, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45 };
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET };

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		for (size_t t = 0; t < 4; t++) {
			for (int high = 0; high < 2; high++) {
				unsigned long f = (unsigned)list[i] | (high ? 1UL << 32 : 0);
				errno = 0;
				if (syscall(SYS_socket, f, types[t], 0) >= 0)
					return escaped("a socket of family %d", list[i]);
				if (errno != EAFNOSUPPORT)
					return escaped("family %d type %d answered %s, not EAFNOSUPPORT",
						       list[i], types[t], why());
			}
		}
		if (socketpair(list[i], SOCK_STREAM, 0, (int[2]){ 0, 0 }) == 0)
			return escaped("a socket pair of family %d", list[i]);
	}
	return held("%zu socket families refused", sizeof list / sizeof list[0]);
}

static int protocols(int argc, char **argv)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} list[] = {
		{ "netlink sock_diag", AF_NETLINK, SOCK_RAW, 4 },
		{ "netlink xfrm", AF_NETLINK, SOCK_RAW, 6 },
		{ "netlink audit", AF_NETLINK, SOCK_RAW, 9 },
		{ "netlink connector", AF_NETLINK, SOCK_RAW, 11 },
		{ "netlink netfilter", AF_NETLINK, SOCK_RAW, 12 },
		{ "netlink uevent", AF_NETLINK, SOCK_RAW, 15 },
		{ "netlink generic", AF_NETLINK, SOCK_RAW, 16 },
		{ "netlink crypto", AF_NETLINK, SOCK_RAW, 21 },
		{ "raw IPv4", AF_INET, SOCK_RAW, 1 },
		{ "raw IPv6", AF_INET6, SOCK_RAW, 58 },
		{ "IPv4 packet", AF_INET, SOCK_PACKET, 0 },
		{ "MPTCP", AF_INET, SOCK_STREAM, 262 },
		{ "SCTP", AF_INET, SOCK_STREAM, 132 },
		{ "SCTP seqpacket", AF_INET, SOCK_SEQPACKET, 132 },
		{ "DCCP", AF_INET, 6, 33 },
	};
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
		if (socket(list[i].family, list[i].type, list[i].protocol) >= 0)
			return escaped("a %s socket", list[i].name);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return unusable("netlink route, which should work: %s", why());
	close(fd);
	return held("%zu protocols refused", sizeof list / sizeof list[0]);
}

static int personalities(int argc, char **argv)
{
	static const unsigned long bad[] = { ADDR_COMPAT_LAYOUT, READ_IMPLIES_EXEC,
					     MMAP_PAGE_ZERO, PER_SVR4, STICKY_TIMEOUTS };
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		for (int high = 0; high < 2; high++)
			if (syscall(SYS_personality, bad[i] | (high ? 1UL << 32 : 0)) != -1)
				return escaped("personality 0x%lx", bad[i]);
	if (syscall(SYS_personality, 0xffffffffUL) == -1)
		return unusable("asking for the personality should work: %s", why());
	return held("odd personalities refused");
}

const struct probe probes_calls[] = {
	{ "syscalls", "", "the whole table of refused calls", ALWAYS, true, 0, call_all },
	{ "syscall", "NAME", "one of them", BY_NAME, true, 1, call_one },
	{ "clone-flags", "", "no namespace by clone or unshare", ALWAYS, true, 0, clone_flags },
	{ "int80", "", "the 32-bit system-call table is closed", ALWAYS, false, 0, int80 },
	{ "families", "", "socket families answer EAFNOSUPPORT", ALWAYS, false, 0, families },
	{ "protocols", "", "raw, netlink and odd protocols refused", ALWAYS, false, 0, protocols },
	{ "personality", "", "only harmless personalities", ALWAYS, false, 0, personalities },
	{ 0 },
};
