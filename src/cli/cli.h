/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: one file and one const descriptor per verb. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>

#include "brig.h"
#include "policy/request.h"

/* Exit codes that are brig's own. */
enum { EXIT_USAGE = 2, EXIT_REFUSED = 125 };

struct verb {
	const char *name;
	const char *synopsis; /* after "brig NAME" */
	const char *summary;  /* one line */
	int (*run)(int argc, char **argv); /* argv[0] is the verb */
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

/* "brig: message (fix)" on standard error, safe for terminals. */
void cli_error(const struct brig_error *e);
/* The exit code for an error found before anything was built: 2 when the command
 * line is wrong, and for verbs that run nothing when a configuration is. */
int cli_error_code(const struct brig_error *e, bool runs);

void cli_help(const struct verb *v);

/* Colour only for a person: a terminal, and neither NO_COLOR nor TERM=dumb. */
bool cli_colour(int fd);

/* Writes to standard output, all of it; 0 or an exit code with a message. */
int cli_print(const char *text, size_t len);

#endif
