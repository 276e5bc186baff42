/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With two processors it matters who is born where.  The builder starts the job, and
 * the job belongs on the other processor: it has a network namespace to make, which
 * takes as long as all the rest.  The kernel sees to that when the builder is on the
 * supervisor's processor.  When it puts the builder on the other one, builder and job are
 * both there: they wait for each other, and the first processor is idle.
 *
 * So the builder is born where the supervisor is.  And when the supervisor reads the
 * evidence it goes where the job was, which waits for it: the builder is still at work.
 * With more processors there is one for everybody, and nothing is done.
 */
#ifndef ENGINE_PLACE_H
#define ENGINE_PLACE_H

#include <sched.h>
#include <stdbool.h>

struct place {
	bool held;
	cpu_set_t all; /* what the caller may use */
};

/* Whoever we start from now on starts where we are, and stays there. */
void place_hold(struct place *p);
/* In both of them: every processor of before.  No libc state is touched.  0, -errno. */
int place_release(const struct place *p);


/* To another processor, which somebody is about to leave: else we would be in the way of
 * the builder, on the one where both of us were born.  0 also when we stay; -errno: we
 * are there, and may not leave. */
int place_move(const struct place *p, int cpu);

#endif
