/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/upstream.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

enum {
	OWN_MAX = 256,
	ATTEMPT_MS = 3000, /* for one address while there are others */
};

struct upstream {
	struct loop *loop;
	const struct names *names;
	struct resolver *resolver;
	bool private_ok;
	uint32_t connect_ms;
	unsigned n_own;
	struct eaddr own[OWN_MAX];
	uint16_t proxy_port; /* 0: none */
	const struct direct_item *direct; /* for which it is not used */
	unsigned n_direct;
	bool proxy_is_addr;
	struct eaddr proxy_addr;
	char proxy_host[EG_NAME_LEN];
	char proxy_auth[EG_AUTH_LEN * 4 / 3 + 8]; /* base64 */
};

/* c-ares runs inside the process, its lookups are the resolver's business; here
 * only the answers are judged. */
static bool is_own(const struct upstream *u, const struct eaddr *a)
{
	for (unsigned i = 0; i < u->n_own; i++)
		if (addr_equal(&u->own[i], a))
			return true;
	return false;
}

static bool listed_exactly(const struct upstream *u, const struct eaddr *a,
			   uint16_t port)
{
	return names_address(u->names, a, port) == (a->family == AF_INET ? 32 : 128);
}

/*
 * May a name lead to this address?  An address that is not on the public network
 * only if the operator wrote down it or a network no larger than the special one
 * it lies in; an address of this very machine only if he wrote exactly that one.
 */
static enum eg_reason judge(const struct upstream *u, const struct eaddr *a,
			    uint16_t port)
{
	unsigned special;
	enum addr_class class = addr_classify(a, &special);
	int listed = names_address(u->names, a, port);

	if (is_own(u, a) && !listed_exactly(u, a, port))
		return class == ADDR_PUBLIC ? EG_R_OWN : EG_R_PRIVATE;
	if (class == ADDR_PUBLIC || (class == ADDR_PRIVATE && u->private_ok))
		return EG_R_NONE;
	return listed >= (int)special ? EG_R_NONE : EG_R_PRIVATE;
}

static void finish(struct dial *d, int fd, enum eg_reason why, int errnum)
{
	dial_cancel(d);
	d->done(d, fd, why, errnum);
}

static void next_address(struct dial *d);

static void attempt_due(struct timer *t)
{
	struct dial *d = (void *)((char *)t - offsetof(struct dial, attempt));

	if (loop_now(d->up->loop) >= d->deadline || !d->n) {
		finish(d, -1, d->n ? EG_R_TIME : EG_R_RESOLVE, ETIMEDOUT);
		return;
	}
	d->errnum = ETIMEDOUT;
	loop_close(d->up->loop, &d->src);
	next_address(d);
}

static bool get_peer(int fd, struct eaddr *a)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof ss;
	uint16_t port;

	return getpeername(fd, (struct sockaddr *)&ss, &len) == 0 &&
	       addr_from_sock(&ss, a, &port);
}

/*
 * A connection to an address of our own, whatever getifaddrs() said when we
 * started, has the same address at both ends: the kernel chooses it as source.
 */
static bool reached_ourselves(int fd, const struct eaddr *there)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof ss;
	struct eaddr here;
	uint16_t port;

	return getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
	       !addr_from_sock(&ss, &here, &port) || addr_equal(&here, there);
}

static void send_connect(struct dial *d)
{
	char text[(size_t)EG_NAME_LEN * 2 + sizeof d->up->proxy_auth + 128];
	bool v6 = strchr(d->name, ':') != NULL;
	const char *o = v6 ? "[" : "", *c = v6 ? "]" : "";
	int n = snprintf(text, sizeof text, "CONNECT %s%s%s:%u HTTP/1.1\r\nHost: %s%s%s:%u\r\n",
			 o, d->name, c, d->target_port, o, d->name, c, d->target_port);

	if (d->up->proxy_auth[0])
		n += snprintf(text + n, sizeof text - (size_t)n,
			      "Proxy-Authorization: Basic %s\r\n", d->up->proxy_auth);
	n += snprintf(text + n, sizeof text - (size_t)n, "\r\n");
	/* a fresh connection takes this much at once, or is of no use */
	if (send(d->src.fd, text, (size_t)n, MSG_NOSIGNAL) != n) {
		finish(d, -1, EG_R_UPSTREAM_PROXY, EIO);
		return;
	}
	d->head = malloc(DIAL_PROXY_HEAD);
	if (!d->head)
		finish(d, -1, EG_R_MEMORY, ENOMEM);
}

static void connected(struct dial *d, const struct eaddr *there)
{
	struct loop *l = d->up->loop;

	if (d->proxied) {
		loop_timer(l, &d->attempt, d->deadline);
		if ((d->waits ? loop_change : loop_add)(l, &d->src, EPOLLIN) < 0)
			finish(d, -1, EG_R_MEMORY, ENOMEM);
		else
			send_connect(d);
		return;
	}
	if (reached_ourselves(d->src.fd, there) &&
	    !listed_exactly(d->up, &d->addrs[d->at - 1], d->port)) {
		finish(d, -1, EG_R_OWN, 0);
		return;
	}
	finish(d, d->waits ? loop_take(l, &d->src) : take_fd(&d->src.fd), EG_R_NONE, 0);
}

/*
 * Reads the proxy's answer up to its end and not a byte further: the rest belongs
 * to the tunnel.
 */
static void proxy_ready(struct dial *d)
{
	char *fresh = d->head + d->head_len;
	size_t room = DIAL_PROXY_HEAD - d->head_len;
	ssize_t n = recv(d->src.fd, fresh, room, MSG_PEEK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || room == 0) {
		finish(d, -1, EG_R_UPSTREAM_PROXY, n < 0 ? errno : ECONNRESET);
		return;
	}
	char *end = memmem(d->head, d->head_len + (size_t)n, "\r\n\r\n", 4);
	size_t take = end ? (size_t)(end + 4 - fresh) : (size_t)n;
	if (recv(d->src.fd, fresh, take, 0) != (ssize_t)take) {
		finish(d, -1, EG_R_UPSTREAM_PROXY, EIO);
		return;
	}
	d->head_len += take;
	if (!end) {
		if (d->head_len == DIAL_PROXY_HEAD)
			finish(d, -1, EG_R_UPSTREAM_PROXY, EMSGSIZE);
		return;
	}
	if (d->head_len >= 12 && memcmp(d->head, "HTTP/1.", 7) == 0 && d->head[9] == '2')
		finish(d, loop_take(d->up->loop, &d->src), EG_R_NONE, 0);
	else
		finish(d, -1, EG_R_UPSTREAM_PROXY, EACCES);
}

static void dial_ready(struct source *s, uint32_t events)
{
	struct dial *d = (void *)((char *)s - offsetof(struct dial, src));
	struct eaddr there;
	int err = 0;
	socklen_t len = sizeof err;

	if (d->head) {
		proxy_ready(d);
		return;
	}
	(void)events;
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	if (!err && !get_peer(s->fd, &there))
		err = ENOTCONN;
	if (err) {
		d->errnum = err;
		loop_close(d->up->loop, s);
		next_address(d);
		return;
	}
	connected(d, &there);
}

/* 1 connected (*there is who answered), 0 on the way, -1 not to be reached. */
static int try_address(struct dial *d, const struct eaddr *a, struct eaddr *there)
{
	static const char plain[] = "reno";
	const int one = 1, zero = 0;
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sock(a, d->port, &ss);

	d->src.fd = socket(a->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->src.fd < 0)
		return -1;
	setsockopt(d->src.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	/* what stays on the machine need not be measured and paced as the host
	 * may want it for the network; see accept.c */
	if (is_own(d->up, a))
		setsockopt(d->src.fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof plain - 1);
	/* The handshake's last packet can wait for the first bytes and go with
	 * them.  Not if there are none: a server that speaks first waits for it. */
	if (d->speaks || d->proxied)
		setsockopt(d->src.fd, IPPROTO_TCP, TCP_QUICKACK, &zero, sizeof zero);
	if (connect(d->src.fd, (struct sockaddr *)&ss, len) < 0 && errno != EINPROGRESS)
		return -1;
	/* what is near has often answered before we could look */
	d->waits = !get_peer(d->src.fd, there);
	if (d->waits && loop_add(d->up->loop, &d->src, EPOLLOUT) < 0)
		return -1;
	return !d->waits;
}

/* Addresses in order, each with a time limit while there are others. */
static void next_address(struct dial *d)
{
	struct loop *l = d->up->loop;

	while (d->at < d->n) {
		const struct eaddr *a = &d->addrs[d->at++];
		int64_t until = loop_now(l) + ATTEMPT_MS;
		struct eaddr there;
		int r = try_address(d, a, &there);
		if (r < 0) {
			d->errnum = errno;
			loop_close(l, &d->src);
			continue;
		}
		loop_timer(l, &d->attempt, d->at < d->n && until < d->deadline ?
			   until : d->deadline);
		if (r > 0)
			connected(d, &there);
		return;
	}
	finish(d, -1, d->errnum == ETIMEDOUT ? EG_R_TIME : EG_R_CONNECT, d->errnum);
}

static void resolved(struct asker *as, const struct answer *reply)
{
	struct dial *d = (void *)((char *)as - offsetof(struct dial, asker));
	enum eg_reason why = EG_R_RESOLVE;

	for (unsigned i = 0; i < reply->n && d->n < DIAL_ADDRS; i++) {
		/* the proxy's address is the operator's own choice */
		enum eg_reason bad = d->proxied ? EG_R_NONE :
				     judge(d->up, &reply->addr[i], d->port);
		if (bad)
			why = bad;
		else
			d->addrs[d->n++] = reply->addr[i];
	}
	if (!d->n) {
		finish(d, -1, why, 0);
		return;
	}
	next_address(d);
}

static bool use_proxy(const struct upstream *u, const char *name,
		      const struct eaddr *addr, uint16_t port)
{
	for (unsigned i = 0; u->proxy_port && i < u->n_direct; i++)
		if (direct_matches(&u->direct[i], name, addr, port))
			return false;
	return u->proxy_port != 0;
}

void dial_start(struct dial *d, struct upstream *u, const char *name,
		const struct eaddr *addr, uint16_t port)
{
	d->up = u;
	d->src = (struct source){ .fd = -1, .ready = dial_ready };
	d->attempt.due = attempt_due;
	d->asker = (struct asker){ .answered = resolved };
	d->deadline = loop_now(u->loop) + u->connect_ms;
	d->n = d->at = 0;
	d->errnum = 0;
	d->head = NULL;
	d->head_len = 0;
	d->active = true;
	d->name = name;
	d->target_port = port;
	d->port = port;
	loop_timer(u->loop, &d->attempt, d->deadline);
	d->proxied = use_proxy(u, name, addr, port);
	if (d->proxied) {
		d->port = u->proxy_port;
		addr = u->proxy_is_addr ? &u->proxy_addr : NULL;
		name = u->proxy_host;
	}
	if (addr) {
		/* on the list as it is; but a network does not mean our own address */
		enum eg_reason bad = d->proxied ? EG_R_NONE : judge(u, addr, port);
		if (bad) {
			finish(d, -1, bad, 0);
			return;
		}
		d->addrs[d->n++] = *addr;
		next_address(d);
		return;
	}
	resolver_ask(u->resolver, name, &d->asker);
}

void dial_cancel(struct dial *d)
{
	if (!d->active)
		return;
	d->active = false;
	resolver_forget(&d->asker);
	loop_timer_off(d->up->loop, &d->attempt);
	loop_close(d->up->loop, &d->src);
	free(take_ptr(d->head));
}

void upstream_prefetch(struct upstream *u, const char *name)
{
	/* with exceptions by port the lookup waits until the port is known */
	if (!use_proxy(u, name, NULL, 0))
		resolver_ask(u->resolver, name, NULL);
}

void upstream_base64(const char *in, char *out)
{
	static const char set[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strlen(in);

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)(unsigned char)in[i] << 16;
		if (i + 1 < n)
			v |= (uint32_t)(unsigned char)in[i + 1] << 8;
		if (i + 2 < n)
			v |= (unsigned char)in[i + 2];
		*out++ = set[v >> 18];
		*out++ = set[v >> 12 & 63];
		*out++ = i + 1 < n ? set[v >> 6 & 63] : '=';
		*out++ = i + 2 < n ? set[v & 63] : '=';
	}
	*out = '\0';
}

static int read_own(struct upstream *u)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (struct ifaddrs *i = all; i && u->n_own < OWN_MAX; i = i->ifa_next) {
		struct sockaddr_storage ss = { 0 };
		uint16_t port;
		int family = i->ifa_addr ? i->ifa_addr->sa_family : 0;
		if (family != AF_INET && family != AF_INET6)
			continue;
		memcpy(&ss, i->ifa_addr, family == AF_INET ?
		       sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
		if (addr_from_sock(&ss, &u->own[u->n_own], &port))
			u->n_own++;
	}
	freeifaddrs(all);
	return 0;
}

struct upstream *upstream_new(struct loop *l, const struct names *n,
			      const struct eg_config *c,
			      const struct direct_item *direct, unsigned n_direct)
{
	struct upstream *u = calloc(1, sizeof *u);

	if (!u)
		return NULL;
	u->loop = l;
	u->names = n;
	u->private_ok = c->flags & EG_PRIVATE_OK;
	u->connect_ms = c->connect_ms;
	u->proxy_port = c->proxy_port;
	u->direct = direct;
	u->n_direct = n_direct;
	u->proxy_is_addr = addr_parse(c->proxy_host, &u->proxy_addr);
	memcpy(u->proxy_host, c->proxy_host, sizeof u->proxy_host);
	upstream_base64(c->proxy_auth, u->proxy_auth);
	int r = read_own(u);
	if (r == 0)
		u->resolver = resolver_new(l, c->dns);
	if (r < 0 || !u->resolver) {
		if (r < 0)
			errno = -r;
		free(u);
		return NULL;
	}
	return u;
}
