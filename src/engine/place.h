/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the processes of a start run.  Each new one has work that does not
 * depend on its parent's, but the kernel often queues it behind the parent while
 * another processor idles.  So the parent sends it elsewhere, and it takes back
 * the caller's set of processors first of all: nothing of this is left when the
 * command runs.
 */
#ifndef ENGINE_PLACE_H
#define ENGINE_PLACE_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct place {
	cpu_set_t all; /* what the caller may use */
	bool spread;   /* more than one, and known */
};

/* Looks at what there is.  Failing to know means leaving everything alone. */
static inline void place_init(struct place *p)
{
	p->spread = sched_getaffinity(0, sizeof p->all, &p->all) == 0 &&
		    CPU_COUNT(&p->all) > 1;
}

/* Parent: a process just made goes to any processor but this one. */
static inline void place_elsewhere(const struct place *p, pid_t pid)
{
	int cpu = p->spread ? sched_getcpu() : -1;

	if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET((unsigned)cpu, &p->all))
		return;
	cpu_set_t others = p->all;
	CPU_CLR((unsigned)cpu, &others);
	sched_setaffinity(pid, sizeof others, &others);
}

/* The new process: back to the caller's set.  -1 when it cannot be. */
static inline int place_restore(const struct place *p)
{
	return p->spread ? sched_setaffinity(0, sizeof p->all, &p->all) : 0;
}

#endif
