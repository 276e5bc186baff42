/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bombs, each with an upper bound given as an argument: reaching the bound
 * means that no limit stopped it.  A bomb cleans up after itself.
 */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MB = 1024 * 1024 };
static char block[MB];

static int fork_bomb(int argc, char **argv)
{
	long max = number(argc, argv, 0, 1000), n = 0;
	int gate[2];

	if (pipe(gate) < 0)
		return unusable("pipe: %s", why());
	while (n < max) {
		pid_t pid = fork();
		if (pid < 0)
			break;
		if (pid == 0) {
			char c;
			close(gate[1]);
			_exit(read(gate[0], &c, 1) != 0);
		}
		n++;
	}
	int e = errno;
	close(gate[1]); /* lets every child go, whatever became of us */
	while (wait(NULL) > 0)
		;
	errno = e;
	return n >= max ? escaped("%ld processes at once", n) :
			  held("stopped after %ld processes: %s", n, why());
}

static int orphan_storm(int argc, char **argv)
{
	/* orphans that die at once: init must reap them */
	long n = number(argc, argv, 0, 500);

	for (long i = 0; i < n; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			if (fork() == 0)
				_exit(0);
			_exit(0);
		}
		if (pid < 0)
			return held("stopped after %ld orphans: %s", i, why());
		waitpid(pid, NULL, 0);
	}
	usleep(100000);
	pid_t last = fork();
	if (last == 0)
		_exit(0);
	if (last < 0)
		return escaped("orphans were not reaped: %s", why());
	waitpid(last, NULL, 0);
	return held("%ld orphans reaped", n);
}

/*
 * Processes that fork until they are ended, each of them.  plain: all in one session;
 * sessions: each in one of its own; comet: each ends when it has a successor, so that no
 * look at the process table finds one twice; nest: comets whose dead nobody sees, below a
 * process that takes their orphans.  Every process ends by itself after some seconds.
 */
static int storm(int argc, char **argv)
{
	const char *kind = argc > 0 ? argv[0] : "plain";
	const time_t end = time(NULL) + number(argc, argv, 1, 15);
	const bool comet = !strcmp(kind, "comet"), nest = !strcmp(kind, "nest");

	for (int sig = 1; sig < 65; sig++)
		signal(sig, sig == SIGCHLD && !nest ? SIG_DFL : SIG_IGN);
	if (comet || nest) {
		if (nest)
			prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		for (int heads = 0; heads < 4; heads++)
			if (fork() == 0)
				goto run;
		while (time(NULL) < end)
			usleep(100000);
		_exit(0);
	}
run:
	while (time(NULL) < end) {
		pid_t pid = fork();
		if (pid == 0 && strcmp(kind, "plain"))
			setsid();
		if (pid > 0 && (comet || nest))
			_exit(0);
	}
	_exit(0);
}

/* In a child, so that the line is printed even when the child is killed;
 * with memory.oom.group the whole sandbox goes, and the caller sees that. */
static int memory_bomb(int argc, char **argv)
{
	long mb = number(argc, argv, 0, 1024);
	int st, report[2];
	long done = 0;

	if (pipe(report) < 0)
		return unusable("pipe: %s", why());
	pid_t pid = fork();
	if (pid == 0) {
		for (long i = 0; i < mb; i++) {
			char *p = mmap(NULL, MB, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (p == MAP_FAILED)
				_exit(3);
			for (size_t at = 0; at < MB; at += 4096)
				p[at] = (char)(at + 1);
			if (write(report[1], "", 1) != 1)
				_exit(2);
		}
		_exit(0);
	}
	close(report[1]);
	char c;
	while (read(report[0], &c, 1) == 1)
		done++;
	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		return unusable("fork: %s", why());
	if (WIFEXITED(st) && WEXITSTATUS(st) == 0)
		return escaped("%ld MB were used", done);
	return held("stopped after %ld MB by %s", done,
		    WIFSIGNALED(st) ? "a signal" : "a failing mmap");
}

/* Writes up to mb to fd; the count written in MB, errno why it stopped. */
static long fill(int fd, long mb)
{
	memset(block, 'x', sizeof block);
	for (long i = 0; i < mb; i++) {
		size_t at = 0;
		while (at < sizeof block) {
			ssize_t n = write(fd, block + at, sizeof block - at);
			if (n <= 0)
				return i;
			at += (size_t)n;
		}
	}
	errno = 0;
	return mb;
}

static int fill_dir(int argc, char **argv)
{
	long mb = number(argc, argv, 0, 4096);
	const char *dir = argc > 1 ? argv[1] : "/tmp";
	char path[4200];

	signal(SIGXFSZ, SIG_IGN);
	/* files of 64 MB each, so that RLIMIT_FSIZE is not what stops it */
	long done = 0;
	int files = 0, e = 0;
	while (done < mb && !e) {
		snprintf(path, sizeof path, "%s/.probe-fill-%d", dir, files++);
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0) {
			e = errno;
			break;
		}
		long want = mb - done < 64 ? mb - done : 64, got = fill(fd, want);
		e = got < want ? errno : 0;
		done += got;
		close(fd);
	}
	for (int i = 0; i < files; i++) {
		snprintf(path, sizeof path, "%s/.probe-fill-%d", dir, i);
		unlink(path);
	}
	errno = e;
	if (!e)
		return escaped("%ld MB fit into %s", done, dir);
	return e == ENOSPC || e == EDQUOT ? held("%s is full after %ld MB", dir, done) :
					    unusable("%s after %ld MB: %s", dir, done, why());
}

static int fill_inodes(int argc, char **argv)
{
	long max = number(argc, argv, 0, 1000000), n = 0;
	const char *dir = argc > 1 ? argv[1] : "/tmp";
	char path[4200];
	int e = 0;

	for (; n < max && !e; n++) {
		snprintf(path, sizeof path, "%s/.probe-i%ld", dir, n);
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0)
			e = errno;
		else
			close(fd);
	}
	for (long i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/.probe-i%ld", dir, i);
		unlink(path);
	}
	errno = e;
	return e ? held("%s takes %ld files: %s", dir, n - 1, why()) :
		   escaped("%ld files fit into %s", n, dir);
}

static int fill_memfd(int argc, char **argv)
{
	long mb = number(argc, argv, 0, 1024), done = 0;
	int st, report[2];

	if (pipe(report) < 0)
		return unusable("pipe: %s", why());
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGXFSZ, SIG_IGN);
		for (long i = 0; i < mb; i++) {
			int fd = memfd_create("probe", 0);
			if (fd < 0 || fill(fd, 1) != 1 || write(report[1], "", 1) != 1)
				_exit(3);
			/* mapped, so that the descriptor limit is not what stops it */
			if (mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
				_exit(3);
			close(fd);
		}
		_exit(0);
	}
	close(report[1]);
	char c;
	while (read(report[0], &c, 1) == 1)
		done++;
	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		return unusable("fork: %s", why());
	return WIFEXITED(st) && !WEXITSTATUS(st) ? escaped("%ld MB in memfds", done) :
						   held("stopped after %ld MB", done);
}

static int file_size(int argc, char **argv)
{
	long mb = number(argc, argv, 0, 2048);
	char path[4200];

	snprintf(path, sizeof path, "%s/.probe-size", argc > 1 ? argv[1] : ".");
	signal(SIGXFSZ, SIG_IGN);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		return unusable("%s: %s", path, why());
	/* sparse: the limit is on the size, not on what is stored */
	int r = ftruncate(fd, (off_t)mb * MB);
	int e = errno;
	unlink(path);
	errno = e;
	if (r == 0)
		return escaped("a file of %ld MB", mb);
	return e == EFBIG ? held("EFBIG at %ld MB", mb) : unusable("%s", why());
}

static int output(int argc, char **argv)
{
	long mb = number(argc, argv, 0, 10);
	long done = fill(1, mb);

	return done == mb ? 0 : 1;
}

/* Processor time of a child whose parent ignores SIGCHLD, and so never reaps it. */
static int unreaped(int argc, char **argv)
{
	long ms = number(argc, argv, 0, 500);
	int end[2];
	char c;

	signal(SIGCHLD, SIG_IGN);
	if (pipe(end) < 0)
		return unusable("pipe: %s", why());
	pid_t pid = fork();
	if (pid < 0)
		return unusable("fork: %s", why());
	if (pid == 0) {
		while (clock() < ms * (CLOCKS_PER_SEC / 1000))
			;
		_exit(0);
	}
	close(end[1]);
	if (read(end[0], &c, 1) != 0)
		return unusable("read: %s", why());
	usleep(50000); /* its end is further on than its descriptors' */
	return 0;
}

/* Nobody has read from a full standard output for a while. */
static bool nobody_reads(int full)
{
	for (int i = 0; i < 300; i++) {
		int n = 0;
		if (ioctl(1, FIONREAD, &n) < 0 || n < full)
			return false;
		usleep(1000);
	}
	return true;
}

/*
 * Whoever captures standard output and error waits for both, then reads.  While it is busy
 * with the one, what is in the other is taken away again.  Having found a reader that sleeps
 * in its read, we leave it alone: it is never to wake.
 */
static int steal_output(int argc, char **argv)
{
	int pages = fcntl(1, F_GETPIPE_SZ), err = open("/proc/self/fd/2", O_RDONLY | O_NONBLOCK);
	char byte;
	int n;

	(void)argc;
	(void)argv;
	if (pages <= 0 || err < 0)
		return unusable("standard error cannot be opened for reading: %s", why());
	for (;;) {
		if (write(2, "e", 1) != 1 || write(1, block, (size_t)pages) != pages ||
		    write(2, "e", 1) != 1)
			return unusable("write: %s", why());
		do
			if (ioctl(1, FIONREAD, &n) < 0)
				return unusable("FIONREAD: %s", why());
		while (n > pages - 4096);
		while (read(err, &byte, 1) > 0)
			;
		if (write(1, block, (size_t)(pages - n)) < 0)
			return unusable("write: %s", why());
		if (nobody_reads(pages - n))
			pause();
	}
}

const struct probe probes_resources[] = {
	{ "fork-bomb", "[MAX]", "processes are limited below MAX", BY_NAME, true, 0, fork_bomb },
	{ "storm", "[KIND] [SECONDS]", "nothing; its caller looks", BY_NAME, true, 0, storm },
	{ "orphans", "[N]", "N orphans are reaped", BY_NAME, true, 0, orphan_storm },
	{ "memory-bomb", "[MB]", "memory is limited below MB", BY_NAME, true, 0, memory_bomb },
	{ "fill", "[MB] [DIR]", "DIR (/tmp) is limited below MB", BY_NAME, true, 0, fill_dir },
	{ "fill-inodes", "[N] [DIR]", "DIR (/tmp) takes fewer than N files", BY_NAME, true, 0, fill_inodes },
	{ "fill-memfd", "[MB]", "memfds are limited below MB", BY_NAME, true, 0, fill_memfd },
	{ "file-size", "[MB] [DIR]", "a file cannot reach MB", BY_NAME, true, 0, file_size },
	{ "unreaped", "[MS]", "uses MS of processor time in a child that nobody waits for, no verdict",
	  BY_NAME, false, 0, unreaped },
	{ "steal-output", "", "takes its own output from under who captures it, for ever, no verdict",
	  BY_NAME, false, 0, steal_output },
	{ "output", "[MB]", "writes MB to standard output, no verdict", BY_NAME, false, 0, output },
	{ 0 },
};
