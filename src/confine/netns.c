/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "confine/netns_allow.h"

int netns_loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	/* any socket talks about the namespace it is made in; this family is the cheapest */
	cleanup_close int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return sock < 0 || ioctl(sock, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}
