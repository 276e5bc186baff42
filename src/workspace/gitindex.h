/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submodules ("gitlinks") a git index names.  `git status` runs git in
 * each of them, under the configuration found there, which makes such a
 * nested repository as dangerous as the outer one.
 */
#ifndef WORKSPACE_GITINDEX_H
#define WORKSPACE_GITINDEX_H

typedef void gitindex_link(void *arg, const char *path);

/*
 * Reads an index file (versions 2 to 4; SHA-1 or SHA-256) from fd and calls
 * back for each gitlink.  The index is hostile: a path may name anything and
 * must be walked beneath the work tree.  No allocation, no stdio.  0, or
 * -EBADMSG when it is no sound index under either hash (git may still see
 * something in it), -EPROTONOSUPPORT for a later version, or another -errno.
 */
int gitindex_links(int fd, gitindex_link *cb, void *arg);

#endif
