/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place.h"

#include <string.h>

#include "base/raw.h"
#include "base/str.h"

/* CPU_COUNT() of some C libraries looks at every bit, which takes 3 µs. */
static int count(const cpu_set_t *s)
{
	unsigned long words[sizeof *s / sizeof(unsigned long)];
	int n = 0;

	memcpy(words, s, sizeof words);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		n += __builtin_popcountl(words[i]);
	return n;
}

void place_find(struct place *p)
{
	CPU_ZERO(&p->all);
	/* A kernel with more processors than the set has room for refuses.  And so may a
	 * filter around us: who cannot give back does not take. */
	p->two = sched_getaffinity(0, sizeof p->all, &p->all) == 0 && count(&p->all) == 2 &&
		 sched_setaffinity(0, sizeof p->all, &p->all) == 0;
}

/* Only a hint, if it fails: then the kernel decides, as it would have. */
static int pin(pid_t pid, size_t cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return sched_setaffinity(pid, sizeof one, &one);
}

void place_call(const struct place *p, pid_t pid)
{
	int here = sched_getcpu();

	if (p->two && here >= 0)
		pin(pid, (size_t)here);
}

void place_hold(const struct place *p)
{
	place_call(p, 0);
}

int place_release(const struct place *p)
{
	return p->two ? (int)SYS3(SYS_sched_setaffinity, 0, sizeof p->all, &p->all) : 0;
}

int place_move(const struct place *p, int cpu)
{
	if (!p->two || cpu < 0 || cpu >= CPU_SETSIZE || cpu == sched_getcpu() ||
	    pin(0, (size_t)cpu) < 0)
		return 0;
	return place_release(p);
}

/* The one of the two that it is not, or -1. */
static int other(const struct place *p, int than)
{
	for (int cpu = 0; p->two && than >= 0 && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((size_t)cpu, &p->all) && cpu != than)
			return cpu;
	return -1;
}

void place_keep_off(const struct place *p, pid_t pid)
{
	int cpu = other(p, sched_getcpu());

	if (cpu >= 0)
		pin(pid, (size_t)cpu);
}

int place_leave(const struct place *p, int cpu)
{
	return cpu == sched_getcpu() ? place_move(p, other(p, cpu)) : 0;
}
