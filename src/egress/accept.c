/* SPDX-License-Identifier: Apache-2.0 */
/* Who is called: listeners, the addresses meant, and clients of the proxies. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "egress/conn.h"
#include "egress/socks.h"

/* The kernel's headers with these names do not go together with the C library's. */
enum { ORIGINAL_DST = 80 };

enum { PAUSE_MS = 50 };

struct listener {
	struct source src;
	struct egress *eg;
	struct listener *next;
	enum eg_role role;
	uint16_t port;
};

static const struct {
	enum eg_via via;
	bool original; /* the kernel redirected it: ask where to */
} roles[EG_ROLE_COUNT] = {
	[EG_PORT] = { EG_VIA_DIRECT, false },
	[EG_REDIRECT] = { EG_VIA_DIRECT, true },
	[EG_CONNECT] = { EG_VIA_CONNECT, false },
	[EG_SOCKS] = { EG_VIA_SOCKS, false },
};

static void watch(struct egress *eg, bool on)
{
	eg->full = !on;
	for (struct listener *l = eg->listeners; l; l = l->next)
		loop_change(eg->loop, &l->src, on ? (uint32_t)EPOLLIN : 0);
}

static void refill_due(struct timer *t)
{
	watch((void *)((char *)t - offsetof(struct egress, refill)), true);
}

/* What waits in the listeners' queues waits a little longer. */
static void pause_all(struct egress *eg)
{
	if (eg->full)
		return;
	watch(eg, false);
	eg->refill.due = refill_due;
	loop_timer(eg->loop, &eg->refill, loop_now(eg->loop) + PAUSE_MS);
}

static bool may_take_one(struct egress *eg)
{
	int64_t now = loop_now(eg->loop), cap = (int64_t)eg->config.conns_per_s * 1000;

	eg->tokens += (now - eg->tokens_at) * eg->config.conns_per_s;
	eg->tokens_at = now;
	if (eg->tokens > cap)
		eg->tokens = cap;
	if (eg->tokens < 1000)
		return false;
	eg->tokens -= 1000;
	return true;
}

static bool destination(int fd, bool original, int family, struct eaddr *a, uint16_t *port)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof ss;
	int r;

	if (!original)
		r = getsockname(fd, (struct sockaddr *)&ss, &len);
	else if (family == AF_INET)
		r = getsockopt(fd, SOL_IP, ORIGINAL_DST, &ss, &len);
	else
		r = getsockopt(fd, SOL_IPV6, ORIGINAL_DST, &ss, &len);
	return r == 0 && addr_from_sock(&ss, a, port);
}

static void refuse(struct egress *eg, enum eg_via via, int fd, enum eg_reason why,
		   const struct eaddr *peer, uint16_t peer_port, uint16_t port)
{
	const struct linger rst = { .l_onoff = 1, .l_linger = 0 };
	struct eg_event ev = { .time_ms = audit_clock(), .reason = (uint8_t)why,
			       .via = (uint8_t)via, .port = port };

	audit_client(&ev, peer, peer_port);
	audit_refused(eg->audit, &ev);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &rst, sizeof rst);
	close(fd);
}

/* One at a time: a second accept() would mostly find nothing, and if there is more
 * the next round begins with it. */
static void listener_ready(struct source *s, uint32_t events)
{
	struct listener *l = (void *)s;
	struct egress *eg = l->eg;
	enum eg_via via = roles[l->role].via;
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof ss;
	struct eaddr peer = { 0 }, dst = { 0 };
	uint16_t peer_port = 0, port = 0;

	(void)events;
	if (eg->full)
		return;
	if (!may_take_one(eg)) {
		pause_all(eg);
		return;
	}
	int fd = accept4(s->fd, (struct sockaddr *)&ss, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		eg->tokens += 1000;
		/* out of descriptors or memory: the queue can wait */
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			pause_all(eg);
		return;
	}
	addr_from_sock(&ss, &peer, &peer_port);
	if (eg->conns >= eg->config.max_conns)
		refuse(eg, via, fd, EG_R_LIMIT, &peer, peer_port, l->port);
	else if (destination(fd, roles[l->role].original, peer.family, &dst, &port))
		conn_new(eg, via, fd, &peer, peer_port, &dst, port);
	else
		refuse(eg, via, fd, EG_R_ADDRESS, &peer, peer_port, l->port);
}

/*
 * What accepted sockets inherit.  They never leave the machine: a host's choice of
 * congestion control for the network (BBR) would measure lo and pace itself by
 * timers, at a third of the speed.  Every kernel has reno, and all may use it.
 */
static void set_options(int fd)
{
	static const char plain[] = "reno";
	const int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof plain - 1);
}

int accept_listen(struct egress *eg, enum eg_role role, uint16_t port, int fd)
{
	struct listener *l = calloc(1, sizeof *l);

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->src = (struct source){ .fd = fd, .early = true, .ready = listener_ready };
	l->eg = eg;
	l->role = role;
	l->port = port;
	l->next = eg->listeners;
	eg->listeners = l;
	set_options(fd);
	return loop_add(eg->loop, &l->src, EPOLLIN);
}

/* Answers of a few bytes, on a connection that has sent none: they fit. */
static void say(struct conn *c, const void *data, size_t len)
{
	if (send(c->client.src.fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		c->client.out = false;
}

static const struct {
	enum eg_reason why;
	const char *status;
	uint8_t socks;
} answers[] = {
	{ EG_R_RESOLVE, "502 Bad Gateway", SOCKS_HOST },
	{ EG_R_CONNECT, "502 Bad Gateway", SOCKS_CONN },
	{ EG_R_UPSTREAM_PROXY, "502 Bad Gateway", SOCKS_FAILED },
	{ EG_R_TIME, "504 Gateway Timeout", SOCKS_HOST },
	{ EG_R_PROXY_USE, "405 Method Not Allowed", SOCKS_COMMAND },
	{ EG_R_PROXY_BAD, "400 Bad Request", SOCKS_FAILED },
	{ EG_R_BAD_NAME, "400 Bad Request", SOCKS_NOT_ALLOWED },
	{ EG_R_HEAD_TIME, "408 Request Timeout", SOCKS_FAILED },
	{ EG_R_PROXY_AUTH, "407 Proxy Authentication Required\r\n"
			   "Proxy-Authenticate: Basic realm=\"brig\"", SOCKS_NOT_ALLOWED },
	{ EG_R_NONE, "403 Forbidden", SOCKS_NOT_ALLOWED }, /* all others */
};

void accept_answer(struct conn *c, enum eg_reason why)
{
	uint8_t reply[SOCKS_REPLY];
	char text[300];
	size_t i = 0;

	if (c->ev.via == EG_VIA_DIRECT)
		return;
	while (answers[i].why && answers[i].why != why)
		i++;
	if (c->ev.via == EG_VIA_SOCKS) {
		if (!c->asked_twice || !c->proven)
			return;
		socks_reply(reply, why ? answers[i].socks : SOCKS_DONE);
		say(c, reply, sizeof reply);
		return;
	}
	if (!why && c->check == CHECK_ONE)
		return; /* the server answers itself */
	const char *word = eg_reason_text(why);
	int n = why ? snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Type: text/plain\r\n"
			       "Connection: close\r\nContent-Length: %zu\r\n\r\nbrig: %s\n",
			       answers[i].status, strlen(word) + 7, word) :
		      snprintf(text, sizeof text, "HTTP/1.1 200 Connection established\r\n\r\n");
	say(c, text, (size_t)n);
}

/* The first n bytes were for us, not for the server. */
static void consume(struct flow *f, size_t n)
{
	f->off += (unsigned)n;
	pump_room(f, 0, CONN_BUF);
	f->ok = 0;
}

static void aim_at(struct conn *c, const struct http_place *p, uint16_t port)
{
	struct eaddr a;

	memcpy(c->ev.name, p->shown, sizeof c->ev.name);
	c->ev.port = port;
	if (!p->good)
		conn_end(c, EG_R_BAD_NAME, 0);
	else if (p->is_addr && addr_parse(p->name, &a))
		conn_aim(c, NULL, &a, port);
	else
		conn_aim(c, p->name, NULL, port);
}

/* Somebody who is not of the sandbox, or was not told. */
static void no_password(struct conn *c)
{
	snprintf(c->ev.name, sizeof c->ev.name, "(proxy)");
	conn_end(c, EG_R_PROXY_AUTH, 0);
}

static void ask_socks(struct conn *c)
{
	struct flow *f = &c->flow[UP];
	const char *auth = c->eg->config.client_auth;
	struct http_place place;
	enum socks_result r;
	uint8_t code = 0, hello[2] = { 5, 0 };
	size_t used = 0;

	if (!c->asked_twice) {
		r = socks_greeting((uint8_t *)f->buf, f->len, *auth, &used, &code);
		if (r == SOCKS_MORE)
			return;
		hello[1] = code;
		if (r != SOCKS_INVALID)
			say(c, hello, sizeof hello);
		if (r != SOCKS_OK) {
			if (r == SOCKS_REFUSE && *auth)
				no_password(c);
			else
				conn_end(c, EG_R_PROXY_BAD, 0);
			return;
		}
		c->asked_twice = true;
		c->proven = !*auth;
		consume(f, used);
	}
	if (!c->proven) {
		r = socks_password((uint8_t *)f->buf, f->len, auth, &used, &code);
		if (r == SOCKS_MORE)
			return;
		if (r != SOCKS_INVALID)
			say(c, (uint8_t[]){ 1, code }, 2);
		if (r != SOCKS_OK) {
			no_password(c);
			return;
		}
		c->proven = true;
		consume(f, used);
	}
	r = socks_request((uint8_t *)f->buf, f->len, &used, &place, &code);
	if (r == SOCKS_MORE)
		return;
	if (r == SOCKS_OK) {
		consume(f, used);
		aim_at(c, &place, place.port);
		return;
	}
	memcpy(c->ev.name, place.shown, sizeof c->ev.name);
	c->ev.port = place.port;
	conn_end(c, r == SOCKS_REFUSE ? EG_R_PROXY_USE : EG_R_PROXY_BAD, 0);
}

/* GET http://name/path: one request goes out, as the server expects it. */
static void ask_absolute(struct conn *c, const struct http_request *r)
{
	struct flow *f = &c->flow[UP];
	char head[HTTP_HEAD_MAX + 64];

	c->ev.port = r->target.port ? r->target.port : 80;
	memcpy(c->ev.name, r->target.shown, sizeof c->ev.name);
	if (r->https || !r->host.there || !r->host.good ||
	    !streq(r->host.name, r->target.name) || r->host.port != r->target.port) {
		memcpy(c->ev.sni, r->host.shown, sizeof c->ev.sni);
		conn_end(c, r->https ? EG_R_PROXY_USE : EG_R_HOST, 0);
		return;
	}
	size_t n = http_rewrite(f->buf, r, head, sizeof head);
	unsigned rest = f->len - (unsigned)r->len;
	if (!n || !pump_room(f, 128, CONN_BUF + 256)) {
		conn_end(c, EG_R_MEMORY, ENOMEM);
		return;
	}
	memmove(f->buf + n, f->buf + r->len, rest);
	memcpy(f->buf, head, n);
	f->len = (unsigned)n + rest;
	f->ok = (unsigned)n;
	c->check = CHECK_ONE;
	c->ev.reason = EG_R_HTTP;
	memcpy(c->ev.sni, r->host.shown, sizeof c->ev.sni);
	http_body_begin(&c->body, r);
	aim_at(c, &r->target, c->ev.port);
}

static void ask_http(struct conn *c)
{
	struct flow *f = &c->flow[UP];
	struct http_request r;

	switch (http_read_head(f->buf, f->len, &r)) {
	case HTTP_MORE:
		return;
	case HTTP_HEAD:
		break;
	default:
		conn_end(c, EG_R_PROXY_BAD, 0);
		return;
	}
	/* first of all: nobody else's process is told what is on the list */
	const char *basic = c->eg->client_basic;
	if (*basic && !socks_same(f->buf + r.auth_at, r.auth_at ? r.auth_len : 0, basic,
				  strlen(basic))) {
		no_password(c);
		return;
	}
	c->proven = true;
	if (r.absolute) {
		ask_absolute(c, &r);
		return;
	}
	memcpy(c->ev.name, r.connect ? r.target.shown : r.host.shown, sizeof c->ev.name);
	if (!r.connect || r.chunked || r.length || !r.target.port) {
		conn_end(c, r.connect ? EG_R_PROXY_BAD : EG_R_PROXY_USE, 0);
		return;
	}
	consume(f, r.len);
	aim_at(c, &r.target, r.target.port);
}

void accept_ask(struct conn *c)
{
	if (c->flow[UP].len)
		(c->ev.via == EG_VIA_SOCKS ? ask_socks : ask_http)(c);
	if (c->state == CONN_ASK && c->flow[UP].eof)
		conn_end(c, c->flow[UP].len ? EG_R_PROXY_BAD : EG_R_SILENT, 0);
}
