/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place.h"

#include "base/raw.h"

void place_hold(struct place *p)
{
	cpu_set_t here;
	int cpu = sched_getcpu();

	p->held = false;
	CPU_ZERO(&p->all);
	/* a kernel with more processors than the set has room for refuses */
	if (sched_getaffinity(0, sizeof p->all, &p->all) < 0 || CPU_COUNT(&p->all) != 2 ||
	    cpu < 0 || !CPU_ISSET((size_t)cpu, &p->all))
		return;
	CPU_ZERO(&here);
	CPU_SET((size_t)cpu, &here);
	p->held = sched_setaffinity(0, sizeof here, &here) == 0;
}

int place_release(const struct place *p)
{
	return p->held ? (int)SYS3(SYS_sched_setaffinity, 0, sizeof p->all, &p->all) : 0;
}

int place_move(const struct place *p, int cpu)
{
	cpu_set_t there;

	if (!p->held || cpu < 0 || cpu >= CPU_SETSIZE || cpu == sched_getcpu())
		return 0;
	CPU_ZERO(&there);
	CPU_SET((size_t)cpu, &there);
	return sched_setaffinity(0, sizeof there, &there) == 0 ? place_release(p) : 0;
}
