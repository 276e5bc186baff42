/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child goes there, so that nothing of the supervisor is ever in a namespace of
 * the sandbox, makes what is needed, sends the sockets back and ends.
 */
#include "confine/netns_enter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/wire.h"

enum { ENTER_MS = 10000 };
_Static_assert((int)MSG_FDS > (int)ALLOW_MAX_SOCKETS, "one record carries them all");

/* The two namespaces: of the network, and the user namespace that owns it, which is
 * not always that of the process. */
struct place {
	int net, user; /* user is -1 when it is our own */
};

static bool same(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static int find_place(struct place *p, pid_t pid, int pidfd)
{
	char path[40];

	snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
	p->net = open(path, O_RDONLY | O_CLOEXEC);
	if (p->net < 0)
		return -errno;
	/* the number still means that process: it was not used again meanwhile */
	if (sys_pidfd_send_signal(pidfd, 0, 0) < 0 && errno != EPERM)
		return -errno;
	/* never the host's: routes and redirections would be everybody's */
	if (same(p->net, "/proc/self/ns/net") || same(p->net, "/proc/1/ns/net"))
		return -EXDEV;
	p->user = ioctl(p->net, NS_GET_USERNS);
	if (p->user < 0)
		return -errno;
	if (same(p->user, "/proc/self/ns/user"))
		fd_close(&p->user);
	return 0;
}

static void visit(const struct place *p, struct allow_net *a, int sock)
	__attribute__((noreturn));
static void visit(const struct place *p, struct allow_net *a, int sock)
{
	struct wire w = { .type = WIRE_NET };
	int fds[ALLOW_MAX_SOCKETS + 1], r = 0;
	unsigned n;

	a->n = 0;
	a->failed = "entering the sandbox's user namespace";
	/* as its owner we have every capability there, and only there */
	if (p->user >= 0 && setns(p->user, CLONE_NEWUSER) < 0)
		r = -errno;
	if (r == 0) {
		a->failed = "entering the sandbox's network namespace";
		r = setns(p->net, CLONE_NEWNET) < 0 ? -errno : 0;
	}
	if (r == 0) {
		a->failed = "the loopback interface";
		r = netns_loopback_up();
	}
	if (r == 0)
		r = netns_allow(a);
	if (r < 0) {
		w.type = WIRE_FAIL;
		w.errnum = -r;
		snprintf(w.what, sizeof w.what, "%s", a->failed);
		a->n = 0;
		a->diag = -1;
	}
	for (n = 0; n < a->n; n++)
		fds[n] = a->socket[n].fd;
	if (a->diag >= 0)
		fds[n++] = a->diag;
	_exit(wire_send(sock, &w, fds, n) < 0);
}

/* The one record, and its descriptors.  0 or -errno. */
static int receive(int sock, struct wire_in *in)
{
	struct pollfd p = { sock, POLLIN, 0 };

	if (poll(&p, 1, ENTER_MS) <= 0)
		return -ETIMEDOUT;
	return wire_recv(sock, in) == 1 ? 0 : -EPIPE;
}

static int send_child(const struct place *p, struct egress *e, struct wire_in *in)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	cleanup_close int ours = sv[0];
	pid_t self = getpid(), pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != self)
			_exit(1);
		visit(p, &e->net, sv[1]);
	}
	close(sv[1]);
	if (pid < 0)
		return -errno;
	int r = receive(ours, in);
	if (r == -ETIMEDOUT)
		kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

static int refused(int r, const struct wire *w, struct brig_error *err)
{
	if (r == -EXDEV) {
		err_set(err, BRIG_E_REQUIRE_UNMET, 0, "net",
			"the sandbox has no network namespace of its own");
		err_fix(err, "an allow-list needs one; brig doctor tells which backends have it");
	} else {
		err_set(err, BRIG_E_NAMESPACE_DENIED, -r, "net", "%.150s",
			w->type == WIRE_FAIL ? w->what : "the sandbox's network namespace");
		err_fix(err, "use --backend native, or run without an allow-list");
	}
	return r;
}

int netns_enter(struct egress *e, pid_t pid, int pidfd, struct brig_error *err)
{
	struct place p = { -1, -1 };
	struct wire_in in = { .msg.n_fds = 0 };
	int r = find_place(&p, pid, pidfd);

	if (r == 0)
		r = send_child(&p, e, &in);
	if (r == 0 && in.w.type == WIRE_FAIL) {
		in.w.what[sizeof in.w.what - 1] = '\0';
		r = in.w.errnum > 0 ? -in.w.errnum : -EPROTO;
	}
	if (r == 0)
		r = egress_adopt(e, in.msg.fds, in.msg.n_fds);
	fd_close(&p.net);
	fd_close(&p.user);
	if (r == 0)
		return 0;
	int left = msg_fd(&in.msg);
	fd_close(&left);
	return refused(r, &in.w, err);
}
