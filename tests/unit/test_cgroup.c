/* SPDX-License-Identifier: Apache-2.0 */
/* Finding groups in samples of text, and the systemd client against servers
 * that answer well, badly, and not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
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

/* --- a server that plays systemd --- */

enum play {
	PLAY_GOOD,
	PLAY_GOOD_AFTER_SIGNALS,
	PLAY_ERROR,
	PLAY_ERROR_NO_TEXT,
	PLAY_REJECTED,
	PLAY_HANG_LOGIN,
	PLAY_HANG_REPLY,
	PLAY_CLOSE,
	PLAY_GARBAGE_LOGIN,
	PLAY_ENDLESS_LINE,
	PLAY_GARBAGE_REPLY,
	PLAY_HUGE,
	PLAY_BAD_STRING,
	PLAY_WRONG_TYPE,
	PLAY_OTHER_PATH,
	PLAY_ENDLESS_SIGNALS,
	PLAY_CUT,
};

struct message {
	uint8_t b[1024];
	size_t n;
};

static void add(struct message *m, const void *data, size_t len)
{
	assert_true(m->n + len <= sizeof m->b);
	memcpy(m->b + m->n, data, len);
	m->n += len;
}

static void pad(struct message *m, size_t to)
{
	while (m->n % to)
		add(m, "", 1);
}

static void add_u32(struct message *m, size_t v)
{
	uint32_t u = (uint32_t)v;

	pad(m, 4);
	add(m, &u, 4);
}

static void add_string(struct message *m, const char *s)
{
	add_u32(m, strlen(s));
	add(m, s, strlen(s) + 1);
}

/* A message of one string (or object path) with the usual header. */
static void make(struct message *m, unsigned type, uint32_t reply_to,
		 const char *error, const char *signature, const char *text)
{
	struct message body = { .n = 0 };
	uint8_t head[4] = { __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 'l' : 'B',
			    (uint8_t)type, 0, 1 };

	m->n = 0;
	if (*signature)
		add_string(&body, text);
	add(m, head, 4);
	add_u32(m, body.n);
	add_u32(m, 77);
	add_u32(m, 0);
	size_t start = m->n;
	if (reply_to) {
		add(m, "\5\1u", 4);
		add_u32(m, reply_to);
	}
	if (error) {
		pad(m, 8);
		add(m, "\4\1s", 4);
		add_string(m, error);
	}
	if (*signature) {
		pad(m, 8);
		add(m, "\10\1g", 4);
		add(m, "\1", 1);
		add(m, signature, 2);
	}
	uint32_t fields = (uint32_t)(m->n - start);
	memcpy(m->b + 12, &fields, 4);
	pad(m, 8);
	add(m, body.b, body.n);
}

static void put(int fd, const void *data, size_t len)
{
	if (send(fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		_exit(3);
}

static void get(int fd, void *data, size_t len)
{
	if (recv(fd, data, len, MSG_WAITALL) != (ssize_t)len)
		_exit(4);
}

/* Reads one call; its serial.  *body (512 bytes) is what it carries. */
static uint32_t get_call(int fd, char *whole, size_t cap, size_t *len)
{
	uint32_t body, serial, fields;

	get(fd, whole, 16);
	memcpy(&body, whole + 4, 4);
	memcpy(&serial, whole + 8, 4);
	memcpy(&fields, whole + 12, 4);
	*len = 16 + (fields + 7) / 8 * 8 + body;
	if (*len > cap || whole[1] != 1)
		_exit(5);
	get(fd, whole + 16, *len - 16);
	return serial;
}

static int holds(const char *data, size_t len, const char *text)
{
	return memmem(data, len, text, strlen(text)) != NULL;
}

#define JOB "/org/freedesktop/systemd1/job/4711"

static void hang(void)
{
	for (;;)
		pause();
}

static void serve_login(int fd, enum play play)
{
	char want[64] = "", got[64], hex[32] = "";
	char uid[16];
	size_t n = 1;

	snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
	for (size_t i = 0; uid[i]; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)uid[i]);
	n += (size_t)snprintf(want + 1, sizeof want - 1, "AUTH EXTERNAL %s\r\n", hex);
	get(fd, got, n);
	if (memcmp(want, got, n) != 0)
		_exit(6);
	if (play == PLAY_HANG_LOGIN)
		hang();
	if (play == PLAY_REJECTED)
		put(fd, "REJECTED ANONYMOUS\r\n", 20);
	else if (play == PLAY_GARBAGE_LOGIN)
		put(fd, "HTTP/1.1 400 Bad Request\r\n", 26);
	else if (play == PLAY_ENDLESS_LINE)
		for (;;)
			put(fd, "OK OK OK", 8);
	else
		put(fd, "OK 0123456789abcdef0123456789abcdef\r\n", 37);
	get(fd, got, 7);
	if (memcmp(got, "BEGIN\r\n", 7) != 0)
		_exit(7);
}

static void serve(int fd, bool bus, enum play play)
{
	struct message m;
	char call[1024];
	size_t len;

	alarm(20); /* never outlive a failed test */
	serve_login(fd, play);
	if (bus) {
		uint32_t serial = get_call(fd, call, sizeof call, &len);
		if (!holds(call, len, "Hello"))
			_exit(8);
		make(&m, 2, serial, NULL, "s", ":1.42");
		put(fd, m.b, m.n);
		make(&m, 4, 0, NULL, "s", "NameAcquired and so on");
		put(fd, m.b, m.n);
	}
	uint32_t serial = get_call(fd, call, sizeof call, &len);
	if (!holds(call, len, "StartTransientUnit") || !holds(call, len, "brig-x.scope") ||
	    (memmem(call, len, "org.freedesktop.systemd1", 25) != NULL) != bus ||
	    !holds(call, len, "ssa(sv)a(sa(sv))") || !holds(call, len, "Delegate") ||
	    !holds(call, len, "PIDs"))
		_exit(9);
	make(&m, 2, serial, NULL, "o", JOB);
	uint32_t big = UINT32_MAX;
	switch (play) {
	case PLAY_GOOD_AFTER_SIGNALS:
	case PLAY_ENDLESS_SIGNALS:
		for (int i = 0; i < 20 || play == PLAY_ENDLESS_SIGNALS; i++) {
			make(&m, 4, 0, NULL, "s", "JobNew");
			put(fd, m.b, m.n);
			/* an answer to a call we never made */
			make(&m, 2, 4242, NULL, "o", JOB);
			put(fd, m.b, m.n);
		}
		make(&m, 2, serial, NULL, "o", JOB);
		break;
	case PLAY_ERROR:
		make(&m, 3, serial, "org.freedesktop.systemd1.UnitExists", "s",
		     "Unit brig-x.scope was \x1b[31malready\x1b[0m loaded");
		break;
	case PLAY_ERROR_NO_TEXT:
		make(&m, 3, serial, "org.freedesktop.DBus.Error.AccessDenied", "", "");
		break;
	case PLAY_HANG_REPLY:
		hang();
		break;
	case PLAY_CLOSE:
		_exit(0);
	case PLAY_GARBAGE_REPLY:
		memset(m.b, 0xaa, sizeof m.b);
		m.n = sizeof m.b;
		break;
	case PLAY_HUGE:
		memcpy(m.b + 4, &big, 4);
		break;
	case PLAY_BAD_STRING: /* its length leads out of the body */
		memcpy(m.b + m.n - strlen(JOB) - 5, &big, 4);
		break;
	case PLAY_WRONG_TYPE:
		make(&m, 2, serial, NULL, "s", JOB);
		break;
	case PLAY_OTHER_PATH:
		make(&m, 2, serial, NULL, "o", "/org/freedesktop/other");
		break;
	case PLAY_CUT:
		m.n -= 5;
		put(fd, m.b, m.n);
		hang();
		break;
	default:
		break;
	}
	put(fd, m.b, m.n);
	/* keep the connection until the client is done with it */
	get(fd, call, 1);
	_exit(0);
}

/* One conversation; the client's result. */
static int talk(bool bus, enum play play, int timeout_ms, char *why, size_t cap)
{
	int s[2], status;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(s[0]);
		serve(s[1], bus, play);
	}
	close(s[1]);
	int r = cg_dbus_start_scope(s[0], bus, "brig-x.scope", timeout_ms, why, cap);
	close(s[0]);
	kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* 5 to 9: the server did not like what we said */
	if (WIFEXITED(status) && WEXITSTATUS(status) >= 5)
		fail_msg("play %d: the server ended with %d", (int)play,
			 WEXITSTATUS(status));
	return r;
}

static void test_dbus(void **state)
{
	static const struct {
		enum play play;
		int timeout, result;
		const char *why;
	} t[] = {
		{ PLAY_GOOD, 5000, 0, "" },
		{ PLAY_GOOD_AFTER_SIGNALS, 5000, 0, "" },
		{ PLAY_ERROR, 5000, -EREMOTEIO, "was ?[31malready?[0m loaded" },
		{ PLAY_ERROR_NO_TEXT, 5000, -EREMOTEIO, "AccessDenied" },
		{ PLAY_REJECTED, 5000, -EACCES, "does not accept uid" },
		{ PLAY_HANG_LOGIN, 150, -ETIMEDOUT, "timed out" },
		{ PLAY_HANG_REPLY, 150, -ETIMEDOUT, "timed out" },
		{ PLAY_CUT, 150, -ETIMEDOUT, "timed out" },
		{ PLAY_CLOSE, 5000, -ECONNRESET, "" },
		{ PLAY_GARBAGE_LOGIN, 5000, -EBADMSG, "" },
		{ PLAY_ENDLESS_LINE, 5000, -EBADMSG, "" },
		{ PLAY_GARBAGE_REPLY, 5000, -EBADMSG, "" },
		{ PLAY_HUGE, 5000, -EMSGSIZE, "" },
		{ PLAY_BAD_STRING, 5000, -EBADMSG, "" },
		{ PLAY_WRONG_TYPE, 5000, -EBADMSG, "" },
		{ PLAY_OTHER_PATH, 5000, -EBADMSG, "" },
		{ PLAY_ENDLESS_SIGNALS, 5000, -EMSGSIZE, "" },
	};
	(void)state;
	for (size_t i = 0; i < 2 * sizeof t / sizeof t[0]; i++) {
		char why[160];
		bool bus = i % 2;
		int r = talk(bus, t[i / 2].play, t[i / 2].timeout, why, sizeof why);
		if (r != t[i / 2].result || !strcasestr(why, t[i / 2].why))
			fail_msg("play %d, bus %d: %d %s", (int)t[i / 2].play, bus, r, why);
		if (r < 0)
			assert_true(why[0] != '\0');
	}
}

/* Replies with single bytes changed: never a crash, never a hang. */
static void test_dbus_mangled(void **state)
{
	(void)state;
	struct message good;
	static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };

	make(&good, 2, 2, NULL, "o", JOB);
	for (size_t i = 0; i < good.n; i++)
		for (size_t v = 0; v < sizeof values; v++) {
			struct message m = good;
			char why[160];
			int s[2];
			m.b[i] = values[v];
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC,
						    0, s), 0);
			put(s[1], "OK 0\r\n", 6);
			put(s[1], m.b, m.n);
			shutdown(s[1], SHUT_WR);
			int r = cg_dbus_start_scope(s[0], false, "brig-x.scope", 1000,
						    why, sizeof why);
			assert_true(r <= 0 && r != -ETIMEDOUT);
			close(s[0]);
			close(s[1]);
		}
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
		cmocka_unit_test(test_dbus),
		cmocka_unit_test(test_dbus_mangled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
