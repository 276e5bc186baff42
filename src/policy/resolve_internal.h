/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_RESOLVE_INTERNAL_H
#define POLICY_RESOLVE_INTERNAL_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/spec.h"
#include "policy/request.h"

/* The caller's HOME, looked up once. */
struct home {
	char *path; /* normalised, or NULL */
	char *real; /* canonical, or NULL: error says why */
	int error;
};

/* The parts, one file each: the workspace; what is shown besides; the environment. */
int resolve_workspace(const struct brig_spec *rq, struct spec *s, const struct home *home,
		      struct brig_error *err);
int resolve_shown(const struct brig_spec *rq, struct spec *s, const struct home *home,
		  struct brig_error *err);
int resolve_env(const struct brig_spec *rq, struct spec *s,
		struct brig_error *err);

/* Fills the identity fields of a bind whose descriptor was looked at; its canonical path is
 * given if it is known.  -ENOENT when it was deleted. */
int bind_identify(struct spec_bind *b, const struct stat *st, const char *real);

/* The path is, contains or lies in a tree that brig makes itself (/proc, /dev,
 * /sys), or one that comes from the host read-only. */
bool path_hits_own(const char *path);
bool path_hits_system(const char *path);
/* By its file system: it may be mounted in a second place. */
bool is_kernel_fs(int fd);

/* Where the kernel says that a path leads to must lie below what the operator has
 * locked, if he has.  real is canonical.  -EPERM with err. */
int check_locked_path(const struct brig_spec *rq, enum opt o, const char *real,
		      struct brig_error *err);

/* One more bind, of a descriptor that was looked at and is taken over; real is its canonical
 * path, dst is copied.  -errno. */
int bind_add(struct spec *s, int fd, const struct stat *st, const char *real,
	     const char *dst);

/* The caller's tools, by the toolchain presets, and masks over his credentials
 * in everything that is shown. */
int resolve_tools(const struct brig_spec *rq, struct spec *s, const struct home *home,
		  struct brig_error *err);

int resolve_binds(const struct brig_spec *rq, struct spec *s, const struct home *home,
		  struct brig_error *err);

#endif
