/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "confine/landlock.h"
#include "confine/seccomp_bpf.h"
#include "confine/seccomp_table.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0 /* a sanitizer speaks on stderr and needs calls of its own */
#endif

#define REFUSE(e) (SECCOMP_RET_ERRNO | (e))

/* What the loop, the relays and c-ares do, and what malloc needs. */
static const char *const allowed[] = {
	"accept4", "brk", "clock_gettime", "clock_nanosleep", "close", "connect",
	"epoll_ctl", "epoll_pwait", "epoll_wait", "exit", "exit_group", "fcntl",
	"futex", "getpeername", "getpid", "getrandom", "getsockname", "getsockopt",
	"gettimeofday", "madvise", "munmap", "pipe2", "read", "recvfrom", "recvmsg",
	"restart_syscall", "rt_sigprocmask", "rt_sigreturn", "sendmsg", "sendto",
	"setsockopt", "shutdown", "splice", "time", "write", "writev",
};

/* Nobody who tries one of these is one of us. */
static const char *const deadly[] = {
	"execve", "execveat", "fork", "vfork", "clone", "clone3", "ptrace",
	"process_vm_readv", "process_vm_writev", "setns", "unshare", "mount", "bpf",
	"io_uring_setup",
};

/* Memory, but none that can be executed. */
static const struct seccomp_rule no_exec_memory[] = {
	{ .action = SECCOMP_RET_ALLOW, .nconds = 1,
	  .conds = { { .arg = 2, .op = SECCOMP_OP_MASKED_EQ, .mask = PROT_EXEC,
		       .value = 0 } } },
};
/* TCP to the servers, UDP to the resolver; no netlink, no unix sockets. */
#define FAMILY(f) { .arg = 0, .op = SECCOMP_OP_EQ, .low32 = true, .value = (f) }
#define TYPE(t) { .arg = 1, .op = SECCOMP_OP_MASKED_EQ, .low32 = true, \
		  .mask = 0xf, .value = (t) }
static const struct seccomp_rule inet_sockets[] = {
	{ SECCOMP_RET_ALLOW, 2, { FAMILY(AF_INET), TYPE(SOCK_STREAM) } },
	{ SECCOMP_RET_ALLOW, 2, { FAMILY(AF_INET), TYPE(SOCK_DGRAM) } },
	{ SECCOMP_RET_ALLOW, 2, { FAMILY(AF_INET6), TYPE(SOCK_STREAM) } },
	{ SECCOMP_RET_ALLOW, 2, { FAMILY(AF_INET6), TYPE(SOCK_DGRAM) } },
};

static const struct {
	const char *name;
	const struct seccomp_rule *rules;
	size_t n;
} argued[] = {
	{ "mmap", no_exec_memory, ARRAY_LEN(no_exec_memory) },
	{ "mprotect", no_exec_memory, ARRAY_LEN(no_exec_memory) },
	{ "mremap", NULL, 0 }, /* keeps what the memory was */
	{ "socket", inet_sockets, ARRAY_LEN(inet_sockets) },
};

static int load_filter(void)
{
	static struct seccomp_verdict calls[SECCOMP_NR_MAX];
	struct seccomp_policy p = {
		.audit_arch = seccomp_table_audit_arch(SECCOMP_ARCH_NATIVE),
		.calls = calls,
		.ncalls = SECCOMP_NR_MAX,
		.above = REFUSE(ENOSYS),
		.x32 = SECCOMP_RET_KILL_PROCESS,
		.foreign = SECCOMP_RET_KILL_PROCESS,
	};
	cleanup_free struct sock_filter *insns = NULL;
	struct sock_fprog prog = { 0 };
	int nr;

	for (size_t i = 0; i < SECCOMP_NR_MAX; i++)
		calls[i].otherwise = REFUSE(EPERM);
	for (size_t i = 0; i < ARRAY_LEN(deadly); i++)
		if ((nr = seccomp_table_number(SECCOMP_ARCH_NATIVE, deadly[i])) >= 0)
			calls[nr].otherwise = SECCOMP_RET_KILL_PROCESS;
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		if ((nr = seccomp_table_number(SECCOMP_ARCH_NATIVE, allowed[i])) >= 0)
			calls[nr].otherwise = SECCOMP_RET_ALLOW;
	for (size_t i = 0; i < ARRAY_LEN(argued); i++) {
		nr = seccomp_table_number(SECCOMP_ARCH_NATIVE, argued[i].name);
		if (nr < 0)
			return -EINVAL;
		calls[nr].rules = argued[i].rules;
		calls[nr].nrules = argued[i].n;
		if (!argued[i].n)
			calls[nr].otherwise = SECCOMP_RET_ALLOW;
	}
	int r = seccomp_bpf_compile(&p, &insns, &prog.len);
	if (r < 0)
		return r;
	prog.filter = insns;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 ? -errno : 0;
}

/* Every file-system right, and not one rule that grants any; descriptors that
 * are open (the audit log) keep working.  Sockets: nothing is ever bound. */
static int no_files(void)
{
	int abi = landlock_abi();
	cleanup_close int rules = -1;

	if (abi < 0)
		return 0;
	rules = landlock_ruleset(NULL, 0, abi, false);
	return rules < 0 ? rules : landlock_apply(rules);
}

static int no_capabilities(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &h, none) < 0 ? -errno : 0;
}

/* Real root becomes nobody.  In a user namespace of one id there is no other id
 * to become, and root there is an ordinary user outside. */
static int no_root(void)
{
	const uid_t nobody = 65534;

	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return -errno;
	if (setresgid(nobody, nobody, nobody) < 0)
		return errno == EINVAL ? 0 : -errno;
	if (setresuid(nobody, nobody, nobody) < 0)
		return errno == EINVAL ? 0 : -errno;
	return 0;
}

/* Six per connection: two sockets and two pipes. */
static int limits(uint32_t *max_conns)
{
	enum { PER_CONN = 6, OTHERS = 400 };
	struct rlimit r;
	const struct { int what; rlim_t value; } fixed[] = {
		{ RLIMIT_CORE, 1 }, /* 0 does not stop a core handler that is a program */
		{ RLIMIT_NPROC, 0 },
		{ RLIMIT_MEMLOCK, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		r = (struct rlimit){ fixed[i].value, fixed[i].value };
		if (setrlimit((__rlimit_resource_t)fixed[i].what, &r) < 0)
			return -errno;
	}
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return -errno;
	rlim_t want = (rlim_t)*max_conns * PER_CONN + OTHERS;
	if (want > r.rlim_max)
		want = r.rlim_max;
	if (want < OTHERS + PER_CONN)
		return -EMFILE;
	*max_conns = (uint32_t)((want - OTHERS) / PER_CONN);
	r = (struct rlimit){ want, want };
	return setrlimit(RLIMIT_NOFILE, &r) < 0 ? -errno : 0;
}

int confine_begin(int keep_fd)
{
	/* the strings themselves, too: /proc shows where they were */
	for (char **e = environ; e && *e; e++)
		memset(*e, 0, strlen(*e));
	clearenv();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	umask(0077);
	/* the three standard descriptors may be somebody's terminal */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -errno;
	for (int fd = 0; fd <= (SANITIZED ? 1 : 2); fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	if (null > 2 && null != keep_fd)
		close(null);
	if (fcntl(keep_fd, F_SETFD, FD_CLOEXEC) < 0)
		return -errno;
	return sys_close_range((unsigned)keep_fd + 1, ~0u, 0) < 0 && errno != ENOSYS ?
		       -errno : 0;
}

int confine_finish(uint32_t *max_conns, const char **what)
{
	int r;

	*what = "limits";
	if ((r = limits(max_conns)) < 0)
		return r;
	*what = "root";
	if ((r = no_root()) < 0)
		return r;
	*what = "capabilities";
	if ((r = no_capabilities()) < 0)
		return r;
	/* changing ids made it so again; and it undid it for the next line */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	*what = "landlock";
	if (!SANITIZED && (r = no_files()) < 0)
		return r;
	*what = "seccomp";
	return SANITIZED ? 0 : load_filter();
}
