/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With two processors it matters who is where.  The builder starts the job, and
 * the job belongs on the other processor: it has a network namespace to make, which
 * takes as long as all the rest.  The kernel sees to that when the builder is on the
 * supervisor's processor.  When it puts the builder on the other one, builder and job are
 * both there: they wait for each other, and the first processor is idle.
 *
 * So the builder is born where the supervisor is, and the job goes to the other one.
 * And when the supervisor reads the evidence it goes where the job was, which waits for
 * it, as long as the builder is at work.  At the end init, which is woken where the command
 * was, ends beside the supervisor, and the custodian where that is.  With more processors
 * there is one for everybody, and nothing is done.
 */
#ifndef ENGINE_PLACE_H
#define ENGINE_PLACE_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct place {
	bool two;      /* else none of this does anything */
	cpu_set_t all; /* what the caller may use */
};

void place_find(struct place *p);

/* Whoever we start from now on starts where we are, and stays there. */
void place_hold(const struct place *p);
/* In whom it concerned: every processor of before.  Touches nothing but the kernel.
 * 0, -errno. */
int place_release(const struct place *p);

/* Whom we are about to wake wakes up here, and runs as soon as we sleep, which is at once: it
 * takes longer to wake another processor.  Whoever it is lets itself go with
 * place_release(). */
void place_call(const struct place *p, pid_t pid);

/* Who sleeps, and is about to be woken by somebody on the other processor, who ends: not here,
 * where we are at work.  For good: it is about to end, too. */
void place_keep_off(const struct place *p, pid_t pid);

/* Away from a processor where somebody else has work to do.  As below. */
int place_leave(const struct place *p, int cpu);

/* To another processor, which somebody is about to leave: else we would be in the way of
 * the builder, on the one where both of us were born.  0 also when we stay; -errno: we
 * are there, and may not leave. */
int place_move(const struct place *p, int cpu);

#endif
