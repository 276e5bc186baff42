/* SPDX-License-Identifier: Apache-2.0 */
/* Ending process trees, removing hostile directories, putting files back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/guard.h"
#include "backend/scratch.h"
#include "backend/tree.h"
#include "base/fd.h"
#include "base/str.h"
#include "plan/plan.h"
#include "engine/watch.h"

static char top[64];
static int top_fd = -1;

static int set_up(void **state)
{
	(void)state;
	snprintf(top, sizeof top, "/tmp/brig-test-tree-XXXXXX");
	assert_non_null(mkdtemp(top));
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(top_fd >= 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scratch_empty(top_fd);
	fd_close(&top_fd);
	rmdir(top);
	return 0;
}

/* A daemon: orphaned, in a session of its own, deaf to what can be ignored. */
static void deaf_daemon(int out, int forks)
{
	if (fork() == 0) {
		setsid();
		for (int i = 0; i < forks; i++)
			if (fork() == 0)
				break;
		for (int sig = 1; sig < 65; sig++)
			signal(sig, SIG_IGN);
		pid_t me = getpid();
		(void)!write(out, &me, sizeof me);
		for (;;)
			pause();
	}
}

static void test_survivors(void **state)
{
	int p[2], old;
	pid_t pids[16];
	size_t n = 0;

	(void)state;
	assert_int_equal(prctl(PR_GET_CHILD_SUBREAPER, &old), 0);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	/* a child of ours that is none of the tree's business: a tick older */
	pid_t spared = fork();
	if (spared == 0)
		for (;;)
			pause();
	usleep(50000);
	pid_t pid = fork();
	if (pid == 0) {
		deaf_daemon(p[1], 3);
		deaf_daemon(p[1], 2);
		_exit(0);
	}
	close(p[1]);
	while (n < 7 && read(p[0], &pids[n], sizeof pids[n]) == (ssize_t)sizeof pids[n])
		n++;
	assert_int_equal(n, 7);
	uint64_t since = tree_began(pid);
	assert_true(since > tree_began(spared));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(tree_sweep(since), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(kill(pids[i], 0), -1);
	assert_int_equal(kill(spared, 0), 0);
	assert_int_equal(tree_sweep(0), 0);
	assert_int_equal(waitpid(spared, NULL, 0), -1);
	close(p[0]);
	prctl(PR_SET_CHILD_SUBREAPER, old);
}

static void test_paths(void **state)
{
	char name[] = "prog", slash[] = "./prog", path[] = "PATH=:/a:rel:/b:";
	char *argv[] = { name, NULL }, *env[] = { path, NULL }, **out = NULL;

	(void)state;
	assert_int_equal(plan_exec_paths(argv, env, &out), 0);
	assert_string_equal(out[0], "/a/prog");
	assert_string_equal(out[1], "/b/prog");
	assert_null(out[2]);
	for (size_t i = 0; out[i]; i++)
		free(out[i]);
	free(out);
	out = NULL;
	argv[0] = slash;
	assert_int_equal(plan_exec_paths(argv, env, &out), 0);
	assert_string_equal(out[0], "./prog");
	free(out[0]);
	free(out);
}

static void test_hostile_directory(void **state)
{
	char outside[80], text[16] = "";

	(void)state;
	snprintf(outside, sizeof outside, "%s-outside", top);
	int fd = open(outside, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "keep", 4), 4);
	close(fd);
	/* deep, wide, locked, odd names, links out */
	int dir = dup(top_fd);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(mkdirat(dir, "d", 0700), 0);
		int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		if (i % 100 == 0)
			assert_int_equal(symlinkat(outside, dir, "l\n\xff"), 0);
		close(dir);
		dir = next;
	}
	close(dir);
	for (int i = 0; i < 300; i++) {
		char name[32];
		snprintf(name, sizeof name, "f%d", i);
		assert_int_equal(mkdirat(top_fd, name, 0700), 0);
		int sub = openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(mkfifoat(sub, "p", 0600), 0);
		assert_int_equal(mkdirat(sub, "x", 0700), 0);
		assert_int_equal(mkdirat(sub, "x/y", 0), 0);
		assert_int_equal(fchmodat(sub, "x", 0, 0), 0);
		assert_int_equal(fchmod(sub, 0), 0);
		close(sub);
	}
	assert_int_equal(symlinkat("/", top_fd, "root"), 0);
	assert_int_equal(scratch_empty(top_fd), 0);
	assert_int_equal(rmdir(top), 0);
	fd = open(outside, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof text), 4);
	close(fd);
	unlink(outside);
	assert_int_equal(mkdir(top, 0700), 0);
	fd_close(&top_fd);
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The time it takes grows with what there is, not with its square. */
static void test_many_directories(void **state)
{
	struct timespec a, b;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		char name[32];
		snprintf(name, sizeof name, "d%d", i);
		assert_int_equal(mkdirat(top_fd, name, 0700), 0);
		snprintf(name, sizeof name, "d%d/e", i);
		assert_int_equal(mkdirat(top_fd, name, 0700), 0);
		snprintf(name, sizeof name, "d%d/e/f", i);
		assert_int_equal(mkdirat(top_fd, name, 0700), 0);
	}
	/* of the processor's, not of a busy machine's */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	assert_int_equal(scratch_empty(top_fd), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	assert_true(b.tv_sec - a.tv_sec < 4);
	assert_int_equal(rmdir(top), 0);
	assert_int_equal(mkdir(top, 0700), 0);
}

static void test_scratch(void **state)
{
	struct scratch s, twin;
	struct brig_error err = { 0 };
	struct stat st;

	(void)state;
	assert_int_equal(scratch_plan(&s, "TEST-ID-1", false, &err), 0);
	twin = s;
	twin.parent = dup(s.parent);
	assert_int_equal(scratch_make(&s, geteuid(), getegid()), 0);
	assert_int_equal(stat(s.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(mkdirat(s.fd, "d", 0), 0);
	assert_int_equal(fchmod(s.fd, 0), 0);
	/* a process that only knew the plan does not touch what may be anybody's */
	assert_int_equal(scratch_remove(&twin, geteuid(), getegid()), -ESTALE);
	assert_int_equal(fchmod(s.fd, 0700), 0); /* only root looks into others */
	assert_int_equal(fstatat(s.fd, "d", &st, 0), 0);
	assert_int_equal(fchmod(s.fd, 0), 0);
	/* one that was told which it is removes it as well */
	twin.dev = s.dev;
	twin.ino = s.ino;
	assert_int_equal(scratch_remove(&twin, geteuid(), getegid()), 0);
	assert_int_equal(stat(s.path, &st), -1);
	assert_int_equal(scratch_remove(&s, geteuid(), getegid()), 0);
	assert_int_equal(scratch_remove(&s, geteuid(), getegid()), 0);
	scratch_forget(&s);
	scratch_forget(&twin);
}

/* An empty one goes by its name alone; one that was exchanged stays, and ours, wherever it is
 * now, is emptied. */
static void test_scratch_exchanged(void **state)
{
	struct scratch s, twin;
	struct brig_error err = { 0 };
	struct stat st;
	char moved[PATH_MAX + 8];

	(void)state;
	assert_int_equal(scratch_plan(&s, "TEST-ID-2", false, &err), 0);
	twin = s;
	assert_int_equal(scratch_make(&s, geteuid(), getegid()), 0);
	assert_int_equal(scratch_remove(&twin, geteuid(), getegid()), 0);
	assert_int_equal(stat(s.path, &st), -1);
	scratch_forget(&s);
	/* two plans for one id have nothing in common that could be foreseen */
	assert_int_equal(scratch_plan(&s, "TEST-ID-2", false, &err), 0);
	assert_string_not_equal(s.path, twin.path);
	assert_int_equal(scratch_make(&s, geteuid(), getegid()), 0);
	assert_int_equal(mkdirat(s.fd, "ours", 0700), 0);
	snprintf(moved, sizeof moved, "%s.away", s.path);
	assert_int_equal(rename(s.path, moved), 0);
	assert_int_equal(mkdir(s.path, 0700), 0);
	int other = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(other, "theirs", 0700), 0);
	twin = s;
	twin.fd = -1;
	assert_int_equal(scratch_remove(&twin, geteuid(), getegid()), -ESTALE);
	assert_true(scratch_remove(&s, geteuid(), getegid()) < 0);
	assert_int_equal(fstatat(other, "theirs", &st, 0), 0);
	assert_int_equal(rmdir(moved), 0); /* it is empty */
	assert_int_equal(unlinkat(other, "theirs", AT_REMOVEDIR), 0);
	close(other);
	assert_int_equal(rmdir(s.path), 0);
	scratch_forget(&s);
}

/* Root empties it with the rights of the user whose it is: what that one could only move there
 * stays, and the rest goes.  And root is root again. */
static void test_emptied_as_the_user(void **state)
{
	enum { USER = 65500 };
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip(); /* only root has more rights than it should use */
	assert_int_equal(mkdirat(top_fd, "s", 0700), 0);
	int dir = openat(top_fd, "s", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const char *const theirs[] = { "a", "a/b", "a/b/c", "p", "z", "z/y" };
	for (size_t i = 0; i < ARRAY_LEN(theirs); i++) {
		assert_int_equal(mkdirat(dir, theirs[i], 0700), 0);
		assert_int_equal(fchownat(dir, theirs[i], USER, USER, 0), 0);
	}
	assert_int_equal(mkdirat(dir, "p/root", 0700), 0);
	assert_int_equal(mkdirat(dir, "p/root/precious", 0700), 0);
	assert_int_equal(mkdirat(dir, "p/group", 0770), 0);
	assert_int_equal(fchmodat(dir, "p/group", 0770, 0), 0);
	assert_int_equal(mkdirat(dir, "p/group/precious", 0700), 0);
	assert_int_equal(fchmodat(dir, "z", 0, 0), 0);
	assert_int_equal(fchown(dir, USER, USER), 0);
	assert_int_equal(fchmod(dir, 0), 0);
	/* a change of ids ends these, and they are the caller's */
	int death = 0;
	assert_int_equal(prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
	assert_true(scratch_empty_as(dir, USER, USER) < 0);
	assert_int_equal(prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0), 0);
	assert_int_equal(death, SIGUSR1);
	assert_int_equal(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 1);
	prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	assert_int_equal(fstatat(dir, "p/root/precious", &st, 0), 0);
	assert_int_equal(fstatat(dir, "p/group/precious", &st, 0), 0);
	assert_int_equal(fstatat(dir, "a", &st, 0), -1);
	assert_int_equal(fstatat(dir, "z", &st, 0), -1);
	assert_int_equal(scratch_empty_as(dir, 0, 0), 0);
	assert_int_equal(fstatat(dir, "p", &st, 0), -1);
	close(dir);
	assert_int_equal(unlinkat(top_fd, "s", AT_REMOVEDIR), 0);
}

static int reports;
static void count(void *arg, const char *path, enum protect_fate fate, const char *moved_to)
{
	(void)arg, (void)path, (void)fate, (void)moved_to;
	reports++;
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = openat(top_fd, path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void test_put_back(void **state)
{
	static const char *const patterns[] = { ".git/config", ".git/hooks", ".envrc", NULL };
	struct protect p;
	struct guard *g = NULL;
	struct brig_error err = { 0 };
	char text[32] = "";

	(void)state;
	mkdirat(top_fd, ".git", 0755);
	mkdirat(top_fd, ".git/hooks", 0755);
	put(".git/hooks/a", "hook", 0755);
	put(".git/config", "[core]\n", 0644);
	put(".envrc", "good", 0640);
	assert_int_equal(protect_scan(&p, top_fd, NULL, patterns, "TEST", &err), 0);
	assert_int_equal(guard_take(&g, &p, top_fd, &err), 0);
	/* nothing happened: nothing is touched */
	assert_int_equal(guard_settle(g, top_fd, count, NULL), 0);
	/* written in place, removed, renamed away with all around it */
	put(".envrc", "evil", 0640);
	unlinkat(top_fd, ".git/config", 0);
	put(".git/hooks/b", "new", 0755);
	assert_int_equal(renameat(top_fd, ".git", top_fd, "elsewhere"), 0);
	reports = 0;
	assert_true(guard_settle(g, top_fd, count, NULL) >= 3);
	assert_int_equal(reports, 4); /* with the directory */
	assert_int_equal(fd_read_at(top_fd, ".envrc", text, sizeof text), 4);
	assert_string_equal(text, "good");
	assert_true(fd_read_at(top_fd, ".git/config", text, sizeof text) > 0);
	assert_string_equal(text, "[core]\n");
	assert_int_equal(faccessat(top_fd, ".git/hooks/b", F_OK, 0), -1);
	assert_int_equal(faccessat(top_fd, ".git/hooks/a", X_OK, 0), 0);
	assert_int_equal(guard_settle(g, top_fd, count, NULL), 0);
	guard_free(g);
	protect_free(&p);
}

/* What both supervisors go by. */
static void test_deadlines(void **state)
{
	(void)state;
	uint64_t now = now_ns();

	assert_int_equal(deadline_left(now, 0), -1);
	assert_int_equal(deadline_left(now - 5000000, 5), 0);
	assert_int_equal(deadline_left(now - 60000000000u, 100), 0);
	assert_in_range(deadline_left(now, 60000), 50000, 60000);
	/* as far away as one can wish: still a number that poll() takes */
	assert_int_equal(deadline_left(now, UINT64_MAX), 1000000);
}

/* The caller's signals are read instead of delivered, and come back after. */
static void test_signals(void **state)
{
	struct signals s = SIGNALS_NONE;
	sigset_t before, after;

	(void)state;
	sigprocmask(SIG_BLOCK, NULL, &before);
	assert_int_equal(signals_take(&s), 0);
	assert_int_equal(signals_next(&s), 0);
	raise(SIGUSR1);
	raise(SIGPIPE); /* blocked, and for nobody */
	assert_int_equal(signals_next(&s), SIGUSR1);
	assert_int_equal(signals_next(&s), 0);
	signal(SIGPIPE, SIG_IGN);
	signals_restore(&s);
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(s.fd, -1);
	sigprocmask(SIG_BLOCK, NULL, &after);
	for (int sig = 1; sig <= 64; sig++)
		assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
	assert_true(signals_ends_setup(SIGTERM));
	assert_false(signals_ends_setup(SIGWINCH));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_survivors),
		cmocka_unit_test(test_deadlines),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_paths),
		cmocka_unit_test_setup_teardown(test_hostile_directory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_directories, set_up, tear_down),
		cmocka_unit_test(test_scratch),
		cmocka_unit_test(test_scratch_exchanged),
		cmocka_unit_test_setup_teardown(test_emptied_as_the_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_put_back, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
