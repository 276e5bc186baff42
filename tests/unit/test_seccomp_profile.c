/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of profiles, with good and bad ones, and with the one of the container engines,
 * from which brig's own filter starts. */
#include "seccomp_ask.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char docker_like[] =
	"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":1,\"archMap\":["
	"{\"architecture\":\"SCMP_ARCH_X86_64\",\"subArchitectures\":"
	"[\"SCMP_ARCH_X86\",\"SCMP_ARCH_X32\"]},"
	"{\"architecture\":\"SCMP_ARCH_S390X\",\"subArchitectures\":null}],"
	"\"syscalls\":["
	"{\"names\":[\"read\",\"write\",\"_llseek\",\"chown32\",\"socketcall\",\"recv\"],"
	"\"action\":\"SCMP_ACT_ALLOW\",\"args\":null,\"comment\":\"\",\"includes\":{},"
	"\"excludes\":{}},"
	"{\"names\":[\"ptrace\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"4.8\"}},"
	"{\"names\":[\"kcmp\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"99.0\"}},"
	"{\"names\":[\"mount\",\"clone\"],\"action\":\"SCMP_ACT_ALLOW\","
	"\"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}},"
	"{\"names\":[\"clone\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,"
	"\"value\":2114060288,\"valueTwo\":0,\"op\":\"SCMP_CMP_MASKED_EQ\"}],"
	"\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"],\"arches\":[\"s390\",\"s390x\"]}},"
	"{\"names\":[\"clone3\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":38,"
	"\"errno\":\"ENOSYS\","
	"\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}},"
	"{\"names\":[\"swapcontext\",\"sync\"],\"action\":\"SCMP_ACT_ALLOW\","
	"\"includes\":{\"arches\":[\"ppc64le\"]}},"
	"{\"names\":[\"fsync\"],\"action\":\"SCMP_ACT_ALLOW\","
	"\"includes\":{\"arches\":[\"amd64\",\"arm64\"]}},"
	"{\"names\":[\"fdatasync\"],\"action\":\"SCMP_ACT_ALLOW\","
	"\"excludes\":{\"arches\":[\"amd64\",\"arm64\"]}},"
	"{\"names\":[\"personality\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":0,\"op\":\"SCMP_CMP_EQ\"}]},"
	"{\"names\":[\"personality\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":4294967295,\"op\":\"SCMP_CMP_EQ\"}]},"
	"{\"names\":[\"socket\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
	"{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"},{\"index\":0,\"value\":40,\"op\":\"SCMP_CMP_GT\"}]},"
	"{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":["
	"{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_LE\"},{\"index\":1,\"value\":21505,\"op\":\"SCMP_CMP_EQ\"}]},"
	"{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_TRAP\",\"args\":[{\"index\":0,\"value\":3,\"op\":\"SCMP_CMP_EQ\"}]},"
	"{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_ALLOW\"},"
	"{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_KILL_PROCESS\"},"
	"{\"names\":[\"getcpu\"],\"action\":\"SCMP_ACT_ERRNO\",\"errno\":\"EWOULDBLOCK\"},"
	"{\"name\":\"close\",\"action\":\"SCMP_ACT_LOG\"},"
	"{\"names\":[\"bpf\"],\"action\":\"SCMP_ACT_KILL\"}]}";

static void profile_answers(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		uint64_t args[3];
		uint32_t want;
	} t[] = {
		{ "read", { 0 }, ALLOW },
		{ "open_by_handle_at", { 0 }, ERR(EPERM) },
		{ "ptrace", { 0 }, ALLOW },
		{ "kcmp", { 0 }, ERR(EPERM) },
		{ "mount", { 0 }, ERR(EPERM) },
		{ "clone", { 17 }, ALLOW },
		{ "clone", { 0x10000011 }, ERR(EPERM) },
		{ "clone3", { 0 }, ERR(ENOSYS) },
		{ "sync", { 0 }, ERR(EPERM) },
		{ "fsync", { 0 }, ALLOW },
		{ "fdatasync", { 0 }, ERR(EPERM) },
		{ "personality", { 0 }, ALLOW },
		{ "personality", { 0xffffffff }, ALLOW },
		{ "personality", { UINT64_MAX }, ERR(EPERM) }, /* 64 bits */
		{ "socket", { 1 }, ALLOW },
		{ "socket", { 41 }, ALLOW },
		{ "socket", { 2 }, ERR(EPERM) },
		{ "ioctl", { 1, 21505 }, ALLOW },
		{ "ioctl", { 2, 21505 }, ERR(EPERM) },
		{ "ioctl", { 1, HIGH | 21505 }, ERR(EPERM) },
		{ "dup", { 3 }, ALLOW }, /* unconditional wins, first stays */
		{ "getcpu", { 0 }, ERR(EAGAIN) },
		{ "close", { 0 }, SECCOMP_RET_LOG },
		{ "bpf", { 0 }, SECCOMP_RET_KILL_THREAD },
	};
	struct seccomp_prog *p = NULL;
	struct brig_error err = { 0 };

	if (seccomp_profile_compile(docker_like, sizeof docker_like - 1, "d.json",
				    &p, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(p->notify);
	assert_true(bpf_sim_valid(p->insns, p->len));
	for (size_t i = 0; i < COUNT(t); i++) {
		uint64_t args[6] = { t[i].args[0], t[i].args[1], t[i].args[2] };
		uint32_t got = ask(p, native(), seccomp_call_number(t[i].name),
				   args);
		if (got != t[i].want)
			fail_msg("%s (%zu): %#x, not %#x", t[i].name, i, got,
				 t[i].want);
	}
	assert_int_equal(ask(p, native(), 4000, NULL), ERR(ENOSYS));
	assert_int_equal(ask(p, native(), -1, NULL), ERR(ENOSYS));
	assert_int_equal(ask(p, FOREIGN, 3, NULL), ERR(ENOSYS));
	seccomp_prog_free(p);
	seccomp_prog_free(NULL);

	/* Allow by default is what it says, foreign calls excepted. */
	static const char open[] = "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}";
	assert_int_equal(seccomp_profile_compile(open, sizeof open - 1, "o", &p,
						 &err), 0);
	assert_int_equal(ask(p, native(), 1, NULL), ALLOW);
	assert_int_equal(ask(p, native(), 4000, NULL), ALLOW);
	assert_int_equal(ask(p, native(), 0x40000001, NULL), ERR(ENOSYS));
	assert_int_equal(ask(p, FOREIGN, 1, NULL), ERR(ENOSYS));
	seccomp_prog_free(p);
}

#define HEAD "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":["
#define GOOD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\"}"
#define ARG(s) HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[" s "]}]}"

static void profile_errors(void **state)
{
	(void)state;
	static const struct {
		const char *json, *says;
	} t[] = {
		{ "", "line" },
		{ "{", "line" },
		{ "[]", "not an object" },
		{ "null", "line" },
		{ "{}", "defaultAction" },
		{ "{\"defaultAction\":1}", "defaultAction" },
		{ "{\"defaultAction\":\"ALLOW\"}", "unknown action \"ALLOW\"" },
		{ "{\"defaultAction\":\"SCMP_ACT_TRACE\"}", "tracer" },
		{ "{\"defaultAction\":\"SCMP_ACT_NOTIFY\"}", "listener" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\"} x", "line" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultAction\":"
		  "\"SCMP_ACT_ERRNO\"}", "duplicate" },
		{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":4096}",
		  "4095" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"listenerPath\":\"/x\"}",
		  "unknown key \"listenerPath\"" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":{}}",
		  "not an array" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":[\"x\"]}",
		  "SCMP_ARCH_" },
		{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":"
		  "[\"SCMP_ARCH_X86\"],\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86\"}]}",
		  "not both" },
		{ HEAD "1]}", "syscalls[0]" },
		{ HEAD GOOD ",{\"names\":[\"raed\"],\"action\":\"SCMP_ACT_ALLOW\"}]}",
		  "syscalls[1]: there is no system call \"raed\"" },
		{ HEAD "{\"names\":[\"raed\"],\"action\":\"SCMP_ACT_ALLOW\","
		  "\"includes\":{\"caps\":[\"CAP_BPF\"]}}]}", "raed" },
		{ HEAD "{\"names\":[\"re\\u001b\\nd\"],\"action\":\"SCMP_ACT_ALLOW\"}]}",
		  "\"re??d\"" },
		{ HEAD "{\"names\":[],\"action\":\"SCMP_ACT_ALLOW\"}]}", "empty" },
		{ HEAD "{\"names\":[1],\"action\":\"SCMP_ACT_ALLOW\"}]}",
		  "not a string" },
		{ HEAD "{\"names\":\"read\",\"action\":\"SCMP_ACT_ALLOW\"}]}",
		  "not an array" },
		{ HEAD "{\"action\":\"SCMP_ACT_ALLOW\"}]}", "either" },
		{ HEAD "{\"name\":\"read\",\"names\":[\"read\"],\"action\":"
		  "\"SCMP_ACT_ALLOW\"}]}", "either" },
		{ HEAD "{\"names\":[\"read\"]}]}", "\"action\" is missing" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\","
		  "\"argz\":[]}]}", "unknown key \"argz\"" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\","
		  "\"includes\":{\"cap\":[]}}]}", "unknown key \"cap\"" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\","
		  "\"includes\":{\"minKernel\":\"4.8.1\"}}]}", "minKernel" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\","
		  "\"errnoRet\":-1}]}", "errnoRet" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\","
		  "\"errno\":\"EPREM\"}]}", "unknown error \"EPREM\"" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\","
		  "\"errno\":13}]}", "\"errno\" is not a string" },
		{ HEAD "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ERRNO\","
		  "\"errnoRet\":1,\"errno\":\"EACCES\"}]}",
		  "\"errnoRet\" is 1, but \"errno\" says EACCES, which is 13" },
		{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrno\":\"\"}",
		  "unknown error \"\"" },
		{ ARG("1"), "not an object" },
		{ ARG("{\"index\":6,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}"), "index" },
		{ ARG("{\"value\":1,\"op\":\"SCMP_CMP_EQ\"}"), "without \"index\"" },
		{ ARG("{\"index\":0,\"value\":-1,\"op\":\"SCMP_CMP_EQ\"}"), "value" },
		{ ARG("{\"index\":0,\"value\":1.5,\"op\":\"SCMP_CMP_EQ\"}"), "value" },
		{ ARG("{\"index\":0,\"value\":1}"), "without \"op\"" },
		{ ARG("{\"index\":0,\"value\":1,\"op\":\"EQ\"}"), "\"EQ\"" },
		{ HEAD "{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":"
		  "[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]},"
		  "{\"names\":[\"dup\"],\"action\":\"SCMP_ACT_TRAP\",\"args\":"
		  "[{\"index\":0,\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]}]}",
		  "already has another action" },
	};

	for (size_t i = 0; i < COUNT(t); i++) {
		struct seccomp_prog *p = NULL;
		struct brig_error err = { 0 };
		int r = seccomp_profile_compile(t[i].json, strlen(t[i].json),
						"p.json", &p, &err);
		if (r != -EINVAL || p)
			fail_msg("%s: %d", t[i].json, r);
		assert_int_equal(err.code, BRIG_E_BAD_SECCOMP_PROFILE);
		if (!strstr(err.message, t[i].says) ||
		    strncmp(err.message, "p.json: ", 8) != 0)
			fail_msg("%s: \"%s\" does not say \"%s\"", t[i].json,
				 err.message, t[i].says);
		assert_null(strpbrk(err.message, "\n\r\033"));
		assert_int_equal(seccomp_profile_compile(t[i].json,
							 strlen(t[i].json), "p",
							 &p, NULL), -EINVAL);
	}
}

/* A profile as it is installed on people's machines: by Podman's packages, or another one. */
static const char *installed_text(const char **path, size_t *len)
{
	static char text[1 << 20];
	const char *given = getenv("BRIG_TEST_PROFILE");

	*path = given ? given : "/usr/share/containers/seccomp.json";
	int fd = open(*path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		print_message("SKIP: %s: %s\n", *path, strerror(errno));
		skip();
	}
	ssize_t n = read(fd, text, sizeof text);
	close(fd);
	assert_true(n > 0 && (size_t)n < sizeof text);
	*len = (size_t)n;
	return text;
}

static void profile_installed(void **state)
{
	(void)state;
	struct seccomp_prog *p = NULL;
	struct brig_error err = { 0 };
	const char *path;
	size_t n;
	const char *text = installed_text(&path, &n);

	if (seccomp_profile_compile(text, n, path, &p, &err) < 0)
		fail_msg("%s", err.message);
	print_message("%s: %u instructions\n", path, p->len);
	assert_true(bpf_sim_valid(p->insns, p->len));
	assert_int_equal(ask(p, native(), SYS_openat, NULL), ALLOW);
	assert_int_equal(ask(p, native(), SYS_kexec_load, NULL), ERR(EPERM));
	assert_int_equal(ask(p, native(), 100000, NULL), ERR(ENOSYS));
	seccomp_prog_free(p);
}

/* What the engines allow whatever the arguments and whoever asks, and brig's filter does not
 * allow at all.  seccomp_default.c says why. */
static const char *const taken_away[] = {
	"adjtimex", "cachestat", "clock_adjtime", "clone3", "fanotify_mark", "io_cancel",
	"io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit", "keyctl",
	"listmount", "memfd_secret", "name_to_handle_at", "openat2", "statmount",
};
/* And for a container with rights in its own namespaces, or over the machine. */
static const char *const for_root[] = {
	"add_key", "fsconfig", "fsmount", "fsopen", "fspick", "get_mempolicy", "mbind",
	"mount", "mount_setattr", "move_mount", "open_tree", "pivot_root", "reboot",
	"request_key", "set_mempolicy", "setns", "syslog", "umount", "umount2", "unshare",
};

static bool listed(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

static void default_starts_from_the_engines(void **state)
{
	(void)state;
	const char *path;
	size_t len, i, k, names = 0, wrong = 0;
	const char *text = installed_text(&path, &len);
	json_t *top = json_loadb(text, len, 0, NULL), *entry, *name;

	assert_non_null(top);
	json_array_foreach(json_object_get(top, "syscalls"), i, entry) {
		if (strcmp(json_string_value(json_object_get(entry, "action")),
			   "SCMP_ACT_ALLOW") || json_array_size(json_object_get(entry, "args")) ||
		    json_object_size(json_object_get(entry, "includes")) ||
		    json_object_size(json_object_get(entry, "excludes")))
			continue;
		json_array_foreach(json_object_get(entry, "names"), k, name) {
			const char *call = json_string_value(name);
			int nr = seccomp_call_number(call);
			names++;
			if (nr == SECCOMP_NAME_UNKNOWN)
				fail_msg("%s is not in the table", call);
			if (nr < 0)
				continue;
			/* the one that allows nothing with arguments of zero */
			const uint64_t args[6] = { strcmp(call, "socketpair") == 0 };
			bool ours = ask(seccomp_default(false), native(), nr, args) == ALLOW;
			bool less = listed(taken_away, COUNT(taken_away), call) ||
				    listed(for_root, COUNT(for_root), call);
			if (ours == less)
				print_error("%s: %s allows it, brig %s\n", call, path,
					    ours ? "too" : "does not");
			wrong += ours == less;
		}
	}
	json_decref(top);
	print_message("%zu names that %s allows whatever the arguments\n", names, path);
	assert_true(names > 300);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profile_answers),
		cmocka_unit_test(profile_errors),
		cmocka_unit_test(profile_installed),
		cmocka_unit_test(default_starts_from_the_engines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
