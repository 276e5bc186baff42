/* SPDX-License-Identifier: Apache-2.0 */
/* One `sandbox:` section of a file into a layer, by the table of options. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/config.h"
#include "policy/schema.h"

/* What every function here needs to know. */
struct ctx {
	struct config *c;
	const struct config_file *f;
	enum layer_rank rank;
	const char *layer;
	struct brig_spec *out;
};

static struct origin origin_at(const struct ctx *x, const struct ynode *n)
{
	return (struct origin){ x->rank, x->layer, x->f->path, n->line, n->column };
}

static int complain(const struct ctx *x, const struct ynode *n, const char *path,
		    const char *what, const char *fix)
{
	return config_complain(x->c, x->f, n, path, what, fix);
}

/* Aliases repeat nodes without copying them; walking them has a price. */
static int walk(struct config *c, const struct config_file *f, const struct ynode *n,
		const char *path)
{
	if (++c->steps <= CONFIG_MAX_STEPS)
		return 0;
	config_complain(c, f, n, path, "too many values (aliases that multiply?)",
			"write the values out");
	return -E2BIG;
}

static int step(const struct ctx *x, const struct ynode *n, const char *path)
{
	return walk(x->c, x->f, n, path);
}

static int expected(const struct ctx *x, const struct ynode *n, const char *path,
		    enum opt o)
{
	char what[160];
	static const char *const kinds[] = { "a single value", "a list", "a mapping" };

	snprintf(what, sizeof what, "expected %s, found %s", opt_expects(o),
		 ynode_is_null(n) ? "nothing" : kinds[n->kind]);
	char fix[160];
	snprintf(fix, sizeof fix, "give %s", opt_expects(o));
	return complain(x, n, path, what, fix);
}

/* ~ and relative paths; for SRC:DST the source only. */
static char *absolute(const struct ctx *x, enum opt o, const char *text)
{
	unsigned flags = opt_table[o].flags;

	if (o == OPT_SECCOMP && streq(text, "default"))
		return strdup(text);
	if (flags & (OPTF_PATH | OPTF_BIND))
		return config_path(x->c, x->f, text);
	return strdup(text);
}

static int put(const struct ctx *x, enum opt o, const struct ynode *n,
	       const char *path, const char *text)
{
	struct brig_error e = { 0 };
	struct origin at = origin_at(x, n);

	int r = opt_check(o, path, text, &e);
	if (r < 0) {
		/* the message starts with the path already */
		size_t skip = strlen(path) + 2;
		return complain(x, n, path, strlen(e.message) > skip ?
				e.message + skip : e.message, e.fix);
	}
	cleanup_free char *value = absolute(x, o, text);
	if (!value)
		return x->c->home ? -ENOMEM :
		       complain(x, n, path, "'~' without a home directory",
				"write the path out");
	return request_put(x->out, o, value, &at);
}

static int put_scalar(const struct ctx *x, enum opt o, const struct ynode *n,
		      const char *path)
{
	const struct opt_def *d = &opt_table[o];
	int yes = ynode_bool(n);

	if (n->kind != YAML_SCALAR || ynode_is_null(n))
		return expected(x, n, path, o);
	if (d->kind == OK_FLAG) {
		if (yes < 0)
			return expected(x, n, path, o);
		return put(x, o, n, path, yes ? "true" : "false");
	}
	/* loopback: true means on */
	if (d->kind == OK_CHOICE && yes >= 0 && word_one_of(d->words, "on"))
		return put(x, o, n, path, yes ? "on" : "off");
	return put(x, o, n, path, n->text);
}

/* "PATH[i]" with i below CONFIG_MAX_WORDS, without printf as in config_join(). */
static void item_path(char out[200], const char *path, size_t i)
{
	size_t n = strnlen(path, 150);

	memcpy(out, path, n);
	out[n++] = '[';
	for (size_t unit = i >= 100 ? 100 : i >= 10 ? 10 : 1; unit; unit /= 10)
		out[n++] = (char)('0' + i / unit % 10);
	out[n++] = ']';
	out[n] = '\0';
}

static int put_list(const struct ctx *x, enum opt o, const struct ynode *n,
		    const char *path)
{
	struct origin at = origin_at(x, n);
	char where[200];

	if (n->kind == YAML_SCALAR && !ynode_is_null(n))
		return put(x, o, n, path, n->text); /* one word is a list of one */
	if (n->kind != YAML_LIST)
		return expected(x, n, path, o);
	if (opt_table[o].kind == OK_ARGV && n->n < 2)
		return complain(x, n, path, "a list needs a program and its arguments",
				"write it as a text, or list every word");
	if (n->n > CONFIG_MAX_WORDS)
		return complain(x, n, path, "a list of more than 1000 words", "shorten it");
	int r = n->n ? 0 : request_clear(x->out, o, &at);
	for (size_t i = 0; i < n->n && r == 0; i++) {
		item_path(where, path, i);
		r = step(x, n->item[i], where);
		if (r < 0)
			break;
		if (n->item[i]->kind != YAML_SCALAR || ynode_is_null(n->item[i]))
			r = complain(x, n->item[i], where, "expected a word", "give a text");
		else
			r = put(x, o, n->item[i], where, n->item[i]->text);
	}
	return r;
}

/* What no run could set would be refused there, long after the file was checked. */
static bool name_ok(const char *name)
{
	const char *p = name;

	while ((unsigned char)*p > ' ' && *p != '=' && *p != 0x7f)
		p++;
	return *name && !*p;
}

static int put_pairs(const struct ctx *x, enum opt o, const struct ynode *n,
		     const char *path)
{
	struct origin at = origin_at(x, n);
	char where[160];

	if (n->kind != YAML_MAP)
		return expected(x, n, path, o);
	int r = n->n ? 0 : request_clear(x->out, o, &at);
	for (size_t i = 0; i < n->n && r == 0; i++) {
		const struct ynode *key = n->item[2 * i], *value = n->item[2 * i + 1];
		config_join(where, sizeof where, path, key->text);
		r = step(x, key, where);
		if (r < 0)
			break;
		if (!name_ok(key->text)) {
			r = complain(x, key, where, "not the name of a variable",
				     "use letters, digits and '_'");
			continue;
		}
		if (value->kind != YAML_SCALAR || (!value->quoted && ynode_is_null(value) &&
						   *value->text)) {
			r = complain(x, value, where, "expected a text",
				     "quote the value");
			continue;
		}
		struct origin here = origin_at(x, key);
		cleanup_free char *pair = str_fmt("%s=%s", key->text, value->text);
		r = pair ? request_put(x->out, o, pair, &here) : -ENOMEM;
	}
	return r;
}

static int put_value(const struct ctx *x, enum opt o, const struct ynode *n,
		     const char *path)
{
	switch (opt_table[o].kind) {
	case OK_LIST:
	case OK_WORDS:
	case OK_ARGV:
		return put_list(x, o, n, path);
	case OK_PAIRS:
		return put_pairs(x, o, n, path);
	default:
		return put_scalar(x, o, n, path);
	}
}

static int put_alias(const struct ctx *x, const struct schema_alias *a,
		     const struct ynode *key, const struct ynode *n, const char *path)
{
	char text[64], what[100], fix[160];

	if (x->out->o[a->opt].here) {
		snprintf(what, sizeof what, "set twice: it is %s", opt_table[a->opt].key);
		return complain(x, key, path, what, "keep one of them");
	}
	if (n->kind == YAML_SCALAR && a->convert(n->text, text, sizeof text) == 0)
		return put(x, a->opt, n, path, text);
	snprintf(fix, sizeof fix, "give %s", a->expects);
	return complain(x, n, path, "not a valid value", fix);
}

int section_lock(struct config *c, const struct config_file *f,
		 const struct ynode *n, const char *path, const struct origin *at,
		 struct brig_spec *out)
{
	bool list = n->kind == YAML_LIST;

	if (!list && (n->kind != YAML_SCALAR || ynode_is_null(n)))
		return config_complain(c, f, n, path, "expected a list of keys",
				       "write lock: [mode, network, limits.memory]");
	for (size_t i = 0; i < (list ? n->n : 1); i++) {
		const struct ynode *k = list ? n->item[i] : n;
		struct origin here = *at;
		int r = walk(c, f, k, path);
		if (r < 0)
			return r;
		here.file = f->path;
		here.line = k->line;
		here.column = k->column;
		bool known = false;
		const char *key = k->kind == YAML_SCALAR ? k->text : "";
		if (strncmp(key, "sandbox.", 8) == 0)
			key += 8;
		for (unsigned a = 0; a < SCHEMA_ALIASES; a++) /* in its other spelling */
			if (streq(schema_aliases[a].key, key))
				key = opt_table[schema_aliases[a].opt].key;
		for (unsigned o = 0; o < OPT__COUNT && *key; o++) {
			if (!opt_table[o].key || !(streq(key, "all") ||
						   opt_key_covers(key, (enum opt)o)))
				continue;
			known = true;
			if (!out->lock[o].layer)
				out->lock[o] = here;
			/* another backend by way of a fallback is another backend */
			if (o == OPT_BACKEND && !out->lock[OPT_FALLBACK].layer)
				out->lock[OPT_FALLBACK] = here;
		}
		if (known)
			continue;
		char fix[200], section[40];
		const char *dot = strchr(key, '.');
		snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - key) : 0, key);
		if (!schema_section(section)) {
			section[0] = '\0';
			dot = NULL;
		}
		schema_suggest(section, dot ? dot + 1 : key, fix, sizeof fix);
		r = config_complain(c, f, k, path, "not a key of sandbox", fix);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_map(const struct ctx *x, const struct ynode *n, const char *path,
		    const char *section);

static int read_key(const struct ctx *x, const struct ynode *key,
		    const struct ynode *value, const char *path, const char *section)
{
	char full[64], at[160], fix[200];

	config_join(at, sizeof at, path, key->text);
	config_join(full, sizeof full, section, key->text);
	int r = step(x, key, at);
	if (r < 0)
		return r;
	if (!*section && streq(key->text, "lock")) {
		struct origin o = origin_at(x, value);
		return section_lock(x->c, x->f, value, at, &o, x->out);
	}
	enum opt o = opt_by_key(full);
	if (o != OPT__COUNT) {
		if (!x->out->o[o].here)
			return put_value(x, o, value, at);
		return complain(x, key, at, "set twice in one place, under two names",
				"keep one of them");
	}
	const struct schema_section *sec = *section ? NULL : schema_section(key->text);
	if (sec && value->kind == YAML_MAP)
		return read_map(x, value, at, sec->name);
	if (sec && ynode_is_null(value))
		return 0;
	if (sec && sec->scalar != OPT__COUNT && value->kind == YAML_SCALAR)
		return put_scalar(x, sec->scalar, value, at); /* network: none */
	if (sec)
		return complain(x, value, at, "expected a mapping",
				"write KEY: VALUE lines below it");
	for (unsigned i = 0; !*section && i < SCHEMA_ALIASES; i++)
		if (streq(schema_aliases[i].key, key->text))
			return put_alias(x, &schema_aliases[i], key, value, at);
	schema_suggest(section, key->text, fix, sizeof fix);
	return complain(x, key, at, "unknown key", fix);
}

static int read_map(const struct ctx *x, const struct ynode *n, const char *path,
		    const char *section)
{
	int r = 0;

	for (size_t i = 0; i < n->n && r == 0; i++)
		r = read_key(x, n->item[2 * i], n->item[2 * i + 1], path, section);
	return r;
}

/* What cannot both be meant. */
static int check_together(const struct ctx *x, const struct ynode *n,
			  const char *path)
{
	const struct brig_spec *s = x->out;
	char at[160];

	if (s->o[OPT_LEARN].v && request_flag(s, OPT_LEARN) && s->o[OPT_NET].v &&
	    !streq(s->o[OPT_NET].v[0], "allow")) {
		const struct ynode place = { .line = s->o[OPT_LEARN].at[0].line,
					     .column = s->o[OPT_LEARN].at[0].column };
		snprintf(at, sizeof at, "%.120s.network", path);
		return complain(x, &place, at, "learn together with a mode that has no allow-list",
				"remove learn, or set mode: allow");
	}
	if (s->o[OPT_ALLOW].v && s->o[OPT_NET].v && !streq(s->o[OPT_NET].v[0], "allow")) {
		const struct ynode place = { .line = s->o[OPT_ALLOW].at[0].line,
					     .column = s->o[OPT_ALLOW].at[0].column };
		snprintf(at, sizeof at, "%.120s.network", path);
		return complain(x, &place, at, streq(s->o[OPT_NET].v[0], "none") ?
				"mode none together with an allow-list" :
				"mode host together with an allow-list",
				"remove the list, or set mode: allow");
	}
	(void)n;
	return 0;
}

int section_read(struct config *c, const struct config_file *f,
		 const struct ynode *n, const char *path, enum layer_rank rank,
		 const char *layer, struct brig_spec *out)
{
	struct ctx x = { c, f, rank, layer, out };

	if (ynode_is_null(n))
		return 0;
	if (n->kind == YAML_SCALAR) /* sandbox: docker */
		return put_scalar(&x, OPT_BACKEND, n, path);
	if (n->kind != YAML_MAP)
		return complain(&x, n, path, "expected a mapping",
				"write KEY: VALUE lines below it");
	int r = read_map(&x, n, path, "");
	return r == 0 ? check_together(&x, n, path) : r;
}
