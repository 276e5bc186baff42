/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default filter, call by call in an interpreter and in the running kernel, and the table
 * of calls against libseccomp's.
 */
#include "seccomp_ask.h"

#include <fcntl.h>
#include <grp.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "confine/seccomp_default.h"

/* --- the default filter --- */

struct sample {
	const char *name;
	uint64_t args[6];
	int errnum; /* 0: allowed */
	bool notify;
};

static const struct sample samples[] = {
	{ "read", { 0 }, 0, false },
	{ "futex", { 0 }, 0, false },
	{ "ptrace", { 0 }, 0, false },
	{ "process_vm_readv", { 0 }, 0, false },
	{ "kcmp", { 0 }, 0, false },
	{ "pidfd_getfd", { 0 }, 0, false },
	{ "landlock_create_ruleset", { 0 }, 0, false },
	{ "seccomp", { 0 }, 0, false },
	{ "prctl", { 0 }, 0, false },
	{ "mseal", { 0 }, 0, false },
	{ "sched_setaffinity", { 0 }, 0, false },

	/* Not on pid 1, which has the same user; the kernel takes a pid as int. */
	{ "prlimit64", { 0 }, 0, false },
	{ "prlimit64", { 2 }, 0, false },
	{ "prlimit64", { 1 }, EPERM, true },
	{ "prlimit64", { HIGH | 1 }, EPERM, true },
	{ "sched_setaffinity", { 1 }, EPERM, true },
	{ "sched_setscheduler", { 1 }, EPERM, true },
	{ "sched_setattr", { HIGH | 1 }, EPERM, true },
	{ "setpriority", { 0, 1 }, EPERM, true },
	{ "setpriority", { 0, 0 }, 0, false },
	{ "ioprio_set", { 1, 1 }, EPERM, true },

	/* Calls with a fallback. */
	{ "io_setup", { 0 }, ENOSYS, false },
	{ "clone3", { 0 }, ENOSYS, false },
	{ "openat2", { 0 }, ENOSYS, false },
	{ "io_uring_setup", { 0 }, ENOSYS, false },
	{ "io_uring_enter", { 0 }, ENOSYS, false },
	{ "io_uring_register", { 0 }, ENOSYS, false },
	{ "userfaultfd", { 0 }, ENOSYS, false },
	{ "statmount", { 0 }, ENOSYS, false },
	{ "listmount", { 0 }, ENOSYS, false },
	{ "cachestat", { 0 }, ENOSYS, false },
	{ "memfd_secret", { 0 }, ENOSYS, false },
	{ "mbind", { 0 }, ENOSYS, false },

	/* Known to be dangerous. */
	{ "mount", { 0 }, EPERM, true },
	{ "umount2", { 0 }, EPERM, true },
	{ "pivot_root", { 0 }, EPERM, true },
	{ "open_tree", { 0 }, EPERM, true },
	{ "open_tree_attr", { 0 }, EPERM, true },
	{ "move_mount", { 0 }, EPERM, true },
	{ "fsopen", { 0 }, EPERM, true },
	{ "mount_setattr", { 0 }, EPERM, true },
	{ "chroot", { 0 }, EPERM, true },
	{ "unshare", { 0 }, EPERM, true },
	{ "setns", { 0 }, EPERM, true },
	{ "bpf", { 0 }, EPERM, true },
	{ "perf_event_open", { 0 }, EPERM, true },
	{ "keyctl", { 0 }, EPERM, true },
	{ "add_key", { 0 }, EPERM, true },
	{ "request_key", { 0 }, EPERM, true },
	{ "kexec_load", { 0 }, EPERM, true },
	{ "kexec_file_load", { 0 }, EPERM, true },
	{ "init_module", { 0 }, EPERM, true },
	{ "finit_module", { 0 }, EPERM, true },
	{ "open_by_handle_at", { 0 }, EPERM, true },
	{ "name_to_handle_at", { 0 }, EPERM, true },
	{ "fanotify_init", { 0 }, EPERM, true },
	{ "fanotify_mark", { 0 }, EPERM, true },
	{ "reboot", { 0 }, EPERM, true },
	{ "swapon", { 0 }, EPERM, true },
	{ "adjtimex", { 0 }, EPERM, true },
	{ "clock_settime", { 0 }, EPERM, true },
	{ "clock_adjtime", { 0 }, EPERM, true },
	{ "sethostname", { 0 }, EPERM, true },
	{ "modify_ldt", { 0 }, EPERM, true },
	{ "iopl", { 0 }, EPERM, true },

	/* clone: threads and fork, no namespaces; 0x80 is the exit signal. */
	{ "clone", { 17 }, 0, false },
	{ "clone", { 0x3d0f00 }, 0, false },
	{ "clone", { 0x80 | 17 }, 0, false },
	{ "clone", { 0x7e020000ull << 32 | 17 }, 0, false },
	{ "clone", { 0x00020000 | 17 }, EPERM, true },
	{ "clone", { 0x02000000 | 17 }, EPERM, true },
	{ "clone", { 0x04000000 | 17 }, EPERM, true },
	{ "clone", { 0x08000000 | 17 }, EPERM, true },
	{ "clone", { 0x10000000 | 17 }, EPERM, true },
	{ "clone", { 0x20000000 | 17 }, EPERM, true },
	{ "clone", { 0x40000000 | 17 }, EPERM, true },
	{ "clone", { HIGH | 0x10000000 }, EPERM, true },

	{ "ioctl", { 0, 0x5401 }, 0, false },
	{ "ioctl", { 0x5412, 0x5413 }, 0, false },
	{ "ioctl", { 0, 0x5412 }, EPERM, true },
	{ "ioctl", { 0, 0x541c }, EPERM, true },
	{ "ioctl", { 0, 0x5423 }, EPERM, true },
	{ "ioctl", { 0, HIGH | 0x5412 }, EPERM, true },
	{ "ioctl", { 0, 0x540a, 0 }, 0, false }, { "ioctl", { 0, 0x540a, 1 }, 0, false },
	{ "ioctl", { 0, 0x540a, 2 }, EPERM, true }, { "ioctl", { 0, 0x540a, 3 }, EPERM, true },
	{ "ioctl", { 0, HIGH | 0x540a, HIGH | 2 }, EPERM, true }, { "ioctl", { 0, 0x540b, 2 }, 0, false },
	{ "ioctl", { 0, 0xC028660F }, EPERM, true }, { "ioctl", { 0, 0xC0C0586D }, EPERM, true },
	{ "ioctl", { 0, 0xC020F509 }, EPERM, true }, { "ioctl", { 0, 0xC020F50A }, 0, false },
	{ "ioctl", { 0, 0xffffffff00000000ull | 0x541c }, EPERM, true },

	{ "mknod", { 0, 0644 }, 0, false },
	{ "mknod", { 0, 0100644 }, 0, false },
	{ "mknod", { 0, 0010644 }, 0, false },
	{ "mknod", { 0, 0140644 }, 0, false },
	{ "mknod", { 0, 0020000, 0 }, EPERM, true },
	{ "mknod", { 0, 0060000 }, EPERM, true },
	{ "mknod", { 0, 0040755 }, EPERM, true },
	{ "mknod", { 0, 0104755 }, EPERM, true },
	{ "mknod", { 0, HIGH | 0x10000 | 0020644 }, EPERM, true },
	{ "mknodat", { 0, 0, 0010644 }, 0, false },
	{ "mknodat", { 0, 0, 0020644 }, EPERM, true },
	{ "mknodat", { 0, 0, 0102644 }, EPERM, true },

	{ "renameat2", { 0, 0, 0, 0, 0 }, 0, false },
	{ "renameat2", { 0, 0, 0, 0, 1 }, 0, false }, /* NOREPLACE */
	{ "renameat2", { 0, 0, 0, 0, HIGH | 2 }, 0, false }, /* EXCHANGE */
	{ "renameat2", { 0, 0, 0, 0, 4 }, EPERM, true }, /* WHITEOUT */
	{ "renameat2", { 0, 0, 0, 0, HIGH | 5 }, EPERM, true },

	{ "chmod", { 0, 0777 }, 0, false },
	{ "chmod", { 0, 01777 }, 0, false },
	{ "chmod", { 0, 04755 }, EPERM, true },
	{ "chmod", { 0, HIGH | 02755 }, EPERM, true },
	{ "fchmod", { 06000, 0644 }, 0, false },
	{ "fchmod", { 0, 02755 }, EPERM, true },
	{ "fchmodat", { 0, 0, 0644 }, 0, false },
	{ "fchmodat", { 0, 0, 04000 }, EPERM, true },
	{ "fchmodat2", { 0, 0, 02000 }, EPERM, true },
	{ "creat", { 0, 0644 }, 0, false },
	{ "creat", { 0, 04644 }, EPERM, true },
	{ "mkdir", { 0, 07777 }, 0, false },
	{ "open", { 0, 0, 06777 }, 0, false }, /* the mode is garbage */
	{ "open", { 0, O_CREAT | O_WRONLY, 0666 }, 0, false },
	{ "open", { 0, O_CREAT | O_WRONLY, 04755 }, EPERM, true },
	{ "openat", { 0, 0, O_RDWR | O_DIRECTORY, 06777 }, 0, false },
	{ "openat", { 0, 0, O_CREAT, 0644 }, 0, false },
	{ "openat", { 0, 0, O_CREAT, 02644 }, EPERM, true },
	{ "openat", { 0, 0, O_TMPFILE | O_RDWR, 04700 }, EPERM, true },
	{ "openat", { 0, 0, HIGH | O_CREAT, HIGH | 04644 }, EPERM, true },

	{ "personality", { 0 }, 0, false },
	{ "personality", { 8 }, 0, false },
	{ "personality", { 0x20000 }, 0, false },
	{ "personality", { 0x20008 }, 0, false },
	{ "personality", { 0x40000 }, 0, false },
	{ "personality", { 0xffffffff }, 0, false },
	{ "personality", { UINT64_MAX }, 0, false },
	{ "personality", { 0x400000 }, EPERM, true },
	{ "personality", { HIGH | 0x400000 }, EPERM, true },

	{ "sendto", { 0, 0, 0, 0x4000 }, 0, false },
	{ "sendto", { 0, 0, 0, 0x20000000 }, EPERM, false },
	{ "sendmsg", { 0, 0, 0x4000, 0x20000000 }, 0, false },
	{ "sendmsg", { 0, 0, HIGH | 0x20000000 }, EPERM, false },
	{ "sendmmsg", { 0, 0, 0, 0x20000040 }, EPERM, false },

	{ "socket", { 1, 1, 0 }, 0, false },
	{ "socket", { 1, 5 | 0x80800, 0 }, 0, false },
	{ "socket", { 2, 1, 0 }, 0, false },
	{ "socket", { 2, 1 | 0x80800, 6 }, 0, false },
	{ "socket", { 10, 2, 17 }, 0, false },
	{ "socket", { 2, 2, 1 }, 0, false },
	{ "socket", { 16, 3, 0 }, 0, false },
	{ "socket", { 16, 2 | 0x80000, 0 }, 0, false },
	{ "socket", { HIGH | 2, HIGH | 1, HIGH | 6 }, 0, false },
	{ "socket", { 16, 3, 9 }, EPROTONOSUPPORT, false }, /* AUDIT */
	{ "socket", { 16, 3, 12 }, EPROTONOSUPPORT, false }, /* NETFILTER */
	{ "socket", { 2, 1, 262 }, EPROTONOSUPPORT, false }, /* MPTCP */
	{ "socket", { 2, 1, 132 }, EPROTONOSUPPORT, false }, /* SCTP */
	{ "socket", { 2, 1, HIGH | 262 }, EPROTONOSUPPORT, false },
	{ "socket", { 2, 5, 132 }, ESOCKTNOSUPPORT, false },
	{ "socket", { 2, 6, 0 }, ESOCKTNOSUPPORT, false }, /* DCCP */
	{ "socket", { 2, 3, 1 }, EPERM, false },
	{ "socket", { 10, 3 | 0x80000, 58 }, EPERM, false },
	{ "socket", { 2, 10, 0x300 }, EPERM, false },
	{ "socket", { 17, 3, 0x300 }, EAFNOSUPPORT, false }, /* PACKET */
	{ "socket", { 40, 1, 0 }, EAFNOSUPPORT, false }, /* VSOCK */
	{ "socket", { 38, 5, 0 }, EAFNOSUPPORT, false }, /* ALG */
	{ "socket", { 44, 3, 0 }, EAFNOSUPPORT, false }, /* XDP */
	{ "socket", { HIGH | 40, 1, 0 }, EAFNOSUPPORT, false },
	{ "setsockopt", { 0, 1, 2 }, 0, false }, /* REUSEADDR */
	{ "setsockopt", { 0, 6, 26 }, 0, false }, /* of TCP */
	{ "setsockopt", { 0, 1, 26 }, EPERM, true }, /* ATTACH_FILTER */
	{ "setsockopt", { 0, HIGH | 1, HIGH | 26 }, EPERM, true },
	{ "setsockopt", { 0, 1, 51 }, EPERM, true }, /* ATTACH_REUSEPORT_CBPF */
	{ "setsockopt", { 0, 1, 52 }, 0, false },
	{ "socketpair", { 1, 1, 0 }, 0, false },
	{ "socketpair", { 30, 1, 0 }, EAFNOSUPPORT, false }, /* TIPC */
};

static void default_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(samples); i++) {
		const struct sample *s = &samples[i];
		int nr = seccomp_call_number(s->name);
		if (nr == -2)
			continue;
		assert_true(nr >= 0);
		uint32_t want = s->errnum ? ERR(s->errnum) : ALLOW;
		uint32_t got = ask(seccomp_default(false), native(), nr, s->args);
		if (got != want)
			fail_msg("sample %zu, %s: %#x, not %#x", i, s->name, got,
				 want);
		if (s->notify)
			want = NOTIFY;
		got = ask(seccomp_default(true), native(), nr, s->args);
		if (got != want)
			fail_msg("sample %zu, %s, notify: %#x, not %#x", i,
				 s->name, got, want);
		if (s->notify)
			assert_int_equal(seccomp_refusal_errno(nr), s->errnum);
	}
}

static void default_outside_the_table(void **state)
{
	(void)state;
	int last = seccomp_table_last(SECCOMP_ARCH_NATIVE);
	const int nrs[] = { last + 1,	 512,	     520,	 1024,
			    0x3fffffff, 0x40000000, 0x40000001, 0x40000000 + 59,
			    0x40000206, INT32_MIN,  -2,		-1 };

	for (int notify = 0; notify < 2; notify++) {
		const struct seccomp_prog *p = seccomp_default(notify);
		assert_true(bpf_sim_valid(p->insns, p->len));
		assert_true(p->notify == notify);
		for (size_t i = 0; i < COUNT(nrs); i++)
			assert_int_equal(ask(p, native(), nrs[i], NULL),
					 ERR(ENOSYS));
		for (int nr = -1; nr <= last + 10; nr++)
			assert_int_equal(ask(p, FOREIGN, nr, NULL), ERR(ENOSYS));
	}
	assert_int_equal(seccomp_refusal_errno(-1), EPERM);
	assert_int_equal(seccomp_refusal_errno(100000), EPERM);
}

/* The two variants differ only where one reports what the other refuses, and
 * both are what the policy says for every call, on both architectures. */
static void default_equals_policy(void **state)
{
	(void)state;
	for (int v = 0; v < 2 * SECCOMP_ARCH_COUNT; v++) {
		struct seccomp_default_policy p;
		const char *problem = "", *name = "";
		struct sock_filter *insns;
		unsigned short len;
		uint64_t seed = 42;
		enum seccomp_arch arch = (enum seccomp_arch)(v / 2);

		assert_int_equal(seccomp_default_build(arch, v % 2, &p, &problem,
						       &name), 0);
		assert_int_equal(seccomp_bpf_compile(&p.policy, &insns, &len), 0);
		assert_true(bpf_sim_valid(insns, len));
		if (arch == SECCOMP_ARCH_NATIVE) {
			assert_int_equal(len, seccomp_default(v % 2)->len);
			assert_memory_equal(insns, seccomp_default(v % 2)->insns,
					    len * sizeof *insns);
		}
		unsigned deepest = 0;
		for (int nr = -2; nr < SECCOMP_NR_MAX + 2; nr++) {
			for (int n = 0; n < 500; n++) {
				struct seccomp_data d = { .nr = nr };
				unsigned steps = 0;
				d.arch = p.policy.audit_arch;
				fill_args(&d, &seed);
				assert_int_equal(bpf_sim_run(insns, len, &d,
							     &steps),
						 evaluate(&p.policy, &d));
				if (steps > deepest)
					deepest = steps;
			}
		}
		print_message("default filter %d: %u instructions, longest path"
			      " %u\n", v, len, deepest);
		assert_true(len < 200);
		free(insns);
	}
}

/* --- the table --- */

static void table_agrees_with_libseccomp(void **state)
{
	(void)state;
	static const uint32_t arch[] = { SCMP_ARCH_X86_64, SCMP_ARCH_AARCH64 };
	size_t both = 0, n = 0;
	const char *name, *prev = "";

	for (; (name = seccomp_table_entry(n)); n++) {
		assert_true(strcmp(prev, name) < 0);
		prev = name;
		for (int a = 0; a < SECCOMP_ARCH_COUNT; a++) {
			int ours = seccomp_table_number((enum seccomp_arch)a,
							name);
			int theirs = seccomp_syscall_resolve_name_arch(arch[a],
								       name);
			if (theirs == __NR_SCMP_ERROR)
				continue; /* newer than the library */
			if (theirs < 0 && ours >= 0 && ours > 440)
				continue; /* the library knew it elsewhere */
			if (theirs < 0 ? ours != SECCOMP_NAME_ELSEWHERE :
					 ours != theirs)
				fail_msg("%s: %d here, %d there", name, ours,
					 theirs);
			both++;
		}
	}
	print_message("%zu names, %zu numbers compared\n", n, both);
	assert_true(both > 800);
	assert_int_equal(seccomp_call_number("read"), SYS_read);
	assert_string_equal(seccomp_call_name(SYS_openat), "openat");
	assert_null(seccomp_call_name(-1));
	assert_null(seccomp_call_name(4000));
	assert_int_equal(seccomp_call_number("socketcall"), -2);
	assert_int_equal(seccomp_call_number("raed"), -1);
	assert_int_equal(seccomp_call_number(""), -1);
}

/* --- the kernel's opinion --- */

/* In a child without privileges: loads a filter and makes harmless calls that
 * show it works.  The exit code says which line failed. */
static int load_and_try(bool notify)
{
	const struct seccomp_prog *p = seccomp_default(notify);
	struct sock_fprog prog = { p->len, (struct sock_filter *)(uintptr_t)p->insns };
	unsigned flags = notify ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;

	if (geteuid() == 0 &&
	    (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0))
		return 1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return 2;
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (fd < 0)
		return errno == EBUSY ? 77 : 3;
	if (getppid() <= 0)
		return 4;
	if (syscall(-1) != -1 || errno != ENOSYS)
		return 5;
	if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
		return 6;
	if (syscall(SYS_socket, 40, 1, 0) != -1 || errno != EAFNOSUPPORT)
		return 7;
	if (notify) /* nobody answers here */
		return close((int)fd) == 0 ? 0 : 8;
	if (syscall(SYS_unshare, 0) != -1 || errno != EPERM)
		return 9;
	if (syscall(SYS_ioctl, -1, HIGH | 0x5412, 0) != -1 || errno != EPERM)
		return 10;
	if (syscall(SYS_ioctl, -1, HIGH | 0x5401, 0) != -1 || errno != EBADF)
		return 11;
	if (syscall(SYS_fchmod, -1, 04755) != -1 || errno != EPERM)
		return 12;
	if (syscall(SYS_fchmod, -1, 0755) != -1 || errno != EBADF)
		return 13;
	return 0;
}

static void kernel_takes_the_filters(void **state)
{
	(void)state;
	for (int notify = 0; notify < 2; notify++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			_exit(load_and_try(notify));
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77) {
			print_message("SKIP: a listener is already there\n");
			continue;
		}
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_agrees_with_libseccomp),
		cmocka_unit_test(default_answers),
		cmocka_unit_test(default_outside_the_table),
		cmocka_unit_test(default_equals_policy),
		cmocka_unit_test(kernel_takes_the_filters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
