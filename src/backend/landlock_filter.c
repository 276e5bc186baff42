/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/landlock_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "brig knows x86_64 and aarch64"
#endif

struct prog {
	struct sock_filter *v;
	unsigned short n;
};

static void put(struct prog *p, unsigned short code, unsigned char jt, unsigned char jf,
		unsigned k)
{
	p->v[p->n++] = (struct sock_filter){ code, jt, jf, k };
}

#define LOAD(p, field) \
	put(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offsetof(struct seccomp_data, field))
/* the low half of an argument: the kernel takes these as int */
#define LOAD_ARG(p, i) \
	put(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, \
	    (unsigned)offsetof(struct seccomp_data, args) + 8u * (i))
#define ALLOW(p) put(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW)
#define REFUSE(p, e) put(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (e))

/* if nr is the call, the next `body` instructions, which end in a verdict */
static void on_call(struct prog *p, long nr, unsigned char body)
{
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, body, (unsigned)nr);
}

static void refuse_call(struct prog *p, long nr, unsigned e)
{
	on_call(p, nr, 1);
	REFUSE(p, e);
}

/* Objects of the host's IPC namespace: shared with everybody, and they would
 * outlive the run. */
static const short ipc_calls[] = {
	SYS_shmget, SYS_shmat, SYS_shmctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv,
	SYS_msgctl, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl, SYS_mq_open,
	SYS_mq_unlink,
};

/* sends whose flags, the argument of this number, are a connect() by another name */
static void no_fastopen(struct prog *p, long nr, unsigned arg)
{
	on_call(p, nr, 5);
	LOAD_ARG(p, arg);
	put(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0x20000000 /* MSG_FASTOPEN */);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
	REFUSE(p, EPERM);
	ALLOW(p);
}

/*
 * The supervisor connects the command's own socket, so its options must not decide
 * where packets go (a device, a route) or send data with the first one (fast open):
 * what a TCP client has use for, and no more.
 */
static void plain_options(struct prog *p)
{
	enum { S = 10, T = 13, YES = 18, NO = 19, ALL = 20 };
#define TO(from, to) (unsigned char)((to) - (from) - 1)
#define IF(at, value, yes, no) \
	put(p, BPF_JMP | BPF_JEQ | BPF_K, TO(at, yes), TO(at, no), value)

	on_call(p, SYS_setsockopt, ALL);
	LOAD_ARG(p, 1);
	IF(1, SOL_SOCKET, S, 2);
	IF(2, IPPROTO_TCP, T, 3);
	IF(3, IPPROTO_IP, 4, NO);
	LOAD_ARG(p, 2);
	IF(5, 1 /* IP_TOS */, YES, 6);
	IF(6, 2 /* IP_TTL */, YES, 7);
	IF(7, 10 /* IP_MTU_DISCOVER */, YES, 8);
	IF(8, 11 /* IP_RECVERR */, YES, 9);
	IF(9, 24 /* IP_BIND_ADDRESS_NO_PORT */, YES, NO);
	LOAD_ARG(p, 2); /* S */
	IF(11, 25 /* SO_BINDTODEVICE */, NO, 12);
	IF(12, 62 /* SO_BINDTOIFINDEX */, NO, YES);
	LOAD_ARG(p, 2); /* T */
	IF(14, 23 /* TCP_FASTOPEN */, NO, 15);
	IF(15, 30 /* TCP_FASTOPEN_CONNECT */, NO, 16);
	IF(16, 31 /* TCP_ULP */, NO, 17);
	IF(17, 34 /* TCP_FASTOPEN_NO_COOKIE */, NO, YES);
	ALLOW(p);
	REFUSE(p, EPERM);
#undef IF
#undef TO
}

/* A second listener would be asked before brig's, should brig ever be gone, and
 * could say yes to every connect(). */
static void no_listener(struct prog *p)
{
	on_call(p, SYS_seccomp, 5);
	LOAD_ARG(p, 1);
	put(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
	REFUSE(p, EBUSY);
	ALLOW(p);
}

static void proxied_sockets(struct prog *p)
{
	on_call(p, SYS_socket, 10);
	LOAD_ARG(p, 0);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 7, AF_INET);
	LOAD_ARG(p, 1);
	put(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xf);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, SOCK_STREAM);
	LOAD_ARG(p, 2);
	/* not MPTCP, which Landlock's ports do not hold */
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, IPPROTO_TCP);
	ALLOW(p);
	REFUSE(p, EAFNOSUPPORT);
	on_call(p, SYS_connect, 1);
	put(p, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF);
	/* a socket that listens without bind() gets a port of its own, and is a way in */
	refuse_call(p, SYS_listen, EACCES);
	refuse_call(p, SYS_io_uring_setup, ENOSYS);
	plain_options(p);
	no_listener(p);
	no_fastopen(p, SYS_sendto, 3);
	no_fastopen(p, SYS_sendmsg, 2);
	no_fastopen(p, SYS_sendmmsg, 3);
}

static void sockets(struct prog *p, enum net_mode net)
{
	if (net == NET_ALLOW) {
		proxied_sockets(p);
	} else if (net == NET_HOST) {
		on_call(p, SYS_socket, 6);
		LOAD_ARG(p, 0);
		put(p, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, AF_INET);
		put(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AF_INET6);
		put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, AF_NETLINK);
		ALLOW(p);
		REFUSE(p, EAFNOSUPPORT);
	} else {
		refuse_call(p, SYS_socket, EAFNOSUPPORT);
	}
	/* A pair is private, unless it can be pointed elsewhere afterwards, as
	 * datagram sockets can (sendto with an address). */
	on_call(p, SYS_socketpair, 6);
	LOAD_ARG(p, 1);
	put(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xf);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SOCK_STREAM);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SOCK_SEQPACKET);
	ALLOW(p);
	REFUSE(p, EPROTONOSUPPORT);
}

/* Before its third version Landlock did not see truncation. */
static void truncation(struct prog *p)
{
	refuse_call(p, SYS_truncate, EACCES);
#ifdef SYS_open
	on_call(p, SYS_open, 5);
	LOAD_ARG(p, 1);
	put(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, O_TRUNC | O_ACCMODE);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, O_TRUNC | O_RDONLY);
	REFUSE(p, EACCES);
	ALLOW(p);
#endif
	on_call(p, SYS_openat, 5);
	LOAD_ARG(p, 2);
	put(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, O_TRUNC | O_ACCMODE);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, O_TRUNC | O_RDONLY);
	REFUSE(p, EACCES);
	ALLOW(p);
}

unsigned short landlock_filter(struct sock_filter insns[LANDLOCK_FILTER_MAX], int abi,
			       enum net_mode net)
{
	struct prog p = { insns, 0 };

	LOAD(&p, arch);
	put(&p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, NATIVE_ARCH);
	REFUSE(&p, ENOSYS);
	LOAD(&p, nr);
#if defined(__x86_64__)
	/* x32 has the same calls under other numbers */
	put(&p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000u);
	REFUSE(&p, ENOSYS);
#endif
	sockets(&p, net);
	for (size_t i = 0; i < sizeof ipc_calls / sizeof ipc_calls[0]; i++)
		refuse_call(&p, ipc_calls[i], ENOSYS);
	/* Limits of other processes of the same user, the supervisor's for one.
	 * Those of pid 1 are left to the default filter (and the floor), which
	 * refuses them as well and tells: an errno from here would go first. */
	on_call(&p, SYS_prlimit64, 5);
	LOAD_ARG(&p, 0);
	put(&p, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 0);
	put(&p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1);
	REFUSE(&p, EPERM);
	ALLOW(&p);
	if (abi < 3)
		truncation(&p);
	ALLOW(&p);
	return p.n;
}

unsigned short landlock_filter_join(struct sock_filter out[LANDLOCK_JOINED_MAX],
				    const struct sock_filter *first, unsigned short n,
				    const struct seccomp_prog *second)
{
	if (n > LANDLOCK_FILTER_MAX || second->len > LANDLOCK_JOINED_MAX - LANDLOCK_FILTER_MAX)
		return 0;
	for (unsigned short i = 0; i < n; i++) {
		bool allows = first[i].code == (BPF_RET | BPF_K) &&
			      first[i].k == SECCOMP_RET_ALLOW;
		/* the second begins by loading what it looks at */
		out[i] = allows ? (struct sock_filter){ BPF_JMP | BPF_JA, 0, 0, n - i - 1u } :
				  first[i];
	}
	memcpy(out + n, second->insns, second->len * sizeof *out);
	return (unsigned short)(n + second->len);
}
