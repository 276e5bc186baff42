/* SPDX-License-Identifier: Apache-2.0 */
/* Records between brig's processes: what arrives, also from one that has died. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/wire.h"

static int ours = -1, theirs = -1;

static int set_up(void **state)
{
	int sv[2], on = 1;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	ours = sv[0];
	theirs = sv[1];
	assert_int_equal(setsockopt(ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(ours);
	if (theirs >= 0)
		close(theirs);
	return 0;
}

static void hang_up(void)
{
	close(theirs);
	theirs = -1;
}

static void say(uint32_t type, const int *fds, size_t n)
{
	struct wire w = { .type = type, .errnum = 7 };

	strcpy(w.what, "why");
	assert_int_equal(wire_send(theirs, &w, fds, n), 0);
}

static void a_record_says_who_sent_it(void **state)
{
	struct wire_in in;

	(void)state;
	assert_int_equal(wire_recv(ours, &in), -EAGAIN);
	say(WIRE_FAIL, NULL, 0);
	assert_int_equal(wire_recv(ours, &in), 1);
	assert_int_equal(in.w.type, WIRE_FAIL);
	assert_int_equal(in.w.errnum, 7);
	assert_string_equal(in.w.what, "why");
	assert_int_equal(in.msg.from, getpid());
	assert_int_equal(msg_fd(&in.msg), -1);
	assert_int_equal(wire_recv(ours, &in), -EAGAIN);
	hang_up();
	assert_int_equal(wire_recv(ours, &in), 0);
}

/* The last word of one that died with something of ours unread is not lost. */
static void the_reason_survives_a_reset(void **state)
{
	const struct wire unread = { .type = WIRE_MAPPED };
	struct wire_in in;

	(void)state;
	assert_int_equal(wire_send(ours, &unread, NULL, 0), 0);
	say(WIRE_FAIL, NULL, 0);
	hang_up();
	assert_int_equal(wire_recv(ours, &in), 1);
	assert_int_equal(in.w.type, WIRE_FAIL);
	assert_int_equal(wire_recv(ours, &in), 0);
}

static void descriptors_are_taken_or_closed(void **state)
{
	struct wire_in in;
	int fds[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int next = dup(0); /* the lowest number that is free */
	close(next);
	say(WIRE_NET, fds, 3);
	assert_int_equal(wire_recv(ours, &in), 1);
	assert_int_equal(in.msg.n_fds, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fcntl(in.msg.fds[i], F_GETFD), FD_CLOEXEC);
	int one = msg_fd(&in.msg);
	assert_int_equal(one, next);
	close(one);
	/* something that is no record, with a descriptor: nothing stays open */
	char small = 'x';
	struct iovec iov = { &small, 1 };
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof(int))];
	} c = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.space,
			    .msg_controllen = sizeof c.space };
	c.h.cmsg_level = SOL_SOCKET;
	c.h.cmsg_type = SCM_RIGHTS;
	c.h.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&c.h), &fds[0], sizeof(int));
	assert_int_equal(sendmsg(theirs, &m, MSG_NOSIGNAL), 1);
	assert_int_equal(wire_recv(ours, &in), 0);
	assert_int_equal(in.msg.n_fds, 0);
	int now = dup(0);
	assert_int_equal(now, next);
	close(now);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

/* The one who waits takes what it waits for, whole, or nothing. */
static void a_wait_is_for_all_of_it(void **state)
{
	const struct wire plan = { .type = WIRE_MAPPED };
	const struct wire go = { .type = WIRE_GO };
	const int fds[2] = { 0, 1 };
	struct rlimit old, none;
	struct wire_in in;

	(void)state;
	assert_int_equal(wire_send(ours, &plan, fds, 2), 0);
	assert_int_equal(wire_wait(theirs, WIRE_MAPPED, &in), 0);
	assert_int_equal(in.msg.n_fds, 2);
	int first = in.msg.fds[0], second = in.msg.fds[1];
	assert_int_equal(fcntl(second, F_GETFD), FD_CLOEXEC);
	close(second);
	/* room for one of the two */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = (rlim_t)second + 1;
	assert_int_equal(wire_send(ours, &plan, fds, 2), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int r = wire_wait(theirs, WIRE_MAPPED, &in);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -EMFILE);
	for (size_t i = 0; i < in.msg.n_fds; i++)
		close(in.msg.fds[i]);
	close(first);
	/* another record, and the end */
	assert_int_equal(wire_send(ours, &go, NULL, 0), 0);
	assert_int_equal(wire_wait(theirs, WIRE_MAPPED, &in), -EPROTO);
	close(ours);
	ours = -1;
	assert_int_equal(wire_wait(theirs, WIRE_MAPPED, &in), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_record_says_who_sent_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_reason_survives_a_reset, set_up, tear_down),
		cmocka_unit_test_setup_teardown(descriptors_are_taken_or_closed, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_wait_is_for_all_of_it, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
