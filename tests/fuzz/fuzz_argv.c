/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds a command line, its words separated by NUL bytes, to the reader of
 * options and what comes of it to policy_resolve() and plan_build().  Nothing
 * runs.  A refusal must have a code, a message and a sensible exit code; an
 * acceptance must give a spec whose paths are what the engine relies on; and
 * no descriptor may stay open.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "plan/plan.h"
#include "policy/resolve.h"

enum { WORDS_MAX = 64, BYTES_MAX = 4096 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/brig-fuzz-argv-XXXXXX";
static int null_out = -1;

static void clean_up(void)
{
	static const char *const files[] = { "ws/sub/file", "ws/sub", "ws/out", "ws/.envrc",
					     "ws", "home", "file" };

	if (chdir(dir) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		remove(files[i]);
	if (chdir("/") == 0)
		rmdir(dir);
}

static void make_file(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0)
		abort();
	close(fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	if (!mkdtemp(dir) || chdir(dir) || mkdir("ws", 0700) || mkdir("home", 0700) ||
	    mkdir("ws/sub", 0700) || symlink("/", "ws/out"))
		abort();
	make_file("file");
	make_file("ws/.envrc");
	make_file("ws/sub/file");
	char home[64];
	snprintf(home, sizeof home, "%s/home", dir);
	setenv("HOME", home, 1);
	if (chdir("ws"))
		abort();
	atexit(clean_up);
	/* --env-fd 0 must not wait for a person */
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		abort();
	close(null);
	null_out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null_out < 0)
		abort();
	return 0;
}

/* What brig prints about each refusal would drown what libFuzzer prints, so
 * the descriptor points elsewhere, but only while brig has the word. */
static int silence(void)
{
	int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	if (saved < 0)
		abort();
	fflush(stderr);
	dup2(null_out, STDERR_FILENO);
	return saved;
}

static void speak(int saved)
{
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
}

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		abort();
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void check_path(const char *p)
{
	if (p[0] != '/' || strstr(p, "//") || strstr(p, "/../") ||
	    (p[1] && p[strlen(p) - 1] == '/'))
		abort();
}

static void check_spec(const struct spec *s)
{
	check_path(s->workspace.src);
	check_path(s->workspace.dst);
	check_path(s->home);
	if (streq(s->workspace.src, "/") || streq(s->workspace.dst, "/"))
		abort();
	for (size_t i = 0; i < s->n_binds; i++) {
		check_path(s->binds[i].dst);
		if (streq(s->binds[i].src, "/") || s->binds[i].fd < 0)
			abort();
	}
	for (char **m = s->masks; m && *m; m++)
		check_path(*m);
	for (char **e = s->env; e && *e; e++)
		if (!strchr(*e, '=') || **e == '=')
			abort();
	if (s->in_uid == 0 || (s->as_root && s->host_uid == 0) || !s->argv[0])
		abort();
}

static void check_plan(const struct spec *s)
{
	struct brig_error err = { 0 };
	struct plan p;

	if (plan_build(&p, s, &err) < 0) {
		if (err.code == BRIG_E_OK)
			abort();
		return;
	}
	for (size_t i = 0; i < p.n_ops; i++)
		check_path(p.ops[i].dst);
	plan_free(&p);
}

static void check_error(const struct brig_error *e)
{
	if (e->code == BRIG_E_OK || (unsigned)e->code >= BRIG_E__COUNT ||
	    !e->message[0] || !e->phase[0] ||
	    strnlen(e->message, sizeof e->message) == sizeof e->message ||
	    strnlen(e->fix, sizeof e->fix) == sizeof e->fix)
		abort();
}

static void one_line(int argc, char **argv)
{
	struct brig_spec *rq = brig_spec_new();
	bool flag = false;
	const struct cli_flag flags[] = { { "for-model", &flag }, { NULL, NULL } };
	int rest = 0;

	if (!rq)
		return;
	int saved = silence();
	int code = cli_options(argc, argv, rq, flags, &rest);
	speak(saved);
	if (code == 0) {
		struct spec *s = NULL;
		struct brig_error err = { 0 };
		if (rest < 1 || rest > argc)
			abort();
		if (brig_spec_set_argv(rq, (const char *const *)argv + rest, &err) < 0)
			abort();
		if (policy_resolve(rq, &s, &err) == 0) {
			check_spec(s);
			check_plan(s);
			spec_free(s);
		} else {
			check_error(&err);
		}
	} else if (code != -1) {
		if (code != EXIT_USAGE && code != EXIT_REFUSED)
			abort();
		check_error(&cli_last_error);
	}
	brig_spec_free(rq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[BYTES_MAX + 1], *argv[WORDS_MAX + 2], verb[] = "run";
	int argc = 0;

	if (size > BYTES_MAX)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	argv[argc++] = verb;
	for (size_t at = 0; at < size && argc <= WORDS_MAX; at += strlen(text + at) + 1)
		argv[argc++] = text + at;
	argv[argc] = NULL;
	/* the descriptors are libFuzzer's: reading one could wait for ever */
	for (int i = 1; i < argc; i++)
		if (strstr(argv[i], "env-fd"))
			return 0;
	int before = open_fds();
	one_line(argc, argv);
	if (open_fds() != before)
		abort();
	return 0;
}
