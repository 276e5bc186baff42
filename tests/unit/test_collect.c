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
#include <unistd.h>

#include "engine/collect.h"

static bool ended(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && (p.revents & POLLHUP);
}

/* What is held does not end before the holder is closed, and does then, though
 * nobody has closed it. */
static void test_held_until_closed(void **state)
{
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	const int writer = p[1];
	int held[2] = { writer, -1 };
	collect_later(held);
	assert_int_not_equal(held[0], writer);
	assert_int_equal(fcntl(writer, F_GETFD), -1);
	assert_int_equal(fcntl(held[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(held[1], F_GETFD), FD_CLOEXEC);
	assert_false(ended(p[0], 50));
	collect_now(held);
	assert_int_equal(held[0], -1);
	assert_int_equal(held[1], -1);
	assert_true(ended(p[0], 5000));
	close(p[0]);
}

static void test_none(void **state)
{
	int held[2] = { -1, -1 };

	(void)state;
	collect_later(held);
	assert_int_equal(held[0], -1);
	assert_int_equal(held[1], -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_held_until_closed),
		cmocka_unit_test(test_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
