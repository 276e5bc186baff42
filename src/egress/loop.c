/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 128 };

struct loop {
	int ep;
	bool stop;
	int status;
	int64_t now;
	int64_t next; /* no timer is due before; may be earlier than the first */
	struct timer *timers;
	struct task *tasks, **last_task;
	struct grave *graves;
	int (*wait)(void *arg);
	void (*tick)(void *arg);
	void *arg;
};

static int64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct loop *loop_new(void)
{
	struct loop *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->ep = epoll_create1(EPOLL_CLOEXEC);
	if (l->ep < 0) {
		free(l);
		return NULL;
	}
	l->now = clock_ms();
	l->next = INT64_MAX;
	l->last_task = &l->tasks;
	return l;
}

void loop_stop(struct loop *l, int status)
{
	l->stop = true;
	l->status = status;
}

int64_t loop_now(const struct loop *l)
{
	return l->now;
}

static int control(struct loop *l, int op, struct source *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

	return epoll_ctl(l->ep, op, s->fd, &ev) < 0 ? -errno : 0;
}

int loop_add(struct loop *l, struct source *s, uint32_t events)
{
	return control(l, EPOLL_CTL_ADD, s, events);
}

int loop_change(struct loop *l, struct source *s, uint32_t events)
{
	return control(l, EPOLL_CTL_MOD, s, events);
}

int loop_take(struct loop *l, struct source *s)
{
	int fd = s->fd;

	if (fd >= 0)
		control(l, EPOLL_CTL_DEL, s, 0);
	s->fd = -1;
	return fd;
}

void loop_close(struct loop *l, struct source *s)
{
	(void)l;
	/* closing the only descriptor of a file also takes it out of the set */
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

void loop_timer(struct loop *l, struct timer *t, int64_t at)
{
	if (!t->at) {
		t->prev = NULL;
		t->next = l->timers;
		if (l->timers)
			l->timers->prev = t;
		l->timers = t;
	}
	t->at = at > 0 ? at : 1;
	if (t->at < l->next)
		l->next = t->at;
}

void loop_timer_off(struct loop *l, struct timer *t)
{
	if (!t->at)
		return;
	*(t->prev ? &t->prev->next : &l->timers) = t->next;
	if (t->next)
		t->next->prev = t->prev;
	t->at = 0;
	t->next = t->prev = NULL;
}

/* Timers are few (a few per connection) and rarely come due: a list is enough.
 * One timer's work may set or stop others, so each due one starts the walk anew. */
static void run_timers(struct loop *l)
{
	while (l->now >= l->next) {
		struct timer *due = NULL;
		l->next = INT64_MAX;
		for (struct timer *t = l->timers; t; t = t->next) {
			if (t->at <= l->now && !due)
				due = t;
			else if (t->at < l->next)
				l->next = t->at;
		}
		if (!due)
			return;
		loop_timer_off(l, due);
		due->due(due);
	}
}

void loop_task(struct loop *l, struct task *t)
{
	if (t->queued)
		return;
	t->queued = true;
	t->next = NULL;
	*l->last_task = t;
	l->last_task = &t->next;
}

void loop_task_off(struct loop *l, struct task *t)
{
	if (!t->queued)
		return;
	struct task **p = &l->tasks;
	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	if (l->last_task == &t->next)
		l->last_task = p;
	t->queued = false;
}

/* Those queued now; what they queue waits for the next round. */
static void run_tasks(struct loop *l)
{
	struct task *last = NULL;

	for (struct task *t = l->tasks; t; t = t->next)
		last = t;
	for (bool end = !last; !end && l->tasks;) {
		struct task *t = l->tasks;
		end = t == last;
		l->tasks = t->next;
		if (!l->tasks)
			l->last_task = &l->tasks;
		t->queued = false;
		t->run(t);
	}
}

void loop_bury(struct loop *l, struct grave *g)
{
	g->next = l->graves;
	l->graves = g;
}

void loop_clockwork(struct loop *l, int (*wait)(void *arg), void (*tick)(void *arg),
		    void *arg)
{
	l->wait = wait;
	l->tick = tick;
	l->arg = arg;
}

static int sleep_ms(const struct loop *l)
{
	int64_t ms = -1;

	if (l->tasks)
		return 0;
	if (l->next != INT64_MAX)
		ms = l->next > l->now ? l->next - l->now : 0;
	int w = l->wait ? l->wait(l->arg) : -1;
	if (w >= 0 && (ms < 0 || w < ms))
		ms = w;
	return ms > 60000 ? 60000 : (int)ms;
}

static void run_events(const struct epoll_event *ev, int n, bool early)
{
	for (int i = 0; i < n; i++) {
		struct source *s = ev[i].data.ptr;
		if (s->fd >= 0 && s->early == early)
			s->ready(s, ev[i].events);
	}
}

int loop_run(struct loop *l)
{
	struct epoll_event ev[EVENTS];

	while (!l->stop) {
		int n = epoll_wait(l->ep, ev, EVENTS, sleep_ms(l));
		if (n < 0 && errno != EINTR)
			return -errno;
		l->now = clock_ms();
		run_events(ev, n, true);
		run_events(ev, n, false);
		run_timers(l);
		if (l->tick)
			l->tick(l->arg);
		run_tasks(l);
		for (struct grave *g = l->graves, *next; g; g = next) {
			next = g->next;
			free(g);
		}
		l->graves = NULL;
	}
	return l->status;
}
