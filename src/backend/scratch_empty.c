/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empties a directory that a command could write to.  What is in it may be anything that
 * its user can make, or can move there from elsewhere: trees of any depth, directories
 * without permissions, mount points, other people's directories inside his own.  So root
 * does it with that user's rights, and nobody leaves the file system that he began in.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/scratch.h"
#include "base/fd.h"
#include "base/raw.h"
#include "base/sys.h"
#include "workspace/protect_walk.h"

/* What one look at a directory found, having removed what it could. */
struct found {
	bool any, left; /* removed something; left something */
	int err;        /* why that was left */
	int fd;         /* a directory among it, or -1 */
	char name[NAME_MAX + 1];
};

static bool is_dots(const char *n)
{
	return n[0] == '.' && (!n[1] || (n[1] == '.' && !n[2]));
}

static int open_below(int dir, const char *name, int how)
{
	return sys_openat2(dir, name, (uint64_t)(how | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

/* Opens a directory below dir, made ours to use first if need be. */
static int open_dir(int dir, const char *name)
{
	int fd = open_below(dir, name, O_RDONLY);

	if (fd >= 0 || errno != EACCES)
		return fd < 0 ? -errno : fd;
	cleanup_close int path = open_below(dir, name, O_PATH);
	if (path < 0)
		return -errno;
	int mode = protect_unlock(path);
	if (mode < 0)
		return mode;
	fd = open_below(dir, name, O_RDONLY);
	return fd < 0 ? -errno : fd;
}

/* Takes away what makes a directory of ours unusable to us. */
static void unlock(int dir)
{
	fchmod(dir, 0700);
}

/* What could not be removed: the first directory among it, after `skip` others, is opened. */
static void note_left(int dir, const char *name, unsigned *skip, struct found *f)
{
	int e = errno;

	f->left = true;
	if (f->fd >= 0)
		return;
	size_t n = strlen(name);
	int fd = n < sizeof f->name ? open_dir(dir, name) : -ENAMETOOLONG;
	if (fd < 0) {
		f->err = e == ENOTDIR ? EPERM : e;
	} else if (*skip) {
		--*skip;
		close(fd);
	} else {
		f->fd = fd;
		memcpy(f->name, name, n + 1);
	}
}

/* One pass over a directory. */
static int pass(int dir, unsigned skip, struct found *f)
{
	char buf[4096] __attribute__((aligned(8)));

	f->any = f->left = false;
	f->err = EPERM;
	f->fd = -1;
	if (lseek(dir, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		long n = syscall(SYS_getdents64, dir, buf, sizeof buf);
		if (n <= 0)
			return 0;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (is_dots(d->name))
				continue;
			if (unlinkat(dir, d->name, 0) == 0 ||
			    unlinkat(dir, d->name, AT_REMOVEDIR) == 0)
				f->any = true;
			else
				note_left(dir, d->name, &skip, f);
		}
	}
}

/* Moves the directories in sub that hold something up into dir.  How many. */
static int lift(int sub, int dir, const char *prefix, unsigned *serial)
{
	char buf[4096] __attribute__((aligned(8)));
	int moved = 0;

	if (lseek(sub, 0, SEEK_SET) < 0)
		return 0;
	long n = syscall(SYS_getdents64, sub, buf, sizeof buf);
	for (long at = 0; at < n;) {
		const struct sys_dirent *d = (const void *)(buf + at);
		char up[40];
		size_t k = strlen(prefix);
		unsigned v = (*serial)++;

		at += d->len;
		if (is_dots(d->name))
			continue;
		memcpy(up, prefix, k);
		for (int i = 0; i < 8; i++, v >>= 4)
			up[k++] = "0123456789abcdef"[v & 15];
		up[k] = '\0';
		int in = open_dir(sub, d->name);
		if (in >= 0) {
			unlock(in); /* its ".." is written when it moves */
			close(in);
		}
		moved += renameat(sub, d->name, dir, up) == 0;
	}
	return moved;
}

/* All of sub, whose own directories go up into dir.  0, or -errno when something in it can
 * neither be removed nor moved. */
static int empty_sub(int sub, int dir, const char *prefix, unsigned *serial)
{
	ino_t last = 0;

	unlock(sub);
	for (;;) {
		struct found f;
		struct stat st;
		int r = pass(sub, 0, &f);
		if (r < 0 || !f.left)
			return r;
		if (f.fd < 0 && !f.any)
			return -f.err;
		if (f.fd < 0)
			continue;
		r = fstat(f.fd, &st);
		close(f.fd);
		/* still the same: it was not moved, whatever was said */
		if (r < 0 || st.st_ino == last || lift(sub, dir, prefix, serial) == 0)
			return -EPERM;
		last = st.st_ino;
	}
}

int scratch_random(char *to, size_t bytes)
{
	unsigned char seed[16];

	if (bytes > sizeof seed || getrandom(seed, bytes, 0) != (ssize_t)bytes)
		return -EIO;
	for (size_t i = 0; i < bytes; i++) {
		to[2 * i] = "0123456789abcdef"[seed[i] >> 4];
		to[2 * i + 1] = "0123456789abcdef"[seed[i] & 15];
	}
	to[2 * bytes] = '\0';
	return 0;
}

/*
 * Deep trees: not by recursion and not with a descriptor per level.  What lies
 * in a directory that is not empty is moved up to the top, under names that
 * nobody could have foreseen, so that no level is ever more than two below it.
 * Every round removes one directory of the top, or passes it over for good.
 */
int scratch_empty(int dir)
{
	unsigned serial = 0, skip = 0;
	char prefix[24] = ".brig-";
	int worst = scratch_random(prefix + 6, 8);

	if (worst < 0)
		return worst;
	for (;;) {
		struct found f;
		int r = pass(dir, skip, &f);
		if (r < 0 || !f.left)
			return r < 0 ? r : worst;
		if (f.fd < 0 && !f.any)
			return worst ? worst : -f.err;
		if (f.fd < 0)
			continue;
		r = empty_sub(f.fd, dir, prefix, &serial);
		close(f.fd);
		if (r == 0 && unlinkat(dir, f.name, AT_REMOVEDIR) < 0)
			r = -errno;
		if (r < 0) {
			worst = r;
			skip++;
		}
	}
}

/* What root gives up for a while, of this thread alone. */
struct rights {
	struct __user_cap_data_struct caps[2];
	gid_t groups[1024];
	long n_groups;
	gid_t fsgid;
};

static long set_caps(const struct __user_cap_data_struct caps[2])
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };

	return SYS2(SYS_capset, &hdr, caps);
}

static void take_rights_back(const struct rights *r)
{
	/* the first gives back what the others need */
	set_caps(r->caps);
	SYS1(SYS_setfsuid, 0);
	SYS1(SYS_setfsgid, r->fsgid);
	if (r->n_groups > 0)
		SYS2(SYS_setgroups, r->n_groups, r->groups);
	set_caps(r->caps);
}

/* 0 when this thread may do to files what the user may, and no more. */
static int give_rights_up(struct rights *r, uid_t uid, gid_t gid)
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };

	long e = SYS2(SYS_capget, &hdr, r->caps);
	if (e < 0)
		return (int)e;
	r->n_groups = SYS2(SYS_getgroups, sizeof r->groups / sizeof r->groups[0], r->groups);
	if (r->n_groups < 0)
		return (int)r->n_groups;
	e = r->n_groups ? SYS2(SYS_setgroups, 0, NULL) : 0;
	if (e < 0)
		return (int)e;
	r->fsgid = (gid_t)SYS1(SYS_setfsgid, gid);
	SYS1(SYS_setfsuid, uid);
	struct __user_cap_data_struct none[2] = { r->caps[0], r->caps[1] };
	none[0].effective = none[1].effective = 0;
	e = set_caps(none);
	/* these two say what was, not whether it worked: so once more */
	if (e == 0 && (SYS1(SYS_setfsuid, -1) != (long)uid || SYS1(SYS_setfsgid, -1) != (long)gid))
		e = -EPERM;
	if (e < 0)
		take_rights_back(r);
	return (int)e;
}

int scratch_empty_as(int dir, uid_t uid, gid_t gid)
{
	struct rights r;

	if (geteuid() != 0 || uid == 0) {
		unlock(dir);
		return scratch_empty(dir);
	}
	int e = give_rights_up(&r, uid, gid);
	if (e < 0)
		return e;
	unlock(dir);
	e = scratch_empty(dir);
	take_rights_back(&r);
	return e;
}
