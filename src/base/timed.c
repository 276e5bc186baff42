/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timed.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

/* brig passes the usual signals on to the command; nothing else uses this one. */
#define SIGNAL_OF_OURS SIGRTMAX

#ifndef sigev_notify_thread_id /* glibc before 2.41 has the field and not the name */
#define sigev_notify_thread_id _sigev_un._tid
#endif

struct alarm {
	bool on;
	timer_t timer;
	struct sigaction action; /* as it was before */
	sigset_t mask;
};

static void nothing(int sig)
{
	(void)sig;
}

/* From now on this thread is interrupted every ms milliseconds: the first time may come before
 * the call that is meant.  Without a timer (the user has none left) nothing happens. */
static void alarm_start(struct alarm *a, int ms)
{
	const struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
	const struct itimerspec every = { t, t };
	const struct sigaction interrupt = { .sa_handler = nothing }; /* no SA_RESTART */
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL_OF_OURS };
	sigset_t set;

	ev.sigev_notify_thread_id = gettid();
	a->on = timer_create(CLOCK_MONOTONIC, &ev, &a->timer) == 0;
	if (!a->on)
		return;
	sigaction(SIGNAL_OF_OURS, &interrupt, &a->action);
	sigemptyset(&set);
	sigaddset(&set, SIGNAL_OF_OURS);
	pthread_sigmask(SIG_UNBLOCK, &set, &a->mask);
	timer_settime(a->timer, 0, &every, NULL);
}

/* Everything as before.  Hands on what the call returned, -errno for -1. */
static ssize_t alarm_end(struct alarm *a, ssize_t result)
{
	if (result < 0)
		result = -errno;
	if (!a->on)
		return result;
	timer_delete(a->timer);
	pthread_sigmask(SIG_SETMASK, &a->mask, NULL);
	sigaction(SIGNAL_OF_OURS, &a->action, NULL);
	return result;
}

static int await(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int r;

	do
		r = poll(&p, 1, ms);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r == 0 ? -EAGAIN : 0;
}

ssize_t timed_read(int fd, void *buf, size_t len, int ms)
{
	struct alarm a;
	int r = await(fd, POLLIN, ms);

	if (r < 0)
		return r;
	alarm_start(&a, ms);
	return alarm_end(&a, read(fd, buf, len));
}

ssize_t timed_write(int fd, const void *buf, size_t len, int ms)
{
	struct alarm a;
	int r = await(fd, POLLOUT, ms);

	if (r < 0)
		return r;
	alarm_start(&a, ms);
	/* poll() has promised room for one byte */
	return alarm_end(&a, write(fd, buf, a.on || !len ? len : 1));
}

int timed_connect(int fd, const struct sockaddr *to, socklen_t len, int ms)
{
	struct alarm a;

	alarm_start(&a, ms);
	return (int)alarm_end(&a, connect(fd, to, len));
}
