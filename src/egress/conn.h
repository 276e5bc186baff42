/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection out of the sandbox, from accept to its audit line.
 *
 *   accept.c   who is called: the synthetic address, or what a proxy client asks
 *   check.c    what is said: the first bytes, and later ones where that is possible
 *   relay.c    the states and what may happen in each
 *   pump.c     the bytes
 */
#ifndef EGRESS_CONN_H
#define EGRESS_CONN_H

#include "egress/addr.h"
#include "egress/audit.h"
#include "egress/http.h"
#include "egress/loop.h"
#include "egress/names.h"
#include "egress/tls.h"
#include "egress/upstream.h"
#include "egress/wire.h"

enum {
	CONN_BUF = 20 * 1024,     /* bytes not yet looked at: a ClientHello, a head */
	PUMP_CHUNK = 128 * 1024,  /* copied at once */
	PUMP_BULK = 512 * 1024,   /* from here on a stream is spliced */
	PUMP_PIPE = 1 << 20,     /* what an ordinary user may have */
	PUMP_BUDGET = 4 << 20,    /* then the others have their turn */
};

/* Everything there is one of. */
struct egress {
	struct loop *loop;
	struct eg_config config;
	struct names *names;
	struct audit *audit;
	struct upstream *upstream;
	bool six; /* the sandbox has listeners for IPv6 */
	unsigned conns;
	uint64_t serial;
	/* new connections: tokens, in thousandths */
	int64_t tokens, tokens_at;
	struct listener *listeners;
	struct timer refill;
	bool full; /* the listeners are not watched until tokens come back */
};

/* A socket and what epoll last said of it. */
struct side {
	struct source src;
	bool in, out; /* may be read, may be written: true until it says EAGAIN */
	bool hup;     /* the other side has said its last */
};

/* One direction.  Bytes wait in buf[off … len), of which those before ok may go;
 * or, when it is spliced, in a pipe. */
struct flow {
	char *buf;
	unsigned off, ok, len, cap;
	int pipe[2];
	unsigned in_pipe;
	bool eof;    /* nothing more comes */
	bool closed; /* and the other side was told */
	uint64_t bytes;
};

enum { UP, DOWN };

enum conn_state {
	CONN_ASK,  /* a proxy client has not said where to */
	CONN_HEAD, /* nothing goes out before the first bytes are known */
	CONN_DIAL, /* connecting; the first bytes are known or may be anything */
	CONN_PASS, /* connected */
	CONN_OVER, /* told and buried */
	CONN_STATES
};

enum check {
	CHECK_FIRST, /* nothing decided yet */
	CHECK_HTTP,  /* request by request */
	CHECK_WAIT,  /* a websocket was asked for: until the server answers */
	CHECK_HELLO, /* a second ClientHello may come */
	CHECK_ONE,   /* one request, through the HTTP proxy, and no other */
	CHECK_NONE,  /* the rest is theirs */
};

struct conn {
	struct grave grave; /* first */
	struct egress *eg;
	enum conn_state state;
	enum check check;
	bool asked_twice; /* SOCKS: the greeting is done */
	bool listed;      /* the target is an address of the list: any SNI or Host */
	bool hurry;       /* a server may speak first: do not wait for the client */
	struct side client, up;
	struct flow flow[2];
	struct dial dial;
	struct timer timer;
	struct task task;
	struct http_body body;
	struct tls_follow follow;
	struct eaddr addr; /* when listed */
	int64_t began;
	struct eg_event ev; /* name and port are the target's */
};

/* accept.c ---------------------------------------------------------------- */

/* Watches a listening socket of a role.  Takes fd.  0 or -errno. */
int accept_listen(struct egress *eg, enum eg_role role, uint16_t port, int fd);
/* Bytes of a proxy client: once it has said where to, conn_aim() and an answer. */
void accept_ask(struct conn *c);
/* Tells a proxy client how it went; nothing for others. */
void accept_answer(struct conn *c, enum eg_reason why);

/* check.c ----------------------------------------------------------------- */

/* Looks at the bytes waiting in flow[UP] and moves `ok` on.  A reason to cut the
 * connection, or EG_R_NONE. */
enum eg_reason check_bytes(struct conn *c);
/* The server said something: CHECK_WAIT ends. */
enum eg_reason check_server(struct conn *c, const char *data, size_t len);
/* A port on which nothing but TLS and HTTP is let through. */
bool check_web_port(uint16_t port);

/* relay.c ----------------------------------------------------------------- */

/* A connection was accepted.  Takes fd. */
void conn_new(struct egress *eg, enum eg_via via, int fd, const struct eaddr *peer,
	      uint16_t peer_port, const struct eaddr *dst, uint16_t port);
/* Where it wants to: a name or an address of the list, after the policy. */
void conn_aim(struct conn *c, const char *name, const struct eaddr *addr, uint16_t port);
/* Ends it: the client is reset unless everything was sent. */
void conn_end(struct conn *c, enum eg_reason why, int errnum);

/* pump.c ------------------------------------------------------------------ */

/* Moves what can be moved, in both directions. */
void pump(struct conn *c);
/* Reads what the client sent into flow[UP].  False when the connection ended. */
bool pump_fill(struct conn *c);
void pump_free(struct flow *f);
/* Room in a flow's buffer for at least n more bytes; false when out of memory. */
bool pump_room(struct flow *f, unsigned n, unsigned cap);

#endif
