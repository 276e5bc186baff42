/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/custodian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

/* Keeps the two descriptors it needs, closes all others: stdio too, or a pipe
 * behind the caller's output would stay open. */
static void close_others(int a, int b)
{
	unsigned lo = (unsigned)(a < b ? a : b), hi = (unsigned)(a < b ? b : a);

	if (lo > 0)
		sys_close_range(0, lo - 1, 0);
	if (hi > lo + 1)
		sys_close_range(lo + 1, hi - 1, 0);
	sys_close_range(hi + 1, ~0u, 0);
}

/* The pidfd the supervisor sent, or -1 when it died before. */
static int receive_pidfd(int sock)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = ctl.space,
			    .msg_controllen = sizeof ctl.space };
	int fd = -1;

	if (recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) > 0) {
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		if (c && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&fd, CMSG_DATA(c), sizeof fd);
	}
	return fd;
}

static void ignore_report(void *arg, const char *path, const char *moved_to)
{
	(void)arg, (void)path, (void)moved_to;
}

static int custodian_main(void *arg)
{
	struct custodian *c = arg;
	int sock = c->other, wsfd = c->wsfd;

	/* Out of the caller's process group: what kills the group must not kill
	 * the one that cleans up. */
	setsid();
	close_others(sock, wsfd);
	/* No events asked for: only the hang-up wakes us, not the message. */
	struct pollfd p = { .fd = sock };
	while (poll(&p, 1, -1) <= 0)
		;
	/* The supervisor is dead: this memory is ours alone now. */
	int pidfd = receive_pidfd(sock);
	if (pidfd >= 0) {
		struct pollfd gone = { .fd = pidfd, .events = POLLIN };
		if (poll(&gone, 1, 2000) <= 0) {
			/* init notices by itself; this is the second lock */
			sys_pidfd_send_signal(pidfd, SIGKILL, 0);
			poll(&gone, 1, 5000);
		}
	}
	if (c->protect)
		protect_sweep(c->protect, wsfd, ignore_report, NULL);
	cgroup_kill(c->cg);
	cgroup_remove(c->cg);
	_exit(0);
}

/* The set that holds the current processor alone. */
static bool only_here(cpu_set_t *set)
{
	int cpu = sched_getcpu();

	CPU_ZERO(set);
	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return false;
	CPU_SET((unsigned)cpu, set);
	return true;
}

int custodian_start(struct custodian *c, struct cgroup *cg,
		    const struct protect *protect, int wsfd)
{
	static char stack[256 * 1024] __attribute__((aligned(64)));
	int sv[2];

	*c = (struct custodian){ .pid = -1, .sock = -1, .other = -1, .cg = cg,
				 .protect = protect, .wsfd = wsfd };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	c->sock = sv[0];
	c->other = sv[1];
	/* Born on our processor and staying there: it must not push the child
	 * that builds the sandbox off the other one. */
	cpu_set_t all, here;
	bool pinned = sched_getaffinity(0, sizeof all, &all) == 0 && only_here(&here) &&
		      sched_setaffinity(0, sizeof here, &here) == 0;
	pid_t pid = clone(custodian_main, stack + sizeof stack, CLONE_VM | SIGCHLD, c);
	int e = errno;
	if (pinned)
		sched_setaffinity(0, sizeof all, &all);
	close(sv[1]);
	if (pid < 0) {
		fd_close(&c->sock);
		return -e;
	}
	c->pid = pid;
	return 0;
}

int custodian_watch(struct custodian *c, int init_pidfd)
{
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} ctl = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = ctl.space,
			    .msg_controllen = sizeof ctl.space };

	ctl.h.cmsg_level = SOL_SOCKET;
	ctl.h.cmsg_type = SCM_RIGHTS;
	ctl.h.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&ctl.h), &init_pidfd, sizeof init_pidfd);
	if (sendmsg(c->sock, &m, MSG_NOSIGNAL) < 0)
		return -errno;
	c->watching = true;
	return 0;
}

void custodian_dismiss(struct custodian *c)
{
	if (c->pid <= 0)
		return;
	/* Dying on this processor saves waking another one for it. */
	cpu_set_t here;
	if (only_here(&here))
		sched_setaffinity(c->pid, sizeof here, &here);
	/* killed before its socket closes, or it would start cleaning */
	if (kill(c->pid, SIGKILL) == 0)
		while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
			;
	/* otherwise this wakes it: it finds nothing to clean and ends */
	fd_close(&c->sock);
	c->pid = -1;
}
