/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a piece of a git directory harmless to the user's own git?  Used for
 * repositories made inside a sandbox: `git init` and `git clone` must leave
 * something usable, and nothing that runs a program on the host.  Anything
 * not understood counts as harmful.  No allocation and no stdio.
 */
#ifndef WORKSPACE_GITSAFE_H
#define WORKSPACE_GITSAFE_H

#include <stdbool.h>
#include <stddef.h>

/* True when the text holds only sections and keys known to run nothing. */
bool gitsafe_config_text(const char *text, size_t len);

/* The same for a readable descriptor of a config file, read into buf; false
 * when it is larger than that, as a fresh config has no reason to be. */
bool gitsafe_config(int fd, char *buf, size_t size);

/*
 * The length of hashes in a repository with this configuration (its common one), as git
 * tells it: 20 or 32.  0 when it cannot be told for sure.  An index can be made that reads
 * well under both, and differently.
 */
size_t gitsafe_hash_text(const char *text, size_t len);
size_t gitsafe_hash(int fd, char *buf, size_t size);
/* The same for a git directory, which may be that of a linked worktree. */
size_t gitsafe_hash_at(int git_fd, char *buf, size_t size);

/* True when a readable directory descriptor lists only *.sample files. */
bool gitsafe_hooks(int fd);

/* True when the commondir of .git/worktrees/NAME names .git itself. */
bool gitsafe_commondir(int fd);

/* True when git would take this directory (O_PATH is enough) for a git
 * directory, so that a config beside its HEAD would be read. */
bool gitsafe_is_gitdir(int dirfd);

#endif
