/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System-call filters: the default policy call by call in an interpreter and
 * in the running kernel, the compiler against libseccomp's and against a
 * direct evaluation of the rules, the table against libseccomp's, the profile
 * reader with good and bad profiles.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <linux/audit.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bpf_sim.h"
#include "engine/seccomp.h"
#include "engine/seccomp_bpf.h"
#include "engine/seccomp_default.h"
#include "engine/seccomp_table.h"

#define ALLOW SECCOMP_RET_ALLOW
#define ERR(e) (SECCOMP_RET_ERRNO | (uint32_t)(e))
#define NOTIFY SECCOMP_RET_USER_NOTIF
#define HIGH 0x100000000ull
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#ifdef __x86_64__
#define FOREIGN AUDIT_ARCH_I386
#else
#define FOREIGN AUDIT_ARCH_ARM
#endif

static uint32_t native(void)
{
	return seccomp_table_audit_arch(SECCOMP_ARCH_NATIVE);
}

static uint32_t ask(const struct seccomp_prog *p, uint32_t arch, int nr,
		    const uint64_t args[6])
{
	struct seccomp_data d = { .nr = nr, .arch = arch };

	if (args)
		memcpy(d.args, args, sizeof d.args);
	return bpf_sim_run(p->insns, p->len, &d, NULL);
}

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
static uint32_t evaluate(const struct seccomp_policy *p,
			 const struct seccomp_data *d);

static void fill_args(struct seccomp_data *d, uint64_t *seed);

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

/* --- the compiler --- */

static uint64_t rnd(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Values near the edges that rules are about. */
static uint64_t interesting(uint64_t *seed)
{
	static const uint64_t base[] = {
		0,    1,     2,		 3,	     6,		 8,
		10,   16,    17,	 40,	     58,	 06000,
		0xf000, 0x1000, 0x8000,	 0xc000,     0x2000,	 0x40,
		0x400000, 0x5412, 0x541c, 0x5423,    0x20000,	 0x20008, 0x540a,
		0x40000, 0x7e020000, 0x20000000, 0x7fffffff, 0x80000000,
		0xffffffff, HIGH, HIGH + 1, HIGH * 5, 0x7fffffffffffffff,
		0x8000000000000000, UINT64_MAX,
	};
	uint64_t v = base[rnd(seed) % COUNT(base)];

	switch (rnd(seed) % 8) {
	case 0:
		return v + 1;
	case 1:
		return v - 1;
	case 2:
		return v | HIGH;
	case 3:
		return v | base[rnd(seed) % COUNT(base)];
	case 4:
		return v << 32 | base[rnd(seed) % COUNT(base)];
	default:
		return v;
	}
}

static void fill_args(struct seccomp_data *d, uint64_t *seed)
{
	for (int i = 0; i < 6; i++)
		d->args[i] = interesting(seed);
}

/* The meaning of a policy, straight from its definition. */
static uint32_t evaluate(const struct seccomp_policy *p,
			 const struct seccomp_data *d)
{
	uint32_t nr = (uint32_t)d->nr;

	if (d->arch != p->audit_arch)
		return p->foreign;
	if (nr >= 0x40000000u)
		return p->x32;
	if (nr >= p->ncalls)
		return p->above;
	for (size_t r = 0; r < p->calls[nr].nrules; r++) {
		const struct seccomp_rule *rule = &p->calls[nr].rules[r];
		bool all = true;
		for (unsigned i = 0; i < rule->nconds; i++) {
			const struct seccomp_cond *c = &rule->conds[i];
			uint64_t a = d->args[c->arg], v = c->value, m = c->mask;
			if (c->low32) {
				a = (uint32_t)a;
				v = (uint32_t)v;
				m = (uint32_t)m;
			}
			switch (c->op) {
			case SECCOMP_OP_EQ: all &= a == v; break;
			case SECCOMP_OP_NE: all &= a != v; break;
			case SECCOMP_OP_LT: all &= a < v; break;
			case SECCOMP_OP_LE: all &= a <= v; break;
			case SECCOMP_OP_GT: all &= a > v; break;
			case SECCOMP_OP_GE: all &= a >= v; break;
			case SECCOMP_OP_MASKED_EQ: all &= (a & m) == (v & m); break;
			case SECCOMP_OP_MASKED_NE: all &= (a & m) != (v & m); break;
			}
		}
		if (all)
			return rule->action;
	}
	return p->calls[nr].otherwise;
}

static struct seccomp_cond random_cond(uint64_t *seed, unsigned char arg)
{
	return (struct seccomp_cond){
		.arg = arg,
		.op = (enum seccomp_op)(rnd(seed) % 8),
		.low32 = rnd(seed) % 2,
		.mask = interesting(seed),
		.value = interesting(seed),
	};
}

/* Policies of many shapes, among them ones far longer than a jump reaches. */
static void compiler_agrees_with_definition(void **state)
{
	(void)state;
	static const uint32_t actions[] = { ALLOW, ERR(1), ERR(38),
					    SECCOMP_RET_KILL_PROCESS,
					    SECCOMP_RET_TRAP, SECCOMP_RET_LOG };
	enum { CALLS = 480, RULES = 600 };
	struct seccomp_verdict *calls = calloc(CALLS, sizeof *calls);
	struct seccomp_rule *rules = calloc(RULES, sizeof *rules);
	uint64_t seed = 20260101;
	size_t longest = 0;

	assert_non_null(calls);
	assert_non_null(rules);
	for (int round = 0; round < 40; round++) {
		size_t used = 0;
		uint64_t runs = 1 + rnd(&seed) % 40; /* how often it changes */
		for (size_t i = 0; i < CALLS; i++) {
			calls[i] = (struct seccomp_verdict){
				.otherwise = i && rnd(&seed) % runs ?
						     calls[i - 1].otherwise :
						     actions[rnd(&seed) % 6],
			};
			size_t n = rnd(&seed) % 6 == 0 ? rnd(&seed) % 5 : 0;
			if (used + n > RULES)
				continue;
			calls[i].rules = &rules[used];
			calls[i].nrules = n;
			for (; n > 0; n--, used++) {
				rules[used].action = actions[rnd(&seed) % 6];
				rules[used].nconds =
					(unsigned char)(rnd(&seed) % 4);
				for (int k = 0; k < 3; k++)
					rules[used].conds[k] = random_cond(
						&seed,
						(unsigned char)(rnd(&seed) % 6));
			}
		}
		struct seccomp_policy p = { native(), calls, CALLS, ERR(38),
					    ERR(99), SECCOMP_RET_KILL_PROCESS };
		struct sock_filter *insns = NULL;
		unsigned short len = 0;
		assert_int_equal(seccomp_bpf_compile(&p, &insns, &len), 0);
		assert_true(bpf_sim_valid(insns, len));
		longest = len > longest ? len : longest;
		for (int nr = -2; nr < CALLS + 4; nr++) {
			for (int n = 0; n < 60; n++) {
				struct seccomp_data d = {
					.nr = n == 59 ? nr | 0x40000000 : nr,
					.arch = n == 58 ? FOREIGN : native(),
				};
				fill_args(&d, &seed);
				assert_int_equal(bpf_sim_run(insns, len, &d, NULL),
						 evaluate(&p, &d));
			}
		}
		free(insns);
	}
	print_message("longest program: %zu instructions\n", longest);
	assert_true(longest > 600);

	rules[0].nconds = 1;
	rules[0].conds[0].arg = 6;
	calls[0].rules = rules;
	calls[0].nrules = 1;
	struct seccomp_policy p = { .calls = calls, .ncalls = 1 };
	struct sock_filter *insns = NULL;
	unsigned short len;
	assert_int_equal(seccomp_bpf_compile(&p, &insns, &len), -EINVAL);

	/* Too many different answers for one filter. */
	for (size_t i = 0; i < CALLS; i++) {
		calls[i].rules = rules;
		calls[i].nrules = RULES;
	}
	for (size_t i = 0; i < RULES; i++) {
		rules[i].nconds = 3;
		rules[i].action = ERR(i);
		for (int k = 0; k < 3; k++)
			rules[i].conds[k] = (struct seccomp_cond){
				.arg = (unsigned char)k, .op = SECCOMP_OP_GT,
				.value = i * 7919 + HIGH * i
			};
	}
	p.ncalls = CALLS;
	assert_int_equal(seccomp_bpf_compile(&p, &insns, &len), -E2BIG);
	free(rules);
	free(calls);
}

/* The filter libseccomp makes of the same rules. */
static struct sock_filter *libseccomp_compile(const struct seccomp_policy *p,
					      uint32_t fallback, size_t *len)
{
	static const enum scmp_compare ops[] = {
		SCMP_CMP_EQ, SCMP_CMP_NE, SCMP_CMP_LT, SCMP_CMP_LE,
		SCMP_CMP_GT, SCMP_CMP_GE, SCMP_CMP_MASKED_EQ,
	};
	scmp_filter_ctx ctx = seccomp_init(fallback);
	assert_non_null(ctx);
	assert_int_equal(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH,
					  p->foreign), 0);
	for (size_t nr = 0; nr < p->ncalls; nr++) {
		const struct seccomp_verdict *v = &p->calls[nr];
		if (v->otherwise != fallback)
			assert_int_equal(seccomp_rule_add(ctx, v->otherwise,
							  (int)nr, 0), 0);
		for (size_t r = 0; r < v->nrules; r++) {
			struct scmp_arg_cmp cmp[6];
			for (unsigned i = 0; i < v->rules[r].nconds; i++) {
				const struct seccomp_cond *c =
					&v->rules[r].conds[i];
				bool masked = c->op == SECCOMP_OP_MASKED_EQ;
				cmp[i] = (struct scmp_arg_cmp){
					c->arg, ops[c->op],
					masked ? c->mask : c->value,
					masked ? c->value : 0
				};
			}
			assert_int_equal(seccomp_rule_add_array(
						 ctx, v->rules[r].action, (int)nr,
						 v->rules[r].nconds, cmp), 0);
		}
	}
	int fd = memfd_create("bpf", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(seccomp_export_bpf(ctx, fd), 0);
	seccomp_release(ctx);
	off_t size = lseek(fd, 0, SEEK_END);
	struct sock_filter *f = malloc((size_t)size);
	assert_non_null(f);
	assert_int_equal(pread(fd, f, (size_t)size, 0), size);
	close(fd);
	*len = (size_t)size / sizeof *f;
	return f;
}

static void compiler_agrees_with_libseccomp(void **state)
{
	(void)state;
	enum { CALLS = 335, RULES = 200 };
	struct seccomp_verdict calls[CALLS];
	static struct seccomp_rule rules[RULES];
	uint64_t seed = 7;

	for (int round = 0; round < 12; round++) {
		size_t used = 0;
		uint32_t fallback = round % 2 ? ERR(1) : ERR(38);
		for (size_t nr = 0; nr < CALLS; nr++) {
			bool known = seccomp_call_name((int)nr);
			calls[nr] = (struct seccomp_verdict){
				.otherwise = !known || rnd(&seed) % 4 ? fallback :
									ALLOW };
			if (!known || calls[nr].otherwise == ALLOW ||
			    rnd(&seed) % 5 || used + 3 > RULES)
				continue;
			calls[nr].rules = &rules[used];
			/* Alternatives on one argument, or one conjunction:
			 * what profiles contain. */
			bool alternatives = rnd(&seed) % 2;
			calls[nr].nrules = alternatives ? 1 + rnd(&seed) % 3 : 1;
			unsigned char arg = (unsigned char)(rnd(&seed) % 4);
			for (size_t r = 0; r < calls[nr].nrules; r++, used++) {
				rules[used].action = ALLOW;
				rules[used].nconds = alternatives ? 1 : 2;
				for (unsigned char i = 0; i < 2; i++) {
					struct seccomp_cond c = random_cond(
						&seed, (unsigned char)(arg + i));
					c.op %= 7;
					if (alternatives)
						c.op = r % 2 ? SECCOMP_OP_EQ :
							       SECCOMP_OP_MASKED_EQ;
					if (!c.mask)
						c.mask = 1;
					c.value &= c.op == SECCOMP_OP_MASKED_EQ ?
							   c.mask : UINT64_MAX;
					c.low32 = false;
					rules[used].conds[i] = c;
				}
			}
		}
		struct seccomp_policy p = {
			native(), calls, CALLS, fallback,
			SECCOMP_RET_KILL_THREAD, SECCOMP_RET_KILL_THREAD
		};
		struct sock_filter *ours = NULL, *theirs;
		unsigned short len = 0;
		size_t their_len;
		assert_int_equal(seccomp_bpf_compile(&p, &ours, &len), 0);
		theirs = libseccomp_compile(&p, fallback, &their_len);
		for (int nr = 0; nr < 600; nr++) {
			for (int n = 0; n < 300; n++) {
				struct seccomp_data d = { .nr = nr,
							  .arch = native() };
				fill_args(&d, &seed);
				/* Also hit the compared values themselves. */
				if (n % 3 == 0 && nr < CALLS && calls[nr].nrules)
					for (unsigned i = 0; i < 2; i++) {
						const struct seccomp_cond *c =
							&calls[nr].rules[0].conds[i];
						d.args[c->arg] = c->value + (uint64_t)(n % 9 / 3) - 1;
					}
				uint32_t a = bpf_sim_run(ours, len, &d, NULL);
				uint32_t b = bpf_sim_run(theirs, their_len, &d,
							 NULL);
				if (a != b)
					fail_msg("round %d nr %d: %#x, theirs %#x,"
						 " meant %#x", round, nr, a, b,
						 evaluate(&p, &d));
			}
		}
		struct seccomp_data d = { .nr = 0, .arch = FOREIGN };
		assert_int_equal(bpf_sim_run(ours, len, &d, NULL),
				 bpf_sim_run(theirs, their_len, &d, NULL));
		d = (struct seccomp_data){ .nr = 0x40000001, .arch = native() };
		assert_int_equal(bpf_sim_run(ours, len, &d, NULL),
				 SECCOMP_RET_KILL_THREAD);
		free(ours);
		free(theirs);
	}
}

/* --- the profile reader --- */

static const char docker_like[] =
	"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":1,\"archMap\":["
	"{\"architecture\":\"SCMP_ARCH_X86_64\",\"subArchitectures\":"
	"[\"SCMP_ARCH_X86\",\"SCMP_ARCH_X32\"]},"
	"{\"architecture\":\"SCMP_ARCH_S390X\",\"subArchitectures\":null}],"
	"\"syscalls\":["
	"{\"names\":[\"read\",\"write\",\"_llseek\",\"chown32\",\"socketcall\",\"recv\"],"
	"\"action\":\"SCMP_ACT_ALLOW\",\"args\":null,\"comment\":\"\",\"includes\":{},"
	"\"excludes\":{}},"
	"{\"names\":[\"ptrace\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"4.8\"}},"
	"{\"names\":[\"kcmp\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"99.0\"}},"
	"{\"names\":[\"mount\",\"clone\"],\"action\":\"SCMP_ACT_ALLOW\","
	"\"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}},"
	"{\"names\":[\"clone\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,"
	"\"value\":2114060288,\"valueTwo\":0,\"op\":\"SCMP_CMP_MASKED_EQ\"}],"
	"\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"],\"arches\":[\"s390\",\"s390x\"]}},"
	"{\"names\":[\"clone3\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":38,"
	"\"errno\":\"ENOSYS\","
	"\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}},"
	"{\"names\":[\"swapcontext\",\"sync\"],\"action\":\"SCMP_ACT_ALLOW\","
	"\"includes\":{\"arches\":[\"ppc64le\"]}},"
	"{\"names\":[\"fsync\"],\"action\":\"SCMP_ACT_ALLOW\","
	"\"includes\":{\"arches\":[\"amd64\",\"arm64\"]}},"
	"{\"names\":[\"fdatasync\"],\"action\":\"SCMP_ACT_ALLOW\","
	"\"excludes\":{\"arches\":[\"amd64\",\"arm64\"]}},"
	"{\"names\":[\"personality\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":0,\"op\":\"SCMP_CMP_EQ\"}]},"
	"{\"names\":[\"personality\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":4294967295,\"op\":\"SCMP_CMP_EQ\"}]},"
	"{\"names\":[\"socket\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
	"{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"},{\"index\":0,\"value\":40,\"op\":\"SCMP_CMP_GT\"}]},"
	"{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
	"{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_LE\"},{\"index\":1,\"value\":21505,\"op\":\"SCMP_CMP_EQ\"}]},"
	"{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_TRAP\",\"args\":[{\"index\":0,\"value\":3,\"op\":\"SCMP_CMP_EQ\"}]},"
	"{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_ALLOW\"},"
	"{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_KILL_PROCESS\"},"
	"{\"names\":[\"getcpu\"],\"action\":\"SCMP_ACT_ERRNO\",\"errno\":\"EWOULDBLOCK\"},"
	"{\"name\":\"close\",\"action\":\"SCMP_ACT_LOG\"},"
	"{\"names\":[\"bpf\"],\"action\":\"SCMP_ACT_KILL\"}]}";

static void profile_answers(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		uint64_t args[3];
		uint32_t want;
	} t[] = {
		{ "read", { 0 }, ALLOW },
		{ "open_by_handle_at", { 0 }, ERR(EPERM) },
		{ "ptrace", { 0 }, ALLOW },
		{ "kcmp", { 0 }, ERR(EPERM) },
		{ "mount", { 0 }, ERR(EPERM) },
		{ "clone", { 17 }, ALLOW },
		{ "clone", { 0x10000011 }, ERR(EPERM) },
		{ "clone3", { 0 }, ERR(ENOSYS) },
		{ "sync", { 0 }, ERR(EPERM) },
		{ "fsync", { 0 }, ALLOW },
		{ "fdatasync", { 0 }, ERR(EPERM) },
		{ "personality", { 0 }, ALLOW },
		{ "personality", { 0xffffffff }, ALLOW },
		{ "personality", { UINT64_MAX }, ERR(EPERM) }, /* 64 bits */
		{ "socket", { 1 }, ALLOW },
		{ "socket", { 41 }, ALLOW },
		{ "socket", { 2 }, ERR(EPERM) },
		{ "ioctl", { 1, 21505 }, ALLOW },
		{ "ioctl", { 2, 21505 }, ERR(EPERM) },
		{ "ioctl", { 1, HIGH | 21505 }, ERR(EPERM) },
		{ "dup", { 3 }, ALLOW }, /* unconditional wins, first stays */
		{ "getcpu", { 0 }, ERR(EAGAIN) },
		{ "close", { 0 }, SECCOMP_RET_LOG },
		{ "bpf", { 0 }, SECCOMP_RET_KILL_THREAD },
	};
	struct seccomp_prog *p = NULL;
	struct brig_error err = { 0 };

	if (seccomp_profile_compile(docker_like, sizeof docker_like - 1, "d.json",
				    &p, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(p->notify);
	assert_true(bpf_sim_valid(p->insns, p->len));
	for (size_t i = 0; i < COUNT(t); i++) {
		uint64_t args[6] = { t[i].args[0], t[i].args[1], t[i].args[2] };
		uint32_t got = ask(p, native(), seccomp_call_number(t[i].name),
				   args);
		if (got != t[i].want)
			fail_msg("%s (%zu): %#x, not %#x", t[i].name, i, got,
				 t[i].want);
	}
	assert_int_equal(ask(p, native(), 4000, NULL), ERR(ENOSYS));
	assert_int_equal(ask(p, native(), -1, NULL), ERR(ENOSYS));
	assert_int_equal(ask(p, FOREIGN, 3, NULL), ERR(ENOSYS));
	seccomp_prog_free(p);
	seccomp_prog_free(NULL);

	/* Allow by default is what it says, foreign calls excepted. */
	static const char open[] = "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}";
	assert_int_equal(seccomp_profile_compile(open, sizeof open - 1, "o", &p,
						 &err), 0);
	assert_int_equal(ask(p, native(), 1, NULL), ALLOW);
	assert_int_equal(ask(p, native(), 4000, NULL), ALLOW);
	assert_int_equal(ask(p, native(), 0x40000001, NULL), ERR(ENOSYS));
	assert_int_equal(ask(p, FOREIGN, 1, NULL), ERR(ENOSYS));
	seccomp_prog_free(p);
}

#define HEAD "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":["
#define GOOD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\"}"
#define ARG(s) HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[" s "]}]}"

static void profile_errors(void **state)
{
	(void)state;
	static const struct {
		const char *json, *says;
	} t[] = {
		{ "", "line" },
		{ "{", "line" },
		{ "[]", "not an object" },
		{ "null", "line" },
		{ "{}", "defaultAction" },
		{ "{\"defaultAction\":1}", "defaultAction" },
		{ "{\"defaultAction\":\"ALLOW\"}", "unknown action \"ALLOW\"" },
		{ "{\"defaultAction\":\"SCMP_ACT_TRACE\"}", "tracer" },
		{ "{\"defaultAction\":\"SCMP_ACT_NOTIFY\"}", "listener" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\"} x", "line" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultAction\":"
		  "\"SCMP_ACT_ERRNO\"}", "duplicate" },
		{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":4096}",
		  "4095" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"listenerPath\":\"/x\"}",
		  "unknown key \"listenerPath\"" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":{}}",
		  "not an array" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":[\"x\"]}",
		  "SCMP_ARCH_" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":"
		  "[\"SCMP_ARCH_X86\"],\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86\"}]}",
		  "not both" },
		{ HEAD "1]}", "syscalls[0]" },
		{ HEAD GOOD ",{\"names\":[\"raed\"],\"action\":\"SCMP_ACT_ALLOW\"}]}",
		  "syscalls[1]: there is no system call \"raed\"" },
		{ HEAD "{\"names\":[\"raed\"],\"action\":\"SCMP_ACT_ALLOW\","
		  "\"includes\":{\"caps\":[\"CAP_BPF\"]}}]}", "raed" },
		{ HEAD "{\"names\":[\"re\\u001b\\nd\"],\"action\":\"SCMP_ACT_ALLOW\"}]}",
		  "\"re??d\"" },
		{ HEAD "{\"names\":[],\"action\":\"SCMP_ACT_ALLOW\"}]}", "empty" },
		{ HEAD "{\"names\":[1],\"action\":\"SCMP_ACT_ALLOW\"}]}",
		  "not a string" },
		{ HEAD "{\"names\":\"read\",\"action\":\"SCMP_ACT_ALLOW\"}]}",
		  "not an array" },
		{ HEAD "{\"action\":\"SCMP_ACT_ALLOW\"}]}", "either" },
		{ HEAD "{\"name\":\"read\",\"names\":[\"read\"],\"action\":"
		  "\"SCMP_ACT_ALLOW\"}]}", "either" },
		{ HEAD "{\"names\":[\"read\"]}]}", "\"action\" is missing" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\","
		  "\"argz\":[]}]}", "unknown key \"argz\"" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\","
		  "\"includes\":{\"cap\":[]}}]}", "unknown key \"cap\"" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\","
		  "\"includes\":{\"minKernel\":\"4.8.1\"}}]}", "minKernel" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\","
		  "\"errnoRet\":-1}]}", "errnoRet" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\","
		  "\"errno\":\"EPREM\"}]}", "unknown error \"EPREM\"" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\","
		  "\"errno\":13}]}", "\"errno\" is not a string" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\","
		  "\"errnoRet\":1,\"errno\":\"EACCES\"}]}",
		  "\"errnoRet\" is 1, but \"errno\" says EACCES, which is 13" },
		{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrno\":\"\"}",
		  "unknown error \"\"" },
		{ ARG("1"), "not an object" },
		{ ARG("{\"index\":6,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}"), "index" },
		{ ARG("{\"value\":1,\"op\":\"SCMP_CMP_EQ\"}"), "without \"index\"" },
		{ ARG("{\"index\":0,\"value\":-1,\"op\":\"SCMP_CMP_EQ\"}"), "value" },
		{ ARG("{\"index\":0,\"value\":1.5,\"op\":\"SCMP_CMP_EQ\"}"), "value" },
		{ ARG("{\"index\":0,\"value\":1}"), "without \"op\"" },
		{ ARG("{\"index\":0,\"value\":1,\"op\":\"EQ\"}"), "\"EQ\"" },
		{ HEAD "{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":"
		  "[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]},"
		  "{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_TRAP\",\"args\":"
		  "[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]}]}",
		  "already has another action" },
	};

	for (size_t i = 0; i < COUNT(t); i++) {
		struct seccomp_prog *p = NULL;
		struct brig_error err = { 0 };
		int r = seccomp_profile_compile(t[i].json, strlen(t[i].json),
						"p.json", &p, &err);
		if (r != -EINVAL || p)
			fail_msg("%s: %d", t[i].json, r);
		assert_int_equal(err.code, BRIG_E_BAD_SECCOMP_PROFILE);
		if (!strstr(err.message, t[i].says) ||
		    strncmp(err.message, "p.json: ", 8) != 0)
			fail_msg("%s: \"%s\" does not say \"%s\"", t[i].json,
				 err.message, t[i].says);
		assert_null(strpbrk(err.message, "\n\r\033"));
		assert_int_equal(seccomp_profile_compile(t[i].json,
							 strlen(t[i].json), "p",
							 &p, NULL), -EINVAL);
	}
}

/* A profile as it is installed on people's machines: by Podman's packages, or another one. */
static const char *installed_text(const char **path, size_t *len)
{
	static char text[1 << 20];
	const char *given = getenv("BRIG_TEST_PROFILE");

	*path = given ? given : "/usr/share/containers/seccomp.json";
	int fd = open(*path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		print_message("SKIP: %s: %s\n", *path, strerror(errno));
		skip();
	}
	ssize_t n = read(fd, text, sizeof text);
	close(fd);
	assert_true(n > 0 && (size_t)n < sizeof text);
	*len = (size_t)n;
	return text;
}

static void profile_installed(void **state)
{
	(void)state;
	struct seccomp_prog *p = NULL;
	struct brig_error err = { 0 };
	const char *path;
	size_t n;
	const char *text = installed_text(&path, &n);

	if (seccomp_profile_compile(text, n, path, &p, &err) < 0)
		fail_msg("%s", err.message);
	print_message("%s: %u instructions\n", path, p->len);
	assert_true(bpf_sim_valid(p->insns, p->len));
	assert_int_equal(ask(p, native(), SYS_openat, NULL), ALLOW);
	assert_int_equal(ask(p, native(), SYS_kexec_load, NULL), ERR(EPERM));
	assert_int_equal(ask(p, native(), 100000, NULL), ERR(ENOSYS));
	seccomp_prog_free(p);
}

/* What the engines allow whatever the arguments and whoever asks, and brig's filter does not
 * allow at all.  seccomp_default.c says why. */
static const char *const taken_away[] = {
	"adjtimex", "cachestat", "clock_adjtime", "clone3", "fanotify_mark", "io_cancel",
	"io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit", "keyctl",
	"listmount", "memfd_secret", "name_to_handle_at", "openat2", "statmount",
};
/* And for a container with rights in its own namespaces, or over the machine. */
static const char *const for_root[] = {
	"add_key", "fsconfig", "fsmount", "fsopen", "fspick", "get_mempolicy", "mbind",
	"mount", "mount_setattr", "move_mount", "open_tree", "pivot_root", "reboot",
	"request_key", "set_mempolicy", "setns", "syslog", "umount", "umount2", "unshare",
};

static bool listed(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

static void default_starts_from_the_engines(void **state)
{
	(void)state;
	const char *path;
	size_t len, i, k, names = 0, wrong = 0;
	const char *text = installed_text(&path, &len);
	json_t *top = json_loadb(text, len, 0, NULL), *entry, *name;

	assert_non_null(top);
	json_array_foreach(json_object_get(top, "syscalls"), i, entry) {
		if (strcmp(json_string_value(json_object_get(entry, "action")),
			   "SCMP_ACT_ALLOW") || json_array_size(json_object_get(entry, "args")) ||
		    json_object_size(json_object_get(entry, "includes")) ||
		    json_object_size(json_object_get(entry, "excludes")))
			continue;
		json_array_foreach(json_object_get(entry, "names"), k, name) {
			const char *call = json_string_value(name);
			int nr = seccomp_call_number(call);
			names++;
			if (nr == SECCOMP_NAME_UNKNOWN)
				fail_msg("%s is not in the table", call);
			if (nr < 0)
				continue;
			/* the one that allows nothing with arguments of zero */
			const uint64_t args[6] = { strcmp(call, "socketpair") == 0 };
			bool ours = ask(seccomp_default(false), native(), nr, args) == ALLOW;
			bool less = listed(taken_away, COUNT(taken_away), call) ||
				    listed(for_root, COUNT(for_root), call);
			if (ours == less)
				print_error("%s: %s allows it, brig %s\n", call, path,
					    ours ? "too" : "does not");
			wrong += ours == less;
		}
	}
	json_decref(top);
	print_message("%zu names that %s allows whatever the arguments\n", names, path);
	assert_true(names > 300);
	assert_int_equal(wrong, 0);
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
		cmocka_unit_test(compiler_agrees_with_definition),
		cmocka_unit_test(compiler_agrees_with_libseccomp),
		cmocka_unit_test(profile_answers),
		cmocka_unit_test(profile_errors),
		cmocka_unit_test(profile_installed),
		cmocka_unit_test(default_starts_from_the_engines),
		cmocka_unit_test(kernel_takes_the_filters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
