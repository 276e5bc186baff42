/* SPDX-License-Identifier: Apache-2.0 */
/* The result object, version 1. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/json.h"
#include "base/fd.h"
#include "brig.h"

void json_error(struct json *j, const struct brig_error *e)
{
	if (e->code == BRIG_E_OK) {
		jw_null(j);
		return;
	}
	jw_object(j);
	jw_key(j, "code");
	jw_string(j, brig_code_name(e->code));
	jw_key(j, "phase");
	jw_string(j, e->phase);
	jw_key(j, "message");
	jw_string(j, e->message);
	jw_key(j, "fix");
	jw_string(j, e->fix);
	jw_end_object(j);
}

void json_layers(struct json *j, unsigned bits)
{
	jw_array(j);
	for (unsigned i = 0; i < LAYER__COUNT; i++)
		if (bits & LAYER_BIT(i))
			jw_string(j, layer_name((enum layer)i));
	jw_end_array(j);
}

static void hex(struct json *j, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIx64, v);
	jw_key(j, key);
	jw_string(j, text);
}

static void decimal(struct json *j, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, v);
	jw_key(j, key);
	jw_string(j, text);
}

static void json_evidence(struct json *j, const struct brig_result *r)
{
	const struct evidence *e = &r->evidence;

	if (!r->have_evidence) {
		jw_null(j);
		return;
	}
	jw_object(j);
	if (e->source) {
		jw_key(j, "source");
		jw_string(j, e->source);
	}
	jw_key(j, "seccomp");
	jw_int(j, e->seccomp);
	jw_key(j, "seccomp_filters");
	jw_int(j, e->seccomp_filters);
	jw_key(j, "no_new_privs");
	jw_int(j, e->no_new_privs);
	hex(j, "cap_inh", e->cap_inh);
	hex(j, "cap_prm", e->cap_prm);
	hex(j, "cap_eff", e->cap_eff);
	hex(j, "cap_bnd", e->cap_bnd);
	hex(j, "cap_amb", e->cap_amb);
	jw_key(j, "uid_outside");
	jw_uint(j, e->uid_host);
	jw_key(j, "landlock");
	jw_object(j);
	jw_key(j, "abi");
	jw_int(j, e->landlock_abi);
	jw_key(j, "probe_errno");
	jw_int(j, e->landlock_canary);
	jw_end_object(j);
	jw_key(j, "namespaces");
	jw_object(j);
	for (int i = 0; i < EV_NS_COUNT; i++)
		decimal(j, layer_name((enum layer)i), e->ns[i]);
	jw_end_object(j);
	jw_key(j, "cgroup");
	jw_array(j);
	if (e->cgroup & CG_MEMORY)
		jw_string(j, "memory");
	if (e->cgroup & CG_PIDS)
		jw_string(j, "pids");
	if (e->cgroup & CG_CPU)
		jw_string(j, "cpu");
	jw_end_array(j);
	jw_key(j, "rlimit_nproc");
	if (e->nproc)
		jw_uint(j, e->nproc);
	else
		jw_null(j);
	jw_end_object(j);
}

static void json_denied(struct json *j, const struct brig_result *r)
{
	jw_array(j);
	for (size_t i = 0; i < r->n_denied; i++) {
		const struct denial *d = &r->denied[i];
		jw_object(j);
		jw_key(j, "kind");
		jw_string(j, d->kind);
		jw_key(j, "target");
		jw_string(j, d->target);
		jw_key(j, "rule");
		jw_string(j, d->rule);
		jw_key(j, "fix");
		jw_string(j, d->fix);
		jw_key(j, "count");
		jw_uint(j, d->count);
		jw_end_object(j);
	}
	jw_end_array(j);
}

static void json_stream(struct json *j, const char *key,
			const struct brig_result *r, const struct capture *c)
{
	jw_key(j, key);
	if (!r->captured) {
		jw_null(j);
		return;
	}
	size_t len = 0;
	cleanup_free char *text = capture_text(c, &len);
	if (text)
		jw_bytes(j, text, len);
	else
		j->out->failed = true;
}

static void json_usage(struct json *j, const struct brig_result *r)
{
	jw_object(j);
	jw_key(j, "wall_ms");
	jw_fixed(j, r->wall_ms, 1);
	jw_key(j, "cpu_ms");
	jw_fixed(j, r->cpu_ms, 1);
	jw_key(j, "max_rss_kb");
	jw_uint(j, r->max_rss_kb);
	jw_key(j, "setup_us");
	jw_uint(j, r->setup_us);
	jw_end_object(j);
}

char *brig_result_json(const struct brig_result *r, size_t *len)
{
	struct buf b = { 0 };
	struct json j;

	jw_init(&j, &b);
	jw_object(&j);
	jw_key(&j, "v");
	jw_int(&j, 1);
	jw_key(&j, "id");
	jw_string(&j, r->id);
	if (r->name) {
		jw_key(&j, "name");
		jw_string(&j, r->name);
	}
	jw_key(&j, "ran");
	jw_bool(&j, r->ran);
	jw_key(&j, "exit");
	if (r->exit_code >= 0)
		jw_int(&j, r->exit_code);
	else
		jw_null(&j);
	jw_key(&j, "signal");
	if (r->signal)
		jw_int(&j, r->signal);
	else
		jw_null(&j);
	jw_key(&j, "timed_out");
	jw_bool(&j, r->timed_out);
	jw_key(&j, "oom");
	jw_bool(&j, r->oom);
	json_stream(&j, "stdout", r, &r->out);
	json_stream(&j, "stderr", r, &r->err);
	jw_key(&j, "truncated");
	jw_object(&j);
	jw_key(&j, "stdout");
	jw_uint(&j, r->out.dropped);
	jw_key(&j, "stderr");
	jw_uint(&j, r->err.dropped);
	jw_end_object(&j);
	jw_key(&j, "backend");
	jw_string(&j, r->backend);
	jw_key(&j, "enforced");
	json_layers(&j, r->enforced);
	jw_key(&j, "missing");
	json_layers(&j, r->missing);
	jw_key(&j, "evidence");
	json_evidence(&j, r);
	jw_key(&j, "denied");
	json_denied(&j, r);
	if (r->learning)
		learned_json(&j, r);
	jw_key(&j, "changes");
	jw_null(&j);
	jw_key(&j, "usage");
	json_usage(&j, r);
	jw_key(&j, "error");
	json_error(&j, &r->error);
	jw_end_object(&j);
	return buf_take(&b, len);
}
