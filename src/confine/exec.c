/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/raw.h"
#include "base/str.h"
#include "base/sys.h"

char **exec_script_argv(char **argv)
{
	size_t n = strv_len(argv);
	static char sh[] = "sh";
	char **v = calloc(n + 2, sizeof *v);

	if (!v)
		return NULL;
	v[0] = sh;
	memcpy(v + 2, argv + 1, n * sizeof *v);
	return v;
}

/* A text file without #! is the shell's to run; a program of another machine
 * is not, and neither is what cannot be read. */
static bool is_script(const char *path)
{
	char head[4] = "";
	int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	bool script = fd >= 0 && read(fd, head, sizeof head) >= 0 &&
		      memcmp(head, "\177ELF", 4) != 0;

	if (fd >= 0)
		close(fd);
	return script;
}

int exec_candidates(char *const *paths, char **argv, char **env, char **script)
{
	int best = ENOENT;

	for (char *const *path = paths; *path; path++) {
		execve(*path, argv, env);
		int why = errno;
		if (why == ENOEXEC && script && is_script(*path)) {
			/* the shell's own rule */
			script[1] = *path;
			execve("/bin/sh", script, env);
		}
		/* keep looking past what is not there; remember what was */
		if (why != ENOENT && why != ENOTDIR)
			best = why;
	}
	return best;
}

void exec_default_signals(void)
{
	/* The kernel's own structure, all zero: SIG_DFL.  Not through the C
	 * library, which keeps some signals to itself. */
	static const unsigned long dfl[4], none;

	for (int sig = 1; sig <= 64; sig++)
		SYS4(SYS_rt_sigaction, sig, dfl, 0, 8); /* not KILL and STOP */
	SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, 8);
}

int exec_plain_priority(const char **what)
{
	enum { OTHER = 0, BATCH = 3, IDLE = 5, RESET_ON_FORK = 0x40000000 };
	enum { IO_PROCESS = 1, IO_CLASS = 13, IO_REALTIME = 1 };
	static const struct rlimit none;
	static const int level; /* struct sched_param: none */

	/* As long as these are there, it could take it for itself. */
	*what = "limits on priorities";
	long r = SYS4(SYS_prlimit64, 0, RLIMIT_RTPRIO, &none, 0);
	if (r == 0)
		r = SYS4(SYS_prlimit64, 0, RLIMIT_NICE, &none, 0);
	if (r < 0)
		return (int)r;
	*what = "the priority";
	r = SYS1(SYS_sched_getscheduler, 0);
	if (r < 0)
		return (int)r;
	r &= ~RESET_ON_FORK;
	if (r != OTHER && r != BATCH && r != IDLE)
		r = SYS3(SYS_sched_setscheduler, 0, OTHER, &level);
	/* the call itself answers 20 for none, and more for raised */
	if (r >= 0 && SYS2(SYS_getpriority, PRIO_PROCESS, 0) > 20)
		r = SYS3(SYS_setpriority, PRIO_PROCESS, 0, 0);
	if (r >= 0 && SYS2(SYS_ioprio_get, IO_PROCESS, 0) >> IO_CLASS == IO_REALTIME)
		r = SYS3(SYS_ioprio_set, IO_PROCESS, 0, 0);
	return r < 0 ? (int)r : 0;
}

void exec_leave(int code)
{
	SYS1(SYS_exit_group, code);
	SYS1(SYS_exit, code);
	__builtin_trap();
}
