/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrapper backend: somebody else's sandbox program around the command, by
 * a template.  What that program enforces brig cannot see before the command
 * runs, so nothing of it is claimed; brig keeps the deadline, the output, the
 * environment, the limits, the protected paths and the end of the tree.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/guard.h"
#include "backend/tree.h"
#include "backend/wrapper_quote.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "plan/plan.h"
#include "engine/watch.h"

/* Ready-made templates.  Words that take the network away, or give it, are there
 * only when that was asked for. */
#define NET_WORD "--net=none"
#define HOST_WORD "--disable_clone_newnet"
static const char *const firejail[] = {
	"firejail", "--quiet", "--noprofile", "--caps.drop=all", "--nonewprivs",
	"--seccomp", "--private-dev", "--ipc-namespace", "--hostname=sandbox",
	"--read-only=/", "--read-write={cwd}", NET_WORD, "--", "{argv}", NULL,
};
/*
 * nsjail has limits of its own on memory, files and time by default: brig's hold
 * instead.  It does not look along PATH: a shell does.  /tmp comes before the
 * directory, which may lie in it.
 */
static const char *const nsjail[] = {
	"nsjail", "-Mo", "-Q", "--keep_env", "--time_limit", "0", "--disable_rlimits",
	HOST_WORD, "--chroot", "/", "-T", "/tmp", "-B", "{cwd}", "--cwd", "{cwd}", "--",
	"/bin/sh", "-c", "exec \"$@\"", "sh", "{argv}", NULL,
};
/* A scope: resource control; its words reach the command as they are, which
 * those of a service do not ($NAME would be expanded). */
static const char *const systemd_user[] = {
	"systemd-run", "--user", "--scope", "--quiet", "--collect", "--", "{argv}", NULL,
};
static const char *const systemd_system[] = {
	"systemd-run", "--scope", "--quiet", "--collect", "--", "{argv}", NULL,
};

struct state {
	const struct spec *spec;
	struct protect protect;
	bool have_protect;
	struct guard *guard;
	char **argv, **paths;
};

static const char *const *ready_made(const char *name)
{
	return streq(name, "firejail")	    ? firejail :
	       streq(name, "nsjail")	    ? nsjail :
	       !streq(name, "systemd-run")  ? NULL :
	       geteuid() == 0		    ? systemd_system : systemd_user;
}

static void release(void *p)
{
	struct state *st = p;

	if (!st)
		return;
	if (st->have_protect)
		protect_free(&st->protect);
	guard_free(st->guard);
	strv_free(st->argv);
	strv_free(st->paths);
	free(st);
}

static int expand_ready(struct state *st, const char *const *ready, const char *cwd,
			struct brig_error *err)
{
	char **tmpl = NULL;
	int r = 0;

	/* it takes SOURCE:DESTINATION, and a colon cannot be quoted */
	if (ready == nsjail && strchr(cwd, ':')) {
		err_set(err, BRIG_E_BAD_WORKSPACE, 0, "wrapper",
			"nsjail cannot be given a directory with a colon in its name");
		err_fix(err, "rename it, or use another backend");
		return -EINVAL;
	}
	for (size_t i = 0; ready[i] && r == 0; i++)
		if (!streq(ready[i], st->spec->net == NET_NONE ? HOST_WORD : NET_WORD))
			r = strv_add(&tmpl, ready[i]);
	if (r < 0)
		err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "wrapper", "the command");
	else
		r = wrapper_expand_list(tmpl, st->spec->argv, cwd, &st->argv, err);
	strv_free(tmpl);
	return r;
}

/* Shell text: /bin/sh -c TEXT. */
static int expand_text(struct state *st, const char *tmpl, const char *cwd,
		       struct brig_error *err)
{
	char *text = NULL;
	int r = wrapper_expand_text(tmpl, st->spec->argv, cwd, &text, err);

	if (r < 0)
		return r;
	r = strv_add(&st->argv, "/bin/sh");
	if (r == 0)
		r = strv_add(&st->argv, "-c");
	if (r == 0)
		r = strv_take(&st->argv, take_ptr(text));
	free(text);
	return r < 0 ? err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "wrapper", "the command") : 0;
}

static int expand(struct state *st, struct brig_error *err)
{
	const struct spec *s = st->spec;
	char *const *t = s->wrapper;

	if (!t || !t[0]) {
		err_set(err, BRIG_E_BAD_VALUE, 0, "wrapper",
			"the wrapper backend needs a template");
		err_fix(err, "give one: --wrapper firejail, or --wrapper 'mywrapper {command}'");
		return -EINVAL;
	}
	cleanup_free char *cwd = str_fmt("%s%s%s", s->workspace.src, *s->cwd ? "/" : "",
					 s->cwd);
	if (!cwd)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "wrapper", "the directory");
	if (t[1])
		return wrapper_expand_list(t, s->argv, cwd, &st->argv, err);
	const char *const *ready = ready_made(t[0]);
	return ready ? expand_ready(st, ready, cwd, err) : expand_text(st, t[0], cwd, err);
}

/* The wrapper itself has to be there: its absence is not the command's. */
static int find_program(struct state *st, struct brig_error *err)
{
	if (plan_exec_paths(st->argv, st->spec->env, &st->paths) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "wrapper", "the command");
	for (char **p = st->paths; *p; p++)
		if (access(*p, X_OK) == 0)
			return 0;
	cleanup_free char *shown = str_printable(st->argv[0]);
	err_set(err, BRIG_E_UNSUPPORTED, 0, "wrapper", "the wrapper %.100s is not installed",
		shown ? shown : "?");
	err_fix(err, "install it, or name it by its path in the template");
	return -ENOENT;
}

static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	int r = tree_check_open(s, "wrapper", err);

	if (r < 0)
		return r;
	struct state *st = calloc(1, sizeof *st);
	if (!st)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "wrapper");
	*state = st;
	st->spec = s;
	r = expand(st, err);
	if (r == 0)
		r = find_program(st, err);
	if (r < 0)
		return r;
	r = protect_scan(&st->protect, s->workspace.fd, s->workspace.src, (const char *const *)s->protect,
			 s->id, err);
	if (r < 0)
		return r;
	st->have_protect = true;
	return guard_take(&st->guard, &st->protect, s->workspace.fd, err);
}

static void place(void *arg, struct brig_result *res)
{
	const struct state *st = arg;

	guard_report(st->guard, st->spec->workspace.fd, res);
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	struct state *st = state;
	struct tree_job job = {
		.spec = s, .argv = st->argv, .paths = st->paths, .env = s->env,
		.wanted = watch_wanted(s), .can = LAYERS_LIMITS, .place = place,
		.arg = st, .protect = &st->protect,
	};

	tree_run(&job, res);
}

static void describe(const struct spec *s, const void *state, struct buf *out)
{
	const struct state *st = state;

	(void)s;
	buf_adds(out, "what this program enforces is not known to brig:\n ");
	for (char **a = st->argv; *a; a++) {
		cleanup_free char *shown = str_printable(*a);
		buf_addf(out, " %s", shown ? shown : "?");
	}
	buf_addc(out, '\n');
}

static int probe(struct probe_result out[PROBE_MAX])
{
	static const char *const names[] = { "firejail", "nsjail", "systemd-run" };
	static const char *const dirs[] = { "/usr/bin", "/usr/local/bin", "/bin" };
	int n = 0;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[64];
		bool found = false;
		for (size_t k = 0; k < ARRAY_LEN(dirs) && !found; k++) {
			snprintf(path, sizeof path, "%s/%s", dirs[k], names[i]);
			found = access(path, X_OK) == 0;
		}
		out[n] = (struct probe_result){ .name = names[i],
						.state = found ? PROBE_OK : PROBE_DEGRADED };
		snprintf(out[n].detail, sizeof out[n].detail, "%s%s",
			 found ? path : "not installed",
			 found ? "; what it enforces is not known to brig" : "");
		if (!found)
			snprintf(out[n].fix, sizeof out[n].fix,
				 "install it to use --wrapper %s", names[i]);
		n++;
	}
	return n;
}

const struct backend backend_wrapper = {
	.name = "wrapper",
	.summary = "another sandbox program, by a template; brig claims only its own limit on processes",
	.can = LAYERS_LIMITS,
	.probe = probe,
	.prepare = prepare,
	.run = run,
	.release = release,
	.describe = describe,
};
