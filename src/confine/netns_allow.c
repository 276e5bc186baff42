/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/netns_allow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "confine/netlink.h"

enum { LO = 1 }; /* the index of lo in a new namespace */

/* 198.18.0.0/15 is set aside for measuring networks and routed nowhere; the other
 * is a private prefix of our own. */
static const unsigned char range4[4] = { 198, 18, 0, 0 };
static const unsigned char range6[16] = { 0xfd, 0x62, 0x72, 0x69, 0x67, 0x20 };

static void route_local(struct nl *n, int family, const unsigned char *dst,
			unsigned char bits)
{
	const struct rtmsg rt = {
		.rtm_family = (unsigned char)family,
		.rtm_dst_len = bits,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
		.rtm_type = RTN_LOCAL,
	};
	const uint32_t oif = LO;

	/* no NLM_F_EXCL: a network may be written twice */
	nl_begin(n, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &rt, sizeof rt);
	if (bits)
		nl_attr(n, RTA_DST, dst, family == AF_INET ? 4 : 16);
	nl_attr(n, RTA_OIF, &oif, sizeof oif);
	/* A host's choice of congestion control is for the network.  BBR would pace
	 * what goes over lo by timers, which makes uploads three times slower. */
	nl_open(n, RTA_METRICS);
	nl_text(n, RTAX_CC_ALGO, "reno");
	nl_close(n);
	nl_end(n);
}

/* The two ranges of our own, in one request: a machine without IPv6 does without. */
static int route_own(bool *v6)
{
	struct nl n;
	int excuse;

	nl_init(&n);
	route_local(&n, AF_INET, range4, 15);
	route_local(&n, AF_INET6, range6, 64);
	int r = nl_talk_except(&n, NETLINK_ROUTE, 2, n.seq, &excuse);
	*v6 = r == 0 && excuse == 0;
	return r;
}

/* What the list names by address.  Learning, everything: what is called by its
 * address is refused then, but by us, who tell about it. */
static int route_listed(const struct allow_net *a, bool v6)
{
	static const unsigned char any[16];
	struct nl n;
	int asked = 0, r = 0;

	nl_init(&n);
	if (a->learn) {
		route_local(&n, AF_INET, any, 0);
		asked++;
		if (v6) {
			route_local(&n, AF_INET6, any, 0);
			asked++;
		}
	}
	for (unsigned i = 0; i < a->n_ranges && r == 0; i++) {
		if (n.len > sizeof n.data - 128) {
			r = nl_talk(&n, NETLINK_ROUTE, asked);
			nl_init(&n);
			asked = 0;
		}
		if (a->ranges[i].family == AF_INET6 && !v6)
			return -EAFNOSUPPORT;
		route_local(&n, a->ranges[i].family, a->ranges[i].addr, a->ranges[i].bits);
		asked++;
	}
	return r == 0 && asked ? nl_talk(&n, NETLINK_ROUTE, asked) : r;
}

static int keep(struct allow_net *a, enum allow_role role, uint16_t port, int fd)
{
	if (a->n == ALLOW_MAX_SOCKETS) {
		close(fd);
		return -E2BIG;
	}
	a->socket[a->n++] = (struct allow_socket){ role, port, fd };
	return 0;
}

/* Binds and listens; *port 0 takes any and tells which. */
static int open_socket(int type, const struct sockaddr *addr, socklen_t len,
		       uint16_t *port)
{
	const int on = 1, off = 0;
	cleanup_close int fd = socket(addr->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	/* two datagram sockets with it could share the resolver's address */
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (addr->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (bind(fd, addr, len) < 0 || (type == SOCK_STREAM && listen(fd, 256) < 0))
		return -errno;
	if (*port == 0) {
		struct sockaddr_in6 got = { 0 };
		socklen_t n = sizeof got;
		if (getsockname(fd, (struct sockaddr *)&got, &n) < 0)
			return -errno;
		*port = ntohs(got.sin6_port); /* at the same place in both families */
	}
	return take_fd(&fd);
}

/* At an IPv4 address; NULL is every address, of both families if there are two. */
static int listen_at(struct allow_net *a, enum allow_role role, int type,
		     const char *address, uint16_t port, bool v6)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port),
				    .sin6_addr = IN6ADDR_ANY_INIT };
	int fd;

	if (address && inet_pton(AF_INET, address, &in.sin_addr) != 1)
		return -EINVAL;
	if (!address && v6)
		fd = open_socket(type, (struct sockaddr *)&in6, sizeof in6, &port);
	else
		fd = open_socket(type, (struct sockaddr *)&in, sizeof in, &port);
	return fd < 0 ? fd : keep(a, role, port, fd);
}

static int make_redirect(struct allow_net *a, bool v6, bool all)
{
	a->failed = "a listener for redirected ports";
	int r = listen_at(a, ALLOW_REDIRECT, SOCK_STREAM, NULL, 0, v6);
	if (r < 0)
		return r;
	uint16_t port = a->socket[a->n - 1].port;
	a->failed = all ? "nftables, which port 53 and learning need" :
			  "nftables, which ports from 1024 need";
	return nft_redirect(port, v6, all);
}

bool netns_allow_redirects(const struct allow_net *a, bool *all)
{
	bool high = a->learn;

	*all = a->learn;
	for (unsigned i = 0; i < a->n_ports; i++) {
		high = high || a->ports[i] >= 1024 || a->ports[i] == 53;
		*all = *all || a->ports[i] == 53; /* 53/tcp is taken, at one address */
	}
	return high;
}

static int make_listeners(struct allow_net *a, bool v6)
{
	bool all, redirect = netns_allow_redirects(a, &all);
	int r = 0;

	a->failed = "a listener for a port of the allow-list";
	for (unsigned i = 0; i < a->n_ports && r == 0 && !all; i++)
		if (a->ports[i] < 1024)
			r = listen_at(a, ALLOW_PORT, SOCK_STREAM, NULL, a->ports[i], v6);
	if (r == 0 && redirect)
		r = make_redirect(a, v6, all);
	if (r < 0 || !a->proxies)
		return r;
	a->failed = "a proxy's listener";
	r = listen_at(a, ALLOW_CONNECT, SOCK_STREAM, "127.0.0.1", ALLOW_CONNECT_PORT, v6);
	if (r == 0)
		r = listen_at(a, ALLOW_SOCKS, SOCK_STREAM, "127.0.0.1", ALLOW_SOCKS_PORT, v6);
	return r;
}

int netns_allow(struct allow_net *a)
{
	bool v6 = false;

	a->failed = "a local route for the allow-list";
	int r = route_own(&v6);
	if (r == 0) {
		a->failed = "a local route for an address of the allow-list";
		r = route_listed(a, v6);
	}
	if (r == 0) {
		a->failed = "a resolver's socket";
		r = listen_at(a, ALLOW_DNS_UDP, SOCK_DGRAM, ALLOW_DNS_ADDRESS, 53, v6);
	}
	if (r == 0)
		r = listen_at(a, ALLOW_DNS_TCP, SOCK_STREAM, ALLOW_DNS_ADDRESS, 53, v6);
	if (r == 0)
		r = make_listeners(a, v6);
	/* Made here, it speaks of this namespace wherever it is used.  Without it the
	 * audit log does not say which process it was. */
	a->diag = r < 0 ? -1 : socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	return r;
}
