/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words to spec, in a temporary directory that plays the machine: base/ws is
 * the workspace, base/home the caller's HOME.  Started by root, everything
 * runs a second time as an ordinary user.  Each refusal is also looked at for
 * its code, its message and for descriptors left open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/layers.h"
#include "policy/resolve.h"
#include "workspace/protect.h"

struct fixture {
	char base[64], ws[80], home[80];
	struct spec *s;
	struct brig_error err;
};

static void sh(const struct fixture *f, const char *cmd)
{
	char line[1024];

	snprintf(line, sizeof line, "cd '%s' && { %s\n}", f->base, cmd);
	if (system(line))
		fail_msg("%s", cmd);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	assert_non_null(f);
	strcpy(f->base, "/tmp/brig-resolve-XXXXXX");
	assert_non_null(mkdtemp(f->base));
	snprintf(f->ws, sizeof f->ws, "%s/ws", f->base);
	snprintf(f->home, sizeof f->home, "%s/home", f->base);
	sh(f, "mkdir ws home out ws/sub ws/sub/deep; ln -s ws link; echo x > file;"
	      "ln -s ../out ws/leads-out; ln -s sub ws/leads-in; ln -s / ws/root;"
	      "mkdir 'a:b'; echo y > out/file");
	setenv("HOME", f->home, 1);
	setenv("PATH", "/usr/bin:/bin", 1); /* no tools but the system's */
	assert_int_equal(chdir(f->ws), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	spec_free(f->s);
	assert_int_equal(chdir("/"), 0);
	sh(f, "chmod -R u+rwx . ; rm -rf -- \"$PWD\"");
	free(f);
	return 0;
}

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Resolves `true` with the options given as name, value, …, NULL. */
static int resolve(struct fixture *f, ...)
{
	static const char *const argv[] = { "true", NULL };
	struct brig_spec *rq = brig_spec_new();
	va_list ap;
	const char *name;

	spec_free(f->s);
	f->s = NULL;
	f->err = (struct brig_error){ 0 };
	va_start(ap, f);
	while ((name = va_arg(ap, const char *))) {
		const char *value = va_arg(ap, const char *);
		if (brig_spec_set(rq, name, value, &f->err) < 0)
			fail_msg("%s %s: %s", name, value, f->err.message);
	}
	va_end(ap);
	assert_int_equal(brig_spec_set_argv(rq, argv, &f->err), 0);
	int before = open_fds();
	int r = policy_resolve(rq, &f->s, &f->err);
	if (r < 0) {
		assert_null(f->s);
		assert_int_equal(open_fds(), before);
		/* and with nobody listening */
		if (request_has(rq, OPT_ENV_FD))
			lseek(atoi(request_text(rq, OPT_ENV_FD)), 0, SEEK_SET);
		assert_int_equal(policy_resolve(rq, &f->s, NULL), r);
		assert_int_equal(open_fds(), before);
	}
	brig_spec_free(rq);
	return r;
}

static void check(const struct fixture *f, int r, enum brig_code want, int line)
{
	if ((r < 0) != (want != BRIG_E_OK) || f->err.code != want)
		fail_msg("line %d: %s (%s), expected %s", line,
			 brig_code_name(f->err.code), f->err.message, brig_code_name(want));
	if (r < 0)
		assert_true(f->err.message[0] && f->err.phase[0] && f->err.fix[0]);
}

#define good(f, ...) check(f, resolve(f, __VA_ARGS__, NULL), BRIG_E_OK, __LINE__)
#define bad(f, want, ...) check(f, resolve(f, __VA_ARGS__, NULL), want, __LINE__)

static char *path_in(const struct fixture *f, const char *rel)
{
	static char text[4][256];
	static int n;
	char *p = text[n++ % 4];

	snprintf(p, sizeof text[0], "%s/%s", f->base, rel);
	return p;
}

/* Each of the values, up to a NULL, is refused; a leading '@' is the base. */
static void bad_each(struct fixture *f, enum brig_code want, const char *opt, ...)
{
	va_list ap;
	const char *v;

	va_start(ap, opt);
	while ((v = va_arg(ap, const char *))) {
		char text[300];
		snprintf(text, sizeof text, "%s%s", *v == '@' ? f->base : "", v + (*v == '@'));
		if (resolve(f, opt, text, NULL) == 0)
			fail_msg("--%s '%s' was taken", opt, text);
		check(f, -1, want, __LINE__);
	}
	va_end(ap);
}

static void defaults(void **state)
{
	struct fixture *f = *state;

	good(f, "name", "label");
	const struct spec *s = f->s;
	assert_true(streq(s->workspace.src, f->ws) && streq(s->workspace.dst, f->ws));
	assert_true(s->workspace.writable && s->workspace.is_dir);
	assert_string_equal(s->cwd, "");
	assert_string_equal(s->home, f->home);
	assert_string_equal(s->name, "label");
	assert_string_equal(s->argv[0], "true");
	assert_int_equal(strlen(s->id), 26);
	assert_true(s->net == NET_NONE && s->loopback && !s->capture && !s->pty);
	const struct spec_limits want = { .timeout_ms = 60000, .memory = 1 << 30,
					  .cpu_milli = 1000, .pids = 256,
					  .tmp_size = 256 << 20, .file_size = 1 << 30,
					  .max_output = 1 << 20 };
	assert_memory_equal(&s->limits, &want, sizeof want);
	assert_int_equal(s->required, LAYERS_BASE);
	assert_int_equal(s->asked, 0);
	assert_int_equal(fcntl(s->workspace.fd, F_GETFD), FD_CLOEXEC);
	good(f, "json", "", "pty", "", "loopback", "off");
	assert_true(f->s->capture && f->s->pty && !f->s->loopback);
}

static void workspaces(void **state)
{
	struct fixture *f = *state;

	good(f, "workspace", path_in(f, "out"));
	assert_string_equal(f->s->workspace.src, path_in(f, "out"));
	good(f, "workspace", "sub/../sub/deep"); /* the kernel says what it is */
	assert_string_equal(f->s->workspace.src, path_in(f, "ws/sub/deep"));
	bad(f, BRIG_E_BAD_WORKSPACE, "workspace", path_in(f, "link"));
	assert_non_null(strstr(f->err.fix, f->ws));
	bad_each(f, BRIG_E_BAD_WORKSPACE, "workspace", "@/file", "@/missing", "/", "//",
		 "root/", "/usr", "/etc", "/proc", "/dev/shm", NULL);
	if (geteuid() != 0) {
		sh(f, "mkdir closed; chmod 000 closed");
		bad(f, BRIG_E_BAD_WORKSPACE, "workspace", path_in(f, "closed"));
	}
}

static void workspace_deleted(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir gone");
	assert_int_equal(chdir(path_in(f, "gone")), 0);
	sh(f, "rmdir gone");
	bad(f, BRIG_E_BAD_WORKSPACE, "name", "x");
	bad(f, BRIG_E_BAD_WORKSPACE, "workspace", ".");
}

static void workspace_and_home(void **state)
{
	struct fixture *f = *state;

	bad(f, BRIG_E_BAD_WORKSPACE, "workspace", f->home);
	bad(f, BRIG_E_BAD_WORKSPACE, "workspace", f->base); /* contains it */
	good(f, "workspace", f->home, "allow-home", "");
	assert_string_equal(f->s->home, f->home);
	good(f, "workspace", f->base, "allow-home", "");
	assert_string_not_equal(f->s->home, f->home); /* lies in a host tree */
	sh(f, "mkdir home/project; ln -s home alias");
	good(f, "workspace", path_in(f, "home/project"));
	/* HOME through a link is the same directory */
	setenv("HOME", path_in(f, "alias"), 1);
	bad(f, BRIG_E_BAD_WORKSPACE, "workspace", f->home);
	for (int i = 0; i < 2; i++) {
		setenv("HOME", i ? "/usr/home" : "/", 1);
		good(f, "workspace", f->home);
		assert_string_equal(f->s->home, "/home/sandbox");
	}
	setenv("HOME", "relative", 1); /* then passwd decides */
	good(f, "workspace", f->ws);
	assert_int_equal(f->s->home[0], '/');
	/* a name with a common beginning is not inside */
	sh(f, "mkdir homes");
	setenv("HOME", f->home, 1);
	setenv("PATH", "/usr/bin:/bin", 1); /* no tools but the system's */
	good(f, "workspace", path_in(f, "homes"));
}

static void workspace_at(void **state)
{
	struct fixture *f = *state;

	good(f, "at", "same");
	good(f, "at", "//workspace/.//x/");
	assert_string_equal(f->s->workspace.dst, "/workspace/x");
	assert_string_equal(f->s->workspace.src, f->ws);
	good(f, "at", "/var/lib/x");
	good(f, "at", "/tmp");
	good(f, "at", "/usr2");
	bad_each(f, BRIG_E_BAD_WORKSPACE, "at", "/", "/usr", "/usr/local", "/etc", "/proc",
		 "/dev", "/dev/shm", "/sys/x", "/bin", "/lib64", "/var", "/run", "/boot", NULL);
	bad_each(f, BRIG_E_BAD_VALUE, "at", "ws", "./ws", "/ws/..", "/../x", NULL);
}

/* The private HOME needs a place brig may make: never below the workspace. */
static void home_outside_the_workspace(void **state)
{
	static const char *const homes[] = { "/home/u", "/", "/usr/x", "/srv/u" };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
		setenv("HOME", homes[i], 1);
		good(f, "at", "/home");
		if (path_is_under(f->s->home, "/home"))
			fail_msg("HOME=%s --at /home: the private HOME %s would have to "
				 "be created in the workspace", homes[i], f->s->home);
	}
}

static void working_directories(void **state)
{
	struct fixture *f = *state;

	good(f, "cwd", "sub");
	assert_string_equal(f->s->cwd, "sub");
	good(f, "cwd", "./sub//deep/");
	good(f, "cwd", "leads-in");
	good(f, "cwd", f->ws);
	assert_string_equal(f->s->cwd, "");
	good(f, "cwd", path_in(f, "ws/sub"));
	assert_string_equal(f->s->cwd, "sub");
	good(f, "at", "/w", "cwd", "/w/sub");
	assert_string_equal(f->s->cwd, "sub");
	good(f, "at", "/w", "cwd", path_in(f, "ws/sub")); /* the host's name */
	assert_string_equal(f->s->cwd, "sub");
	bad_each(f, BRIG_E_BAD_CWD, "cwd", "..", "sub/../..", "leads-out",
		 "leads-in/../leads-out", "root", "/", "@", "@/ws2", "@/ws/../out",
		 "@/ws/leads-out", "missing", "/proc/self/cwd", NULL);
	/* without --cwd: where the caller is, if that lies inside */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(chdir(i ? f->base : "sub/deep"), 0);
		good(f, "workspace", f->ws);
		assert_string_equal(f->s->cwd, i ? "" : "sub/deep");
	}
}

static void binds(void **state)
{
	struct fixture *f = *state;
	char *out = path_in(f, "out"), text[300];

	snprintf(text, sizeof text, "%s:/opt//x/", out);
	good(f, "ro", text, "rw", path_in(f, "file"));
	assert_int_equal(f->s->n_binds, 2);
	assert_string_equal(f->s->binds[0].src, out);
	assert_string_equal(f->s->binds[0].dst, "/opt/x");
	assert_true(f->s->binds[0].is_dir && !f->s->binds[0].writable);
	assert_true(!f->s->binds[1].is_dir && f->s->binds[1].writable);
	struct stat st;
	assert_int_equal(stat(out, &st), 0);
	assert_true(f->s->binds[0].ino == st.st_ino && f->s->binds[0].dev == st.st_dev);

	/* a link as source: its name, with the identity of what it names */
	good(f, "ro", path_in(f, "ws/leads-out"), "workspace", f->home, "allow-home", "");
	assert_string_equal(f->s->binds[0].src, out);
	assert_string_equal(f->s->binds[0].dst, path_in(f, "ws/leads-out"));

	/* relative sources and escaped colons */
	good(f, "ro", "sub");
	assert_string_equal(f->s->binds[0].dst, path_in(f, "ws/sub"));
	snprintf(text, sizeof text, "%s/a\\:b", f->base);
	good(f, "ro", text);
	assert_string_equal(f->s->binds[0].src, path_in(f, "a:b"));
	assert_string_equal(f->s->binds[0].dst, path_in(f, "a:b"));
	snprintf(text, sizeof text, "%s/a\\:b:/c:d", f->base);
	good(f, "ro", text);
	assert_string_equal(f->s->binds[0].dst, "/c:d");
}

static void binds_refused(void **state)
{
	static const char *const targets[] = { "", "x", "/..", "/a/../b", "/", "/proc",
					       "/dev", "/dev/shm", "/sys", "/proc/self" };
	struct fixture *f = *state;
	char text[300];

	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		snprintf(text, sizeof text, "%s/out:%s", f->base, targets[i]);
		bad(f, BRIG_E_BAD_MOUNT, "ro", text);
		bad(f, BRIG_E_BAD_MOUNT, "rw", text);
	}
	bad_each(f, BRIG_E_BAD_MOUNT, "ro", "@/missing", "@/a:b" /* unescaped */, ":", ":/x",
		 "/", "/:/host", "root/:/host", "../out" /* needs a target */, NULL);
	bad(f, BRIG_E_BAD_MOUNT, "ro", "sub", "rw", "sub");
	bad(f, BRIG_E_BAD_MOUNT, "ro", "/usr:/x", "ro", "/etc:/x/");
	bad(f, BRIG_E_BAD_MOUNT, "ro", f->ws); /* the workspace is there */
	/* one bad among many good: nothing is left open */
	bad(f, BRIG_E_BAD_MOUNT, "ro", "/usr:/a", "ro", "/usr:/b", "rw", "/nonexistent");
}

static void masks(void **state)
{
	struct fixture *f = *state;

	good(f, "mask", "/usr//share/", "mask", "/not/there");
	assert_int_equal(strv_len(f->s->masks), 2);
	assert_string_equal(f->s->masks[0], "/usr/share");
	bad_each(f, BRIG_E_BAD_MOUNT, "mask", "/", "//", "x", "/..", "/a/..", "/proc",
		 "/proc/cpuinfo", "/dev", "/dev/null", "/sys", NULL);
}

static void protection(void **state)
{
	struct fixture *f = *state;
	size_t n = 0;

	while (protect_defaults[n])
		n++;
	good(f, "name", "x");
	assert_int_equal(strv_len(f->s->protect), n);
	good(f, "protect", "mine//./x/");
	assert_int_equal(strv_len(f->s->protect), n + 1);
	assert_string_equal(f->s->protect[n], "mine/x");
	good(f, "protect", "none");
	assert_int_equal(strv_len(f->s->protect), 0);
	good(f, "protect", "a", "protect", "none", "protect", "b");
	assert_int_equal(strv_len(f->s->protect), 1);
	assert_string_equal(f->s->protect[0], "b");
	bad_each(f, BRIG_E_BAD_VALUE, "protect", "/etc", "..", "a/..", "a/../b", ".", "./.", NULL);
}

static const char *env_of(const struct spec *s, const char *name)
{
	size_t n = strlen(name);
	const char *found = NULL;

	for (char **e = s->env; *e; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') {
			assert_null(found); /* once */
			found = *e + n + 1;
		}
	return found;
}

static void environment(void **state)
{
	struct fixture *f = *state;

	setenv("BRIG_T_SECRET", "s3cret", 1);
	setenv("LANG", "C.UTF-8", 1);
	unsetenv("TZ");
	unsetenv("BRIG_T_UNSET");
	good(f, "name", "x");
	assert_null(env_of(f->s, "BRIG_T_SECRET")); /* nothing is inherited */
	assert_string_equal(env_of(f->s, "LANG"), "C.UTF-8");
	assert_null(env_of(f->s, "TZ"));
	assert_string_equal(env_of(f->s, "HOME"), f->home);
	assert_string_equal(env_of(f->s, "USER"), "sandbox");
	assert_string_equal(env_of(f->s, "BRIG_SANDBOX"), f->s->id);
	assert_non_null(env_of(f->s, "PATH"));
	good(f, "env", "BRIG_T_SECRET", "env", "A=1", "env", "A=2=3", "env", "E=",
	     "env", "PATH=/x", "env", "AB=4");
	assert_string_equal(env_of(f->s, "BRIG_T_SECRET"), "s3cret");
	assert_string_equal(env_of(f->s, "A"), "2=3");
	assert_string_equal(env_of(f->s, "AB"), "4");
	assert_string_equal(env_of(f->s, "E"), "");
	assert_string_equal(env_of(f->s, "PATH"), "/x");
	/* a later value stands where the name stood first; A is not AA */
	good(f, "env", "B=1", "env", "A=1", "env", "AA=1", "env", "C=1", "env", "A=2",
	     "env", "A=3", "env", "AA=2");
	size_t n = strv_len(f->s->env);
	const char *const last[] = { "B=1", "A=3", "AA=2", "C=1" };
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(f->s->env[n - 4 + i], last[i]);
	bad_each(f, BRIG_E_BAD_VALUE, "env", "BRIG_T_UNSET", "=x", "A\nB=x", "A\tB=1", " ", NULL);
	bad(f, BRIG_E_BAD_VALUE, "env", "A B=hidden");
	assert_null(strstr(f->err.message, "hidden"));
	unsetenv("BRIG_T_SECRET");
}

static int env_file(const char *data, size_t len, char text[16])
{
	int fd = memfd_create("env", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, data, len), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	snprintf(text, 16, "%d", fd);
	return fd;
}

static void environment_from_fd(void **state)
{
	struct fixture *f = *state;
	static char big[(1 << 20) + 2];
	char n[16];

	cleanup_close int fd = env_file("X=1\0Y=two words\nand lines\0X=2", 29, n);
	good(f, "env-fd", n, "env", "X=0");
	assert_string_equal(env_of(f->s, "X"), "2");
	assert_string_equal(env_of(f->s, "Y"), "two words\nand lines");
	cleanup_close int empty = env_file("", 0, n);
	good(f, "env-fd", n);
	bad(f, BRIG_E_BAD_FD, "env-fd", "987654");
	cleanup_close int noname = env_file("=v", 3, n);
	bad(f, BRIG_E_BAD_VALUE, "env-fd", n);
	memset(big, 'a', sizeof big - 1);
	cleanup_close int huge = env_file(big, sizeof big, n);
	bad(f, BRIG_E_BAD_FD, "env-fd", n);
	cleanup_close int dir = open("/", O_RDONLY | O_CLOEXEC);
	snprintf(n, sizeof n, "%d", dir);
	bad(f, BRIG_E_BAD_FD, "env-fd", n);
}

/* What comes through the descriptor is secret as a whole. */
static void environment_from_fd_is_secret(void **state)
{
	struct fixture *f = *state;
	char n[16];

	cleanup_close int fd = env_file("hunter2-token", 14, n);
	assert_true(resolve(f, "env-fd", n, NULL) < 0);
	assert_int_equal(f->err.code, BRIG_E_BAD_VALUE);
	if (strstr(f->err.message, "hunter2") || strstr(f->err.fix, "hunter2"))
		fail_msg("the message shows it: %s", f->err.message);
}

static void layers_required(void **state)
{
	struct fixture *f = *state;

	good(f, "require", "user,net");
	assert_int_equal(f->s->required, LAYER_BIT(LAYER_USER) | LAYER_BIT(LAYER_NET));
	good(f, "net", "host");
	assert_int_equal(f->s->net, NET_HOST);
	assert_int_equal(f->s->required, LAYERS_BASE & ~LAYER_BIT(LAYER_NET));
	good(f, "memory", "64M", "pids", "20", "cpus", "0.5");
	assert_int_equal(f->s->asked, LAYERS_LIMITS);
	assert_int_equal(f->s->required, LAYERS_BASE | LAYERS_LIMITS);
	good(f, "memory", "64M", "require", "pid");
	assert_int_equal(f->s->required, LAYER_BIT(LAYER_PID) | LAYER_BIT(LAYER_MEMORY));
	/* asking for no limit asks for nothing */
	good(f, "memory", "0", "pids", "0", "cpus", "0");
	assert_int_equal(f->s->asked, 0);
	assert_int_equal(f->s->limits.memory, 0);
	/* what a backend cannot do it refuses itself: the policy only carries it */
	good(f, "net", "allow", "allow", "example.com:443");
	assert_int_equal(f->s->net, NET_ALLOW);
	assert_string_equal(f->s->allow[0], "example.com:443");
	good(f, "backend", "docker", "image", "i", "runtime", "runsc");
	assert_int_equal(f->s->backend, BACKEND_DOCKER);
	assert_string_equal(f->s->image, "i");
	assert_string_equal(f->s->runtime, "runsc");
	assert_string_equal(f->s->drop_caps[0], "ALL");
	bad(f, BRIG_E_LIMIT_UNENFORCEABLE, "limits.disk", "2G");
}

static void limits(void **state)
{
	struct fixture *f = *state;

	good(f, "memory", "1M", "cpus", "0.01", "pids", "2", "tmp-size", "64K",
	     "max-output", "0", "file-size", "0", "timeout", "0");
	assert_int_equal(f->s->limits.memory, 1 << 20);
	assert_int_equal(f->s->limits.cpu_milli, 10);
	assert_int_equal(f->s->limits.timeout_ms, 0);
	good(f, "timeout", "0.25");
	assert_int_equal(f->s->limits.timeout_ms, 250);
}

static void commands(void **state)
{
	static const char *const argvs[][2] = { { NULL, NULL }, { "", NULL } };
	struct fixture *f = *state;
	struct brig_spec *rq = brig_spec_new();

	for (size_t i = 0; i <= ARRAY_LEN(argvs); i++) { /* the first time without any */
		assert_true(policy_resolve(rq, &f->s, &f->err) < 0);
		assert_int_equal(f->err.code, BRIG_E_BAD_OPTION);
		assert_string_equal(f->err.phase, "options");
		if (i < ARRAY_LEN(argvs))
			assert_int_equal(brig_spec_set_argv(rq, argvs[i], NULL), 0);
	}
	brig_spec_free(rq);
}

static void seccomp_files(void **state)
{
	struct fixture *f = *state;

	sh(f, "echo '{\"defaultAction\":\"SCMP_ACT_ALLOW\"}' > ok.json; echo '{' > bad.json;"
	      "mkfifo fifo");
	good(f, "seccomp", path_in(f, "ok.json"));
	assert_non_null(f->s->seccomp);
	bad_each(f, BRIG_E_BAD_SECCOMP_PROFILE, "seccomp", "@/bad.json", "@/missing.json",
		 "@/fifo", "@/ws", "/dev/zero", NULL);
}

static void identities(void **state)
{
	struct fixture *f = *state;

	good(f, "name", "x");
	if (geteuid() == 0 && f->s->nested) {
		print_message("SKIP: root of a user namespace is not root\n");
		skip();
	}
	if (geteuid() != 0) {
		assert_false(f->s->as_root || f->s->idmapped);
		assert_int_equal(f->s->host_uid, geteuid());
		assert_int_equal(f->s->in_uid, geteuid());
		assert_int_equal(f->s->host_gid, getegid());
		return;
	}
	/* root's own workspace: an id nobody has */
	assert_true(f->s->as_root && f->s->idmapped && f->s->in_uid == 1000);
	assert_true(f->s->host_uid >= 0x70000000u && f->s->host_uid < 0x80000000u);
	assert_int_equal(f->s->host_uid, f->s->host_gid);
	/* a user's workspace: that user */
	assert_int_equal(chown(f->ws, 12345, 23456), 0);
	good(f, "name", "x");
	assert_true(f->s->as_root && !f->s->idmapped);
	assert_true(f->s->host_uid == 12345 && f->s->in_uid == 12345);
	assert_int_equal(f->s->host_gid, 23456);
	/* never root's group */
	assert_int_equal(chown(f->ws, 12345, 0), 0);
	good(f, "name", "x");
	assert_int_equal(f->s->host_gid, 12345);
	assert_true(f->s->in_gid != 0);
}

/* brig.h promises one line, whatever the names of files are. */
static void messages_are_one_line(void **state)
{
	static const char *const opts[] = { "workspace", "at", "cwd", "ro", "rw", "mask",
					    "protect", "env", "seccomp" };
	static const char hostile[] = "../no\nbrig: OK\033[31m";
	struct fixture *f = *state;
	char wrong[200] = "";

	for (size_t i = 0; i < ARRAY_LEN(opts); i++) {
		assert_true(resolve(f, opts[i], hostile, NULL) < 0);
		if (strpbrk(f->err.message, "\n\r\033") || strpbrk(f->err.fix, "\n\r\033"))
			snprintf(wrong + strlen(wrong), sizeof wrong - strlen(wrong),
				 " --%s", opts[i]);
	}
	if (wrong[0])
		fail_msg("not one plain line:%s", wrong);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int run_all(const char *who)
{
	const struct CMUnitTest resolve_tests[] = {
		T(defaults), T(workspaces), T(workspace_deleted), T(workspace_and_home),
		T(workspace_at), T(home_outside_the_workspace), T(working_directories),
		T(binds), T(binds_refused), T(masks), T(protection), T(environment),
		T(environment_from_fd), T(environment_from_fd_is_secret),
		T(layers_required), T(limits), T(commands), T(seccomp_files),
		T(identities), T(messages_are_one_line),
	};

	print_message("as %s\n", who);
	return cmocka_run_group_tests(resolve_tests, NULL, NULL);
}

int main(void)
{
	int failed = run_all(geteuid() ? "an ordinary user" : "root");

	if (geteuid() != 0) {
		print_message("SKIP: the part for root needs root\n");
		return failed;
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (setgroups(0, NULL) || setgid(12345) || setuid(12345))
			_exit(99);
		exit(run_all("uid 12345") ? 1 : 0);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	return failed || status != 0;
}
