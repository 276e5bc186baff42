/* SPDX-License-Identifier: Apache-2.0 */
/* Who may run on which processor, before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/place.h"

static cpu_set_t before;

static cpu_set_t now(void)
{
	cpu_set_t s;

	CPU_ZERO(&s);
	assert_int_equal(sched_getaffinity(0, sizeof s, &s), 0);
	return s;
}

static void use(const cpu_set_t *s)
{
	assert_int_equal(sched_setaffinity(0, sizeof *s, s), 0);
}

/* The first n of those we have; false: there are fewer. */
static bool use_first(int n)
{
	cpu_set_t s;

	CPU_ZERO(&s);
	for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&s) < n; cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &s);
	if (CPU_COUNT(&s) < n)
		return false;
	use(&s);
	return true;
}

static int set_up(void **state)
{
	(void)state;
	before = now();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	use(&before);
	return 0;
}

/* On two processors, which are returned. */
static cpu_set_t find_two(struct place *p)
{
	if (!use_first(2))
		skip();
	const cpu_set_t two = now();
	place_find(p);
	assert_true(p->two);
	assert_true(CPU_EQUAL(&p->all, &two));
	return two;
}

static void test_two(void **state)
{
	struct place p;
	const cpu_set_t two = find_two(&p);

	(void)state;
	place_hold(&p);
	cpu_set_t held = now();
	assert_int_equal(CPU_COUNT(&held), 1);
	int here = sched_getcpu();
	assert_true(CPU_ISSET((size_t)here, &held));
	assert_int_equal(place_release(&p), 0);
	cpu_set_t free = now();
	assert_true(CPU_EQUAL(&free, &two));

	/* away, and free to go anywhere afterwards */
	use(&held);
	assert_int_equal(place_leave(&p, here), 0);
	free = now();
	assert_true(CPU_EQUAL(&free, &two));
}

/* Somebody else: where we are, and where we are not. */
static void test_others(void **state)
{
	struct place p;
	cpu_set_t its, here_only;

	(void)state;
	find_two(&p);
	place_hold(&p); /* or we might move in between */
	here_only = now();
	pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	assert_true(child > 0);
	place_keep_off(&p, child);
	assert_int_equal(sched_getaffinity(child, sizeof its, &its), 0);
	assert_int_equal(CPU_COUNT(&its), 1);
	assert_false(CPU_EQUAL(&its, &here_only));
	place_call(&p, child);
	assert_int_equal(sched_getaffinity(child, sizeof its, &its), 0);
	assert_true(CPU_EQUAL(&its, &here_only));
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* One that is no longer allowed is stayed away from, whoever names it. */
static void test_move(void **state)
{
	struct place p;
	const cpu_set_t two = find_two(&p);

	(void)state;
	for (int cpu = -1; cpu <= CPU_SETSIZE; cpu++) {
		assert_int_equal(place_move(&p, cpu), 0);
		cpu_set_t free = now();
		assert_true(CPU_EQUAL(&free, &two));
	}
	assert_int_equal(place_move(&p, 1 << 30), 0);
}

static void test_one(void **state)
{
	struct place p;

	(void)state;
	assert_true(use_first(1));
	const cpu_set_t one = now();
	place_find(&p);
	assert_false(p.two);
	place_hold(&p);
	place_keep_off(&p, 0);
	assert_int_equal(place_move(&p, 1), 0);
	assert_int_equal(place_leave(&p, sched_getcpu()), 0);
	assert_int_equal(place_release(&p), 0);
	cpu_set_t after = now();
	assert_true(CPU_EQUAL(&after, &one));
}

static void test_three(void **state)
{
	struct place p;

	(void)state;
	if (!use_first(3))
		skip();
	place_find(&p);
	assert_false(p.two);
	place_hold(&p);
	cpu_set_t after = now();
	assert_int_equal(CPU_COUNT(&after), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_two, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_move, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_three, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
