/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspace, binds, masks and the working directory.  Every source is opened
 * once (O_PATH) and is known from then on by device and inode: the engine
 * refuses to mount anything else under that name, so a path swapped after the
 * check is an error, not an escape (CVE-2021-30465, CVE-2026-39861).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "policy/resolve.h"
#include "policy/resolve_internal.h"
#include "workspace/protect.h"

char *caller_home(void)
{
	const char *env = getenv("HOME");
	char *norm = NULL;

	if (env && path_normalise(env, &norm) == 0)
		return norm;
	/* Not getpwuid(): it would load NSS modules into a static program. */
	cleanup_close int fd = openat(AT_FDCWD, "/etc/passwd", O_RDONLY | O_CLOEXEC);
	cleanup_free char *text = NULL;
	size_t len;
	if (fd < 0 || fd_read_all(fd, 1 << 20, &text, &len) < 0)
		return NULL;
	char *save = NULL;
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *field[7], *p = line;
		int n = 0;
		while (n < 7 && p)
			field[n++] = strsep(&p, ":");
		if (n >= 6 && strtoul(field[2], NULL, 10) == getuid() &&
		    path_normalise(field[5], &norm) == 0)
			return norm;
	}
	return NULL;
}

static int bad_workspace(struct brig_error *err, int e, const char *path,
			 const char *what, const char *fix)
{
	cleanup_free char *shown = str_printable(path);
	err_set(err, BRIG_E_BAD_WORKSPACE, e, "policy", "workspace %.200s%s%s",
		shown ? shown : "?", *what ? " " : "", what);
	err_fix(err, "%s", fix);
	return e ? -e : -EINVAL;
}

static bool is_at(const struct stat *st, const char *path)
{
	struct stat there;

	return path[0] == '/' && stat(path, &there) == 0 && st->st_dev == there.st_dev &&
	       st->st_ino == there.st_ino;
}

/* How much of a path names the thing itself: behind a link, "/" and "/." would follow it. */
static size_t own_name(const char *path, size_t len)
{
	for (;;) {
		if (len > 1 && path[len - 1] == '/')
			len--;
		else if (len > 2 && path[len - 1] == '.' && path[len - 2] == '/')
			len -= 2;
		else
			return len;
	}
}

/*
 * Opens it, and its canonical path where that is to be had for little: to ask /proc for
 * the name of a descriptor costs as much as all the rest.  A plain path without links is
 * canonical, and so is the working directory's while it is still there.  Else real is
 * empty.
 */
static int open_named(const char *path, struct stat *st, char real[static PATH_MAX])
{
	/* O_NOFOLLOW: a link could be re-pointed by whoever owns it, and then
	 * the tree that is writable is no longer the one that was named. */
	const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
	size_t len = strlen(path);
	int fd = -1;

	real[0] = '\0';
	if (path_is_plain(path) && len < PATH_MAX)
		fd = sys_openat2(AT_FDCWD, path, flags,
				 RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	const size_t own = own_name(path, len);
	if (fd >= 0) {
		memcpy(real, path, len + 1);
	} else if (own < len && own < PATH_MAX) {
		memcpy(real, path, own);
		real[own] = '\0';
		fd = openat(AT_FDCWD, real, flags);
		real[0] = '\0';
	} else {
		fd = openat(AT_FDCWD, path, flags);
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, st) < 0) {
		int e = errno;
		close(fd);
		return -e;
	}
	if (streq(path, ".") && (!getcwd(real, PATH_MAX) || !is_at(st, real)))
		real[0] = '\0';
	return fd;
}

static int open_workspace(const char *given, struct spec *s,
			  struct brig_error *err)
{
	struct spec_bind *w = &s->workspace;
	const char *path = given ? given : ".";
	big_buffer char named[PATH_MAX];

	struct stat st = { 0 };
	w->fd = open_named(path, &st, named);
	if (w->fd < 0)
		return bad_workspace(err, -w->fd, path, "",
				     "give an existing directory: --workspace DIR");
	if (S_ISLNK(st.st_mode)) {
		char real[PATH_MAX] = "";
		if (!realpath(path, real))
			real[0] = '\0';
		bad_workspace(err, 0, path, "is a symbolic link", "");
		err_fix(err, "name the directory itself: --workspace %.300s",
			real[0] ? real : "DIR");
		return -EINVAL;
	}
	if (!S_ISDIR(st.st_mode))
		return bad_workspace(err, ENOTDIR, path, "",
				     "give a directory: --workspace DIR");
	if (st.st_nlink == 0)
		return bad_workspace(err, ENOENT, path, "was deleted",
				     "change to a directory that exists");
	int r = bind_identify(w, &st, named[0] ? named : NULL);
	if (r < 0)
		return bad_workspace(err, -r, path, "", "give an existing directory");
	if (faccessat(w->fd, ".", R_OK | X_OK, AT_EACCESS) < 0)
		return bad_workspace(err, errno, w->src, "cannot be read",
				     "give a directory you may read and enter");
	w->writable = true;
	return 0;
}

/* workspace.root: nothing outside it is ever a workspace. */
static int check_workspace_root(const struct brig_spec *rq, const struct spec *s,
				struct brig_error *err)
{
	const char *root = request_text(rq, OPT_ROOT);
	big_buffer char real[PATH_MAX];
	char label[300];

	if (!root || (realpath(root, real) && path_is_under(s->workspace.src, real)))
		return 0;
	request_label(rq, OPT_ROOT, 0, label, sizeof label);
	err_set(err, BRIG_E_BAD_WORKSPACE, 0, "policy",
		"workspace %.200s lies outside %.200s (%s)", s->workspace.src, root, label);
	err_fix(err, "give a directory below it: --workspace DIR");
	return -EINVAL;
}

static int check_workspace_place(const struct brig_spec *rq, struct spec *s,
				 const char *home, struct brig_error *err)
{
	struct spec_bind *w = &s->workspace;
	const char *at = request_text(rq, OPT_AT);

	if (streq(w->src, "/"))
		return bad_workspace(err, 0, "/", "would expose the whole machine",
				     "give a project directory: --workspace DIR");
	/* The host's processes and settings, to write to.  /dev/shm holds files like any. */
	if (is_kernel_fs(w->fd) || streq(w->src, "/dev") || path_is_under(w->src, "/proc") ||
	    path_is_under(w->src, "/sys"))
		return bad_workspace(err, 0, w->src, "is the kernel's, and not a place for files",
				     "give a project directory: --workspace DIR");
	if (home && !streq(home, "/") && path_is_under(home, w->src) &&
	    !request_flag(rq, OPT_ALLOW_HOME))
		return bad_workspace(err, 0, w->src,
				     streq(home, w->src) ?
					     "is the home directory itself" :
					     "contains the home directory",
				     "give a project directory, or add --allow-home "
				     "to expose keys and shell files on purpose");
	int r = path_normalise(streq(at, "same") ? w->src : at, &w->dst);
	if (r < 0) {
		err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
			"--at: '%.100s' is not an absolute path without '..'", at);
		err_fix(err, "give an absolute path, or 'same'");
		return r;
	}
	if (path_hits_own(w->dst) || path_hits_system(w->dst)) {
		/* places below /var and /run are ordinary directories inside */
		bool below_var = strncmp(w->dst, "/var/", 5) == 0 ||
				 strncmp(w->dst, "/run/", 5) == 0;
		if (!below_var)
			return bad_workspace(err, 0, w->dst,
					     "would cover a system directory inside",
					     "show it elsewhere: --at /workspace");
	}
	return 0;
}

/* --cwd: relative to the workspace, or a path inside, or one on the host. */
static int resolve_cwd(const struct brig_spec *rq, struct spec *s,
		       struct brig_error *err)
{
	const struct spec_bind *w = &s->workspace;
	const char *given = request_text(rq, OPT_CWD);
	char here[PATH_MAX] = "";
	cleanup_free char *norm = NULL;
	cleanup_close int fd = -1;
	const char *rel = "";

	if (!given && !request_text(rq, OPT_WORKSPACE)) {
		rel = ""; /* the workspace is where the caller is */
	} else if (!given) {
		/* the caller's own directory, when it lies in the workspace */
		if (getcwd(here, sizeof here) && path_is_under(here, w->src))
			rel = here + strlen(w->src);
	} else if (given[0] == '/') {
		if (path_normalise(given, &norm) < 0)
			goto outside;
		if (path_is_under(norm, w->dst))
			rel = norm + strlen(w->dst);
		else if (path_is_under(norm, w->src))
			rel = norm + strlen(w->src);
		else
			goto outside;
	} else {
		rel = given;
	}
	while (*rel == '/')
		rel++;
	if (!*rel) {
		s->cwd = strdup("");
		return s->cwd ? 0 : err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "cwd");
	}
	/* The kernel decides what "inside" means, not string comparison: ".."
	 * and links that lead out are refused here and again at run time
	 * (CVE-2025-59532). */
	fd = sys_openat2(w->fd, rel, O_PATH | O_DIRECTORY | O_CLOEXEC,
			 RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	if (fd < 0) {
		if (errno == EXDEV)
			goto outside;
		int e = errno;
		if (e == ENOSYS) {
			err_set(err, BRIG_E_KERNEL_TOO_OLD, e, "policy",
				"openat2, which keeps paths inside the workspace");
			err_fix(err, "use Linux 5.13 or later; inside another sandbox its "
				     "filter may refuse the call: brig does not nest");
			return -e;
		}
		err_set(err, BRIG_E_BAD_CWD, e, "policy", "--cwd %.200s",
			given ? given : here);
		err_fix(err, "give an existing directory inside the workspace");
		return -e;
	}
	s->cwd = strdup(rel);
	return s->cwd ? 0 : err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "cwd");

outside:
	err_set(err, BRIG_E_BAD_CWD, 0, "policy",
		"--cwd %.200s lies outside the workspace %.200s",
		given ? given : here, w->src);
	err_fix(err, "give a directory inside the workspace, or another --workspace");
	return -EINVAL;
}

static int resolve_protect(const struct brig_spec *rq, struct spec *s,
			   struct brig_error *err)
{
	int r = strv_append(&s->protect, protect_defaults);
	char label[300];
	size_t n = 0;
	for (char **p = rq->o[OPT_PROTECT].v; p && *p && r == 0; p++, n++) {
		if (streq(*p, "none")) {
			strv_free(s->protect);
			s->protect = NULL;
			continue;
		}
		cleanup_free char *abs = str_fmt("/%s", *p);
		cleanup_free char *norm = NULL;
		if (!abs || path_normalise(abs, &norm) < 0 || !norm[1] ||
		    **p == '/' || strchr(*p, '*')) {
			request_label(rq, OPT_PROTECT, n, label, sizeof label);
			err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
				"%s: '%.200s' is not a path inside the workspace", label,
				*p);
			err_fix(err, "give it relative to the workspace, without '..' "
				     "and without wildcards");
			return -EINVAL;
		}
		r = strv_add(&s->protect, norm + 1);
	}
	return r < 0 ? err_set(err, BRIG_E_NO_MEMORY, -r, "policy", "--protect") : 0;
}

/* A private HOME can be there: nothing of brig's or the caller's is in the way. */
static bool home_fits(const struct spec *s, const char *home)
{
	if (streq(home, "/") || path_hits_own(home))
		return false;
	/* it stands in /etc/passwd */
	if (strpbrk(home, ":\n"))
		return false;
	/* below a tree of the host there is no place to put one */
	return streq(home, s->workspace.dst) || !path_is_under(home, s->workspace.dst);
}

/* HOME inside has the caller's path, so that configuration that names it
 * still makes sense, but it is a private, empty directory. */
static int resolve_home(struct spec *s, const char *home, struct brig_error *err)
{
	static const char *const others[] = { "/home/sandbox", "/run/home",
					      "/sandbox-home" };
	const char *use = NULL;

	if (home && home_fits(s, home) &&
	    !path_hits_system(home))
		use = home;
	for (size_t i = 0; !use && i < ARRAY_LEN(others); i++)
		if (home_fits(s, others[i]))
			use = others[i];
	s->home = use ? strdup(use) : NULL;
	return s->home ? 0 : err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "HOME");
}

int resolve_workspace(const struct brig_spec *rq, struct spec *s, const struct home *home,
		      struct brig_error *err)
{
	int r = open_workspace(request_text(rq, OPT_WORKSPACE), s, err);
	if (r == 0)
		r = check_workspace_place(rq, s, home->real, err);
	if (r == 0)
		r = check_locked_path(rq, OPT_WORKSPACE, s->workspace.src, err);
	if (r == 0)
		r = check_workspace_root(rq, s, err);
	if (r == 0)
		r = resolve_cwd(rq, s, err);
	s->workspace.writable = streq(request_text(rq, OPT_ACCESS), "rw");
	return r;
}

int resolve_shown(const struct brig_spec *rq, struct spec *s, const struct home *home,
		  struct brig_error *err)
{
	/* in a tree that cannot be written there is nothing to protect */
	int r = s->workspace.writable ? resolve_protect(rq, s, err) : 0;
	if (r == 0)
		r = resolve_home(s, home->path, err);
	return r == 0 ? resolve_binds(rq, s, home, err) : r;
}
