/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants of every plan, whatever the spec.  Specs are made by hand, in
 * the form policy_resolve() gives them, so that thousands can be tried without
 * touching the machine; the workspace alone is a real directory, because it
 * is scanned for protected paths.
 *
 * The model of what is where: of all mounts made so far on the way to a path,
 * the last one decides, because a later mount either lies deeper or covers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "plan/plan.h"

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif

static char base[64];

static void sh(const char *cmd)
{
	char line[1024];

	snprintf(line, sizeof line, "cd '%s' && { %s\n}", base, cmd);
	if (system(line))
		fail_msg("%s", cmd);
}

static struct spec *spec_make(const char *ws, const char *at, const char *home)
{
	struct spec *s = calloc(1, sizeof *s);
	char path[200];
	struct stat st;

	assert_non_null(s);
	strcpy(s->id, "01J00000000000000000000000");
	snprintf(path, sizeof path, "%s/%s", base, ws);
	s->workspace = (struct spec_bind){
		.src = strdup(path), .dst = strdup(at ? at : path),
		.writable = true, .is_dir = true,
		.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC),
	};
	assert_int_equal(fstat(s->workspace.fd, &st), 0);
	s->workspace.dev = st.st_dev;
	s->workspace.ino = st.st_ino;
	s->cwd = strdup("");
	s->home = strdup(home);
	s->in_uid = s->in_gid = 1000;
	assert_int_equal(strv_add(&s->argv, "true"), 0);
	return s;
}

static void spec_bind(struct spec *s, const char *src, const char *dst, bool writable,
		      bool is_dir)
{
	struct spec_bind *v = realloc(s->binds, (s->n_binds + 1) * sizeof *v);

	assert_non_null(v);
	s->binds = v;
	v[s->n_binds++] = (struct spec_bind){ .src = strdup(src), .dst = strdup(dst),
					      .writable = writable, .is_dir = is_dir,
					      .fd = -1, .ino = s->n_binds + 77 };
}

static void build(struct plan *p, const struct spec *s)
{
	struct brig_error err = { 0 };

	if (plan_build(p, s, &err) < 0)
		fail_msg("%s", err.message);
}

static bool is_mount(const struct plan_op *op)
{
	return op->kind == OP_BIND || op->kind == OP_SCRATCH || op->kind == OP_PROC ||
	       op->kind == OP_DEVPTS;
}

/* The mount that holds the directory entry dst before operation `at`; NULL is
 * brig's own root. */
static const struct plan_op *holder(const struct plan *p, const char *dst, size_t at)
{
	for (size_t i = at; i-- > 0;)
		if (is_mount(&p->ops[i]) && !streq(p->ops[i].dst, dst) &&
		    path_is_under(dst, p->ops[i].dst))
			return &p->ops[i];
	return NULL;
}

/* The last such operation: a caller may put a tree of his over brig's. */
static const struct plan_op *find(const struct plan *p, enum op_kind kind, const char *dst)
{
	for (size_t i = p->n_ops; i-- > 0;)
		if (p->ops[i].kind == kind && streq(p->ops[i].dst, dst))
			return &p->ops[i];
	return NULL;
}

static void show(const struct plan *p)
{
	for (size_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].flags & OPF_USER || p->ops[i].kind == OP_SCRATCH ||
		    p->ops[i].kind == OP_DIR)
			print_message("  %3zu %-9s %s%s\n", i, plan_op_name(p->ops[i].kind),
				      p->ops[i].dst,
				      p->ops[i].flags & OPF_MKPOINT ? " (made)" : "");
}

/* Brig makes things in its own tmpfs only, never in a tree of the host. */
static void check_creation(const struct plan *p)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];
		bool makes = op->kind == OP_DIR || op->kind == OP_FILE ||
			     op->kind == OP_SYMLINK || (op->flags & OPF_MKPOINT);
		const struct plan_op *h = holder(p, op->dst, i);
		bool host = h && h->kind != OP_SCRATCH;
		if (makes && host) {
			show(p);
			fail_msg("%s %s would be created in %s", plan_op_name(op->kind),
				 op->dst, h->dst);
		}
		if (!host && !makes && (op->kind == OP_BIND || op->kind == OP_SCRATCH)) {
			show(p);
			fail_msg("nobody makes the mount point %s", op->dst);
		}
	}
}

/* What the caller placed comes parents first, and its directories are there. */
static void check_order(const struct plan *p)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];
		if (op->dst[0] != '/' || strstr(op->dst, "//") || strstr(op->dst, "/../"))
			fail_msg("not normalised: %s", op->dst);
		for (size_t j = 0; (op->bind || op->kind == OP_SCRATCH) && j < i; j++) {
			const struct plan_op *q = &p->ops[j];
			if ((q->bind || q->kind == OP_SCRATCH) &&
			    path_is_under(q->dst, op->dst))
				fail_msg("%s comes after %s", op->dst, q->dst);
		}
		if (!(op->flags & OPF_MKPOINT) && op->kind != OP_FILE)
			continue;
		char parent[4096];
		snprintf(parent, sizeof parent, "%s", op->dst);
		*strrchr(parent, '/') = '\0';
		bool there = !parent[0];
		for (size_t j = 0; j < i && !there; j++)
			there = streq(p->ops[j].dst, parent) &&
				(p->ops[j].kind == OP_DIR || p->ops[j].kind == OP_SCRATCH);
		if (!there)
			fail_msg("the directory of %s is never made", op->dst);
	}
}

/* Landlock grants writing exactly where something writable was put. */
static void check_rules(const struct plan *p)
{
	size_t writable = 0, rules = 0;

	for (size_t i = 0; i < p->n_rules; i++) {
		const struct plan_rule *r = &p->rules[i];
		if (r->class != LL_WRITE)
			continue;
		rules++;
		const struct plan_op *b = find(p, OP_BIND, r->path);
		const struct plan_op *t = find(p, OP_SCRATCH, r->path);
		if (!t && !(b && b->bind && !(b->flags & OPF_RO)))
			fail_msg("%s may be written to", r->path);
		assert_int_equal(r->is_dir, t || b->bind->is_dir);
		for (size_t j = 0; j < i; j++)
			if (p->rules[j].class == LL_WRITE && streq(p->rules[j].path, r->path))
				fail_msg("%s has two rules", r->path);
	}
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];
		writable += op->kind == OP_SCRATCH ||
			    (op->kind == OP_BIND && !(op->flags & (OPF_RO | OPF_DEVICE)));
		if (op->kind != OP_BIND)
			continue;
		/* only what the caller named is writable, and as he said */
		if (op->bind)
			assert_int_equal(!(op->flags & OPF_RO), op->bind->writable);
		else
			assert_true(op->flags & (OPF_RO | OPF_DEVICE));
	}
	assert_int_equal(rules, writable);
	assert_int_equal(p->rules[0].class, LL_READ);
	assert_string_equal(p->rules[0].path, "/");
}

static void check_rest(const struct plan *p)
{
	const struct spec *s = p->spec;
	bool mask = false;
	size_t n = 0;

	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];
		if (op->kind == OP_MASK && (op->flags & OPF_USER))
			mask = true, n++;
		else if (mask)
			fail_msg("%s comes after a mask", op->dst);
		if (op->flags & OPF_DEVICE)
			assert_true(path_is_under(op->dst, "/dev"));
	}
	assert_int_equal(n, strv_len(s->masks));
	assert_int_equal(find(p, OP_BIND, "/dev/tty") != NULL, s->pty);
	assert_non_null(find(p, OP_PROC, "/proc"));
	assert_non_null(find(p, OP_BIND, s->workspace.dst));
}

static void check_all(const struct plan *p)
{
	check_creation(p);
	check_order(p);
	check_rules(p);
	check_rest(p);
}

static void plain(void **state)
{
	struct spec *s = spec_make("ws", NULL, "/home/u");
	struct plan p;

	(void)state;
	build(&p, s);
	check_all(&p);
	assert_string_equal(p.cwd, s->workspace.dst);
	assert_non_null(find(&p, OP_SCRATCH, "/tmp"));
	assert_non_null(find(&p, OP_SCRATCH, "/dev/shm"));
	assert_non_null(find(&p, OP_SCRATCH, "/home/u"));
	const struct plan_op *w = find(&p, OP_BIND, s->workspace.dst);
	assert_true(w->flags & OPF_IDENTITY && w->flags & OPF_DIR && !(w->flags & OPF_RO));
	assert_true(w->ino == s->workspace.ino && w->dev == s->workspace.dev);
	assert_null(find(&p, OP_BIND, "/etc/passwd"));
	assert_null(find(&p, OP_BIND, "/etc/resolv.conf"));
	plan_free(&p);
	free(s->cwd);
	s->cwd = strdup("sub/deep");
	s->pty = true;
	s->net = NET_HOST;
	build(&p, s);
	check_all(&p);
	assert_non_null(strstr(p.cwd, "/ws/sub/deep"));
	plan_free(&p);
	spec_free(s);
	for (int k = OP_DIR; k <= OP_PIN; k++)
		assert_string_not_equal(plan_op_name((enum op_kind)k), "?");
	assert_string_equal(plan_op_name((enum op_kind)99), "?");
}

/* Thousands of specs from a small pool of paths that like to collide. */
static void random_specs(void **state)
{
	static const char *const pool[] = {
		"/home", "/home/u", "/home/u/p", "/home/v", "/opt", "/opt/a", "/opt/a/b",
		"/opt/a-b", "/opt/ab", "/tmp", "/tmp/x", "/tmp/x/y", "/srv/deep/er/est",
		"/var", "/var/lib/x", "/run", "/run/x", "/usr/local/x", "/usr", "/nix",
		"/root", "/etc/hosts", "/mnt", "/mnt/ws", "/mnt/ws/sub/er",
	};
	static const char *const homes[] = { "/home/u", "/root", "/opt/a/home", "/tmp/home" };
	static const char *const ats[] = { "/mnt/ws", "/home/u", "/home/u/p/q", "/tmp",
					   "/opt/a", "/var/lib/w", "/w" };
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (int round = 0; round < 2000; round++) {
#define RND(n) (x ^= x << 13, x ^= x >> 7, x ^= x << 17, (size_t)(x % (n)))
		const char *at = ats[RND(ARRAY_LEN(ats))];
		struct spec *s = spec_make("ws", at, homes[RND(ARRAY_LEN(homes))]);
		size_t n = RND(7);
		for (size_t i = 0; i < n; i++) {
			const char *dst = pool[RND(ARRAY_LEN(pool))];
			bool taken = streq(dst, at);
			for (size_t j = 0; j < s->n_binds; j++)
				taken = taken || streq(s->binds[j].dst, dst);
			if (!taken)
				spec_bind(s, "/some/where", dst, RND(2), true);
		}
		for (size_t i = RND(3); i > 0; i--)
			assert_int_equal(strv_add(&s->masks, pool[RND(ARRAY_LEN(pool))]), 0);
		s->pty = RND(2);
		s->net = RND(2) ? NET_HOST : NET_NONE;
		struct plan p;
		build(&p, s);
		check_all(&p);
		plan_free(&p);
		spec_free(s);
	}
}

/* A caller's tree over /etc, with another bind in a directory that brig had
 * made there before: that directory is covered, so nothing may be made in it. */
static void bind_over_brigs_own_directories(void **state)
{
	struct spec *s = spec_make("ws", NULL, "/home/u");
	struct plan p;

	(void)state;
	spec_bind(s, "/some/etc", "/etc", true, true);
	spec_bind(s, "/some/where", "/etc/ssl/mine", false, true);
	spec_bind(s, "/some/where", "/etc/ssl/a/b", false, true);
	build(&p, s);
	check_creation(&p);
	plan_free(&p);
	spec_free(s);
}

/* A project in /var/tmp is an ordinary project: no link may be in the way. */
static void workspace_below_var_tmp(void **state)
{
	struct spec *s = spec_make("ws", "/var/tmp/ws", "/home/u");
	struct plan p;

	(void)state;
	build(&p, s);
	const struct plan_op *link = find(&p, OP_SYMLINK, "/var/tmp");
	bool both = link && find(&p, OP_DIR, "/var/tmp");
	plan_free(&p);
	spec_free(s);
	if (both)
		fail_msg("/var/tmp is a link and a directory; the mount fails with ELOOP");
}

static void private_home_under_a_bind(void **state)
{
	struct spec *s = spec_make("ws", NULL, "/home/u");
	struct plan p;

	(void)state;
	spec_bind(s, "/home", "/home", true, true);
	build(&p, s);
	check_all(&p);
	const struct plan_op *bind = find(&p, OP_BIND, "/home");
	const struct plan_op *home = find(&p, OP_SCRATCH, "/home/u");
	assert_non_null(home);
	assert_true(bind < home); /* the private one is on top */
	assert_false(home->flags & OPF_MKPOINT);
	plan_free(&p);
	/* put there by name, the caller's tree is what he gets */
	spec_bind(s, "/x", "/home/u", false, true);
	build(&p, s);
	check_all(&p);
	assert_null(find(&p, OP_SCRATCH, "/home/u"));
	plan_free(&p);
	spec_free(s);
}

static void protected_paths(void **state)
{
	static const char *const patterns[] = { ".git/hooks", ".git/config", ".vscode",
						"a/b/c", ".envrc" };
	struct spec *s = spec_make("repo", "/w", "/home/u");
	struct plan p;
	size_t seen = 0, workspace = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
		assert_int_equal(strv_add(&s->protect, patterns[i]), 0);
	assert_int_equal(strv_add(&s->masks, "/w/a"), 0);
	build(&p, s);
	check_all(&p);
	assert_non_null(find(&p, OP_PIN, "/w/.git"));
	assert_non_null(find(&p, OP_RO, "/w/.git/hooks"));
	assert_non_null(find(&p, OP_RO, "/w/.git/config"));
	assert_non_null(find(&p, OP_RO, "/w/.vscode"));
	assert_non_null(find(&p, OP_PIN, "/w/a"));
	assert_non_null(find(&p, OP_PIN, "/w/a/b"));
	assert_non_null(find(&p, OP_RO, "/w/a/b/c"));
	assert_null(find(&p, OP_RO, "/w/.envrc")); /* absent: the sweep's business */
	for (size_t i = 0; i < p.n_ops; i++) {
		const struct plan_op *op = &p.ops[i];
		if (op->kind == OP_BIND && streq(op->dst, "/w"))
			workspace = i;
		if ((op->kind != OP_RO && op->kind != OP_PIN) || !path_is_under(op->dst, "/w"))
			continue;
		seen++;
		assert_true(workspace && op->flags & OPF_IDENTITY && op->ino);
		for (size_t j = i + 1; j < p.n_ops; j++) /* parents first */
			if ((p.ops[j].kind == OP_RO || p.ops[j].kind == OP_PIN) &&
			    path_is_under(op->dst, p.ops[j].dst))
				fail_msg("%s before %s", op->dst, p.ops[j].dst);
	}
	assert_int_equal(seen, 7);
	plan_free(&p);
	spec_free(s);
}

static void expect_paths(const char *path, const char *name, const char *want)
{
	struct spec *s = spec_make("ws", NULL, "/home/u");
	struct plan p;
	char got[512] = "";

	free(s->argv[0]);
	s->argv[0] = strdup(name);
	if (path)
		assert_int_equal(strv_add(&s->env, path), 0);
	build(&p, s);
	for (char **e = p.exec_paths; e && *e; e++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s",
			 got[0] ? " " : "", *e);
	plan_free(&p);
	spec_free(s);
	if (!streq(got, want))
		fail_msg("%s, %s: '%s', expected '%s'", path ? path : "no PATH", name, got,
			 want);
}

static void exec_candidates(void **state)
{
	(void)state;
	expect_paths(NULL, "ls", "/usr/bin/ls /bin/ls");
	expect_paths("PATH=/a:/b", "ls", "/a/ls /b/ls");
	expect_paths("PATH=/a::/b:", "ls", "/a/ls /b/ls");
	expect_paths("PATH=:/a", "ls", "/a/ls");
	expect_paths("PATH=.:/a:bin:./x:../y", "ls", "/a/ls");
	expect_paths("PATH=/a", "./ls", "./ls");
	expect_paths("PATH=/a", "/bin/ls", "/bin/ls");
	expect_paths("PATH=/a", "sub/ls", "sub/ls");
}

/* With nothing in PATH, the hostile working directory is still not searched. */
static void exec_never_in_the_workspace(void **state)
{
	static const char *const paths[] = { "PATH=", "PATH=:", "PATH=::", "PATH=.",
					     "PATH=bin" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct spec *s = spec_make("ws", NULL, "/home/u");
		struct brig_error err = { 0 };
		struct plan p;
		assert_int_equal(strv_add(&s->env, paths[i]), 0);
		if (plan_build(&p, s, &err) == 0) {
			for (char **e = p.exec_paths; e && *e; e++)
				if ((*e)[0] != '/')
					fail_msg("%s: '%s' is executed from the working "
						 "directory", paths[i], *e);
			plan_free(&p);
		}
		spec_free(s);
	}
}

static double plan_with(size_t n)
{
	struct spec *s = spec_make("ws", NULL, "/home/u");
	struct timespec a, b;
	struct plan p;
	char dst[64];

	for (size_t i = 0; i < n; i++) {
		snprintf(dst, sizeof dst, "/opt/d%05zu/sub/tree", i * 7919 % n);
		spec_bind(s, "/usr", dst, i % 2, true);
	}
	clock_gettime(CLOCK_MONOTONIC, &a);
	build(&p, s);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_true(p.n_ops >= 3 * n);
	check_rules(&p);
	plan_free(&p);
	spec_free(s);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

static void a_thousand_binds(void **state)
{
	(void)state;
	double t1 = plan_with(1000), t4 = plan_with(4000);
	print_message("1,000 binds: %.1f ms, 4,000 binds: %.1f ms\n", t1 * 1e3, t4 * 1e3);
	if (t1 > 1.0) /* it takes some milliseconds; a sanitizer takes more */
		fail_msg("planning 1,000 binds took %.2f s", t1);
}

static int setup(void **state)
{
	(void)state;
	strcpy(base, "/tmp/brig-plan-XXXXXX");
	if (!mkdtemp(base))
		return -1;
	sh("mkdir ws repo; cd repo; mkdir -p .git/hooks .vscode a/b/c; echo > .git/config");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sh("rm -rf -- \"$PWD\"");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain),
		cmocka_unit_test(random_specs),
		cmocka_unit_test(bind_over_brigs_own_directories),
		cmocka_unit_test(workspace_below_var_tmp),
		cmocka_unit_test(private_home_under_a_bind),
		cmocka_unit_test(protected_paths),
		cmocka_unit_test(exec_candidates),
		cmocka_unit_test(exec_never_in_the_workspace),
		cmocka_unit_test(a_thousand_binds),
	};
	return cmocka_run_group_tests_name("plan", tests, setup, teardown);
}
