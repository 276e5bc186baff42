/* SPDX-License-Identifier: Apache-2.0 */
/* A network namespace with nothing in it.  Only TEST-NET addresses are used. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static int only_lo(int argc, char **argv)
{
	char line[512], name[32];
	FILE *f = fopen("/proc/net/dev", "re");
	int n = 0;

	(void)argc;
	(void)argv;
	if (!f)
		return unusable("/proc/net/dev: %s", why());
	while (fgets(line, sizeof line, f)) {
		if (!strchr(line, ':') || sscanf(line, " %31[^: ]", name) != 1)
			continue;
		n++;
		if (strcmp(name, "lo"))
			return escaped("interface %s", name);
	}
	fclose(f);
	return held("%d interface, lo", n);
}

static int no_route(int argc, char **argv)
{
	char line[256];
	FILE *f = fopen("/proc/net/route", "re");
	int n = -1; /* the heading */

	(void)argc;
	(void)argv;
	while (f && fgets(line, sizeof line, f))
		n++;
	if (f)
		fclose(f);
	return n > 0 ? escaped("%d routes", n) : held("no routes");
}

/* Connecting a datagram socket sends nothing but needs a route. */
static int reach(int family, int type, const char *address, int port)
{
	const struct timeval limit = { .tv_sec = 3 };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons((uint16_t)port) };
	int fd = socket(family, type, 0);

	if (fd < 0)
		return errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	inet_pton(family, address,
		  family == AF_INET ? (void *)&a4.sin_addr : (void *)&a6.sin6_addr);
	int r = family == AF_INET ? connect(fd, (struct sockaddr *)&a4, sizeof a4) :
				    connect(fd, (struct sockaddr *)&a6, sizeof a6);
	int e = r < 0 ? errno : 0;
	close(fd);
	return e;
}

static int unreachable(int argc, char **argv)
{
	static const struct {
		int family, type;
		const char *address;
		int port;
	} list[] = {
		{ AF_INET, SOCK_STREAM, "192.0.2.1", 443 },
		{ AF_INET, SOCK_DGRAM, "192.0.2.1", 53 },
		{ AF_INET, SOCK_STREAM, "198.51.100.1", 80 },
		{ AF_INET, SOCK_STREAM, "169.254.169.254", 80 },
		{ AF_INET, SOCK_STREAM, "10.0.0.1", 80 },
		{ AF_INET6, SOCK_STREAM, "2001:db8::1", 443 },
		{ AF_INET6, SOCK_DGRAM, "2001:db8::1", 53 },
		{ AF_INET6, SOCK_STREAM, "::ffff:192.0.2.1", 443 },
	};
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		errno = reach(list[i].family, list[i].type, list[i].address, list[i].port);
		if (errno != ENETUNREACH && errno != EADDRNOTAVAIL &&
		    errno != EAFNOSUPPORT && errno != EACCES && errno != EPERM)
			return escaped("%s port %d: %s", list[i].address, list[i].port,
				       errno ? why() : "there is a route");
	}
	return held("no address is reachable");
}

/* A service of the host's loopback, which a shared namespace would reach. */
static int host_port(int argc, char **argv)
{
	int port = (int)number(argc, argv, 0, 0);

	errno = reach(AF_INET, SOCK_STREAM, "127.0.0.1", port);
	if (!errno)
		return escaped("127.0.0.1:%d answers", port);
	return held("127.0.0.1:%d: %s", port, why());
}

static int loopback(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);

	(void)argc;
	(void)argv;
	if (l < 0 || c < 0 || bind(l, (struct sockaddr *)&a, len) < 0 ||
	    listen(l, 1) < 0 || getsockname(l, (struct sockaddr *)&a, &len) < 0 ||
	    connect(c, (struct sockaddr *)&a, len) < 0)
		return unusable("loopback, which should work: %s", why());
	return held("loopback works");
}

/* MSG_FASTOPEN connects inside sendto, past anything that watches connect. */
static int fastopen(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(443) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)argc;
	(void)argv;
	inet_pton(AF_INET, "192.0.2.1", &a.sin_addr);
	for (int high = 0; high < 2; high++) {
		long r = syscall(SYS_sendto, fd, "x", 1,
				 (unsigned long)MSG_FASTOPEN | (high ? 1UL << 32 : 0), &a,
				 sizeof a);
		if (r >= 0 || (errno != EPERM && errno != EOPNOTSUPP && errno != EINVAL))
			return escaped("MSG_FASTOPEN reached the kernel: %s",
				       r >= 0 ? "sent" : why());
	}
	return held("MSG_FASTOPEN refused");
}

const struct probe probes_net[] = {
	{ "only-lo", "", "the only interface is lo", ALWAYS, false, 0, only_lo },
	{ "no-route", "", "the routing table is empty", ALWAYS, false, 0, no_route },
	{ "unreachable", "", "TEST-NET, private and metadata addresses have no route", ALWAYS, true, 0, unreachable },
	{ "host-port", "PORT", "the host's loopback service is out of reach", BY_NAME, false, 1, host_port },
	{ "loopback", "", "the sandbox's own loopback works", BY_NAME, false, 0, loopback },
	{ "fastopen", "", "MSG_FASTOPEN refused", ALWAYS, true, 0, fastopen },
	{ 0 },
};
