/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Toolchain presets in a temporary directory that plays the machine: base/home
 * is the caller's HOME, base/ws the workspace.  Detection never runs anything,
 * so files with nothing in them are toolchains enough.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/toolchain_internal.h"

struct fixture {
	char base[64], home[80], ws[80];
	struct toolchain_input in;
	struct toolchain t;
	struct brig_error err;
};

/* The environment of the test at hand. */
static const char *vars[16][2];

static const char *fake_env(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(vars) && vars[i][0]; i++)
		if (streq(vars[i][0], name))
			return vars[i][1];
	return NULL;
}

static void sh(const struct fixture *f, const char *cmd)
{
	cleanup_free char *line =
		str_fmt("cd '%s' && umask 022 && { %s\n}", f->base, cmd);

	if (!line || system(line))
		fail_msg("%s", cmd);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	assert_non_null(f);
	strcpy(f->base, "/tmp/brig-tools-XXXXXX");
	assert_non_null(mkdtemp(f->base));
	snprintf(f->home, sizeof f->home, "%s/home", f->base);
	snprintf(f->ws, sizeof f->ws, "%s/ws", f->base);
	sh(f, "mkdir home ws");
	memset(vars, 0, sizeof vars);
	f->in = (struct toolchain_input){
		.home = f->home,
		.home_inside = f->home,
		.workspace_src = f->ws,
		.workspace_dst = f->ws,
		.presets = TOOLCHAIN_AUTO,
		.env = fake_env,
	};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	toolchain_free(&f->t);
	sh(f, "chmod -R u+rwx . ; rm -rf -- \"$PWD\"");
	free(f);
	return 0;
}

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* "@" at the start of an element means the base directory. */
static char *expand(const struct fixture *f, const char *text)
{
	struct buf b = { 0 };

	for (; *text; text++)
		if (*text == '@')
			buf_adds(&b, f->base);
		else
			buf_addc(&b, *text);
	return buf_take(&b, NULL);
}

static void look(struct fixture *f, const char *path)
{
	cleanup_free char *full = expand(f, path);
	char real[PATH_MAX];
	int held = 0;

	toolchain_free(&f->t);
	f->in.home_real = f->in.home && realpath(f->in.home, real) ? real : NULL;
	cleanup_close int ws = open(f->ws, O_PATH | O_DIRECTORY | O_CLOEXEC);
	f->in.workspace_fd = ws;
	int before = open_fds();
	f->in.path = full;
	assert_int_equal(toolchain_detect(&f->in, &f->t, &f->err), 0);
	f->in.path = f->in.home_real = NULL;
	for (size_t i = 0; i < f->t.n_mounts; i++)
		held += f->t.mounts[i].fd >= 0;
	assert_int_equal(open_fds(), before + held);
	/* what every result has to be */
	for (size_t i = 0; i < f->t.n_mounts; i++) {
		const struct toolchain_mount *m = &f->t.mounts[i];
		assert_non_null(m->preset);
		assert_false(path_is_under(m->dst, f->ws));
		assert_false(path_is_under(f->home, m->dst));
		assert_false(path_is_under(f->home, m->src));
		assert_false(place_is_system(m->dst));
		for (size_t k = 0; k < i; k++)
			assert_false(path_is_under(m->dst, f->t.mounts[k].dst));
	}
	for (char **n = f->t.notes; n && *n; n++)
		assert_null(strpbrk(*n, "\n\033"));
}

static const struct toolchain_mount *mount_at(const struct fixture *f,
					      const char *dst)
{
	cleanup_free char *full = expand(f, dst);

	for (size_t i = 0; i < f->t.n_mounts; i++)
		if (streq(f->t.mounts[i].dst, full))
			return &f->t.mounts[i];
	return NULL;
}

/* A mount of src at dst with that preset. */
static void shows(const struct fixture *f, const char *src, const char *dst,
		  const char *preset)
{
	cleanup_free char *full = expand(f, src);
	const struct toolchain_mount *m = mount_at(f, dst);

	if (!m) {
		for (size_t i = 0; i < f->t.n_mounts; i++)
			print_message("mount %s\n", f->t.mounts[i].dst);
		for (char **n = f->t.notes; n && *n; n++)
			print_message("note %s\n", *n);
		fail_msg("nothing is shown at %s", dst);
		return;
	}
	assert_string_equal(m->src, full);
	assert_string_equal(m->preset, preset);
}

static void path_is(const struct fixture *f, const char *want)
{
	cleanup_free char *full = expand(f, want);
	struct buf b = { 0 };

	for (char **p = f->t.path; p && *p; p++)
		buf_addf(&b, "%s%s", p == f->t.path ? "" : ":", *p);
	cleanup_free char *got = buf_take(&b, NULL);
	assert_string_equal(got, full);
}

static bool has_env(const struct fixture *f, const char *entry)
{
	cleanup_free char *full = expand(f, entry);

	for (char **e = f->t.env; e && *e; e++)
		if (streq(*e, full))
			return true;
	return false;
}

static bool noted(const struct fixture *f, const char *text)
{
	for (char **n = f->t.notes; n && *n; n++)
		if (strstr(*n, text))
			return true;
	return false;
}

static void test_words(void **state)
{
	unsigned bits = 7;

	(void)state;
	assert_true(toolchain_parse("auto", &bits) && bits == TOOLCHAIN_AUTO);
	assert_true(toolchain_parse("none", &bits) && bits == 0);
	for (unsigned i = 0; i < TOOLCHAIN__COUNT; i++) {
		assert_true(toolchain_parse(toolchain_name(i), &bits));
		assert_int_equal(bits, 1u << i);
		assert_non_null(toolchain_about(i));
		assert_non_null(strstr(toolchain_words(), toolchain_name(i)));
	}
	assert_true(toolchain_parse("virtualenv", &bits));
	assert_int_equal(bits, TOOLCHAIN_BIT(TOOLCHAIN_VENV));
	assert_true(toolchain_parse("cargo", &bits));
	assert_int_equal(bits, TOOLCHAIN_BIT(TOOLCHAIN_RUST));
	bits = 7;
	assert_false(toolchain_parse("", &bits));
	assert_false(toolchain_parse("NVM", &bits));
	assert_false(toolchain_parse("nvm ", &bits));
	assert_int_equal(bits, 7);
	assert_null(toolchain_name(TOOLCHAIN__COUNT));
}

static void test_nothing_wanted(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.nvm/versions/node/v20/bin; echo '[user]' > home/.gitconfig");
	f->in.presets = 0;
	look(f, "@/home/.nvm/versions/node/v20/bin");
	assert_int_equal(f->t.n_mounts, 0);
	assert_null(f->t.path);
	assert_null(f->t.gitconfig);
	assert_null(f->t.notes);
}

static void test_system_path(void **state)
{
	struct fixture *f = *state;

	look(f, "/usr/local/sbin:/usr/bin:/bin:/usr/bin");
	assert_int_equal(f->t.n_mounts, 0);
	path_is(f, "");
	/* visible, but not in everybody's PATH; and order is kept */
	sh(f, "mkdir -p home/bin");
	look(f, "/usr/local/go/bin:/usr/bin:@/home/bin:/usr/local/bin:/bin");
	path_is(f, "/usr/local/go/bin:/usr/bin:@/home/bin");
	f->in.path = NULL;
	toolchain_free(&f->t);
	assert_int_equal(toolchain_detect(&f->in, &f->t, NULL), 0);
	assert_null(f->t.path);
}

static void test_nvm(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.nvm/versions/node/v20/bin home/.nvm/versions/node/v18/bin;"
	      "ln -s versions/node/v18 home/.nvm/current; mkdir home/.ssh home/.aws");
	look(f, "@/home/.nvm/versions/node/v20/bin:/usr/bin");
	assert_int_equal(f->t.n_mounts, 1);
	shows(f, "@/home/.nvm/versions/node/v20", "@/home/.nvm/versions/node/v20", "nvm");
	path_is(f, "@/home/.nvm/versions/node/v20/bin");
	assert_true(noted(f, "nvm: ~/.nvm/versions/node/v20"));
	/* through the link: the version at both places */
	look(f, "@/home/.nvm/current/bin");
	shows(f, "@/home/.nvm/versions/node/v18", "@/home/.nvm/versions/node/v18", "nvm");
	shows(f, "@/home/.nvm/versions/node/v18", "@/home/.nvm/current", "nvm");
	path_is(f, "@/home/.nvm/current/bin");
	/* elsewhere, by its variable */
	sh(f, "mkdir -p tools/nvm/versions/node/v22/bin");
	cleanup_free char *dir = expand(f, "@/tools/nvm");
	vars[0][0] = "NVM_DIR";
	vars[0][1] = dir;
	look(f, "@/tools/nvm/versions/node/v22/bin");
	shows(f, "@/tools/nvm/versions/node/v22", "@/tools/nvm/versions/node/v22", "nvm");
	f->in.presets &= ~TOOLCHAIN_BIT(TOOLCHAIN_NVM);
	look(f, "@/tools/nvm/versions/node/v22/bin");
	assert_int_equal(f->t.n_mounts, 0);
	path_is(f, "");
}

static void test_fnm(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.local/share/fnm/node-versions/v20/installation/bin "
	      "home/.local/state/fnm_multishells;"
	      "ln -s $PWD/home/.local/share/fnm/node-versions/v20/installation "
	      "home/.local/state/fnm_multishells/12_34");
	look(f, "@/home/.local/state/fnm_multishells/12_34/bin");
	assert_int_equal(f->t.n_mounts, 1);
	shows(f, "@/home/.local/share/fnm/node-versions/v20",
	      "@/home/.local/share/fnm/node-versions/v20", "fnm");
	path_is(f, "@/home/.local/share/fnm/node-versions/v20/installation/bin");
}

static void test_roots(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.volta/bin home/.volta/tools home/.volta/cache "
	      "home/.pyenv/shims home/.pyenv/versions/3.12.1/bin home/.pyenv/libexec "
	      "home/.pyenv/.git home/.cargo/bin home/.rustup/toolchains/stable/bin "
	      "home/.rustup/tmp home/.bun/bin home/.bun/install/global "
	      "home/.bun/install/cache home/.deno/bin home/go/bin home/go/pkg/mod;"
	      "touch home/.volta/layout.v4 home/.rustup/settings.toml "
	      "home/.cargo/credentials.toml home/.cargo/config.toml");
	look(f, "@/home/.volta/bin:@/home/.pyenv/shims:@/home/.cargo/bin:@/home/.bun/bin:"
		"@/home/.deno/bin:@/home/go/bin");
	shows(f, "@/home/.volta/bin", "@/home/.volta/bin", "volta");
	shows(f, "@/home/.volta/tools", "@/home/.volta/tools", "volta");
	shows(f, "@/home/.volta/layout.v4", "@/home/.volta/layout.v4", "volta");
	assert_null(mount_at(f, "@/home/.volta/cache"));
	shows(f, "@/home/.pyenv/shims", "@/home/.pyenv/shims", "pyenv");
	shows(f, "@/home/.pyenv/versions", "@/home/.pyenv/versions", "pyenv");
	shows(f, "@/home/.pyenv/libexec", "@/home/.pyenv/libexec", "pyenv");
	shows(f, "@/home/.cargo/bin", "@/home/.cargo/bin", "rust");
	assert_null(mount_at(f, "@/home/.cargo"));
	shows(f, "@/home/.rustup/toolchains", "@/home/.rustup/toolchains", "rust");
	shows(f, "@/home/.rustup/settings.toml", "@/home/.rustup/settings.toml", "rust");
	shows(f, "@/home/.bun/bin", "@/home/.bun/bin", "bun");
	shows(f, "@/home/.bun/install/global", "@/home/.bun/install/global", "bun");
	shows(f, "@/home/.deno/bin", "@/home/.deno/bin", "deno");
	shows(f, "@/home/go/bin", "@/home/go/bin", "go");
	assert_int_equal(f->t.n_mounts, 13);
	assert_true(has_env(f, "VOLTA_HOME=@/home/.volta"));
	assert_true(has_env(f, "PYENV_ROOT=@/home/.pyenv"));
	assert_true(has_env(f, "RUSTUP_HOME=@/home/.rustup"));
	assert_true(has_env(f, "BUN_INSTALL=@/home/.bun"));
	assert_int_equal(strv_len(f->t.env), 4);

	/* one version, without the shims: nothing else of pyenv */
	look(f, "@/home/.pyenv/versions/3.12.1/bin");
	assert_int_equal(f->t.n_mounts, 1);
	shows(f, "@/home/.pyenv/versions/3.12.1", "@/home/.pyenv/versions/3.12.1", "pyenv");
	assert_null(f->t.env);

	/* caches only when asked for */
	f->in.share_caches = true;
	sh(f, "mkdir -p home/.cargo/registry home/.cache/uv home/.npm/_cacache");
	look(f, "@/home/.cargo/bin");
	shows(f, "@/home/.cargo/registry", "@/home/.cargo/registry", "rust");
	shows(f, "@/home/go/pkg/mod", "@/home/go/pkg/mod", "go");
	shows(f, "@/home/.cache/uv", "@/home/.cache/uv", "uv");
	shows(f, "@/home/.npm/_cacache", "@/home/.npm/_cacache", "path");
}

/* A root that is a link: scripts name the link, so both paths work. */
static void test_linked_root(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p data/pyenv/shims data/pyenv/versions; "
	      "ln -s $PWD/data/pyenv home/.pyenv");
	look(f, "@/home/.pyenv/shims");
	shows(f, "@/data/pyenv/shims", "@/data/pyenv/shims", "pyenv");
	shows(f, "@/data/pyenv/shims", "@/home/.pyenv/shims", "pyenv");
	shows(f, "@/data/pyenv/versions", "@/home/.pyenv/versions", "pyenv");
	path_is(f, "@/home/.pyenv/shims");
}

/* HOME reached through a link, as /home -> /var/home. */
static void test_linked_home(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p real; mv home real/u; ln -s real/u home;"
	      "mkdir -p real/u/.nvm/versions/node/v20/bin");
	look(f, "@/home/.nvm/versions/node/v20/bin");
	assert_int_equal(f->t.n_mounts, 1);
	shows(f, "@/real/u/.nvm/versions/node/v20", "@/home/.nvm/versions/node/v20", "nvm");
	path_is(f, "@/home/.nvm/versions/node/v20/bin");
}

static void test_go_and_java(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p opt/go/bin home/.sdkman/candidates/java/17/bin; touch opt/go/VERSION "
	      "opt/go/bin/go; ln -s 17 home/.sdkman/candidates/java/current");
	cleanup_free char *java = expand(f, "@/home/.sdkman/candidates/java/current");
	cleanup_free char *go = expand(f, "@/opt/go");
	vars[0][0] = "JAVA_HOME";
	vars[0][1] = java;
	vars[1][0] = "GOROOT";
	vars[1][1] = go;
	vars[2][0] = "CONDA_PREFIX"; /* nothing of it was found */
	vars[2][1] = go;
	look(f, "@/opt/go/bin:@/home/.sdkman/candidates/java/current/bin");
	shows(f, "@/opt/go", "@/opt/go", "go");
	shows(f, "@/home/.sdkman/candidates/java/17",
	      "@/home/.sdkman/candidates/java/17", "sdkman");
	shows(f, "@/home/.sdkman/candidates/java/17",
	      "@/home/.sdkman/candidates/java/current", "sdkman");
	assert_true(has_env(f, "JAVA_HOME=@/home/.sdkman/candidates/java/current"));
	assert_true(has_env(f, "GOROOT=@/opt/go"));
	assert_int_equal(strv_len(f->t.env), 2);
	/* a GOROOT where GOPATH would be */
	sh(f, "mkdir -p home/go/bin; touch home/go/VERSION home/go/bin/go");
	look(f, "@/home/go/bin");
	shows(f, "@/home/go", "@/home/go", "go");
	/* a JAVA_HOME that is not there inside does not pass */
	cleanup_free char *other = expand(f, "@/elsewhere");
	vars[0][1] = other;
	look(f, "@/home/.sdkman/candidates/java/current/bin");
	assert_null(f->t.env);
}

static void test_venv(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/py/3.12/bin home/py/3.12/lib/python3.12 home/envs/a/bin "
	      "home/envs/a/lib; touch home/py/3.12/lib/python3.12/os.py;"
	      "install -m 755 /dev/null home/py/3.12/bin/python3.12;"
	      "printf 'home = %s/home/py/3.12/bin\\nversion = 3.12.1\\n' \"$PWD\" "
	      "> home/envs/a/pyvenv.cfg; ln -s $PWD/home/py/3.12/bin/python3.12 "
	      "home/envs/a/bin/python");
	cleanup_free char *env = expand(f, "@/home/envs/a");
	vars[0][0] = "VIRTUAL_ENV";
	vars[0][1] = env;
	look(f, "@/home/envs/a/bin");
	shows(f, "@/home/envs/a", "@/home/envs/a", "venv");
	shows(f, "@/home/py/3.12", "@/home/py/3.12", "venv");
	assert_int_equal(f->t.n_mounts, 2);
	assert_true(has_env(f, "VIRTUAL_ENV=@/home/envs/a"));

	/* in the workspace: only what Python needs of its base */
	sh(f, "rm -rf ws/.venv; cp -a home/envs/a ws/.venv; mkdir home/py/3.12/secret");
	cleanup_free char *ws_env = expand(f, "@/ws/.venv");
	vars[0][1] = ws_env;
	f->in.workspace_dst = "/inside";
	look(f, "/usr/bin");
	shows(f, "@/home/py/3.12/bin", "@/home/py/3.12/bin", "venv");
	shows(f, "@/home/py/3.12/lib", "@/home/py/3.12/lib", "venv");
	assert_int_equal(f->t.n_mounts, 2);
	assert_true(has_env(f, "VIRTUAL_ENV=/inside/.venv"));
	/* also when it is on PATH under another name */
	sh(f, "mv ws/.venv ws/myenv");
	look(f, "@/ws/myenv/bin");
	path_is(f, "/inside/myenv/bin");
	shows(f, "@/home/py/3.12/bin", "@/home/py/3.12/bin", "venv");
	f->in.presets = TOOLCHAIN_AUTO & ~TOOLCHAIN_BIT(TOOLCHAIN_VENV);
	look(f, "@/ws/myenv/bin");
	assert_int_equal(f->t.n_mounts, 0);
}

/* A sandbox wrote the workspace's pyvenv.cfg: it chooses nothing. */
static void test_hostile_venv(void **state)
{
	static const char *const bad[] = {
		"home = @/home/private/bin\nversion = 3.12\n",
		"home = @/home\nversion = 3.12\n",
		"home = @/home/.ssh\nversion = 3.12\n",
		"home = @\nversion = 3.12\n",
		"home = /\nversion = 3.12\n",
		"home = /etc\nversion = 3.12\n",
		"home = /proc/self/cwd\nversion = 3.12\n",
		"home = @/home/py/bin\nversion = ../../../x\n",
		"home = @/home/py/bin\nversion = 3.99\n",
		"home = @/home/py/bin\n",
		"version = 3.12\n",
		"home = home/py/bin\nversion = 3.12\n",
		"home = @/home/x/../py/bin\nversion = 3.12\n",
		"home = @/home/gone/bin\nversion = 3.12\n",
		"",
		"=\n==\nhome\n= home\n",
	};
	struct fixture *f = *state;

	sh(f, "mkdir -p home/py/bin home/py/lib/python3.12 home/private/bin home/private/lib "
	      "home/.ssh ws/.venv/bin; touch home/py/lib/python3.12/os.py home/.ssh/id;"
	      "install -m 755 /dev/null home/py/bin/python3.12;"
	      "install -m 755 /dev/null home/private/bin/python3.12");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_free char *text = expand(f, bad[i]);
		cleanup_free char *name = expand(f, "@/ws/.venv/pyvenv.cfg");
		FILE *out = fopen(name, "we");
		assert_non_null(out);
		fputs(text, out);
		fclose(out);
		look(f, "@/ws/.venv/bin");
		if (f->t.n_mounts)
			fail_msg("%s shows %s", text, f->t.mounts[0].dst);
	}
	/* links and FIFOs in the way */
	sh(f, "rm ws/.venv/pyvenv.cfg; printf 'home = %s/home/py/bin\\nversion = 3.12\\n' "
	      "\"$PWD\" > home/cfg; ln -s ../../home/cfg ws/.venv/pyvenv.cfg");
	look(f, "@/ws/.venv/bin");
	assert_int_equal(f->t.n_mounts, 0);
	sh(f, "rm ws/.venv/pyvenv.cfg; mkfifo ws/.venv/pyvenv.cfg");
	look(f, "@/ws/.venv/bin");
	assert_int_equal(f->t.n_mounts, 0);
	sh(f, "rm -r ws/.venv; mkdir home/v; mv home/cfg home/v/pyvenv.cfg; "
	      "ln -s ../home/v ws/.venv");
	look(f, "/bin");
	assert_int_equal(f->t.n_mounts, 0);
	/* and the directory on PATH that became a link */
	sh(f, "ln -s ../home/private ws/tools");
	look(f, "@/ws/tools/bin");
	assert_int_equal(f->t.n_mounts, 0);
	path_is(f, "@/ws/tools/bin");
}

static void test_conda(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/miniconda3/bin home/miniconda3/condabin "
	      "home/miniconda3/conda-meta home/miniconda3/envs/ml/bin "
	      "home/miniconda3/envs/ml/conda-meta");
	cleanup_free char *env = expand(f, "@/home/miniconda3/envs/ml");
	vars[0][0] = "CONDA_PREFIX";
	vars[0][1] = env;
	vars[1][0] = "CONDA_DEFAULT_ENV";
	vars[1][1] = "ml";
	look(f, "@/home/miniconda3/envs/ml/bin:/usr/bin");
	assert_int_equal(f->t.n_mounts, 1);
	shows(f, "@/home/miniconda3/envs/ml", "@/home/miniconda3/envs/ml", "conda");
	assert_true(has_env(f, "CONDA_PREFIX=@/home/miniconda3/envs/ml"));
	assert_true(has_env(f, "CONDA_DEFAULT_ENV=ml"));
	look(f, "@/home/miniconda3/envs/ml/bin:@/home/miniconda3/condabin:/usr/bin");
	assert_int_equal(f->t.n_mounts, 1);
	shows(f, "@/home/miniconda3", "@/home/miniconda3", "conda");
	path_is(f, "@/home/miniconda3/envs/ml/bin:@/home/miniconda3/condabin");
}

static void test_local(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.local/bin home/.local/lib/python3.12/site-packages "
	      "home/.local/share/pipx/venvs/black/bin home/.local/share/uv/tools/ruff/bin "
	      "home/.local/share/uv/python home/.local/share/keyrings home/opt/tool/bin "
	      "home/opt/tool/lib home/one home/opt/v1/bin home/opt/v1/lib home/.aws "
	      "home/.npm/lib/node_modules/@s/x/bin home/proj/bin home/proj/lib home/proj/.git;"
	      "cd home; touch .local/bin/script .local/share/pipx/venvs/black/bin/black "
	      ".local/share/uv/tools/ruff/bin/ruff opt/tool/bin/tool one/prog opt/v1/bin/v "
	      ".aws/key .npm/lib/node_modules/@s/x/bin/x.js proj/bin/p proj/.env;"
	      "ln -s v1 opt/v; cd .local/bin; ln -s ../share/pipx/venvs/black/bin/black .;"
	      "ln -s ../share/uv/tools/ruff/bin/ruff .; ln -s ../../opt/tool/bin/tool .;"
	      "ln -s ../../one/prog .; ln -s ../../opt/v/bin/v .; ln -s ../../.aws/key .;"
	      "ln -s nowhere dangling; ln -s loop loop; ln -s /usr/bin/env env; ln -s . dot;"
	      "ln -s ../../.npm/lib/node_modules/@s/x/bin/x.js x; ln -s ../../proj/bin/p p");
	look(f, "@/home/.local/bin");
	shows(f, "@/home/.local/bin", "@/home/.local/bin", "local");
	shows(f, "@/home/.local/share/pipx", "@/home/.local/share/pipx", "local");
	shows(f, "@/home/.local/share/uv/tools", "@/home/.local/share/uv/tools", "uv");
	shows(f, "@/home/.local/share/uv/python", "@/home/.local/share/uv/python", "uv");
	shows(f, "@/home/opt/tool", "@/home/opt/tool", "local");
	shows(f, "@/home/one/prog", "@/home/one/prog", "local");
	shows(f, "@/home/opt/v1", "@/home/opt/v1", "local");
	shows(f, "@/home/opt/v1", "@/home/opt/v", "local");
	shows(f, "@/home/.npm/lib/node_modules", "@/home/.npm/lib/node_modules", "local");
	shows(f, "@/home/.local/lib/python3.12/site-packages",
	      "@/home/.local/lib/python3.12/site-packages", "local");
	/* another project is not shown for one program of it */
	shows(f, "@/home/proj/bin/p", "@/home/proj/bin/p", "local");
	assert_int_equal(f->t.n_mounts, 11);
	assert_true(noted(f, "~/.aws/key, which is not shown"));

	f->in.presets = TOOLCHAIN_BIT(TOOLCHAIN_UV);
	sh(f, "touch home/.local/bin/uv");
	look(f, "@/home/.local/bin");
	shows(f, "@/home/.local/bin/uv", "@/home/.local/bin/uv", "uv");
	assert_null(mount_at(f, "@/home/.local/bin"));
	path_is(f, "@/home/.local/bin");
}

static void test_huge_directory(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.local/bin home/many; cd home/many; "
	      "i=0; while [ $i -lt 60 ]; do mkdir d$i; touch d$i/p; "
	      "ln -s ../../many/d$i/p ../.local/bin/l$i; i=$((i+1)); done; "
	      "cd ../.local/bin; seq -f f%g 2000 | xargs touch");
	look(f, "@/home/.local/bin");
	assert_true(f->t.n_mounts <= 1 + TREES_MAX);
	assert_true(noted(f, "more than"));
}

static void test_other_directories(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p opt/jdk/bin opt/jdk/lib home/bin home/lib opt/plain/bin home/sub/tool");
	look(f, "@/opt/jdk/bin:@/home/bin:@/opt/plain/bin/:@/home//sub/./tool:@/opt/jdk/bin");
	shows(f, "@/opt/jdk", "@/opt/jdk", "path");
	/* HOME is nobody's prefix */
	shows(f, "@/home/bin", "@/home/bin", "path");
	shows(f, "@/opt/plain/bin", "@/opt/plain/bin", "path");
	shows(f, "@/home/sub/tool", "@/home/sub/tool", "path");
	assert_int_equal(f->t.n_mounts, 4);
	path_is(f, "@/opt/jdk/bin:@/home/bin:@/opt/plain/bin:@/home/sub/tool");
}

static void test_never_shown(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.ssh home/.aws/bin home/.config home/.claude/local; "
	      "touch home/file; ln -s home back; ln -s / root; ln -s .. home/up;"
	      "ln -s loop loop; ln -s nowhere dangling; ln -s .ssh home/innocent; mkfifo fifo");
	look(f, "::.:bin:../x:@/home:@:/:/tmp:/home:/etc:/proc/self:/dev/shm:/sys:/run:/var:"
		"/opt:@/home/.ssh:@/home/.aws/bin:@/home/.config:@/home/.claude/local:"
		"@/home/file:@/back:@/root:@/root/etc:@/home/up:@/loop:@/dangling:@/fifo:"
		"@/home/innocent:@/gone:@/home/../home/.ssh");
	for (size_t i = 0; i < f->t.n_mounts; i++)
		print_message("%s\n", f->t.mounts[i].dst);
	assert_int_equal(f->t.n_mounts, 0);
	path_is(f, "");
	assert_true(noted(f, "it is HOME or above it"));
	assert_true(noted(f, "AWS keys"));
	assert_true(noted(f, "'..'"));
}

static void test_who_owns_it(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p open sticky mine; chmod 777 open; chmod 1777 sticky");
	look(f, "@/open:@/sticky:@/mine");
	/* below /tmp not even the sticky bit helps */
	path_is(f, "@/mine");
	assert_true(noted(f, "anyone may write there"));
	if (geteuid() == 0) {
		sh(f, "mkdir theirs; chown 65534 theirs");
		look(f, "@/theirs:@/mine");
		path_is(f, "@/mine");
		assert_true(noted(f, "belongs to someone else"));
	}
}

static void test_strange_names(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir 'home/a\nb' 'home/c\033[31m' home/real 'home/x:y'; "
	      "ln -s 'x:y' home/colon; chmod 777 'home/c\033[31m' 2>/dev/null || :;"
	      "d=$(printf 'home/esc\\033[31m'); mkdir \"$d\"; chmod 777 \"$d\"");
	look(f, "@/home/a\nb:@/home/colon:@/home/esc\033[31m:@/home/real");
	assert_non_null(mount_at(f, "@/home/a\nb"));
	/* the link's own name can be said in PATH, its target's cannot */
	shows(f, "@/home/x:y", "@/home/colon", "path");
	path_is(f, "@/home/a\nb:@/home/colon:@/home/real");
	assert_true(noted(f, "\\x1b"));
}

static void test_thousand_entries(void **state)
{
	struct fixture *f = *state;
	struct buf b = { 0 };
	struct timespec a, z;

	sh(f, "mkdir many; cd many; seq 1000 | xargs mkdir");
	for (int i = 1; i <= 1000; i++)
		buf_addf(&b, "@/many/%d:/usr/bin:", i);
	cleanup_free char *path = buf_take(&b, NULL);
	clock_gettime(CLOCK_MONOTONIC, &a);
	look(f, path);
	clock_gettime(CLOCK_MONOTONIC, &z);
	assert_true(f->t.n_mounts <= MOUNTS_MAX && f->t.n_mounts >= 100);
	assert_true(noted(f, "left out") || noted(f, "not listed"));
	assert_true(strv_len(f->t.notes) <= NOTES_MAX + 2);
	assert_true((z.tv_sec - a.tv_sec) < 2);
	/* one element longer than any path */
	cleanup_free char *longest = calloc(1, 9000);
	memset(longest, 'x', 8999);
	longest[0] = '/';
	look(f, longest);
	assert_int_equal(f->t.n_mounts, 0);
}

static void test_workspace(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p ws/node_modules/.bin home/tool/ws/bin home/tool/bin home/tool/lib; "
	      "ln -s ../ws/node_modules/.bin home/wsbin");
	f->in.workspace_dst = "/inside";
	look(f, "@/ws/node_modules/.bin:@/ws/not-there-yet:@/ws:@/home/wsbin");
	assert_int_equal(f->t.n_mounts, 0);
	path_is(f, "/inside/node_modules/.bin:/inside/not-there-yet:/inside");
	/* a workspace inside a tool: shown elsewhere it has no place in it */
	cleanup_free char *inner = expand(f, "@/home/tool/ws");
	f->in.workspace_src = inner;
	look(f, "@/home/tool/bin");
	assert_int_equal(f->t.n_mounts, 1);
	f->in.workspace_dst = inner;
	look(f, "@/home/tool/bin");
	shows(f, "@/home/tool", "@/home/tool", "path");
	cleanup_free char *place = expand(f, "@/home/tool/new");
	f->in.workspace_dst = place;
	look(f, "@/home/tool/bin");
	assert_int_equal(f->t.n_mounts, 0);
	/* HOME is the workspace: everything is there already */
	sh(f, "mkdir -p home/.local/bin home/.cargo/bin home/.ssh; touch home/.ssh/known_hosts;"
	      "chmod 644 home/.ssh/known_hosts");
	f->in.workspace_src = f->in.workspace_dst = f->home;
	look(f, "@/home/.local/bin:@/home/.cargo/bin");
	assert_int_equal(f->t.n_mounts, 0);
	path_is(f, "@/home/.local/bin:@/home/.cargo/bin");
}

static void test_shown_by_the_caller(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.nvm/versions/node/v20/bin other");
	cleanup_free char *nvm = expand(f, "@/home/.nvm");
	cleanup_free char *other = expand(f, "@/other");
	struct credentials_shown shown = { other, nvm };
	f->in.shown = &shown;
	f->in.n_shown = 1;
	look(f, "@/home/.nvm/versions/node/v20/bin");
	assert_int_equal(f->t.n_mounts, 0);
}

static void test_home_elsewhere(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.pyenv/shims home/.pyenv/versions home/.ssh "
	      "home/.local/lib/python3.11/site-packages; touch home/.ssh/known_hosts "
	      "home/.ssh/id_ed25519; chmod 644 home/.ssh/known_hosts");
	f->in.home_inside = "/home/sandbox";
	look(f, "@/home/.pyenv/shims");
	shows(f, "@/home/.pyenv/shims", "@/home/.pyenv/shims", "pyenv");
	assert_true(has_env(f, "PYENV_ROOT=@/home/.pyenv"));
	shows(f, "@/home/.ssh/known_hosts", "/home/sandbox/.ssh/known_hosts", "ssh");
	shows(f, "@/home/.local/lib/python3.11/site-packages",
	      "/home/sandbox/.local/lib/python3.11/site-packages", "local");
	f->in.home = f->in.home_inside = NULL;
	sh(f, "mkdir tool");
	look(f, "@/tool");
	path_is(f, "@/tool");
	assert_int_equal(f->t.n_mounts, 1);
}

static void test_known_hosts(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.ssh; cd home/.ssh; touch known_hosts id_ed25519 known_hosts2;"
	      "chmod 600 *");
	look(f, "/bin");
	shows(f, "@/home/.ssh/known_hosts", "@/home/.ssh/known_hosts", "ssh");
	shows(f, "@/home/.ssh/known_hosts2", "@/home/.ssh/known_hosts2", "ssh");
	assert_int_equal(f->t.n_mounts, 2);
	/* neither a link to a key nor a FIFO nor what others may write */
	sh(f, "cd home/.ssh; rm known_hosts*; ln -s id_ed25519 known_hosts; mkfifo known_hosts2");
	look(f, "/bin");
	assert_int_equal(f->t.n_mounts, 0);
	sh(f, "cd home/.ssh; rm known_hosts*; touch known_hosts; chmod 666 known_hosts");
	look(f, "/bin");
	assert_int_equal(f->t.n_mounts, 0);
	assert_true(noted(f, "not a plain file"));
}

static void test_git(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/.config/git; "
	      "printf '[user]\\nname = XDG\\nemail = x@y\\n' > home/.config/git/config;"
	      "printf '[user]\\n name = \"A \\\\\"B\\\\\" C\" # c\\n[credential]\\n"
	      "helper = store\\n' > home/.gitconfig");
	f->in.workspace_dst = "/w\"s";
	look(f, "/bin");
	assert_string_equal(f->t.gitconfig,
			    "# made by brig\n[user]\n\tname = \"A \\\"B\\\" C\"\n"
			    "\temail = \"x@y\"\n[safe]\n\tdirectory = \"/w\\\"s\"\n"
			    "\tdirectory = \"/w\\\"s/*\"\n");
	cleanup_free char *xdg = expand(f, "@/xdg");
	vars[0][0] = "XDG_CONFIG_HOME";
	vars[0][1] = xdg;
	sh(f, "rm home/.gitconfig; mkfifo home/.gitconfig; mkdir -p xdg/git; "
	      "printf '[user]\\nname=Z\\n' > xdg/git/config");
	look(f, "/bin");
	assert_non_null(strstr(f->t.gitconfig, "name = \"Z\""));
	assert_null(strstr(f->t.gitconfig, "x@y"));
	assert_true(noted(f, ".gitconfig is not used"));
	/* too large */
	sh(f, "rm home/.gitconfig; head -c 70000 /dev/zero > home/.gitconfig");
	look(f, "/bin");
	assert_true(noted(f, ".gitconfig is not used"));
	f->in.presets &= ~TOOLCHAIN_BIT(TOOLCHAIN_GIT);
	look(f, "/bin");
	assert_null(f->t.gitconfig);
}

static void test_git_identity(void **state)
{
	static const struct {
		const char *text, *name; /* NULL: refused */
	} cases[] = {
		{ "[user]\nname = A B\n", "A B" },
		{ "[user]name=A", "A" },
		{ "[USER]\nNAME=  A \t B  ; c\n", "A   B" },
		{ "[user]\nname = \"  A  \"\n", "  A  " },
		{ "[user]\nname = \"A # B\" # c\n", "A # B" },
		{ "[user]\nname = A\\\n B\n", "A B" },
		{ "[user]\r\nname = A\r\n", "A" },
		{ "\xef\xbb\xbf[user]\nname = A", "A" },
		{ "[user]\nname = A\\\\B\n", "A\\B" },
		{ "[user]\nname = A\n[user]\nname = B\n", "B" },
		{ "[user \"x\"]\nname = A\n", "" },
		{ "[user.x]\nname = A\n", "" },
		{ "[include]\npath = /etc/passwd\n[user]\nname=A\n", "A" },
		{ "[credential \"a\\\"]b\"]\nhelper = \"!sh -c 'x'\"\n[user]\nname=A\n", "A" },
		{ "[user]\nname\nemail\n", "" },
		{ "[user]\nname = A\\nB\n", "" }, /* a newline in it: dropped */
		{ "[user]\nname = A\\tB\n", "" },
		{ "[user]\nname = \n", "" },
		{ "# [user]\n; name = x\n", "" },
		{ "[core]\neditor = vi \\\n[user]\nname = evil\n", "" },
		{ "[user]\nname = \"A\n", NULL },
		{ "[user]\nname = A\\x\n", NULL },
		{ "[user\nname = A\n", NULL },
		{ "[user]\n= A\n", NULL },
		{ "[user]\nname A\n", NULL },
		{ "[user]\nna_me = A\n", NULL },
		{ "[user]\nname = A\\", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct git_identity id = { .name = "" };
		bool ok = git_identity_parse(cases[i].text, strlen(cases[i].text), &id);
		if (ok != (cases[i].name != NULL) ||
		    (ok && !streq(id.name, cases[i].name)))
			fail_msg("%s: %d '%s'", cases[i].text, ok, id.name);
	}
	struct git_identity id = { .name = "" };
	assert_false(git_identity_parse("[user]\nname = a\0b\n", 18, &id));
	char big[1024];
	snprintf(big, sizeof big, "[user]\nname = %0600d\nemail = e\n", 1);
	assert_true(git_identity_parse(big, strlen(big), &id));
	assert_string_equal(id.name, "");
	assert_string_equal(id.email, "e");
	static const char hooks[] = "[Core]\nHOOKSPATH = .h/x # c\n[user]\nname=A\n";
	assert_true(git_identity_parse(hooks, strlen(hooks), &id));
	assert_string_equal(id.hooks, ".h/x");
	static const char none[] = "[core]\nhookspath =\n";
	assert_true(git_identity_parse(none, strlen(none), &id));
	assert_string_equal(id.hooks, "");
}

static void test_no_memory_is_kept(void **state)
{
	struct fixture *f = *state;

	toolchain_free(&f->t); /* twice does no harm */
	toolchain_free(&f->t);
	assert_null(f->t.mounts);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_git_identity),
		T(test_nothing_wanted),
		T(test_system_path),
		T(test_nvm),
		T(test_fnm),
		T(test_roots),
		T(test_linked_root),
		T(test_linked_home),
		T(test_go_and_java),
		T(test_venv),
		T(test_hostile_venv),
		T(test_conda),
		T(test_local),
		T(test_huge_directory),
		T(test_other_directories),
		T(test_never_shown),
		T(test_who_owns_it),
		T(test_strange_names),
		T(test_thousand_entries),
		T(test_workspace),
		T(test_shown_by_the_caller),
		T(test_home_elsewhere),
		T(test_known_hosts),
		T(test_git),
		T(test_no_memory_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
