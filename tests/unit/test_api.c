/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libbrig as a program elsewhere has it: the one public header, and nothing of the source tree.
 */
#include <brig.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/brig-test-api-XXXXXX";

static int make_workspace(void **state)
{
	(void)state;
	/* as root on somebody's, so that it does not take a file system with id maps */
	return mkdtemp(dir) && (geteuid() || chown(dir, 65534, 65534) == 0) ? 0 : -1;
}

static int remove_workspace(void **state)
{
	(void)state;
	return rmdir(dir);
}

static struct brig_spec *spec_of(const char *const *argv)
{
	struct brig_error err;
	struct brig_spec *spec = brig_spec_new();

	assert_non_null(spec);
	assert_int_equal(brig_spec_set(spec, "workspace", dir, &err), 0);
	assert_int_equal(brig_spec_set(spec, "json", "", &err), 0);
	assert_int_equal(brig_spec_set_argv(spec, argv, &err), 0);
	return spec;
}

static void a_command_runs(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "echo out; exit 3", NULL };
	struct brig_spec *spec = spec_of(argv);
	struct brig_result *result = NULL;
	struct brig_error err = { 0 };
	size_t len = 0;

	(void)state;
	assert_int_equal(brig_run(spec, &result, &err), 0);
	assert_non_null(result);
	char *json = brig_result_json(result, &len);
	assert_non_null(json);
	assert_int_equal(len, strlen(json));
	assert_non_null(strstr(json, "\"v\":1,"));
	int code = brig_result_exit_code(result);
	if (code == 125) {
		print_message("SKIP: no sandbox here: %s: %s\n", brig_code_name(err.code),
			      err.message);
		assert_non_null(strstr(json, "\"ran\":false"));
		assert_true(err.fix[0]);
	} else {
		assert_int_equal(code, 3);
		assert_non_null(strstr(json, "\"ran\":true,\"exit\":3,"));
		assert_non_null(strstr(json, "\"stdout\":\"out\\n\""));
		assert_int_equal(err.code, BRIG_E_OK);
	}
	free(json);
	brig_result_free(result);
	brig_spec_free(spec);
}

static void a_refusal_is_a_result(void **state)
{
	static const char *const argv[] = { "/bin/true", NULL };
	struct brig_spec *spec = spec_of(argv);
	struct brig_result *result = NULL;
	struct brig_error err = { 0 };
	size_t len;

	(void)state;
	assert_int_equal(brig_spec_set(spec, "ro", "/no/such/place", &err), 0);
	assert_int_equal(brig_run(spec, &result, &err), 0);
	assert_int_equal(brig_result_exit_code(result), 125);
	assert_int_equal(err.code, BRIG_E_BAD_MOUNT);
	char *json = brig_result_json(result, &len);
	assert_non_null(strstr(json, "\"ran\":false"));
	assert_non_null(strstr(json, "\"code\":\"BAD_MOUNT\""));
	free(json);
	brig_result_free(result);
	brig_spec_free(spec);
}

static void a_plan_is_explained(void **state)
{
	static const char *const argv[] = { "make", "all", NULL };
	struct brig_spec *spec = spec_of(argv);
	struct brig_error err = { 0 };
	size_t len;
	char *json = brig_explain_json(spec, &len, &err);

	(void)state;
	assert_non_null(json);
	assert_non_null(strstr(json, dir));
	assert_non_null(strstr(json, "\"command\":[\"make\",\"all\"]"));
	free(json);
	brig_spec_free(spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_runs),
		cmocka_unit_test(a_refusal_is_a_result),
		cmocka_unit_test(a_plan_is_explained),
	};

	return cmocka_run_group_tests_name("api", tests, make_workspace, remove_workspace);
}
