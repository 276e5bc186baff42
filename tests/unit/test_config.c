/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden files: tests/golden/NAME holds the files of some layers, the words of a
 * command line (args, one option per line) and what must come of them: the
 * policy in force with the place of every value (expected.yaml), or the one
 * error (expected.err).
 *
 *   system.yaml   stands for /etc/brig/config.yaml
 *   config.yaml   the user's own file
 *   tenant.yaml   the overlay of the tenant that args names
 *
 * BRIG_GOLDEN=update writes what comes out instead of comparing it; look at the
 * difference before you commit it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "policy/load.h"
#include "policy/schema.h"
#include "policy_text.h"

static char golden[PATH_MAX];
static bool update;

static char *slurp(const char *dir, const char *name)
{
	char path[PATH_MAX + 300];
	char *text = NULL;
	size_t len;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_all(fd, 4 << 20, &text, &len) < 0)
		return NULL;
	return text;
}

static void spill(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || fd_write_full(fd, text, strlen(text)) < 0)
		fail_msg("cannot write %s", path);
}

static bool exists(const char *dir, const char *name)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

static void each_file(const char *dir, void (*call)(const char *dir, const char *name))
{
	DIR *d = opendir(dir);

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			call(dir, e->d_name);
	closedir(d);
}

static char private_dir[64];

/* Root takes no policy from a file that somebody else owns, and the source tree
 * may be somebody else's. */
static void copy_file(const char *dir, const char *name)
{
	cleanup_free char *text = slurp(dir, name);

	assert_non_null(text);
	spill(private_dir, name, text);
}

static void remove_file(const char *dir, const char *name)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	unlink(path);
}

/* "--name value" lines. */
static int read_args(const char *text, struct brig_spec *rq, struct brig_error *err)
{
	cleanup_free char *copy = strdup(text);
	char *save = NULL;

	for (char *line = strtok_r(copy, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (*line == '#')
			continue;
		char *value = strchr(line, ' ');
		if (value)
			*value++ = '\0';
		enum opt o = strncmp(line, "--", 2) == 0 ? opt_by_name(line + 2) : OPT__COUNT;
		if (o == OPT__COUNT)
			fail_msg("args: no option %s", line);
		int r = request_set(rq, o, value ? value : "", "command line", err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int load(struct config *c, struct brig_spec *rq, struct brig_spec *out,
		struct brig_error *err)
{
	static const struct {
		const char *name, *layer;
		enum layer_rank rank;
	} files[] = { { "system.yaml", "system", RANK_SYSTEM },
		      { "config.yaml", "user", RANK_USER },
		      { "tenant.yaml", "tenant", RANK_TENANT } };
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++) {
		char path[100];
		snprintf(path, sizeof path, "%s/%s", private_dir, files[i].name);
		r = config_read(c, path, files[i].rank, files[i].layer, false, err);
	}
	return r == 0 ? policy_layers(c, rq, out, err) : r;
}

static void one_case(const char *dir, char **made, bool *failed)
{
	struct brig_spec *rq = brig_spec_new(), *out = brig_spec_new();
	struct brig_error err = { 0 };
	struct config c;
	struct buf b = { 0 };

	strcpy(private_dir, "/tmp/brig-golden-XXXXXX");
	assert_non_null(mkdtemp(private_dir));
	each_file(dir, copy_file);
	config_init(&c);
	cleanup_free char *args = slurp(dir, "args");
	int r = args ? read_args(args, rq, &err) : 0;
	if (r == 0)
		r = load(&c, rq, out, &err);
	*failed = r < 0;
	if (r < 0) {
		assert_int_not_equal(err.code, BRIG_E_OK);
		buf_addf(&b, "%s: ", brig_code_name(err.code));
		policy_word(&b, err.message, private_dir);
		buf_addf(&b, "\n%s\n", err.fix);
	} else {
		assert_int_equal(err.code, BRIG_E_OK);
		policy_text(&b, out, private_dir);
	}
	buf_adds(&b, "");
	config_free(&c);
	brig_spec_free(rq);
	brig_spec_free(out);
	each_file(private_dir, remove_file);
	rmdir(private_dir);
	*made = b.data ? buf_take(&b, NULL) : strdup("");
}

static unsigned cases, wrong;

static void check_case(const char *dir, const char *name)
{
	char path[PATH_MAX + 300];
	char *made = NULL;
	bool failed;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	one_case(path, &made, &failed);
	const char *file = failed ? "expected.err" : "expected.yaml";
	const char *other = failed ? "expected.yaml" : "expected.err";
	cases++;
	if (update) {
		spill(path, file, made);
		remove_file(path, other);
	}
	cleanup_free char *want = slurp(path, file);
	if (exists(path, other) || !want || !streq(want, made)) {
		cleanup_free char *old = want ? NULL : slurp(path, other);
		print_error("golden/%s: expected\n%s\ngot\n%s\n", name,
			    want ? want : old ? old : "(there is nothing to compare with)",
			    made);
		wrong++;
	}
	free(made);
}

static void golden_files(void **state)
{
	(void)state;
	cases = wrong = 0;
	each_file(golden, check_case);
	if (cases < 60)
		fail_msg("only %u golden directories: where are the others?", cases);
	if (wrong)
		fail_msg("%u of %u golden files differ", wrong, cases);
}

/* Each ordered pair of layers: the later one wins, and the value says where it
 * is from.  Written as one file per layer that is on. */
static void every_layer_over_every_other(void **state)
{
	enum { SYSTEM, USER, PROFILE, TENANT, TOOL, RUN, N };
	static const char *const shown[N] = { "system", "user", "profile p", "tenant t",
					      "tool x", "command line" };

	(void)state;
	for (unsigned on = 0; on < 1u << N; on++) {
		char user[300] = "", tenant[300] = "", sys[300] = "";
		struct brig_spec *rq = brig_spec_new(), *out = brig_spec_new();
		struct brig_error err = { 0 };
		struct config c;
		/* timeouts of 10, 20 ... say which layer it was */
		if (on & 1u << SYSTEM)
			snprintf(sys, sizeof sys, "sandbox: {limits: {timeout: 10}}\n");
		snprintf(user, sizeof user, "%sprofiles: {p: {sandbox: %s}}\ntools: {x: "
			 "{sandbox: %s}}\n",
			 on & 1u << USER ? "sandbox: {limits: {timeout: 20}}\n" : "",
			 on & 1u << PROFILE ? "{limits: {timeout: 30}}" : "{}",
			 on & 1u << TOOL ? "{limits: {timeout: 50}}" : "{}");
		if (on & 1u << TENANT)
			snprintf(tenant, sizeof tenant, "sandbox: {limits: {timeout: 40}}\n");
		strcpy(private_dir, "/tmp/brig-golden-XXXXXX");
		assert_non_null(mkdtemp(private_dir));
		spill(private_dir, "system.yaml", sys);
		spill(private_dir, "config.yaml", user);
		spill(private_dir, "tenant.yaml", tenant);
		read_args("--profile p\n--tool x\n--tenant t\n", rq, &err);
		if (on & 1u << RUN)
			read_args("--timeout 60\n", rq, &err);
		config_init(&c);
		if (load(&c, rq, out, &err) < 0)
			fail_msg("%x: %s", on, err.message);
		int top = -1;
		for (int i = 0; i < N; i++)
			top = on & 1u << i ? i : top;
		char want[16];
		snprintf(want, sizeof want, "%d", (top + 1) * 10);
		const struct origin *at = request_origin(out, OPT_TIMEOUT);
		if (top < 0) {
			assert_null(at);
			assert_string_equal(request_text(out, OPT_TIMEOUT), "60");
		} else if (!streq(request_text(out, OPT_TIMEOUT), want) ||
			   !streq(at->layer, shown[top])) {
			fail_msg("layers %x: %s from %s", on, request_text(out, OPT_TIMEOUT),
				 at->layer);
		}
		config_free(&c);
		brig_spec_free(rq);
		brig_spec_free(out);
		each_file(private_dir, remove_file);
		rmdir(private_dir);
	}
}

/* A lock in any layer binds every later one, and none before it. */
static void locks_bind_what_comes_after(void **state)
{
	enum { SYSTEM, USER, PROFILE, TENANT, TOOL, RUN, N };

	(void)state;
	for (int lock = SYSTEM; lock <= TOOL; lock++) {
		for (int loose = SYSTEM; loose < N; loose++) {
			char part[N][120] = { "", "", "", "", "", "" };
			char file[500];
			struct brig_spec *rq = brig_spec_new(), *out = brig_spec_new();
			struct brig_error err = { 0 };
			struct config c;
			if (lock == loose) {
				brig_spec_free(rq);
				brig_spec_free(out);
				continue;
			}
			snprintf(part[lock], sizeof part[0],
				 "lock: [limits], limits: {timeout: 30}");
			if (loose != RUN)
				snprintf(part[loose], sizeof part[0], "limits: {timeout: 40}");
			strcpy(private_dir, "/tmp/brig-golden-XXXXXX");
			assert_non_null(mkdtemp(private_dir));
			snprintf(file, sizeof file, "sandbox: {%s}\n", part[SYSTEM]);
			spill(private_dir, "system.yaml", file);
			snprintf(file, sizeof file, "sandbox: {%s}\nprofiles: {p: {sandbox: {%s}}}\n"
				 "tools: {x: {sandbox: {%s}}}\n", part[USER], part[PROFILE],
				 part[TOOL]);
			spill(private_dir, "config.yaml", file);
			snprintf(file, sizeof file, "sandbox: {%s}\n", part[TENANT]);
			spill(private_dir, "tenant.yaml", file);
			read_args("--profile p\n--tool x\n--tenant t\n", rq, &err);
			if (loose == RUN)
				read_args("--timeout 40\n", rq, &err);
			config_init(&c);
			int r = load(&c, rq, out, &err);
			bool bound = loose > lock;
			if ((r < 0) != bound || (bound && err.code != BRIG_E_LOCKED))
				fail_msg("locked in %d, loosened in %d: %d %s", lock, loose, r,
					 err.message);
			config_free(&c);
			brig_spec_free(rq);
			brig_spec_free(out);
			each_file(private_dir, remove_file);
			rmdir(private_dir);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_files),
		cmocka_unit_test(every_layer_over_every_other),
		cmocka_unit_test(locks_bind_what_comes_after),
	};
	const char *root = getenv("BRIG_SOURCE"), *mode = getenv("BRIG_GOLDEN");

	if (!root) {
		puts("SKIP: BRIG_SOURCE is not set, so there are no golden files to read");
		return 77;
	}
	snprintf(golden, sizeof golden, "%s/tests/golden", root);
	update = mode && streq(mode, "update");
	umask(022); /* what is copied must not be writable by others */
	setenv("HOME", "/home/somebody", 1);
	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
