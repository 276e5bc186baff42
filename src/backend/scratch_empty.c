/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empties a directory that a command could write to.  What is in it may be anything that
 * its user can make, or can move there from elsewhere: trees of any depth, directories
 * without permissions, mount points, other people's directories inside his own.  So root
 * does it with that user's rights, and nobody leaves the file system that he began in.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backend/scratch.h"
#include "base/fd.h"
#include "base/raw.h"
#include "base/sys.h"
#include "workspace/protect_walk.h"

/* However much there is, and whoever adds to it meanwhile.  The next try, of which there are
 * two, goes on where this one stops; then it is left, and told of. */
#define LONG_ENOUGH_S 20

struct task {
	int dir;            /* the top */
	char prefix[24];    /* of what is moved up to it, and a number for each */
	unsigned serial, lifted;
	time_t late;        /* when it has been long enough */
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

static bool is_late(const struct task *t)
{
	struct timespec now;

	return clock_gettime(CLOCK_MONOTONIC, &now) < 0 || now.tv_sec >= t->late;
}

/* Moves a directory up to the top, under a name that nobody could have foreseen. */
static bool lift(struct task *t, int sub, const char *name)
{
	char up[40];
	size_t k = strlen(t->prefix);
	unsigned v = t->serial++;
	struct stat st;

	memcpy(up, t->prefix, k);
	for (int i = 0; i < 8; i++, v >>= 4)
		up[k++] = "0123456789abcdef"[v & 15];
	up[k] = '\0';
	int in = open_dir(sub, name);
	if (in < 0)
		return false; /* nothing that has to be moved, or could be */
	unlock(in); /* its ".." is written when it moves */
	close(in);
	/* looked at: a filter around us may have answered in the kernel's place */
	if (renameat(sub, name, t->dir, up) < 0 ||
	    fstatat(t->dir, up, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	t->lifted++;
	return true;
}

/*
 * One pass over a directory: what can be removed is.  Of the rest, in the top, each is
 * emptied; what lies in one that is not the top is moved up to it.  1 when something was
 * done and something is left, 0 when nothing is left, -errno when nothing more can be done.
 */
static int pass(struct task *t, int dir);

static int empty_below(struct task *t, const char *name)
{
	cleanup_close int sub = open_dir(t->dir, name);
	int r;

	if (sub < 0)
		return sub == -ENOTDIR ? -EPERM : sub;
	unlock(sub);
	while ((r = pass(t, sub)) > 0)
		;
	return r == 0 && unlinkat(t->dir, name, AT_REMOVEDIR) < 0 ? -errno : r;
}

static int deal_with(struct task *t, int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0 || unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	if (dir == t->dir)
		return empty_below(t, name);
	return lift(t, dir, name) ? 0 : -EPERM;
}

static int pass(struct task *t, int dir)
{
	char buf[4096] __attribute__((aligned(8)));
	const unsigned lifted = t->lifted;
	bool any = false;
	int left = 0;

	if (lseek(dir, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		long n = syscall(SYS_getdents64, dir, buf, sizeof buf);
		if (n <= 0)
			break;
		if (is_late(t))
			return -ETIMEDOUT;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (is_dots(d->name))
				continue;
			int r = deal_with(t, dir, d->name);
			if (r == -ETIMEDOUT)
				return r;
			if (r < 0)
				left = r;
			else
				any = true;
		}
	}
	/* what came up to the top may have come too late to be seen */
	if (dir == t->dir && t->lifted != lifted)
		return 1;
	return left < 0 && any ? 1 : left;
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
 * Deep trees: not with a descriptor per level.  What lies in a directory of the top and holds
 * something itself is moved up to the top, so that no level is ever more than two below it.
 */
int scratch_empty(int dir)
{
	struct task t = { .dir = dir, .prefix = ".brig-" };
	struct timespec now;
	int r = scratch_random(t.prefix + 6, 8);

	if (r < 0 || clock_gettime(CLOCK_MONOTONIC, &now) < 0)
		return r < 0 ? r : -errno;
	t.late = now.tv_sec + LONG_ENOUGH_S;
	while ((r = pass(&t, dir)) > 0)
		;
	return r;
}

/* What root gives up for a while, of this thread alone. */
struct rights {
	struct __user_cap_data_struct caps[2];
	gid_t groups[1024];
	long n_groups;
	gid_t fsgid;
	int death_signal;  /* a change of these ids ends both … */
	long dumpable;
	pid_t parent;
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
	SYS5(SYS_prctl, PR_SET_DUMPABLE, r->dumpable, 0, 0, 0);
	if (!r->death_signal)
		return;
	SYS5(SYS_prctl, PR_SET_PDEATHSIG, r->death_signal, 0, 0, 0);
	/* … and who died meanwhile could not tell */
	if (getppid() != r->parent)
		kill(getpid(), r->death_signal);
}

/* 0 when this thread may do to files what the user may, and no more. */
static int give_rights_up(struct rights *r, uid_t uid, gid_t gid)
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };

	long e = SYS2(SYS_capget, &hdr, r->caps);
	if (e < 0)
		return (int)e;
	r->parent = getppid();
	r->death_signal = 0;
	SYS5(SYS_prctl, PR_GET_PDEATHSIG, &r->death_signal, 0, 0, 0);
	r->dumpable = SYS5(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0);
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
