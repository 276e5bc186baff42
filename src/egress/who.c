/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/who.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	BUCKETS = 256,
	WAIT_MS = 100,
	KEPT_MAX = 256, /* lines kept back; with more, the oldest does not wait */
	OPEN_MAX = 64,  /* sockets kept open */
};

struct entry {
	struct entry *next;   /* in its bucket */
	struct entry *later;  /* among those that are over, by age */
	uint64_t serial;
	int64_t until;
	bool known, over;
	int fd;
	struct eg_who who;
	struct eg_event ev;
};

struct owners {
	struct loop *loop;
	void (*put)(void *arg, const struct eg_event *ev, const struct eg_who *who);
	void *arg;
	struct timer timer;
	struct entry *bucket[BUCKETS];
	struct entry *first, *last; /* over, waiting */
	unsigned n_kept, n_open;
};

static struct entry **place(struct owners *w, uint64_t serial)
{
	struct entry **p = &w->bucket[serial % BUCKETS];

	while (*p && (*p)->serial != serial)
		p = &(*p)->next;
	return p;
}

static void finish(struct owners *w, struct entry *e)
{
	struct entry **p = place(w, e->serial);

	w->put(w->arg, &e->ev, e->known ? &e->who : NULL);
	*p = e->next;
	if (e->fd >= 0) {
		close(e->fd); /* with a reset, as it was set when it was refused */
		w->n_open--;
	}
	free(e);
}

/* Out of the line of those that wait. */
static void unqueue(struct owners *w, struct entry *e)
{
	struct entry **p = &w->first, *before = NULL;

	while (*p != e) {
		before = *p;
		p = &before->later;
	}
	*p = e->later;
	if (w->last == e)
		w->last = before;
	w->n_kept--;
}

static void finish_first(struct owners *w)
{
	struct entry *e = w->first;

	unqueue(w, e);
	finish(w, e);
}

static void due(struct timer *t)
{
	struct owners *w = (void *)((char *)t - offsetof(struct owners, timer));

	while (w->first && w->first->until <= loop_now(w->loop))
		finish_first(w);
	if (w->first)
		loop_timer(w->loop, &w->timer, w->first->until);
}

struct owners *owners_new(struct loop *l, void (*put)(void *arg, const struct eg_event *ev,
						  const struct eg_who *who), void *arg)
{
	struct owners *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->loop = l;
	w->put = put;
	w->arg = arg;
	w->timer.due = due;
	return w;
}

void owners_asked(struct owners *w, uint64_t serial)
{
	struct entry *e = calloc(1, sizeof *e);

	if (!e)
		return; /* its line will not say who it was */
	e->serial = serial;
	e->fd = -1;
	e->next = w->bucket[serial % BUCKETS];
	w->bucket[serial % BUCKETS] = e;
}

void owners_told(struct owners *w, const struct eg_who *who)
{
	struct entry *e = *place(w, who->serial);

	if (!e || e->known)
		return; /* it did not wait for us */
	e->known = true;
	e->who = *who;
	if (e->over) {
		unqueue(w, e);
		finish(w, e);
	}
}

void owners_over(struct owners *w, const struct eg_event *ev)
{
	struct entry *e = ev->serial ? *place(w, ev->serial) : NULL;

	if (!e) {
		w->put(w->arg, ev, NULL);
		return;
	}
	e->ev = *ev;
	if (e->known) {
		finish(w, e);
		return;
	}
	if (w->n_kept == KEPT_MAX)
		finish_first(w);
	e->over = true;
	e->until = loop_now(w->loop) + WAIT_MS;
	*(w->last ? &w->last->later : &w->first) = e;
	w->last = e;
	w->n_kept++;
	if (!w->timer.at)
		loop_timer(w->loop, &w->timer, e->until);
}

void owners_close(struct owners *w, uint64_t serial, int fd)
{
	struct entry *e = *place(w, serial);

	if (!e || !e->over || w->n_open == OPEN_MAX) {
		close(fd);
		return;
	}
	e->fd = fd;
	w->n_open++;
}

void owners_flush(struct owners *w)
{
	while (w->first)
		finish_first(w);
}
