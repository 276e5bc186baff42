/* SPDX-License-Identifier: Apache-2.0 */
/* The resolved policy and the plan, for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "backend/backend.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/envrules.h"

const char *size_text(uint64_t bytes, char buf[32])
{
	static const char units[] = { 'T', 'G', 'M', 'K' };

	if (!bytes)
		return "none";
	for (unsigned i = 0; i < sizeof units; i++) {
		unsigned shift = 10 * (4 - i);
		if (bytes >> shift && !(bytes & ((1ull << shift) - 1))) {
			snprintf(buf, 32, "%" PRIu64 "%c", bytes >> shift, units[i]);
			return buf;
		}
	}
	snprintf(buf, 32, "%" PRIu64, bytes);
	return buf;
}

/* Values may be secrets (--env NAME=VALUE): only names are shown. */
char *explain_value(enum opt o, const char *v)
{
	if (o == OPT_ENV)
		return str_fmt("%.*s", (int)strcspn(v, "="), v);
	return strdup(v);
}

bool explain_shows(const struct brig_spec *rq, enum opt o)
{
	return opt_table[o].kind != OK_LATER && (rq->o[o].here || opt_table[o].def);
}

static bool is_list(enum opt o)
{
	enum opt_kind k = opt_table[o].kind;

	return k == OK_LIST || k == OK_WORDS || k == OK_PAIRS || k == OK_ARGV;
}

static void json_origin(struct json *j, const struct origin *at)
{
	char text[400];

	origin_text(at, text, sizeof text);
	jw_key(j, "origin");
	jw_string(j, text);
	jw_key(j, "layer");
	jw_string(j, at ? at->layer : "built-in");
	jw_key(j, "file");
	jw_string(j, at ? at->file : NULL);
	jw_key(j, "line");
	if (at && at->file) {
		jw_uint(j, at->line);
		jw_key(j, "column");
		jw_uint(j, at->column);
	} else {
		jw_null(j);
	}
}

static void json_words(struct json *j, const struct brig_spec *rq, enum opt o)
{
	bool failed;
	char **list = request_list(rq, o, &failed);

	jw_array(j);
	for (char **v = list; v && *v; v++) {
		cleanup_free char *t = explain_value(o, *v);
		jw_string(j, t);
	}
	jw_end_array(j);
	strv_free(list);
}

static void json_settings(struct json *j, const struct brig_spec *rq)
{
	jw_array(j);
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		enum opt o = (enum opt)i;
		if (!explain_shows(rq, o))
			continue;
		jw_object(j);
		jw_key(j, "name");
		jw_string(j, opt_table[o].name ? opt_table[o].name : opt_table[o].key);
		jw_key(j, "key");
		jw_string(j, opt_table[o].key);
		jw_key(j, "value");
		if (is_list(o))
			json_words(j, rq, o);
		else if (opt_table[o].kind == OK_FLAG)
			jw_bool(j, request_flag(rq, o));
		else
			jw_string(j, request_text(rq, o));
		/* of a list, where its last word is from */
		size_t n = strv_len(rq->o[o].v);
		json_origin(j, rq->o[o].here ? &rq->o[o].at[n ? n - 1 : 0] : NULL);
		jw_key(j, "locked");
		char lock[400];
		origin_text(&rq->lock[o], lock, sizeof lock);
		jw_string(j, rq->lock[o].layer ? lock : NULL);
		jw_end_object(j);
	}
	jw_end_array(j);
}

static void json_strings(struct json *j, char **v)
{
	jw_array(j);
	for (; v && *v; v++)
		jw_string(j, *v);
	jw_end_array(j);
}

static void json_op(struct json *j, const struct plan_op *op)
{
	jw_object(j);
	jw_key(j, "op");
	jw_string(j, plan_op_name(op->kind));
	jw_key(j, "path");
	jw_string(j, op->dst);
	if (op->kind == OP_BIND) {
		jw_key(j, "source");
		jw_string(j, op->src);
		jw_key(j, "writable");
		jw_bool(j, !(op->flags & OPF_RO));
	}
	if (op->kind == OP_SYMLINK) {
		jw_key(j, "target");
		jw_string(j, op->text);
	}
	jw_end_object(j);
}

static void json_env(struct json *j, char **env)
{
	jw_key(j, "env");
	jw_array(j);
	for (char **e = env; e && *e; e++) {
		cleanup_free char *name = explain_value(OPT_ENV, *e);
		jw_string(j, name);
	}
	jw_end_array(j);
	/* by name only, so that whoever reads this knows what not to print */
	jw_key(j, "env_secrets");
	jw_array(j);
	for (char **e = env; e && *e; e++) {
		cleanup_free char *name = explain_value(OPT_ENV, *e);
		if (env_looks_secret(*e))
			jw_string(j, name);
	}
	jw_end_array(j);
}

static void json_protect(struct json *j, const struct plan *p)
{
	static const char *const how[] = {
		[PROTECT_ABSENT] = "absent: moved aside if it appears",
		[PROTECT_RO] = "read-only",
		[PROTECT_PIN] = "cannot be renamed",
		[PROTECT_SYMLINK] = "link: restored if it changes",
		[PROTECT_WATCHED] = "has another name: moved aside if it is written by that",
	};
	jw_array(j);
	for (size_t i = 0; i < p->protect.n; i++) {
		jw_object(j);
		jw_key(j, "path");
		jw_string(j, p->protect.v[i].path);
		jw_key(j, "how");
		jw_string(j, how[p->protect.v[i].kind]);
		jw_end_object(j);
	}
	jw_end_array(j);
}

static void json_limits(struct json *j, const struct spec_limits *l)
{
	jw_object(j);
	jw_key(j, "timeout_ms");
	jw_uint(j, l->timeout_ms);
	jw_key(j, "memory");
	jw_uint(j, l->memory);
	jw_key(j, "cpu_milli");
	jw_uint(j, l->cpu_milli);
	jw_key(j, "pids");
	jw_uint(j, l->pids);
	jw_key(j, "tmp_size");
	jw_uint(j, l->tmp_size);
	jw_key(j, "file_size");
	jw_uint(j, l->file_size);
	jw_key(j, "max_output");
	jw_uint(j, l->max_output);
	jw_end_object(j);
}

static void json_network(struct json *j, const struct spec *s)
{
	static const char *const modes[] = { [NET_NONE] = "none", [NET_ALLOW] = "allow",
					     [NET_HOST] = "host" };
	jw_key(j, "network");
	jw_object(j);
	jw_key(j, "mode");
	jw_string(j, modes[s->net]);
	jw_key(j, "allow");
	json_strings(j, s->allow);
	if (s->learn) {
		jw_key(j, "learn");
		jw_bool(j, true);
	}
	if (s->proxy_env) {
		jw_key(j, "proxy_env");
		jw_bool(j, true);
	}
	jw_key(j, "loopback");
	jw_bool(j, s->loopback);
	if (s->net == NET_ALLOW) {
		const struct backend *b = backend_get(s->backend);
		jw_key(j, "how"); /* null: it is refused */
		jw_string(j, b ? b->allow_list : NULL);
	}
	jw_end_object(j);
}

static void json_workspace(struct json *j, const struct spec *s)
{
	jw_key(j, "workspace");
	jw_object(j);
	jw_key(j, "source");
	jw_string(j, s->workspace.src);
	jw_key(j, "path");
	jw_string(j, s->workspace.dst);
	jw_key(j, "writable");
	jw_bool(j, s->workspace.writable);
	jw_key(j, "cwd");
	cleanup_free char *cwd = str_fmt("%s%s%s", s->workspace.dst, *s->cwd ? "/" : "",
					 s->cwd);
	jw_string(j, cwd);
	jw_end_object(j);
	jw_key(j, "identity");
	jw_object(j);
	jw_key(j, "uid_inside");
	jw_uint(j, s->in_uid);
	jw_key(j, "uid_outside");
	jw_uint(j, s->host_uid);
	jw_key(j, "id_mapped_mounts");
	jw_bool(j, s->idmapped);
	jw_end_object(j);
}

static void json_backend(struct json *j, const struct brig_spec *rq,
			 const struct spec *s)
{
	jw_key(j, "backend");
	jw_string(j, request_text(rq, OPT_BACKEND));
	jw_key(j, "fallback");
	json_words(j, rq, OPT_FALLBACK);
	jw_key(j, "image");
	jw_string(j, s->image);
	jw_key(j, "runtime");
	jw_string(j, s->runtime);
	jw_key(j, "read_only");
	jw_bool(j, !s->writable_root);
	jw_key(j, "drop_caps");
	json_strings(j, s->drop_caps);
	jw_key(j, "add_caps");
	json_strings(j, s->add_caps);
	jw_key(j, "seccomp");
	jw_string(j, s->seccomp_path ? s->seccomp_path : "default");
}

static void json_plan(struct json *j, const struct explained *x)
{
	const struct plan *p = x->plan;

	jw_key(j, "protect");
	if (p)
		json_protect(j, p);
	else
		json_strings(j, x->spec->protect);
	jw_key(j, "plan");
	jw_array(j);
	for (size_t i = 0; p && i < p->n_ops; i++)
		json_op(j, &p->ops[i]);
	jw_end_array(j);
	jw_key(j, "backend_plan");
	jw_string(j, x->described);
}

char *explain_json(const struct explained *x, size_t *len)
{
	const struct spec *s = x->spec;
	struct buf b = { 0 };
	struct json j;

	jw_init(&j, &b);
	jw_object(&j);
	jw_key(&j, "v");
	jw_int(&j, 1);
	json_backend(&j, x->rq, s);
	jw_key(&j, "settings");
	json_settings(&j, x->rq);
	jw_key(&j, "require");
	json_layers(&j, s->required);
	json_workspace(&j, s);
	json_network(&j, s);
	jw_key(&j, "limits");
	json_limits(&j, &s->limits);
	json_env(&j, s->env);
	jw_key(&j, "toolchains");
	json_strings(&j, s->notes);
	jw_key(&j, "masked");
	jw_array(&j);
	for (char **m = s->masks; m && *m; m++)
		jw_string(&j, *m);
	for (char **m = s->key_masks; m && *m; m++)
		jw_string(&j, *m);
	jw_end_array(&j);
	json_plan(&j, x);
	jw_key(&j, "command");
	json_strings(&j, s->argv);
	jw_end_object(&j);
	return buf_take(&b, len);
}
