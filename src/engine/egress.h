/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of the egress process: it keeps the sockets of the
 * sandbox's network until somebody inside uses one, starts the process then,
 * tells it the policy, and turns what it reports into denials.
 */
#ifndef ENGINE_EGRESS_H
#define ENGINE_EGRESS_H

#include <sys/types.h>

#include "confine/netns_allow.h"
#include "engine/result.h"
#include "base/spec.h"
#include "engine/who.h"

struct eg_msg;

/* The operator's proxy; port 0: none. */
struct egress_proxy {
	uint16_t port;
	char host[256];
	char auth[128];  /* "user:password" or "" */
	char **direct;   /* the items of NO_PROXY */
};

struct egress {
	const struct spec *spec;
	struct allow_net net; /* .socket[].fd are ours once adopted */
	int watch;            /* epoll of all of them; -1 once started */
	int sock;             /* to the process; -1 before and after */
	pid_t pid;            /* -1: not running */
	uint64_t lost;        /* events that could not be kept */
	char password[48];    /* ALLOW_PROXY: "name:password" of the proxies' clients */
	struct egress_proxy proxy;
	pid_t init;           /* pid 1 of the sandbox as seen here; 0: the processes
				 behind connections are not looked for */
	struct who who;
	struct eg_msg *opened; /* connections to find the process of */
	unsigned n_opened;
	unsigned live; /* connections that were opened, and whose end was not told yet */
};

/* Which ports and routes the sandbox needs.  -errno with err when an entry is no use. */
int egress_init(struct egress *e, const struct spec *s, struct brig_error *err);
/* The sockets that the form of e->net asks for, in the order in which they are
 * adopted: role, and port where the policy gives it.  How many. */
unsigned egress_expected(struct egress *e);
/* Takes over the sockets that came with WIRE_NET, in order.  -EPROTO when there
 * are not as many as there should be; on failure they stay the caller's. */
int egress_adopt(struct egress *e, const int *fds, size_t n);
/* ALLOW_PROXY: makes and adopts the proxies' listeners on this process's own loopback
 * interface, and a password that lives as long as the run.  Everybody on the machine
 * can reach them; only who knows the password is served.  0 or -errno. */
int egress_proxies(struct egress *e);
/* The port of a role's listener, 0 if there is none. */
uint16_t egress_port(const struct egress *e, enum allow_role role);
/* The descriptor to poll for reading, or -1. */
int egress_poll_fd(const struct egress *e);
/* It is readable: starts the process, or reads what it has to say.  -errno with
 * err: the sandbox has no network from now on. */
int egress_handle(struct egress *e, struct brig_result *res, struct brig_error *err);
/* A process that was forked off: closes its copies of everything, so that they are
 * the supervisor's alone. */
void egress_forget(struct egress *e);
/* Everybody inside is gone: last words, then the end of the process. */
void egress_end(struct egress *e, struct brig_result *res);

#endif
