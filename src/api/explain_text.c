/* SPDX-License-Identifier: Apache-2.0 */
/* The policy and the plan as text: for a person, and for a model's prompt. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "backend/backend.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/envrules.h"

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

/* One line per word: value, where it is written, whether it is locked. */
static void text_settings(struct buf *b, const struct brig_spec *rq)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		enum opt o = (enum opt)i;
		const struct req_value *rv = &rq->o[o];
		if (!explain_shows(rq, o))
			continue;
		const char *key = opt_table[o].key ? opt_table[o].key : opt_table[o].name;
		size_t n = 0;
		do {
			const char *raw = rv->v ? rv->v[n] : rv->here ? "(empty)" :
							     opt_table[o].def;
			cleanup_free char *val = explain_value(o, raw);
			cleanup_free char *show = val ? str_printable(val) : NULL;
			char from[400];
			origin_text(rv->here ? &rv->at[n] : NULL, from, sizeof from);
			buf_addf(b, "  %-20s %-28s %s%s\n", key, show ? show : "?", from,
				 rq->lock[o].layer ? ", locked" : "");
		} while (rv->v && rv->v[++n]);
	}
}

static void text_workspace(struct buf *b, const struct spec *s)
{
	bool elsewhere = !streq(s->workspace.src, s->workspace.dst);

	buf_adds(b, " ");
	add_shown(b, s->workspace.src);
	if (elsewhere) {
		buf_adds(b, " is shown at");
		add_shown(b, s->workspace.dst);
	}
	buf_adds(b, s->workspace.writable ? ", read-write\n" : ", read-only\n");
	cleanup_free char *cwd = str_fmt("%s%s%s", s->workspace.dst, *s->cwd ? "/" : "", s->cwd);
	buf_adds(b, "  working directory");
	add_shown(b, cwd ? cwd : "?");
	buf_addc(b, '\n');
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

static void text_env(struct buf *b, const struct spec *s)
{
	buf_adds(b, " ");
	for (char **e = s->env; e && *e; e++) {
		cleanup_free char *name = explain_value(OPT_ENV, *e);
		add_shown(b, name ? name : "?");
		if (env_looks_secret(*e))
			buf_adds(b, "(secret)");
	}
	buf_adds(b, "\n");
}

static void text_network(struct buf *b, const struct spec *s)
{
	if (s->net == NET_ALLOW) {
		if (s->learn)
			buf_adds(b, "  learning: EVERY public host name\n");
		buf_adds(b, s->allow ? "  only:" : "  nothing: the allow-list is empty");
		for (char **a = s->allow; a && *a; a++)
			add_shown(b, *a);
		const struct backend *be = backend_get(s->backend);
		buf_addf(b, "\n  %s\n", be && be->allow_list ? be->allow_list :
				       "this backend cannot keep to an allow-list: refused");
		return;
	}
	buf_addf(b, "  %s\n", s->net == NET_HOST ? "the host's own: NOT isolated" :
		 s->loopback ? "none; a private loopback only" : "none at all");
}

static void text_protect(struct buf *b, const struct plan *p)
{
	buf_adds(b, " ");
	for (size_t i = 0; i < p->protect.n; i++)
		if (p->protect.v[i].kind == PROTECT_ABSENT)
			add_shown(b, p->protect.v[i].path);
	buf_adds(b, "\n");
}

char *explain_text(const struct explained *x, bool colour)
{
	const struct spec *s = x->spec;
	struct buf b = { 0 };
	char list[200];

	heading(&b, "Settings (value, where it comes from)", colour);
	text_settings(&b, x->rq);
	heading(&b, "Must hold, or nothing runs", colour);
	layers_list(s->required, list, sizeof list);
	buf_addf(&b, "  %s\n", list);
	heading(&b, "Workspace", colour);
	text_workspace(&b, s);
	heading(&b, "Identity", colour);
	buf_addf(&b, "  uid %u inside is uid %u outside%s\n", s->in_uid, s->host_uid,
		 s->idmapped ? ", workspace shown through an id map" : "");
	heading(&b, "Environment (names)", colour);
	text_env(&b, s);
	if (s->notes) {
		heading(&b, "The caller's tools", colour);
		for (char **n = s->notes; *n; n++) {
			buf_adds(&b, " ");
			add_shown(&b, *n);
			buf_adds(&b, "\n");
		}
	}
	heading(&b, "Network", colour);
	text_network(&b, s);
	if (x->described) {
		heading(&b, "What the backend is told", colour);
		buf_adds(&b, x->described);
	}
	if (x->plan) {
		heading(&b, "Root tree, in order", colour);
		text_plan(&b, x->plan);
		heading(&b, "Protected in the workspace, if they appear", colour);
		text_protect(&b, x->plan);
	}
	return buf_take(&b, NULL);
}

char *explain_for_model(const struct spec *s)
{
	struct buf b = { 0 };
	char mem[32], tmp[32];
	/* a newline in a directory's name must not become a line of the prompt */
	cleanup_free char *dst = str_printable(s->workspace.dst);
	cleanup_free char *in = str_fmt("%s%s%s", s->workspace.dst, *s->cwd ? "/" : "",
					s->cwd);
	cleanup_free char *cwd = in ? str_printable(in) : NULL;
	cleanup_free char *home = str_printable(s->home);

	if (!dst || !cwd || !home)
		return NULL;

	buf_addf(&b,
		 "Your commands run in a sandbox, a fresh one for each call.\n"
		 "- You may read %s%s (the workspace); it persists. "
		 "The working directory is %s.\n"
		 "- /tmp, /dev/shm and %s are private, hold %s in all, and are empty "
		 "again at the next call.\n"
		 "- The rest of the file system is read-only or not there.\n",
		 s->workspace.writable ? "and write " : "but not write ", dst, cwd, home,
		 size_text(s->limits.tmp_size, tmp));
	for (size_t i = 0; i < s->n_binds; i++) {
		cleanup_free char *shown = str_printable(s->binds[i].dst);
		buf_addf(&b, "- %s is available %s.\n", shown ? shown : "?",
			 s->binds[i].writable ? "for reading and writing" : "read-only");
	}
	if (s->net == NET_HOST) {
		buf_adds(&b, "- The network is available.\n");
	} else if (s->net == NET_ALLOW && s->learn) {
		buf_adds(&b, "- Every public host name can be reached by TCP.\n");
	} else if (s->net == NET_ALLOW) {
		buf_adds(&b, "- Of the network only this can be reached:");
		for (char **a = s->allow; a && *a; a++)
			add_shown(&b, *a);
		buf_adds(&b, s->allow ? "\n" : " nothing\n");
		if (s->backend == BACKEND_LANDLOCK)
			buf_adds(&b, "  Use programs that heed the proxy variables (they are "
				     "set); names do not resolve, and servers cannot be "
				     "started.\n");
	} else
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
