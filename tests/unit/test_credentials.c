/* SPDX-License-Identifier: Apache-2.0 */
/* Which credential locations are masked, for which trees that are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/credentials.h"

struct fixture {
	char base[64], home[80];
	char **masks;
};

static void sh(const struct fixture *f, const char *cmd)
{
	cleanup_free char *line = str_fmt("cd '%s' && { %s\n}", f->base, cmd);

	if (!line || system(line))
		fail_msg("%s", cmd);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);

	assert_non_null(f);
	strcpy(f->base, "/tmp/brig-creds-XXXXXX");
	assert_non_null(mkdtemp(f->base));
	snprintf(f->home, sizeof f->home, "%s/home", f->base);
	sh(f, "mkdir -p home/.ssh home/.aws/sso home/.config/gh home/.config/gcloud "
	      "home/.config/plain home/.docker home/project other; "
	      "touch home/.ssh/id_ed25519 home/.aws/credentials home/.aws/config "
	      "home/.docker/config.json home/.netrc home/.bashrc home/.config/gh/hosts.yml");
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	strv_free(f->masks);
	sh(f, "rm -rf -- \"$PWD\"");
	free(f);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *expand(const struct fixture *f, const char *text)
{
	struct buf b = { 0 };

	for (; *text; text++)
		if (*text == '@')
			buf_adds(&b, f->base);
		else
			buf_addc(&b, *text);
	return buf_take(&b, NULL);
}

/* Shows SRC [DST] pairs ("@" is the base; NULL: the same), ended by NULL, and
 * compares the masks, sorted, with one space between them. */
static void masks_are(struct fixture *f, const char *want, ...)
{
	struct credentials_shown shown[8];
	char **paths = NULL; /* owns them */
	size_t n = 0;
	va_list ap;
	const char *src;

	strv_free(f->masks);
	f->masks = NULL;
	va_start(ap, want);
	while ((src = va_arg(ap, const char *))) {
		const char *dst = va_arg(ap, const char *);
		assert_int_equal(strv_take(&paths, expand(f, src)), 0);
		assert_int_equal(strv_take(&paths, expand(f, dst ? dst : src)), 0);
		shown[n].src = paths[2 * n];
		shown[n].dst = paths[2 * n + 1];
		n++;
	}
	va_end(ap);
	assert_int_equal(credentials_masks(f->home, shown, n, &f->masks), 0);
	if (f->masks)
		qsort(f->masks, strv_len(f->masks), sizeof *f->masks,
		      by_text);
	struct buf b = { 0 };
	for (char **m = f->masks; m && *m; m++)
		buf_addf(&b, "%s%s", m == f->masks ? "" : " ", *m);
	cleanup_free char *got = buf_take(&b, NULL);
	cleanup_free char *full = expand(f, want);
	assert_string_equal(got, full);
	strv_free(paths);
}

static void test_table(void **state)
{
	const char *a, *b, *why = NULL;

	(void)state;
	for (size_t i = 0; (a = credentials_location(i, &why)); i++) {
		assert_true(*a && *a != '/' && a[strlen(a) - 1] != '/');
		assert_non_null(why);
		for (size_t k = 0; (b = credentials_location(k, NULL)); k++)
			if (i != k && path_is_under(a, b))
				fail_msg("%s lies in %s", a, b);
	}
	assert_non_null(credentials_reason(".ssh"));
	assert_non_null(credentials_reason(".ssh/known_hosts"));
	assert_non_null(credentials_reason(".config/gh/hosts.yml"));
	assert_null(credentials_reason(".sshx"));
	assert_null(credentials_reason(".config"));
	assert_null(credentials_reason(".cargo/bin"));
	assert_true(credentials_below(".config"));
	assert_true(credentials_below(".cargo"));
	assert_false(credentials_below(".ssh"));
	assert_false(credentials_below(".conf"));
}

static void test_far_away(void **state)
{
	struct fixture *f = *state;

	masks_are(f, "", NULL);
	masks_are(f, "", "@/other", NULL, "/usr", NULL, NULL);
	/* looks like it, is not */
	masks_are(f, "", "@/home2", NULL, NULL);
	assert_int_equal(credentials_masks(NULL, NULL, 0, &f->masks), 0);
	const struct credentials_shown s = { "/srv/x", "/srv/x" };
	assert_int_equal(credentials_masks("/", &s, 1, &f->masks), 0);
	assert_int_equal(credentials_masks("/nonexistent/home", &s, 1, &f->masks), 0);
	assert_null(f->masks);
}

static void test_home_and_above(void **state)
{
	struct fixture *f = *state;

	masks_are(f, "@/home/.aws @/home/.config/gcloud @/home/.config/gh "
		     "@/home/.docker/config.json @/home/.netrc @/home/.ssh",
		  "@/home", NULL, NULL);
	masks_are(f, "/w/.aws /w/.config/gcloud /w/.config/gh /w/.docker/config.json "
		     "/w/.netrc /w/.ssh", "@/home", "/w", NULL);
	masks_are(f, "/b/home/.aws /b/home/.config/gcloud /b/home/.config/gh "
		     "/b/home/.docker/config.json /b/home/.netrc /b/home/.ssh",
		  "@", "/b", NULL);
}

/* More names than are read at once: nothing is forgotten for that. */
static void test_large_home(void **state)
{
	struct fixture *f = *state;

	sh(f, "i=0; while [ $i -lt 400 ]; do : >home/a-rather-long-file-name-$i; "
	      ": >home/.config/another-long-file-name-$i; i=$((i + 1)); done");
	masks_are(f, "@/home/.aws @/home/.config/gcloud @/home/.config/gh "
		     "@/home/.docker/config.json @/home/.netrc @/home/.ssh",
		  "@/home", NULL, NULL);
}

/* What cannot be looked at is not taken for absent. */
static void test_no_descriptors(void **state)
{
	struct fixture *f = *state;
	const struct credentials_shown shown = { f->home, f->home };
	struct rlimit old, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int r = credentials_masks(f->home, &shown, 1, &f->masks);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -EMFILE);
	assert_null(f->masks);
}

static void test_inside_home(void **state)
{
	struct fixture *f = *state;

	masks_are(f, "", "@/home/project", NULL, NULL);
	masks_are(f, "/c/gcloud /c/gh", "@/home/.config", "/c", NULL);
	masks_are(f, "@/home/.docker/config.json", "@/home/.docker", NULL, NULL);
	/* two views of one place: both */
	masks_are(f, "/a/gcloud /a/gh /c/gcloud /c/gh", "@/home/.config", "/c",
		  "@/home/.config", "/a", NULL);
}

static void test_explicit_choice(void **state)
{
	struct fixture *f = *state;

	masks_are(f, "", "@/home/.aws", NULL, NULL);
	masks_are(f, "", "@/home/.aws/config", "/etc/aws", NULL);
	masks_are(f, "/c/gcloud", "@/home/.config", "/c", "@/home/.config/gh", "/c/gh",
		  NULL);
	/* one file of a location: what lies beside it is masked */
	masks_are(f, "@/home/.aws/credentials @/home/.aws/sso @/home/.config/gcloud "
		     "@/home/.config/gh @/home/.docker/config.json @/home/.netrc "
		     "@/home/.ssh",
		  "@/home", NULL, "@/home/.aws/config", NULL, NULL);
	/* shown elsewhere: no exception for the rest */
	masks_are(f, "/c/gcloud /c/gh", "@/home/.config", "/c", "@/home/.config/gh",
		  "/gh", NULL);
}

static void test_links(void **state)
{
	struct fixture *f = *state;

	sh(f, "mkdir -p home/dot/aws home/dot/config/gh; rm -r home/.aws home/.config; "
	      "touch home/dot/aws/credentials home/dot/netrc; "
	      "ln -s dot/aws home/.aws; ln -s dot/config home/.config; "
	      "rm home/.netrc; ln -s $PWD/home/dot/netrc home/.netrc; "
	      "ln -s nowhere home/.npmrc; ln -s .kube home/.kube; ln -s ../other home/.gnupg");
	masks_are(f, "@/home/.docker/config.json @/home/.ssh @/home/dot/aws "
		     "@/home/dot/config/gh @/home/dot/netrc", "@/home", NULL, NULL);
	/* only the tree they lead to */
	masks_are(f, "/d/aws /d/config/gh /d/netrc", "@/home/dot", "/d", NULL);
	/* .gnupg leads out of HOME, into what is shown */
	masks_are(f, "/b/home/.docker/config.json /b/home/.ssh /b/home/dot/aws "
		     "/b/home/dot/config/gh /b/home/dot/netrc /b/other", "@", "/b", NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table), T(test_far_away), T(test_home_and_above),
		T(test_large_home), T(test_no_descriptors),
		T(test_inside_home), T(test_explicit_choice), T(test_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
