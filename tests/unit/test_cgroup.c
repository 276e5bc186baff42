/* SPDX-License-Identifier: Apache-2.0 */
/* Finding groups in samples of text; what groups count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "confine/cgroup_internal.h"

/* --- finding our group --- */

#define SCOPE "/user.slice/user-1000.slice/session-2.scope"
#define V1_SYSTEMD                                                             \
	"25 30 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"              \
	"31 25 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro\n"    \
	"32 31 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 "  \
	"rw,nsdelegate\n"                                                      \
	"35 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup " \
	"rw,cpu,cpuacct\n"                                                     \
	"36 31 0:32 / /sys/fs/cgroup/cpuset rw shared:16 - cgroup cgroup rw,cpuset\n" \
	"37 31 0:33 / /sys/fs/cgroup/memory rw shared:17 - cgroup cgroup rw,memory\n"
#define V1_GROUPS                                                              \
	"5:memory:" SCOPE "\n4:cpuset:/\n3:cpu,cpuacct:/user.slice\n"          \
	"1:name=systemd:" SCOPE "\n0::" SCOPE "\n"

static const struct {
	const char *what, *mountinfo, *groups, *controller;
	int result;
	const char *dir, *group;
} samples[] = {
	{ "plain v2", "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 "
		      "rw,nsdelegate\n", "0::" SCOPE "\n", NULL, 0,
	  "/sys/fs/cgroup" SCOPE, SCOPE },
	{ "v2, in the root", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n",
	  "0::/\n", NULL, 0, "/sys/fs/cgroup", "/" },
	{ "v2 has no v1 memory", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n",
	  "0::/\n", "memory", -ENOENT, NULL, NULL },
	{ "hybrid, memory", V1_SYSTEMD, V1_GROUPS, "memory", 0,
	  "/sys/fs/cgroup/memory" SCOPE, SCOPE },
	{ "hybrid, cpu mounted with cpuacct", V1_SYSTEMD, V1_GROUPS, "cpu", 0,
	  "/sys/fs/cgroup/cpu,cpuacct/user.slice", "/user.slice" },
	{ "hybrid, cpu is not cpuset", V1_SYSTEMD, "4:cpuset:/x\n", "cpu", -ENOENT,
	  NULL, NULL },
	{ "hybrid, v2 part", V1_SYSTEMD, V1_GROUPS, NULL, 0,
	  "/sys/fs/cgroup/unified" SCOPE, SCOPE },
	{ "hybrid, pids is not mounted", V1_SYSTEMD, "9:pids:/\n", "pids", -ENOENT,
	  NULL, NULL },
	{ "container without a cgroup namespace: the mount begins at our group",
	  "700 650 0:33 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:17 - "
	  "cgroup cgroup rw,memory\n", "5:memory:/docker/abc\n", "memory", 0,
	  "/sys/fs/cgroup/memory", "/docker/abc" },
	{ "the same, in a group below",
	  "700 650 0:33 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
	  "5:memory:/docker/abc/sub/x\n", "memory", 0, "/sys/fs/cgroup/memory/sub/x",
	  "/docker/abc/sub/x" },
	{ "a neighbour whose name only begins alike",
	  "700 650 0:33 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
	  "5:memory:/docker/abcd\n", "memory", -EXDEV, NULL, NULL },
	{ "container: the host's path, somebody else's mount",
	  "700 650 0:33 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
	  "0::/system.slice/x\n", NULL, -EXDEV, NULL, NULL },
	{ "outside our cgroup namespace",
	  "700 650 0:33 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/../other\n",
	  NULL, -EXDEV, NULL, NULL },
	{ "outside, the mount too",
	  "700 650 0:33 /.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/..\n", NULL,
	  -EXDEV, NULL, NULL },
	{ "dots that are only a name",
	  "700 650 0:33 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/a..b/..c\n",
	  NULL, 0, "/sys/fs/cgroup/a..b/..c", "/a..b/..c" },
	{ "escapes in the mount point",
	  "700 650 0:33 / /mnt/my\\040cg\\134x rw - cgroup2 cgroup rw\n", "0::/a b\n",
	  NULL, 0, "/mnt/my cg\\x/a b", "/a b" },
	{ "escapes in the mount's root",
	  "700 650 0:33 /a\\040b /mnt rw - cgroup2 cgroup rw\n", "0::/a b/c\n", NULL, 0,
	  "/mnt/c", "/a b/c" },
	{ "a backslash that escapes nothing",
	  "700 650 0:33 / /mnt\\9 rw - cgroup2 cgroup rw\n", "0::/\n", NULL, 0,
	  "/mnt\\9", "/" },
	{ "an escaped NUL is nobody's path",
	  "700 650 0:33 / /mnt\\000 rw - cgroup2 cgroup rw\n", "0::/\n", NULL,
	  -ENAMETOOLONG, NULL, NULL },
	{ "the writable one of two mounts",
	  "1 2 0:33 / /ro ro - cgroup2 c rw\n3 2 0:33 / /rw rw - cgroup2 c rw\n"
	  "4 2 0:33 / /ro2 ro - cgroup2 c rw\n", "0::/x\n", NULL, 0, "/rw/x", "/x" },
	{ "a bind of part of it, then all of it",
	  "1 2 0:33 /y /y rw - cgroup2 c rw\n3 2 0:33 / /all rw - cgroup2 c rw\n",
	  "0::/x\n", NULL, 0, "/all/x", "/x" },
	{ "many optional fields",
	  "1 2 0:33 / /cg rw shared:1 master:2 propagate_from:3 unbindable - cgroup2 c rw\n",
	  "0::/x\n", NULL, 0, "/cg/x", "/x" },
	{ "colons in the path", "1 2 0:33 / /cg rw - cgroup2 c rw\n", "0::/a:b:c\n", NULL,
	  0, "/cg/a:b:c", "/a:b:c" },
	{ "no newline at the end", "1 2 0:33 / /cg rw - cgroup2 c rw", "0::/x", NULL, 0,
	  "/cg/x", "/x" },
	{ "a file system that calls itself memory",
	  "1 2 0:33 / /t rw - tmpfs tmpfs rw,memory\n", "5:memory:/\n", "memory", -ENOENT,
	  NULL, NULL },
	{ "a named hierarchy is no controller",
	  "1 2 0:33 / /t rw - cgroup cgroup rw,name=memory\n", "5:name=memory:/\n",
	  "memory", -ENOENT, NULL, NULL },
	{ "nothing", "", "", NULL, -ENOENT, NULL, NULL },
	{ "cut lines", "1 2 0:33 / /cg rw\n1 2\n\n- \n1 2 3 / / / -\n1 2 3 / / / - cgroup2\n",
	  "0\n0:\n0::\n0::x\n\n:::\n0::/\n", NULL, -ENOENT, NULL, NULL },
	{ "only the type is left", "1 2 3 / /cg rw - cgroup2 c\n", "0::/\n", NULL, 0,
	  "/cg", "/" },
	{ "a relative mount point", "1 2 3 / cg rw - cgroup2 c rw\n", "0::/\n", NULL,
	  -ENOENT, NULL, NULL },
};

static void test_samples(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
		struct cg_place p;
		int r = cg_place_find(samples[i].mountinfo, samples[i].groups,
				      samples[i].controller, &p);
		if (r != samples[i].result)
			fail_msg("%s: %d", samples[i].what, r);
		if (r < 0)
			continue;
		if (strcmp(p.dir, samples[i].dir) || strcmp(p.group, samples[i].group))
			fail_msg("%s: %s %s", samples[i].what, p.dir, p.group);
	}
}

static void test_too_long(void **state)
{
	(void)state;
	struct cg_place p;
	static char groups[PATH_MAX + 64], mounts[PATH_MAX * 2];

	memset(groups, 'x', sizeof groups - 1);
	memcpy(groups, "0::/", 4);
	assert_int_equal(cg_place_find("1 2 0:33 / /cg rw - cgroup2 c rw\n", groups,
				       NULL, &p), -ENAMETOOLONG);
	int n = snprintf(mounts, sizeof mounts, "1 2 0:33 / /%0*d rw - cgroup2 c rw\n",
			 PATH_MAX, 0);
	assert_true(n > PATH_MAX);
	assert_int_equal(cg_place_find(mounts, "0::/x\n", NULL, &p), -ENAMETOOLONG);
}

static void test_up(void **state)
{
	(void)state;
	struct cg_place p = { .dir = "/cg/a/b", .group = "/docker/a/b", .top = 3 };

	assert_true(cg_place_up(&p));
	assert_string_equal(p.dir, "/cg/a");
	assert_string_equal(p.group, "/docker/a");
	assert_true(cg_place_up(&p));
	assert_string_equal(p.dir, "/cg");
	assert_string_equal(p.group, "/docker");
	assert_false(cg_place_up(&p));

	p = (struct cg_place){ .dir = "/cg/a", .group = "/a", .top = 3 };
	assert_true(cg_place_up(&p));
	assert_string_equal(p.group, "/");
	assert_false(cg_place_up(&p));
}

static void test_words(void **state)
{
	(void)state;
	assert_int_equal(cg_bits_parse("cpuset cpu io memory hugetlb pids rdma\n"),
			 CG_MEMORY | CG_PIDS | CG_CPU);
	assert_int_equal(cg_bits_parse("cpuset cpuacct memory2\n"), 0);
	assert_int_equal(cg_bits_parse(""), 0);
	assert_int_equal(cg_bits_parse("pids"), CG_PIDS);

	const char *events = "low 0\noom 3\noom_kill 2\noom_group_kill 1\n";
	assert_int_equal(cg_key_value(events, "oom_kill"), 2);
	assert_int_equal(cg_key_value(events, "oom"), 3);
	assert_int_equal(cg_key_value(events, "kill"), 0);
	assert_int_equal(cg_key_value("", "oom"), 0);
	assert_int_equal(cg_key_value("oom", "oom"), 0);

	assert_true(cg_id_ok("0aZ._-"));
	assert_false(cg_id_ok(""));
	assert_false(cg_id_ok("a/b"));
	assert_false(cg_id_ok("a b"));
	assert_false(cg_id_ok("0123456789012345678901234567890123456789"
			      "01234567890123456789012345"));
}

static void test_why(void **state)
{
	(void)state;
	static struct cgroup cg;
	char out[80];

	cgroup_init(&cg);
	assert_string_equal(cgroup_why(&cg, CG_ALL, out, sizeof out), "no control group is usable");
	assert_string_equal(cgroup_fix(&cg, CG_ALL), "brig doctor shows what is missing");
	cg_why_add(&cg, CG_ALL, "one");
	cg_why_add(&cg, CG_CPU, "two %d", 2);
	cg_why_add(&cg, CG_MEMORY, "three");
	/* each limit has the reasons that are about it */
	assert_string_equal(cgroup_why(&cg, CG_CPU, out, sizeof out), "one; two 2");
	assert_string_equal(cgroup_why(&cg, CG_MEMORY, out, sizeof out), "one; three");
	assert_string_equal(cgroup_why(&cg, CG_PIDS, out, sizeof out), "one");
	assert_string_equal(cgroup_why(&cg, CG_ALL, out, sizeof out), "one; two 2; three");
	for (int i = 0; i < 100; i++)
		cg_why_add(&cg, CG_ALL, "a reason that goes on and on and on");
	assert_int_equal(strlen(cgroup_why(&cg, CG_ALL, out, sizeof out)), sizeof out - 1);
	cg_fix_set(&cg, CG_CPU, "first");
	cg_fix_set(&cg, CG_ALL, "second");
	cg_fix_set(&cg, CG_MEMORY, "third");
	assert_string_equal(cgroup_fix(&cg, CG_CPU), "first");
	assert_string_equal(cgroup_fix(&cg, CG_MEMORY), "second");
	for (int i = 0; i < 100; i++)
		cg_fix_set(&cg, CG_ALL, "more");
	assert_int_equal(cg.n_fix, 2);
	assert_false(cgroup_holds(&cg, getpid()));
	cgroup_remove(&cg);
	cgroup_kill(&cg);
}

static void test_bad_id(void **state)
{
	(void)state;
	static struct cgroup cg;
	struct brig_error err;
	const struct cgroup_want want = { .pids = 1 };

	cgroup_init(&cg);
	assert_int_equal(cgroup_prepare(&cg, &want, "../x", &err), -EINVAL);
	assert_int_equal(cg.n_dirs, 0);
}

/* --- what the groups counted --- */

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[200];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void drop_file(const char *dir, const char *name)
{
	char path[200];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	assert_int_equal(unlink(path), 0);
}

static void test_usage(void **state)
{
	(void)state;
	char dir[] = "/tmp/brig-usage-XXXXXX";
	struct cgroup *cg = calloc(1, sizeof *cg);
	struct cgroup_usage u;

	assert_non_null(cg);
	assert_non_null(mkdtemp(dir));
	for (int version = 1; version <= 2; version++) {
		const char *name = version == 2 ? "cpu.stat" : "cpuacct.usage";
		cgroup_init(cg);
		cg->version = version;
		cg->dirs[0] = dir;
		cg->bits[0] = CG_CPU;
		cg->n_dirs = 1;
		put_file(dir, name, version == 2 ? "usage_usec 1234567\nuser_usec 1\n" :
						   "1234567890\n");
		cgroup_read_usage(cg, &u);
		drop_file(dir, name);
		assert_int_equal(u.cpu_us, 1234567);
		assert_int_equal(u.memory_peak, 0);
		cgroup_close(cg);
	}
	assert_int_equal(rmdir(dir), 0);
	free(cg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_usage),
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_up),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_why),
		cmocka_unit_test(test_bad_id),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
