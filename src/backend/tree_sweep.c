/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a process tree without a pid namespace.  The caller is a subreaper: whatever the
 * command did (setsid, double fork, ignored signals), each of its processes becomes the
 * caller's child at the latest when its parents are dead.  So it is enough to kill children,
 * again and again, until there are none.  Their numbers cannot be anybody else's: nobody but
 * the caller reaps them.  Their descendants are killed as well, as far as they are found:
 * a crowd of hundreds leaves us little time, and each generation would cost a turn.
 *
 * The dead are kept until nobody is alive.  They count for the tree's limit, so a tree
 * that goes on forking fills it with them and comes to a halt.
 *
 * No allocation: the keeper runs this after its supervisor died.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/tree.h"
#include "base/fd.h"
#include "base/sys.h"

enum {
	STUCK_MS = 4000,
	/* So many dead are kept: more than most limits allow, and few enough that looking at
	 * them does not give a tree without a limit time to fork. */
	DEAD_MAX = 1024,
	DEPTH_MAX = 32,
};

/* One look at all children. */
struct look {
	uint64_t since; /* children that began before it are not part of the tree */
	int proc;
	int alive, dead;
};

/* Linux 6.13, newer than the headers we build with. */
struct sys_pidfd_info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8], spare;
};
#define PIDFD_INFO_PID_ 1u
#define PIDFD_GET_INFO_ _IOWR(0xff, 11, struct sys_pidfd_info)

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

/* Reads NAME/stat below proc: the parent, and when it began in the kernel's ticks.  The
 * command's name in it may hold anything, so the fields are counted from the last
 * parenthesis. */
static bool read_stat(int proc, const char *name, pid_t *parent, uint64_t *began)
{
	char path[32], text[1024];
	size_t n = strlen(name);

	if (n > 10)
		return false;
	memcpy(path, name, n);
	memcpy(path + n, "/stat", 6);
	if (fd_read_at(proc, path, text, sizeof text) <= 0)
		return false;
	const char *p = strrchr(text, ')');
	if (!p || p[1] != ' ')
		return false;
	p += 3;
	*parent = (pid_t)number(&p);
	for (int i = 5; i < 22 && *p; i++) { /* on to field 22 */
		while (*p == ' ')
			p++;
		while (*p && *p != ' ')
			p++;
	}
	*began = number(&p);
	return true;
}

static int open_proc(void)
{
	return openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

uint64_t tree_began(pid_t pid)
{
	char name[12], *p = name + sizeof name - 1;
	unsigned v = (unsigned)pid;
	uint64_t began;
	pid_t parent;
	cleanup_close int proc = open_proc();

	*p = '\0';
	do
		*--p = (char)('0' + v % 10);
	while ((v /= 10));
	return proc >= 0 && read_stat(proc, p, &parent, &began) ? began : 0;
}

static bool is_dead(pid_t pid)
{
	siginfo_t si = { 0 };

	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 ||
	       si.si_pid == pid;
}

static int open_children(int proc, pid_t pid)
{
	char path[48];

	snprintf(path, sizeof path, "%d/task/%d/children", (int)pid, (int)pid);
	return openat(proc, path, O_RDONLY | O_CLOEXEC);
}

static bool is_parent(int proc, int pidfd, pid_t pid, pid_t parent)
{
	struct sys_pidfd_info info = { .mask = PIDFD_INFO_PID_ };
	uint64_t began;
	char name[16];
	pid_t now;

	if (ioctl(pidfd, PIDFD_GET_INFO_, &info) == 0)
		return info.ppid == (uint32_t)parent;
	snprintf(name, sizeof name, "%d", (int)pid);
	return read_stat(proc, name, &now, &began) && now == parent;
}

static void kill_below(int proc, int children, pid_t parent, int depth);

/* A child of a process that is part of the tree.  Its number may have been given to somebody
 * else since we read it: a pidfd holds who has it now, and only a child of that parent is meant.
 * If it can be signalled then it still has the number, and the list is its own. */
static void kill_child(int proc, pid_t pid, pid_t parent, int depth)
{
	cleanup_close int pidfd = sys_pidfd_open(pid);

	if (pidfd < 0 || !is_parent(proc, pidfd, pid, parent))
		return;
	cleanup_close int children = depth < DEPTH_MAX ? open_children(proc, pid) : -1;
	if (sys_pidfd_send_signal(pidfd, SIGKILL, 0) == 0 && children >= 0)
		kill_below(proc, children, pid, depth + 1);
}

static void kill_below(int proc, int children, pid_t parent, int depth)
{
	char text[256];
	pid_t pid = 0;
	ssize_t n;

	while ((n = read(children, text, sizeof text)) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0)
				kill_child(proc, pid, parent, depth);
			pid = 0;
		}
}

static void meet(struct look *l, pid_t pid)
{
	if (l->since && tree_began(pid) < l->since)
		return;
	if (is_dead(pid)) {
		if (l->dead++ >= DEAD_MAX || l->since)
			waitpid(pid, NULL, WNOHANG | __WALL);
		return;
	}
	l->alive++;
	cleanup_close int children = open_children(l->proc, pid);
	kill(pid, SIGKILL);
	if (children >= 0)
		kill_below(l->proc, children, pid, 0);
}

/* The children of one thread, as the kernel lists them.  -errno. */
static int meet_listed(struct look *l, int fd)
{
	char text[4096];
	pid_t pid = 0;

	for (;;) {
		ssize_t n = read(fd, text, sizeof text);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0)
				meet(l, pid);
			pid = 0;
		}
	}
}

/* Calls one() for every entry of a directory in /proc that is a number.  -errno. */
static int each_number(int dir, struct look *l, int (*one)(struct look *, int, const char *, pid_t))
{
	char buf[8192] __attribute__((aligned(8)));
	int r = 0;

	if (lseek(dir, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		long n = syscall(SYS_getdents64, dir, buf, sizeof buf);
		if (n <= 0)
			return n < 0 ? -errno : r;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			pid_t id;
			if (to_pid(d->name, &id) && r == 0)
				r = one(l, dir, d->name, id);
			at += d->len;
		}
	}
}

static int one_thread(struct look *l, int tasks, const char *name, pid_t tid)
{
	char path[32];

	(void)tid;
	if (strlen(name) > 10)
		return 0;
	strcpy(stpcpy(path, name), "/children"); /* fits: at most ten digits before it */
	cleanup_close int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : meet_listed(l, fd);
}

static int one_process(struct look *l, int proc, const char *name, pid_t pid)
{
	pid_t parent;
	uint64_t began;

	if (read_stat(proc, name, &parent, &began) && parent == getpid())
		meet(l, pid);
	return 0;
}

/* -errno without a process table. */
static int look_at_all(struct look *l)
{
	cleanup_close int tasks = openat(l->proc, "self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	l->alive = l->dead = 0;
	if (tasks >= 0 && each_number(tasks, l, one_thread) == 0)
		return 0;
	/* a kernel without these lists */
	l->alive = l->dead = 0;
	return each_number(l->proc, l, one_process);
}

/* Reaps all who are dead.  True when there is no child left. */
static bool reap_all(void)
{
	pid_t p;

	do
		p = waitpid(-1, NULL, WNOHANG | __WALL);
	while (p > 0 || (p < 0 && errno == EINTR));
	return p < 0 && errno == ECHILD;
}

static void nap(long us)
{
	const struct timespec t = { 0, us * 1000 };

	nanosleep(&t, NULL);
}

static uint64_t now_ms(void)
{
	struct timespec ts = { 0 };

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void tree_kill(void)
{
	struct look l = { .proc = open_proc() };

	if (l.proc >= 0)
		look_at_all(&l);
	fd_close(&l.proc);
}

int tree_sweep(uint64_t since)
{
	struct look l = { .since = since };
	const uint64_t start = now_ms();

	/* nearly always there is nobody */
	if (!since && reap_all())
		return 0;
	cleanup_close int proc = open_proc();
	if (proc < 0)
		return 1;
	l.proc = proc;
	for (int round = 0;; round++) {
		if (look_at_all(&l) < 0)
			return 1;
		if (l.alive == 0 && (since ? l.dead == 0 : reap_all()))
			return 0;
		if (now_ms() - start >= STUCK_MS)
			return l.alive > 0 ? l.alive : 1;
		/* to look again costs the more time, and they need the more, the more they are */
		if (l.alive > 0)
			nap(l.alive > 100 ? 10000 : round < 10 ? 100 * l.alive : 1000);
	}
}
