/* SPDX-License-Identifier: Apache-2.0 */
/* The resolved policy and the plan, for programs, people and models. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "base/fd.h"
#include "base/str.h"

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
static char *shown_value(enum opt o, const char *v)
{
	if (o == OPT_ENV)
		return str_fmt("%.*s", (int)strcspn(v, "="), v);
	return strdup(v);
}

static const char *origin_of(const struct brig_spec *rq, enum opt o)
{
	return rq->o[o].v ? rq->o[o].origin : "built-in";
}

static bool worth_showing(const struct brig_spec *rq, enum opt o)
{
	return opt_table[o].kind != OK_LATER && (rq->o[o].v || opt_table[o].def);
}

static void json_settings(struct json *j, const struct brig_spec *rq)
{
	jw_array(j);
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		enum opt o = (enum opt)i;
		if (!worth_showing(rq, o))
			continue;
		jw_object(j);
		jw_key(j, "name");
		jw_string(j, opt_table[o].name);
		jw_key(j, "key");
		jw_string(j, opt_table[o].key);
		jw_key(j, "value");
		if (opt_table[o].kind == OK_LIST) {
			jw_array(j);
			for (char **v = rq->o[o].v; v && *v; v++) {
				cleanup_free char *t = shown_value(o, *v);
				jw_string(j, t);
			}
			jw_end_array(j);
		} else if (opt_table[o].kind == OK_FLAG) {
			jw_bool(j, true);
		} else {
			jw_string(j, request_text(rq, o));
		}
		jw_key(j, "origin");
		jw_string(j, origin_of(rq, o));
		jw_end_object(j);
	}
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

static void json_env_names(struct json *j, char **env)
{
	jw_array(j);
	for (; env && *env; env++) {
		cleanup_free char *name = shown_value(OPT_ENV, *env);
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

char *explain_json(const struct brig_spec *rq, const struct plan *p, size_t *len)
{
	const struct spec *s = p->spec;
	struct buf b = { 0 };
	struct json j;

	jw_init(&j, &b);
	jw_object(&j);
	jw_key(&j, "v");
	jw_int(&j, 1);
	jw_key(&j, "backend");
	jw_string(&j, request_text(rq, OPT_BACKEND));
	jw_key(&j, "settings");
	json_settings(&j, rq);
	jw_key(&j, "require");
	json_layers(&j, s->required);
	jw_key(&j, "workspace");
	jw_object(&j);
	jw_key(&j, "source");
	jw_string(&j, s->workspace.src);
	jw_key(&j, "path");
	jw_string(&j, s->workspace.dst);
	jw_key(&j, "cwd");
	jw_string(&j, p->cwd);
	jw_end_object(&j);
	jw_key(&j, "identity");
	jw_object(&j);
	jw_key(&j, "uid_inside");
	jw_uint(&j, s->in_uid);
	jw_key(&j, "uid_outside");
	jw_uint(&j, s->host_uid);
	jw_key(&j, "id_mapped_mounts");
	jw_bool(&j, s->idmapped);
	jw_end_object(&j);
	jw_key(&j, "network");
	jw_object(&j);
	jw_key(&j, "mode");
	jw_string(&j, s->net == NET_HOST ? "host" : "none");
	jw_key(&j, "loopback");
	jw_bool(&j, s->loopback);
	jw_end_object(&j);
	jw_key(&j, "limits");
	json_limits(&j, &s->limits);
	jw_key(&j, "env");
	json_env_names(&j, s->env);
	jw_key(&j, "protect");
	json_protect(&j, p);
	jw_key(&j, "plan");
	jw_array(&j);
	for (size_t i = 0; i < p->n_ops; i++)
		json_op(&j, &p->ops[i]);
	jw_end_array(&j);
	jw_key(&j, "command");
	jw_array(&j);
	for (char **a = s->argv; *a; a++)
		jw_string(&j, *a);
	jw_end_array(&j);
	jw_end_object(&j);
	return buf_take(&b, len);
}

/* " text", with nothing in it that could drive a terminal. */
static void add_shown(struct buf *b, const char *text)
{
	cleanup_free char *shown = str_printable(text);

	buf_addf(b, " %s", shown ? shown : "?");
}

static void heading(struct buf *b, const char *text, bool colour)
{
	buf_addf(b, "%s%s%s\n", colour ? "\033[1m" : "", text, colour ? "\033[0m" : "");
}

static void text_settings(struct buf *b, const struct brig_spec *rq)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		enum opt o = (enum opt)i;
		if (!worth_showing(rq, o))
			continue;
		char **v = rq->o[o].v;
		size_t n = 0;
		do {
			const char *raw = v ? v[n] : opt_table[o].def;
			cleanup_free char *val = shown_value(o, raw && *raw ? raw : "yes");
			cleanup_free char *show = val ? str_printable(val) : NULL;
			buf_addf(b, "  %-12s %-28s %s\n", opt_table[o].name,
				 show ? show : "?", origin_of(rq, o));
		} while (v && v[++n]);
	}
}

static void text_plan(struct buf *b, const struct plan *p)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];
		if (op->kind == OP_DIR || op->kind == OP_SYMLINK)
			continue;
		cleanup_free char *dst = str_printable(op->dst);
		cleanup_free char *src = str_printable(op->src ? op->src : "");
		const char *mode = op->kind == OP_BIND ?
					   (op->flags & OPF_RO ? "ro" : "rw") : "";
		bool from = op->kind == OP_BIND && src && dst && !streq(src, dst);
		buf_addf(b, "  %-9s %-2s  %s%s%s\n", plan_op_name(op->kind), mode,
			 dst ? dst : "?", from ? "  from " : "", from ? src : "");
	}
}

char *explain_text(const struct brig_spec *rq, const struct plan *p, bool colour)
{
	const struct spec *s = p->spec;
	struct buf b = { 0 };

	heading(&b, "Settings (value, where it comes from)", colour);
	text_settings(&b, rq);
	heading(&b, "Must hold, or nothing runs", colour);
	buf_adds(&b, " ");
	for (unsigned i = 0; i < LAYER__COUNT; i++)
		if (s->required & LAYER_BIT(i))
			buf_addf(&b, " %s", layer_name((enum layer)i));
	buf_adds(&b, "\n");
	heading(&b, "Identity", colour);
	buf_addf(&b, "  uid %u inside is uid %u outside%s\n", s->in_uid, s->host_uid,
		 s->idmapped ? ", workspace shown through an id map" : "");
	heading(&b, "Environment (names)", colour);
	buf_adds(&b, " ");
	for (char **e = s->env; e && *e; e++)
		{
			cleanup_free char *name = shown_value(OPT_ENV, *e);
			add_shown(&b, name ? name : "?");
		}
	buf_adds(&b, "\n");
	heading(&b, "Network", colour);
	buf_addf(&b, "  %s\n", s->net == NET_HOST ?
		 "the host's own: NOT isolated" :
		 s->loopback ? "none; a private loopback only" : "none at all");
	heading(&b, "Root tree, in order", colour);
	text_plan(&b, p);
	heading(&b, "Protected in the workspace, if they appear", colour);
	buf_adds(&b, " ");
	for (size_t i = 0; i < p->protect.n; i++)
		if (p->protect.v[i].kind == PROTECT_ABSENT)
			add_shown(&b, p->protect.v[i].path);
	buf_adds(&b, "\n");
	return buf_take(&b, NULL);
}

char *explain_for_model(const struct plan *p)
{
	const struct spec *s = p->spec;
	struct buf b = { 0 };
	char mem[32], tmp[32];
	/* a newline in a directory's name must not become a line of the prompt */
	cleanup_free char *dst = str_printable(s->workspace.dst);
	cleanup_free char *cwd = str_printable(p->cwd);
	cleanup_free char *home = str_printable(s->home);

	if (!dst || !cwd || !home)
		return NULL;

	buf_addf(&b,
		 "Your commands run in a sandbox, a fresh one for each call.\n"
		 "- You may read and write %s (the workspace); it persists. "
		 "The working directory is %s.\n"
		 "- /tmp, /dev/shm and %s are private, hold %s in all, and are empty "
		 "again at the next call.\n"
		 "- The rest of the file system is read-only or not there.\n",
		 dst, cwd, home, size_text(s->limits.tmp_size, tmp));
	for (size_t i = 0; i < s->n_binds; i++) {
		cleanup_free char *shown = str_printable(s->binds[i].dst);
		buf_addf(&b, "- %s is available %s.\n", shown ? shown : "?",
			 s->binds[i].writable ? "for reading and writing" : "read-only");
	}
	if (s->net == NET_HOST)
		buf_adds(&b, "- The network is available.\n");
	else
		buf_addf(&b, "- There is no network: do not try to download or install "
			     "anything%s.\n",
			 s->loopback ? "; servers you start yourself on 127.0.0.1 work" :
				       "");
	if (s->limits.timeout_ms) {
		uint64_t ms = s->limits.timeout_ms % 1000;
		buf_addf(&b, "- A call is stopped after %" PRIu64,
			 s->limits.timeout_ms / 1000);
		if (ms)
			buf_addf(&b, ".%03" PRIu64, ms);
		buf_adds(&b, " seconds.\n");
	}
	if (s->limits.memory)
		buf_addf(&b, "- Use at most %s of memory.\n",
			 size_text(s->limits.memory, mem));
	if (s->limits.pids)
		buf_addf(&b, "- At most %" PRIu64 " processes and threads at a time.\n",
			 s->limits.pids);
	buf_adds(&b, "- You are not root and cannot become root, mount, or make "
		     "namespaces.\n");
	if (!s->protect || !s->protect[0])
		return buf_take(&b, NULL);
	buf_adds(&b, "- Do not create or change these in the workspace (it is "
		     "prevented or undone):");
	bool first = true;
	for (char **q = s->protect; q && *q; q++) {
		buf_adds(&b, first ? "" : ",");
		add_shown(&b, *q);
		first = false;
	}
	buf_adds(&b, ".\n");
	return buf_take(&b, NULL);
}
