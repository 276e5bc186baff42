/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files from bytes: the reader of YAML, the check of a whole file,
 * all layers on top of one another, and the converters of other programs'
 * settings.  A byte that no text has (0xff) separates the system's file, the
 * user's and a tenant's; without one the input is the user's.  Nothing is opened.
 *
 * A refusal must have a code, a message and a place inside the text; what was
 * accepted must merge in the same way twice, with an origin for every word, and
 * must never be looser than a lock; what a converter makes must load.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "policy/import.h"
#include "policy/load.h"
#include "policy/merge.h"

enum { BYTES_MAX = 16384, NAMES_MAX = 4 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	setenv("HOME", "/home/somebody", 1);
	unsetenv("ASTRBOT_LOCAL_WORKSPACE_ROOT");
	return 0;
}

#define must(x)             \
	do {                \
		if (!(x))   \
			abort(); \
	} while (0)

static void check_error(const struct brig_error *e)
{
	must(e->code != BRIG_E_OK && (unsigned)e->code < BRIG_E__COUNT);
	must(e->message[0] && e->phase[0]);
	must(strnlen(e->message, sizeof e->message) < sizeof e->message);
	must(strnlen(e->fix, sizeof e->fix) < sizeof e->fix);
}

static unsigned count_lines(const char *text, size_t len)
{
	unsigned n = 1;

	for (size_t i = 0; i < len; i++)
		/* what YAML takes for the end of a line, at most */
		n += text[i] == '\n' || text[i] == '\r' || (unsigned char)text[i] >= 0x80;
	return n;
}

static void count_report(void *arg, const struct brig_error *e)
{
	check_error(e);
	++*(size_t *)arg;
}

/* Adds a file to the config as if it had been read.  False when it is refused. */
static bool add_file(struct config *c, const char *text, size_t len,
		     enum layer_rank rank, const char *layer)
{
	struct ywhere w;
	struct config_file f = { .rank = rank, .layer = layer };
	size_t heard = 0;

	int r = ydoc_parse(text, len, &f.doc, &w);
	if (r < 0) {
		must(r == -EINVAL || r == -E2BIG || r == -ENOMEM);
		must(w.what[0] && w.line <= count_lines(text, len) + 1);
		return false;
	}
	f.path = strdup("file.yaml");
	f.dir = strdup("/etc/brig");
	/* once with everything reported, once stopping at the first */
	c->report = count_report;
	c->report_arg = &heard;
	c->n_errors = 0;
	int all = config_check_file(c, &f);
	must(heard == c->n_errors);
	c->report = NULL;
	c->n_errors = 0;
	c->steps = 0;
	c->first = (struct brig_error){ 0 };
	int first = config_check_file(c, &f);
	must((first < 0) == (heard > 0 || all < 0));
	if (first < 0)
		check_error(&c->first);
	c->file[c->n++] = f;
	return first == 0;
}

static void check_words(const struct brig_spec *s)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct req_value *rv = &s->o[i];
		size_t n = strv_len(rv->v);
		must(rv->here || !rv->v);
		for (size_t k = 0; k < n + (n == 0 && rv->here); k++)
			must(rv->at[k].layer && (!rv->at[k].file || rv->at[k].line));
		/* a value that got this far has the right form */
		if (n && !strchr("\x01", (char)opt_table[i].kind) &&
		    opt_table[i].kind != OK_PAIRS && !(opt_table[i].flags))
			must(opt_check((enum opt)i, "x", rv->v[0], NULL) == 0);
	}
}

static bool same(const struct brig_spec *a, const struct brig_spec *b)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		if (strv_len(a->o[i].v) != strv_len(b->o[i].v) ||
		    a->o[i].here != b->o[i].here || !a->lock[i].layer != !b->lock[i].layer)
			return false;
		for (size_t k = 0; a->o[i].v && a->o[i].v[k]; k++)
			if (!streq(a->o[i].v[k], b->o[i].v[k]))
				return false;
	}
	return true;
}

static void layers(struct config *c, const char *profile, const char *tool)
{
	struct brig_spec *rq = brig_spec_new(), *one = brig_spec_new(),
			 *two = brig_spec_new();
	struct brig_error err = { 0 }, again = { 0 };

	if (!rq || !one || !two)
		abort();
	if (profile && request_set(rq, OPT_PROFILE, profile, "fuzz", &err) < 0)
		check_error(&err);
	if (tool && request_set(rq, OPT_TOOL, tool, "fuzz", &err) < 0)
		check_error(&err);
	must(request_set(rq, OPT_RO, "/opt/run", "fuzz", &err) == 0);
	must(request_set(rq, OPT_ENV, "RUN=1", "fuzz", &err) == 0);
	err = (struct brig_error){ 0 };
	c->steps = 0;
	int r = policy_layers(c, rq, one, &err);
	c->steps = 0;
	must(policy_layers(c, rq, two, &again) == r);
	if (r < 0) {
		check_error(&err);
		must(err.code == again.code && streq(err.message, again.message));
	} else {
		check_words(one);
		must(same(one, two));
		/* a run that says nothing changes nothing */
		struct brig_spec *empty = brig_spec_new();
		must(empty && layer_apply(one, empty, &err) == 0 && same(one, two));
		brig_spec_free(empty);
	}
	brig_spec_free(rq);
	brig_spec_free(one);
	brig_spec_free(two);
}

static void names(struct config *c, const char *section, bool tool)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct ynode *n = ynode_get(ydoc_root(c->file[i].doc), section);
		for (size_t k = 0; n && n->kind == YAML_MAP && k < n->n && k < NAMES_MAX; k++)
			layers(c, tool ? NULL : n->item[2 * k]->text,
			       tool ? n->item[2 * k]->text : NULL);
	}
}

static void imports(const char *text, size_t len)
{
	struct ydoc *d = NULL;
	struct ywhere w;

	if (ydoc_parse(text, len, &d, &w) < 0)
		return;
	for (const struct import_from *f = import_table; f->name; f++) {
		struct buf b = { 0 };
		struct config c;
		struct config_file made = { .path = (char *)"made", .dir = (char *)"/" };
		size_t n;
		w = (struct ywhere){ 0 };
		int r = f->convert(ydoc_root(d), &b, &w);
		char *out = buf_take(&b, &n);
		must(r == 0 || w.what[0]);
		if (r == 0) {
			config_init(&c);
			/* a text too long for one scalar's buffer may be refused, not more */
			must(out && ydoc_parse(out, n, &made.doc, &w) == 0);
			(void)config_check_file(&c, &made);
			ydoc_free(made.doc);
			config_free(&c);
		}
		free(out);
	}
	ydoc_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		enum layer_rank rank;
		const char *layer;
	} kinds[] = { { RANK_SYSTEM, "system" }, { RANK_USER, "user" },
		      { RANK_TENANT, "tenant" } };
	const char *text = (const char *)data;
	struct config c;
	bool good = true;

	if (size > BYTES_MAX)
		return 0;
	config_init(&c);
	c.file = calloc(ARRAY_LEN(kinds), sizeof *c.file);
	if (!c.file)
		abort();
	bool one = !memchr(text, 0xff, size);
	for (size_t i = one; i < ARRAY_LEN(kinds) && text; i++) {
		size_t left = size - (size_t)(text - (const char *)data);
		const char *end = memchr(text, 0xff, left);
		size_t n = end ? (size_t)(end - text) : left;
		good = add_file(&c, text, n, kinds[i].rank, kinds[i].layer) && good;
		text = end ? end + 1 : NULL;
	}
	if (good) {
		layers(&c, NULL, NULL);
		layers(&c, "strict", "fetch");
		names(&c, "profiles", false);
		names(&c, "tools", true);
	}
	config_free(&c);
	if (one)
		imports((const char *)data, size);
	return 0;
}
