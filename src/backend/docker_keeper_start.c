/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the keeper of a pool: detached, with nothing of the caller's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/docker_engine.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/sys.h"

enum { RECIPE_FD = 3 };

/* In the child: only calls that are safe after a fork. */
static void become_keeper(const char *path, int recipe)
{
	char *const argv[] = { (char *)"brig-pool", NULL };
	char *const envp[] = { NULL };
	sigset_t none;

	setsid();
	int null = open("/dev/null", O_RDWR);
	if (null < 0 || chdir("/") < 0)
		_exit(1);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	/* the recipe keeps its place and loses close-on-exec; the rest goes */
	if (recipe == RECIPE_FD ? fcntl(recipe, F_SETFD, 0) < 0 : dup2(recipe, RECIPE_FD) < 0)
		_exit(1);
	if (sys_close_range(RECIPE_FD + 1, ~0u, 0) < 0)
		for (int fd = RECIPE_FD + 1; fd < 1024; fd++)
			close(fd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_IGN);
	execve(path, argv, envp);
	_exit(1);
}

int docker_keeper_start(const struct docker_recipe *r)
{
	char path[PATH_MAX];

	int e = helper_find("brig-pool", path);
	if (e < 0)
		return e;
	cleanup_free char *text = docker_recipe_text(r);
	cleanup_close int fd = memfd_create("brig-pool", MFD_CLOEXEC);
	if (!text || fd < 0 || fd_write_full(fd, text, strlen(text)) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return -ENOMEM;
	pid_t pid = fork();
	if (pid == 0) {
		/* twice: the keeper is nobody's child, and nobody waits for it */
		if (fork() == 0)
			become_keeper(path, fd);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return pid < 0 ? -EAGAIN : 0;
}
