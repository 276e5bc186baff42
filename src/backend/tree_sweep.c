/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a process tree without a pid namespace.  The caller is a subreaper, so
 * whatever the command did (setsid, double fork, ignored signals) each of its
 * processes has an unbroken line of parents up to the caller.  First all of
 * them are stopped, until a whole look at the process table finds nobody new:
 * then nobody is left who could fork.  Then all are killed and reaped.
 *
 * No allocation and no stdio: the keeper runs this after its supervisor died.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/tree.h"
#include "base/fd.h"
#include "base/sys.h"

enum {
	TABLE_MAX = 16384, /* what does not fit is dealt with in the next look */
	STOP_ROUNDS = 200,
	END_ROUNDS = 40,
	STUCK_MS = 3000,
};

struct entry {
	pid_t pid, ppid;
	uint64_t start; /* with the pid it names one process for ever */
	bool ours, moving;
};

/* Pages are touched only when a tree left something behind. */
static struct entry table[TABLE_MAX];
static size_t n_table;

static bool to_pid(const char *s, pid_t *pid)
{
	long v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || v > 100000000)
			return false;
		v = v * 10 + (*s - '0');
	}
	*pid = (pid_t)v;
	return v > 0;
}

static uint64_t number(const char **p)
{
	uint64_t v = 0;

	while (**p == ' ')
		(*p)++;
	for (; **p >= '0' && **p <= '9'; (*p)++)
		v = v * 10 + (uint64_t)(**p - '0');
	return v;
}

/* Reads what we need of NAME/stat below proc.  The command's name in it may
 * hold anything, so the fields are counted from the last parenthesis. */
static bool read_stat(int proc, const char *name, struct entry *e)
{
	char path[32], text[1024];
	size_t n = strlen(name);

	if (n > 10 || !to_pid(name, &e->pid))
		return false;
	memcpy(path, name, n);
	memcpy(path + n, "/stat", 6);
	if (fd_read_at(proc, path, text, sizeof text) <= 0)
		return false;
	const char *p = strrchr(text, ')');
	if (!p || p[1] != ' ')
		return false;
	char state = p[2];
	p += 3;
	e->ppid = (pid_t)number(&p);
	for (int i = 5; i < 22 && *p; i++) { /* on to field 22 */
		while (*p == ' ')
			p++;
		while (*p && *p != ' ')
			p++;
	}
	e->start = number(&p);
	e->moving = state != 'T' && state != 't' && state != 'Z' && state != 'X';
	e->ours = false;
	return true;
}

/* The whole process table.  -errno without /proc. */
static int look(int proc)
{
	char buf[8192] __attribute__((aligned(8)));

	n_table = 0;
	if (lseek(proc, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		long n = syscall(SYS_getdents64, proc, buf, sizeof buf);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (long at = 0; at < n && n_table < TABLE_MAX;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			if (read_stat(proc, d->name, &table[n_table]))
				n_table++;
			at += d->len;
		}
	}
}

/* Marks the descendants of the caller; how many of them still move. */
static size_t mark(uint64_t since)
{
	pid_t self = getpid();
	size_t moving = 0;

	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < n_table; i++) {
			struct entry *e = &table[i];
			if (e->ours)
				continue;
			bool child = e->ppid == self && e->start >= since;
			for (size_t k = 0; k < n_table && !child; k++)
				child = table[k].ours && table[k].pid == e->ppid;
			if (!child)
				continue;
			e->ours = more = true;
			moving += e->moving;
		}
	}
	return moving;
}

/* To exactly the process that was looked at: a pidfd holds whoever has the
 * number now, and only the one with the same start is meant. */
static int signal_entry(int proc, const struct entry *e, int sig)
{
	char name[12], *p = name + sizeof name - 1;
	struct entry now;
	unsigned v = (unsigned)e->pid;

	*p = '\0';
	do
		*--p = (char)('0' + v % 10);
	while ((v /= 10));
	int fd = sys_pidfd_open(e->pid);
	if (fd < 0)
		return errno == ESRCH ? 0 : -errno;
	int r = 0;
	if (read_stat(proc, p, &now) && now.start == e->start &&
	    sys_pidfd_send_signal(fd, sig, 0) < 0 && errno != ESRCH)
		r = -errno;
	close(fd);
	return r;
}

static int signal_all(int proc, int sig, bool moving_only)
{
	int refused = 0;

	for (size_t i = 0; i < n_table; i++)
		if (table[i].ours && (!moving_only || table[i].moving) &&
		    signal_entry(proc, &table[i], sig) < 0)
			refused++;
	return refused;
}

static void nap(long us)
{
	const struct timespec t = { 0, us * 1000 };

	nanosleep(&t, NULL);
}

/* Reaps what is dead.  False when there is no child left but the spared. */
static bool reap(uint64_t since)
{
	if (!since) {
		pid_t p;
		do
			p = waitpid(-1, NULL, WNOHANG | __WALL);
		while (p > 0 || (p < 0 && errno == EINTR));
		/* any other failure says nothing about children */
		return p == 0 || errno != ECHILD;
	}
	/* the caller's own children are not ours to wait for */
	for (size_t i = 0; i < n_table; i++)
		if (table[i].ours && table[i].ppid == getpid())
			waitpid(table[i].pid, NULL, WNOHANG | __WALL);
	return true;
}

/*
 * Kills our children, as the kernel lists them for us alone: what was left of a tree is
 * mostly one process that is dying already, or the first of a pid namespace, with which
 * all of that ends.  That costs one small file, where a look at the process table costs
 * one for each process of the machine.  Nobody else reaps them, so a number is the one it
 * was.  True when nobody is left; else, and where the kernel has no such list, the long
 * way is still to go.
 */
static bool kill_children(void)
{
	char text[1024];

	for (int round = 0; round < 20; round++) {
		if (!reap(0))
			return true;
		if (fd_read_at(AT_FDCWD, "/proc/thread-self/children", text, sizeof text) <= 0)
			return false;
		for (const char *p = text; *p >= '0' && *p <= '9'; p += *p == ' ') {
			pid_t pid = (pid_t)number(&p);
			/* the last of a list that did not fit may be half a number */
			if (*p == ' ' && pid > 0)
				kill(pid, SIGKILL);
		}
		nap(round < 10 ? 100 : 1000);
	}
	return false;
}

static int open_proc(void)
{
	return openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Stops all of them, until a whole look finds nobody who still moves.  -errno
 * without a process table. */
static int stop_all(int proc, uint64_t since)
{
	for (int i = 0; i < STOP_ROUNDS; i++) {
		int r = look(proc);
		if (r < 0)
			return r;
		if (mark(since) == 0)
			break;
		if (signal_all(proc, SIGSTOP, true) > 0)
			break; /* not ours to stop: kill what can be killed */
	}
	return 0;
}

int tree_sweep(uint64_t since)
{
	int left = 0;
	unsigned waited = 0;

	/* nearly always there is nothing, and no process table need be read */
	if (!since && kill_children())
		return 0;
	cleanup_close int proc = open_proc();
	if (proc < 0)
		return 1;
	for (int round = 0; round < END_ROUNDS && waited < STUCK_MS; round++) {
		if (stop_all(proc, since) < 0)
			return 1;
		left = signal_all(proc, SIGKILL, false);
		size_t ours = 0;
		for (size_t i = 0; i < n_table; i++)
			ours += table[i].ours;
		if (ours == 0)
			return 0;
		/* the dead leave a moment later, and leave their children to us */
		for (int i = 0; i < 20; i++) {
			if (!reap(since))
				return 0;
			nap(i < 10 ? 200 : 5000);
			waited += i < 10 ? 0 : 5;
			if (i == 4 && since)
				break;
		}
	}
	return left > 0 ? left : 1;
}

uint64_t tree_began(pid_t pid)
{
	char name[12], *p = name + sizeof name - 1;
	struct entry e;
	unsigned v = (unsigned)pid;
	cleanup_close int proc = open_proc();

	*p = '\0';
	do
		*--p = (char)('0' + v % 10);
	while ((v /= 10));
	return proc >= 0 && read_stat(proc, p, &e) ? e.start : 0;
}
