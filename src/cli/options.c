/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"

struct brig_error cli_last_error;

bool cli_colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fd) && !(no && *no) && !(term && streq(term, "dumb"));
}

void cli_error(const struct brig_error *e)
{
	cleanup_free char *what = str_printable(e->message);
	cleanup_free char *fix = str_printable(e->fix);

	cli_say("brig: %s: %s%s%s%s\n", brig_code_name(e->code), what ? what : "?",
		e->fix[0] ? " (" : "", fix ? fix : "", e->fix[0] ? ")" : "");
}

int cli_error_code(const struct brig_error *e, bool runs)
{
	if (!runs && (e->code == BRIG_E_BAD_CONFIG || e->code == BRIG_E_LOCKED ||
		      e->code == BRIG_E_UNTRUSTED_CONFIG))
		return EXIT_USAGE;
	/* the command line itself is wrong, as opposed to refused */
	if (streq(e->phase, "options") && e->code != BRIG_E_UNSUPPORTED)
		return EXIT_USAGE;
	return EXIT_REFUSED;
}

static int usage(const char *verb, const char *word, const char *what,
		 const char *hint)
{
	(void)verb;
	err_set(&cli_last_error, BRIG_E_BAD_OPTION, 0, "options", "%.60s: %s", word,
		what);
	err_fix(&cli_last_error, "%s", hint);
	cli_error(&cli_last_error);
	return EXIT_USAGE;
}

static bool take_flag(const struct cli_flag *flags, const char *name)
{
	for (; flags && flags->name; flags++)
		if (streq(flags->name, name)) {
			*flags->set = true;
			return true;
		}
	return false;
}

static int unknown(const char *verb, const char *name)
{
	const char *near = opt_suggest(name);
	char hint[96];

	if (near)
		snprintf(hint, sizeof hint, "did you mean --%s?", near);
	else
		snprintf(hint, sizeof hint, "see brig help %s", verb);
	char word[72];
	snprintf(word, sizeof word, "--%s", name);
	return usage(verb, word, "unknown option", hint);
}

static int misused(const char *verb, const struct opt_def *d, const char *what)
{
	char word[72], hint[160];

	snprintf(word, sizeof word, "--%s", d->name);
	snprintf(hint, sizeof hint, "%s%s%s: %s", word, d->metavar ? " " : "",
		 d->metavar ? d->metavar : "", d->help);
	return usage(verb, word, what, hint);
}

/* One "--name", "--name=value" or "--name value". */
static int one_option(const char *verb, char **argv, int argc, int *i,
		      struct brig_spec *rq, const struct cli_flag *flags)
{
	char name[64];
	const char *word = argv[*i] + 2, *eq = strchr(word, '=');
	size_t n = eq ? (size_t)(eq - word) : strlen(word);

	if (n >= sizeof name)
		return usage(verb, word, "unknown option", "see brig help");
	memcpy(name, word, n);
	name[n] = '\0';
	if (!eq && take_flag(flags, name))
		return 0;
	enum opt o = opt_by_name(name);
	if (o == OPT__COUNT)
		return unknown(verb, name);
	const struct opt_def *d = &opt_table[o];
	const char *value = eq ? eq + 1 : NULL;
	if (!d->metavar && value)
		return misused(verb, d, "takes no value");
	if (d->metavar && !value) {
		if (*i + 1 >= argc)
			return misused(verb, d, "needs a value");
		value = argv[++*i];
	}
	if (request_set(rq, o, value ? value : "", "command line",
			&cli_last_error) < 0) {
		cli_error(&cli_last_error);
		return cli_error_code(&cli_last_error, true);
	}
	return 0;
}

int cli_options(int argc, char **argv, struct brig_spec *rq,
		const struct cli_flag *flags, int *rest)
{
	int i = 1;

	for (; i < argc; i++) {
		const char *a = argv[i];
		if (streq(a, "--")) {
			i++;
			break;
		}
		if (streq(a, "--help") || streq(a, "-h"))
			return -1;
		if (a[0] != '-')
			break;
		if (a[1] != '-')
			return usage(argv[0], a, "unknown option",
				     "options start with --; put the command after --");
		int r = one_option(argv[0], argv, argc, &i, rq, flags);
		if (r)
			return r;
	}
	*rest = i;
	return 0;
}
