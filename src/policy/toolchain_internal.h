/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the toolchain presets share. */
#ifndef POLICY_TOOLCHAIN_INTERNAL_H
#define POLICY_TOOLCHAIN_INTERNAL_H

#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/fd.h"
#include "policy/toolchain.h"

enum {
	PATH_DIRS_MAX = 128, /* directories of PATH looked at */
	LINKS_MAX = 256,     /* entries looked at in one directory */
	TREES_MAX = 32,      /* trees that links led to */
	MOUNTS_MAX = 128,
	NOTES_MAX = 64,
	FILE_MAX = 64 * 1024, /* bytes of a file that is read */
};

/* A detection under way.  Errors are sticky, as in struct buf. */
struct finder {
	const struct toolchain_input *in;
	struct toolchain *out;
	size_t cap_mounts;
	unsigned seen;    /* presets found */
	unsigned rooted;  /* presets whose whole root is wanted (toolchain_rules.c) */
	unsigned trees;   /* links followed so far, of TREES_MAX */
	unsigned n_notes;
	/* Directories whose links are followed once everything else is known. */
	struct {
		char *dir;
		enum toolchain_preset preset;
	} scans[16];
	size_t n_scans;
	char **rule_roots; /* for each rule of PATH directories: what its variable names */
	uid_t uid;
	bool failed;      /* out of memory */
};

/* What a path leads to. */
struct place {
	int fd;              /* O_PATH */
	struct stat st;
	char real[PATH_MAX]; /* canonical */
	char spelt[PATH_MAX]; /* the same, with HOME as the caller spells it */
};

static inline void place_close(struct place *p)
{
	fd_close(&p->fd);
}
/* On the stack, closed with its scope and not zeroed before: set fd to -1. */
#define scoped_place __attribute__((cleanup(place_close), uninitialized)) struct place

/* --- toolchain.c --- */

void mount_free(struct toolchain_mount *m);

/* --- toolchain_show.c: what may be shown, and showing it --- */

/* Resolves path (below dirfd unless absolute).  False when there is nothing; p->fd
 * is set in either case, to -1 then. */
bool place_open(struct finder *f, int dirfd, const char *path, struct place *p);

/* Visible inside without being mounted: the system, or nothing there. */
bool place_is_system(const char *path);
/* Visible inside by now: the system, the workspace, a shown tree, a mount. */
bool place_is_visible(const struct finder *f, const char *path);
/* Why it must not be mounted, as text for a note; NULL when it may be. */
const char *place_refused(const struct finder *f, const struct place *p);
/* The same for a tree that was found by going up from a place. */
const char *path_refused(const struct finder *f, const char *spelt);

/*
 * Shows p read-only at its own path, and also at text (when not NULL and
 * different), so that a link to it works.  up: the tree that many names above,
 * if both paths end in the same names.  Returns the path inside of p itself:
 * text, or p->spelt where text could not be kept.
 */
const char *place_show(struct finder *f, const struct place *p, const char *text,
		       unsigned up, enum toolchain_preset preset, bool optional);
/* Shows a file or directory at dst, whatever its own path; a note if refused. */
void place_show_at(struct finder *f, const char *src, const char *dst,
		   enum toolchain_preset preset);
/* Shows one regular file, which no link leads to, at dst.  Does not ask the
 * table of credentials: for known_hosts, which lies among keys. */
void file_show_at(struct finder *f, const char *src, const char *dst,
		  enum toolchain_preset preset);

/* "preset: text", with HOME as "~" and made printable. */
void note(struct finder *f, enum toolchain_preset preset, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* An entry of the environment inside; the first of a name stays. */
void set_env(struct finder *f, const char *name, const char *value);
/* The path relative to HOME ("" for HOME itself), or NULL. */
const char *home_relative(const struct finder *f, const char *path);
/* The path inside of one in the workspace (fresh memory), or NULL. */
char *workspace_inside(struct finder *f, const char *path);
static inline bool wanted(const struct finder *f, enum toolchain_preset p)
{
	return f->in->presets & TOOLCHAIN_BIT(p);
}
/* Cuts the last n names off a path; false when there are not so many. */
bool path_cut(char *path, unsigned n);

/*
 * Reads a regular file of at most FILE_MAX bytes into fresh memory, ended with
 * NUL; a FIFO or a device is refused, never waited for.  beneath: no link on the
 * way and nothing outside dirfd, for what a sandbox may have written.  Bytes or
 * -errno; *text is the caller's, in either case.
 */
ssize_t read_small(int dirfd, const char *path, bool beneath, char **text);

/* --- toolchain_rules.c: tables --- */

/*
 * Tries the rules of PATH directories by name.  True when one matched; *inside
 * is the directory's path inside then, NULL when it is not shown (a preset that
 * is not wanted, or something in the way).  Points into p or at text.
 */
bool rules_match(struct finder *f, const struct place *p, const char *text,
		 const char **inside);
void rules_free(struct finder *f);
/* What belongs to the presets that were found, and the caches. */
void rules_roots(struct finder *f);
/* Variables of the caller whose values can be seen inside. */
void rules_env(struct finder *f);

/* --- toolchain_shape.c: what a directory is by what lies beside it --- */

/* The same as rules_match() for directories that no rule knows by name; always
 * decides. */
const char *shape_match(struct finder *f, const struct place *p, const char *text);
/* A bin directory with a Go installation around it. */
bool is_goroot(const struct place *bin);
/* A bin directory whose prefix may be shown whole. */
bool is_prefix(const struct finder *f, const struct place *bin);

/* --- toolchain_links.c --- */

/* Remembers a directory whose links lead elsewhere. */
void links_later(struct finder *f, const struct place *dir,
		 enum toolchain_preset preset);
/* Shows what the links in the remembered directories lead to. */
void links_follow(struct finder *f);

/* --- toolchain_python.c --- */

struct pyvenv {
	char home[PATH_MAX]; /* directory of the base interpreter, normalised */
	char version[8];     /* "3.12" */
};
/* Reads pyvenv.cfg; false when it names no usable home and version. */
bool pyvenv_parse(const char *text, size_t len, struct pyvenv *out);
/* The virtual environment whose bin directory this is: shows its base.  False
 * when it is none. */
bool venv_base_of(struct finder *f, const struct place *bin);
/* The same for one in the workspace, which a sandbox may have written; rel: its
 * path there. */
void venv_in_workspace(struct finder *f, const char *rel);
/* pip install --user. */
void python_user_site(struct finder *f);

/* --- toolchain_git.c --- */

enum { IDENTITY_MAX = 256 };
struct git_identity {
	char name[IDENTITY_MAX], email[IDENTITY_MAX]; /* "" when not set */
	char hooks[IDENTITY_MAX];
};
/* Takes user.name, user.email and core.hooksPath out of a config file's text, over what is in
 * *id.  False, with *id untouched, when git itself would refuse the text. */
bool git_identity_parse(const char *text, size_t len, struct git_identity *id);
/* The gitconfig for inside; fresh memory, NULL when out of it. */
char *git_config_write(const struct git_identity *id, const char *safe);
/* The presets git and ssh. */
void find_git(struct finder *f);
void find_known_hosts(struct finder *f);

#endif
