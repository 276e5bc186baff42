/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments for bubblewrap, the landlock filter, the choice of a backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/bwrap_args.h"
#include "backend/landlock_filter.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/resolve.h"

static char dir[] = "/tmp/brig-test-args-XXXXXX";

static struct spec *resolve(const char *const *options)
{
	static const char *const cmd[] = { "true", NULL };
	struct brig_spec *rq = brig_spec_new();
	struct brig_error err = { 0 };
	struct spec *s = NULL;

	assert_int_equal(brig_spec_set(rq, "workspace", dir, &err), 0);
	for (; options && *options; options += 2)
		assert_int_equal(brig_spec_set(rq, options[0], options[1], &err), 0);
	assert_int_equal(brig_spec_set_argv(rq, cmd, &err), 0);
	assert_int_equal(policy_resolve(rq, &s, &err), 0);
	brig_spec_free(rq);
	return s;
}

/* The arguments as a vector. */
static char **args(const char *const *options, const struct bwrap_features *f,
		   struct bwrap_fds *fds, int want)
{
	struct spec *s = resolve(options);
	struct plan p;
	struct brig_error err = { 0 };
	struct buf b = { 0 };
	char **v = NULL;

	assert_int_equal(plan_build(&p, s, &err), 0);
	int r = bwrap_args(&b, fds, &p, f, &err);
	assert_int_equal(r < 0 ? -1 : 0, want);
	if (r < 0)
		assert_true(err.code != BRIG_E_OK && err.fix[0]);
	for (size_t at = 0; r == 0 && at < b.len; at += strlen(b.data + at) + 1)
		strv_add(&v, b.data + at);
	buf_free(&b);
	plan_free(&p);
	spec_free(s);
	return v;
}

static int find(char **v, const char *a, const char *b)
{
	for (int i = 0; v[i]; i++)
		if (streq(v[i], a) && (!b || (v[i + 1] && streq(v[i + 1], b))))
			return i;
	return -1;
}

static const struct bwrap_features all = { true, true, true, true, true, true }, none;

static void test_flags(void **state)
{
	static const char *const must[] = { "--unshare-user", "--unshare-pid", "--unshare-net",
					    "--unshare-ipc", "--unshare-uts", "--unshare-cgroup",
					    "--die-with-parent", "--new-session", "--as-pid-1",
					    "--disable-userns" };
	struct bwrap_fds fds = { 0 };
	char **v = args(NULL, &all, &fds, 0);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(must); i++)
		assert_true(find(v, must[i], NULL) >= 0);
	assert_true(find(v, "--cap-drop", "ALL") >= 0);
	/* a filter of bubblewrap's loading would answer before the gate's, which tells */
	assert_int_equal(find(v, "--seccomp", NULL), -1);
	/* never what skips in silence */
	for (int i = 0; v[i]; i++)
		assert_null(strncmp(v[i], "--", 2) == 0 ? strstr(v[i], "-try") : NULL);
	/* the root of it is closed last */
	int last = find(v, "--remount-ro", "/");
	assert_true(last > find(v, "--tmpfs", "/tmp") && last > find(v, "--bind-fd", NULL));
	/* every descriptor that is named is kept open */
	for (int i = 0; v[i]; i++)
		if (streq(v[i], "--bind-fd") || streq(v[i], "--file")) {
			bool known = false;
			for (size_t k = 0; k < fds.n; k++)
				known = known || fds.v[k] == atoi(v[i + 1]);
			assert_true(known);
		}
	strv_free(v);
	bwrap_fds_free(&fds);
	/* where the gate makes one to lock the mounts, it is not switched off before */
	static const char *const mask[] = { "mask", "/usr/share", NULL };
	fds = (struct bwrap_fds){ 0 };
	v = args(mask, &all, &fds, 0);
	assert_int_equal(find(v, "--disable-userns", NULL), -1);
	strv_free(v);
	bwrap_fds_free(&fds);
}

static void test_old_version(void **state)
{
	static const char *const size[] = { "tmp-size", "64M", NULL };
	struct bwrap_fds fds = { 0 };
	char **v = args(NULL, &none, &fds, 0);

	(void)state;
	static const char *const newer[] = { "--perms", "--size", "--bind-fd", "--ro-bind-fd",
					     "--disable-userns", "--add-seccomp-fd" };
	for (size_t i = 0; i < ARRAY_LEN(newer); i++)
		assert_int_equal(find(v, newer[i], NULL), -1);
	/* by descriptor all the same */
	bool found = false;
	for (int i = 0; v[i]; i++)
		found = found || (streq(v[i], "--bind") &&
				  strncmp(v[i + 1], "/proc/self/fd/", 14) == 0);
	assert_true(found);
	strv_free(v);
	bwrap_fds_free(&fds);
	/* what it cannot do is refused, not forgotten */
	assert_null(args(size, &none, &fds, -1));
	bwrap_fds_free(&fds);
}

static void test_words_stay_words(void **state)
{
	static const char *const env[] = { "env", "X=--bind\n/ /", "env", "Y=a=b", NULL };
	struct bwrap_fds fds = { 0 };
	char **v = args(env, &all, &fds, 0);
	int x = find(v, "--setenv", "X");

	(void)state;
	assert_true(x >= 0);
	assert_string_equal(v[x + 2], "--bind\n/ /");
	assert_string_equal(v[find(v, "--setenv", "Y") + 2], "a=b");
	strv_free(v);
	bwrap_fds_free(&fds);
}

static void test_sizes(void **state)
{
	struct bwrap_fds fds = { 0 };
	char **v = args(NULL, &all, &fds, 0);
	uint64_t sum = 0;

	(void)state;
	for (int i = 0; v[i]; i++)
		if (streq(v[i], "--size"))
			sum += strtoull(v[i + 1], NULL, 10);
	assert_true(sum > 0 && sum <= 256ull << 20);
	strv_free(v);
	bwrap_fds_free(&fds);
}

static void test_features(void **state)
{
	struct bwrap_features f;
	static const char help[] = "--perms OCTAL\n--ro-bind-fd FD DEST\n";

	(void)state;
	bwrap_features_find(&f, help, sizeof help);
	assert_true(f.perms && f.bind_fd && !f.size && !f.disable_userns && !f.add_seccomp_fd);
}

/* The smallest machine for classic filters that these need. */
static uint32_t run_filter(const struct sock_filter *v, unsigned n,
			   const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (unsigned pc = 0; pc < n; pc++) {
		const struct sock_filter *i = &v[pc];
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)d + i->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += a & i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail();
		}
	}
	fail();
	return 0;
}

static uint32_t verdict_of(int abi, enum net_mode net, int nr, const uint64_t a[4])
{
	struct sock_filter v[LANDLOCK_FILTER_MAX];
	unsigned short n = landlock_filter(v, abi, net);
	struct seccomp_data d = { .nr = nr, .args = { a[0], a[1], a[2], a[3] } };

#if defined(__x86_64__)
	d.arch = AUDIT_ARCH_X86_64;
#else
	d.arch = AUDIT_ARCH_AARCH64;
#endif
	assert_true(n > 0 && n <= LANDLOCK_FILTER_MAX);
	return run_filter(v, n, &d);
}

static uint32_t verdict(int abi, bool net, int nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	return verdict_of(abi, net ? NET_HOST : NET_NONE, nr, (uint64_t[]){ a0, a1, a2, 0 });
}

static uint32_t proxied(int nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	return verdict_of(7, NET_ALLOW, nr, (uint64_t[]){ a0, a1, a2, a3 });
}

/* With an allow-list: TCP of IPv4, and somebody else makes the connections. */
static void test_filter_allow(void **state)
{
	const uint32_t ok = SECCOMP_RET_ALLOW;
	const uint64_t fastopen = 0x20000000;

	(void)state;
	for (unsigned f = 0; f < 50; f++)
		for (unsigned type = 0; type < 12; type++) {
			bool tcp = f == AF_INET && type == SOCK_STREAM;
			assert_int_equal(proxied(SYS_socket, f, type | SOCK_CLOEXEC, 0, 0) == ok, tcp);
			assert_int_equal(proxied(SYS_socket, f, type, IPPROTO_TCP, 0) == ok, tcp);
			assert_true(proxied(SYS_socket, f, type, 262 /* MPTCP */, 0) != ok);
		}
	assert_int_equal(proxied(SYS_connect, 3, 0, 16, 0), SECCOMP_RET_USER_NOTIF);
	assert_true(proxied(SYS_listen, 3, 1, 0, 0) != ok);
	assert_true(proxied(SYS_io_uring_setup, 1, 0, 0, 0) != ok);
	assert_int_equal(proxied(SYS_sendto, 3, 0, 1, MSG_NOSIGNAL), ok);
	assert_true(proxied(SYS_sendto, 3, 0, 1, fastopen | MSG_NOSIGNAL) != ok);
	assert_int_equal(proxied(SYS_sendmsg, 3, 0, MSG_NOSIGNAL, 0), ok);
	assert_true(proxied(SYS_sendmsg, 3, 0, fastopen, 0) != ok);
	assert_true(proxied(SYS_sendmmsg, 3, 0, 1, fastopen) != ok);
	assert_int_equal(proxied(SYS_read, 0, 0, 0, 0), ok);
	assert_true(proxied(SYS_shmget, 1, 1, 0, 0) != ok);
	/* and never otherwise */
	assert_int_equal(verdict(7, false, SYS_connect, 3, 0, 16), ok);
	assert_int_equal(verdict(7, true, SYS_connect, 3, 0, 16), ok);
}

static void test_filter(void **state)
{
	const uint32_t family = SECCOMP_RET_ERRNO | EAFNOSUPPORT, ok = SECCOMP_RET_ALLOW;

	(void)state;
	for (int f = 0; f < 50; f++) {
		assert_int_equal(verdict(7, false, SYS_socket, (uint64_t)f, 1, 0), family);
		bool inet = f == AF_INET || f == AF_INET6 || f == AF_NETLINK;
		assert_int_equal(verdict(7, true, SYS_socket, (uint64_t)f, 1, 0), inet ? ok : family);
	}
	/* the kernel looks at the low half only */
	assert_int_equal(verdict(7, true, SYS_socket, 0x100000001ull, 1, 0), family);
	assert_int_equal(verdict(7, false, SYS_socketpair, 1, SOCK_STREAM | SOCK_CLOEXEC, 0), ok);
	assert_int_equal(verdict(7, false, SYS_socketpair, 1, SOCK_SEQPACKET, 0), ok);
	assert_true(verdict(7, false, SYS_socketpair, 1, SOCK_DGRAM | SOCK_NONBLOCK, 0) != ok);
	assert_true(verdict(7, false, SYS_socketpair, 1, SOCK_RAW, 0) != ok);
	assert_true(verdict(7, false, SYS_shmget, 1, 1, 0) != ok);
	assert_true(verdict(7, false, SYS_mq_open, 1, 1, 0) != ok);
	assert_int_equal(verdict(7, false, SYS_prlimit64, 0, 1, 0), ok);
	assert_true(verdict(7, false, SYS_prlimit64, 77, 1, 0) != ok);
	/* refused by the filter that tells, which this one must not anticipate */
	assert_int_equal(verdict(7, false, SYS_prlimit64, 1, 1, 0), ok);
	assert_int_equal(verdict(7, false, SYS_truncate, 0, 0, 0), ok);
	assert_true(verdict(2, false, SYS_truncate, 0, 0, 0) != ok);
	assert_true(verdict(2, false, SYS_openat, 0, 0, O_TRUNC | O_RDONLY) != ok);
	assert_int_equal(verdict(2, false, SYS_openat, 0, 0, O_TRUNC | O_WRONLY), ok);
	assert_int_equal(verdict(2, false, SYS_openat, 0, 0, O_RDONLY), ok);
	assert_int_equal(verdict(7, false, SYS_read, 0, 0, 0), ok);
#if defined(__x86_64__)
	assert_true(verdict(7, false, 0x40000000 | SYS_socket, 1, 1, 0) != ok);
#endif
}

/* Joined: refused by the first as it refuses, else as the second says. */
static void test_joined_filters(void **state)
{
	static const struct sock_filter says[] = {
		{ BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) },
		{ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_mount },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF },
		{ BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
	};
	const struct seccomp_prog second = { .insns = says, .len = ARRAY_LEN(says) };
	static struct sock_filter v[LANDLOCK_JOINED_MAX];

	(void)state;
	for (int abi = 1; abi < 8; abi++)
		for (enum net_mode mode = NET_NONE; mode <= NET_HOST; mode++) {
			struct sock_filter own[LANDLOCK_FILTER_MAX];
			unsigned short n = landlock_filter(own, abi, mode);
			unsigned short both = landlock_filter_join(v, own, n, &second);
			assert_int_equal(both, n + 4);
			for (int nr = 0; nr < 460; nr++)
				for (uint64_t arg = 0; arg < 4; arg++) {
					struct seccomp_data d = { .nr = nr, .args = { arg, arg, arg } };
#if defined(__x86_64__)
					d.arch = AUDIT_ARCH_X86_64;
#else
					d.arch = AUDIT_ARCH_AARCH64;
#endif
					uint32_t one = run_filter(own, n, &d);
					if (one == SECCOMP_RET_ALLOW)
						one = run_filter(says, ARRAY_LEN(says), &d);
					assert_int_equal(run_filter(v, both, &d), one);
				}
		}
	const struct seccomp_prog huge = { .insns = says, .len = 2000 };
	assert_int_equal(landlock_filter_join(v, says, 4, &huge), 0);
}

/* The filter compiled ahead for a run without network says of every call, in every
 * architecture, what the two in a row say that it stands for. */
static void test_compiled_ahead_says_the_same(void **state)
{
	static const uint64_t values[] = { 0, 1, 2, 3, 5, 10, 16, 0x40, 0x540a, 0x5412, 06000, 0x8000,
					   0x20000000, 0x7e020000, 0x400040, 0xffffffff,
					   0x100000000, 0x100000001 };
	enum { N = ARRAY_LEN(values) };
	static const uint32_t arches[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_I386 };
	static struct sock_filter v[LANDLOCK_JOINED_MAX];
	const struct seccomp_prog *ahead = seccomp_hostns();
	struct sock_filter own[LANDLOCK_FILTER_MAX];
	unsigned differ = 0, refused = 0;

	(void)state;
	unsigned short n = landlock_filter(own, 3, NET_NONE);
	unsigned short both = landlock_filter_join(v, own, n, seccomp_default(true));
	assert_true(both > 0 && ahead->notify);
	for (int64_t nr = -2; nr < 1100; nr++)
		for (size_t i = 0; i < N * N * N * ARRAY_LEN(arches); i++) {
			size_t k = i / ARRAY_LEN(arches);
			struct seccomp_data d = {
				.nr = (int)(nr < 600 ? nr : 0x40000000 + nr - 600),
				.arch = arches[i % ARRAY_LEN(arches)],
				.args = { values[k % N], values[k / N % N], values[k / N / N],
					  values[k % N] },
			};
			uint32_t want = run_filter(v, both, &d);
			differ += run_filter(ahead->insns, ahead->len, &d) != want;
			refused += want == (SECCOMP_RET_ERRNO | EAFNOSUPPORT);
		}
	assert_int_equal(differ, 0);
	assert_true(refused > 0); /* sockets */
	/* from this version on nothing is refused that an older one needs refused */
	for (int abi = 3; abi < 12; abi++) {
		struct sock_filter other[LANDLOCK_FILTER_MAX];
		assert_int_equal(landlock_filter(other, abi, NET_NONE), n);
		assert_memory_equal(other, own, n * sizeof *own);
	}
}

/* brig connects the command's own socket: what the command may have set on it. */
static void test_options_of_proxied_sockets(void **state)
{
	static const struct {
		int level, name;
		bool ok;
	} opts[] = {
		{ 1, 2, true },   { 1, 9, true },   { 1, 20, true },  { 1, 25, false },
		{ 1, 62, false }, { 6, 1, true },   { 6, 5, true },   { 6, 13, true },
		{ 6, 23, false }, { 6, 30, false }, { 6, 31, false }, { 6, 34, false },
		{ 0, 1, true },   { 0, 2, true },   { 0, 10, true },  { 0, 24, true },
		{ 0, 4, false },  { 0, 50, false }, { 0, 19, false }, { 41, 26, false },
	};
	struct sock_filter own[LANDLOCK_FILTER_MAX];
	struct seccomp_data d = { .nr = SYS_setsockopt };

	(void)state;
#if defined(__x86_64__)
	d.arch = AUDIT_ARCH_X86_64;
#else
	d.arch = AUDIT_ARCH_AARCH64;
#endif
	for (int abi = 4; abi < 8; abi++) {
		unsigned short n = landlock_filter(own, abi, NET_ALLOW);
		d.nr = SYS_setsockopt;
		for (size_t i = 0; i < ARRAY_LEN(opts); i++) {
			d.args[1] = (unsigned)opts[i].level;
			d.args[2] = (unsigned)opts[i].name;
			assert_int_equal(run_filter(own, n, &d),
					 opts[i].ok ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM);
		}
		/* nobody is asked in brig's place */
		d.nr = SYS_seccomp;
		d.args[1] = SECCOMP_FILTER_FLAG_NEW_LISTENER | 1;
		assert_int_equal(run_filter(own, n, &d), SECCOMP_RET_ERRNO | EBUSY);
		d.args[1] = 1;
		assert_int_equal(run_filter(own, n, &d), SECCOMP_RET_ALLOW);
	}
}

static void test_none_is_no_fallback(void **state)
{
	static const char *const no[] = { "backend", "seatbelt", NULL };
	struct spec *s = resolve(no);
	struct brig_result *res = result_new("x");

	(void)state;
	s->fallback[s->n_fallback++] = BACKEND_NONE;
	backend_run(s, res);
	assert_false(res->ran);
	assert_int_equal(res->error.code, BRIG_E_BAD_VALUE);
	assert_string_equal(res->backend, "seatbelt");
	brig_result_free(res);
	spec_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flags),	       cmocka_unit_test(test_old_version),
		cmocka_unit_test(test_words_stay_words), cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_features),       cmocka_unit_test(test_filter),
		cmocka_unit_test(test_filter_allow),
		cmocka_unit_test(test_joined_filters),
		cmocka_unit_test(test_compiled_ahead_says_the_same),
		cmocka_unit_test(test_options_of_proxied_sockets),
		cmocka_unit_test(test_none_is_no_fallback),
	};

	if (!mkdtemp(dir))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return r;
}
