/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/dns.h"

enum {
	BATCH = 64,
	TCP_MAX = 32,     /* connections at once */
	TCP_MS = 5000,    /* for one question */
	QUERY_MAX = 1024, /* a question is at most 271 bytes, with options a bit more */
};

struct door {
	struct source src;
	struct egress *eg;
};

struct caller {
	struct grave grave; /* first */
	struct source src;
	struct timer timer;
	struct egress *eg;
	struct eaddr peer;
	uint16_t peer_port;
	unsigned len;
	uint8_t buf[2 + QUERY_MAX];
};

static unsigned n_callers;

static void refused(struct egress *eg, const struct dns_query *q,
		    const struct eaddr *peer, uint16_t port)
{
	struct eg_event ev = { .time_ms = audit_clock(), .via = EG_VIA_DNS,
			       .reason = q->good_name ? EG_R_NAME : EG_R_BAD_NAME };

	memcpy(ev.name, q->shown, sizeof ev.name);
	if (q->good_name)
		memcpy(ev.name, q->name, sizeof ev.name);
	audit_client(&ev, peer, port);
	audit_refused(eg->audit, &ev);
}

/*
 * Every name is either on the list, and then has a synthetic address, or does
 * not exist.  Nothing is asked outside for a name that is not on the list, and
 * for one that is only its addresses: what a program says here goes nowhere.
 */
static size_t answer(struct egress *eg, const uint8_t *msg, size_t len,
		     uint8_t out[DNS_REPLY_MAX], const struct eaddr *peer, uint16_t port)
{
	struct dns_query q;
	struct eaddr a;
	int rcode = dns_parse(msg, len, &q);

	if (rcode == DNS_DROP)
		return 0;
	if (rcode != DNS_NOERROR)
		return dns_answer(out, msg, &q, rcode, NULL);
	if (!q.good_name || !names_known(eg->names, q.name)) {
		refused(eg, &q, peer, port);
		return dns_answer(out, msg, &q, DNS_NXDOMAIN, NULL);
	}
	/* an address that nobody listens on would only cost the client time */
	if (q.type == DNS_TYPE_AAAA && !eg->six)
		return dns_answer(out, msg, &q, DNS_NOERROR, NULL);
	/* no HTTPS or SVCB record: no hint at QUIC or an encrypted hello */
	if (q.type != DNS_TYPE_A && q.type != DNS_TYPE_AAAA && q.type != DNS_TYPE_ANY)
		return dns_answer(out, msg, &q, DNS_NOERROR, NULL);
	uint32_t number = names_number(eg->names, q.name);
	if (!number)
		return dns_answer(out, msg, &q, DNS_SERVFAIL, NULL);
	names_synthetic(number, q.type == DNS_TYPE_AAAA ? AF_INET6 : AF_INET, &a);
	/* not for what a wildcard covers: there a lookup alone would carry data */
	if (names_exact(eg->names, q.name))
		upstream_prefetch(eg->upstream, q.name);
	return dns_answer(out, msg, &q, DNS_NOERROR, &a);
}

static void udp_ready(struct source *s, uint32_t events)
{
	struct door *d = (void *)s;
	uint8_t in[QUERY_MAX], out[DNS_REPLY_MAX];

	(void)events;
	for (int i = 0; i < BATCH; i++) {
		struct sockaddr_storage ss = { 0 };
		socklen_t len = sizeof ss;
		struct eaddr peer = { 0 };
		uint16_t port = 0;
		ssize_t n = recvfrom(s->fd, in, sizeof in, MSG_DONTWAIT | MSG_TRUNC,
				     (struct sockaddr *)&ss, &len);
		if (n < 0)
			return;
		if ((size_t)n > sizeof in)
			continue;
		addr_from_sock(&ss, &peer, &port);
		size_t m = answer(d->eg, in, (size_t)n, out, &peer, port);
		if (m)
			sendto(s->fd, out, m, MSG_DONTWAIT | MSG_NOSIGNAL,
			       (struct sockaddr *)&ss, len);
	}
}

static void hang_up(struct caller *c)
{
	loop_timer_off(c->eg->loop, &c->timer);
	loop_close(c->eg->loop, &c->src);
	loop_bury(c->eg->loop, &c->grave);
	n_callers--;
}

static void caller_due(struct timer *t)
{
	hang_up((void *)((char *)t - offsetof(struct caller, timer)));
}

/* Answers what is complete in the buffer.  False when the caller is to go. */
static bool answer_all(struct caller *c)
{
	uint8_t out[2 + DNS_REPLY_MAX];

	while (c->len >= 2) {
		unsigned want = (unsigned)c->buf[0] << 8 | c->buf[1];
		if (want > QUERY_MAX)
			return false;
		if (c->len < 2 + want)
			return true;
		size_t m = answer(c->eg, c->buf + 2, want, out + 2, &c->peer, c->peer_port);
		if (!m)
			return false;
		out[0] = (uint8_t)(m >> 8);
		out[1] = (uint8_t)m;
		if (send(c->src.fd, out, m + 2, MSG_NOSIGNAL) != (ssize_t)m + 2)
			return false; /* it does not read what it asked for */
		c->len -= 2 + want;
		memmove(c->buf, c->buf + 2 + want, c->len);
		loop_timer(c->eg->loop, &c->timer, loop_now(c->eg->loop) + TCP_MS);
	}
	return true;
}

static void caller_ready(struct source *s, uint32_t events)
{
	struct caller *c = (void *)((char *)s - offsetof(struct caller, src));
	ssize_t n = recv(s->fd, c->buf + c->len, sizeof c->buf - c->len, 0);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		c->len += (unsigned)n;
	if (n <= 0 || !answer_all(c))
		hang_up(c);
}

static void tcp_ready(struct source *s, uint32_t events)
{
	struct door *d = (void *)s;

	(void)events;
	for (int i = 0; i < BATCH; i++) {
		struct sockaddr_storage ss = { 0 };
		socklen_t len = sizeof ss;
		int fd = accept4(s->fd, (struct sockaddr *)&ss, &len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		struct caller *c = n_callers < TCP_MAX ? calloc(1, sizeof *c) : NULL;
		if (!c) {
			close(fd);
			continue;
		}
		c->eg = d->eg;
		c->src = (struct source){ .fd = fd, .ready = caller_ready };
		c->timer.due = caller_due;
		addr_from_sock(&ss, &c->peer, &c->peer_port);
		n_callers++;
		loop_timer(d->eg->loop, &c->timer, loop_now(d->eg->loop) + TCP_MS);
		if (loop_add(d->eg->loop, &c->src, EPOLLIN) < 0)
			hang_up(c);
	}
}

int answer_listen(struct egress *eg, enum eg_role role, int fd)
{
	struct door *d = calloc(1, sizeof *d);

	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	d->eg = eg;
	d->src = (struct source){ .fd = fd, .ready = role == EG_DNS_UDP ? udp_ready :
									tcp_ready };
	return loop_add(eg->loop, &d->src, EPOLLIN);
}
