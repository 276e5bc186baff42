/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: one file and one const descriptor per verb. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "brig.h"
#include "policy/request.h"

/* Exit codes that are brig's own. */
enum { EXIT_USAGE = 2, EXIT_REFUSED = 125 };

/* An option as its help has it: "--memory SIZE", and what it does. */
struct cli_help_line {
	const char *left, *text;
};

struct verb {
	const char *name;
	const char *synopsis; /* after "brig NAME" */
	const char *summary;  /* one line */
	int (*run)(int argc, char **argv); /* argv[0] is the verb */
	bool (*takes)(enum opt o);         /* which options of a run; NULL: none */
	const struct cli_help_line *own;   /* what is only this verb's; NULL: nothing */
	const char *notes;                 /* more lines for `brig help`; NULL: none */
};

extern const struct verb verb_run, verb_shell, verb_explain, verb_doctor,
	verb_config, verb_version, verb_help;
/* NULL-terminated. */
extern const struct verb *const verbs[];

/* Extra words a verb takes besides the options of a run: flags only. */
struct cli_flag {
	const char *name;
	bool *set;
};

/*
 * Reads options into the request until "--" or the first word that is not an
 * option; *rest is the index of what follows.  Returns 0, or an exit code
 * after printing one line.  A help request returns -1 (exit 0 after help).
 */
int cli_options(int argc, char **argv, struct brig_spec *rq,
		const struct cli_flag *flags, int *rest);
/* What the last failing cli_options() said, for a caller that wants JSON. */
extern struct brig_error cli_last_error;

/* A diagnostic, on standard error. */
void cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From now on diagnostics are dropped once standard error has been blocked for a second: the
 * command may have filled the pipe, and its reader may wait for our end. */
void cli_say_briefly(void);
/* "brig: message (fix)" on standard error, safe for terminals. */
void cli_error(const struct brig_error *e);
/* The exit code for an error found before anything was built: 2 when the command
 * line is wrong, and for verbs that run nothing when a configuration is. */
int cli_error_code(const struct brig_error *e, bool runs);

void cli_help(const struct verb *v);

/* Colour only for a person: a terminal, and neither NO_COLOR nor TERM=dumb. */
bool cli_colour(int fd);

/* Whether a verb takes every option of a run. */
bool cli_takes_all(enum opt o);

/* Writes to standard output, all of it; 0 or an exit code with a message. */
int cli_print(const char *text, size_t len);

/* The exit code in the end: what stdio has for standard output goes there, or it is
 * said that it did not, and a code of 0 is none any more. */
int cli_printed(int code);

/* One line of text to standard output, the first word of which is at this column.  On a
 * terminal it is broken between words, under where it began. */
void cli_wrap(const char *text, size_t at);

/* Whole lines, each of them broken like that; fresh memory, NULL when there is none. */
char *cli_fit(const char *text);

#endif
