/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a sandbox with an allow-list.  Every address of two synthetic
 * ranges is local there, so that a connection to any of them arrives at one of
 * the sockets made here, in the namespace; the egress process, outside, answers
 * them and knows by the address which name was meant.  Nothing else is routed.
 */
#ifndef CONFINE_NETNS_ALLOW_H
#define CONFINE_NETNS_ALLOW_H

#include <stdbool.h>
#include <stdint.h>

#define ALLOW_DNS_ADDRESS "198.18.0.1" /* in the first range */
#define ALLOW_DNS_LOOPBACK "127.18.0.1" /* where no route can be made */

/* How the sandbox gets to the egress process. */
enum allow_form {
	ALLOW_ROUTED,   /* by local routes in a network namespace of its own */
	ALLOW_LOOPBACK, /* the same with addresses of 127.18.0.0/15, which need no route:
			   for a namespace in which nobody is allowed to make one */
	ALLOW_PROXY,    /* by the two proxies alone, on the host's loopback, with a
			   password: no namespace at all */
};

/* The proxies' ports, on the sandbox's loopback, when they are asked for. */
enum { ALLOW_CONNECT_PORT = 3128, ALLOW_SOCKS_PORT = 1080 };

enum {
	ALLOW_MAX_PORTS = 48,
	ALLOW_MAX_SOCKETS = ALLOW_MAX_PORTS + 8,
	ALLOW_MAX_NETS = 256,
};

enum allow_role {
	ALLOW_DNS_UDP,
	ALLOW_DNS_TCP,
	ALLOW_PORT,     /* a port below 1024, of every address */
	ALLOW_REDIRECT, /* what nftables sends here: all other ports */
	ALLOW_CONNECT,  /* an HTTP proxy, for programs that are told to use one */
	ALLOW_SOCKS,
};

struct allow_socket {
	enum allow_role role;
	uint16_t port; /* in the sandbox */
	int fd;
};

/* An address or a network of the list: called directly, it arrives here too. */
struct allow_range {
	uint8_t family; /* AF_INET or AF_INET6 */
	uint8_t bits;
	uint8_t addr[16];
};

struct allow_net {
	enum allow_form form;
	uint16_t ports[ALLOW_MAX_PORTS]; /* what the policy names, each once */
	unsigned n_ports;
	struct allow_range ranges[ALLOW_MAX_NETS];
	unsigned n_ranges;
	bool learn;   /* every address and every port arrives */
	bool proxies; /* ALLOW_CONNECT and ALLOW_SOCKS are made */
	struct allow_socket socket[ALLOW_MAX_SOCKETS];
	unsigned n;
	int diag;           /* asks the kernel about the namespace's sockets, -1: none */
	const char *failed; /* what could not be done, for the message */
};

/* In the new network namespace, with CAP_NET_ADMIN there, loopback up: routes
 * and sockets.  No allocation.  0 or -errno with ->failed set. */
int netns_allow(struct allow_net *a);

/* Brings up lo.  0 or -errno. */
int netns_loopback_up(void);

/* True when a listener for every port that is not below 1024 is needed; *all: for
 * those below, too. */
bool netns_allow_redirects(const struct allow_net *a, bool *all);

/* nft.c: TCP to what is not loopback goes to this local port: from port 1024 on, or
 * with `all` from 1 on, but for the resolver. */
int nft_redirect(uint16_t port, int v6, int all);

#endif
