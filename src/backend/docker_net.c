/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allow-list's sockets in a container that waits.  The container has a network
 * namespace with nothing but lo.  Root goes there and makes what a sandbox of brig's
 * own has: local routes, listeners, a redirection.  Whoever may only use the engine's
 * socket has no right to enter the namespace, and the container, for good reason, has
 * no capability to make a route.  But the whole of 127.0.0.0/8 is local everywhere: the
 * job makes listeners there and passes them out, and the names get addresses of that
 * network.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/docker.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/msg.h"
#include "base/str.h"
#include "base/sys.h"
#include "confine/netns_enter.h"

enum { SOCKET_MS = 10000 };

enum allow_form docker_net_form(const struct spec *s)
{
	return s->as_root ? ALLOW_ROUTED : ALLOW_LOOPBACK;
}

const char *docker_net_resolver(const struct spec *s)
{
	if (s->net != NET_ALLOW)
		return "";
	return docker_net_form(s) == ALLOW_ROUTED ? ALLOW_DNS_ADDRESS : ALLOW_DNS_LOOPBACK;
}

/* Held by a descriptor first, then looked at: what is entered is what was checked. */
static int enter(const struct docker_parked *p, struct egress *e, struct brig_error *err)
{
	cleanup_close int pidfd = sys_pidfd_open(p->job);

	if (pidfd < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, errno, "net", "the container's job");
	int r = docker_check_job(p, err);
	return r < 0 ? r : netns_enter(e, p->job, pidfd, err);
}

static void place(const struct allow_socket *s, struct park_place *out)
{
	const char *address = s->role == ALLOW_DNS_UDP || s->role == ALLOW_DNS_TCP ?
				      ALLOW_DNS_LOOPBACK :
			      s->role == ALLOW_PORT ? "0.0.0.0" : "127.0.0.1";

	*out = (struct park_place){ .stream = s->role != ALLOW_DNS_UDP, .port = s->port };
	inet_pton(AF_INET, address, out->addr);
}

static int ask(const struct docker_parked *p, struct egress *e)
{
	struct buf b = { 0 };
	const struct park_net net = { egress_expected(e) };

	buf_add(&b, &net, sizeof net);
	for (uint32_t i = 0; i < net.count; i++) {
		struct park_place at;
		place(&e->net.socket[i], &at);
		buf_add(&b, &at, sizeof at);
	}
	int r = buf_ok(&b) ? docker_frame_send(p->fd, PARK_NET, b.data, b.len, NULL, 0) : -ENOMEM;
	buf_free(&b);
	return r;
}

/* One answer: the descriptor, or -errno. */
static int receive(int sock)
{
	struct {
		struct park_head head;
		struct park_socket s;
	} a;
	struct msg_in in;
	struct pollfd w = { sock, POLLIN, 0 };
	cleanup_close int fd = -1;

	if (poll(&w, 1, SOCKET_MS) <= 0)
		return -ETIMEDOUT;
	ssize_t n = msg_recv(sock, &a, sizeof a, MSG_WAITALL, &in);
	fd = msg_fd(&in);
	if (n != (ssize_t)sizeof a || a.head.type != PARK_SOCKET || a.head.len != sizeof a.s)
		return -EPROTO;
	if (a.s.errnum > 0 && a.s.errnum < 4096)
		return -a.s.errnum;
	return fd >= 0 ? take_fd(&fd) : -EPROTO;
}

static int refused(int r, uint16_t port, struct brig_error *err)
{
	err_set(err, r == -EACCES || r == -EPERM ? BRIG_E_UNSUPPORTED : BRIG_E_SETUP_FAILED, -r,
		"net", "a listener of the allow-list in the container (port %u)", port);
	err_fix(err, "the engine must let containers set net.ipv4.ip_unprivileged_port_start; or "
		     "run brig as root, or use --backend native");
	return r;
}

static int from_job(const struct docker_parked *p, struct egress *e, struct brig_error *err)
{
	int fds[ALLOW_MAX_SOCKETS], r = ask(p, e);
	size_t n = 0;
	uint16_t port = 0;

	for (size_t count = e->net.n; r >= 0 && n < count;) {
		port = e->net.socket[n].port;
		r = receive(p->fd);
		if (r >= 0)
			fds[n++] = r;
	}
	if (r >= 0)
		r = egress_adopt(e, fds, n);
	if (r >= 0)
		return 0;
	while (n)
		close(fds[--n]);
	e->net.n = 0;
	return refused(r, port, err);
}

int docker_net_make(const struct docker_parked *p, struct egress *e, struct brig_error *err)
{
	/* an interface that somebody added would be a way past the list */
	if (p->stream || p->report.foreign_links != 0 ||
	    !(p->says & LAYER_BIT(LAYER_NET))) {
		err_set(err, BRIG_E_REQUIRE_UNMET, 0, "net",
			"the container has another network than none");
		err_fix(err, "a plug-in or proxy of the engine changes requests: look at its "
			     "settings");
		return -EPERM;
	}
	return e->net.form == ALLOW_ROUTED ? enter(p, e, err) : from_job(p, e, err);
}
