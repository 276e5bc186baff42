/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps through a workspace that may be hostile, for the scan and the sweep
 * of protected paths.  No allocation and no stdio.
 */
#ifndef WORKSPACE_PROTECT_WALK_H
#define WORKSPACE_PROTECT_WALK_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * Opens a path below dirfd without following any symlink, the last component
 * included: with O_PATH a symlink itself is opened, otherwise -ELOOP.  The
 * kernel does the walking, so a component swapped meanwhile cannot lead out
 * (checks by string lost such races, see CONTAINMENT fact 8).  A descriptor
 * (CLOEXEC) or -errno.
 */
int protect_open(int dirfd, const char *path, int flags);

/*
 * A cheap first question, since most protected paths do not exist: failing
 * to stat costs half of failing to open.  Only "no" may be taken from it.
 */
bool protect_missing(int dirfd, const char *path);

/*
 * A run may have taken away the permissions on its directories (mode 000 on
 * the workspace itself, say) to be left alone afterwards.  They are ours, so
 * protect_unlock gives the owner everything and returns the old mode, to be
 * put back with protect_chmod; or -errno.  Both take O_PATH descriptors.
 */
int protect_unlock(int dirfd);
int protect_chmod(int dirfd, mode_t mode);

/* protect_open of one name, through a directory that was locked. */
int protect_open_forced(int dirfd, const char *name, int flags);

/*
 * A file to read, whose name may be a link to anywhere: the link of somebody who may mean it,
 * but as well of one who would have us open a device, which does things when it is opened, or
 * as root read what is not his.  So nothing but a file; and to root, of the directory's owner.
 */
int protect_open_linked(int dirfd, const char *path);

/*
 * A name for what is moved aside, or put beside it: the name and a mark.  That can be foreseen
 * by a command that learnt its run's id, and be taken, so the next attempts are random.
 */
enum { PROTECT_ASIDE_TRIES = 16 };
void protect_aside_name(const char *name, const char *mark, int attempt, char to[NAME_MAX + 1]);

/* Renames within one directory, locked or not, and replaces nothing. */
int protect_rename(int dirfd, const char *from, const char *to);

/*
 * Removes what a command has left, a directory with all that is in it; nobody makes names
 * there any more.  Not what the command could only move there: what is in a mount, or, where
 * root does this, in a directory that is not of the one who has the workspace (wsfd).  0 or
 * -errno when something is left.
 */
int protect_remove(int wsfd, int dfd, const char *name);

/* protect_open_forced for a path of several names: each directory on the way
 * is opened up if need be. */
int protect_walk(int dfd, const char *path, int flags);

/*
 * Where a target leads from `base`, both in the workspace whose absolute path
 * is `root`: by the text alone, for an open that goes through no link.  False
 * when it leads out.
 */
bool protect_resolve(const char *root, const char *base, const char *target,
		     char out[PATH_MAX]);

/*
 * An absolute path that comes to the workspace, by that one's path or through links that are
 * outside of it: the path from there, in out.  0; -ENOENT when it leads elsewhere, or another
 * -errno when that cannot be told.  The text is the user's own, never the command's: its
 * directories are looked up.
 */
int protect_enter(int wsfd, const char *root, const char *target, char out[PATH_MAX]);

/* The first line of a small file, without the key it must begin with. */
bool protect_read_line(int fd, const char *key, char out[PATH_MAX]);

#endif
