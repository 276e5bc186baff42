/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a sandbox with an allow-list.  Every address of two synthetic
 * ranges is local there, so that a connection to any of them arrives at one of
 * the sockets made here, in the namespace; the egress process, outside, answers
 * them and knows by the address which name was meant.  Nothing else is routed.
 */
#ifndef ENGINE_NETNS_ALLOW_H
#define ENGINE_NETNS_ALLOW_H

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

enum { ALLOW_MAX_PORTS = 48, ALLOW_MAX_SOCKETS = ALLOW_MAX_PORTS + 8 };

enum allow_role {
	ALLOW_DNS_UDP,
	ALLOW_DNS_TCP,
	ALLOW_PORT,     /* a port below 1024, of every address */
	ALLOW_REDIRECT, /* what nftables sends here: all other ports */
	ALLOW_CONNECT,  /* an HTTP proxy, for programs that insist on one */
	ALLOW_SOCKS,
};

struct allow_socket {
	enum allow_role role;
	uint16_t port; /* in the sandbox */
	int fd;
};

struct allow_net {
	enum allow_form form;
	uint16_t ports[ALLOW_MAX_PORTS]; /* what the policy names, each once */
	unsigned n_ports;
	struct allow_socket socket[ALLOW_MAX_SOCKETS];
	unsigned n;
	const char *failed; /* what could not be done, for the message */
};

/* In the new network namespace, with CAP_NET_ADMIN there, loopback up: routes
 * and sockets.  No allocation.  0 or -errno with ->failed set. */
int netns_allow(struct allow_net *a);

/* Brings up lo.  0 or -errno. */
int netns_loopback_up(void);

/* nft.c: TCP to the synthetic ranges, ports from 1024, goes to this local port. */
int nft_redirect(uint16_t port, int v6);

#endif
