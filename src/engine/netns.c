/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network namespace.  Making one costs a third of a millisecond, all of it
 * in the kernel and none of it in the way of the mounts, so a second process
 * does it while the builder works on the root tree.  It shares the builder's
 * memory and descriptors and ends as soon as the namespace is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/launch.h"

int netns_loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	int r = ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
	close(fd);
	return r;
}

/* The namespace as a descriptor, or -errno. */
static int make_namespace(const struct launch *l)
{
	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	if (l->spec->loopback) {
		int r = netns_loopback_up();
		if (r == 0 && l->allow)
			r = netns_allow(l->allow);
		if (r < 0)
			return r;
	}
	/* in the builder's table too: it joins through this descriptor */
	int fd = openat(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int maker(void *arg)
{
	struct launch *l = arg;

	l->netns = make_namespace(l);
	/* Said before we end: ending takes longer than the builder should wait.
	 * It is reaped by init, whose child it becomes with the builder's exec. */
	__atomic_store_n(&l->netns_done, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &l->netns_done, FUTEX_WAKE, 1, NULL, NULL, 0);
	return 0;
}

void netns_start(struct launch *l)
{
	static char stack[32 * 1024] __attribute__((aligned(64)));

	l->netns_done = 0;
	pid_t pid = clone(maker, stack + sizeof stack,
			  CLONE_VM | CLONE_FILES | SIGCHLD, l);
	if (pid < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, errno, "net",
			   "a process for the network namespace");
	l->netns_pid = pid;
}

void netns_join(struct launch *l)
{
	const struct timespec look = { .tv_nsec = 50000000 };
	int st;

	while (!__atomic_load_n(&l->netns_done, __ATOMIC_ACQUIRE)) {
		syscall(SYS_futex, &l->netns_done, FUTEX_WAIT, 0, &look, NULL, 0);
		/* now and then: it may have died without a word */
		if (!__atomic_load_n(&l->netns_done, __ATOMIC_ACQUIRE) &&
		    waitpid(l->netns_pid, &st, WNOHANG) != 0)
			child_fail(l, BRIG_E_NAMESPACE_DENIED, ECHILD, "net",
				   "the process that makes the network namespace died");
	}
	if (l->netns < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, -l->netns, "net",
			   l->allow && l->allow->failed ? l->allow->failed :
							  "a network namespace");
	/* setns() of this kind needs CAP_SYS_ADMIN over the namespace: it was
	 * made in our user namespace, which is why we may and why no process
	 * of the host's can have been in it. */
	if (setns(l->netns, CLONE_NEWNET) < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, errno, "net",
			   "joining the network namespace");
	close(l->netns);
}

void netns_hand_over(const struct launch *l)
{
	const struct allow_net *a = l->allow;
	const struct wire w = { .type = WIRE_NET };
	int fds[ALLOW_MAX_SOCKETS + 1];
	unsigned n = a->n;

	for (unsigned i = 0; i < a->n; i++)
		fds[i] = a->socket[i].fd;
	if (a->diag >= 0)
		fds[n++] = a->diag;
	int e = wire_send(l->ctl_child, &w, fds, n);
	if (e < 0)
		child_fail(l, BRIG_E_SETUP_FAILED, -e, "net",
			   "handing over the allow-list's sockets");
	/* a listener that stayed open here could be accepted from inside */
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
}
