/* SPDX-License-Identifier: Apache-2.0 */
/* Protected paths whatever they are for; those of git, test_protect_git.c. */
#include "protect_fixture.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "workspace/protect_walk.h"

static void test_kinds_and_order(void **state)
{
	struct fixture *f = *state;
	static const char *const pats[] = { ".git/hooks", ".git/config", ".envrc",
					    ".vscode/tasks.json", ".vscode", NULL };

	sh(f, "git init -q . && mkdir .vscode && echo x >.envrc");
	scan(f, pats);
	assert_kind(f, ".git", PROTECT_PIN);
	assert_kind(f, ".git/hooks", PROTECT_RO);
	assert_kind(f, ".git/config", PROTECT_RO);
	assert_kind(f, ".envrc", PROTECT_RO);
	/* nothing is kept below a directory that is read-only whole */
	assert_kind(f, ".vscode", PROTECT_RO);
	assert_null(entry(f, ".vscode/tasks.json"));
	assert_true(entry(f, ".git") < entry(f, ".git/config"));
	assert_true(entry(f, ".git/hooks")->is_dir);
	assert_true(entry(f, ".envrc")->fd >= 0);
	assert_int_equal(sweep(f), 0);
}

static void test_bad_patterns(void **state)
{
	struct fixture *f = *state;
	static const char *const bad[] = { "", "/etc", "..", "a/../b", "a/.." };
	struct brig_error err;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		const char *const pats[] = { bad[i], NULL };
		assert_int_equal(protect_scan(&f->p, f->fd, NULL, pats, ID, &err), -EINVAL);
		assert_int_equal(err.code, BRIG_E_BAD_VALUE);
	}
	const char *const ok[] = { NULL };
	assert_int_equal(protect_scan(&f->p, f->fd, NULL, ok, "a/b", &err), -EINVAL);
}

/* The list of a scan is sorted, whatever the order it was asked in; ours needs no sorting. */
static void test_in_order(void **state)
{
	static const char *const mixed[] = { "z", "a/b", ".x", "a", "a-b", NULL };
	struct fixture *f = *state;

	for (size_t i = 1; protect_defaults[i]; i++)
		assert_true(strcmp(protect_defaults[i - 1], protect_defaults[i]) < 0);
	sh(f, "mkdir z; touch a-b");
	scan(f, mixed);
	assert_int_equal(f->p.n, 5);
	for (size_t i = 1; i < f->p.n; i++)
		assert_true(strcmp(f->p.v[i - 1].path, f->p.v[i].path) < 0);
}

static void test_absent_moved(void **state)
{
	struct fixture *f = *state;

	scan(f, protect_defaults);
	assert_int_equal(sweep(f), 0);
	sh(f, "echo x >.envrc; mkdir .vscode; ln -s /etc/passwd .bashrc; "
	      "mkdir -p .config/fish; touch .config/other; echo y >file");
	assert_int_equal(sweep(f), 4);
	assert_moved(f, ".envrc");
	assert_moved(f, ".vscode");
	assert_moved(f, ".bashrc");
	assert_moved(f, ".config/fish");
	assert_true(there(f, ".config/other"));
	assert_true(there(f, "file"));
	/* the name is taken: another one is found */
	sh(f, "echo z >.envrc");
	assert_int_equal(sweep(f), 1);
	assert_false(there(f, ".envrc"));
	assert_non_null(strstr(f->moved[0], ".envrc" AWAY "-"));
	sh(f, "grep -q x .envrc" AWAY);
}

static void test_parent_renamed(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q .");
	scan(f, protect_defaults);
	sh(f, "mv .git old && git init -q .");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git");
	sh(f, "mv old .git");
	assert_int_equal(sweep(f), 0);
	/* gone is told, once */
	sh(f, "mv .git old");
	assert_int_equal(sweep(f), 1);
	assert_string_equal(f->path[0], ".git");
	assert_string_equal(f->moved[0], "(gone)");
}

static void test_file_replaced(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q . && git config alias.x y && echo x >.envrc");
	scan(f, protect_defaults);
	sh(f, "rm .envrc && echo y >.envrc && git config core.pager evil");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, ".envrc");
	assert_moved(f, ".git/config");
	/* a replaced config that can run nothing is left */
	sh(f, "mv .git/config" AWAY " x && git config core.bare false");
	protect_free(&f->p);
	scan(f, protect_defaults);
	sh(f, "git config user.name B");
	assert_int_equal(sweep(f), 0);
}

static void test_swapped_for_link(void **state)
{
	struct fixture *f = *state;

	/* a directory on the way becomes a link out of the workspace */
	sh(f, "mkdir -p ../victim/fish .config; touch ../victim/fish/keep");
	scan(f, protect_defaults);
	sh(f, "rmdir .config && ln -s ../victim .config");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".config");
	assert_true(there(f, "../victim/fish/keep"));
	assert_false(there(f, "../victim/fish" AWAY));
}

static void test_links_restored(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir dot && echo x >dot/envrc && ln -s dot/envrc .envrc && "
	      "ln -s ../outside .bashrc && ln -s later/zshrc .zshrc && "
	      "ln -s \"$PWD/dot/abs\" .profile");
	scan(f, protect_defaults);
	assert_kind(f, ".envrc", PROTECT_SYMLINK);
	assert_kind(f, "dot", PROTECT_PIN);
	assert_kind(f, "dot/envrc", PROTECT_RO);
	assert_kind(f, ".bashrc", PROTECT_SYMLINK);
	assert_kind(f, "later/zshrc", PROTECT_ABSENT);
	assert_kind(f, "dot/abs", PROTECT_ABSENT);
	assert_int_equal(sweep(f), 0);
	sh(f, "ln -sfn evil .envrc && rm .bashrc && mkdir later && touch later/zshrc dot/abs");
	assert_int_equal(sweep(f), 4);
	assert_moved(f, ".envrc");
	assert_moved(f, "later/zshrc");
	assert_moved(f, "dot/abs");
	sh(f, "test $(readlink .envrc) = dot/envrc && test $(readlink .bashrc) = ../outside");
}

/* A name that looks like a pattern does not take its place. */
static void test_a_star(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q . && mkdir -p '.git/modules/*/objects' '.git/modules/*/refs' "
	      "'.git/modules/*/hooks' && touch '.git/modules/*/HEAD'");
	scan(f, protect_defaults);
	assert_kind(f, ".git/modules/*/hooks", PROTECT_ABSENT);
	sh(f, "cd .git/modules && cp -r '*' sub && touch sub/hooks/post-checkout");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git/modules/sub/hooks");
}

static void test_many_reports(void **state)
{
	struct fixture *f = *state;
	struct count c = { .n = 0 };
	const struct protect_hooks hooks = { .report = count_report, .report_arg = &c };

	sh(f, "git init -q . && mkdir .git/modules e");
	scan(f, protect_defaults);
	sh(f, "python3 -c \"import os\nfor i in range(3000): os.symlink('../../e', "
	      "'.git/modules/%d' % i)\"");
	assert_int_equal(protect_sweep(&f->p, f->fd, &hooks), 3000);
	assert_int_equal(c.n, PROTECT_REPORTS + 1);
	assert_string_equal(c.last, "more protected paths: 2900");
	assert_string_equal(c.last_moved, "*" AWAY);
	assert_int_equal(sweep(f), 0);
}

/* Seconds that pass with every look at the clock, once a sweep is to be slow. */
static time_t pass;
static time_t passed;
int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int r = __real_clock_gettime(id, ts);

	passed += pass;
	ts->tv_sec += passed;
	return r;
}

/* What takes too long to look through goes as a whole, and what else there is is judged. */
static void test_without_end(void **state)
{
	struct fixture *f = *state;

	scan(f, protect_defaults);
	sh(f, "git init -q . && mkdir -p .git/modules/x .git/worktrees/y && "
	      "cd .git/modules && seq 200 | xargs mkdir");
	passed = 0;
	pass = 1;
	int n = sweep(f);
	pass = 0;
	assert_int_equal(n, 1);
	assert_string_equal(f->path[0], ".git/modules");
	assert_string_equal(f->moved[0], ".git/modules" AWAY);
	sh(f, "test -d .git/worktrees/y && test -f .git/config && test -d .git/modules" AWAY "/200");
}

/* A name that could not be looked at is not one that is not there. */
static void test_no_descriptor(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, few;

	scan(f, (const char *const[]){ ".git/modules/*/config", NULL });
	sh(f, "mkdir -p .git/modules/x && echo evil >.git/modules/x/config");
	int next = dup(f->fd);
	assert_true(next >= 0 && getrlimit(RLIMIT_NOFILE, &old) == 0);
	close(next);
	few = (struct rlimit){ (rlim_t)next + 3, old.rlim_max }; /* .git, modules, its list */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	int n = sweep(f);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(n, -EMFILE);
	assert_int_equal(sweep(f), 1);
}

static void test_removed_and_replaced(void **state)
{
	struct fixture *f = *state;

	sh(f, "echo mine >.envrc; ln -s a .bashrc; ln -s b .profile; mkdir .vscode");
	scan(f, protect_defaults);
	sh(f, "rm .envrc .bashrc; rm .profile; echo evil >.profile; mv .vscode x");
	assert_int_equal(sweep(f), 4);
	static const struct {
		const char *path;
		enum protect_fate fate;
	} want[] = { { ".bashrc", PROTECT_BACK }, { ".envrc", PROTECT_GONE },
		     { ".profile", PROTECT_MOVED }, { ".vscode", PROTECT_GONE } };
	for (int i = 0; i < 4; i++) {
		assert_string_equal(f->path[i], want[i].path);
		assert_int_equal(f->fate[i], want[i].fate);
	}
	sh(f, "test $(readlink .bashrc) = a && test $(readlink .profile) = b");
}

static int refuse(void *arg)
{
	++*(int *)arg;
	return -EBUSY;
}

/* Asked once, and only where something new could stay. */
static void test_seal(void **state)
{
	struct fixture *f = *state;
	int asked = 0;
	const struct protect_hooks hooks = { .report = on_report, .report_arg = f,
					     .seal = refuse, .seal_arg = &asked };

	scan(f, protect_defaults);
	sh(f, "echo x >.envrc");
	f->reports = 0;
	assert_int_equal(protect_sweep(&f->p, f->fd, &hooks), 1);
	assert_int_equal(asked, 0);
	sh(f, "git init -q .");
	f->reports = 0;
	assert_int_equal(protect_sweep(&f->p, f->fd, &hooks), 2);
	assert_int_equal(asked, 1);
	assert_string_equal(f->path[0], ".git/config");
	assert_string_equal(f->path[1], ".git/hooks");
}

static void test_lease(void **state)
{
	struct fixture *f = *state;
	char path[128];

	sh(f, "git init -q . && touch f && git add f");
	snprintf(path, sizeof path, "%s/.git/index", f->ws);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	signal(SIGIO, SIG_IGN);
	if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0) {
		close(fd);
		skip();
	}
	double start = now();
	assert_int_equal(protect_open(f->fd, ".git/index", O_RDONLY | O_NONBLOCK), -EAGAIN);
	scan(f, protect_defaults);
	assert_true(now() - start < 2);
	assert_kind(f, ".git", PROTECT_RO);
	close(fd);
}

static void test_written_around(void **state)
{
	struct fixture *f = *state;

	/* through a second name that the command could write to: moved aside;
	 * with one name only the host can have written it: left alone */
	sh(f, "echo x >.envrc && ln .envrc other && echo y >.bashrc");
	scan(f, protect_defaults);
	sh(f, "sleep 0.02; echo mine >>.bashrc; echo evil >>other");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".envrc");
}

static void test_locked_directories(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	scan(f, protect_defaults);
	sh(f, "git init -q . && git config alias.x y && echo x >.envrc && "
	      "chmod 0 .git && chmod 0500 .");
	assert_int_equal(sweep(f), 2);
	assert_int_equal(fstat(f->fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0500);
	sh(f, "chmod 0700 . .git && test ! -e .envrc && test ! -e .git/config");

	/* one that cannot be looked into before a run is closed whole */
	if (geteuid() == 0)
		return;
	sh(f, "chmod 0 .git");
	protect_free(&f->p);
	scan(f, protect_defaults);
	assert_kind(f, ".git", PROTECT_RO);
	assert_null(entry(f, ".git/config"));
}

/* The caller may know where it is; else /proc is asked. */
static void test_root(void **state)
{
	static const char *const none[] = { NULL };
	struct fixture *f = *state;
	struct brig_error err = { 0 };

	assert_int_equal(protect_scan(&f->p, f->fd, "/where/it/is", none, ID, &err), 0);
	assert_string_equal(f->p.root, "/where/it/is");
	protect_free(&f->p);
	assert_int_equal(protect_scan(&f->p, f->fd, NULL, none, ID, &err), 0);
	assert_string_equal(f->p.root, f->ws);
}

static int run_all(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_root),
		T(test_kinds_and_order),
		T(test_bad_patterns),
		T(test_in_order),
		T(test_absent_moved),
		T(test_parent_renamed),
		T(test_file_replaced),
		T(test_swapped_for_link),
		T(test_links_restored),
		T(test_locked_directories),
		T(test_a_star),
		T(test_many_reports),
		T(test_without_end),
		T(test_no_descriptor),
		T(test_removed_and_replaced),
		T(test_seal),
		T(test_lease),
		T(test_written_around),
	};
	return cmocka_run_group_tests_name("protect", tests, NULL, NULL);
}

int main(void)
{
	return as_both(run_all);
}
