/* SPDX-License-Identifier: Apache-2.0 */
/* brig explain: the resolved policy and the plan; runs nothing. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/json.h"
#include "base/fd.h"
#include "cli/cli.h"

static int show(const struct brig_spec *rq, bool for_model)
{
	struct brig_error err = { 0 };
	struct explained x;
	cleanup_free char *text = NULL, *whole = NULL;

	if (explain_prepare(rq, &x, &err) < 0) {
		cli_error(&err);
		explain_free(&x);
		return cli_error_code(&err, false);
	}
	if (for_model)
		text = explain_for_model(x.spec);
	else if (request_flag(rq, OPT_JSON))
		text = explain_json(&x, NULL);
	else if ((whole = explain_text(&x, cli_colour(STDOUT_FILENO))))
		text = cli_fit(whole);
	explain_free(&x);
	if (!text) {
		fprintf(stderr, "brig: NO_MEMORY\n");
		return EXIT_REFUSED;
	}
	size_t len = strlen(text);
	int code = cli_print(text, len);
	if (code == 0 && len && text[len - 1] != '\n')
		code = cli_print("\n", 1);
	return code;
}

static int explain_main(int argc, char **argv)
{
	static const char *const stand_in[] = { "true", NULL };
	struct brig_spec *rq = brig_spec_new();
	struct brig_error err = { 0 };
	bool for_model = false;
	const struct cli_flag flags[] = { { "for-model", &for_model }, { NULL, NULL } };
	int rest, code;

	if (!rq)
		return EXIT_REFUSED;
	code = cli_options(argc, argv, rq, flags, &rest);
	if (code == -1) {
		cli_help(&verb_explain);
		code = 0;
	} else if (code == 0) {
		const char *const *cmd = rest < argc ?
					 (const char *const *)argv + rest : stand_in;
		if (brig_spec_set_argv(rq, cmd, &err) < 0) {
			cli_error(&err);
			code = EXIT_REFUSED;
		} else {
			code = show(rq, for_model);
		}
	}
	brig_spec_free(rq);
	return code;
}

static const struct cli_help_line explain_own[] = {
	{ "--json", "print it as one JSON object" },
	{ "--for-model", "print a short text for an agent's prompt instead" },
	{ NULL, NULL }
};

const struct verb verb_explain = {
	.name = "explain",
	.synopsis = "[--json] [--for-model] [OPTIONS] [-- COMMAND...]",
	.summary = "show the policy and the plan, run nothing",
	.run = explain_main,
	.takes = cli_takes_all,
	.own = explain_own,
};
