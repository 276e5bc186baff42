/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"

enum { NOBODY = 65534, PATIENCE_MS = 10000 };

static void child(char *const *argv, int out) __attribute__((noreturn));
static void child(char *const *argv, int out)
{
	char *env[] = { NULL };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(126);
	sys_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	/* a sandbox program is tried as it is used: never as root */
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0))
		_exit(126);
	setsid();
	if (chdir("/") == 0)
		execve(argv[0], argv, env);
	_exit(127);
}

int spawn_output(char *const *argv, char *out, size_t cap)
{
	int p[2], st = 0;
	size_t got = 0;

	out[0] = '\0';
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		child(argv, p[1]);
	close(p[1]);
	if (pid < 0) {
		close(p[0]);
		return -EAGAIN;
	}
	for (;;) {
		struct pollfd pf = { .fd = p[0], .events = POLLIN };
		char more[512];
		if (poll(&pf, 1, PATIENCE_MS) <= 0)
			break;
		ssize_t n = read(p[0], more, sizeof more);
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n && got + 1 < cap; i++)
			out[got++] = more[i];
	}
	out[got] = '\0';
	close(p[0]);
	kill(pid, SIGKILL); /* done, or too slow; a zombie does not mind */
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}
