/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/connects.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/timed.h"
#include "confine/seccomp.h"

enum {
	WAIT_MS = 50,     /* for one's own listener: it takes them at once or is swamped */
	DENIED_MAX = 100, /* different addresses in one result */
};

/* A thread's process, which a pidfd needs. */
static pid_t process_of(pid_t thread)
{
	big_buffer char text[1024];
	char path[40];

	snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
	if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
		return -1;
	const char *v = strstr(text, "\nTgid:");
	return v ? (pid_t)atoi(v + 6) : -1;
}

/* The address that the call was given.  -errno. */
static int read_address(const struct seccomp_notif *q, struct sockaddr_in *a)
{
	char path[32];

	*a = (struct sockaddr_in){ 0 };
	if ((uint32_t)q->data.args[2] < sizeof *a)
		return -EINVAL;
	snprintf(path, sizeof path, "/proc/%u/mem", q->pid);
	cleanup_close int mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return -errno;
	ssize_t n = pread(mem, a, sizeof *a, (off_t)q->data.args[1]);
	if (n != (ssize_t)sizeof *a)
		return n < 0 ? -errno : -EFAULT;
	return a->sin_family == AF_INET ? 0 : -EAFNOSUPPORT;
}

static bool is_tcp(int fd)
{
	static const int what[] = { SO_DOMAIN, SO_TYPE, SO_PROTOCOL };
	static const int want[] = { AF_INET, SOCK_STREAM, IPPROTO_TCP };

	for (size_t i = 0; i < ARRAY_LEN(what); i++) {
		int v = -1;
		socklen_t len = sizeof v;
		if (getsockopt(fd, SOL_SOCKET, what[i], &v, &len) < 0 || v != want[i])
			return false;
	}
	return true;
}

/* To a listener of ours.  A socket that blocks must not block us: the flag is the
 * socket's, so it is put back.  Another thread of the command may do so before: then we are
 * interrupted, which leaves the connection in progress, too.  -errno. */
static int dial(int fd, const struct sockaddr_in *a)
{
	int flags = fcntl(fd, F_GETFL);
	struct pollfd p = { fd, POLLOUT, 0 };

	if (flags < 0)
		return -errno;
	if (!(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	int r = timed_connect(fd, (const struct sockaddr *)a, sizeof *a, WAIT_MS);
	if (r == -EINTR)
		r = -EINPROGRESS;
	if (r == -EINPROGRESS && !(flags & O_NONBLOCK)) {
		int e = ETIMEDOUT;
		socklen_t len = sizeof e;
		if (poll(&p, 1, WAIT_MS) > 0)
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
		r = -e;
	}
	if (!(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags);
	return r;
}

static void deny(struct connects *c, const struct sockaddr_in *a, struct brig_result *res)
{
	char text[INET_ADDRSTRLEN] = "?", target[40];

	inet_ntop(AF_INET, &a->sin_addr, text, sizeof text);
	snprintf(target, sizeof target, "%s:%u", text, ntohs(a->sin_port));
	for (size_t i = 0; i < res->n_denied; i++)
		if (streq(res->denied[i].kind, "net") && streq(res->denied[i].target, target)) {
			res->denied[i].count++;
			return;
		}
	if (c->n_denied++ < DENIED_MAX)
		result_deny(res, "net", target, "only the proxy in HTTPS_PROXY can be reached",
			    "a program that heeds the proxy variables, or --backend native", 1);
}

static bool still_waits(int listener, const struct seccomp_notif *q)
{
	return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &q->id) == 0;
}

/* 0 or -errno, for the caller of connect(). */
static int answer(struct connects *c, int listener, const struct seccomp_notif *q,
		  struct brig_result *res)
{
	struct sockaddr_in a;
	cleanup_close int pidfd = sys_pidfd_open(process_of((pid_t)q->pid));
	int r = pidfd < 0 ? -EPERM : read_address(q, &a);

	if (r < 0)
		return r;
	if (a.sin_addr.s_addr != htonl(INADDR_LOOPBACK) ||
	    (ntohs(a.sin_port) != c->ports[0] && ntohs(a.sin_port) != c->ports[1])) {
		deny(c, &a, res);
		return -EACCES;
	}
	cleanup_close int fd = (int)syscall(SYS_pidfd_getfd, pidfd, (int)q->data.args[0], 0);
	if (fd < 0)
		return -errno;
	/* the numbers were those of the one who waits, all the time */
	if (!still_waits(listener, q))
		return -EPERM;
	return is_tcp(fd) ? dial(fd, &a) : -EAFNOSUPPORT;
}

void connects_handle(struct connects *c, int *listener, uint32_t refused[DENY_MAX_CALL],
		     struct brig_result *res)
{
	struct seccomp_notif q;

	memset(&q, 0, sizeof q); /* the kernel wants it so */
	if (ioctl(*listener, SECCOMP_IOCTL_NOTIF_RECV, &q) < 0) {
		if (errno != ENOENT && errno != EINTR)
			fd_close(listener);
		return;
	}
	struct seccomp_notif_resp resp = { .id = q.id };
	if (q.data.nr == SYS_connect) {
		resp.error = answer(c, *listener, &q, res);
	} else {
		notify_count(q.data.nr, refused);
		resp.error = -seccomp_refusal_errno(q.data.nr);
	}
	notify_answer(*listener, &resp);
}
