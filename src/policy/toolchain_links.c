/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ~/.local/bin and its like hold links: into the environments of pipx and uv,
 * into ~/opt/tool/bin, into node_modules.  What they lead to is shown too, as
 * the tree that the program needs, or as the one file when that is not clear.
 * Bounded in entries and in trees.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "base/sys.h"
#include "policy/toolchain_internal.h"

/* Many small trees of one kind: one mount for all of them. */
static const char *const collections[] = {
	".local/share/pipx", ".local/pipx", ".local/share/uv/tools",
	".local/share/uv/python", ".local/share/mise/installs", ".asdf/installs",
};

void links_later(struct finder *f, const struct place *dir,
		 enum toolchain_preset preset)
{
	if (f->n_scans >= ARRAY_LEN(f->scans))
		return;
	char *copy = strdup(dir->spelt);
	if (!copy) {
		f->failed = true;
		return;
	}
	f->scans[f->n_scans].dir = copy;
	f->scans[f->n_scans++].preset = preset;
}

static unsigned names_in(const char *rest)
{
	unsigned n = 0;

	for (; *rest; rest++)
		n += *rest == '/';
	return n;
}

/* How many names above the file the tree lies that it needs. */
static unsigned tree_above(struct finder *f, const struct place *file)
{
	static const char modules[] = "/node_modules/";
	const char *rel = home_relative(f, file->spelt);

	for (size_t i = 0; rel && i < ARRAY_LEN(collections); i++)
		if (path_is_under(rel, collections[i]))
			return names_in(rel + strlen(collections[i]));
	const char *m = strstr(file->spelt, modules);
	if (m)
		return names_in(m + sizeof modules - 2);
	big_buffer char dir[PATH_MAX];
	scoped_place bin;
	bin.fd = -1;
	strcpy(dir, file->real);
	if (path_cut(dir, 1) && place_open(f, AT_FDCWD, dir, &bin) &&
	    !place_refused(f, &bin) && is_prefix(f, &bin))
		return 2;
	return 0;
}

/* A link's target as an absolute path, as text: "a/../b" is "b". */
static bool target_text(const char *dir, const char *target, char out[PATH_MAX])
{
	size_t len = 0;
	const char *parts[2] = { *target == '/' ? "" : dir, target };

	for (size_t i = 0; i < 2; i++) {
		const char *p = parts[i];
		while (*p) {
			size_t n = strcspn(p, "/");
			if (n == 2 && p[0] == '.' && p[1] == '.') {
				while (len && out[--len] != '/')
					;
			} else if (n && !(n == 1 && p[0] == '.')) {
				if (len + n + 2 > PATH_MAX)
					return false;
				out[len++] = '/';
				memcpy(out + len, p, n);
				len += n;
			}
			p += n + (p[n] == '/');
		}
	}
	out[len] = '\0';
	return len > 0;
}

/* A program of a virtual environment needs that environment's Python. */
static void show_interpreter(struct finder *f, const char *program, char *last)
{
	big_buffer char dir[PATH_MAX];
	scoped_place bin;

	bin.fd = -1;
	strcpy(dir, program);
	if (!path_cut(dir, 1) || streq(dir, last))
		return;
	strcpy(last, dir);
	size_t n = strlen(dir);
	if (n > 4 && streq(dir + n - 4, "/bin") &&
	    place_open(f, AT_FDCWD, dir, &bin))
		venv_base_of(f, &bin);
}

/* One link.  False when the bound on trees is reached. */
static bool follow(struct finder *f, int dirfd, const char *dir, const char *name,
		   enum toolchain_preset preset, char *last)
{
	big_buffer char target[PATH_MAX], text[PATH_MAX];
	scoped_place p;

	p.fd = -1;
	ssize_t n = readlinkat(dirfd, name, target, sizeof target);
	if (n <= 0 || n >= PATH_MAX)
		return true; /* not a link */
	target[n] = '\0';
	if (!target_text(dir, target, text) || place_is_system(text))
		return true;
	if (place_is_visible(f, text)) {
		show_interpreter(f, text, last);
		return true;
	}
	if (!place_open(f, dirfd, name, &p) || !S_ISREG(p.st.st_mode) ||
	    place_is_system(p.real))
		return true; /* it leads nowhere, or to what is there anyway */
	const char *why = place_refused(f, &p);
	if (why) {
		note(f, preset, "%s/%s leads to %s, which is not shown: %s", dir, name,
		     p.spelt, why);
		return true;
	}
	if (f->trees++ >= TREES_MAX)
		return false;
	const char *inside = place_show(f, &p, text, tree_above(f, &p), preset, true);
	if (inside && !streq(inside, text)) /* a chain: its middle is needed too */
		place_show(f, &p, text, 0, preset, true);
	show_interpreter(f, p.spelt, last);
	return true;
}

static void scan(struct finder *f, const char *dir, enum toolchain_preset preset)
{
	/* getdents64 and not readdir(), which allocates 32 KB for each */
	big_buffer _Alignas(struct sys_dirent) char buf[8192];
	big_buffer char last[PATH_MAX];
	unsigned seen = 0;
	cleanup_close int fd =
		openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);

	strcpy(last, dir); /* of a links_later() place: it fits */
	for (;;) {
		long n = fd < 0 ? -1 : syscall(SYS_getdents64, fd, buf, sizeof buf);
		if (n <= 0)
			return;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (++seen > LINKS_MAX) {
				note(f, preset, "%s has more than %d entries: the links "
				     "among the rest are not followed", dir, LINKS_MAX);
				return;
			}
			if (d->type != DT_LNK && d->type != DT_UNKNOWN)
				continue;
			if (!follow(f, fd, dir, d->name, preset, last)) {
				note(f, preset, "links lead to more than %d places: the "
				     "rest is not shown", TREES_MAX);
				return;
			}
		}
	}
}

void links_follow(struct finder *f)
{
	for (size_t i = 0; i < f->n_scans; i++) {
		scan(f, f->scans[i].dir, f->scans[i].preset);
		free(f->scans[i].dir);
	}
	f->n_scans = 0;
}
