/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan and the sweep of protected paths, on real trees in a temporary
 * directory.  "The run" between the two is played by the test itself, with
 * the hostile moves a sandbox without mounts could make.  Started by root,
 * everything runs a second time as an ordinary user.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "base/fd.h"
#include "workspace/gitindex.h"
#include "workspace/gitsafe.h"
#include "workspace/protect.h"
#include "workspace/protect_walk.h"

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

static void sh(const struct fixture *f, const char *cmd)
{
	char line[4096];

	snprintf(line, sizeof line,
		 "cd '%s' && export HOME='%s' GIT_CONFIG_NOSYSTEM=1 && { %s\n} >/dev/null",
		 f->ws, f->base, cmd);
	int r = system(line);
	if (r)
		fail_msg("%s: status %d", cmd, r);
}

static bool there(const struct fixture *f, const char *path)
{
	struct stat st;
	return fstatat(f->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int setup(void **state)
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

static int teardown(void **state)
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

static void scan(struct fixture *f, const char *const *patterns)
{
	struct brig_error err = { .code = BRIG_E_OK };

	if (protect_scan(&f->p, f->fd, NULL, patterns, ID, &err))
		fail_msg("scan: %s", err.message);
}

static const struct protect_hooks no_hooks;

static void on_report(void *arg, const char *path, enum protect_fate fate,
		      const char *moved_to)
{
	struct fixture *f = arg;

	assert_true(f->reports < 16);
	snprintf(f->path[f->reports], sizeof f->path[0], "%s", path);
	snprintf(f->moved[f->reports], sizeof f->moved[0], "%s",
		 moved_to ? moved_to : "(gone)");
	f->fate[f->reports++] = fate;
}

static int sweep(struct fixture *f)
{
	f->reports = 0;
	const struct protect_hooks hooks = { .report = on_report, .report_arg = f };

	return protect_sweep(&f->p, f->fd, &hooks);
}

static void assert_moved(const struct fixture *f, const char *path)
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

static const struct protect_entry *entry(const struct fixture *f, const char *path)
{
	for (size_t i = 0; i < f->p.n; i++)
		if (!strcmp(f->p.v[i].path, path))
			return &f->p.v[i];
	return NULL;
}

static void assert_kind(const struct fixture *f, const char *path, enum protect_kind k)
{
	const struct protect_entry *e = entry(f, path);

	if (!e)
		fail_msg("no entry for %s", path);
	assert_int_equal(e->kind, k);
}

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

static void test_git_init_usable(void **state)
{
	struct fixture *f = *state;

	scan(f, protect_defaults);
	sh(f, "git init -q . && git config user.name A && git config user.email a@b && "
	      "echo x >f && git add f && git commit -qm x && git gc -q && "
	      "git worktree add -q wt 2>&1 && cd wt && echo y >f && git commit -qam y");
	assert_int_equal(sweep(f), 0);
	sh(f, "git status && git log && git -C wt status && git fsck 2>&1");
	/* the next run finds it protected, and works too */
	protect_free(&f->p);
	scan(f, protect_defaults);
	assert_kind(f, ".git/config", PROTECT_RO);
	assert_kind(f, ".git/worktrees/wt/commondir", PROTECT_RO);
	assert_kind(f, ".git/worktrees/wt", PROTECT_PIN);
	sh(f, "echo z >f && git commit -qam z && git gc -q");
	assert_int_equal(sweep(f), 0);
	/* a worktree of this run that points elsewhere, and one of the last */
	sh(f, "git worktree add -q wt2 2>&1 && echo ../../../evil >.git/worktrees/wt2/commondir && "
	      "rm .git/worktrees/wt/commondir && echo /evil >.git/worktrees/wt/commondir");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, ".git/worktrees/wt2/commondir");
	assert_moved(f, ".git/worktrees/wt/commondir");
}

static void test_git_init_hostile(void **state)
{
	struct fixture *f = *state;

	scan(f, protect_defaults);
	sh(f, "git init -q . && git config core.fsmonitor ./x && "
	      "echo x >.git/hooks/pre-commit && echo ../e >.git/commondir");
	assert_int_equal(sweep(f), 3);
	assert_moved(f, ".git/hooks");
	assert_moved(f, ".git/config");
	assert_moved(f, ".git/commondir");
	sh(f, "git status");
}

static void test_git_second_name(void **state)
{
	struct fixture *f = *state;

	scan(f, protect_defaults);
	sh(f, "git init -q . && ln .git/config c");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git/config");

	/* one the user made himself: written through its other name */
	sh(f, "echo x >.envrc && ln .envrc e");
	protect_free(&f->p);
	scan(f, protect_defaults);
	assert_int_equal(sweep(f), 0);
	sh(f, "sleep 0.02; echo evil >e");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".envrc");
}

static void test_git_as_link_or_file(void **state)
{
	struct fixture *f = *state;

	scan(f, protect_defaults);
	sh(f, "mkdir real && ln -s real .git && mkdir real/hooks && touch real/hooks/x");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git");
	assert_true(there(f, "real/hooks/x"));
	protect_free(&f->p);
	scan(f, protect_defaults);
	sh(f, "echo 'gitdir: real' >.git");
	assert_int_equal(sweep(f), 1);
	assert_false(there(f, ".git"));
}

static void test_worktree_checkout(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q ../main && cd ../main && git config user.email a@b && "
	      "git config user.name A && git commit -q --allow-empty -m x && "
	      "rmdir ../ws && git worktree add -q ../ws 2>&1");
	close(f->fd);
	f->fd = open(f->ws, O_PATH | O_DIRECTORY | O_CLOEXEC);
	scan(f, protect_defaults);
	assert_kind(f, ".git", PROTECT_RO);
	assert_null(entry(f, ".git/config"));
	sh(f, "echo x >f && git add f && git commit -qm f && git gc -q");
	assert_int_equal(sweep(f), 0);
	sh(f, "mkdir evil && echo 'gitdir: evil' >n && mv n .git");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git");
}

static void test_gitdir_inside(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir store && git init -q --separate-git-dir store/g .");
	scan(f, protect_defaults);
	assert_kind(f, ".git", PROTECT_RO);
	assert_kind(f, "store/g/config", PROTECT_RO);
	assert_kind(f, "store/g", PROTECT_PIN);
	assert_kind(f, "store", PROTECT_PIN);
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

static void test_submodules(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q . && git init -q --bare .git/modules/a && "
	      "git init -q --bare .git/modules/dir/b");
	scan(f, protect_defaults);
	assert_kind(f, ".git/modules/a/config", PROTECT_RO);
	assert_kind(f, ".git/modules/dir/b/hooks", PROTECT_RO);
	assert_kind(f, ".git/modules/dir", PROTECT_PIN);
	assert_null(entry(f, ".git/modules/a/refs"));
	assert_int_equal(sweep(f), 0);
	sh(f, "git init -q --bare .git/modules/ok && git init -q --bare .git/modules/bad && "
	      "git -C .git/modules/bad config core.fsmonitor x && "
	      "echo x >.git/modules/a/commondir && mkdir e && ln -s ../../e .git/modules/l");
	assert_int_equal(sweep(f), 3);
	assert_moved(f, ".git/modules/bad/config");
	assert_moved(f, ".git/modules/a/commondir");
	assert_false(there(f, ".git/modules/l"));
	sh(f, "ls .git/modules/l" AWAY "-*");
	assert_int_equal(sweep(f), 0);
	/* a name like those a sweep gives is no pass: the command knows its id */
	sh(f, "ln -s ../../e .git/modules/m" AWAY);
	assert_int_equal(sweep(f), 1);
	assert_false(there(f, ".git/modules/m" AWAY));
	assert_int_equal(sweep(f), 0);
}

/* A nested repository that the index names is entered by `git status`. */
#define NEW_SUB(dir)                                                   \
	"git init -q " dir " && git -C " dir " -c user.name=a -c user.email=a@b " \
	"commit -q --allow-empty -m x && git add " dir " 2>/dev/null; "

static void test_gitlinks(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q . && touch f && git add f; " NEW_SUB("old") "git -C old config alias.x y");
	scan(f, protect_defaults);
	assert_kind(f, "old/.git/config", PROTECT_RO);
	assert_kind(f, "old/.git", PROTECT_PIN);
	assert_kind(f, "old", PROTECT_PIN);
	assert_int_equal(sweep(f), 0);
	sh(f, NEW_SUB("good") NEW_SUB("deep/bad") NEW_SUB("gone")
	      "git -C deep/bad config core.fsmonitor x; rm -rf gone; "
	      "mkdir file evil && git update-index --add --cacheinfo "
	      "160000,$(git -C good rev-parse HEAD),file; echo 'gitdir: ../evil' >file/.git; "
	      "git status -s >/dev/null 2>&1; true");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, "deep/bad/.git/config");
	assert_moved(f, "file/.git");
	assert_true(there(f, "good/.git/config"));
}

static void test_gitlinks_formats(void **state)
{
	struct fixture *f = *state;
	static const char *const how[] = {
		"git update-index --index-version 4",
		"git update-index --split-index",
		"git update-index --index-version 2; git update-index --no-split-index",
	};

	for (size_t i = 0; i < 3; i++) {
		sh(f, "rm -rf .git * && git init -q . && touch a ab abc abcd");
		protect_free(&f->p);
		scan(f, protect_defaults);
		sh(f, "git add .; " NEW_SUB("abcde/sub") NEW_SUB("abcde/sub2")
		      "git -C abcde/sub2 config core.pager x");
		sh(f, how[i]);
		assert_int_equal(sweep(f), 1);
		assert_moved(f, "abcde/sub2/.git/config");
	}
	sh(f, "rm -rf .git * && git init -q --object-format=sha256 . && touch a ab");
	protect_free(&f->p);
	scan(f, protect_defaults);
	sh(f, "git add .; git init -q --object-format=sha256 s && git -C s -c user.name=a "
	      "-c user.email=a@b commit -q --allow-empty -m x && git add s 2>/dev/null; "
	      "git -C s config core.pager x");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, "s/.git/config");
	/* one that git might read otherwise is not left */
	sh(f, "printf 'DIRC\\0\\0\\0\\2\\0\\0\\0\\11junk' >.git/index");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git/index");
	sh(f, "rm .git/index*; mkfifo .git/index");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git/index");
}

static void test_real_submodule(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q ../lib && git -C ../lib -c user.name=a -c user.email=a@b commit -q "
	      "--allow-empty -m x && git init -q . && git -c protocol.file.allow=always "
	      "submodule --quiet add ../lib dir/lib 2>&1");
	scan(f, protect_defaults);
	assert_kind(f, "dir/lib/.git", PROTECT_RO);
	assert_kind(f, ".git/modules/dir/lib/config", PROTECT_RO);
	assert_int_equal(sweep(f), 0);
	sh(f, "rm dir/lib/.git && echo 'gitdir: ../../x' >dir/lib/.git");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, "dir/lib/.git");
	/* made inside the run: kept when it leads into .git/modules */
	sh(f, "mv dir/lib/.git" AWAY " y && echo 'gitdir: ../../.git/modules/dir/lib' >dir/lib/.git");
	protect_free(&f->p);
	sh(f, "mv dir/lib/.git z");
	scan(f, protect_defaults);
	sh(f, "mv z dir/lib/.git && git status");
	assert_int_equal(sweep(f), 0);
}

static void test_bare_root(void **state)
{
	struct fixture *f = *state;

	scan(f, protect_defaults);
	sh(f, "touch HEAD config; mkdir hooks");
	assert_int_equal(sweep(f), 0);
	sh(f, "mkdir objects refs");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, "HEAD");
	assert_true(there(f, "config"));
	/* a workspace that is a bare repository keeps working */
	sh(f, "rm -rf * && git init -q --bare .");
	protect_free(&f->p);
	scan(f, protect_defaults);
	assert_kind(f, "config", PROTECT_RO);
	assert_kind(f, "hooks", PROTECT_RO);
	assert_null(entry(f, "HEAD"));
	assert_int_equal(sweep(f), 0);
}

/* Adds a gitlink without a commit to name: git takes any hash. */
#define LINK(git, path) \
	"git " git " update-index --add --cacheinfo " \
	"160000,1234567890123456789012345678901234567890," path "; "

/* Identical gitlinks on every level, made by hand: git would merge them. */
#define MANY                                                                     \
	"cat >../many.py <<'E'\n"                                                \
	"import os, struct, sys\n"                                               \
	"def index(names):\n"                                                    \
	"    out = b'DIRC' + struct.pack('>II', 2, len(names))\n"               \
	"    for n in names:\n"                                                  \
	"        e = b'\\0' * 24 + struct.pack('>I', 0o160000) + b'\\0' * 12 + "  \
	"b'\\1' * 20 + struct.pack('>H', len(n)) + n\n"                          \
	"        out += e + b'\\0' * (8 - (len(e) & 7))\n"                         \
	"    return out + b'\\0' * 20\n"                                         \
	"def put(d, names):\n"                                                   \
	"    os.makedirs(d + '/.git', exist_ok=True)\n"                          \
	"    open(d + '/.git/index', 'wb').write(index(names))\n"                \
	"E\n"                                                                    \
	"py() { python3 -c \"exec(open('../many.py').read()); $1\"; }; "

#ifndef __SANITIZE_ADDRESS__
struct small_stack {
	struct fixture *f;
	int result;
	ucontext_t here, there;
};
static struct small_stack small;

static void on_small_stack(void)
{
	small.result = protect_sweep(&small.f->p, small.f->fd, &no_hooks);
}
#endif

/* The custodian has 256 KiB; half of that must do. */
static int sweep_small(struct fixture *f)
{
#ifdef __SANITIZE_ADDRESS__
	return protect_sweep(&f->p, f->fd, &no_hooks);
#else
	size_t page = 4096, size = 128 * 1024;
	char *mem = mmap(NULL, size + page, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(mem != MAP_FAILED);
	assert_int_equal(mprotect(mem, page, PROT_NONE), 0);
	memset(mem + page, 0x5a, size);
	small.f = f;
	assert_int_equal(getcontext(&small.there), 0);
	small.there.uc_stack.ss_sp = mem + page;
	small.there.uc_stack.ss_size = size;
	small.there.uc_link = &small.here;
	makecontext(&small.there, on_small_stack, 0);
	assert_int_equal(swapcontext(&small.here, &small.there), 0);
	size_t unused = 0;
	while (mem[page + unused] == 0x5a)
		unused++;
	print_message("           stack used: %zu KiB\n", (size - unused) / 1024);
	munmap(mem, size + page);
	return small.result;
#endif
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_deep_and_wide(void **state)
{
	struct fixture *f = *state;

	/* 9 levels of 40 identical links; nothing was there before */
	scan(f, protect_defaults);
	sh(f, MANY "py \"d='.'\nfor i in range(9): put(d, [b'a']*40); d += '/a'\nput(d, [])\"; "
	      "git init -q .; git init -q a/a/a; git -C a/a/a config core.pager x");
	double start = now();
	int r = sweep_small(f);
	assert_true(now() - start < 2);
	assert_int_equal(r, 2);
	assert_true(there(f, "a/a/a/.git/config" AWAY));
	assert_true(there(f, "a/a/a/a/.git" AWAY)); /* too deep */
	assert_true(there(f, "a/a/.git"));
	/* the scan before the next run is as quick */
	protect_free(&f->p);
	sh(f, "mv a/a/a/a/.git" AWAY " a/a/a/a/.git");
	start = now();
	scan(f, protect_defaults);
	assert_true(now() - start < 2);
	assert_null(f->p.closed);
	/* one that was there on the last level loses its way further down */
	sh(f, "cd a/a/a/a && git init -q .");
	protect_free(&f->p);
	scan(f, protect_defaults);
	assert_kind(f, "a/a/a/a/.git", PROTECT_PIN);
	assert_int_equal(sweep(f), 1);
	assert_moved(f, "a/a/a/a/.git/index");
}

static void test_too_many_links(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q .; touch f; git add f");
	scan(f, protect_defaults);
	sh(f, MANY "for i in $(seq 600); do mkdir d$i; done; "
	      "py \"put('.', sorted(b'd%d' % i for i in range(1, 601)))\"");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git/index");
	/* found before a run, the repository is closed */
	sh(f, "mv .git/index" AWAY " .git/index");
	protect_free(&f->p);
	scan(f, protect_defaults);
	assert_kind(f, ".git", PROTECT_RO);
	assert_null(entry(f, ".git/config"));
	assert_non_null(f->p.closed);
}

/* Something else that is protected leads to a HEAD which makes no repository yet. */
static void test_bare_by_a_link(void **state)
{
	static const char *const late[] = { "HEAD", "to-head", NULL };
	static const char *const heads[] = { "printf 'ref: refs/heads/main\\n' >HEAD",
					     "ln -s refs/heads/main HEAD" };
	struct fixture *f = *state;

	for (int i = 0; i < 4; i++) {
		sh(f, "rm -rf ./HEAD* objects refs to-head .envrc && ln -s HEAD .envrc && "
		      "ln -s HEAD to-head");
		sh(f, heads[i % 2]);
		scan(f, i / 2 ? late : protect_defaults);
		assert_kind(f, "HEAD", i % 2 ? PROTECT_SYMLINK : PROTECT_RO);
		assert_int_equal(sweep(f), 0);
		sh(f, "mkdir -p objects refs/heads");
		assert_int_equal(sweep(f), 1);
		assert_moved(f, "HEAD");
		protect_free(&f->p);
	}
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

static void test_large_index(void **state)
{
	struct fixture *f = *state;
	double start = now();

	sh(f, "git init -q .");
	scan(f, protect_defaults);
	sh(f, "for i in index sharedindex.1; do printf 'DIRC\\0\\0\\0\\2\\1\\0\\0\\0' >.git/$i; "
	      "truncate -s 1000M .git/$i; done");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, ".git/index");
	assert_moved(f, ".git/sharedindex.1");
	sh(f, "mv .git/index" AWAY " .git/index");
	protect_free(&f->p);
	scan(f, protect_defaults);
	assert_kind(f, ".git", PROTECT_RO);
	assert_non_null(f->p.closed);
	/* below the limit, but both readings together are beyond it */
	protect_free(&f->p);
	sh(f, "rm .git/index");
	scan(f, protect_defaults);
	sh(f, "printf 'DIRC\\0\\0\\0\\2\\0\\1\\0\\0' >.git/index; truncate -s 250M .git/index");
	assert_true(sweep(f) >= 0);
	assert_true(now() - start < 5);
}

struct count {
	int n;
	char last[256], last_moved[256];
};

static void count_report(void *arg, const char *path, enum protect_fate fate,
			 const char *moved_to)
{
	struct count *c = arg;

	assert_int_equal(fate, PROTECT_MOVED);
	c->n++;
	snprintf(c->last, sizeof c->last, "%s", path);
	snprintf(c->last_moved, sizeof c->last_moved, "%s", moved_to ? moved_to : "");
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

/* What git cannot read names nothing, and is not a reason to stop. */
static void test_odd_index(void **state)
{
	static const char *const make[] = { "mkdir .git/index", "mkfifo .git/index" };
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof make / sizeof make[0]; i++) {
		sh(f, "rm -rf .git; git init -q .");
		sh(f, make[i]);
		scan(f, protect_defaults);
		assert_int_equal(sweep(f), 1);
		assert_string_equal(f->path[0], ".git/index");
		protect_free(&f->p);
	}
}

/* A link may lead to what does things when it is opened. */
static void test_linked_config(void **state)
{
	struct fixture *f = *state;
	char path[128], event[512];

	sh(f, "git init -q . && touch a && git add a && rm .git/config && mkfifo ../pipe && "
	      "ln -s ../../pipe .git/config");
	snprintf(path, sizeof path, "%s/pipe", f->base);
	int in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	assert_true(in >= 0 && inotify_add_watch(in, path, IN_OPEN) >= 0);
	scan(f, protect_defaults);
	assert_int_equal(sweep(f), 1); /* which hash the index has is not known */
	assert_string_equal(f->path[0], ".git/index");
	assert_true(read(in, event, sizeof event) < 0 && errno == EAGAIN);
	close(in);
	/* to a file it is followed, as before */
	protect_free(&f->p);
	sh(f, "rm ../pipe .git/index*; echo '[core]' >../pipe; git read-tree --empty");
	scan(f, protect_defaults);
	assert_int_equal(sweep(f), 0);
	if (geteuid() != 0)
		return;
	/* by root only to one of whoever has the repository */
	snprintf(path, sizeof path, "%s/pipe", f->base);
	assert_int_equal(chown(path, 1, 1), 0);
	assert_int_equal(sweep(f), 1);
	assert_string_equal(f->path[0], ".git/index");
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

static void test_long_paths(void **state)
{
	struct fixture *f = *state;
	struct count c = { .n = 0 };
	const struct protect_hooks hooks = { .report = count_report, .report_arg = &c };

	sh(f, "git init -q .; touch f; git add f; mkdir .git/modules e");
	scan(f, protect_defaults);
	sh(f, "c=$(printf 'a%.0s' $(seq 250)); rel=; top=$PWD; "
	      "for i in $(seq 15); do mkdir $c; cd $c; rel=$rel$c/; done; "
	      "d=$(printf 'b%.0s' $(seq 240)); mkdir $d; cd $d; rel=$rel$d; "
	      "mkdir -p .git/objects .git/refs; echo 'ref: refs/heads/m' >.git/HEAD; "
	      "printf '[core]\\nfsmonitor = x\\n' >.git/config; cd $top; " LINK("", "$rel")
	      "ln -s ../../e .git/modules/$c");
	assert_int_equal(protect_sweep(&f->p, f->fd, &hooks), 2);
	assert_int_equal(c.n, 2);
	sh(f, "test $(find a* -name 'config*') = $(find a* -name 'config" AWAY "')");
	sh(f, "ls .git/modules/*" AWAY "-*");
}

static void test_odd_links(void **state)
{
	struct fixture *f = *state;
	static const char *const odd[] = { "x/../a", "x//a", "./a", "/tmp/a", "a/" };

	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		char cmd[2048];
		sh(f, "rm -rf .git a x; git init -q .; mkdir a x");
		protect_free(&f->p);
		scan(f, protect_defaults);
		snprintf(cmd, sizeof cmd, MANY "py \"put('.', [b'%s'])\"", odd[i]);
		sh(f, cmd);
		assert_int_equal(sweep(f), 1);
		assert_moved(f, ".git/index");
		assert_false(gitindex_path_ok(odd[i]));
	}
	assert_true(gitindex_path_ok("a/..b/.c"));
}

static void test_separate_git_dir(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q --separate-git-dir=.real . && touch f && git add f");
	scan(f, protect_defaults);
	assert_kind(f, ".real/config", PROTECT_RO);
	assert_int_equal(sweep(f), 0);
	sh(f, NEW_SUB("sub") "git -C sub config core.fsmonitor x; "
	      "echo x >.real/config.worktree; printf '[core]\\npager=x' >>.real/config.worktree");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, "sub/.git/config");
	assert_moved(f, ".real/config.worktree");
	sh(f, "echo junk >.real/index");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".real/index");
	/* the same behind a link of the user's */
	sh(f, "rm -rf .git .real* sub && git init -q . && mv .git .real && ln -s .real .git");
	protect_free(&f->p);
	scan(f, protect_defaults);
	sh(f, NEW_SUB("sub") "git -C sub config core.fsmonitor x");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, "sub/.git/config");
}

static void test_worktree_links(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty "
	      "-m x && git worktree add -q dir/wt 2>&1");
	scan(f, protect_defaults);
	assert_kind(f, "dir/wt/.git", PROTECT_RO);
	assert_kind(f, ".git/worktrees/wt/gitdir", PROTECT_RO);
	assert_int_equal(sweep(f), 0);
	sh(f, "cd dir/wt; touch f; git add f; " NEW_SUB("sub") "git -C sub config core.fsmonitor x");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, "dir/wt/sub/.git/config");
	sh(f, "echo junk >.git/worktrees/wt/index");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, ".git/worktrees/wt/index");
	/* the way there and back stays what it was */
	sh(f, "rm dir/wt/.git && echo 'gitdir: ../../x' >dir/wt/.git && "
	      "echo /x/.git >n && mv n .git/worktrees/wt/gitdir");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, "dir/wt/.git");
	assert_moved(f, ".git/worktrees/wt/gitdir");
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

static void test_config_names_paths(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q . && mkdir -p tools/hooks && echo x >team.cfg && "
	      "git config core.hooksPath \"$PWD/tools/hooks\" && "
	      "printf '[Include] PATH = \"../team.cfg\" ; c\\n[include]\\n\\tpath = ../later.cfg\\n"
	      "[includeIf \"gitdir:x]\"]\\n\\tpath = ../if.cfg # c\\n[include]\\npath = /etc/x\\n' "
	      ">>.git/config && printf '[core]\\nhooksPath = more\\n' >if.cfg && mkdir more");
	scan(f, protect_defaults);
	assert_kind(f, "tools", PROTECT_PIN);
	assert_kind(f, "tools/hooks", PROTECT_RO);
	assert_kind(f, "team.cfg", PROTECT_RO);
	assert_kind(f, "if.cfg", PROTECT_RO);
	assert_kind(f, "more", PROTECT_RO);
	assert_kind(f, "later.cfg", PROTECT_ABSENT);
	assert_int_equal(sweep(f), 0);
	sh(f, "echo x >later.cfg");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, "later.cfg");
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
		T(test_git_init_usable),
		T(test_git_init_hostile),
		T(test_git_second_name),
		T(test_git_as_link_or_file),
		T(test_worktree_checkout),
		T(test_gitdir_inside),
		T(test_parent_renamed),
		T(test_file_replaced),
		T(test_swapped_for_link),
		T(test_links_restored),
		T(test_submodules),
		T(test_gitlinks),
		T(test_gitlinks_formats),
		T(test_real_submodule),
		T(test_bare_root),
		T(test_locked_directories),
		T(test_deep_and_wide),
		T(test_too_many_links),
		T(test_bare_by_a_link),
		T(test_a_star),
		T(test_large_index),
		T(test_many_reports),
		T(test_without_end),
		T(test_odd_index),
		T(test_linked_config),
		T(test_no_descriptor),
		T(test_removed_and_replaced),
		T(test_seal),
		T(test_long_paths),
		T(test_odd_links),
		T(test_separate_git_dir),
		T(test_worktree_links),
		T(test_lease),
		T(test_written_around),
		T(test_config_names_paths),
	};
	return cmocka_run_group_tests_name("protect", tests, NULL, NULL);
}

int main(void)
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
