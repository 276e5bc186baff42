/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The presets as tables: which directory on PATH means which tool, what else of
 * that tool's root is needed, which variables go with it, where caches are.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "policy/toolchain_internal.h"

#define BIT(sym) TOOLCHAIN_BIT(TOOLCHAIN_##sym)

/*
 * A directory on PATH, relative to a tool's root.  The root is what the variable
 * names, else the place below HOME.  The tree that is shown lies `up` names
 * above the directory.
 */
static const struct {
	enum toolchain_preset preset;
	const char *env, *root, *glob;
	unsigned char up;
	bool rooted; /* the rest of the root is needed too: see extras[] */
	bool links;  /* its links lead elsewhere */
} path_rules[] = {
	{ TOOLCHAIN_NVM, "NVM_DIR", ".nvm", "versions/node/*/bin", .up = 1 },
	{ TOOLCHAIN_NVM, "NVM_DIR", ".config/nvm", "versions/node/*/bin", .up = 1 },
	/* ~/.nvm/current, a link that nvm can keep */
	{ TOOLCHAIN_NVM, "NVM_DIR", ".nvm", "current/bin", .up = 1 },
	{ TOOLCHAIN_FNM, "FNM_DIR", ".local/share/fnm",
	  "node-versions/*/installation/bin", .up = 2 },
	{ TOOLCHAIN_FNM, "FNM_DIR", ".fnm", "node-versions/*/installation/bin",
	  .up = 2 },
	{ TOOLCHAIN_FNM, "FNM_DIR", ".local/share/fnm", "aliases/*/bin", .up = 1 },
	{ TOOLCHAIN_VOLTA, "VOLTA_HOME", ".volta", "bin", .rooted = true },
	{ TOOLCHAIN_PYENV, "PYENV_ROOT", ".pyenv", "shims", .rooted = true },
	{ TOOLCHAIN_PYENV, "PYENV_ROOT", ".pyenv", "bin", .rooted = true },
	{ TOOLCHAIN_PYENV, "PYENV_ROOT", ".pyenv", "plugins/*/*", .rooted = true },
	{ TOOLCHAIN_PYENV, "PYENV_ROOT", ".pyenv", "versions/*/bin", .up = 1 },
	{ TOOLCHAIN_RUST, "CARGO_HOME", ".cargo", "bin", .rooted = true },
	{ TOOLCHAIN_RUST, "RUSTUP_HOME", ".rustup", "toolchains/*/bin", .up = 1 },
	{ TOOLCHAIN_GO, "GOBIN", "go/bin", "", .up = 0 },
	{ TOOLCHAIN_GO, "GOPATH", "go", "bin", .up = 0 },
	{ TOOLCHAIN_SDKMAN, "SDKMAN_DIR", ".sdkman", "candidates/*/*/bin", .up = 1 },
	{ TOOLCHAIN_BUN, "BUN_INSTALL", ".bun", "bin", .rooted = true },
	{ TOOLCHAIN_DENO, "DENO_INSTALL", ".deno", "bin", .up = 0 },
	{ TOOLCHAIN_LOCAL, NULL, ".local", "bin", .links = true },
};

/*
 * What else a found preset needs of its root.  settings.toml and layout.v4 are
 * read at each start; without them rustup and volta believe nothing is set up.
 * Cargo's own root is missing on purpose: config.toml and credentials.toml are
 * in it, and CARGO_HOME is private inside.
 */
static const struct {
	unsigned when; /* one of these is there, 0: always */
	enum toolchain_preset preset;
	const char *env, *root;
	const char *names[8];
	bool set; /* the variable is set inside, also when it was not outside */
} extras[] = {
	{ BIT(VOLTA), TOOLCHAIN_VOLTA, "VOLTA_HOME", ".volta",
	  { "tools", "layout.v4", "layout.v5" }, .set = true },
	{ BIT(PYENV), TOOLCHAIN_PYENV, "PYENV_ROOT", ".pyenv",
	  { "shims", "versions", "libexec", "bin", "plugins", "pyenv.d", "version" },
	  .set = true },
	{ BIT(RUST), TOOLCHAIN_RUST, "RUSTUP_HOME", ".rustup",
	  { "toolchains", "settings.toml" }, .set = true },
	{ BIT(BUN), TOOLCHAIN_BUN, "BUN_INSTALL", ".bun", { "install/global" },
	  .set = true },
	/* uv itself may be a program of the system */
	{ 0, TOOLCHAIN_UV, "UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", { "" },
	  .set = false },
	{ 0, TOOLCHAIN_UV, "UV_TOOL_DIR", ".local/share/uv/tools", { "" }, .set = false },
};

/* Package caches, at the place below HOME where the tool inside looks. */
static const struct {
	enum toolchain_preset preset;
	const char *env, *root, *name, *inside;
} caches[] = {
	{ TOOLCHAIN_RUST, "CARGO_HOME", ".cargo", "/registry", ".cargo/registry" },
	{ TOOLCHAIN_RUST, "CARGO_HOME", ".cargo", "/git", ".cargo/git" },
	{ TOOLCHAIN_GO, "GOMODCACHE", "go/pkg/mod", "", "go/pkg/mod" },
	{ TOOLCHAIN_UV, "UV_CACHE_DIR", ".cache/uv", "", ".cache/uv" },
	{ TOOLCHAIN_LOCAL, "PIP_CACHE_DIR", ".cache/pip", "", ".cache/pip" },
	{ TOOLCHAIN_PATH, "npm_config_cache", ".npm", "/_cacache", ".npm/_cacache" },
	{ TOOLCHAIN_BUN, "BUN_INSTALL", ".bun", "/install/cache", ".bun/install/cache" },
	{ TOOLCHAIN_DENO, "DENO_DIR", ".cache/deno", "", ".cache/deno" },
};

/* Variables that pass when what they say is true inside as well. */
static const struct {
	const char *name;
	unsigned when; /* one of these presets was found */
	bool is_path;
} env_rules[] = {
	{ "VIRTUAL_ENV", BIT(VENV), true },
	{ "CONDA_PREFIX", BIT(CONDA), true },
	{ "CONDA_EXE", BIT(CONDA), true },
	{ "CONDA_PYTHON_EXE", BIT(CONDA), true },
	{ "CONDA_DEFAULT_ENV", BIT(CONDA), false },
	{ "GOROOT", BIT(GO), true },
	{ "JAVA_HOME", BIT(SDKMAN) | BIT(PATH), true },
	{ "UV_PYTHON_INSTALL_DIR", BIT(UV), true },
	{ "UV_TOOL_DIR", BIT(UV), true },
	{ "PYENV_VERSION", BIT(PYENV), false },
	{ "RUSTUP_TOOLCHAIN", BIT(RUST), false },
};

/* The root that a variable names; fresh memory, NULL when it names none. */
static char *env_root(struct finder *f, const char *env)
{
	const char *value = env ? f->in->env(env) : NULL;
	char *norm = NULL;

	if (!value || *value != '/')
		return NULL;
	/* GOPATH is a list; its first element is where things go */
	cleanup_free char *first = strndup(value, strcspn(value, ":"));
	if (!first || path_normalise(first, &norm) == -ENOMEM)
		f->failed = true;
	return norm;
}

/* A tool's root, as the caller has it; fresh memory, NULL when there is none. */
static char *root_of(struct finder *f, const char *env, const char *root)
{
	char *path = env_root(f, env);

	if (path || !f->in->home)
		return path;
	path = str_fmt("%s/%s", f->in->home, root);
	if (!path)
		f->failed = true;
	return path;
}

static bool rule_fits(const struct finder *f, size_t rule, const char *path)
{
	const char *root = f->rule_roots[rule];

	if (!root) {
		root = path_rules[rule].root;
		path = home_relative(f, path);
	}
	if (!path || !path_is_under(path, root))
		return false;
	path += strlen(root);
	return fnmatch(path_rules[rule].glob, *path ? path + 1 : path, FNM_PATHNAME) == 0;
}

/* The variables are asked for with every directory of PATH: read once. */
static bool roots_ready(struct finder *f)
{
	if (f->rule_roots)
		return true;
	f->rule_roots = calloc(ARRAY_LEN(path_rules), sizeof *f->rule_roots);
	if (!f->rule_roots) {
		f->failed = true;
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(path_rules); i++)
		f->rule_roots[i] = env_root(f, path_rules[i].env);
	return true;
}

void rules_free(struct finder *f)
{
	for (size_t i = 0; f->rule_roots && i < ARRAY_LEN(path_rules); i++)
		free(f->rule_roots[i]);
	free(f->rule_roots);
}

/* uv without the rest of ~/.local/bin. */
static const char *uv_alone(struct finder *f, const struct place *p, const char *text)
{
	static const char *const names[] = { "uv", "uvx" };
	const char *inside = NULL;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		scoped_place uv;
		uv.fd = -1;
		if (place_open(f, p->fd, names[i], &uv) &&
		    S_ISREG(uv.st.st_mode) && !place_refused(f, &uv) &&
		    place_show(f, &uv, NULL, 0, TOOLCHAIN_UV, true))
			inside = text;
	}
	return inside;
}

bool rules_match(struct finder *f, const struct place *p, const char *text,
		 const char **inside)
{
	*inside = NULL;
	for (size_t i = 0; roots_ready(f) && i < ARRAY_LEN(path_rules); i++) {
		enum toolchain_preset preset = path_rules[i].preset;
		if (!rule_fits(f, i, text) &&
		    (streq(text, p->spelt) || !rule_fits(f, i, p->spelt)))
			continue;
		if (!wanted(f, preset)) {
			if (preset == TOOLCHAIN_LOCAL && wanted(f, TOOLCHAIN_UV))
				*inside = uv_alone(f, p, text);
			return true;
		}
		unsigned up = path_rules[i].up;
		if (preset == TOOLCHAIN_GO && is_goroot(p))
			up = 1;
		*inside = place_show(f, p, text, up, preset, false);
		if (!*inside)
			return true;
		note(f, preset, "%s", p->spelt);
		if (path_rules[i].rooted)
			f->rooted |= TOOLCHAIN_BIT(preset);
		if (path_rules[i].links)
			links_later(f, p, preset);
		return true;
	}
	return false;
}

/* Shows one file or directory of a tool's root.  True when it can be seen. */
static bool show_extra(struct finder *f, const char *root, const char *name,
		       enum toolchain_preset preset)
{
	cleanup_free char *path = str_fmt("%s%s%s", root, *name ? "/" : "", name);
	scoped_place p;

	p.fd = -1;
	if (!path) {
		f->failed = true;
		return false;
	}
	if (place_is_visible(f, path))
		return true;
	if (!place_open(f, AT_FDCWD, path, &p))
		return false;
	const char *why = place_refused(f, &p);
	if (why) {
		note(f, preset, "%s is not shown: %s", path, why);
		return false;
	}
	const char *inside = place_show(f, &p, path, 0, preset, true);
	return inside && streq(inside, path);
}

static void share_caches(struct finder *f)
{
	const char *home = f->in->home_inside;

	for (size_t i = 0; home && i < ARRAY_LEN(caches); i++) {
		if (!wanted(f, caches[i].preset))
			continue;
		cleanup_free char *root = root_of(f, caches[i].env, caches[i].root);
		if (!root)
			continue;
		cleanup_free char *src = str_fmt("%s%s", root, caches[i].name);
		cleanup_free char *dst = str_fmt("%s/%s", home, caches[i].inside);
		if (src && dst)
			place_show_at(f, src, dst, caches[i].preset);
		else
			f->failed = true;
	}
}

void rules_roots(struct finder *f)
{
	for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
		enum toolchain_preset preset = extras[i].preset;
		size_t before = f->out->n_mounts;
		bool any = false;
		if (!wanted(f, preset) ||
		    (extras[i].when && !(extras[i].when & f->rooted)))
			continue;
		cleanup_free char *root = root_of(f, extras[i].env, extras[i].root);
		for (size_t k = 0; root && k < ARRAY_LEN(extras[i].names) &&
				   extras[i].names[k]; k++)
			any |= show_extra(f, root, extras[i].names[k], preset);
		if (any && extras[i].set)
			set_env(f, extras[i].env, root);
		else if (f->out->n_mounts > before)
			note(f, preset, "%s", root);
	}
	if (f->in->share_caches)
		share_caches(f);
}

/* A name that means itself wherever it stands. */
static bool plain_word(const char *s)
{
	static const char more[] = "._+-:,@";
	size_t n = 0;

	for (; s[n]; n++)
		if (!((s[n] >= '0' && s[n] <= '9') ||
		      ((s[n] | 32) >= 'a' && (s[n] | 32) <= 'z') ||
		      strchr(more, s[n])))
			return false;
	return n > 0 && n < 128;
}

void rules_env(struct finder *f)
{
	for (size_t i = 0; i < ARRAY_LEN(env_rules); i++) {
		const char *name = env_rules[i].name;
		const char *value = f->in->env(name);
		cleanup_free char *norm = NULL;
		if (!(f->seen & env_rules[i].when) || !value)
			continue;
		if (!env_rules[i].is_path) {
			if (plain_word(value))
				set_env(f, name, value);
			continue;
		}
		if (path_normalise(value, &norm) < 0)
			continue;
		cleanup_free char *inside = workspace_inside(f, norm);
		if (inside || place_is_visible(f, norm))
			set_env(f, name, inside ? inside : norm);
	}
}
