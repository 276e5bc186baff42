/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default policy for a process in the host's own namespaces, with no network: it
 * closes what those close elsewhere.  The same as backend/landlock_filter.c in front of
 * the default filter, which a unit test holds it to.  That one is a chain, which the kernel
 * follows for every call number when it is loaded; this is a part of the search tree.
 */
#include <errno.h>
#include <linux/seccomp.h>

#include "confine/seccomp_default.h"

#define QUIET(e) (SECCOMP_RET_ERRNO | (uint32_t)(e))
#define LOW(a, o, m, v) { .arg = (a), .op = (o), .low32 = true, .mask = (m), .value = (v) }
#define TYPE_IS_NOT(t) LOW(1, SECCOMP_OP_MASKED_NE, 0xF, t)

/* Objects of the host's IPC namespace: shared with everybody, and they would outlive the
 * run. */
static const char *const ipc_calls[] = {
	"shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop",
	"semtimedop", "semctl", "mq_open", "mq_unlink",
};

/* A pair is private, unless it can be pointed elsewhere afterwards, as datagram sockets can. */
static const struct seccomp_rule socketpair_rules[] = {
	{ .action = QUIET(EPROTONOSUPPORT), .nconds = 2,
	  .conds = { TYPE_IS_NOT(1 /* STREAM */), TYPE_IS_NOT(5 /* SEQPACKET */) } },
	{ .action = SECCOMP_RET_ALLOW, .nconds = 1,
	  .conds = { LOW(0, SECCOMP_OP_EQ, 0, 1 /* AF_UNIX */) } },
};

/* Limits of other processes of the same user, the supervisor's for one.  Those of pid 1 are
 * refused and told of, as everywhere. */
static const struct seccomp_rule prlimit_rules[] = {
	{ .action = SECCOMP_RET_ALLOW, .nconds = 1, .conds = { LOW(0, SECCOMP_OP_EQ, 0, 0) } },
	{ .action = SECCOMP_RET_USER_NOTIF, .nconds = 1,
	  .conds = { LOW(0, SECCOMP_OP_EQ, 0, 1) } },
};

static int change(struct seccomp_default_policy *out, enum seccomp_arch arch, const char *call,
		  struct seccomp_verdict verdict, const char **problem, const char **name)
{
	int nr = seccomp_table_number(arch, call);

	if (nr >= 0) {
		out->calls[nr] = verdict;
		return 0;
	}
	*problem = "is not a system call";
	*name = call;
	return -EINVAL;
}

int seccomp_hostns_build(enum seccomp_arch arch, struct seccomp_default_policy *out,
			 const char **problem, const char **name)
{
	const struct {
		const char *call;
		struct seccomp_verdict verdict;
	} others[] = {
		{ "socket", { NULL, 0, QUIET(EAFNOSUPPORT) } },
		{ "socketpair", { socketpair_rules, 2, QUIET(EAFNOSUPPORT) } },
		{ "prlimit64", { prlimit_rules, 2, QUIET(EPERM) } },
	};
	int r = seccomp_default_build(arch, true, out, problem, name);

	for (size_t i = 0; r == 0 && i < sizeof ipc_calls / sizeof ipc_calls[0]; i++)
		r = change(out, arch, ipc_calls[i],
			   (struct seccomp_verdict){ NULL, 0, QUIET(ENOSYS) }, problem, name);
	for (size_t i = 0; r == 0 && i < sizeof others / sizeof others[0]; i++)
		r = change(out, arch, others[i].call, others[i].verdict, problem, name);
	return r;
}
