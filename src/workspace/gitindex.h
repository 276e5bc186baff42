/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submodules ("gitlinks") a git index names.  `git status` runs git in
 * each of them, under the configuration found there, which makes such a
 * nested repository as dangerous as the outer one.
 */
#ifndef WORKSPACE_GITINDEX_H
#define WORKSPACE_GITINDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

enum { GITINDEX_SHA1 = 20, GITINDEX_SHA256 = 32 };

enum {
	GITINDEX_NESTING = 3,  /* submodules of submodules of submodules */
	GITINDEX_LINKS = 512,  /* directories looked into */
	GITINDEX_BYTES = 256 * 1024 * 1024, /* of all indexes, and of any one */
	GITINDEX_SECONDS = 2,
};

/*
 * What one scan or sweep may spend on all the indexes it meets, and the one
 * buffer they share: the levels of nesting have no room for one each.
 */
struct gitindex_work {
	struct timespec end; /* CLOCK_MONOTONIC */
	int64_t bytes;       /* left */
	unsigned n_seen;
	const void *owner; /* whose bytes are in buf */
	/* Of the last one that was read to its end: it leans on a shared index; and has
	 * submodules whose names are in there, of entries that may be something else. */
	bool split, nameless;
	bool every; /* so of the next one all entries are called back for, whatever they are */
	struct {
		dev_t dev;
		ino_t ino;
	} seen[GITINDEX_LINKS];
	char buf[16 * 1024];
};

void gitindex_begin(struct gitindex_work *w);

/* The time is over. */
bool gitindex_late(const struct gitindex_work *w);

/* 1 for a directory not visited yet, 0 for one that was, -EDQUOT when it is
 * one too many. */
int gitindex_visit(struct gitindex_work *w, const struct stat *st);

/* The buffer, for other use; whoever reads an index reads that part again. */
char *gitindex_buffer(struct gitindex_work *w);

/* Called for one gitlink; anything but 0 ends the reading.  Or for a directory that a
 * sparse index has in place of its entries, of which any may be one. */
typedef int gitindex_link(void *arg, const char *path, bool whole_directory);

/* True for a path that git itself may write: no empty component, no "." and
 * no "..".  (Git follows others all the same when it finds them.) */
bool gitindex_path_ok(const char *path);

/*
 * Reads an index file (versions 2 to 4, with hashes of so many bytes: gitsafe_hash())
 * from fd and calls back for each gitlink.  The index is hostile: a path may name anything
 * and must be walked beneath the work tree.  No allocation, no stdio.  0, or what
 * the callback returned, or -EBADMSG when it is no sound index (git may still see
 * something in it) or names a path that is not
 * gitindex_path_ok, -EPROTONOSUPPORT for a later version, -EDQUOT when the
 * work is used up, or another -errno.
 */
int gitindex_links(int fd, size_t hash, struct gitindex_work *w, gitindex_link *cb, void *arg);

#endif
