/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nudge.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOMENT_MS = 20 };

/* The kernel's; C libraries have different names for the thread's id. */
struct event {
	uint64_t value;
	int32_t signo, notify, tid;
	char rest[64 - 8 - 3 * 4];
};
enum { THREAD_ID = 4 };

/* Nobody's: brig passes the caller's on to the command, and whoever has brig as a library
 * uses the usual ones. */
static int sig_of_ours(void)
{
	return SIGRTMAX;
}

static void nothing(int sig)
{
	(void)sig;
}

static int mask_ours(int how, sigset_t *before)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig_of_ours());
	return sigprocmask(how, &set, before) < 0 ? -errno : 0;
}

/* No other signal's: whoever took those since has them blocked for longer than this. */
static void put_back(const struct nudge *n)
{
	if (n->blocked)
		mask_ours(SIG_BLOCK, NULL);
	sigaction(sig_of_ours(), &n->old, NULL);
}

static int make_timer(int *timer)
{
	struct event ev = { .signo = sig_of_ours(), .notify = THREAD_ID,
			    .tid = (int32_t)syscall(SYS_gettid) };

	return syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, timer) < 0 ? -errno : 0;
}

int nudge_start(struct nudge *n)
{
	/* without SA_RESTART, which is the point */
	const struct sigaction act = { .sa_handler = nothing };
	sigset_t before;

	n->on = false;
	int r = mask_ours(SIG_UNBLOCK, &before);
	if (r < 0)
		return r;
	n->blocked = sigismember(&before, sig_of_ours()) > 0;
	r = sigaction(sig_of_ours(), &act, &n->old) < 0 ? -errno : make_timer(&n->timer);
	if (r < 0)
		put_back(n);
	n->on = r == 0;
	return r;
}

void nudge_every(const struct nudge *n, unsigned ms)
{
	const struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
	/* again and again: the first may come before we wait */
	const struct itimerspec every = { t, t };

	if (n->on)
		syscall(SYS_timer_settime, n->timer, 0, &every, NULL);
}

void nudge_end(struct nudge *n)
{
	if (!n->on)
		return;
	syscall(SYS_timer_delete, n->timer);
	put_back(n);
	n->on = false;
}

static void begin(const struct nudge *n)
{
	if (n)
		nudge_every(n, MOMENT_MS);
}

static ssize_t end(const struct nudge *n, ssize_t done)
{
	if (done < 0)
		done = -errno;
	if (n)
		nudge_every(n, 0);
	return done;
}

ssize_t nudge_read(const struct nudge *n, int fd, void *buf, size_t len)
{
	begin(n);
	return end(n, read(fd, buf, len));
}

ssize_t nudge_write(const struct nudge *n, int fd, const void *buf, size_t len)
{
	begin(n);
	/* poll() said that something fits */
	return end(n, write(fd, buf, !n || n->on || !len ? len : 1));
}
