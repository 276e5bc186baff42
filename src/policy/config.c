/* SPDX-License-Identifier: Apache-2.0 */
/* What stands at the top of a configuration file. */
#include "policy/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/schema.h"

int config_complain(struct config *c, const struct config_file *f,
		    const struct ynode *at, const char *path, const char *what,
		    const char *fix)
{
	struct brig_error e = { 0 };
	char file[220], key[120], text[220]; /* all of them fit into a message */

	str_clean(f->path, file, sizeof file);
	str_clean(path, key, sizeof key);
	str_clean(what, text, sizeof text);
	err_set(&e, BRIG_E_BAD_CONFIG, 0, "config", "%s:%u:%u: %s: %s", file, at->line,
		at->column, key, text);
	err_fix(&e, "%s", fix);
	if (c->n_errors++ == 0)
		c->first = e;
	if (!c->report)
		return -EINVAL;
	c->report(c->report_arg, &e);
	return c->n_errors < CONFIG_MAX_ERRORS ? 0 : -EINVAL;
}

void config_join(char *out, size_t cap, const char *path, const char *key)
{
	size_t a = strnlen(path, cap / 2), dot = a > 0 && a + 1 < cap;

	memcpy(out, path, a);
	if (dot)
		out[a] = '.';
	a += dot;
	size_t b = strnlen(key, cap - 1 - a);
	memcpy(out + a, key, b);
	/* half a character would not be text any more */
	if (key[b])
		while (b > 0 && ((unsigned char)key[b] & 0xc0) == 0x80)
			b--;
	out[a + b] = '\0';
}

bool config_name_ok(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"0123456789._-");

	return n > 0 && n <= 64 && !name[n] && name[0] != '.';
}

/* A key of `sandbox:` one level too high. */
static bool is_sandbox_key(const char *key)
{
	for (unsigned i = 0; i < SCHEMA_ALIASES; i++)
		if (streq(schema_aliases[i].key, key))
			return true;
	return opt_by_key(key) != OPT__COUNT || schema_section(key);
}

static int bad_key(struct config *c, const struct config_file *f,
		   const struct ynode *key, const char *path,
		   const char *(*nth)(unsigned i))
{
	char fix[200];
	const char *best = NULL;
	unsigned least = 3;

	for (unsigned i = 0; nth(i); i++) {
		unsigned d = word_distance(key->text, nth(i));
		if (d < least) {
			least = d;
			best = nth(i);
		}
	}
	if (best) {
		snprintf(fix, sizeof fix, "did you mean '%s'?", best);
	} else if (is_sandbox_key(key->text)) {
		snprintf(fix, sizeof fix, "put it below 'sandbox:'");
	} else {
		int at = snprintf(fix, sizeof fix, "known here:");
		for (unsigned i = 0; nth(i) && (size_t)at < sizeof fix; i++)
			at += snprintf(fix + at, sizeof fix - (size_t)at, "%s %s",
				       i ? "," : "", nth(i));
	}
	return config_complain(c, f, key, path, "unknown key", fix);
}

static const char *nth_entry_key(unsigned i)
{
	static const char *const keys[] = { "sandbox", "description", NULL };
	return keys[i];
}

static const char *nth_top_key(unsigned i)
{
	return i < SCHEMA_TOP_COUNT ? schema_top[i].name : NULL;
}

/* One entry of `profiles:` or `tools:`. */
static int check_entry(struct config *c, const struct config_file *f,
		       const struct ynode *n, const char *path)
{
	char at[160];
	struct brig_spec scratch = { 0 };
	int r = 0;

	if (ynode_is_null(n))
		return 0;
	if (n->kind != YAML_MAP)
		return config_complain(c, f, n, path, "expected a mapping",
				       "write sandbox: below it");
	for (size_t i = 0; i < n->n && r == 0; i++) {
		const struct ynode *key = n->item[2 * i], *value = n->item[2 * i + 1];
		config_join(at, sizeof at, path, key->text);
		if (streq(key->text, "sandbox"))
			r = section_read(c, f, value, at, RANK_TOOL, "check", &scratch);
		else if (!streq(key->text, "description"))
			r = bad_key(c, f, key, at, nth_entry_key);
	}
	for (unsigned i = 0; i < OPT__COUNT; i++)
		request_unset(&scratch, (enum opt)i);
	strv_free(scratch.texts);
	return r;
}

static int check_entries(struct config *c, const struct config_file *f,
			 const struct ynode *n, const char *path)
{
	char at[120];
	int r = 0;

	if (ynode_is_null(n))
		return 0;
	if (n->kind != YAML_MAP)
		return config_complain(c, f, n, path, "expected a mapping of names",
				       "write NAME: {sandbox: {...}}");
	for (size_t i = 0; i < n->n && r == 0; i++) {
		const struct ynode *key = n->item[2 * i];
		config_join(at, sizeof at, path, key->text);
		bool any = streq(path, "tools") && streq(key->text, "*");
		if (!any && !config_name_ok(key->text))
			r = config_complain(c, f, key, at, "not a name",
					    "use letters, digits, '.', '_' and '-'");
		else
			r = check_entry(c, f, n->item[2 * i + 1], at);
	}
	return r;
}

static int check_version(struct config *c, const struct config_file *f,
			 const struct ynode *n)
{
	if (n->kind == YAML_SCALAR && streq(n->text, "1"))
		return 0;
	return config_complain(c, f, n, "version", "not a version this brig knows",
			       "write version: 1");
}

static int check_word(struct config *c, const struct config_file *f,
		      const struct ynode *n, const char *key)
{
	if (n->kind != YAML_SCALAR || ynode_is_null(n) || !*n->text)
		return config_complain(c, f, n, key, "expected a text", "give one word");
	if (streq(key, "profile") && !config_name_ok(n->text))
		return config_complain(c, f, n, key, "not the name of a profile",
				       "use letters, digits, '.', '_' and '-'");
	return 0;
}

static int check_top(struct config *c, const struct config_file *f,
		     const struct ynode *key, const struct ynode *n)
{
	struct brig_spec scratch = { 0 };
	const struct origin at = { .layer = "check" };
	int r;

	/* a tenant's file is an overlay: it cannot reach for other tenants */
	if (f->rank == RANK_TENANT &&
	    (streq(key->text, "tenants_dir") || streq(key->text, "profiles")))
		return config_complain(c, f, key, key->text, "not in a tenant's file",
				       "it belongs into the global configuration");
	if (streq(key->text, "version"))
		return check_version(c, f, n);
	if (streq(key->text, "profiles") || streq(key->text, "tools"))
		return check_entries(c, f, n, key->text);
	if (streq(key->text, "profile") || streq(key->text, "tenants_dir"))
		return check_word(c, f, n, key->text);
	if (streq(key->text, "include") || streq(key->text, "description"))
		return 0; /* read before, and for people */
	if (streq(key->text, "sandbox"))
		r = section_read(c, f, n, "sandbox", RANK_USER, "check", &scratch);
	else if (streq(key->text, "lock"))
		r = section_lock(c, f, n, "lock", &at, &scratch);
	else
		r = bad_key(c, f, key, key->text, nth_top_key);
	for (unsigned i = 0; i < OPT__COUNT; i++)
		request_unset(&scratch, (enum opt)i);
	strv_free(scratch.texts);
	return r;
}

int config_check_file(struct config *c, const struct config_file *f)
{
	const struct ynode *root = ydoc_root(f->doc);
	int r = 0;

	if (ynode_is_null(root))
		return 0; /* an empty file, or comments only */
	if (root->kind != YAML_MAP)
		return config_complain(c, f, root, "(top)", "expected a mapping",
				       "start with sandbox:");
	for (size_t i = 0; i < root->n && r == 0; i++)
		r = check_top(c, f, root->item[2 * i], root->item[2 * i + 1]);
	return r;
}

const struct ynode *config_top(const struct config *c, const char *key,
			       const struct config_file **from)
{
	const struct ynode *found = NULL;

	for (size_t i = 0; i < c->n; i++) {
		const struct ynode *n = ynode_get(ydoc_root(c->file[i].doc), key);
		if (n && n->kind == YAML_SCALAR) {
			found = n;
			*from = &c->file[i];
		}
	}
	return found;
}
