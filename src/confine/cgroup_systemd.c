/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scope from systemd, for people who log in: their session's group is not theirs to write,
 * but their service manager gives away groups that are.
 *
 * brig connects, because systemd puts the process that connected into the scope.  The helper
 * brig-scope speaks D-Bus on that connection.  The other end runs as us or as root; brig
 * trusts nothing but its own group afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/helper.h"
#include "base/str.h"
#include "base/sys.h"
#include "confine/cgroup_internal.h"

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- the helper --- */

static void become_helper(const char *path, const char *unit, const char *kind, int sock,
			  int out) __attribute__((noreturn));
static void become_helper(const char *path, const char *unit, const char *kind, int sock,
			  int out)
{
	static const char message[] = "brig-scope cannot be executed\n";
	char *const argv[] = { (char *)"brig-scope", (char *)unit, (char *)kind, NULL };
	char *const env[] = { NULL };

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (dup2(sock, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2 &&
	    sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
		execve(path, argv, env);
	(void)!write(out, message, sizeof message - 1);
	_exit(127);
}

/* Reads the first line until the writer is gone.  Its length, or -errno. */
static int read_line(int fd, int64_t deadline, char *line, size_t cap)
{
	size_t got = 0;

	for (;;) {
		char more[256];
		int64_t left = deadline - now_ms();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
		if (ready == 0)
			return -ETIMEDOUT;
		ssize_t n = ready < 0 ? -1 : read(fd, more, sizeof more);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		for (ssize_t i = 0; i < n && got + 1 < cap; i++)
			line[got++] = more[i];
	}
	line[got] = '\0';
	return (int)strcspn(line, "\n");
}

/* Has the helper ask for the scope on the connection.  0, or -errno with the reason in why. */
static int run_helper(const char *unit, const char *kind, int sock, int64_t deadline,
		      char *why, size_t cap)
{
	big_buffer char helper[PATH_MAX];
	char line[160];
	int p[2];

	if (helper_find("brig-scope", helper) < 0) {
		snprintf(why, cap, "brig's helper brig-scope, which asks systemd for a scope, "
				   "is not installed");
		return -ENOPKG;
	}
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		become_helper(helper, unit, kind, sock, p[1]);
	int r = pid < 0 ? -errno : 0;
	close(p[1]);
	if (r == 0)
		r = read_line(p[0], deadline, line, sizeof line);
	close(p[0]);
	if (pid > 0) {
		kill(pid, SIGKILL); /* done, or too slow */
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	/* nothing said is no proof: our group tells */
	if (r <= 0)
		return r;
	line[r] = '\0';
	str_clean(line, why, cap);
	return -EREMOTEIO;
}

/* --- where systemd listens --- */

static int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof a.sun_path)
		return -ENAMETOOLONG;
	memcpy(a.sun_path, path, strlen(path) + 1);
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* a full backlog would block connect for ever otherwise */
	struct timeval t = { .tv_sec = 1 };
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
	if (connect(fd, (const struct sockaddr *)&a, sizeof a) < 0)
		return -errno;
	/* not somebody else's socket in a directory we were pointed at */
	struct ucred peer;
	socklen_t len = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	if (peer.uid != 0 && peer.uid != geteuid())
		return -EPERM;
	return take_fd(&fd);
}

/* Waits until the last part of our version 2 group is the unit. */
static int wait_inside(const char *unit, int64_t deadline)
{
	size_t n = strlen(unit);

	for (unsigned ms = 1;; ms = ms < 16 ? ms * 2 : ms) {
		char text[16 * 1024];
		const char *path;
		size_t len;
		ssize_t got = fd_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);
		if (got < 0)
			return (int)got;
		if (cg_line_find(text, NULL, &path, &len) && len > n &&
		    path[len - n - 1] == '/' && memcmp(path + len - n, unit, n) == 0)
			return 0;
		if (now_ms() >= deadline)
			return -ETIMEDOUT;
		cg_sleep_ms(ms);
	}
}

/* One socket that is connected: the whole conversation. */
static int ask(int sock, bool bus, const char *id, int64_t deadline, char *why, size_t cap)
{
	char unit[96];

	snprintf(unit, sizeof unit, "brig-%s.scope", id);
	why[0] = '\0';
	int r = run_helper(unit, bus ? "bus" : "direct", sock, deadline, why, cap);
	if (r < 0 && !why[0])
		snprintf(why, cap, "systemd gave no scope: %s", strerror(-r));
	if (r < 0)
		return r;
	r = wait_inside(unit, deadline);
	if (r < 0)
		snprintf(why, cap, "systemd did not move brig into %s: %s", unit, strerror(-r));
	return r;
}

int cg_systemd_scope(const char *id, int timeout_ms, char *why, size_t cap)
{
	char path[2][PATH_MAX], dir[PATH_MAX];
	const char *run = getenv("XDG_RUNTIME_DIR");
	const int64_t deadline = now_ms() + timeout_ms;
	int n_paths = 2, r = -ENOENT;

	if (geteuid() == 0) {
		/* root's sandboxes belong to the system's own manager */
		snprintf(path[0], PATH_MAX, "/run/systemd/private");
		n_paths = 1;
	} else {
		if (run && *run == '/')
			snprintf(dir, sizeof dir, "%.2000s", run);
		else
			snprintf(dir, sizeof dir, "/run/user/%u", (unsigned)geteuid());
		snprintf(path[0], PATH_MAX, "%.2000s/systemd/private", dir);
		snprintf(path[1], PATH_MAX, "%.2000s/bus", dir);
	}
	for (int i = 0; i < n_paths; i++) {
		cleanup_close int fd = connect_to(path[i]);
		if (fd >= 0)
			return ask(fd, i == 1, id, deadline, why, cap);
		if (r == -ENOENT)
			r = fd;
		snprintf(why, cap, "no systemd to ask for a scope: %.80s: %s", path[0],
			 strerror(-r));
	}
	return r;
}
