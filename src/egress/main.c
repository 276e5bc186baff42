/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brig-egress: the only way out of a sandbox with an allow-list.  Started by brig
 * with the control socket as descriptor 3 and nothing else; see wire.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/msg.h"
#include "base/str.h"
#include "egress/answer.h"
#include "egress/confine.h"
#include "egress/conn.h"

struct setup {
	bool configured;
	int audit;
	unsigned n_direct;
	struct direct_item direct[EG_DIRECT_MAX];
	unsigned n_sockets;
	struct {
		struct eg_socket s;
		int fd;
	} sockets[EG_SOCKET_MAX];
	struct egress eg;
};

static _Noreturn void fatal(int errnum, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void fatal(int errnum, const char *fmt, ...)
{
	struct eg_msg m = { .type = EG_FATAL, .size = sizeof m };
	va_list ap;

	m.fatal.errnum = errnum;
	va_start(ap, fmt);
	vsnprintf(m.fatal.what, sizeof m.fatal.what, fmt, ap);
	va_end(ap);
	audit_send(EG_FD, &m);
	_exit(1);
}

/* Each limit: what 0 stands for, and how far it goes. */
static void set_limit(uint32_t *v, uint32_t usual, uint32_t most, const char *what)
{
	if (*v > most)
		fatal(ERANGE, "%s is more than %u", what, most);
	if (!*v)
		*v = usual;
}

static bool plain_text(const char *s, size_t cap)
{
	size_t n = strnlen(s, cap);

	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return n < cap;
}

static void take_config(struct setup *s, const struct eg_config *c)
{
	struct eg_config *o = &s->eg.config;
	struct eaddr a;
	char name[EG_NAME_LEN];

	if (s->configured)
		fatal(EPROTO, "a second configuration");
	if (c->version != EG_VERSION)
		fatal(EPROTO, "this is version %d of the protocol, not %u", EG_VERSION, c->version);
	if (c->flags & ~(uint32_t)EG_FLAGS || c->pad)
		fatal(EPROTO, "a configuration with unknown flags");
	if (!plain_text(c->id, sizeof c->id) || !plain_text(c->proxy_host, sizeof c->proxy_host) ||
	    !plain_text(c->proxy_auth, sizeof c->proxy_auth) || !plain_text(c->dns, sizeof c->dns) ||
	    !plain_text(c->client_auth, sizeof c->client_auth))
		fatal(EPROTO, "a configuration with a text that is none");
	*o = *c;
	set_limit(&o->max_conns, 256, 4096, "max_conns");
	set_limit(&o->conns_per_s, 200, 100000, "conns_per_s");
	set_limit(&o->connect_ms, 10000, 120000, "connect_ms");
	set_limit(&o->idle_ms, 600000, 86400000, "idle_ms");
	set_limit(&o->head_ms, 10000, 60000, "head_ms");
	if (!o->proxy_port != !o->proxy_host[0])
		fatal(EPROTO, "an upstream proxy without host or port");
	if (o->proxy_port && !addr_parse(o->proxy_host, &a)) {
		if (!names_canon(o->proxy_host, strlen(o->proxy_host), name))
			fatal(EINVAL, "the upstream proxy's name is none");
		memcpy(o->proxy_host, name, sizeof name);
	}
	if (o->flags & EG_LOOPBACK)
		names_use_loopback();
	if (o->client_auth[0]) {
		if (!strchr(o->client_auth, ':'))
			fatal(EINVAL, "a password for clients without a name");
		memcpy(s->eg.client_basic, "Basic ", 6);
		upstream_base64(o->client_auth, s->eg.client_basic + 6);
	}
	s->configured = true;
}

static void take_allow(struct setup *s, const struct eg_allow *m)
{
	char why[128] = "";

	if (!plain_text(m->entry, sizeof m->entry))
		fatal(EPROTO, "an entry that is no text");
	int r = names_add(s->eg.names, m->entry, why, sizeof why);
	if (r < 0)
		fatal(-r, "%.200s %s", m->entry, why[0] ? why : strerror(-r));
}

/* An item that we do not understand matches nothing: the proxy is asked. */
static void take_direct(struct setup *s, const struct eg_direct *m)
{
	if (!plain_text(m->item, sizeof m->item))
		fatal(EPROTO, "an exception that is no text");
	if (s->n_direct == EG_DIRECT_MAX)
		fatal(E2BIG, "more than %d exceptions", EG_DIRECT_MAX);
	if (direct_parse(m->item, &s->direct[s->n_direct]))
		s->n_direct++;
}

static int socket_option(int fd, int option)
{
	int v = -1;
	socklen_t len = sizeof v;

	return getsockopt(fd, SOL_SOCKET, option, &v, &len) < 0 ? -1 : v;
}

static void take_socket(struct setup *s, const struct eg_socket *m, int fd)
{
	int domain = socket_option(fd, SO_DOMAIN), type = socket_option(fd, SO_TYPE);
	bool udp = m->role == EG_DNS_UDP;

	if (m->role == 0 || m->role >= EG_ROLE_COUNT || m->pad ||
	    (m->role == EG_PORT) != (m->port != 0))
		fatal(EPROTO, "a socket of an unknown role");
	if (s->n_sockets == EG_SOCKET_MAX)
		fatal(E2BIG, "more than %d sockets", EG_SOCKET_MAX);
	if ((domain != AF_INET && domain != AF_INET6) ||
	    type != (udp ? SOCK_DGRAM : SOCK_STREAM) ||
	    (!udp && socket_option(fd, SO_ACCEPTCONN) != 1))
		fatal(EPROTO, "a socket that does not fit its role");
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		fatal(errno, "a socket");
	s->eg.six |= domain == AF_INET6 && (m->role == EG_PORT || m->role == EG_REDIRECT);
	s->sockets[s->n_sockets].s = *m;
	s->sockets[s->n_sockets++].fd = fd;
}

static void take_audit(struct setup *s, int fd)
{
	if (s->audit >= 0)
		fatal(EPROTO, "a second audit log");
	s->audit = fd;
}

/* One record, whole, with its descriptor if it has one; -1 if not. */
static int receive(struct eg_msg *m, int *fd)
{
	struct msg_in in;
	ssize_t n;

	do
		n = msg_recv(EG_FD, m, sizeof *m, 0, &in);
	while (n == -EINTR);
	if (n <= 0)
		return -1;
	if (n != (ssize_t)sizeof *m || m->size != sizeof *m || in.truncated || in.n_fds > 1)
		fatal(EPROTO, "a record of the wrong size");
	*fd = msg_fd(&in);
	return 0;
}

/* Which records there are before the start, and which carry a descriptor. */
static const struct {
	bool known, with_fd;
} records[EG_TYPE_COUNT] = {
	[EG_CONFIG] = { true, false }, [EG_ALLOW] = { true, false },
	[EG_SOCKET] = { true, true },  [EG_AUDIT] = { true, true },
	[EG_START] = { true, false },  [EG_DIRECT] = { true, false },
};

static void read_setup(struct setup *s)
{
	struct eg_msg m;
	int fd;

	do {
		if (receive(&m, &fd) < 0)
			_exit(0); /* brig went away */
		if (m.type >= EG_TYPE_COUNT || !records[m.type].known ||
		    records[m.type].with_fd != (fd >= 0) ||
		    s->configured == (m.type == EG_CONFIG))
			fatal(EPROTO, "record %u was not expected", m.type);
		if (m.type == EG_CONFIG)
			take_config(s, &m.config);
		else if (m.type == EG_ALLOW)
			take_allow(s, &m.allow);
		else if (m.type == EG_DIRECT)
			take_direct(s, &m.direct);
		else if (m.type == EG_SOCKET)
			take_socket(s, &m.socket, fd);
		else if (m.type == EG_AUDIT)
			take_audit(s, fd);
	} while (m.type != EG_START);
}

struct control {
	struct source src; /* first */
	struct audit *audit;
};

/* brig tells who opened a connection; or it goes away, or talks nonsense.  Either
 * is the end. */
static void control_ready(struct source *s, uint32_t events)
{
	struct control *c = (void *)s;
	struct eg_msg m;
	ssize_t n;

	while ((n = recv(s->fd, &m, sizeof m, MSG_DONTWAIT)) == (ssize_t)sizeof m &&
	       m.size == sizeof m && m.type == EG_WHO &&
	       plain_text(m.who.comm, sizeof m.who.comm) &&
	       plain_text(m.who.command, sizeof m.who.command))
		audit_who(c->audit, &m.who);
	if (n < 0 && (errno == EAGAIN || errno == EINTR) &&
	    !(events & (EPOLLHUP | EPOLLRDHUP)))
		return;
	audit_flush(c->audit);
	_exit(n <= 0 ? 0 : 1);
}

static void serve(struct setup *s)
{
	struct egress *eg = &s->eg;

	for (unsigned i = 0; i < s->n_sockets; i++) {
		enum eg_role role = (enum eg_role)s->sockets[i].s.role;
		int fd = s->sockets[i].fd;
		int r = role == EG_DNS_UDP || role == EG_DNS_TCP ?
				answer_listen(eg, role, fd) :
				accept_listen(eg, role, s->sockets[i].s.port, fd);
		if (r < 0)
			fatal(-r, "watching a socket");
	}
}

int main(void)
{
	static struct setup s = { .audit = -1 };
	static struct control control = { .src = { .fd = EG_FD, .ready = control_ready } };
	struct egress *eg = &s.eg;
	const char *what = "";
	struct eg_msg ready = { .type = EG_READY, .size = sizeof ready };

	signal(SIGPIPE, SIG_IGN);
	int r = confine_begin(EG_FD);
	if (r < 0)
		fatal(-r, "confining");
	eg->names = names_new();
	eg->loop = loop_new();
	if (!eg->names || !eg->loop)
		fatal(ENOMEM, "starting");
	read_setup(&s);
	if (eg->config.flags & EG_LEARN)
		names_learn(eg->names);
	eg->upstream = upstream_new(eg->loop, eg->names, &eg->config, s.direct, s.n_direct);
	if (!eg->upstream)
		fatal(errno, "the host's resolver or addresses");
	eg->audit = audit_new(eg->loop, EG_FD, s.audit, eg->config.id,
			      eg->config.flags & EG_TELL_OPEN);
	if (!eg->audit)
		fatal(ENOMEM, "starting");
	control.audit = eg->audit;
	eg->tokens_at = loop_now(eg->loop);
	eg->tokens = (int64_t)eg->config.conns_per_s * 1000;
	if ((r = confine_finish(&eg->config.max_conns, &what)) < 0)
		fatal(-r, "confining: %s", what);
	if ((r = loop_add(eg->loop, &control.src, EPOLLIN | EPOLLRDHUP)) < 0)
		fatal(-r, "watching brig");
	serve(&s);
	if (!audit_send(EG_FD, &ready))
		_exit(1);
	r = loop_run(eg->loop);
	fatal(-r, "the loop ended");
}
