/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of the host a preset may show, and showing it.  Every mount of a preset
 * goes through here, so that no table and no file in somebody's HOME can make
 * brig show HOME itself, a directory of keys or something another user put
 * there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/sys.h"
#include "policy/toolchain_internal.h"

/* Inside as they are on the host; the same list as the plan's. */
static const char *const system_trees[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
};
/* brig's own, or of no use inside (snap programs need their daemon). */
static const char *const reserved[] = {
	"/proc", "/dev", "/sys", "/etc", "/run", "/boot", "/snap",
};
/* Private inside; outside, anyone may have put anything there. */
static const char *const shared_tmp[] = { "/tmp", "/var/tmp" };
/* Not as a whole: they hold what belongs to other things. */
static const char *const too_wide[] = {
	"/", "/home", "/tmp", "/var", "/var/tmp", "/var/lib", "/opt", "/srv", "/mnt",
	"/media",
};
static const char *const too_wide_in_home[] = {
	"", ".config", ".cache", ".local", ".local/share", ".local/state", ".local/lib",
};

static bool under_any(const char *path, const char *const *trees, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (path_is_under(path, trees[i]))
			return true;
	return false;
}

static bool is_any(const char *path, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (streq(path, list[i]))
			return true;
	return false;
}

const char *home_relative(const struct finder *f, const char *path)
{
	const char *home = f->in->home;

	if (!home || streq(home, "/") || !path_is_under(path, home))
		return NULL;
	path += strlen(home);
	return *path ? path + 1 : path;
}

char *workspace_inside(struct finder *f, const char *path)
{
	const struct toolchain_input *in = f->in;

	if (!in->workspace_src || !in->workspace_dst ||
	    !path_is_under(path, in->workspace_src))
		return NULL;
	char *s = str_fmt("%s%s", in->workspace_dst, path + strlen(in->workspace_src));
	if (!s)
		f->failed = true;
	return s;
}

bool path_cut(char *path, unsigned n)
{
	for (; n; n--) {
		char *slash = strrchr(path, '/');
		if (!slash || slash == path)
			return false;
		*slash = '\0';
	}
	return true;
}

bool place_open(struct finder *f, int dirfd, const char *path, struct place *p)
{
	p->fd = fd_open_real(dirfd, path, p->real, sizeof p->real);
	if (p->fd < 0)
		return false;
	if (fstat(p->fd, &p->st) < 0) {
		fd_close(&p->fd);
		return false;
	}
	/* HOME may be reached through a link (/home -> /var/home).  Inside it has the
	 * caller's spelling, so everything in it is spelt that way too. */
	const char *home = f->in->home ? f->in->home_real : NULL;
	if (home && !streq(home, "/") && path_is_under(p->real, home)) {
		int n = snprintf(p->spelt, sizeof p->spelt, "%s%s", f->in->home,
				 p->real + strlen(home));
		if (n < PATH_MAX)
			return true;
	}
	strcpy(p->spelt, p->real); /* of the same size */
	return true;
}

bool place_is_system(const char *path)
{
	return under_any(path, system_trees, ARRAY_LEN(system_trees));
}

bool place_is_visible(const struct finder *f, const char *path)
{
	const struct toolchain_input *in = f->in;

	if (place_is_system(path) ||
	    (in->workspace_src && path_is_under(path, in->workspace_src)))
		return true;
	for (size_t i = 0; i < in->n_shown; i++)
		if (streq(in->shown[i].src, in->shown[i].dst) &&
		    path_is_under(path, in->shown[i].dst))
			return true;
	for (size_t i = 0; i < f->out->n_mounts; i++)
		if (path_is_under(path, f->out->mounts[i].dst))
			return true;
	return false;
}

const char *path_refused(const struct finder *f, const char *spelt)
{
	const char *rel = home_relative(f, spelt);

	if (under_any(spelt, reserved, ARRAY_LEN(reserved)))
		return "brig does not show what is there";
	if (is_any(spelt, too_wide, ARRAY_LEN(too_wide)))
		return "it would show too much";
	if (f->in->home && path_is_under(f->in->home, spelt))
		return "it is HOME or above it";
	if (rel && is_any(rel, too_wide_in_home, ARRAY_LEN(too_wide_in_home)))
		return "it would show too much";
	return rel ? credentials_reason(rel) : NULL;
}

const char *place_refused(const struct finder *f, const struct place *p)
{
	const char *why = path_refused(f, p->spelt);

	if (why)
		return why;
	/* What another user can change must not become a program of the caller's,
	 * and must not be taken for something he chose to show. */
	if (p->st.st_uid != f->uid && p->st.st_uid != 0)
		return "it belongs to someone else";
	bool sticky = S_ISDIR(p->st.st_mode) && (p->st.st_mode & S_ISVTX) &&
		      !under_any(p->spelt, shared_tmp, ARRAY_LEN(shared_tmp));
	if ((p->st.st_mode & S_IWOTH) && !sticky)
		return "anyone may write there";
	return NULL;
}

/* p: what is at src, if that was opened. */
static void add_mount(struct finder *f, const char *src, const struct place *p,
		      const char *dst, enum toolchain_preset preset, bool optional)
{
	struct toolchain *t = f->out;

	for (size_t i = 0; i < t->n_mounts; i++)
		if (path_is_under(dst, t->mounts[i].dst))
			return;
	if (f->failed || t->n_mounts >= MOUNTS_MAX)
		return;
	if (t->n_mounts == f->cap_mounts) {
		size_t cap = f->cap_mounts ? 2 * f->cap_mounts : 16;
		void *v = realloc(t->mounts, cap * sizeof *t->mounts);
		if (!v) {
			f->failed = true;
			return;
		}
		t->mounts = v;
		f->cap_mounts = cap;
	}
	struct toolchain_mount m = { strdup(src), strdup(dst),
				     toolchain_name(preset), optional, -1, { 0 } };
	if (p) {
		m.fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
		m.st = p->st;
	}
	if (!m.src || !m.dst) {
		mount_free(&m);
		f->failed = true;
		return;
	}
	t->mounts[t->n_mounts++] = m;
	f->seen |= TOOLCHAIN_BIT(preset);
}

/* A link's own path as a second mount point: not where links come and go (the
 * per-shell directories of fnm), and not where it would cover something. */
static bool keeps_link(const struct finder *f, const char *text)
{
	bool tmp = under_any(text, shared_tmp, ARRAY_LEN(shared_tmp)) &&
		   !home_relative(f, text);

	return !tmp && !place_is_system(text) && !path_refused(f, text) &&
	       !strstr(text, "/fnm_multishells/");
}

const char *place_show(struct finder *f, const struct place *p, const char *text,
		       unsigned up, enum toolchain_preset preset, bool optional)
{
	big_buffer char real[PATH_MAX], spelt[PATH_MAX], link[PATH_MAX];

	if (place_is_system(p->real))
		return p->spelt;
	strcpy(real, p->real);
	strcpy(spelt, p->spelt);
	if (!path_cut(real, up) || !path_cut(spelt, up)) {
		strcpy(real, p->real);
		strcpy(spelt, p->spelt);
		up = 0;
	}
	/* the place itself was judged by whoever found it */
	const char *why = up ? path_refused(f, spelt) : NULL;
	if (why) {
		note(f, preset, "%s is not shown: %s", spelt, why);
		return NULL;
	}
	const struct place *at = up ? NULL : p;
	add_mount(f, real, at, spelt, preset, optional);
	if (!text || streq(text, p->spelt) || strlen(text) >= sizeof link)
		return p->spelt;
	strcpy(link, text);
	const char *tail = p->spelt + strlen(spelt);
	if (!path_cut(link, up) || !streq(text + strlen(link), tail) ||
	    !keeps_link(f, link))
		return p->spelt;
	add_mount(f, real, at, link, preset, true);
	return text;
}

void place_show_at(struct finder *f, const char *src, const char *dst,
		   enum toolchain_preset preset)
{
	scoped_place p;

	p.fd = -1;
	if (!place_open(f, AT_FDCWD, src, &p) || place_is_system(p.real))
		return;
	const char *why = place_refused(f, &p);
	if (why)
		note(f, preset, "%s is not shown: %s", src, why);
	else
		add_mount(f, p.real, &p, dst, preset, true);
}

void file_show_at(struct finder *f, const char *src, const char *dst,
		  enum toolchain_preset preset)
{
	const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
	scoped_place p;

	p.fd = sys_openat2(AT_FDCWD, src, flags, RESOLVE_NO_SYMLINKS);
	const bool canonical = p.fd >= 0 && strlen(src) < sizeof p.real;
	if (p.fd < 0 && errno != ENOENT)
		p.fd = openat(AT_FDCWD, src, flags);
	if (p.fd < 0 || fstat(p.fd, &p.st) < 0)
		return;
	if (canonical)
		strcpy(p.real, src);
	if (!S_ISREG(p.st.st_mode) || (p.st.st_mode & S_IWOTH) ||
	    (p.st.st_uid != f->uid && p.st.st_uid != 0))
		note(f, preset, "%s is not shown: not a plain file of yours", src);
	else if (canonical || fd_real_path(p.fd, p.real, sizeof p.real) == 0)
		add_mount(f, p.real, &p, dst, preset, true);
}

/* HOME as "~", wherever a path begins with it. */
static void add_tilde(struct buf *b, const char *text, const char *home)
{
	size_t n = home ? strlen(home) : 0;

	for (const char *at; n > 1 && (at = strstr(text, home)); text = at + n) {
		const bool whole = at[n] == '/';
		buf_add(b, text, (size_t)(at - text) + (whole ? 0 : n));
		if (whole)
			buf_addc(b, '~');
	}
	buf_adds(b, text);
}

void note(struct finder *f, enum toolchain_preset preset, const char *fmt, ...)
{
	cleanup_free char *text = NULL, *tilde = NULL, *line = NULL;
	struct buf b = { 0 };
	va_list ap;

	if (f->n_notes > NOTES_MAX)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	buf_addf(&b, "%s: ", toolchain_name(preset));
	if (text)
		add_tilde(&b, text, f->in->home);
	tilde = buf_take(&b, NULL);
	line = text && tilde ? str_printable(tilde) : NULL;
	for (char **n = f->out->notes; line && n && *n; n++)
		if (streq(*n, line))
			return; /* two ways led to one place */
	const char *say = f->n_notes++ < NOTES_MAX ? line : "more of this is not listed";
	if (!line || strv_add(&f->out->notes, say) < 0)
		f->failed = true;
}

void set_env(struct finder *f, const char *name, const char *value)
{
	size_t n = strlen(name);

	for (char **e = f->out->env; e && *e; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
			return;
	if (strv_take(&f->out->env, str_fmt("%s=%s", name, value)) < 0)
		f->failed = true;
}

ssize_t read_small(int dirfd, const char *path, bool beneath, char **text)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	struct stat st;
	cleanup_close int fd =
		beneath ? sys_openat2(dirfd, path, (uint64_t)flags,
				      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					      RESOLVE_NO_MAGICLINKS) :
			  openat(dirfd, path, flags);

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > FILE_MAX)
		return -EFBIG;
	/* of the file's own size: a buffer for the largest would have to be
	 * paged in each time */
	char *buf = malloc((size_t)st.st_size + 1);
	if (!buf)
		return -ENOMEM;
	ssize_t n = fd_read_full(fd, buf, (size_t)st.st_size);
	buf[n < 0 ? 0 : n] = '\0';
	*text = buf;
	return n;
}
