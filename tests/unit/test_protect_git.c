/* SPDX-License-Identifier: Apache-2.0 */
/* Protected paths of git repositories: what may stay of them, and what git is led to. */
#include "protect_fixture.h"

#include <sys/inotify.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "workspace/gitindex.h"

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

/* Where upper and lower case are the same git finds shared indexes by other names, too. */
static void test_shared_index_names(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q .");
	scan(f, protect_defaults);
	sh(f, "echo x >.git/SharedIndex.2; echo x >.git/'\xc5\xbfhared\xe2\x80\x8bindex.3'; "
	      "echo x >.git/sharedindexes; echo x >.git/hared");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, ".git/SharedIndex.2");
	assert_true(there(f, ".git/sharedindexes") && there(f, ".git/hared"));
}

/* An index that leans on a shared one: the links are in there, and in the first, without their
 * names, those that have changed since.  By then it may be no link in there. */
static void test_split_index(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q . && echo x >plain && ln -s plain link && git add plain link && "
	      NEW_SUB("sub") "git -C sub config alias.x y && git update-index --split-index");
	scan(f, protect_defaults);
	assert_kind(f, "sub/.git/config", PROTECT_RO);
	assert_int_equal(sweep(f), 0);
	sh(f, "git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m z && git add sub");
	protect_free(&f->p);
	scan(f, protect_defaults);
	assert_kind(f, "sub/.git/config", PROTECT_RO);
	assert_null(entry(f, "plain"));
	assert_null(entry(f, "link"));
	assert_int_equal(sweep(f), 0);
	/* the shared one says that it is a file */
	protect_free(&f->p);
	sh(f, "rm -rf .git sub && git init -q .");
	scan(f, protect_defaults);
	sh(f, "echo x >sub && git add sub && git update-index --split-index && rm sub && "
	      NEW_SUB("sub") "git -C sub config core.fsmonitor x && /usr/bin/python3 -c '"
	      "import glob, hashlib, re, struct, subprocess\n"
	      "sub = bytes.fromhex(subprocess.check_output([\"git\", \"-C\", \"sub\", "
	      "\"rev-parse\", \"HEAD\"], text=True))\n"
	      "i = open(\".git/index\", \"rb\").read(); base = i[i.index(b\"link\") + 8:][:20]\n"
	      "e = bytes(24) + struct.pack(\">4I\", 0o160000, 0, 0, 0) + sub + bytes(2 + 8 - 62 % 8)\n"
	      "ewah = lambda *w: struct.pack(\">II\", 1, len(w)) + struct.pack(\">%dQ\" % len(w), *w) + bytes(4)\n"
	      "link = base + ewah(0) + ewah(1 << 33, 1)\n"
	      "i = b\"DIRC\" + struct.pack(\">II\", 2, 1) + e + b\"link\" + struct.pack(\">I\", len(link)) + link\n"
	      "open(\".git/index\", \"wb\").write(i + hashlib.sha1(i).digest())\n'");
	sh(f, "git -C . ls-files -s | grep -q '^160000.*sub$'");
	assert_int_equal(sweep(f), 1);
	assert_moved(f, "sub/.git/config");
}

/* A relative path is one in each of the work trees, and a submodule has its own settings. */
static void test_config_of_each_tree(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q ../lib && git -C ../lib -c user.name=a -c user.email=a@b commit -q "
	      "--allow-empty -m x && git init -q . && git -c protocol.file.allow=always "
	      "submodule --quiet add ../lib dir/lib 2>&1 && git -c user.name=a -c user.email=a@b "
	      "commit -q -m x && git worktree add -q wt 2>&1 && mkdir -p wt/ci/hooks dir/lib/ci && "
	      "git config core.hooksPath ci/hooks && git config extensions.worktreeConfig true && "
	      "git -C wt config --worktree include.path ../../../mine.cfg && "
	      "git -C dir/lib config core.hooksPath ci && git -C dir/lib config include.path lib.cfg");
	scan(f, protect_defaults);
	assert_kind(f, "ci/hooks", PROTECT_ABSENT);
	assert_kind(f, "wt/ci/hooks", PROTECT_RO);
	assert_kind(f, "mine.cfg", PROTECT_ABSENT);
	assert_kind(f, "dir/lib/ci", PROTECT_RO);
	assert_kind(f, ".git/modules/dir/lib/lib.cfg", PROTECT_ABSENT);
	assert_int_equal(sweep(f), 0);
	sh(f, "echo x >mine.cfg && echo x >.git/modules/dir/lib/lib.cfg");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, "mine.cfg");
	assert_moved(f, ".git/modules/dir/lib/lib.cfg");
}

/* Absolute links and settings may come to the workspace by a link that leads to it. */
static void test_another_name_of_the_workspace(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q . && ln -s ws ../alias && mkdir -p ../up/down && ln -s .. ../up/here && "
	      "mkdir hooks tools && touch tools/hook rc && ln -s $HOME/alias/rc .bashrc && "
	      "ln -s $HOME/up/here/alias/tools/hook .git/hooks/pre-commit && "
	      "ln -s $HOME/up/down .zshrc && git config core.hooksPath $HOME/alias//hooks && "
	      "git config include.path $HOME/alias/../out && ln -s $HOME/alias/.. .profile");
	scan(f, protect_defaults);
	assert_kind(f, "rc", PROTECT_RO);
	assert_kind(f, "tools/hook", PROTECT_RO);
	assert_kind(f, "hooks", PROTECT_RO);
	assert_kind(f, ".zshrc", PROTECT_SYMLINK);
	assert_kind(f, ".profile", PROTECT_SYMLINK);
	assert_null(entry(f, "out"));
	assert_int_equal(sweep(f), 0);
}

/* So may what leads from a work tree to its git directory and back; and the link may lead to a
 * directory in the workspace. */
static void test_git_directories_by_another_name(void **state)
{
	struct fixture *f = *state;

	sh(f, "git init -q ../lib && git -C ../lib -c user.name=a -c user.email=a@b commit -q "
	      "--allow-empty -m x && git init -q . && git -c protocol.file.allow=always "
	      "submodule --quiet add ../lib lib 2>&1 && git -c user.name=a -c user.email=a@b "
	      "commit -q -m x && git worktree add -q wt 2>&1 && mkdir -p wt/ci lib/ci tools/hooks && "
	      "ln -s ws ../alias && ln -s ws/tools ../tools && git -C lib config core.hooksPath ci && "
	      "git config core.hooksPath $HOME/tools/hooks && git config extensions.worktreeConfig true && "
	      "git -C wt config --worktree core.hooksPath ci && "
	      "echo gitdir: $HOME/alias/.git/modules/lib >lib/.git && "
	      "echo $HOME/alias/wt/.git >.git/worktrees/wt/gitdir && "
	      "echo gitdir: $HOME/alias/.git/worktrees/wt >wt/.git");
	scan(f, protect_defaults);
	assert_kind(f, "tools/hooks", PROTECT_RO);
	assert_kind(f, "wt/ci", PROTECT_RO);
	assert_kind(f, "lib/ci", PROTECT_RO);
	assert_int_equal(sweep(f), 0);
	/* git status goes from the one to the other, and obeys what is there */
	sh(f, "for t in lib wt; do git init -q $t/sub && cd $t/sub && git -c user.name=a -c user.email=a@b "
	      "commit -q --allow-empty -m x && git config core.fsmonitor x && cd .. && git add sub 2>&1 && "
	      "cd ..; done");
	assert_int_equal(sweep(f), 2);
	assert_moved(f, "lib/sub/.git/config");
	assert_moved(f, "wt/sub/.git/config");
}

static int run_all(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_git_init_usable),
		T(test_git_init_hostile),
		T(test_git_second_name),
		T(test_git_as_link_or_file),
		T(test_worktree_checkout),
		T(test_gitdir_inside),
		T(test_submodules),
		T(test_gitlinks),
		T(test_gitlinks_formats),
		T(test_real_submodule),
		T(test_bare_root),
		T(test_deep_and_wide),
		T(test_too_many_links),
		T(test_bare_by_a_link),
		T(test_large_index),
		T(test_odd_index),
		T(test_linked_config),
		T(test_long_paths),
		T(test_odd_links),
		T(test_separate_git_dir),
		T(test_worktree_links),
		T(test_config_names_paths),
		T(test_shared_index_names),
		T(test_split_index),
		T(test_config_of_each_tree),
		T(test_another_name_of_the_workspace),
		T(test_git_directories_by_another_name),
	};
	return cmocka_run_group_tests_name("protect_git", tests, NULL, NULL);
}

int main(void)
{
	return as_both(run_all);
}
