/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done in a network namespace when it is new, by the process that made it
 * (beside.c).  It shares memory with the builder, but not errno: system calls are made
 * bare.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/raw.h"
#include "engine/launch.h"

int netns_loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	/* to talk about the namespace it is made in; of the cheapest family */
	long sock = SYS3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return (int)sock;
	long r = SYS3(SYS_ioctl, sock, SIOCSIFFLAGS, &ifr);
	SYS1(SYS_close, sock);
	return (int)r;
}

int netns_populate(struct launch *l, const char **failed)
{
	int r = netns_loopback_up();

	*failed = "the loopback interface";
	if (r < 0)
		return r;
	r = netns_allow(l->allow);
	*failed = l->allow->failed ? l->allow->failed : "the allow-list's sockets";
	return r;
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
