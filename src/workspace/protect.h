/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protected paths inside the workspace: files whose content would run, or
 * steer a tool, on the host after the sandbox is gone (.git/hooks, .envrc …).
 * Existing ones are mounted read-only and cannot be renamed away; ones that
 * do not exist cannot survive the run.
 */
#ifndef WORKSPACE_PROTECT_H
#define WORKSPACE_PROTECT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "brig.h"

/* What may nevertheless stay at a path that was absent (see gitsafe.h): a
 * repository made inside the sandbox has to be usable afterwards. */
enum protect_check {
	PROTECT_CHECK_NONE,          /* nothing may stay */
	PROTECT_CHECK_GIT_CONFIG,    /* a git config that can run nothing */
	PROTECT_CHECK_GIT_HOOKS,     /* a directory of *.sample files */
	PROTECT_CHECK_GIT_COMMONDIR, /* of a linked worktree, naming its own repository */
	PROTECT_CHECK_GIT_BARE,      /* HEAD, while it makes no repository of its directory */
};

enum protect_kind {
	PROTECT_ABSENT,  /* must not exist after the run */
	PROTECT_RO,      /* file or directory: bind read-only onto itself */
	PROTECT_PIN,     /* directory on the way: bind onto itself, writable, so that
			    it cannot be renamed away from under its children */
	PROTECT_SYMLINK, /* cannot be mounted on: checked and restored after the run */
	PROTECT_WATCHED, /* file in a read-only directory that has another name as well, by
			    which it can be written: checked after the run */
};

struct protect_entry {
	enum protect_kind kind;
	enum protect_check check;
	bool is_dir;
	char *path;   /* relative to the workspace, no "..", no leading "/";
			 only an ABSENT one may have "*" components */
	char *target; /* PROTECT_SYMLINK: what it pointed to */
	/* O_PATH and CLOEXEC; -1 for ABSENT.  Held so that the inode number
	 * cannot be used again for a planted file, and so that a mount can be
	 * made from what was looked at rather than from its name. */
	int fd;
	uint32_t hash; /* of the path */
	dev_t dev;
	ino_t ino;
	struct timespec ctime; /* of a file: by a second name or another way in it
				  can be written around a read-only mount; and see others */
	nlink_t nlink;
	/* Of a link, or a directory on the way: another run, which was at work when this one
	 * began, had not found it. */
	bool doubt;
};

struct protect {
	struct protect_entry *v;
	size_t n;
	bool git_links; /* submodules that the index names are looked after too */
	/* Why git directories are read-only as a whole, or NULL: reading their
	 * indexes took more than is allowed (see gitindex.h). */
	const char *closed;
	char *root;      /* the workspace's absolute path, "" when not known */
	bool marked;     /* lock tells other runs in this workspace that this one is at work */
	int lock;
	bool blind;      /* there are no marks to be had */
	/* Another was when this one began, or that is not known: what was found then may be
	 * that one's, to be moved aside at its end. */
	bool others;
	char suffix[64]; /* ".brig-denied-<id>": what a moved file's name ends with */
	/* Follows the suffix where a sweep has to know its own renames: the
	 * command may know its id, but not this. */
	char secret[17];
};

/* The built-in list, NULL-terminated.  A component "*" stands for any
 * directory that is itself a git directory, or leads to one. */
extern const char *const protect_defaults[];

/*
 * Looks at each pattern below wsfd (an O_PATH or readable directory
 * descriptor of the workspace, which is at the absolute path root; NULL: find out)
 * and fills *p, parents before children.
 * Never follows symlinks out of the workspace.  With ".git/config" among the
 * patterns, the repositories of submodules that the git index names and
 * linked worktrees are protected in the same way; where their number or size
 * is beyond all measure, the git directory is read-only as a whole (closed).
 * 0 or -errno with err.
 */
int protect_scan(struct protect *p, int wsfd, const char *root,
		 const char *const *patterns, const char *id, struct brig_error *err);

/* Whether another run is at work in this workspace just now, or that is not known. */
bool protect_shared(const struct protect *p);

/*
 * True when none of the paths was there before, and none is now, not even a directory on
 * the way to one.  That is all there is to know, as soon as nobody can make names any
 * more.  Else contents have to be judged, by the sweep, and contents can change longer:
 * even as a process is taken apart the kernel writes to its memory, at addresses that it
 * chose (set_tid_address, robust lists), and that memory may be a file's.
 */
bool protect_untouched(const struct protect *p, int wsfd);

/* It is what was found before the run, and nobody has changed, moved or linked it since: all
 * of that is told by the time of its change, which cannot be set. */
bool protect_unchanged(const struct protect_entry *e, const struct stat *st);

/* What became of a path that was created, changed or removed. */
enum protect_fate {
	PROTECT_MOVED,   /* it is now called moved_to */
	PROTECT_BACK,    /* what was there before is back; the command's, if any, is moved_to */
	PROTECT_BESIDE,  /* what was there before is now called moved_to, see others */
	PROTECT_GONE,    /* what was there before is not there any more */
	PROTECT_DELETED, /* there was no room to move it */
	PROTECT_STUCK,   /* it is still there */
	PROTECT_LOST,    /* what was there before is not back, or not all of it */
};

/*
 * After every process of the sandbox is gone: whatever appeared at a path
 * that was absent, or replaced one that was there, is renamed aside; a
 * changed symlink is put back.  Calls back for each path.  After
 * PROTECT_REPORTS of them one more call sums up the rest.  No allocation and
 * no stdio: the janitor calls this when the supervisor was killed.
 * Returns the number of paths reported, or -errno when one could not be
 * dealt with (the others still are).
 */
enum { PROTECT_REPORTS = 100 };
typedef void protect_report(void *arg, const char *path, enum protect_fate fate,
			    const char *moved_to);
/*
 * Whether what the command's descriptors lead to can still be changed: they may have gone
 * to another sandbox, through a socket in the workspace.  0 when it cannot any more, or
 * -errno: then nothing new may stay.  Asked once, if at all.  No allocation, no stdio.
 */
typedef int protect_seal(void *arg);
struct protect_hooks {
	protect_report *report; /* may be NULL */
	void *report_arg;
	protect_seal *seal;     /* NULL: there is no way to find out */
	void *seal_arg;
	bool kept;              /* files and directories that were there have been compared, and
				   put back, by somebody else */
};
int protect_sweep(const struct protect *p, int wsfd, const struct protect_hooks *hooks);

void protect_free(struct protect *p);

#endif
