/* SPDX-License-Identifier: Apache-2.0 */
/* What is read about a process is what the process knows about itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "confine/evidence.h"

static struct evidence read_self(void)
{
	struct evidence ev = { 0 };
	struct brig_error err = { 0 };
	int pidfd = sys_pidfd_open(getpid());

	evidence_read_own(&ev);
	assert_int_equal(evidence_read(&ev, getpid(), pidfd, NULL, &err), 0);
	close(pidfd);
	return ev;
}

static void test_status(void **state)
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct caps[2];
	struct evidence ev = read_self();

	(void)state;
	assert_int_equal(syscall(SYS_capget, &hdr, caps), 0);
	assert_true(ev.cap_eff == ((uint64_t)caps[1].effective << 32 | caps[0].effective));
	assert_true(ev.cap_prm == ((uint64_t)caps[1].permitted << 32 | caps[0].permitted));
	assert_true(ev.cap_inh == ((uint64_t)caps[1].inheritable << 32 | caps[0].inheritable));
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		assert_int_equal(ev.cap_bnd >> cap & 1,
				 prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1);
	assert_true(ev.uid_host == getuid());
	assert_int_equal(ev.seccomp, prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
	assert_int_equal(ev.seccomp_filters, ev.seccomp_filters_own);
	assert_int_equal(ev.no_new_privs, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ev = read_self();
	assert_int_equal(ev.no_new_privs, 1);
}

/* Ourselves: no layer can be had from that. */
static void test_namespaces(void **state)
{
	struct evidence ev = read_self();
	struct stat st;

	(void)state;
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	assert_true(ev.ns[LAYER_NET] == st.st_ino);
	for (int i = 0; i < EV_NS_COUNT; i++) {
		assert_true(ev.ns[i] != 0);
		assert_true(ev.ns[i] == ev.ns_host[i]);
	}
	assert_false(ev.root_ok);
	assert_int_equal(evidence_layers(&ev) &
				 (LAYER_BIT(LAYER_USER) | LAYER_BIT(LAYER_MOUNT) |
				  LAYER_BIT(LAYER_NET) | LAYER_BIT(LAYER_SECCOMP)), 0);
}

static void test_nobody(void **state)
{
	struct evidence ev = { 0 };
	struct brig_error err = { 0 };

	(void)state;
	assert_true(evidence_read(&ev, 0x3ffffff, -1, NULL, &err) < 0);
	assert_int_equal(err.code, BRIG_E_SETUP_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
