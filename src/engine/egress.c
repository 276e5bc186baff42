/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/msg.h"
#include "base/str.h"
#include "egress/allow.h"
#include "engine/audit.h"
#include "engine/egress_internal.h"
#include "engine/run_internal.h"

enum {
	QUIET_MS = 10,  /* this long without a word at the end: it has no more */
	END_MS = 250,
	DENIED_MAX = 200, /* of one run */
};

static const char *const backend_words[] = {
#define X(sym, name) name,
	BRIG_BACKENDS(X)
#undef X
};

static bool has_port(const struct allow_net *n, uint16_t port)
{
	for (unsigned i = 0; i < n->n_ports; i++)
		if (n->ports[i] == port)
			return true;
	return false;
}

static int take_ports(struct allow_net *n, const struct allow_entry *a,
		      struct brig_error *err)
{
	for (unsigned i = 0; i < a->n_ports; i++) {
		if (has_port(n, a->ports[i]))
			continue;
		if (n->n_ports == ALLOW_MAX_PORTS) {
			err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
				"the allow-list names more than %d different ports",
				ALLOW_MAX_PORTS);
			err_fix(err, "name fewer ports");
			return -E2BIG;
		}
		n->ports[n->n_ports++] = a->ports[i];
	}
	return 0;
}

/* Inside, 127.x and ::1 are the sandbox's own: there is no route to add.  Such an
 * entry is for names that lead there, and for the proxies. */
static bool is_loopback(const struct allow_entry *a)
{
	static const unsigned char one[16] = { [15] = 1 };

	return a->family == AF_INET ? a->bits >= 8 && a->addr[0] == 127 :
				      a->bits == 128 && memcmp(a->addr, one, 16) == 0;
}

static int take_range(struct allow_net *n, const struct allow_entry *a,
		      struct brig_error *err)
{
	if (a->kind != ALLOW_ADDRESS || is_loopback(a))
		return 0;
	struct allow_range r = { .family = (uint8_t)a->family, .bits = (uint8_t)a->bits };
	memcpy(r.addr, a->addr, sizeof r.addr);
	for (unsigned i = 0; i < n->n_ranges; i++)
		if (memcmp(&n->ranges[i], &r, sizeof r) == 0)
			return 0;
	if (n->n_ranges == ALLOW_MAX_NETS) {
		err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
			"the allow-list names more than %d addresses and networks",
			ALLOW_MAX_NETS);
		err_fix(err, "name larger networks");
		return -E2BIG;
	}
	n->ranges[n->n_ranges++] = r;
	return 0;
}

/* Learning opens the network further than a list would: it does not happen without
 * a line of its own. */
static int write_down(const struct spec *s, struct brig_error *err)
{
	cleanup_free char *cwd = str_fmt("%s%s%s", s->workspace.src, *s->cwd ? "/" : "",
					 s->cwd);
	const struct audit_entry line = { .event = "learn", .id = s->id,
					  .backend = backend_words[s->backend],
					  .argv = s->argv, .cwd = cwd ? cwd : "" };

	return audit_append(&line, err);
}

int egress_init(struct egress *e, const struct spec *s, struct brig_error *err)
{
	struct allow_entry a;
	char why[120];
	big_buffer char path[PATH_MAX];

	*e = (struct egress){ .spec = s, .watch = -1, .sock = -1, .pid = -1 };
	e->net.diag = e->who.diag = e->who.proc = -1;
	e->net.learn = s->learn;
	e->net.proxies = s->proxy_env;
	/* it is started when it is needed; that it is missing is said now */
	int found = helper_find("brig-egress", path);
	if (found < 0) {
		err_set(err, BRIG_E_UNSUPPORTED, -found, "egress",
			"the helper brig-egress, which an allow-list needs, is missing");
		err_fix(err, "install it beside brig or in ../libexec/brig");
		return found;
	}
	for (char **v = s->allow; v && *v; v++) {
		if (allow_parse(*v, &a, why, sizeof why) < 0)
			return err_set(err, BRIG_E_BAD_VALUE, 0, "policy", "--allow: '%.80s' %s",
				       *v, why);
		int r = take_ports(&e->net, &a, err);
		if (r == 0)
			r = take_range(&e->net, &a, err);
		if (r < 0)
			return r;
	}
	int r = egress_proxy_read(&e->proxy, err);
	if (r == 0 && s->learn && e->proxy.port) {
		/* it would resolve what the command chooses, and nobody would look
		 * where that leads */
		err_set(err, BRIG_E_UNSUPPORTED, 0, "egress",
			"learning through this machine's proxy: names could lead to private "
			"addresses unseen");
		err_fix(err, "unset HTTPS_PROXY and ALL_PROXY for this run, or write the list "
			     "by hand");
		return -EOPNOTSUPP;
	}
	return r == 0 && s->learn ? write_down(s, err) : r;
}

static void expect(struct allow_net *n, enum allow_role role, uint16_t port)
{
	n->socket[n->n++] = (struct allow_socket){ role, port, -1 };
}

/* The order in which netns_allow() and all others make them. */
unsigned egress_expected(struct egress *e)
{
	struct allow_net *n = &e->net;
	const bool proxy = n->form == ALLOW_PROXY, routed = n->form == ALLOW_ROUTED;
	bool all = false, redirect = routed && netns_allow_redirects(n, &all);

	n->n = 0;
	if (!proxy) {
		expect(n, ALLOW_DNS_UDP, 53);
		expect(n, ALLOW_DNS_TCP, 53);
	}
	for (unsigned i = 0; i < n->n_ports && !all && !proxy; i++)
		/* without routes the resolver has port 53 to itself */
		if (routed ? n->ports[i] < 1024 : n->ports[i] != 53)
			expect(n, ALLOW_PORT, n->ports[i]);
	if (redirect)
		expect(n, ALLOW_REDIRECT, 0);
	if (proxy || n->proxies) {
		expect(n, ALLOW_CONNECT, proxy ? 0 : ALLOW_CONNECT_PORT);
		expect(n, ALLOW_SOCKS, proxy ? 0 : ALLOW_SOCKS_PORT);
	}
	return n->n;
}

int egress_adopt(struct egress *e, const int *fds, size_t n)
{
	size_t want = egress_expected(e);

	if (e->watch >= 0 || (n != want && n != want + 1)) {
		e->net.n = 0; /* they are not ours */
		return -EPROTO;
	}
	e->watch = epoll_create1(EPOLL_CLOEXEC);
	int r = e->watch < 0 ? -errno : 0;
	for (size_t i = 0; i < want; i++) {
		struct epoll_event ev = { .events = EPOLLIN };
		e->net.socket[i].fd = fds[i];
		if (r == 0 && epoll_ctl(e->watch, EPOLL_CTL_ADD, fds[i], &ev) < 0)
			r = -errno;
	}
	e->net.diag = -1;
	if (r < 0) { /* they stay the caller's */
		e->net.n = 0;
		fd_close(&e->watch);
	} else {
		who_init(&e->who, n > want ? fds[want] : -1, e->init);
	}
	return r;
}

static int listen_here(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	const int on = 1;
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 1024) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -errno;
	*port = ntohs(a.sin_port);
	return take_fd(&fd);
}

int egress_proxies(struct egress *e)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char random[16];
	uint16_t ports[2];
	int fds[2] = { -1, -1 }, r = 0;

	e->net.form = ALLOW_PROXY;
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return -EIO;
	int at = snprintf(e->password, sizeof e->password, "brig:");
	for (size_t i = 0; i < sizeof random; i++) {
		e->password[at++] = digits[random[i] >> 4];
		e->password[at++] = digits[random[i] & 15];
	}
	e->password[at] = '\0';
	for (int i = 0; i < 2 && r >= 0; i++)
		r = fds[i] = listen_here(&ports[i]);
	if (r >= 0)
		r = egress_adopt(e, fds, 2);
	if (r < 0) {
		fd_close(&fds[0]);
		fd_close(&fds[1]);
		return r;
	}
	for (int i = 0; i < 2; i++)
		e->net.socket[i].port = ports[i];
	return 0;
}

uint16_t egress_port(const struct egress *e, enum allow_role role)
{
	for (unsigned i = 0; i < e->net.n; i++)
		if (e->net.socket[i].role == role)
			return e->net.socket[i].port;
	return 0;
}

int egress_poll_fd(const struct egress *e)
{
	return e->watch >= 0 ? e->watch : e->sock;
}

static int say(const struct egress *e, struct eg_msg *m, int fd)
{
	m->size = sizeof *m;
	return msg_send(e->sock, m, sizeof *m, &fd, fd >= 0);
}

static int tell_policy(struct egress *e, int audit)
{
	static const uint32_t roles[] = {
		[ALLOW_DNS_UDP] = EG_DNS_UDP, [ALLOW_DNS_TCP] = EG_DNS_TCP,
		[ALLOW_PORT] = EG_PORT,	      [ALLOW_REDIRECT] = EG_REDIRECT,
		[ALLOW_CONNECT] = EG_CONNECT, [ALLOW_SOCKS] = EG_SOCKS,
	};
	struct eg_msg m = { .type = EG_CONFIG };

	m.config.version = EG_VERSION;
	snprintf(m.config.id, sizeof m.config.id, "%s", e->spec->id);
	if (e->net.form == ALLOW_LOOPBACK)
		m.config.flags |= EG_LOOPBACK;
	snprintf(m.config.client_auth, sizeof m.config.client_auth, "%s", e->password);
	memcpy(m.config.proxy_host, e->proxy.host, sizeof m.config.proxy_host);
	memcpy(m.config.proxy_auth, e->proxy.auth, sizeof m.config.proxy_auth);
	m.config.proxy_port = e->proxy.port;
	if (e->who.diag >= 0 && e->who.init > 0)
		m.config.flags |= EG_TELL_OPEN;
	if (e->spec->learn)
		m.config.flags |= EG_LEARN;
	int r = say(e, &m, -1);
	for (char **d = e->proxy.direct; d && *d && r == 0; d++) {
		m = (struct eg_msg){ .type = EG_DIRECT };
		str_clean(*d, m.direct.item, sizeof m.direct.item);
		r = say(e, &m, -1);
	}
	for (char **a = e->spec->allow; a && *a && r == 0; a++) {
		m = (struct eg_msg){ .type = EG_ALLOW };
		snprintf(m.allow.entry, sizeof m.allow.entry, "%s", *a);
		r = say(e, &m, -1);
	}
	for (unsigned i = 0; i < e->net.n && r == 0; i++) {
		const struct allow_socket *s = &e->net.socket[i];
		m = (struct eg_msg){ .type = EG_SOCKET };
		m.socket.role = roles[s->role];
		m.socket.port = s->role == ALLOW_PORT ? s->port : 0;
		r = say(e, &m, s->fd);
	}
	m = (struct eg_msg){ .type = EG_AUDIT };
	if (r == 0)
		r = say(e, &m, audit);
	m = (struct eg_msg){ .type = EG_START };
	return r == 0 ? say(e, &m, -1) : r;
}

static int start_process(struct egress *e, int theirs)
{
	char path[PATH_MAX];
	char *const argv[] = { (char *)"brig-egress", NULL };
	char *const envp[] = { NULL }; /* nothing of ours is its business */
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none;
	pid_t pid;

	int r = helper_find("brig-egress", path);
	if (r < 0)
		return r;
	sigemptyset(&none);
	int x = posix_spawn_file_actions_init(&fa);
	if (!x)
		x = posix_spawn_file_actions_adddup2(&fa, theirs, EG_FD);
	if (!x)
		x = posix_spawnattr_init(&attr);
	if (!x) {
		/* our signal mask is not for it; a group of its own keeps the
		 * terminal's signals away */
		posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETPGROUP);
		posix_spawnattr_setsigmask(&attr, &none);
		posix_spawnattr_setpgroup(&attr, 0);
		x = posix_spawn(&pid, path, &fa, &attr, argv, envp);
	}
	if (x)
		return -x;
	e->pid = pid;
	return 0;
}

static void drop_sockets(struct egress *e)
{
	fd_close(&e->watch);
	for (unsigned i = 0; i < e->net.n; i++)
		fd_close(&e->net.socket[i].fd);
	e->net.n = 0;
}

static void stop(struct egress *e)
{
	fd_close(&e->sock); /* it ends by this */
	if (e->pid <= 0)
		return;
	for (int i = 0; i < 50; i++) {
		if (waitpid(e->pid, NULL, WNOHANG) != 0) {
			e->pid = -1;
			return;
		}
		poll(NULL, 0, i < 10 ? 1 : 10);
	}
	kill(e->pid, SIGKILL);
	while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR)
		;
	e->pid = -1;
}

static int start(struct egress *e, struct brig_error *err)
{
	int sv[2];
	cleanup_close int audit = audit_open();

	/* no connection without its line */
	if (audit < 0) {
		drop_sockets(e);
		return audit_failed(audit, err);
	}
	int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0 ? -errno : 0;
	if (r == 0) {
		e->sock = sv[0];
		r = start_process(e, sv[1]);
		close(sv[1]);
	}
	if (r == 0)
		r = tell_policy(e, audit);
	/* it has copies; ours would keep the sandbox's network alive */
	drop_sockets(e);
	if (r == 0)
		return 0;
	stop(e); /* it may hold some of them, and would keep programs waiting */
	err_set(err, BRIG_E_SETUP_FAILED, -r, "egress",
		"the process that relays the allow-list's connections");
	err_fix(err, r == -ENOENT ? "install brig-egress beside brig or in "
				    "../libexec/brig" : "brig doctor shows what is missing");
	return r;
}

static void deny(struct egress *e, const struct eg_event *ev, struct brig_result *res)
{
	char name[EG_NAME_LEN], target[EG_NAME_LEN + 8], rule[80], fix[EG_NAME_LEN + 40];

	if (res->n_denied >= DENIED_MAX) {
		e->lost += ev->count;
		return;
	}
	str_clean(ev->name, name, sizeof name);
	if (ev->port)
		snprintf(target, sizeof target, "%s:%u", name, ev->port);
	else
		snprintf(target, sizeof target, "%s", name);
	for (size_t i = 0; i < res->n_denied; i++)
		if (streq(res->denied[i].kind, "net") && streq(res->denied[i].target, target)) {
			res->denied[i].count += ev->count;
			return;
		}
	if (ev->reason == EG_R_ADDRESS && ev->via == EG_VIA_DIRECT &&
	    (strncmp(name, "127.", 4) == 0 || streq(name, "::1"))) {
		result_deny(res, "net", target, "the sandbox's own loopback",
			    "nothing inside listens there; the host's loopback is another one: "
			    "see docs/egress.md", ev->count);
		return;
	}
	switch (ev->reason) {
	case EG_R_NAME:
	case EG_R_PORT:
	case EG_R_ADDRESS:
		snprintf(rule, sizeof rule, "not in allow-list");
		snprintf(fix, sizeof fix, "--allow %s", target);
		break;
	default:
		snprintf(rule, sizeof rule, "%s", eg_reason_text(ev->reason));
		snprintf(fix, sizeof fix, "see docs/egress.md: %s", eg_reason_text(ev->reason));
		break;
	}
	result_deny(res, "net", target, rule, fix, ev->count);
}

/* brig-egress is told about each connection it asked about, known or not. */
static void tell_who(struct egress *e)
{
	struct who_ask ask[WHO_BATCH] = { 0 };

	for (unsigned i = 0; i < e->n_opened; i++) {
		const struct eg_event *ev = &e->opened[i].event;
		ask[i].family = ev->client_family;
		memcpy(ask[i].from, ev->client_addr, sizeof ask[i].from);
		memcpy(ask[i].to, ev->called_addr, sizeof ask[i].to);
		ask[i].from_port = ev->client_port;
		ask[i].to_port = ev->called_port;
	}
	who_find(&e->who, ask, e->n_opened);
	for (unsigned i = 0; i < e->n_opened; i++) {
		struct eg_msg m = { .type = EG_WHO, .size = sizeof m };
		m.who.serial = e->opened[i].event.serial;
		m.who.pid = ask[i].pid;
		m.who.holders = ask[i].holders;
		m.who.unseen = ask[i].unseen;
		if (ask[i].pid) {
			memcpy(m.who.comm, ask[i].comm, sizeof m.who.comm);
			memcpy(m.who.command, ask[i].command, sizeof m.who.command);
		}
		/* if it does not take it, its line will not say it */
		send(e->sock, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	e->n_opened = 0;
}

static void on_event(struct egress *e, struct eg_event *ev, struct brig_result *res)
{
	ev->name[sizeof ev->name - 1] = '\0';
	if (e->spec->learn) {
		learn_event(res, ev);
		res->learn_lost += ev->lost;
	}
	if (ev->verdict == EG_DENIED && ev->count)
		deny(e, ev, res);
}

static void on_open(struct egress *e, const struct eg_msg *m)
{
	if (!e->opened)
		e->opened = calloc(WHO_BATCH, sizeof *e->opened);
	if (e->opened && e->n_opened < WHO_BATCH)
		e->opened[e->n_opened++] = *m;
}

/* One record: 1, or 0 when there is none; -errno when it is nonsense or the end. */
static int listen_once(struct egress *e, struct brig_result *res,
		       struct brig_error *err)
{
	struct eg_msg m;
	ssize_t n = recv(e->sock, &m, sizeof m, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != (ssize_t)sizeof m || m.size != sizeof m)
		goto gone;
	switch (m.type) {
	case EG_EVENT:
		if (m.event.serial && e->live)
			e->live--;
		on_event(e, &m.event, res);
		return 1;
	case EG_OPEN:
		e->live++;
		on_open(e, &m);
		if (e->spec->learn)
			res->learn_lost += m.event.lost;
		return 1;
	case EG_READY:
		return 1;
	case EG_FATAL:
		m.fatal.what[sizeof m.fatal.what - 1] = '\0';
		err_set(err, BRIG_E_SETUP_FAILED,
			m.fatal.errnum > 0 && m.fatal.errnum < 4096 ? m.fatal.errnum : 0,
			"egress", "%.200s", m.fatal.what);
		err_fix(err, "brig doctor shows what is missing");
		return -EPIPE;
	default:
		break;
	}
gone:
	err_set(err, BRIG_E_SETUP_FAILED, EPIPE, "egress", "the egress process ended");
	err_fix(err, "run it again; if it happens twice, report it");
	return -EPIPE;
}

int egress_handle(struct egress *e, struct brig_result *res, struct brig_error *err)
{
	if (e->watch >= 0)
		return start(e, err);
	if (e->sock < 0)
		return 0;
	/* what came together is looked for together: one look at all processes */
	int r = 1;
	for (unsigned i = 0; r > 0 && i < WHO_BATCH; i++)
		r = listen_once(e, res, err);
	if (e->n_opened)
		tell_who(e);
	if (r < 0)
		stop(e);
	return r < 0 ? r : 0;
}

void egress_forget(struct egress *e)
{
	drop_sockets(e);
	fd_close(&e->sock);
}

void egress_end(struct egress *e, struct brig_result *res)
{
	struct brig_error ignored = { 0 };

	/* Its connections end with the processes that made them, and it has
	 * something to say about each: what is known to be open is waited for, as on
	 * a busy machine silence says little. */
	const uint64_t since = now_ns();
	int left;
	while (e->sock >= 0 && (left = deadline_left(since, END_MS)) > 0) {
		struct pollfd p = { .fd = e->sock, .events = POLLIN };
		if (poll(&p, 1, e->live ? left : QUIET_MS) <= 0)
			break;
		if (listen_once(e, res, &ignored) < 0)
			break;
		e->n_opened = 0; /* nobody is left to be found */
	}
	stop(e);
	drop_sockets(e);
	who_end(&e->who);
	egress_proxy_free(&e->proxy);
	free(take_ptr(e->opened));
	if (e->lost)
		result_deny(res, "net", "more", "too many to list", "", e->lost);
	e->lost = 0;
}
