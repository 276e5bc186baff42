/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"

const struct verb *const verbs[] = { &verb_run, &verb_shell, &verb_explain,
				     &verb_doctor, &verb_config, &verb_version,
				     &verb_help, NULL };

/* A caller may start us without stdin, stdout or stderr; the next descriptor
 * opened would then take that place and be written to by accident.  Standard output
 * cannot be: what is asked for there would be lost without a word. */
static void ensure_stdio(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		const int how = fd == STDOUT_FILENO ? O_RDONLY : O_RDWR;
		/* the lowest that is free is the one that is missing */
		if (fcntl(fd, F_GETFD) >= 0 || open("/dev/null", how | O_CLOEXEC) == fd)
			continue;
		/* standard error may be what is missing, but it is worth a try */
		fprintf(stderr, "brig: IO_FAILED: /dev/null cannot be opened: %s (it has "
				"to exist, and descriptors have to be left)\n",
			strerror(errno));
		_exit(EXIT_REFUSED);
	}
}

bool cli_takes_all(enum opt o)
{
	return opt_table[o].kind != OK_LATER && opt_table[o].name;
}

enum { HELP_AT = 31 };

static void help_line(const char *left, const char *text, const char *def)
{
	cleanup_free char *whole = str_fmt("%s%s%s%s", text, def ? " [" : "", def ? def : "",
					   def ? "]" : "");

	printf("  %-*s ", HELP_AT - 3, left);
	cli_wrap(whole ? whole : "?", HELP_AT);
}

static void option_help(const struct verb *v)
{
	printf("\nOptions:\n");
	for (const struct cli_help_line *o = v->own; o && o->left; o++)
		help_line(o->left, o->text, NULL);
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct opt_def *d = &opt_table[i];
		char left[64];
		/* the verb's own --json is another one */
		if (!v->takes((enum opt)i) || (i == OPT_JSON && v->own))
			continue;
		snprintf(left, sizeof left, "--%s%s%s", d->name, d->metavar ? " " : "",
			 d->metavar ? d->metavar : "");
		help_line(left, d->help, d->def);
	}
}

void cli_help(const struct verb *v)
{
	printf("Usage: brig %s%s", v->name, *v->synopsis ? " " : "\n");
	if (*v->synopsis)
		cli_wrap(v->synopsis, sizeof "Usage: brig " + strlen(v->name));
	printf("\n%s\n", v->summary);
	if (v->takes)
		option_help(v);
	cleanup_free char *notes = v->notes ? cli_fit(v->notes) : NULL;
	if (notes)
		printf("\n%s", notes);
}

static void overview(FILE *to)
{
	fprintf(to, "brig runs a command in a fresh sandbox, and proves that it held.\n\n");
	for (const struct verb *const *v = verbs; *v; v++)
		fprintf(to, "  brig %-9s %s\n", (*v)->name, (*v)->summary);
	fprintf(to, "\nbrig help VERB tells more; man brig tells all.\n");
}

static const struct verb *find(const char *name)
{
	for (const struct verb *const *v = verbs; *v; v++)
		if (streq((*v)->name, name))
			return *v;
	return NULL;
}

/* Words that nobody would look at. */
static bool too_many(int argc, char **argv, int most)
{
	if (argc <= most)
		return false;
	char *shown = str_printable(argv[most]);
	fprintf(stderr, "brig: %s: '%.60s' is one word too many (brig help %s)\n", argv[0],
		shown ? shown : "?", argv[0]);
	free(shown);
	return true;
}

static int help_main(int argc, char **argv)
{
	if (too_many(argc, argv, 2))
		return EXIT_USAGE;
	if (argc < 2) {
		overview(stdout);
		return 0;
	}
	const struct verb *v = find(argv[1]);
	if (!v) {
		char *shown = str_printable(argv[1]);
		fprintf(stderr, "brig: no verb '%.60s' (brig help lists them)\n",
			shown ? shown : "?");
		free(shown);
		return EXIT_USAGE;
	}
	cli_help(v);
	return 0;
}

static int version_main(int argc, char **argv)
{
	if (too_many(argc, argv, 1))
		return EXIT_USAGE;
	printf("brig %s\n", brig_version());
	return 0;
}

const struct verb verb_help = { .name = "help",
				.synopsis = "[VERB]",
				.summary = "this overview, or one verb's options",
				.run = help_main };
const struct verb verb_version = { .name = "version",
				   .synopsis = "",
				   .summary = "print the version",
				   .run = version_main };

int main(int argc, char **argv)
{
	ensure_stdio();
	if (argc < 2) {
		overview(stderr);
		return EXIT_USAGE;
	}
	const char *word = argv[1];
	if (streq(word, "--help") || streq(word, "-h"))
		word = "help";
	else if (streq(word, "--version"))
		word = "version";
	const struct verb *v = find(word);
	if (!v) {
		char *shown = str_printable(argv[1]);
		fprintf(stderr, "brig: no verb '%.40s' (brig help lists them; to run a "
				"command: brig run -- COMMAND)\n", shown ? shown : "?");
		free(shown);
		return EXIT_USAGE;
	}
	/* every verb has --help, whatever else it takes */
	if (argc == 3 && (streq(argv[2], "--help") || streq(argv[2], "-h"))) {
		cli_help(v);
		return cli_printed(0);
	}
	return cli_printed(v->run(argc - 1, argv + 1));
}
