/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor that ends after its holder does, and not in the holder's close(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/collect.h"

static bool ended(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && (p.revents & POLLHUP);
}

/* A pipe, whose writing end is what is held. */
static void hold(struct collect *c, int p[2])
{
	*c = COLLECT_NONE;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	c->held[0] = p[1];
}

/* What is held does not end before the holder is closed, and does then, though
 * nobody has closed it. */
static void test_held_until_closed(void **state)
{
	struct collect c;
	int p[2];

	(void)state;
	hold(&c, p);
	collect_later(&c);
	assert_int_equal(c.held[0], -1);
	assert_int_equal(fcntl(p[1], F_GETFD), -1);
	assert_int_equal(fcntl(c.circle[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(c.circle[1], F_GETFD), FD_CLOEXEC);
	assert_false(ended(p[0], 50));
	collect_now(&c);
	assert_int_equal(c.circle[0], -1);
	assert_int_equal(c.circle[1], -1);
	assert_true(ended(p[0], 5000));
	close(p[0]);
}

/* Each of them, however many there are; one too many ends at once, and none is no place. */
static void test_all(void **state)
{
	(void)state;
	for (int n = 1; n <= COLLECT_MAX + 1; n++) {
		struct collect c = COLLECT_NONE;
		int p[COLLECT_MAX + 1][2];

		for (int i = 0; i < n; i++) {
			assert_int_equal(pipe2(p[i], O_CLOEXEC), 0);
			collect_hold(&c, -1);
			collect_hold(&c, p[i][1]);
		}
		for (int i = 0; i < n; i++)
			assert_int_equal(ended(p[i][0], 0), i == COLLECT_MAX);
		collect_later(&c);
		for (int i = 0; i < n; i++)
			assert_int_equal(ended(p[i][0], 20), i == COLLECT_MAX);
		for (int i = 0; i < COLLECT_MAX; i++)
			assert_int_equal(c.held[i], -1);
		collect_now(&c);
		for (int i = 0; i < n; i++) {
			assert_true(ended(p[i][0], 5000));
			close(p[i][0]);
		}
	}
}

/* At the end, if nobody had a moment before. */
static void test_only_at_the_end(void **state)
{
	struct collect c;
	int p[2];

	(void)state;
	hold(&c, p);
	assert_false(ended(p[0], 20));
	collect_now(&c);
	assert_int_equal(c.held[0], -1);
	assert_int_equal(c.circle[0], -1);
	assert_true(ended(p[0], 5000));
	close(p[0]);
}

/* Twice is once. */
static void test_twice(void **state)
{
	struct collect c;
	int p[2];

	(void)state;
	hold(&c, p);
	collect_later(&c);
	const int first = c.circle[0], second = c.circle[1];
	collect_later(&c);
	assert_int_equal(c.circle[0], first);
	assert_int_equal(c.circle[1], second);
	collect_now(&c);
	assert_int_equal(fcntl(first, F_GETFD), -1);
	assert_int_equal(fcntl(second, F_GETFD), -1);
	assert_true(ended(p[0], 5000));
	close(p[0]);
}

/* Without the sockets they are closed as they are. */
static void test_no_sockets(void **state)
{
	struct rlimit old, few;
	struct collect c;
	int p[2];

	(void)state;
	hold(&c, p);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = (struct rlimit){ (rlim_t)p[1] + 1, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	collect_later(&c);
	assert_int_equal(c.held[0], p[1]);
	assert_int_equal(c.circle[0], -1);
	assert_false(ended(p[0], 20));
	collect_now(&c);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(c.held[0], -1);
	assert_true(ended(p[0], 0));
	close(p[0]);
}

static void test_none(void **state)
{
	struct collect c = COLLECT_NONE;

	(void)state;
	collect_later(&c);
	assert_int_equal(c.circle[0], -1);
	assert_int_equal(c.circle[1], -1);
	collect_now(&c);
}

/* What could be closed stays open until there is time, where there is room for it: not in a
 * table that would have to grow, and not without end. */
static void test_idle(void **state)
{
	struct collect c = COLLECT_NONE;
	int p[2];

	(void)state;
	collect_idle(&c, -1);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	collect_idle(&c, p[1]); /* nobody said that there is room */
	assert_true(ended(p[0], 0));
	close(p[0]);
	collect_idle(NULL, dup(0));
	c.room = true;
	int kept[COLLECT_IDLE + 2];
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
		kept[i] = dup(0);
		assert_true(kept[i] >= 0);
		collect_idle(&c, kept[i]);
		assert_int_equal(fcntl(kept[i], F_GETFD) >= 0,
				 i < COLLECT_IDLE && kept[i] < COLLECT_BELOW);
	}
	assert_true(c.n_idle > 0 && c.n_idle <= COLLECT_IDLE);
	int high = fcntl(0, F_DUPFD, COLLECT_BELOW);
	assert_true(high >= COLLECT_BELOW);
	collect_idle(&c, high);
	assert_int_equal(fcntl(high, F_GETFD), -1);
	collect_ahead(&c);
	assert_int_equal(c.n_idle, 0);
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		assert_true(fcntl(kept[i], F_GETFD) < 0 || kept[i] == c.pair[0] ||
			    kept[i] == c.pair[1]);
	/* and without that, at the end */
	kept[0] = dup(0);
	collect_idle(&c, kept[0]);
	assert_int_equal(c.n_idle, 1);
	collect_now(&c);
	assert_int_equal(fcntl(kept[0], F_GETFD), -1);
	assert_int_equal(c.n_idle, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held_until_closed),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_only_at_the_end),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_no_sockets),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_idle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
