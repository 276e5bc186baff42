/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network namespace.  Making one costs a third of a millisecond, all of it
 * in the kernel and none of it in the way of the mounts, so a second process
 * does it while the builder works on the root tree.  It shares the builder's
 * memory and descriptors and ends as soon as the namespace is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/launch.h"

static int loopback_up(void)
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

static int make(void *arg)
{
	struct launch *l = arg;

	if (unshare(CLONE_NEWNET) < 0) {
		l->netns_error = errno;
		return 1;
	}
	if (l->spec->loopback && (l->netns_error = -loopback_up()))
		return 1;
	/* the builder's table too: it joins through this descriptor */
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		l->netns_error = errno;
		return 1;
	}
	l->netns_fd = fd;
	return 0;
}

void netns_start(struct launch *l)
{
	static char stack[32 * 1024] __attribute__((aligned(64)));

	l->netns_fd = -1;
	l->netns_error = 0;
	l->netns_pid = clone(make, stack + sizeof stack,
			     CLONE_VM | CLONE_FILES | SIGCHLD, l);
	if (l->netns_pid < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, errno, "net",
			   "a process for the network namespace");
}

void netns_join(struct launch *l)
{
	int st;

	while (waitpid(l->netns_pid, &st, 0) < 0)
		if (errno != EINTR)
			child_fail(l, BRIG_E_NAMESPACE_DENIED, errno, "net",
				   "a network namespace");
	if (!WIFEXITED(st) || WEXITSTATUS(st) != 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED,
			   l->netns_error ? l->netns_error : ECHILD, "net",
			   "a network namespace");
	/* setns() of this kind needs CAP_SYS_ADMIN over the namespace: it was
	 * made in our user namespace, which is why we may and why no process
	 * of the host's can have been in it. */
	if (setns(l->netns_fd, CLONE_NEWNET) < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, errno, "net",
			   "joining the network namespace");
	close(l->netns_fd);
}
