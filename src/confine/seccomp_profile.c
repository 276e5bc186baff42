/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in Docker's JSON format.  The reader is strict: a key, an action
 * or a name it does not know is an error that says where, because a line of a
 * security profile that is silently ignored is a hole.
 *
 * Meaning, as runc and libseccomp would have it: an entry whose action is the
 * default action says nothing; an entry without args beats those with args
 * for the same call, and the first such entry stays; entries with args are
 * alternatives, in file order; two conditions on the same argument in one
 * entry are alternatives, not a conjunction.
 */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "confine/seccomp_profile.h"
#include "confine/seccomp_table.h"

#define RULES_MAX 2048 /* of a profile; more would not fit a filter anyway */

/* One entry after its keys are read. */
struct entry {
	const json_t *names; /* array or string */
	uint32_t action;
	struct seccomp_rule *rules;
	size_t nrules; /* 0: unconditional */
};

#ifdef __x86_64__
static const char native_arch[] = "amd64"; /* as the Go world spells it */
#else
static const char native_arch[] = "arm64";
#endif

static bool has_string(const json_t *array, const char *text)
{
	size_t i;
	const json_t *s;

	json_array_foreach(array, i, s)
		if (strcmp(json_string_value(s), text) == 0)
			return true;
	return false;
}

/* "4.8" */
static int read_version(const struct reader *r, const json_t *v, int version[2])
{
	char end;

	if (!json_is_string(v) || strlen(json_string_value(v)) > 16 ||
	    sscanf(json_string_value(v), "%4d.%4d%c", &version[0], &version[1],
		   &end) != 2)
		return profile_bad(r, "\"minKernel\" is not of the form \"4.8\"");
	return 0;
}

/*
 * Does this "includes" or "excludes" hold here?  For a process without
 * capabilities, on this architecture and kernel.  An include needs all its
 * conditions, an exclude any.
 */
static int condition_holds(const struct reader *r, const json_t *cond,
			   const char *what, bool include, bool *holds)
{
	static const char *const keys[] = { "arches", "caps", "minKernel",
					    NULL };
	int version[2] = { 0, 0 };

	*holds = include;
	if (!cond)
		return 0;
	int ret = profile_check_keys(r, cond, what, keys);
	if (ret < 0)
		return ret;
	const json_t *arches = profile_get(cond, "arches");
	const json_t *caps = profile_get(cond, "caps");
	const json_t *kernel = profile_get(cond, "minKernel");
	ret = profile_check_strings(r, arches, "arches");
	if (ret == 0)
		ret = profile_check_strings(r, caps, "caps");
	if (ret == 0 && kernel)
		ret = read_version(r, kernel, version);
	if (ret < 0)
		return ret;

	if (json_array_size(arches) > 0 &&
	    has_string(arches, native_arch) != include)
		*holds = !include;
	if (include && json_array_size(caps) > 0)
		*holds = false; /* there are none inside */
	if (kernel) {
		bool new = r->kernel[0] != version[0] ?
				   r->kernel[0] > version[0] :
				   r->kernel[1] >= version[1];
		if (new != include)
			*holds = !include;
	}
	return 0;
}

static int read_arg(const struct reader *r, const json_t *arg,
		    struct seccomp_cond *out)
{
	static const char *const keys[] = { "index", "op", "value", "valueTwo",
					    NULL };
	static const struct {
		const char *name;
		enum seccomp_op op;
	} ops[] = {
		{ "SCMP_CMP_NE", SECCOMP_OP_NE },
		{ "SCMP_CMP_LT", SECCOMP_OP_LT },
		{ "SCMP_CMP_LE", SECCOMP_OP_LE },
		{ "SCMP_CMP_EQ", SECCOMP_OP_EQ },
		{ "SCMP_CMP_GE", SECCOMP_OP_GE },
		{ "SCMP_CMP_GT", SECCOMP_OP_GT },
		{ "SCMP_CMP_MASKED_EQ", SECCOMP_OP_MASKED_EQ },
	};
	uint64_t index, value, two;
	char word[SHOWN_MAX];

	int ret = profile_check_keys(r, arg, "\"args\"", keys);
	if (ret == 0 && (!profile_get(arg, "index") || !profile_get(arg, "value")))
		ret = profile_bad(r, "an argument without \"index\" or \"value\"");
	if (ret == 0)
		ret = profile_get_number(r, arg, "index", 5, 0, &index);
	if (ret == 0)
		ret = profile_get_number(r, arg, "value", INT64_MAX, 0, &value);
	if (ret == 0)
		ret = profile_get_number(r, arg, "valueTwo", INT64_MAX, 0, &two);
	if (ret < 0)
		return ret;

	const char *op = json_string_value(profile_get(arg, "op"));
	if (!op)
		return profile_bad(r, "an argument without \"op\"");
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
		if (strcmp(ops[i].name, op) != 0)
			continue;
		*out = (struct seccomp_cond){ .arg = (unsigned char)index,
					      .op = ops[i].op,
					      .value = value };
		/* Here "value" is the mask and "valueTwo" what is compared. */
		if (ops[i].op == SECCOMP_OP_MASKED_EQ) {
			out->mask = value;
			out->value = two & value;
		}
		return 0;
	}
	ret = profile_bad(r, "unknown \"op\" \"%s\"", profile_shown(op, word));
	err_fix(r->err, "Comparisons are SCMP_CMP_NE, _LT, _LE, _EQ, _GE, _GT"
			" and _MASKED_EQ.");
	return ret;
}

/* Reads "args" into one rule, or one rule per condition when an argument is
 * named twice: that is how runc adds them, since libseccomp takes an argument
 * once per rule, and profiles have come to rely on it. */
static int read_args(const struct reader *r, const json_t *args,
		     struct entry *e)
{
	unsigned seen = 0;
	bool twice = false;
	size_t i;
	const json_t *arg;
	int ret = 0;

	if (!args)
		return 0;
	if (!json_is_array(args))
		return profile_bad(r, "\"args\" is not an array");
	size_t n = json_array_size(args);
	if (n == 0)
		return 0;
	if (n > RULES_MAX)
		return profile_bad(r, "too many conditions");
	e->rules = calloc(n, sizeof *e->rules);
	if (!e->rules)
		return err_set(r->err, BRIG_E_NO_MEMORY, ENOMEM, "seccomp",
			       "%s", r->label);
	json_array_foreach(args, i, arg) {
		struct seccomp_rule *rule = &e->rules[i];
		ret = read_arg(r, arg, &rule->conds[0]);
		if (ret < 0)
			return ret;
		rule->action = e->action;
		rule->nconds = 1;
		twice |= (seen >> rule->conds[0].arg) & 1u;
		seen |= 1u << rule->conds[0].arg;
	}
	e->nrules = n;
	if (twice)
		return 0;
	for (i = 1; i < n; i++) /* n is at most 6 now */
		e->rules[0].conds[i] = e->rules[i].conds[0];
	e->rules[0].nconds = (unsigned char)n;
	e->nrules = 1;
	return 0;
}

static bool same_conditions(const struct seccomp_rule *a,
			    const struct seccomp_rule *b)
{
	if (a->nconds != b->nconds)
		return false;
	for (unsigned i = 0; i < a->nconds; i++) {
		const struct seccomp_cond *x = &a->conds[i], *y = &b->conds[i];
		if (x->arg != y->arg || x->op != y->op ||
		    x->mask != y->mask || x->value != y->value)
			return false;
	}
	return true;
}

static int add_rule(struct reader *r, int nr, const struct seccomp_rule *rule)
{
	struct call *c = &r->calls[nr];

	for (size_t i = 0; i < c->nrules; i++) {
		if (!same_conditions(&c->rules[i], rule))
			continue;
		if (c->rules[i].action == rule->action)
			return 0;
		return profile_bad(r, "the same condition on %s already has another"
				      " action", seccomp_call_name(nr));
	}
	if (r->nrules == RULES_MAX)
		return profile_bad(r, "more than %d conditional rules", RULES_MAX);
	if (c->nrules == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 4;
		struct seccomp_rule *p = realloc(c->rules, cap * sizeof *p);
		if (!p)
			return err_set(r->err, BRIG_E_NO_MEMORY, ENOMEM,
				       "seccomp", "%s", r->label);
		c->rules = p;
		c->cap = cap;
	}
	c->rules[c->nrules++] = *rule;
	r->nrules++;
	return 0;
}

/* Applies an entry to one name; when it does not apply here, still checks
 * that the name exists somewhere. */
static int apply(struct reader *r, const struct entry *e, const char *name,
		 bool here)
{
	char word[SHOWN_MAX];
	int nr = seccomp_call_number(name);

	if (nr == SECCOMP_NAME_UNKNOWN) {
		int ret = profile_bad(r, "there is no system call \"%s\"",
				      profile_shown(name, word));
		err_fix(r->err, "Check the spelling of \"%s\" or remove it;"
				" brig knows the calls of Linux 7.1.", word);
		return ret;
	}
	if (nr < 0 || !here || e->action == r->default_action)
		return 0;
	struct call *c = &r->calls[nr];
	if (c->fixed)
		return 0;
	if (e->nrules == 0) {
		c->fixed = true;
		c->action = e->action;
		r->nrules -= c->nrules;
		c->nrules = 0;
		return 0;
	}
	int ret = 0;
	for (size_t i = 0; i < e->nrules && ret == 0; i++)
		ret = add_rule(r, nr, &e->rules[i]);
	return ret;
}

static int read_entry(struct reader *r, const json_t *obj, struct entry *e)
{
	static const char *const keys[] = { "name", "names", "action",
					    "errnoRet", "errno", "args",
					    "comment", "includes", "excludes",
					    NULL };
	bool included = false, excluded = false;
	uint64_t errnum;
	size_t i;
	const json_t *s;

	int ret = profile_check_keys(r, obj, "the entry", keys);
	if (ret < 0)
		return ret;
	const json_t *name = profile_get(obj, "name");
	const json_t *names = profile_get(obj, "names");
	if (name && !json_is_string(name))
		return profile_bad(r, "\"name\" is not a string");
	/* Old encoders write an empty "name" beside "names". */
	if (name && names && json_string_length(name) == 0)
		name = NULL;
	if (!name == !names)
		return profile_bad(r, "an entry has either \"names\" or \"name\"");
	ret = profile_check_strings(r, names, "names");
	if (ret == 0 && names && json_array_size(names) == 0)
		ret = profile_bad(r, "\"names\" is empty");
	if (ret == 0 && profile_get(obj, "comment") &&
	    !json_is_string(profile_get(obj, "comment")))
		ret = profile_bad(r, "\"comment\" is not a string");
	if (ret == 0)
		ret = profile_get_errno(r, obj, "errnoRet", "errno", &errnum);
	if (ret == 0)
		ret = profile_read_action(r, profile_get(obj, "action"),
					  "action", errnum, &e->action);
	if (ret == 0)
		ret = read_args(r, profile_get(obj, "args"), e);
	if (ret == 0)
		ret = condition_holds(r, profile_get(obj, "includes"),
				      "\"includes\"", true, &included);
	if (ret == 0)
		ret = condition_holds(r, profile_get(obj, "excludes"),
				      "\"excludes\"", false, &excluded);
	if (ret < 0)
		return ret;
	bool here = included && !excluded;
	if (name)
		return apply(r, e, json_string_value(name), here);
	json_array_foreach(names, i, s) {
		ret = apply(r, e, json_string_value(s), here);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* "architectures" and "archMap" say what a filter could cover besides the
 * native architecture.  Ours covers only that, and refuses the rest, so the
 * names are checked for sense and otherwise not used. */
static int check_arch(const struct reader *r, const json_t *v)
{
	static const char prefix[] = "SCMP_ARCH_";
	char word[SHOWN_MAX];

	const char *name = json_is_string(v) ? json_string_value(v) : "?";
	if (strncmp(name, prefix, sizeof prefix - 1) != 0)
		return profile_bad(r, "architecture \"%s\" does not begin with %s",
				   profile_shown(name, word), prefix);
	return 0;
}

static int check_arches(const struct reader *r, const json_t *top)
{
	static const char *const keys[] = { "architecture", "subArchitectures",
					    NULL };
	const json_t *list = profile_get(top, "architectures");
	const json_t *map = profile_get(top, "archMap");
	const json_t *v, *sub;
	size_t i, j;
	int ret = 0;

	if (list && !json_is_array(list))
		return profile_bad(r, "\"architectures\" is not an array");
	if (map && !json_is_array(map))
		return profile_bad(r, "\"archMap\" is not an array");
	if (json_array_size(list) && json_array_size(map))
		return profile_bad(r, "use \"architectures\" or \"archMap\","
				      " not both");
	json_array_foreach(list, i, v)
		if ((ret = check_arch(r, v)) < 0)
			return ret;
	json_array_foreach(map, i, v) {
		ret = profile_check_keys(r, v, "\"archMap\"", keys);
		if (ret == 0)
			ret = check_arch(r, profile_get(v, "architecture"));
		const json_t *subs = profile_get(v, "subArchitectures");
		if (ret == 0)
			ret = profile_check_strings(r, subs, "subArchitectures");
		if (ret < 0)
			return ret;
		json_array_foreach(subs, j, sub)
			if ((ret = check_arch(r, sub)) < 0)
				return ret;
	}
	return 0;
}

static int read_profile(struct reader *r, const json_t *top)
{
	static const char *const keys[] = { "defaultAction", "defaultErrnoRet",
					    "defaultErrno", "architectures",
					    "archMap", "syscalls", NULL };
	uint64_t errnum;
	size_t i;
	const json_t *v;

	int ret = profile_check_keys(r, top, "the profile", keys);
	if (ret == 0)
		ret = profile_get_errno(r, top, "defaultErrnoRet", "defaultErrno",
					&errnum);
	if (ret == 0)
		ret = profile_read_action(r, profile_get(top, "defaultAction"),
					  "defaultAction", errnum,
					  &r->default_action);
	if (ret == 0)
		ret = check_arches(r, top);
	const json_t *entries = profile_get(top, "syscalls");
	if (ret == 0 && entries && !json_is_array(entries))
		ret = profile_bad(r, "\"syscalls\" is not an array");
	if (ret < 0)
		return ret;
	json_array_foreach(entries, i, v) {
		struct entry e = { 0 };
		r->entry = i;
		ret = read_entry(r, v, &e);
		free(e.rules);
		if (ret < 0)
			return ret;
	}
	r->entry = TOP;
	return 0;
}

static int compile(const struct reader *r, struct seccomp_prog **out)
{
	const uint32_t nosys = SECCOMP_RET_ERRNO | ENOSYS;
	struct seccomp_verdict calls[SECCOMP_NR_MAX];
	size_t ncalls = (size_t)seccomp_table_last(SECCOMP_ARCH_NATIVE) + 1;
	/* A profile that denies by default could not know calls that are newer
	 * than it; ENOSYS lets programs fall back, EPERM and kill break them.
	 * One that allows by default means what it says. */
	bool open = r->default_action == SECCOMP_RET_ALLOW ||
		    r->default_action == SECCOMP_RET_LOG;
	uint32_t unknown = open ? r->default_action : nosys;

	for (size_t nr = 0; nr < ncalls; nr++) {
		const struct call *c = &r->calls[nr];
		calls[nr] = (struct seccomp_verdict){ c->rules, c->nrules,
						      r->default_action };
		if (c->fixed)
			calls[nr].otherwise = c->action;
		else if (c->nrules == 0 && !seccomp_call_name((int)nr))
			calls[nr].otherwise = unknown;
	}
	struct seccomp_policy policy = {
		.audit_arch = seccomp_table_audit_arch(SECCOMP_ARCH_NATIVE),
		.calls = calls,
		.ncalls = ncalls,
		.above = unknown,
		/* The rules say nothing of these numbers: never let through. */
		.x32 = nosys,
		.foreign = nosys,
	};
	struct sock_filter *insns = NULL;
	unsigned short len = 0;
	struct seccomp_prog *prog = calloc(1, sizeof *prog);
	int ret = prog ? seccomp_bpf_compile(&policy, &insns, &len) : -ENOMEM;
	if (ret == 0) {
		*prog = (struct seccomp_prog){ .insns = insns, .len = len };
		*out = prog;
		return 0;
	}
	free(prog);
	if (ret == -E2BIG) {
		ret = profile_bad(r, "the filter would exceed the kernel's limit"
				     " of %d instructions", BPF_MAXINSNS);
		err_fix(r->err, "Use fewer conditions on arguments.");
		return ret;
	}
	return err_set(r->err, ret == -ENOMEM ? BRIG_E_NO_MEMORY :
						BRIG_E_INTERNAL,
		       -ret, "seccomp", "%s: cannot be compiled", r->label);
}

int seccomp_profile_compile(const char *json, size_t len, const char *label,
			    struct seccomp_prog **out, struct brig_error *err)
{
	struct utsname un;
	json_error_t jerr;
	char text[SHOWN_MAX];

	*out = NULL;
	struct reader *r = calloc(1, sizeof *r);
	if (!r)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "seccomp", "%s",
			       label);
	r->label = label;
	r->err = err;
	r->entry = TOP;
	/* A release we cannot read counts as 0.0: rules for newer kernels do
	 * not apply, which is the safe side for the allowing ones there are. */
	if (uname(&un) < 0 ||
	    sscanf(un.release, "%4d.%4d", &r->kernel[0], &r->kernel[1]) != 2)
		r->kernel[0] = r->kernel[1] = 0;

	int ret;
	json_t *top = json_loadb(json, len, JSON_REJECT_DUPLICATES, &jerr);
	if (top) {
		ret = read_profile(r, top);
		if (ret == 0)
			ret = compile(r, out);
		json_decref(top);
	} else {
		ret = profile_bad(r, "line %d, column %d: %s", jerr.line,
				  jerr.column, profile_shown(jerr.text, text));
		err_fix(err, "The profile must be one JSON object, with no key"
			     " twice and nothing after it.");
	}
	for (size_t i = 0; i < SECCOMP_NR_MAX; i++)
		free(r->calls[i].rules);
	free(r);
	return ret;
}

void seccomp_prog_free(struct seccomp_prog *prog)
{
	if (!prog)
		return;
	free((void *)prog->insns); /* only compile() makes these */
	free(prog);
}
