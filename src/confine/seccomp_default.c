/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default policy: default deny, every call of the table has a verdict
 * here (a call without one fails the build), and every group says why.
 *
 * It starts from what Docker's default profile allows to a process without
 * capabilities, since the world's software has been tried under that, and
 * then takes away and filters.  Three kinds of refusal:
 *
 *   NOSYS   "this kernel does not have it": callers have a fallback for that,
 *           and programs probe such calls all the time, so it is not reported.
 *   REFUSE  EPERM, and worth telling the user about: reported when there is
 *           a supervisor to report to.
 *   QUIET   an errno that ordinary programs meet in ordinary work.
 */
#include "confine/seccomp_default.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>

#define ALLOW SECCOMP_RET_ALLOW
#define QUIET(e) (SECCOMP_RET_ERRNO | (uint32_t)(e))
#define NOSYS QUIET(ENOSYS)
/* In these tables a USER_NOTIF carries the errno it stands for. */
#define REPORT(e) (SECCOMP_RET_USER_NOTIF | (uint32_t)(e))
#define REFUSE REPORT(EPERM)

#define NAMES(...) (const char *const[]){ __VA_ARGS__, NULL }

struct group {
	uint32_t action;
	const char *const *names;
};

static const struct group groups[] = {
	/* --- Allowed whatever the arguments. --- */

	/* Reading and writing through descriptors one already has. */
	{ ALLOW, NAMES("close", "close_range", "copy_file_range", "dup", "dup2",
		       "dup3", "fadvise64", "fallocate", "fcntl", "fdatasync",
		       "flock", "fsync", "ftruncate", "lseek", "pipe", "pipe2",
		       "pread64", "preadv", "preadv2", "pwrite64", "pwritev",
		       "pwritev2", "read", "readahead", "readv", "sendfile",
		       "splice", "sync", "sync_file_range", "syncfs", "tee",
		       "vmsplice", "write", "writev") },

	/* Paths.  What they reach is decided by the mount namespace and
	 * Landlock.  mkdir needs no look at its mode: the kernel drops setuid
	 * and setgid there (vfs_mkdir keeps S_IRWXUGO|S_ISVTX). */
	{ ALLOW, NAMES("access", "chdir", "chown", "faccessat", "faccessat2",
		       "fchdir", "fchown", "fchownat", "fstat", "fstatfs",
		       "futimesat", "getcwd", "getdents", "getdents64",
		       "lchown", "link", "linkat", "lstat", "mkdir", "mkdirat",
		       "newfstatat", "readlink", "readlinkat", "rename",
		       "renameat", "rmdir", "stat", "statfs",
		       "statx", "symlink", "symlinkat", "truncate", "umask",
		       "unlink", "unlinkat", "utime", "utimensat", "utimes") },

	/* Extended attributes: the names lie behind pointers, out of a
	 * filter's sight.  security.capability is harmless without
	 * CAP_SETFCAP over the file system's user namespace. */
	{ ALLOW, NAMES("fgetxattr", "flistxattr", "fremovexattr", "fsetxattr",
		       "getxattr", "getxattrat", "lgetxattr", "listxattr",
		       "listxattrat", "llistxattr", "lremovexattr",
		       "lsetxattr", "removexattr", "removexattrat", "setxattr",
		       "setxattrat") },

	/* Memory of one's own. */
	{ ALLOW, NAMES("brk", "madvise", "map_shadow_stack", "memfd_create",
		       "mincore", "mlock", "mlock2", "mlockall", "mmap",
		       "mprotect", "mremap", "mseal", "msync", "munlock",
		       "munlockall", "munmap", "pkey_alloc", "pkey_free",
		       "pkey_mprotect", "remap_file_pages") },

	/* Waiting for several things at once.  The _old epoll calls and the
	 * thread areas below have numbers but no code on x86_64; they are
	 * allowed as Docker does, and the kernel itself answers ENOSYS. */
	{ ALLOW, NAMES("epoll_create", "epoll_create1", "epoll_ctl",
		       "epoll_ctl_old", "epoll_pwait", "epoll_pwait2",
		       "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2",
		       "poll", "ppoll", "pselect6", "select", "signalfd",
		       "signalfd4") },

	/* Asynchronous reads of the old kind draw on one number for the whole
	 * machine (fs.aio-max-nr), which a sandbox could use up.  Databases fall
	 * back when there are none. */
	{ NOSYS, NAMES("io_cancel", "io_destroy", "io_getevents",
		       "io_pgetevents", "io_setup", "io_submit") },

	/* inotify sees only what the mount namespace shows. */
	{ ALLOW, NAMES("inotify_add_watch", "inotify_init", "inotify_init1",
		       "inotify_rm_watch") },

	/* Processes and threads.  clone is filtered below. */
	{ ALLOW, NAMES("execve", "execveat", "exit", "exit_group", "fork",
		       "futex", "futex_requeue", "futex_wait", "futex_waitv",
		       "futex_wake", "get_robust_list", "get_thread_area",
		       "getpgid", "getpgrp", "getpid", "getppid", "getsid",
		       "gettid", "membarrier", "pidfd_open", "prctl",
		       "process_mrelease", "restart_syscall", "rseq",
		       "set_robust_list", "set_thread_area", "set_tid_address",
		       "setpgid", "setsid", "vfork", "wait4", "waitid") },

	/* Signals reach no further than the pid namespace. */
	{ ALLOW, NAMES("kill", "pause", "pidfd_send_signal", "rt_sigaction",
		       "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo",
		       "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
		       "rt_tgsigqueueinfo", "sigaltstack", "tgkill", "tkill") },

	/* Who one is, and becoming less.  Ids outside the user namespace's
	 * map do not exist; capset can only drop. */
	{ ALLOW, NAMES("capget", "capset", "getegid", "geteuid", "getgid",
		       "getgroups", "getresgid", "getresuid", "getuid",
		       "setfsgid", "setfsuid", "setgid", "setgroups",
		       "setregid", "setresgid", "setresuid", "setreuid",
		       "setuid") },

	/* Scheduling and limits: without CAP_SYS_NICE and CAP_SYS_RESOURCE, and
	 * with limits on priorities of 0, they only go down; the cgroup holds the rest. */
	{ ALLOW, NAMES("getcpu", "getpriority", "getrlimit", "getrusage",
		       "ioprio_get", "sched_get_priority_max", "sched_get_priority_min",
		       "sched_getaffinity", "sched_getattr", "sched_getparam",
		       "sched_getscheduler", "sched_rr_get_interval",
		       "sched_yield", "setrlimit", "sysinfo", "times", "uname") },

	/* Reading clocks and setting timers of one's own. */
	{ ALLOW, NAMES("alarm", "clock_getres", "clock_gettime",
		       "clock_nanosleep", "getitimer", "gettimeofday",
		       "nanosleep", "setitimer", "time", "timer_create",
		       "timer_delete", "timer_getoverrun", "timer_gettime",
		       "timer_settime", "timerfd_create", "timerfd_gettime",
		       "timerfd_settime") },

	/* System V and POSIX message queues: the ipc namespace is private. */
	{ ALLOW, NAMES("mq_getsetattr", "mq_notify", "mq_open",
		       "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl",
		       "msgget", "msgrcv", "msgsnd", "semctl", "semget",
		       "semop", "semtimedop", "shmat", "shmctl", "shmdt",
		       "shmget") },

	/* Sockets one already has.  socket, socketpair, setsockopt and the
	 * sends are filtered below. */
	{ ALLOW, NAMES("accept", "accept4", "bind", "connect", "getpeername",
		       "getsockname", "getsockopt", "listen", "recvfrom",
		       "recvmmsg", "recvmsg", "shutdown") },

	/* Debuggers, sanitizers, crash handlers.  All of these pass the
	 * kernel's ptrace check, which stops at the pid namespace and at the
	 * non-dumpable init; pidfd_getfd and process_madvise give nothing
	 * that ptrace does not. */
	{ ALLOW, NAMES("kcmp", "pidfd_getfd", "process_madvise",
		       "process_vm_readv", "process_vm_writev", "ptrace") },

	/* Sandboxing oneself further can only take away. */
	{ ALLOW, NAMES("landlock_add_rule", "landlock_create_ruleset",
		       "landlock_restrict_self", "seccomp") },

	/* Thread pointers; randomness. */
	{ ALLOW, NAMES("arch_prctl", "getrandom") },

	/* Made by the kernel's own trampolines when the administrator probes a
	 * program: refusing them crashes it.  Called by hand they do nothing. */
	{ ALLOW, NAMES("uprobe", "uretprobe") },

	/* --- ENOSYS: programs fall back. --- */

	/* The namespace flags (clone3) and the mode (openat2) lie behind a
	 * pointer, where a filter cannot look; libc falls back to clone and
	 * openat, which are filtered. */
	{ NOSYS, NAMES("clone3", "openat2") },

	/* Runs other calls where no filter looks; a long list of CVEs. */
	{ NOSYS, NAMES("io_uring_enter", "io_uring_register",
		       "io_uring_setup") },

	/* Stops the kernel in mid-copy: the standard aid of kernel exploits. */
	{ NOSYS, NAMES("userfaultfd") },

	/* NUMA placement: Docker wants CAP_SYS_NICE.  A kernel without NUMA
	 * answers ENOSYS, and libnuma, the JVM and BLAS libraries know that. */
	{ NOSYS, NAMES("get_mempolicy", "mbind", "migrate_pages", "move_pages",
		       "set_mempolicy", "set_mempolicy_home_node") },

	/* Tells a tenant which pages of a shared file others have touched. */
	{ NOSYS, NAMES("cachestat") },

	/* The host's mounts and namespaces by id; libmount falls back to
	 * /proc/self/mountinfo, which is the sandbox's own. */
	{ NOSYS, NAMES("listmount", "listns", "statmount") },

	/* Memory the supervisor cannot see and limits do not reclaim; off by
	 * default in the kernel, which then answers ENOSYS. */
	{ NOSYS, NAMES("memfd_secret") },

	/* Docker wants CAP_SYS_ADMIN; /proc/self/attr is the fallback. */
	{ NOSYS, NAMES("lsm_get_self_attr", "lsm_list_modules",
		       "lsm_set_self_attr") },

	/* Too new to have been tried; older ways exist (FS_IOC_FSGETXATTR). */
	{ NOSYS, NAMES("file_getattr", "file_setattr", "rseq_slice_yield") },

	/* --- EPERM, and reported. --- */

	/* Mounts and roots: the walls of the sandbox.  Also with no capability
	 * these have been the way out when a user namespace was to be had. */
	{ REFUSE, NAMES("chroot", "fsconfig", "fsmount", "fsopen", "fspick",
			"mount", "mount_setattr", "move_mount", "open_tree",
			"open_tree_attr", "pivot_root", "umount2") },

	/* New namespaces give capabilities in them, and with those most of
	 * the kernel's attack surface. */
	{ REFUSE, NAMES("setns", "unshare") },

	/* Programs in the kernel, and measuring it. */
	{ REFUSE, NAMES("bpf", "perf_event_open") },

	/* Keyrings are not namespaced by default and outlive the sandbox. */
	{ REFUSE, NAMES("add_key", "keyctl", "request_key") },

	/* Files by handle, around the mount namespace (the "shocker" escape);
	 * fanotify sees whole file systems. */
	{ REFUSE, NAMES("fanotify_init", "fanotify_mark", "name_to_handle_at",
			"open_by_handle_at") },

	/* Other kernels and more kernel. */
	{ REFUSE, NAMES("create_module", "delete_module", "finit_module",
			"get_kernel_syms", "init_module", "kexec_file_load",
			"kexec_load", "query_module") },

	/* The machine as a whole, its log, its disks and its ports. */
	{ REFUSE, NAMES("acct", "ioperm", "iopl", "nfsservctl", "quotactl",
			"quotactl_fd", "reboot", "setdomainname", "sethostname",
			"swapoff", "swapon", "syslog", "vhangup") },

	/* The machine's clock.  adjtimex can also just read, but what it
	 * reads is the host's. */
	{ REFUSE, NAMES("adjtimex", "clock_adjtime", "clock_settime",
			"settimeofday") },

	/* Call gates and 16-bit segments: exploits need it, programs do not. */
	{ REFUSE, NAMES("modify_ldt") },

	/* Calls the kernel dropped, never had, or keeps for nobody: whoever
	 * makes them is exploring. */
	{ REFUSE, NAMES("_sysctl", "afs_syscall", "getpmsg", "lookup_dcookie",
			"putpmsg", "security", "sysfs", "tuxcall", "uselib",
			"ustat", "vserver") },
};

/* All arguments below are int, unsigned int or umode_t in the kernel, which
 * drops the rest of the register: hence low32 everywhere. */
#define EQ(a, v) { .arg = (a), .op = SECCOMP_OP_EQ, .low32 = true, .value = (v) }
#define BITS(a, m, v)                                               \
	{ .arg = (a), .op = SECCOMP_OP_MASKED_EQ, .low32 = true,    \
	  .mask = (m), .value = (v) }
#define IF1(act, c0) { .action = (act), .nconds = 1, .conds = { c0 } }
#define IF2(act, c0, c1) { .action = (act), .nconds = 2, .conds = { c0, c1 } }

/* CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}.  CLONE_NEWTIME (0x80) lies among
 * clone's exit-signal bits, so clone cannot ask for it; clone3 and unshare
 * can, and are refused whole. */
#define NEW_NAMESPACE 0x7E020000u
static const struct seccomp_rule clone_rules[] = {
	IF1(ALLOW, BITS(0, NEW_NAMESPACE, 0)),
};

/* Typing into the terminal the sandbox was started from (CVE-2016-2568,
 * CVE-2017-5226; with high bits set CVE-2019-10063), pasting on a console
 * (CVE-2023-28100), loading line disciplines (CVE-2017-2636).  And writing to a
 * terminal that is open for reading only: tcflow() with TCIOFF and TCION sends a
 * character that tcsetattr() has chosen. */
static const struct seccomp_rule ioctl_rules[] = {
	IF1(REFUSE, EQ(1, 0x5412)), /* TIOCSTI */
	IF1(REFUSE, EQ(1, 0x541C)), /* TIOCLINUX */
	IF1(REFUSE, EQ(1, 0x5423)), /* TIOCSETD */
	IF2(REFUSE, EQ(1, 0x540A), BITS(2, 2, 2)), /* TCXONC, TCIOFF and TCION */
	/* Exchanging the content of two files behind the back of their times, and of the
	 * page cache: what brig finds in a workspace after a run would not be what the
	 * host reads there later. */
	IF1(REFUSE, EQ(1, 0xC028660F)), /* EXT4_IOC_MOVE_EXT */
	IF1(REFUSE, EQ(1, 0xC0C0586D)), /* XFS_IOC_SWAPEXT */
	IF1(REFUSE, EQ(1, 0xC020F509)), /* F2FS_IOC_MOVE_RANGE */
};

/*
 * No setuid or setgid file may be left in a workspace the host also sees: on
 * the host it would run as the user of the sandbox for anybody.  A setgid
 * directory is refused with it; the filter cannot tell them apart.
 */
#define SUID_SGID 06000u
static const struct seccomp_rule chmod_rules[] = {
	IF1(ALLOW, BITS(1, SUID_SGID, 0)),
};
static const struct seccomp_rule chmodat_rules[] = {
	IF1(ALLOW, BITS(2, SUID_SGID, 0)),
};

/* Only O_CREAT and O_TMPFILE read the mode; without them it is whatever the
 * register held. */
#define O_CREATES (0x40u | 0x400000u)
static const struct seccomp_rule open_rules[] = {
	IF1(ALLOW, BITS(1, O_CREATES, 0)),
	IF1(ALLOW, BITS(2, SUID_SGID, 0)),
};
static const struct seccomp_rule openat_rules[] = {
	IF1(ALLOW, BITS(2, O_CREATES, 0)),
	IF1(ALLOW, BITS(3, SUID_SGID, 0)),
};

/* Regular files, FIFOs and sockets.  Devices need a capability, except
 * character 0:0, an overlay whiteout, which anybody may make and which would
 * hide files from whoever merges the workspace later. */
#define TYPE 0xF000u
static const struct seccomp_rule mknod_rules[] = {
	IF2(ALLOW, BITS(1, SUID_SGID, 0), BITS(1, TYPE, 0)),
	IF2(ALLOW, BITS(1, SUID_SGID, 0), BITS(1, TYPE, 0x8000)),
	IF2(ALLOW, BITS(1, SUID_SGID, 0), BITS(1, TYPE, 0x1000)),
	IF2(ALLOW, BITS(1, SUID_SGID, 0), BITS(1, TYPE, 0xC000)),
};
static const struct seccomp_rule mknodat_rules[] = {
	IF2(ALLOW, BITS(2, SUID_SGID, 0), BITS(2, TYPE, 0)),
	IF2(ALLOW, BITS(2, SUID_SGID, 0), BITS(2, TYPE, 0x8000)),
	IF2(ALLOW, BITS(2, SUID_SGID, 0), BITS(2, TYPE, 0x1000)),
	IF2(ALLOW, BITS(2, SUID_SGID, 0), BITS(2, TYPE, 0xC000)),
};

/* RENAME_WHITEOUT leaves the same in the place of what was moved, and neither the kernel
 * nor Landlock asks for the right to make a device. */
static const struct seccomp_rule rename_rules[] = {
	IF1(ALLOW, BITS(4, 0x4u, 0)),
};

/* Linux, Linux32, with UNAME26, without address randomisation (gdb, TSan),
 * and the question.  Not READ_IMPLIES_EXEC, MMAP_PAGE_ZERO or other systems'
 * personalities. */
static const struct seccomp_rule personality_rules[] = {
	IF1(ALLOW, EQ(0, 0)),	     IF1(ALLOW, EQ(0, 0x8)),
	IF1(ALLOW, EQ(0, 0x20000)),  IF1(ALLOW, EQ(0, 0x20008)),
	IF1(ALLOW, EQ(0, 0x40000)),  IF1(ALLOW, EQ(0, 0xffffffffu)),
};

/* MSG_FASTOPEN is a connect() that is not called connect(): Landlock's check
 * of TCP ports did not see it.  (The socket option of that name does go
 * through connect.) */
#define FASTOPEN 0x20000000u
static const struct seccomp_rule send2_rules[] = {
	IF1(ALLOW, BITS(2, FASTOPEN, 0)),
};
static const struct seccomp_rule send3_rules[] = {
	IF1(ALLOW, BITS(3, FASTOPEN, 0)),
};

/*
 * An allow-list of families: others load modules full of old code, and VSOCK
 * ignores network namespaces.  Netlink only to the routing
 * family, which libc's getifaddrs needs.  For IP: streams and datagrams with
 * the protocols everybody has; the errnos are those of a kernel without the
 * rest, so that Go, which tries MPTCP first, falls back.  ICMP here is the
 * unprivileged kind, which net.ipv4.ping_group_range governs.
 */
#define SOCK(t) BITS(1, 0xF, t) /* the rest of type is flags */
#define NOT_SOCK(t)                                              \
	{ .arg = 1, .op = SECCOMP_OP_MASKED_NE, .low32 = true,   \
	  .mask = 0xF, .value = (t) }
#define NE(a, v) { .arg = (a), .op = SECCOMP_OP_NE, .low32 = true, .value = (v) }
static const struct seccomp_rule socket_rules[] = {
	IF1(ALLOW, EQ(0, 1)), /* AF_UNIX */
	IF2(ALLOW, EQ(0, 16), EQ(2, 0)), /* AF_NETLINK, NETLINK_ROUTE */
	IF1(QUIET(EPROTONOSUPPORT), EQ(0, 16)),
	IF2(QUIET(EAFNOSUPPORT), NE(0, 2), NE(0, 10)), /* AF_INET, AF_INET6 */
	IF1(QUIET(EPERM), SOCK(3)), /* SOCK_RAW, as without CAP_NET_RAW */
	IF1(QUIET(EPERM), SOCK(10)), /* SOCK_PACKET, the same */
	IF2(QUIET(ESOCKTNOSUPPORT), NOT_SOCK(1), NOT_SOCK(2)), /* SEQPACKET … */
	IF1(ALLOW, EQ(2, 0)),
	IF1(ALLOW, EQ(2, 6)), /* TCP */
	IF1(ALLOW, EQ(2, 17)), /* UDP */
	IF1(ALLOW, EQ(2, 1)), /* ICMP */
	IF1(ALLOW, EQ(2, 58)), /* ICMPv6 */
};

/* The kernel makes both sockets before it finds that their family has no
 * pairs, so this is filtered as socket is. */
static const struct seccomp_rule socketpair_rules[] = {
	IF1(ALLOW, EQ(0, 1)),
};

/* SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF.  Compiled programs of ordinary users share
 * net.core.bpf_jit_limit, one number for the whole machine.  When a sandbox has used it up,
 * no other can load its system-call filter, and so none can start. */
static const struct seccomp_rule setsockopt_rules[] = {
	IF2(REFUSE, EQ(1, 1), EQ(2, 26)),
	IF2(REFUSE, EQ(1, 1), EQ(2, 51)),
};

/* Pid 1 has the same user, so these would work on it: with a descriptor limit of
 * zero it could not watch for the supervisor's death any more. */
static const struct seccomp_rule not_init0_rules[] = {
	IF1(REFUSE, EQ(0, 1)),
};
static const struct seccomp_rule not_init1_rules[] = {
	IF1(REFUSE, EQ(1, 1)),
};

struct filter {
	const char *const *names;
	const struct seccomp_rule *rules;
	size_t nrules;
	uint32_t otherwise;
	bool floor; /* holds under every profile */
};
#define RULES(r) .rules = (r), .nrules = sizeof(r) / sizeof((r)[0])

static const struct filter filters[] = {
	{ .names = NAMES("clone"), RULES(clone_rules), .otherwise = REFUSE },
	{ .names = NAMES("prlimit64", "sched_setaffinity", "sched_setattr",
			 "sched_setparam", "sched_setscheduler"),
	  RULES(not_init0_rules), .otherwise = ALLOW, .floor = true },
	{ .names = NAMES("setpriority", "ioprio_set"), RULES(not_init1_rules),
	  .otherwise = ALLOW, .floor = true },
	{ .names = NAMES("ioctl"), RULES(ioctl_rules), .otherwise = ALLOW, .floor = true },
	{ .names = NAMES("chmod", "creat", "fchmod"), RULES(chmod_rules), .otherwise = REFUSE,
	  .floor = true },
	{ .names = NAMES("fchmodat", "fchmodat2"), RULES(chmodat_rules), .otherwise = REFUSE,
	  .floor = true },
	{ .names = NAMES("open"), RULES(open_rules), .otherwise = REFUSE, .floor = true },
	{ .names = NAMES("openat"), RULES(openat_rules), .otherwise = REFUSE, .floor = true },
	{ .names = NAMES("mknod"), RULES(mknod_rules), .otherwise = REFUSE, .floor = true },
	{ .names = NAMES("mknodat"), RULES(mknodat_rules), .otherwise = REFUSE, .floor = true },
	{ .names = NAMES("renameat2"), RULES(rename_rules), .otherwise = REFUSE, .floor = true },
	{ .names = NAMES("personality"), RULES(personality_rules), .otherwise = REFUSE },
	{ .names = NAMES("sendmsg"), RULES(send2_rules), .otherwise = QUIET(EPERM) },
	{ .names = NAMES("sendmmsg", "sendto"), RULES(send3_rules), .otherwise = QUIET(EPERM) },
	{ .names = NAMES("socket"), RULES(socket_rules), .otherwise = QUIET(EPROTONOSUPPORT) },
	{ .names = NAMES("setsockopt"), RULES(setsockopt_rules), .otherwise = ALLOW },
	{ .names = NAMES("socketpair"), RULES(socketpair_rules), .otherwise = QUIET(EAFNOSUPPORT) },
};

static int fail(const char **problem, const char **name, const char *what,
		const char *which)
{
	*problem = what;
	*name = which;
	return -EINVAL;
}

/* What a table action becomes in the filter; notes the errno of a report. */
static uint32_t settle(uint32_t action, bool notify, unsigned char *refusal)
{
	if ((action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_USER_NOTIF)
		return action;
	uint32_t errnum = action & SECCOMP_RET_DATA;
	*refusal = (unsigned char)errnum;
	return notify ? SECCOMP_RET_USER_NOTIF : QUIET(errnum);
}

/* The number of a name that must be known and not yet have a verdict; negative
 * in *nr for a call this architecture does not have. */
static int claim(enum seccomp_arch arch, const char *call, bool *taken, int *nr,
		 const char **problem, const char **name)
{
	*nr = seccomp_table_number(arch, call);
	if (*nr == SECCOMP_NAME_UNKNOWN)
		return fail(problem, name, "is not a system call", call);
	if (*nr == SECCOMP_NAME_ELSEWHERE)
		return 0;
	if (taken[*nr])
		return fail(problem, name, "has two verdicts", call);
	taken[*nr] = true;
	return 0;
}

int seccomp_default_build(enum seccomp_arch arch, bool notify,
			  struct seccomp_default_policy *out,
			  const char **problem, const char **name)
{
	bool taken[SECCOMP_NR_MAX] = { false };
	size_t nrules = 0;
	int nr, r;

	*out = (struct seccomp_default_policy){ 0 };
	for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
		for (const char *const *n = groups[g].names; *n; n++) {
			r = claim(arch, *n, taken, &nr, problem, name);
			if (r < 0)
				return r;
			if (nr >= 0)
				out->calls[nr].otherwise =
					settle(groups[g].action, notify,
					       &out->refusal[nr]);
		}
	}
	for (size_t f = 0; f < sizeof filters / sizeof filters[0]; f++) {
		const struct filter *fl = &filters[f];
		struct seccomp_rule *rules = &out->rules[nrules];
		unsigned char refusal = 0;

		if (nrules + fl->nrules > SECCOMP_DEFAULT_RULES)
			return fail(problem, name, "has one rule too many",
				    fl->names[0]);
		for (size_t i = 0; i < fl->nrules; i++) {
			rules[i] = fl->rules[i];
			rules[i].action =
				settle(rules[i].action, notify, &refusal);
		}
		nrules += fl->nrules;
		uint32_t otherwise = settle(fl->otherwise, notify, &refusal);

		for (const char *const *n = fl->names; *n; n++) {
			r = claim(arch, *n, taken, &nr, problem, name);
			if (r < 0)
				return r;
			if (nr < 0)
				continue;
			out->refusal[nr] = refusal;
			out->calls[nr] = (struct seccomp_verdict){
				rules, fl->nrules, otherwise
			};
		}
	}

	int last = seccomp_table_last(arch);
	for (nr = 0; nr <= last; nr++) {
		const char *call = seccomp_table_name(arch, nr);
		if (taken[nr])
			continue;
		if (call)
			return fail(problem, name, "has no verdict", call);
		/* A hole in the numbering: the kernel has nothing there
		 * either, and a later one might. */
		out->calls[nr].otherwise = NOSYS;
	}
	out->policy = (struct seccomp_policy){
		.audit_arch = seccomp_table_audit_arch(arch),
		.calls = out->calls,
		.ncalls = (size_t)last + 1,
		.above = NOSYS,
		.x32 = NOSYS,
		.foreign = NOSYS,
	};
	return 0;
}

/* Calls whose file mode lies behind a pointer or in a ring, where no filter
 * can look. */
static const char *const floor_refused[] = {
	"openat2", "io_uring_setup", "io_uring_enter", "io_uring_register", NULL
};

int seccomp_floor_build(enum seccomp_arch arch,
			struct seccomp_default_policy *out,
			const char **problem, const char **name)
{
	bool taken[SECCOMP_NR_MAX] = { false };
	size_t nrules = 0;
	int nr, r, last = seccomp_table_last(arch);

	*out = (struct seccomp_default_policy){ 0 };
	for (nr = 0; nr <= last; nr++)
		out->calls[nr].otherwise =
			seccomp_table_name(arch, nr) ? ALLOW : NOSYS;
	for (const char *const *n = floor_refused; *n; n++) {
		r = claim(arch, *n, taken, &nr, problem, name);
		if (r < 0)
			return r;
		if (nr >= 0)
			out->calls[nr].otherwise = NOSYS;
	}
	for (size_t f = 0; f < sizeof filters / sizeof filters[0]; f++) {
		const struct filter *fl = &filters[f];
		struct seccomp_rule *rules = &out->rules[nrules];
		unsigned char ignored;

		if (!fl->floor)
			continue;
		for (size_t i = 0; i < fl->nrules; i++) {
			rules[i] = fl->rules[i];
			rules[i].action = settle(rules[i].action, false, &ignored);
		}
		nrules += fl->nrules;
		for (const char *const *n = fl->names; *n; n++) {
			r = claim(arch, *n, taken, &nr, problem, name);
			if (r < 0)
				return r;
			if (nr >= 0)
				out->calls[nr] = (struct seccomp_verdict){
					rules, fl->nrules,
					settle(fl->otherwise, false, &ignored)
				};
		}
	}
	out->policy = (struct seccomp_policy){
		.audit_arch = seccomp_table_audit_arch(arch),
		.calls = out->calls,
		.ncalls = (size_t)last + 1,
		.above = NOSYS,
		.x32 = NOSYS,
		.foreign = NOSYS,
	};
	return 0;
}
