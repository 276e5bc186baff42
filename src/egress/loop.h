/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: descriptors, timers, and work put off to the end of a round.
 * One thread.  A source or timer is part of its owner's memory; an owner that
 * goes away while events of this round may still name it is freed through
 * loop_bury().
 */
#ifndef EGRESS_LOOP_H
#define EGRESS_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct loop;
struct source;
struct timer;

struct source {
	int fd; /* -1: not in use; events of it that are still to come are dropped */
	bool early; /* its events come before the others of a round */
	void (*ready)(struct source *s, uint32_t events);
};

struct timer {
	int64_t at; /* milliseconds of the loop's clock; 0: not set */
	void (*due)(struct timer *t);
	struct timer *next, *prev;
};

/* Something to do once more before the loop sleeps. */
struct task {
	void (*run)(struct task *t);
	struct task *next;
	bool queued;
};

struct grave {
	struct grave *next;
};

/* NULL with errno set. */
struct loop *loop_new(void);
/* Runs until loop_stop(); the value given there. */
int loop_run(struct loop *l);
void loop_stop(struct loop *l, int status);

/* Monotonic milliseconds as of the beginning of this round. */
int64_t loop_now(const struct loop *l);

/* EPOLLET and so on are the caller's choice.  0 or -errno. */
int loop_add(struct loop *l, struct source *s, uint32_t events);
int loop_change(struct loop *l, struct source *s, uint32_t events);
/* Forgets the source, which is then the caller's to close; s->fd becomes -1. */
int loop_take(struct loop *l, struct source *s);
/* Forgets it and closes it. */
void loop_close(struct loop *l, struct source *s);

void loop_timer(struct loop *l, struct timer *t, int64_t at);
void loop_timer_off(struct loop *l, struct timer *t);

void loop_task(struct loop *l, struct task *t);
void loop_task_off(struct loop *l, struct task *t);

/* Frees the memory that begins with g when this round is over. */
void loop_bury(struct loop *l, struct grave *g);

/* Called before each sleep: gives the longest wait in ms (-1: any) of a part that
 * keeps its own time. */
void loop_clockwork(struct loop *l, int (*wait)(void *arg), void (*tick)(void *arg),
		    void *arg);

#endif
