/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#include "base/mountapi.h"
#include "base/raw.h"
#include "engine/collect.h"

enum {
	TRIES = 10,
	PAUSE_NS = 5000000, /* the last process may not have let go of all it had */
};

/* What the kernel lists of the mounts, line by line. */
struct list {
	long fd;
	size_t at, len;
	char buf[3 * PATH_MAX];
};

/* The next line, without its end; NULL when there is none (*e is 0), or on an error. */
static char *next_line(struct list *l, long *e)
{
	for (;;) {
		char *line = l->buf + l->at, *end = memchr(line, '\n', l->len - l->at);
		if (end) {
			*end = '\0';
			l->at = (size_t)(end + 1 - l->buf);
			return line;
		}
		memmove(l->buf, line, l->len - l->at);
		l->len -= l->at;
		l->at = 0;
		*e = l->len == sizeof l->buf ? -E2BIG :
		     SYS3(SYS_read, l->fd, l->buf + l->len, sizeof l->buf - l->len);
		if (*e == -EINTR)
			continue;
		if (*e <= 0)
			return NULL;
		l->len += (size_t)*e;
	}
}

static char *next_word(char **at)
{
	char *word = *at;

	*at += strcspn(word, " ");
	if (**at)
		*(*at)++ = '\0';
	return word;
}

/* Blanks and the like are written as a backslash and three digits. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++)
		if (s[0] == '\\' && s[1] && s[2] && s[3]) {
			*to++ = (char)((s[1] & 3) << 6 | (s[2] & 7) << 3 | (s[3] & 7));
			s += 3;
		} else {
			*to++ = *s;
		}
	*to = '\0';
}

static bool has_word(const char *options, const char *word)
{
	const size_t n = strlen(word);

	for (;; options++) {
		if (!strncmp(options, word, n) && (options[n] == ',' || !options[n]))
			return true;
		options += strcspn(options, ",");
		if (!*options)
			return false;
	}
}

/* One pass over all mounts that can be written to; how many there are is in *n. */
static long each_writable(long proc, bool change, unsigned *n)
{
	struct list l = { .fd = SYS4(SYS_openat, proc, "self/mountinfo", O_RDONLY | O_CLOEXEC, 0) };
	long e = l.fd < 0 ? l.fd : 0;

	*n = 0;
	for (char *line; l.fd >= 0 && (line = next_line(&l, &e));) {
		for (int i = 0; i < 4; i++) /* numbers, and what of the file system it is */
			next_word(&line);
		char *path = next_word(&line), *options = next_word(&line);
		if (!has_word(options, "rw"))
			continue;
		++*n;
		if (!change)
			continue;
		unescape(path);
		/* those that are locked have to be said again */
		unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY |
				      (has_word(options, "nosuid") ? MS_NOSUID : 0) |
				      (has_word(options, "nodev") ? MS_NODEV : 0) |
				      (has_word(options, "noexec") ? MS_NOEXEC : 0);
		e = SYS5(SYS_mount, NULL, path, NULL, flags, NULL);
		if (e < 0)
			break;
	}
	if (l.fd >= 0)
		SYS1(SYS_close, l.fd);
	return e;
}

/* The same with mount(2) alone; see root_classic.c. */
static long seal_each(long proc)
{
	unsigned left;
	long e = each_writable(proc, true, &left);

	/* a path leads to the last that was mounted there */
	if (e == 0)
		e = each_writable(proc, false, &left);
	return e < 0 ? e : left ? -EBUSY : 0;
}

/*
 * In a process of its own, as it gets into the sandbox's user namespace for it: whose owner
 * we are, with every capability in there, and none out here.  It has a copy of our memory
 * and makes system calls only.
 */
static long seal(int mounts)
{
	const struct mnt_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	/* of our own namespaces: the one in there does not know us */
	long proc = SYS4(SYS_openat, AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	long user = SYS2(SYS_ioctl, mounts, NS_GET_USERNS);
	long r = user < 0 ? user : SYS2(SYS_setns, user, CLONE_NEWUSER);

	if (r == 0)
		r = SYS2(SYS_setns, mounts, CLONE_NEWNS);
	for (int i = 0; r == 0 && i < TRIES; i++) {
		long e = SYS5(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &ro, sizeof ro);
		if (e == -ENOSYS)
			e = proc < 0 ? proc : seal_each(proc);
		if (e != -EBUSY)
			return e;
		SYS2(SYS_nanosleep, &pause, 0);
	}
	return r < 0 ? r : -EBUSY;
}

int seal_mounts(void *held)
{
	const struct collect *c = held;
	long got;
	int st = -1; /* nobody ends like that */

	if (c->mounts < 0)
		return -ENOENT;
	/* not the C library's: the custodian has no business with its locks */
	long pid = SYS5(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		die((int)-seal(c->mounts));
	if (pid < 0)
		return (int)pid;
	do
		got = SYS4(SYS_wait4, pid, &st, 0, 0);
	while (got == -EINTR);
	return got == pid && WIFEXITED(st) ? -WEXITSTATUS(st) : -ECHILD;
}
