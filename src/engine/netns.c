/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done in a network namespace when it is new, by the process that made it
 * (beside.c).  It shares memory with the builder, but not errno: system calls are made
 * bare.
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

long netns_begin(struct launch *l, const char **failed)
{
	long r = 0;

	*failed = "the network namespace";
	/* an allow-list is made of it, and handed over by the builder */
	if (l->allow) {
		r = netns_loopback_up();
		if (r == 0)
			r = netns_allow(l->allow);
		if (r < 0 && l->allow->failed)
			*failed = l->allow->failed;
	}
	return r < 0 ? r : make_socket();
}

void netns_finish(const struct launch *l, long sock)
{
	long r = l->spec->loopback && !l->allow ? loopback_up(sock) : 0;

	if (r < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, (int)-r, "net",
			   "the loopback interface");
	SYS1(SYS_close, sock);
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
