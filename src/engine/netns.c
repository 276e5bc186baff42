/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network namespace.  Making one costs a third of a millisecond, all of it
 * in the kernel and none of it in the way of the mounts, so the job does it while
 * the builder works on the root tree; the builder joins later.  The two share
 * memory and descriptors meanwhile, but not errno: system calls are made bare.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/raw.h"
#include "engine/launch.h"

/* To talk about the namespace it is made in.  Of the cheapest family. */
static long make_socket(void)
{
	return SYS3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static long loopback_up(long sock)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	return SYS3(SYS_ioctl, sock, SIOCSIFFLAGS, &ifr);
}

int netns_loopback_up(void)
{
	long sock = make_socket();

	if (sock < 0)
		return (int)sock;
	long r = loopback_up(sock);
	SYS1(SYS_close, sock);
	return (int)r;
}

/* A socket of a new namespace, or -errno. */
static long make_namespace(const struct launch *l)
{
	long r = SYS1(SYS_unshare, CLONE_NEWNET);

	/* an allow-list is made of it, and handed over by the builder */
	if (r == 0 && l->allow) {
		r = netns_loopback_up();
		if (r == 0)
			r = netns_allow(l->allow);
	}
	return r < 0 ? r : make_socket();
}

void netns_make(struct launch *l)
{
	long r = 0, sock = make_namespace(l);

	/* In the builder's table too: it joins through this descriptor.  Cheaper than a
	 * look-up in /proc. */
	l->netns = (int)(sock < 0 ? sock : SYS3(SYS_ioctl, sock, SIOCGSKNS, 0));
	word_set(&l->netns_done);
	/* the builder joins meanwhile; the job is not released before it is done */
	if (l->netns >= 0 && l->spec->loopback && !l->allow)
		r = loopback_up(sock);
	if (r < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, (int)-r, "net",
			   "the loopback interface");
	if (sock >= 0)
		SYS1(SYS_close, sock);
}

void netns_join(struct launch *l, pid_t maker)
{
	if (!child_await(&l->netns_done, maker))
		child_fail(l, BRIG_E_NAMESPACE_DENIED, ECHILD, "net",
			   "the process that makes the network namespace died");
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
