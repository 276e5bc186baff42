/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/seccomp_docker.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "confine/seccomp_default.h"

/* What a call that no entry names gets.  Refusals with another errno need an
 * entry of their own. */
#define DEFAULT_ERRNO EPERM

static bool allows(uint32_t action)
{
	return (action & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ALLOW;
}

/* One condition on one argument, as the format can say it. */
struct arg {
	bool used, not_equal;
	uint64_t mask, value;
};

static uint64_t full_mask(const struct seccomp_cond *c)
{
	return c->low32 ? UINT32_MAX : UINT64_MAX;
}

/* Adds a condition of an ALLOW rule; what cannot be said is left out, which
 * allows more. */
static void merge(struct arg *a, const struct seccomp_cond *c)
{
	uint64_t mask = c->op == SECCOMP_OP_EQ ? full_mask(c) : c->mask;

	if (c->op != SECCOMP_OP_EQ && c->op != SECCOMP_OP_MASKED_EQ)
		return;
	a->used = true;
	a->mask |= mask;
	a->value |= c->value & mask;
}

static void write_args(struct json *j, const struct arg args[6])
{
	jw_key(j, "args");
	jw_array(j);
	for (int i = 0; i < 6; i++) {
		if (!args[i].used)
			continue;
		jw_object(j);
		jw_key(j, "index");
		jw_int(j, i);
		jw_key(j, "value");
		jw_uint(j, args[i].not_equal ? args[i].value : args[i].mask);
		jw_key(j, "valueTwo");
		jw_uint(j, args[i].not_equal ? 0 : args[i].value);
		jw_key(j, "op");
		jw_string(j, args[i].not_equal ? "SCMP_CMP_NE" : "SCMP_CMP_MASKED_EQ");
		jw_end_object(j);
	}
	jw_end_array(j);
}

static void entry(struct json *j, const char *name, uint32_t action, const struct arg *args)
{
	jw_object(j);
	jw_key(j, "names");
	jw_array(j);
	jw_string(j, name);
	jw_end_array(j);
	jw_key(j, "action");
	jw_string(j, allows(action) ? "SCMP_ACT_ALLOW" : "SCMP_ACT_ERRNO");
	if (!allows(action)) {
		jw_key(j, "errnoRet");
		jw_uint(j, action & SECCOMP_RET_DATA);
	}
	if (args)
		write_args(j, args);
	jw_end_object(j);
}

/* "Everything but": one refused value can be said, more cannot. */
static void allow_but(struct json *j, const char *name, const struct seccomp_verdict *v)
{
	const struct seccomp_rule *r = v->rules;
	struct arg args[6] = { { 0 } };

	if (v->nrules != 1 || r->nconds != 1 || r->conds[0].op != SECCOMP_OP_EQ) {
		entry(j, name, SECCOMP_RET_ALLOW, NULL);
		return;
	}
	args[r->conds[0].arg] = (struct arg){ .used = true, .not_equal = true,
					      .value = r->conds[0].value };
	entry(j, name, SECCOMP_RET_ALLOW, args);
}

static void verdict(struct json *j, const char *name, const struct seccomp_verdict *v)
{
	if (allows(v->otherwise)) {
		allow_but(j, name, v);
		return;
	}
	bool any = false;
	for (size_t i = 0; i < v->nrules; i++) {
		struct arg args[6] = { { 0 } };
		bool used = false;
		if (!allows(v->rules[i].action))
			continue;
		for (unsigned c = 0; c < v->rules[i].nconds; c++)
			merge(&args[v->rules[i].conds[c].arg], &v->rules[i].conds[c]);
		for (int a = 0; a < 6; a++)
			used = used || args[a].used;
		entry(j, name, SECCOMP_RET_ALLOW, used ? args : NULL);
		any = true;
	}
	/* beside conditional entries an unconditional one would win: what does
	 * not match gets the default */
	if (!any && (v->otherwise & SECCOMP_RET_DATA) != DEFAULT_ERRNO)
		entry(j, name, v->otherwise, NULL);
}

int seccomp_docker_json(struct buf *out)
{
	struct seccomp_default_policy *p = malloc(sizeof *p);
	const char *problem, *which;
	struct json j;

	if (!p)
		return -ENOMEM;
	int r = seccomp_default_build(SECCOMP_ARCH_NATIVE, false, p, &problem, &which);
	if (r < 0) {
		free(p);
		return r;
	}
	jw_init(&j, out);
	jw_object(&j);
	jw_key(&j, "defaultAction");
	jw_string(&j, "SCMP_ACT_ERRNO");
	jw_key(&j, "syscalls");
	jw_array(&j);
	const char *name;
	for (size_t i = 0; (name = seccomp_table_entry(i)); i++) {
		int nr = seccomp_table_number(SECCOMP_ARCH_NATIVE, name);
		if (nr >= 0)
			verdict(&j, name, &p->calls[nr]);
	}
	jw_end_array(&j);
	jw_end_object(&j);
	free(p);
	return buf_ok(out) ? 0 : -ENOMEM;
}
