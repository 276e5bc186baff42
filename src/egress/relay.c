/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a connection: states, and what happens in each of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "egress/conn.h"

#define OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

enum event { EV_CLIENT, EV_UP, EV_DUE, EVENTS };

static void on_ask(struct conn *c)
{
	if (pump_fill(c))
		accept_ask(c);
}

static void dial_now(struct conn *c)
{
	c->state = CONN_DIAL;
	c->dial.speaks = c->flow[UP].ok > c->flow[UP].off;
	dial_start(&c->dial, c->eg->upstream, c->ev.name, c->listed ? &c->addr : NULL,
		   c->ev.port);
}

/* True when the bytes that are there let the connection live. */
static bool look(struct conn *c)
{
	enum eg_reason bad = check_bytes(c);

	if (bad)
		conn_end(c, bad, 0);
	return !bad;
}

static void on_head(struct conn *c)
{
	if (!pump_fill(c) || !look(c))
		return;
	if (c->check != CHECK_FIRST || c->hurry) {
		dial_now(c);
	} else if (c->flow[UP].eof) {
		/* it hung up without a word, or in the middle of one */
		conn_end(c, c->flow[UP].len ? EG_R_HEAD_TIME : EG_R_SILENT, 0);
	}
}

/* While the connection is made the client's first bytes are looked at, but no
 * more is read than that. */
static void on_dial(struct conn *c)
{
	if (c->check == CHECK_FIRST && pump_fill(c))
		look(c);
}

static void on_ask_due(struct conn *c)
{
	conn_end(c, EG_R_HEAD_TIME, 0);
}

static void on_idle(struct conn *c)
{
	/* a client that did not say what it had to, or not to its end */
	bool begun = c->check == CHECK_FIRST && (c->flow[UP].len || !c->hurry);

	conn_end(c, begun ? EG_R_HEAD_TIME : EG_R_IDLE, 0);
}

static void nothing(struct conn *c)
{
	(void)c;
}

static void (*const table[CONN_STATES][EVENTS])(struct conn *c) = {
	[CONN_ASK] = { on_ask, nothing, on_ask_due },
	[CONN_HEAD] = { on_head, nothing, on_ask_due },
	[CONN_DIAL] = { on_dial, nothing, nothing }, /* the dial keeps its own time */
	[CONN_PASS] = { pump, pump, on_idle },
	[CONN_OVER] = { nothing, nothing, nothing },
};

static void note(struct side *s, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		s->in = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		s->hup = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		s->out = true;
}

static void client_ready(struct source *s, uint32_t events)
{
	struct conn *c = OF(s, struct conn, client.src);

	note(&c->client, events);
	table[c->state][EV_CLIENT](c);
}

static void up_ready(struct source *s, uint32_t events)
{
	struct conn *c = OF(s, struct conn, up.src);

	note(&c->up, events);
	table[c->state][EV_UP](c);
}

static void due(struct timer *t)
{
	struct conn *c = OF(t, struct conn, timer);

	table[c->state][EV_DUE](c);
}

static void again(struct task *t)
{
	struct conn *c = OF(t, struct conn, task);

	table[c->state][EV_CLIENT](c);
}

static void dialled(struct dial *d, int fd, enum eg_reason why, int errnum)
{
	struct conn *c = OF(d, struct conn, dial);

	if (fd < 0) {
		conn_end(c, why, errnum);
		return;
	}
	c->up.src.fd = fd;
	c->up.in = false; /* epoll will say */
	c->up.out = true;
	c->state = CONN_PASS;
	if (loop_add(c->eg->loop, &c->up.src, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0) {
		conn_end(c, EG_R_MEMORY, ENOMEM);
		return;
	}
	bool early = c->check == CHECK_FIRST && (c->flow[UP].len || !c->hurry);
	int64_t wait = early ? c->eg->config.head_ms : c->eg->config.idle_ms;
	loop_timer(c->eg->loop, &c->timer, loop_now(c->eg->loop) + wait);
	accept_answer(c, EG_R_NONE);
	if (c->state == CONN_PASS)
		pump(c);
}

/* brig looks for the process beside what happens here: it is told when the
 * connection is on its way out, or when it ends before that. */
static void tell_open(struct conn *c)
{
	if (c->told || !(c->eg->config.flags & EG_TELL_OPEN))
		return;
	c->told = true;
	audit_open(c->eg->audit, &c->ev);
}

void conn_end(struct conn *c, enum eg_reason why, int errnum)
{
	struct egress *eg = c->eg;
	const struct linger rst = { .l_onoff = 1, .l_linger = 0 };

	if (c->state == CONN_OVER)
		return;
	if (why == EG_R_NONE)
		why = EG_R_SILENT;
	/* Once it was connected it was allowed, and stays so unless something was
	 * refused; how it ended is another matter. */
	if (c->state == CONN_PASS && eg_reason_verdict(why) == EG_FAILED) {
		c->ev.ended = (uint8_t)why;
		why = EG_R_SILENT;
	}
	if (!c->ev.reason || eg_reason_verdict(why) != EG_ALLOWED)
		c->ev.reason = (uint8_t)why;
	c->ev.errnum = errnum;
	c->ev.ms = (uint32_t)(loop_now(eg->loop) - c->began);
	c->ev.bytes_up = c->flow[UP].bytes;
	c->ev.bytes_down = c->flow[DOWN].bytes;
	tell_open(c);
	/* anybody on the machine can cause these: equal ones are counted */
	if (why == EG_R_PROXY_AUTH)
		audit_refused(eg->audit, &c->ev);
	else
		audit_event(eg->audit, &c->ev);
	bool clean = c->flow[UP].closed && c->flow[DOWN].closed;
	if (!clean && c->state < CONN_PASS)
		accept_answer(c, why);
	else if (!clean && c->up.src.fd >= 0)
		setsockopt(c->up.src.fd, SOL_SOCKET, SO_LINGER, &rst, sizeof rst);
	if (!clean && (c->ev.via == EG_VIA_DIRECT || c->state == CONN_PASS))
		setsockopt(c->client.src.fd, SOL_SOCKET, SO_LINGER, &rst, sizeof rst);
	c->state = CONN_OVER;
	dial_cancel(&c->dial);
	loop_timer_off(eg->loop, &c->timer);
	loop_task_off(eg->loop, &c->task);
	/* refused: brig may still find who it was, as long as there is a socket */
	if (c->ev.verdict == EG_DENIED && why != EG_R_PROXY_AUTH)
		audit_close(eg->audit, &c->ev, loop_take(eg->loop, &c->client.src));
	loop_close(eg->loop, &c->client.src);
	loop_close(eg->loop, &c->up.src);
	pump_free(&c->flow[UP]);
	pump_free(&c->flow[DOWN]);
	eg->conns--;
	loop_bury(eg->loop, &c->grave);
}

void conn_aim(struct conn *c, const char *name, const struct eaddr *addr, uint16_t port)
{
	struct egress *eg = c->eg;
	enum eg_reason bad = EG_R_NONE;

	c->ev.port = port;
	if (addr) {
		addr_format(addr, c->ev.name);
		c->addr = *addr;
		c->listed = true;
		if (names_address(eg->names, addr, port) < 0)
			bad = EG_R_ADDRESS;
		/* listed, but only by a network wider than what is special in it */
		unsigned special;
		if (!bad && addr_classify(addr, &special) != ADDR_PUBLIC &&
		    names_address(eg->names, addr, port) < (int)special)
			bad = EG_R_PRIVATE;
	} else {
		if (name != c->ev.name)
			snprintf(c->ev.name, sizeof c->ev.name, "%s", name);
		if (!names_known(eg->names, c->ev.name))
			bad = EG_R_NAME;
		else if (!names_allow(eg->names, c->ev.name, port))
			bad = EG_R_PORT;
	}
	if (bad) {
		conn_end(c, bad, 0);
		return;
	}
	c->hurry = !check_web_port(port);
	c->state = CONN_HEAD;
	/* A client of a proxy speaks when it has its answer. */
	if (c->ev.via != EG_VIA_DIRECT && c->check == CHECK_FIRST)
		dial_now(c);
	else
		on_head(c);
	if (c->state != CONN_OVER)
		tell_open(c);
}

void conn_new(struct egress *eg, enum eg_via via, int fd, const struct eaddr *peer,
	      uint16_t peer_port, const struct eaddr *dst, uint16_t port)
{
	struct conn *c = calloc(1, sizeof *c);
	uint32_t number;

	if (!c) {
		close(fd);
		return;
	}
	c->eg = eg;
	c->client.src = (struct source){ .fd = fd, .ready = client_ready };
	c->up.src = (struct source){ .fd = -1, .ready = up_ready };
	c->client.in = c->client.out = true;
	c->flow[UP].pipe[0] = c->flow[DOWN].pipe[0] = -1;
	c->flow[UP].pipe[1] = c->flow[DOWN].pipe[1] = -1;
	c->dial.done = dialled;
	c->timer.due = due;
	c->task.run = again;
	c->began = loop_now(eg->loop);
	c->ev.serial = ++eg->serial;
	c->ev.time_ms = audit_clock();
	c->ev.via = (uint8_t)via;
	c->ev.port = via == EG_VIA_DIRECT ? port : 0;
	memcpy(c->ev.called_addr, dst->b, sizeof c->ev.called_addr);
	c->ev.called_port = port;
	audit_client(&c->ev, peer, peer_port);
	eg->conns++;
	if (loop_add(eg->loop, &c->client.src,
		     EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET) < 0) {
		conn_end(c, EG_R_MEMORY, ENOMEM);
		return;
	}
	loop_timer(eg->loop, &c->timer, c->began + eg->config.head_ms);
	if (via != EG_VIA_DIRECT) {
		on_ask(c);
		return;
	}
	const bool synthetic = names_is_synthetic(dst, &number);
	/* Inside, loopback is the sandbox's own.  It comes here only because our
	 * listeners are at every address; it does not mean the host's. */
	if (!synthetic && addr_classify(dst, NULL) == ADDR_LOOPBACK) {
		addr_format(dst, c->ev.name);
		conn_end(c, EG_R_ADDRESS, 0);
		return;
	}
	if (!synthetic) {
		conn_aim(c, NULL, dst, port);
		return;
	}
	const char *name = names_of(eg->names, number);
	if (name) {
		conn_aim(c, name, NULL, port);
	} else {
		addr_format(dst, c->ev.name);
		conn_end(c, EG_R_ADDRESS, 0);
	}
}
