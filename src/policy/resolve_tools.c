/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's tools, read-only, and his keys, not at all. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "policy/resolve.h"
#include "policy/resolve_internal.h"
#include "policy/toolchain.h"

static const char *own_env(const char *name)
{
	return getenv(name);
}

static unsigned presets_of(const struct brig_spec *rq, bool *failed)
{
	char **words = request_list(rq, OPT_TOOLCHAINS, failed);
	unsigned bits = 0, one;

	for (char **w = words; w && *w; w++)
		if (toolchain_parse(*w, &one)) /* they were checked when they were set */
			bits |= one;
	strv_free(words);
	return bits;
}

/* Everything of the host that is shown inside, the workspace last. */
static struct credentials_shown *shown_trees(const struct spec *s, size_t *n)
{
	struct credentials_shown *v = calloc(s->n_binds + 1, sizeof *v);

	*n = 0;
	for (size_t i = 0; v && i < s->n_binds; i++)
		v[(*n)++] = (struct credentials_shown){ s->binds[i].src, s->binds[i].dst };
	if (v)
		v[(*n)++] = (struct credentials_shown){ s->workspace.src, s->workspace.dst };
	return v;
}

/* What was not opened when it was found had no link in its path: if it has one now, somebody
 * is playing. */
static int show(struct spec *s, struct toolchain_mount *m, struct brig_error *err)
{
	if (m->fd < 0) {
		m->fd = sys_openat2(AT_FDCWD, m->src, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
		if (m->fd < 0 && m->optional && errno == ENOENT)
			return 0;
		if (m->fd >= 0 && fstat(m->fd, &m->st) < 0)
			fd_close(&m->fd);
	}
	int r = m->fd < 0 ? -errno : bind_add(s, take_fd(&m->fd), &m->st, m->src, m->dst);
	if (r == 0) {
		s->binds[s->n_binds - 1].tool = true;
		return 0;
	}
	err_set(err, BRIG_E_BAD_MOUNT, -r, "policy", "%.200s (found by the toolchain "
		"preset %s)", m->src, m->preset);
	err_fix(err, "try again, or leave it out: --toolchains none");
	return r;
}

/* As --protect would, where the path is in the workspace: a relative one is, in every work tree. */
static int protect_hooks(struct spec *s, const char *path, const char *home)
{
	const char *ws = s->workspace.src;
	cleanup_free char *abs = NULL, *norm = NULL;

	if (!path || !s->protect || strchr(path, '*'))
		return 0;
	if (path[0] == '/')
		abs = strdup(path);
	else if (path[0] == '~')
		abs = str_fmt("%s%s", home && path[1] == '/' ? home : "", path + 1);
	else
		abs = str_fmt("%s/%s", ws, path);
	if (!abs)
		return -ENOMEM;
	if (path_normalise(abs, &norm) < 0 || !path_is_under(norm, ws) || streq(norm, ws))
		return 0;
	return strv_add(&s->protect, norm + strlen(ws) + 1);
}

static int show_tools(const struct brig_spec *rq, struct spec *s, const struct home *home,
		      unsigned presets, struct brig_error *err)
{
	size_t n;
	cleanup_free struct credentials_shown *shown = shown_trees(s, &n);
	const struct toolchain_input in = {
		.home = home->path,
		.home_real = home->real,
		.home_inside = s->home,
		.path = getenv("PATH"),
		.workspace_src = s->workspace.src,
		.workspace_dst = s->workspace.dst,
		.workspace_fd = s->workspace.fd,
		.shown = shown,
		.n_shown = n - 1, /* the workspace is named above */
		.presets = presets,
		.share_caches = streq(request_text(rq, OPT_CACHES), "shared"),
		.env = own_env,
	};
	struct toolchain found = { 0 };

	if (!shown)
		return -ENOMEM;
	int r = toolchain_detect(&in, &found, err);
	/* where the host's own tree is all there is, its tools are there too */
	bool mounts = s->backend != BACKEND_NONE && s->backend != BACKEND_WRAPPER;
	for (size_t i = 0; mounts && i < found.n_mounts && r == 0; i++)
		r = show(s, &found.mounts[i], err);
	s->tool_path = take_ptr(found.path);
	s->tool_env = take_ptr(found.env);
	s->gitconfig = take_ptr(found.gitconfig);
	if (r == 0)
		r = protect_hooks(s, found.hooks, home->path);
	s->notes = take_ptr(found.notes);
	toolchain_free(&found);
	return r;
}

static int mask_credentials(struct spec *s, const struct home *home, struct brig_error *err)
{
	size_t n;
	cleanup_free struct credentials_shown *shown = shown_trees(s, &n);
	int r = shown ? credentials_masks(home->real, shown, n, &s->key_masks) : -ENOMEM;

	if (r < 0 && r != -ENOMEM) {
		cleanup_free char *text = str_printable(home->path);
		err_set(err, BRIG_E_SETUP_FAILED, -r, "policy",
			"looking for credentials to hide in %.200s", text ? text : "HOME");
		err_fix(err, "see that HOME can be read, or set it to a directory that can");
	}
	return r;
}

int resolve_tools(const struct brig_spec *rq, struct spec *s, const struct home *home,
		  struct brig_error *err)
{
	bool failed;
	unsigned presets = presets_of(rq, &failed);
	int r = failed ? -ENOMEM : 0;

	/* these two become the workspace's owner, who has no way into root's HOME;
	 * and an image has tools of its own */
	if ((geteuid() == 0 && (s->backend == BACKEND_BWRAP ||
				s->backend == BACKEND_LANDLOCK)) ||
	    s->backend == BACKEND_DOCKER)
		presets = 0;
	if (r == 0 && presets)
		r = show_tools(rq, s, home, presets, err);
	if (r == 0 && !(presets & TOOLCHAIN_BIT(TOOLCHAIN_GIT))) {
		const struct toolchain_input in = { .home = home->path, .env = own_env };
		cleanup_free char *hooks = toolchain_hooks(&in);
		r = protect_hooks(s, hooks, home->path);
	}
	if (r == 0 && home->real && s->backend != BACKEND_NONE && s->backend != BACKEND_WRAPPER)
		r = mask_credentials(s, home, err);
	return r == -ENOMEM && (!err || err->code == BRIG_E_OK) ?
		       err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "toolchains") : r;
}
