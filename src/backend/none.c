/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No sandbox.  Only ever an explicit choice: brig still keeps the deadline,
 * captures output, builds the environment and ends the whole process tree; and
 * it writes down that this was run, or does not run it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/audit.h"
#include "backend/backend.h"
#include "backend/tree.h"
#include "base/err.h"
#include "base/str.h"
#include "plan/plan.h"
#include "engine/watch.h"

struct none {
	const struct spec *spec;
	char **paths;
	char *cwd;
};

static void release(void *state)
{
	struct none *n = state;

	if (!n)
		return;
	strv_free(n->paths);
	free(n->cwd);
	free(n);
}

static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	int r = tree_check_open(s, "none", err);

	if (r < 0)
		return r;
	struct none *n = calloc(1, sizeof *n);
	if (!n)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the command");
	*state = n;
	n->spec = s;
	n->cwd = str_fmt("%s%s%s", s->workspace.src, *s->cwd ? "/" : "", s->cwd);
	if (!n->cwd || plan_exec_paths(s->argv, s->env, &n->paths) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the command");
	return 0;
}

static int write_down(const void *arg, struct brig_error *err)
{
	const struct none *n = arg;
	const struct audit_entry e = { .event = "run", .id = n->spec->id,
				       .backend = "none", .argv = n->spec->argv,
				       .cwd = n->cwd };

	return audit_append(&e, err);
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	struct none *n = state;
	struct tree_job job = {
		.spec = s, .argv = s->argv, .paths = n->paths, .env = s->env,
		.wanted = watch_wanted(s), .can = LAYERS_LIMITS,
		.before_release = write_down, .arg = n,
	};

	tree_run(&job, res);
}

static void describe(const struct spec *s, const void *state, struct buf *out)
{
	(void)s, (void)state;
	buf_adds(out, "no sandbox: the command runs as you, with everything you may do\n");
}

static int probe(struct probe_result out[PROBE_MAX])
{
	out[0] = (struct probe_result){ .name = "no sandbox", .state = PROBE_OK };
	snprintf(out[0].detail, sizeof out[0].detail,
		 "nothing is contained; only by explicit choice, and written down");
	return 1;
}

const struct backend backend_none = {
	.name = "none",
	.summary = "no sandbox: deadline, output, environment and an audit line only",
	.can = LAYERS_LIMITS,
	.probe = probe,
	.prepare = prepare,
	.run = run,
	.release = release,
	.describes_bare = true,
	.describe = describe,
};
