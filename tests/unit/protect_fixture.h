/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan and the sweep of protected paths, on real trees in a temporary
 * directory.  "The run" between the two is played by the test itself, with
 * the hostile moves a sandbox without mounts could make.  Started by root,
 * everything runs a second time as an ordinary user.
 */
#ifndef TESTS_PROTECT_FIXTURE_H
#define TESTS_PROTECT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "workspace/protect.h"

#define ID "T1"
#define AWAY ".brig-denied-" ID

struct fixture {
	char base[64], ws[80];
	int fd;
	struct protect p;
	enum protect_fate fate[16];
	int reports;
	char path[16][256], moved[16][300];
};

static inline void sh(const struct fixture *f, const char *cmd)
{
	char line[4096];

	snprintf(line, sizeof line,
		 "cd '%s' && export HOME='%s' GIT_CONFIG_NOSYSTEM=1 && { %s\n} >/dev/null",
		 f->ws, f->base, cmd);
	int r = system(line);
	if (r)
		fail_msg("%s: status %d", cmd, r);
}

static inline bool there(const struct fixture *f, const char *path)
{
	struct stat st;
	return fstatat(f->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	assert_non_null(f);
	strcpy(f->base, "/tmp/brig-protect-XXXXXX");
	assert_non_null(mkdtemp(f->base));
	snprintf(f->ws, sizeof f->ws, "%s/ws", f->base);
	assert_int_equal(mkdir(f->ws, 0755), 0);
	f->fd = open(f->ws, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->fd >= 0);
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;
	char cmd[256];

	protect_free(&f->p);
	close(f->fd);
	snprintf(cmd, sizeof cmd, "chmod -R u+rwx '%s'; rm -rf '%s'", f->base, f->base);
	int r = system(cmd);
	free(f);
	return r;
}

static inline void scan(struct fixture *f, const char *const *patterns)
{
	struct brig_error err = { .code = BRIG_E_OK };

	if (protect_scan(&f->p, f->fd, NULL, patterns, ID, &err))
		fail_msg("scan: %s", err.message);
}

static const struct protect_hooks no_hooks __attribute__((unused));

static inline void on_report(void *arg, const char *path, enum protect_fate fate,
		      const char *moved_to)
{
	struct fixture *f = arg;

	assert_true(f->reports < 16);
	snprintf(f->path[f->reports], sizeof f->path[0], "%s", path);
	snprintf(f->moved[f->reports], sizeof f->moved[0], "%s",
		 moved_to ? moved_to : "(gone)");
	f->fate[f->reports++] = fate;
}

static inline int sweep(struct fixture *f)
{
	f->reports = 0;
	const struct protect_hooks hooks = { .report = on_report, .report_arg = f };

	return protect_sweep(&f->p, f->fd, &hooks);
}

static inline void assert_moved(const struct fixture *f, const char *path)
{
	char away[300];

	snprintf(away, sizeof away, "%s" AWAY, path);
	assert_true(there(f, away));
	for (int i = 0; i < f->reports; i++)
		if (!strcmp(f->path[i], path)) {
			assert_string_equal(f->moved[i], away);
			return;
		}
	fail_msg("%s was not reported", path);
}

static inline const struct protect_entry *entry(const struct fixture *f, const char *path)
{
	for (size_t i = 0; i < f->p.n; i++)
		if (!strcmp(f->p.v[i].path, path))
			return &f->p.v[i];
	return NULL;
}

static inline void assert_kind(const struct fixture *f, const char *path, enum protect_kind k)
{
	const struct protect_entry *e = entry(f, path);

	if (!e)
		fail_msg("no entry for %s", path);
	assert_int_equal(e->kind, k);
}

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct count {
	int n;
	char last[256], last_moved[256];
};

static inline void count_report(void *arg, const char *path, enum protect_fate fate,
			 const char *moved_to)
{
	struct count *c = arg;

	assert_int_equal(fate, PROTECT_MOVED);
	c->n++;
	snprintf(c->last, sizeof c->last, "%s", path);
	snprintf(c->last_moved, sizeof c->last_moved, "%s", moved_to ? moved_to : "");
}

/* The exit status: of all tests, as root once more as an ordinary user. */
static inline int as_both(int (*run_all)(void))
{
	if (geteuid() == 0) {
		pid_t pid = fork();
		if (pid < 0)
			return 1;
		if (pid == 0) {
			if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) ||
			    setresuid(65534, 65534, 65534))
				_exit(1);
			_exit(run_all() ? 1 : 0);
		}
		int st;
		if (waitpid(pid, &st, 0) != pid || st)
			return 1;
	}
	return run_all() ? 1 : 0;
}

#endif
