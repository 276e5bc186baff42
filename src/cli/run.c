/* SPDX-License-Identifier: Apache-2.0 */
/* brig run, brig shell: one command in a fresh sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/json.h"
#include "backend/backend.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "policy/load.h"

static int no_memory(void)
{
	err_set(&cli_last_error, BRIG_E_NO_MEMORY, ENOMEM, "options", "a request");
	cli_error(&cli_last_error);
	return EXIT_REFUSED;
}

static bool is_to_write(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH);
}

/* Nothing runs when the result object has nowhere to go. */
static int check_result_fds(const struct brig_spec *rq, int *status_fd)
{
	const char *text = request_text(rq, OPT_STATUS_FD);

	*status_fd = text ? atoi(text) : -1;
	if (text && !is_to_write(*status_fd)) {
		err_set(&cli_last_error, BRIG_E_BAD_FD, 0, "policy",
			"--status-fd %d is not open for writing", *status_fd);
	} else if (!text && request_flag(rq, OPT_JSON) && !is_to_write(STDOUT_FILENO)) {
		err_set(&cli_last_error, BRIG_E_BAD_FD, 0, "policy",
			"--json: standard output is not open for writing");
	} else {
		return 0;
	}
	err_fix(&cli_last_error, "open it before starting brig");
	cli_error(&cli_last_error);
	return EXIT_REFUSED;
}

/* What gives up isolation is said aloud, wherever it was set. */
static void warn_loose(const struct brig_spec *rq)
{
	char from[400];
	const struct backend *b = backend_get(backend_by_name(request_text(rq, OPT_BACKEND)));

	if (b && b->becomes_helper)
		return; /* the helper will say it */
	if (streq(request_text(rq, OPT_BACKEND), "none")) {
		origin_text(request_origin(rq, OPT_BACKEND), from, sizeof from);
		fprintf(stderr, "brig: warning: mode none (%s): the command runs WITHOUT "
				"a sandbox\n", from);
	} else if (streq(request_text(rq, OPT_NET), "host")) {
		origin_text(request_origin(rq, OPT_NET), from, sizeof from);
		fprintf(stderr, "brig: warning: --net host (%s): the command shares this "
				"machine's network\n", from);
	} else if (streq(request_text(rq, OPT_NET), "allow") && request_flag(rq, OPT_LEARN)) {
		origin_text(request_origin(rq, OPT_LEARN), from, sizeof from);
		fprintf(stderr, "brig: warning: --learn (%s): the command can connect to EVERY "
				"public host name\n", from);
	}
}

static int deliver(int fd, const char *text, size_t len, const char *where)
{
	int r = fd_write_waiting(fd, text, len);

	if (r < 0)
		cli_say("brig: IO_FAILED: %s: %s\n", where, strerror(-r));
	return r;
}

/* Where the result object goes: the descriptor, standard output, or nowhere.  0, or -errno
 * when it did not get there, which has been said. */
static int write_result(const struct brig_result *res, bool json, int status_fd)
{
	size_t len;
	int r = 0, e = 0;

	if (!json && status_fd < 0)
		return 0;
	char *text = brig_result_json(res, &len);
	if (!text) {
		cli_say("brig: NO_MEMORY: the result object\n");
		return -ENOMEM;
	}
	text[len] = '\n'; /* in place of the final NUL */
	if (status_fd >= 0)
		r = deliver(status_fd, text, len + 1, "--status-fd");
	/* whoever has closed it, and looks for the object elsewhere, does not miss it here */
	if (json && (status_fd < 0 || is_to_write(STDOUT_FILENO)))
		e = deliver(STDOUT_FILENO, text, len + 1, "standard output");
	free(text);
	return r < 0 ? r : e;
}

/* A command line that could not be read: a caller that asked for JSON anywhere
 * on it still gets an object. */
static void refuse_in_json(int argc, char **argv)
{
	bool json = false;

	for (int i = 1; i < argc && !streq(argv[i], "--"); i++)
		json = json || streq(argv[i], "--json");
	/* one line has been said, which is enough where this cannot be written */
	struct brig_result *res = json && is_to_write(STDOUT_FILENO) ?
					  brig_result_refused(&cli_last_error) : NULL;
	if (res)
		write_result(res, true, -1);
	brig_result_free(res);
}

/* What was found in the workspace concerns the person, whatever they read. */
static void warn_path(void *arg, const char *target, const char *text)
{
	cleanup_free char *what = str_printable(target);
	cleanup_free char *how = str_printable(text);

	(void)arg;
	cli_say("brig: protected: %.200s: %s\n", what ? what : "?", how ? how : "?");
}

/* The list that was learned is for a person; a program reads the result object. */
static void print_learned(const struct brig_result *res)
{
	cleanup_free char *text = res->learning ? learned_text(res) : NULL;

	if (text)
		cli_say("%s", text);
}

/* A limit that ended something, which could not say so itself.  Who asked for the object finds
 * it there. */
static void tell_limit(const struct brig_result *res, const struct brig_spec *rq)
{
	/* a terminal of the command's own was left in the middle of a line, as a rule */
	const char *new_line = request_flag(rq, OPT_PTY) && isatty(STDERR_FILENO) ? "\n" : "";
	if (res->timed_out)
		cli_say("%sbrig: the time limit of %s s was reached (--timeout SECONDS sets another, "
			"0 none)\n", new_line, request_text(rq, OPT_TIMEOUT));
	else if (res->oom)
		cli_say("%sbrig: the memory limit of %s was reached (--memory SIZE sets another)\n",
			new_line, request_text(rq, OPT_MEMORY));
}

/* A person at a terminal is not on the clock, and sees where he is; unless the
 * operator says otherwise. */
static int fit_for_person(struct brig_spec *rq)
{
	static const struct origin shell = { .layer = "shell" };
	int r = 0;

	if (!request_has(rq, OPT_TIMEOUT) && !rq->lock[OPT_TIMEOUT].layer)
		r = request_put(rq, OPT_TIMEOUT, "0", &shell);
	if (r == 0)
		r = request_put(rq, OPT_ENV, "PS1=(brig) \\w \\$ ", &shell);
	return r;
}

/* They are meant for the command.  One that comes before there is one, or when it has just
 * ended, would end us by default, and with us the result object. */
static void hold_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Runs what the request says and returns brig's exit code. */
static int run_request(struct brig_spec *rq, bool person)
{
	struct brig_result *res = NULL;
	struct brig_spec *loaded = NULL;
	struct brig_error err = { 0 };
	int status_fd;

	int code = check_result_fds(rq, &status_fd);
	if (code)
		return code;
	/* the reader of our output may leave: that must not cost the clean-up */
	signal(SIGPIPE, SIG_IGN);
	hold_signals();
	if (policy_load(rq, &loaded, &err) < 0) {
		res = brig_result_refused(&err);
		if (!res) {
			cli_error(&err);
			return EXIT_REFUSED;
		}
	} else if (person && fit_for_person(loaded) < 0) {
		return no_memory();
	} else {
		warn_loose(loaded);
	}
	if (!res && brig_run(loaded, &res, &err) < 0) {
		cli_error(&err);
		return EXIT_REFUSED;
	}
	cli_say_briefly();
	code = brig_result_exit_code(res);
	if (err.code != BRIG_E_OK) {
		cli_error(&err);
		if (code == EXIT_REFUSED)
			code = cli_error_code(&err, true);
	}
	if (!request_flag(rq, OPT_JSON)) {
		brig_result_warn(res, warn_path, NULL);
		if (status_fd < 0 && loaded)
			tell_limit(res, loaded);
		print_learned(res);
	}
	/* a caller that goes by the exit code is to look for the object, and find none */
	if (write_result(res, request_flag(rq, OPT_JSON), status_fd) < 0)
		code = EXIT_REFUSED;
	/* The process ends here: the kernel frees faster than we could. */
	fflush(NULL);
	_exit(code);
}

static int run_main(int argc, char **argv)
{
	struct brig_spec *rq = brig_spec_new();
	int rest, code;

	if (!rq)
		return no_memory();
	code = cli_options(argc, argv, rq, NULL, &rest);
	if (code == -1) {
		cli_help(&verb_run);
		code = 0;
	} else if (code == 0) {
		struct brig_error err = { 0 };
		if (brig_spec_set_argv(rq, (const char *const *)argv + rest, &err) < 0) {
			cli_error(&err);
			code = EXIT_REFUSED;
		} else {
			code = run_request(rq, false); /* returns only when refused */
			refuse_in_json(argc, argv);
		}
	} else {
		refuse_in_json(argc, argv);
	}
	brig_spec_free(rq);
	return code;
}

static int shell_main(int argc, char **argv)
{
	static const char *const bash[] = { "/bin/bash", "-i", NULL };
	static const char *const sh[] = { "/bin/sh", "-i", NULL };
	struct brig_spec *rq = brig_spec_new();
	struct brig_error err = { 0 };
	int rest, code;

	if (!rq)
		return no_memory();
	code = cli_options(argc, argv, rq, NULL, &rest);
	if (code == -1) {
		cli_help(&verb_shell);
		code = 0;
		goto out;
	}
	if (code)
		goto out;
	if (rest < argc) {
		cleanup_free char *shown = str_printable(argv[rest]);
		fprintf(stderr, "brig shell: takes no command (use brig run --pty -- "
				"%.60s)\n", shown ? shown : "COMMAND");
		code = EXIT_USAGE;
		goto out;
	}
	int r = request_set(rq, OPT_PTY, "", "shell", &err);
	if (r == 0)
		r = brig_spec_set_argv(rq, access("/bin/bash", X_OK) == 0 ? bash : sh,
				       &err);
	if (r < 0) {
		cli_error(&err);
		code = cli_error_code(&err, true);
	} else {
		code = run_request(rq, true);
	}
out:
	brig_spec_free(rq);
	return code;
}

#define EXIT_CODES                                                                 \
	"Exit codes:\n"                                                            \
	"  the command's own; 128+n if it died of signal n\n"                      \
	"  124  brig stopped it at its time limit\n"                               \
	"  125  brig refused, or could not build the sandbox: nothing ran\n"       \
	"  126  the command could not be executed; 127: it was not found, inside\n" \
	"  2    this command line is wrong\n"

const struct verb verb_run = {
	.name = "run",
	.synopsis = "[OPTIONS] [--] COMMAND [ARG...]",
	.summary = "run one command in a fresh sandbox",
	.run = run_main,
	.takes = cli_takes_all,
	.notes = EXIT_CODES "\n"
		 "Examples:\n"
		 "  brig run -- python3 script.py\n"
		 "  brig run --json --timeout 10 --memory 512M -- make test\n"
		 "  brig run --allow example.com -- curl https://example.com/\n",
};
const struct verb verb_shell = {
	.name = "shell",
	.synopsis = "[OPTIONS]",
	.summary = "an interactive shell in a sandbox",
	.run = shell_main,
	.takes = cli_takes_all,
	.notes = EXIT_CODES,
};
