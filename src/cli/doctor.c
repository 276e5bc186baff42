/* SPDX-License-Identifier: Apache-2.0 */
/* brig doctor: what this machine can enforce, and what to do about the rest. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/json.h"
#include "backend/backend.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "engine/probe.h"
#include "policy/load.h"

#define DOCTOR_OPTIONS                                     \
	"[--json] [--backend B] [--require L,...] [--config F] " \
	"[--profile NAME] [--tenant T] [--tool NAME]"

static const char *const state_word[] = { [PROBE_OK] = "ok",
					  [PROBE_DEGRADED] = "limited",
					  [PROBE_FAILED] = "failed" };
static const char *const state_colour[] = { [PROBE_OK] = "\033[32m",
					    [PROBE_DEGRADED] = "\033[33m",
					    [PROBE_FAILED] = "\033[31m" };

struct report {
	const struct backend *b;
	struct probe_result probes[PROBE_MAX];
	int n;
	unsigned required;
	unsigned enforced;  /* from the trial's evidence */
	bool tried;         /* there was a trial */
	struct brig_result *trial;
	struct brig_error err;
	bool ok;
};

/* What the answer is about: the policy in force, and which layers of it were asked for. */
struct question {
	const struct brig_spec *asked;
	struct brig_spec *policy;
	const char *require; /* of the command line */
};

static const enum opt which_policy[] = { OPT_CONFIG, OPT_PROFILE, OPT_TENANT, OPT_TOOL };

static int same_policy(struct brig_spec *rq, const struct brig_spec *asked,
		       struct brig_error *err)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(which_policy) && r == 0; i++)
		if (request_has(asked, which_policy[i]))
			r = brig_spec_set(rq, opt_table[which_policy[i]].name,
					  request_text(asked, which_policy[i]), err);
	return r;
}

/* Where the policy would have a workspace.  One that it names, but has not locked, is
 * somebody's, and no place for trials. */
static const char *place_of(const struct brig_spec *policy)
{
	const char *path = request_text(policy, OPT_WORKSPACE);
	const char *root = request_text(policy, OPT_ROOT);

	return path && policy->lock[OPT_WORKSPACE].layer ? path : root ? root : "/tmp";
}

/* The policy may list others for when one cannot run here.  That is no answer about the one:
 * why it could not is what counts. */
static struct brig_result *not_another(struct brig_result *res, const struct backend *b,
				       struct brig_error *err)
{
	if (!res || streq(res->backend, b->name))
		return res;
	for (size_t i = 0; i < res->n_denied; i++) {
		const struct denial *d = &res->denied[i];
		if (!streq(d->kind, "backend"))
			continue;
		err_set(err, BRIG_E_REQUIRE_UNMET, 0, "backend", "%s", d->rule);
		err_fix(err, "%s", d->fix);
	}
	brig_result_free(res);
	return NULL;
}

/* As root: somebody's directory, so that the trial is about the engine; whether root's own can
 * be shown is a probe of its own.  By descriptor: the place may be another user's, who can give
 * the name to something else meanwhile. */
static int give_away(const char *dir)
{
	struct stat st;
	cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (geteuid() != 0)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != 0)
		return -ESTALE;
	/* root of a namespace may not have that id: then it is a trial with root's own */
	return fchown(fd, 65534, 65534) < 0 && errno != EINVAL ? -errno : 0;
}

/* The last and strongest probe: a real sandbox, through the whole pipeline.  Under the
 * policy, but for a directory of its own; net is NULL for what that says. */
static struct brig_result *try_one(const struct question *q, const struct backend *b,
				   const char *require, const char *net,
				   struct brig_error *err)
{
	static const char *const cmd[] = { "/bin/sh", "-c", ":", NULL };
	const char *place = place_of(q->policy);
	cleanup_free char *dir = str_fmt("%s/brig-doctor-XXXXXX", place);
	struct brig_spec *rq = brig_spec_new();
	struct brig_result *res = NULL;

	if (!rq || !dir) {
		err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "doctor", "a trial");
	} else if (!mkdtemp(dir)) {
		err_set(err, BRIG_E_SETUP_FAILED, errno, "doctor", "a directory in %.300s", place);
		err_fix(err, "it has to exist, and whoever runs brig to be allowed to make one "
			     "there (/tmp: mode 1777)");
	} else {
		int r = give_away(dir);
		/* not in a place that has become another one */
		if (r < 0)
			err_set(err, BRIG_E_SETUP_FAILED, -r, "doctor", "%s", dir);
		else if (same_policy(rq, q->asked, err) == 0 &&
			 brig_spec_set(rq, "workspace", dir, err) == 0 &&
			 brig_spec_set(rq, "json", "", err) == 0 &&
			 brig_spec_set(rq, "backend", b->name, err) == 0 &&
			 (!net || brig_spec_set(rq, "net", net, err) == 0) &&
			 (!require || brig_spec_set(rq, "require", require, err) == 0) &&
			 brig_spec_set_argv(rq, cmd, err) == 0)
			brig_run(rq, &res, err);
		rmdir(dir);
	}
	brig_spec_free(rq);
	return not_another(res, b, err);
}

/* An allow-list with nothing on it: everything that one needs is made. */
static void try_allow_list(const struct question *q, struct report *r)
{
	struct brig_error err = { 0 };
	struct probe_result *p = &r->probes[r->n];

	if (r->n == PROBE_MAX)
		return;
	*p = (struct probe_result){ .name = "allow-list", .layers = LAYERS_ALLOW,
				    .state = PROBE_DEGRADED };
	r->n++;
	if (!r->b->allow_list) {
		snprintf(p->detail, sizeof p->detail, "refused: this backend cannot keep to one");
		return;
	}
	struct brig_result *res = try_one(q, r->b, NULL, "allow", &err);
	bool ran = res && res->ran && res->exit_code == 0;
	if (ran)
		snprintf(p->detail, sizeof p->detail, "%s", r->b->allow_list);
	else
		snprintf(p->detail, sizeof p->detail, "refused: %.300s", err.message);
	snprintf(p->fix, sizeof p->fix, "%s", ran ? "" : err.fix);
	if (ran && (res->enforced & LAYERS_ALLOW)) {
		p->state = PROBE_OK;
		r->enforced |= LAYERS_ALLOW;
	}
	brig_result_free(res);
}

static void trial(const struct question *q, struct report *r, bool chosen)
{
	r->tried = true;
	/* the others are only told of */
	r->trial = try_one(q, r->b, chosen ? q->require : NULL, chosen ? NULL : "none",
			   &r->err);
	r->enforced = r->trial ? r->trial->enforced : 0;
	if (r->trial && r->trial->ran)
		try_allow_list(q, r);
}

/* Some have no sandbox of their own to try, only what has to be there. */
static bool has_trial(const struct backend *b)
{
	return b == &backend_native || b == &backend_landlock || b == &backend_bwrap;
}

static unsigned required_of(const struct brig_spec *policy)
{
	const char *p = request_text(policy, OPT_REQUIRE);
	unsigned bits = 0;

	if (!p)
		return streq(request_text(policy, OPT_NET), "host") ?
			       LAYERS_BASE & ~LAYER_BIT(LAYER_NET) : LAYERS_BASE;
	for (; p; p = strchr(p, ',')) {
		if (*p == ',')
			p++;
		bits |= LAYER_BIT(layer_by_name(p, strcspn(p, ",")));
	}
	return bits;
}

static void examine(const struct question *q, struct report *r, bool chosen)
{
	const struct backend *b = r->b;
	const unsigned required = chosen ? required_of(q->policy) : LAYERS_BASE;

	r->required = chosen && request_text(q->policy, OPT_REQUIRE) ? required :
								       required & b->can;
	r->n = b->probe(r->probes);
	if (has_trial(b)) {
		trial(q, r, chosen);
		r->ok = r->trial && r->trial->ran && r->trial->exit_code == 0 &&
			(r->required & ~r->enforced) == 0;
		return;
	}
	if (!b->allow_list)
		try_allow_list(q, r);
	r->ok = (r->required & ~b->can) == 0;
	for (int i = 0; i < r->n; i++)
		r->ok = r->ok && r->probes[i].state != PROBE_FAILED;
}

/* Why the trial did not come to run its command. */
static const struct brig_error *reason(const struct report *r)
{
	return r->err.code == BRIG_E_OK && r->trial && !r->trial->ran ? &r->trial->error :
									 &r->err;
}

/* The layers that are not to be had.  Where the policy asks for something else that is not
 * (a limit, a directory), none of them was tried. */
static unsigned unmet(const struct report *r)
{
	switch (reason(r)->code) {
	case BRIG_E_LIMIT_UNENFORCEABLE:
		return r->required & ~r->enforced & LAYERS_LIMITS;
	case BRIG_E_BAD_CWD:
	case BRIG_E_BAD_MOUNT:
	case BRIG_E_BAD_OPTION:
	case BRIG_E_BAD_SECCOMP_PROFILE:
	case BRIG_E_BAD_VALUE:
	case BRIG_E_BAD_WORKSPACE:
	case BRIG_E_LOCKED:
		return 0;
	default:
		return streq(reason(r)->phase, "doctor") ? 0 : r->required & ~r->enforced;
	}
}

/*
 * When the chosen one does not work: another that was tried, contains and does.
 * What was required by name it has to give as well.
 */
static const struct report *recommended(const struct report *all, size_t n,
					const struct report *chosen, bool by_name)
{
	for (size_t i = 0; i < n; i++)
		if (chosen && !chosen->ok && &all[i] != chosen && all[i].ok && all[i].tried &&
		    (!by_name || !(chosen->required & ~all[i].enforced)))
			return &all[i];
	return NULL;
}

static void json_report(struct json *j, const struct report *r)
{
	jw_object(j);
	jw_key(j, "ok");
	jw_bool(j, r->ok);
	jw_key(j, "required");
	json_layers(j, r->required);
	jw_key(j, "enforced");
	json_layers(j, r->enforced);
	jw_key(j, "unmet");
	json_layers(j, unmet(r));
	jw_key(j, "probes");
	jw_array(j);
	for (int i = 0; i < r->n; i++) {
		const struct probe_result *p = &r->probes[i];
		jw_object(j);
		jw_key(j, "name");
		jw_string(j, p->name);
		jw_key(j, "state");
		jw_string(j, state_word[p->state]);
		jw_key(j, "detail");
		jw_string(j, p->detail);
		jw_key(j, "fix");
		jw_string(j, p->fix[0] ? p->fix : NULL);
		jw_key(j, "layers");
		json_layers(j, p->layers);
		jw_end_object(j);
	}
	jw_end_array(j);
	jw_key(j, "error");
	json_error(j, reason(r));
	jw_end_object(j);
}

/* The files that say anything, each once. */
static void json_policy(struct json *j, char *const *files)
{
	jw_array(j);
	for (; files && *files; files++)
		jw_string(j, *files);
	jw_end_array(j);
}

/* err: the policy that could not be loaded, so that nothing was tried. */
static int print_json(const struct report *all, size_t n, bool ok, char *const *files,
		      const struct report *other, const struct brig_error *err)
{
	struct buf b = { 0 };
	struct json j;

	jw_init(&j, &b);
	jw_object(&j);
	jw_key(&j, "v");
	jw_int(&j, 1);
	jw_key(&j, "ok");
	jw_bool(&j, ok);
	jw_key(&j, "policy");
	json_policy(&j, files);
	jw_key(&j, "error");
	json_error(&j, err);
	jw_key(&j, "recommended");
	jw_string(&j, other ? other->b->name : NULL);
	jw_key(&j, "backends");
	jw_object(&j);
	for (size_t i = 0; i < n; i++) {
		jw_key(&j, all[i].b->name);
		json_report(&j, &all[i]);
	}
	jw_end_object(&j);
	jw_end_object(&j);
	buf_addc(&b, '\n');
	size_t len;
	cleanup_free char *text = buf_take(&b, &len);
	return text ? cli_print(text, len) : EXIT_REFUSED;
}

enum { STATE_COLUMNS = 11, DETAIL_AT = 32 };

/* A fix is one line, however long: it is there to be copied.  Once, when several have it. */
static void line(bool colour, enum probe_state st, const char *name,
		 const char *detail, const char *fix, const char *above)
{
	/* details name paths, and paths may hold anything */
	cleanup_free char *what = str_printable(detail);
	cleanup_free char *how = str_printable(fix && above && streq(fix, above) && *fix ?
					       "as above" : fix ? fix : "");

	printf("  %s%-8s%s %-20s ", colour ? state_colour[st] : "", state_word[st],
	       colour ? "\033[0m" : "", name);
	cli_wrap(what ? what : "?", DETAIL_AT);
	if (how && *how)
		printf("%*s%s%s%s\n", STATE_COLUMNS, "", colour ? "\033[1m" : "", how,
		       colour ? "\033[0m" : "");
}

/* What will be listed in `missing`, not refused. */
static void print_missing(unsigned bits)
{
	if (!bits)
		return;
	printf("Not enforced here (results list it under \"missing\"):");
	for (unsigned i = 0; i < LAYER__COUNT; i++)
		if (bits & LAYER_BIT(i))
			printf(" %s", layer_name((enum layer)i));
	printf("\n");
}

static void print_policy(char *const *files)
{
	if (!files || !*files)
		return;
	printf("Policy:");
	for (char *const *f = files; *f; f++) {
		cleanup_free char *shown = str_printable(*f);
		printf("%s %s", f == files ? "" : ",", shown ? shown : "?");
	}
	printf("\n");
}

static void print_text(const struct report *r, char *const *files)
{
	bool c = cli_colour(STDOUT_FILENO);

	printf("%sbrig %s, %s backend, as uid %u%s\n", c ? "\033[1m" : "",
	       brig_version(), r->b->name, (unsigned)geteuid(), c ? "\033[0m" : "");
	print_policy(files);
	for (int i = 0; i < r->n; i++)
		line(c, r->probes[i].state, r->probes[i].name, r->probes[i].detail,
		     r->probes[i].fix, i ? r->probes[i - 1].fix : NULL);
	if (r->trial && r->trial->ran) {
		char detail[96];
		snprintf(detail, sizeof detail, "built, proven and run in %.1f ms",
			 (double)r->trial->setup_us / 1000 + r->trial->wall_ms);
		line(c, PROBE_OK, "a real sandbox", detail, NULL, NULL);
	} else if (r->tried) {
		line(c, PROBE_FAILED, "a real sandbox", reason(r)->message, reason(r)->fix,
		     NULL);
	}
}

static void print_verdict(const struct report *r, const struct report *other)
{
	bool c = cli_colour(STDOUT_FILENO);
	const unsigned not_here = unmet(r);

	if (r->ok) {
		printf("\n%sEverything that is required can be enforced here.%s\n",
		       c ? "\033[32m" : "", c ? "\033[0m" : "");
		if (r->trial)
			print_missing(r->trial->missing);
		return;
	}
	printf("\n%sbrig would refuse to run here.%s%s", c ? "\033[31m" : "",
	       c ? "\033[0m" : "", not_here ? " Not enforceable:" : "");
	for (unsigned i = 0; i < LAYER__COUNT; i++)
		if (not_here & LAYER_BIT(i))
			printf(" %s", layer_name((enum layer)i));
	printf("\n");
	if (!other)
		return;
	printf("%s--backend %s works here%s and enforces:", c ? "\033[1m" : "",
	       other->b->name, c ? "\033[0m" : "");
	for (unsigned i = 0; i < LAYER__COUNT; i++)
		if (other->enforced & LAYER_BIT(i))
			printf(" %s", layer_name((enum layer)i));
	printf("\n");
	print_missing(other->trial->missing);
}

/* One line each for the backends that were not asked about. */
static void print_others(const struct report *all, size_t n, const struct report *chosen)
{
	printf("\nOther backends (brig doctor --backend B tells more):\n");
	for (size_t i = 0; i < n; i++) {
		const struct report *r = &all[i];
		if (r == chosen)
			continue;
		cleanup_free char *why = str_printable(
			r->ok ? "" : reason(r)->message[0] ? reason(r)->message :
			r->n ? r->probes[0].detail : "");
		cleanup_free char *text = str_fmt("%s%s", r->ok ? "" : "not here: ",
						  r->ok ? r->b->summary : why ? why : "?");
		printf("  %-8s ", r->b->name);
		cli_wrap(text ? text : "?", STATE_COLUMNS);
	}
}

/* The files that a policy is from, as far as they say anything; NULL: none, or no memory. */
static char **policy_files(const struct brig_spec *policy)
{
	char **files = NULL;

	for (unsigned o = 0; o < OPT__COUNT; o++) {
		const struct req_value *v = &policy->o[o];
		for (size_t i = 0; v->here && i < (v->n ? v->n : 1); i++) {
			const char *const one[] = { v->at[i].file, NULL };
			bool known = !one[0];
			for (char **f = files; f && *f && !known; f++)
				known = streq(*f, one[0]);
			if (!known && strv_append(&files, one) < 0)
				return files;
		}
	}
	return files;
}

/* Every backend is looked at; the chosen one decides. */
static int examine_all(const struct question *q)
{
	enum backend_id want = backend_by_name(request_text(q->policy, OPT_BACKEND));
	struct report *all = calloc(BACKEND__COUNT, sizeof *all), *chosen = NULL;
	size_t n = 0;
	int code = 0;

	if (!all)
		return EXIT_REFUSED;
	for (unsigned i = 0; i < BACKEND__COUNT; i++) {
		const struct backend *b = backend_get((enum backend_id)i);
		if (!b)
			continue;
		struct report *r = &all[n++];
		r->b = b;
		if (i == want)
			chosen = r;
		examine(q, r, i == want);
	}
	bool ok = chosen && chosen->ok;
	const struct report *other =
		recommended(all, n, chosen, request_text(q->policy, OPT_REQUIRE) != NULL);
	char **files = policy_files(q->policy);
	if (request_flag(q->asked, OPT_JSON)) {
		code = print_json(all, n, ok, files, other, &(struct brig_error){ 0 });
	} else if (chosen) {
		print_text(chosen, files);
		print_others(all, n, chosen);
		print_verdict(chosen, other);
	} else {
		fprintf(stderr, "brig doctor: the %s backend is not available in this "
				"version\n", request_text(q->policy, OPT_BACKEND));
	}
	strv_free(files);
	for (size_t i = 0; i < n; i++)
		brig_result_free(all[i].trial);
	free(all);
	return ok ? code : 1;
}

static int doctor(const struct brig_spec *rq)
{
	struct question q = { .asked = rq, .require = request_text(rq, OPT_REQUIRE) };
	struct brig_error err = { 0 };

	if (policy_load(rq, &q.policy, &err) < 0) {
		if (request_flag(rq, OPT_JSON))
			print_json(NULL, 0, false, NULL, NULL, &err);
		cli_error(&err);
		return cli_error_code(&err, false);
	}
	int code = examine_all(&q);
	brig_spec_free(q.policy);
	return code;
}

static bool takes(enum opt o)
{
	bool is = o == OPT_BACKEND || o == OPT_REQUIRE;

	for (size_t i = 0; i < ARRAY_LEN(which_policy); i++)
		is = is || o == which_policy[i];
	return is;
}

/* An option that says something about a run would be taken for an answer about that run. */
static int refuse_others(const struct brig_spec *rq)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		if (takes((enum opt)i) || i == OPT_JSON || !request_has(rq, (enum opt)i))
			continue;
		err_set(&cli_last_error, BRIG_E_BAD_OPTION, 0, "options",
			"--%s: doctor has no such option", opt_table[i].name);
		err_fix(&cli_last_error, "brig doctor " DOCTOR_OPTIONS "; for one run: brig explain");
		cli_error(&cli_last_error);
		return EXIT_USAGE;
	}
	return 0;
}

/* A trial is not given the person's terminal, which may be one that no command would be
 * given together with --json. */
static void leave_input(void)
{
	cleanup_close int none = openat(AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC);

	if (none >= 0)
		dup2(none, STDIN_FILENO);
}

static int doctor_main(int argc, char **argv)
{
	struct brig_spec *rq = brig_spec_new();
	int rest, code;

	if (!rq)
		return EXIT_REFUSED;
	code = cli_options(argc, argv, rq, NULL, &rest);
	if (code == -1) {
		cli_help(&verb_doctor);
		code = 0;
	} else if (code == 0 && rest < argc) {
		cleanup_free char *shown = str_printable(argv[rest]);
		fprintf(stderr, "brig doctor: unexpected '%.60s' (brig doctor "
				DOCTOR_OPTIONS ")\n", shown ? shown : "?");
		code = EXIT_USAGE;
	} else if (code == 0 && (code = refuse_others(rq)) == 0) {
		leave_input();
		code = doctor(rq);
	}
	brig_spec_free(rq);
	return code;
}

static const struct cli_help_line doctor_own[] = {
	{ "--json", "print the answer as one JSON object" },
	{ NULL, NULL }
};

const struct verb verb_doctor = {
	.name = "doctor",
	.synopsis = DOCTOR_OPTIONS,
	.summary = "probe what can be enforced here, and how to fix it",
	.run = doctor_main,
	.takes = takes,
	.own = doctor_own,
	.notes = "Exit codes:\n"
		 "  0    everything that the policy asks for can be enforced here\n"
		 "  1    something cannot, and a run would be refused\n"
		 "  2    the command line or a configuration is wrong\n",
};
