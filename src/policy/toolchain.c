/* SPDX-License-Identifier: Apache-2.0 */
/* Toolchain presets: words, the walk along PATH, and what comes out of it. */
#include "policy/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/toolchain_internal.h"

static const struct {
	const char *name, *about;
} presets[TOOLCHAIN__COUNT] = {
#define X(sym, name, text) { name, text },
	TOOLCHAIN_PRESETS(X)
#undef X
};

static const struct {
	const char *name;
	unsigned bits;
} aliases[] = {
	{ "auto", TOOLCHAIN_AUTO },
	{ "none", 0 },
	{ "virtualenv", TOOLCHAIN_BIT(TOOLCHAIN_VENV) },
	{ "cargo", TOOLCHAIN_BIT(TOOLCHAIN_RUST) },
	{ "rustup", TOOLCHAIN_BIT(TOOLCHAIN_RUST) },
};

/* What the system's PATH has anyway. */
static const char *const standard[] = {
	"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
};

const char *toolchain_name(unsigned preset)
{
	return preset < TOOLCHAIN__COUNT ? presets[preset].name : NULL;
}

const char *toolchain_about(unsigned preset)
{
	return preset < TOOLCHAIN__COUNT ? presets[preset].about : NULL;
}

const char *toolchain_words(void)
{
#define X(sym, name, text) ", " name
	return "auto, none" TOOLCHAIN_PRESETS(X);
#undef X
}

bool toolchain_parse(const char *word, unsigned *bits)
{
	for (unsigned i = 0; i < TOOLCHAIN__COUNT; i++)
		if (streq(word, presets[i].name)) {
			*bits = TOOLCHAIN_BIT(i);
			return true;
		}
	for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
		if (streq(word, aliases[i].name)) {
			*bits = aliases[i].bits;
			return true;
		}
	return false;
}

void mount_free(struct toolchain_mount *m)
{
	free(m->src);
	free(m->dst);
	fd_close(&m->fd);
}

void toolchain_free(struct toolchain *t)
{
	for (size_t i = 0; i < t->n_mounts; i++)
		mount_free(&t->mounts[i]);
	free(t->mounts);
	strv_free(t->path);
	strv_free(t->env);
	strv_free(t->notes);
	free(t->gitconfig);
	free(t->hooks);
	*t = (struct toolchain){ 0 };
}

static bool is_standard(const char *dir)
{
	for (size_t i = 0; i < ARRAY_LEN(standard); i++)
		if (streq(dir, standard[i]))
			return true;
	return false;
}

static void add_path(struct finder *f, const char *dir)
{
	for (char **p = f->out->path; p && *p; p++)
		if (streq(*p, dir))
			return;
	/* a name with a colon cannot be said in PATH */
	if (!strchr(dir, ':') && strv_add(&f->out->path, dir) < 0)
		f->failed = true;
}

/*
 * The workspace belongs to whoever ran in the last sandbox: its links are not
 * followed and its directories not looked into, except for the bounded read
 * of a pyvenv.cfg.
 */
static void path_in_workspace(struct finder *f, const char *dir)
{
	cleanup_free char *inside = workspace_inside(f, dir);
	size_t n = strlen(f->in->workspace_src), len = strlen(dir);

	if (inside)
		add_path(f, inside);
	if (len > n + 5 && streq(dir + len - 4, "/bin")) {
		cleanup_free char *venv = strndup(dir + n + 1, len - n - 5);
		if (venv)
			venv_in_workspace(f, venv);
		else
			f->failed = true;
	}
}

/* One directory of PATH that is neither the system's nor in the workspace. */
static void path_elsewhere(struct finder *f, const char *dir)
{
	const char *inside;
	scoped_place p;

	p.fd = -1;
	if (!place_open(f, AT_FDCWD, dir, &p) || !S_ISDIR(p.st.st_mode))
		return;
	if (f->in->workspace_src && path_is_under(p.real, f->in->workspace_src)) {
		path_in_workspace(f, p.real);
		return;
	}
	if (place_is_system(p.real)) {
		add_path(f, p.real);
		return;
	}
	const char *why = place_refused(f, &p);
	if (why) {
		note(f, TOOLCHAIN_PATH, "%s is not shown: %s", dir, why);
		return;
	}
	if (!rules_match(f, &p, dir, &inside))
		inside = shape_match(f, &p, dir);
	if (inside)
		add_path(f, inside);
}

/* Drops the system's directories behind the last that is not. */
static void trim_path(struct finder *f)
{
	char **v = f->out->path;

	if (!v)
		return;
	for (size_t i = strv_len(v); i && is_standard(v[i - 1]); i--) {
		free(v[i - 1]);
		v[i - 1] = NULL;
	}
	if (!v[0]) {
		free(v);
		f->out->path = NULL;
	}
}

/* True when the vector has it already; adds it otherwise. */
static bool seen_before(struct finder *f, char ***done, const char *dir)
{
	for (char **d = *done; d && *d; d++)
		if (streq(*d, dir))
			return true;
	if (strv_add(done, dir) < 0)
		f->failed = true;
	return false;
}

static void walk_path(struct finder *f)
{
	const char *p = f->in->path;
	char **done = NULL;
	unsigned looked = 0, left = 0;

	for (; p; p = strchr(p, ':')) {
		p += *p == ':';
		cleanup_free char *one = NULL, *dir = NULL;
		size_t n = strcspn(p, ":");
		/* relative ones would mean another thing inside */
		if (n == 0 || *p != '/' || n >= PATH_MAX)
			continue;
		if (!(one = strndup(p, n))) {
			f->failed = true;
			break;
		}
		if (path_normalise(one, &dir) < 0) {
			note(f, TOOLCHAIN_PATH, "%s is not shown: it has '..' in it", one);
			continue;
		}
		if (place_is_system(dir)) {
			add_path(f, dir);
			continue;
		}
		if (seen_before(f, &done, dir))
			continue;
		if (++looked > PATH_DIRS_MAX) {
			left++;
			continue;
		}
		if (f->in->workspace_src && path_is_under(dir, f->in->workspace_src))
			path_in_workspace(f, dir);
		else
			path_elsewhere(f, dir);
	}
	if (left)
		note(f, TOOLCHAIN_PATH, "PATH has more than %d directories: %u are left "
		     "out", PATH_DIRS_MAX, left);
	strv_free(done);
	trim_path(f);
}

/* Parents come before what lies in them: '/' sorts before every other byte. */
static int by_dst(const void *x, const void *y)
{
	const unsigned char *a = (const void *)((const struct toolchain_mount *)x)->dst;
	const unsigned char *b = (const void *)((const struct toolchain_mount *)y)->dst;

	while (*a && *a == *b) {
		a++;
		b++;
	}
	int ca = *a == '/' ? 1 : *a ? *a + 1 : 0;
	int cb = *b == '/' ? 1 : *b ? *b + 1 : 0;
	return ca - cb;
}

/* The caller's own trees win: what would lie in one is there already or would
 * cover it, and what would lie around one must have its place in it. */
static bool fits_beside(const struct toolchain_mount *m, const char *src,
			const char *dst)
{
	if (path_is_under(m->dst, dst))
		return false;
	if (!path_is_under(dst, m->dst))
		return true;
	return path_is_under(src, m->src) &&
	       streq(src + strlen(m->src), dst + strlen(m->dst));
}

static bool mount_fits(const struct finder *f, const struct toolchain_mount *m)
{
	const struct toolchain_input *in = f->in;

	if (in->workspace_src && in->workspace_dst &&
	    !fits_beside(m, in->workspace_src, in->workspace_dst))
		return false;
	for (size_t i = 0; i < in->n_shown; i++)
		if (!fits_beside(m, in->shown[i].src, in->shown[i].dst))
			return false;
	return true;
}

static void settle_mounts(struct finder *f)
{
	struct toolchain *t = f->out;
	size_t kept = 0;

	if (f->failed)
		return;
	if (t->n_mounts >= MOUNTS_MAX)
		note(f, TOOLCHAIN_PATH, "more than %d mounts: the rest is left out",
		     MOUNTS_MAX);
	if (t->n_mounts)
		qsort(t->mounts, t->n_mounts, sizeof *t->mounts, by_dst);
	for (size_t i = 0; i < t->n_mounts; i++) {
		struct toolchain_mount m = t->mounts[i];
		/* A link inside a tree that is shown leads to its target there:
		 * whatever the source, the outer mount is enough. */
		if ((kept && path_is_under(m.dst, t->mounts[kept - 1].dst)) ||
		    !mount_fits(f, &m)) {
			mount_free(&m);
			continue;
		}
		t->mounts[kept++] = m;
	}
	t->n_mounts = kept;
}

int toolchain_detect(const struct toolchain_input *in, struct toolchain *out,
		     struct brig_error *err)
{
	struct finder f = { .in = in, .out = out, .uid = geteuid() };

	*out = (struct toolchain){ 0 };
	if (!in->presets)
		return 0;
	walk_path(&f);
	rules_roots(&f);
	venv_in_workspace(&f, ".venv");
	venv_in_workspace(&f, "venv");
	links_follow(&f);
	python_user_site(&f);
	find_git(&f);
	find_known_hosts(&f);
	settle_mounts(&f);
	rules_env(&f);
	rules_free(&f);
	if (f.failed)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "toolchains");
	return 0;
}
