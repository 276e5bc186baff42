/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories on PATH that no rule knows by name: told by what lies beside them.
 * Each question is one look-up from the directory's own descriptor.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "policy/toolchain_internal.h"

static bool has(const struct place *dir, const char *name)
{
	return faccessat(dir->fd, name, F_OK, 0) == 0;
}

static bool named(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return slash && streq(slash + 1, name);
}

bool is_goroot(const struct place *bin)
{
	return named(bin->real, "bin") && has(bin, "../VERSION") && has(bin, "go");
}

/* At least two names: /opt/tool is a prefix, /opt is a place for many. */
static bool deep_enough(const char *path)
{
	return *path == '/' && strchr(path + 1, '/');
}

bool is_prefix(const struct finder *f, const struct place *bin)
{
	big_buffer char prefix[PATH_MAX];
	struct stat st;

	if (!named(bin->spelt, "bin") && !named(bin->spelt, "sbin"))
		return false;
	strcpy(prefix, bin->spelt);
	if (!path_cut(prefix, 1) || !deep_enough(prefix) || path_refused(f, prefix))
		return false;
	const char *rel = home_relative(f, prefix);
	if (rel && credentials_below(rel))
		return false;
	if (!has(bin, "../lib") && !has(bin, "../libexec") && !has(bin, "../lib64"))
		return false;
	/* Somebody's project has bin and lib as well; what else is in it is not
	 * for a sandbox that works on another one. */
	if (has(bin, "../.git") || has(bin, "../.env"))
		return false;
	return fstatat(bin->fd, "..", &st, 0) == 0 && !(st.st_mode & S_IWOTH) &&
	       (st.st_uid == f->uid || st.st_uid == 0);
}

static bool is_venv(const struct finder *f, const struct place *bin)
{
	(void)f;
	return has(bin, "../pyvenv.cfg");
}

static bool is_conda(const struct finder *f, const struct place *bin)
{
	(void)f;
	return has(bin, "../conda-meta");
}

static bool is_go(const struct finder *f, const struct place *bin)
{
	(void)f;
	return is_goroot(bin);
}

/* The first that fits.  The tree shown is the directory's parent. */
static const struct {
	enum toolchain_preset preset;
	bool (*fits)(const struct finder *f, const struct place *bin);
	bool links;
} shapes[] = {
	{ TOOLCHAIN_VENV, is_venv, true },
	{ TOOLCHAIN_CONDA, is_conda, false },
	{ TOOLCHAIN_GO, is_go, false },
	{ TOOLCHAIN_PATH, is_prefix, true },
};

const char *shape_match(struct finder *f, const struct place *p, const char *text)
{
	enum toolchain_preset preset = TOOLCHAIN_PATH;
	unsigned up = 0;
	bool links = true;

	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		if (shapes[i].fits(f, p)) {
			preset = shapes[i].preset;
			links = shapes[i].links;
			up = 1;
			break;
		}
	if (!wanted(f, preset))
		return NULL;
	const char *inside = place_show(f, p, text, up, preset, false);
	if (!inside)
		return NULL;
	note(f, preset, "%s", p->spelt);
	if (preset == TOOLCHAIN_VENV)
		venv_base_of(f, p);
	if (links)
		links_later(f, p, preset);
	return inside;
}
