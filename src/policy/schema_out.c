/* SPDX-License-Identifier: Apache-2.0 */
/* What is written from the tables: JSON Schema, the commented file, the manual. */
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "policy/load.h"
#include "policy/schema.h"

static const char *leaf(const char *key)
{
	const char *dot = strrchr(key, '.');

	return dot ? dot + 1 : key;
}

static bool is_list(enum opt_kind k)
{
	return k == OK_LIST || k == OK_WORDS || k == OK_ARGV;
}

/* "string" or ["string", "array"]: what a value of this kind may be. */
static void json_type(struct json *j, enum opt_kind kind)
{
	static const char *const flag[] = { "boolean", NULL };
	static const char *const list[] = { "array", "string", NULL };
	static const char *const pairs[] = { "object", NULL };
	static const char *const number[] = { "number", "string", NULL };
	static const char *const text[] = { "string", NULL };
	const char *const *t = kind == OK_FLAG ? flag :
			       is_list(kind) ? list :
			       kind == OK_PAIRS ? pairs :
			       kind == OK_SIZE || kind == OK_COUNT || kind == OK_MILLI ?
			       number : text;

	jw_key(j, "type");
	if (!t[1]) {
		jw_string(j, t[0]);
		return;
	}
	jw_array(j);
	for (; *t; t++)
		jw_string(j, *t);
	jw_end_array(j);
}

static void json_words(struct json *j, const char *words)
{
	jw_key(j, "enum");
	jw_array(j);
	for (const char *w = words; w; w = strchr(w, '|')) {
		w += *w == '|';
		cleanup_free char *word = strndup(w, strcspn(w, "|"));
		jw_string(j, word);
		/* YAML reads a plain on or off as a truth value */
		if (word && (streq(word, "on") || streq(word, "off")))
			jw_bool(j, streq(word, "on"));
	}
	jw_end_array(j);
}

static void json_option(struct json *j, enum opt o)
{
	const struct opt_def *d = &opt_table[o];

	jw_key(j, leaf(d->key));
	jw_object(j);
	jw_key(j, "description");
	jw_string(j, d->help);
	if (d->kind == OK_CHOICE)
		json_words(j, d->words);
	else
		json_type(j, d->kind);
	if (is_list(d->kind)) {
		jw_key(j, "items");
		jw_object(j);
		jw_key(j, "type");
		jw_string(j, "string");
		jw_end_object(j);
	}
	if (d->def && !is_list(d->kind)) {
		jw_key(j, "default");
		if (d->kind == OK_FLAG)
			jw_bool(j, streq(d->def, "true"));
		else
			jw_string(j, d->def);
	}
	jw_end_object(j);
}

/* The options of a section; "" is `sandbox:` itself. */
static void json_options(struct json *j, const char *section)
{
	size_t n = strlen(section);

	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const char *key = opt_table[i].key;
		if (key && (n ? strncmp(key, section, n) == 0 && key[n] == '.' :
				!strchr(key, '.')))
			json_option(j, (enum opt)i);
	}
}

static void open_object(struct json *j, const char *help)
{
	jw_object(j);
	jw_key(j, "description");
	jw_string(j, help);
	/* a key with nothing behind it is an empty mapping */
	jw_key(j, "type");
	jw_array(j);
	jw_string(j, "object");
	jw_string(j, "null");
	jw_end_array(j);
	jw_key(j, "additionalProperties");
	jw_bool(j, false);
	jw_key(j, "properties");
	jw_object(j);
}

static void close_object(struct json *j)
{
	jw_end_object(j);
	jw_end_object(j);
}

static void json_lock(struct json *j)
{
	jw_key(j, "lock");
	jw_object(j);
	jw_key(j, "description");
	jw_string(j, "keys that no later layer may loosen; a section locks all of its keys");
	json_type(j, OK_LIST);
	jw_key(j, "items");
	jw_object(j);
	jw_key(j, "type");
	jw_string(j, "string");
	jw_end_object(j);
	jw_end_object(j);
}

/* A section, or a plain word in its place: `network: none`. */
static void open_or_word(struct json *j, enum opt scalar, const char *help)
{
	if (scalar != OPT__COUNT) {
		jw_object(j);
		jw_key(j, "anyOf");
		jw_array(j);
		jw_object(j);
		json_words(j, opt_table[scalar].words);
		jw_end_object(j);
	}
	open_object(j, help);
}

static void close_or_word(struct json *j, enum opt scalar)
{
	close_object(j);
	if (scalar != OPT__COUNT) {
		jw_end_array(j);
		jw_end_object(j);
	}
}

static void json_sandbox(struct json *j)
{
	open_or_word(j, OPT_BACKEND, "the policy of one layer");
	json_options(j, "");
	for (unsigned i = 0; i < SCHEMA_ALIASES; i++) {
		jw_key(j, schema_aliases[i].key);
		jw_object(j);
		jw_key(j, "description");
		jw_string(j, schema_aliases[i].help);
		jw_key(j, "type");
		jw_string(j, "number");
		jw_end_object(j);
	}
	json_lock(j);
	for (unsigned i = 0; i < SCHEMA_SECTIONS; i++) {
		const struct schema_section *s = &schema_sections[i];
		jw_key(j, s->name);
		open_or_word(j, s->scalar, s->help);
		json_options(j, s->name);
		close_or_word(j, s->scalar);
	}
	close_or_word(j, OPT_BACKEND);
}

static void json_named(struct json *j, const char *help)
{
	jw_object(j);
	jw_key(j, "description");
	jw_string(j, help);
	jw_key(j, "type");
	jw_array(j);
	jw_string(j, "object");
	jw_string(j, "null");
	jw_end_array(j);
	jw_key(j, "additionalProperties");
	open_object(j, "one layer");
	jw_key(j, "description");
	jw_object(j);
	jw_key(j, "type");
	jw_string(j, "string");
	jw_end_object(j);
	jw_key(j, "sandbox");
	jw_object(j);
	jw_key(j, "$ref");
	jw_string(j, "#/$defs/sandbox");
	jw_end_object(j);
	close_object(j);
	jw_end_object(j);
}

static void json_top(struct json *j, const struct schema_top *t)
{
	jw_key(j, t->name);
	if (streq(t->name, "profiles") || streq(t->name, "tools")) {
		json_named(j, t->help);
		return;
	}
	jw_object(j);
	jw_key(j, "description");
	jw_string(j, t->help);
	if (streq(t->name, "sandbox")) {
		jw_key(j, "$ref");
		jw_string(j, "#/$defs/sandbox");
	} else if (streq(t->name, "version")) {
		jw_key(j, "const");
		jw_int(j, 1);
	} else {
		json_type(j, streq(t->type, "list") ? OK_LIST : OK_TEXT);
	}
	jw_end_object(j);
}

void schema_json(struct buf *out)
{
	struct json j;

	jw_init(&j, out);
	jw_object(&j);
	jw_key(&j, "$schema");
	jw_string(&j, "https://json-schema.org/draft/2020-12/schema");
	jw_key(&j, "title");
	jw_string(&j, "brig configuration");
	jw_key(&j, "type");
	jw_string(&j, "object");
	jw_key(&j, "additionalProperties");
	jw_bool(&j, false);
	jw_key(&j, "properties");
	jw_object(&j);
	for (unsigned i = 0; i < SCHEMA_TOP_COUNT; i++)
		json_top(&j, &schema_top[i]);
	jw_end_object(&j);
	jw_key(&j, "$defs");
	jw_object(&j);
	jw_key(&j, "sandbox");
	json_sandbox(&j);
	jw_end_object(&j);
	jw_end_object(&j);
	buf_addc(out, '\n');
}

/* The default as it would be written in a file. */
static void add_default(struct buf *b, enum opt o)
{
	const struct opt_def *d = &opt_table[o];
	const char *text = d->def ? d->def : d->example ? d->example :
			   d->kind == OK_FLAG ? "false" : "";

	if (!d->def || !is_list(d->kind)) {
		buf_adds(b, text);
		return;
	}
	buf_addc(b, '[');
	for (const char *p = text; *p; p++) {
		if (*p == ',')
			buf_addc(b, ',');
		buf_addc(b, *p == ',' ? ' ' : *p);
	}
	buf_addc(b, ']');
}

static void template_options(struct buf *b, const char *section, const char *indent)
{
	size_t n = strlen(section);

	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const char *key = opt_table[i].key;
		if (!key || (n ? strncmp(key, section, n) != 0 || key[n] != '.' :
				 strchr(key, '.') != NULL))
			continue;
		buf_addf(b, "#%s# %s\n#%s%s: ", indent, opt_table[i].help, indent, leaf(key));
		add_default(b, (enum opt)i);
		buf_addc(b, '\n');
	}
}

void schema_template(struct buf *out)
{
	buf_adds(out,
		 "# brig configuration.  Everything is commented out: what you see are the\n"
		 "# defaults, or examples where there is none.  Check it with\n"
		 "#   brig config check FILE\n"
		 "# and see what holds, and why, with\n"
		 "#   brig config show --effective\n"
		 "#\n"
		 "# Later layers win: built-in, /etc/brig/config.yaml, your own file, profile,\n"
		 "# tenant, tool, the run.  A list that opens something is taken whole from the\n"
		 "# last file that sets it; a list that closes something adds up.\n\n"
		 "version: 1\n\n");
	buf_adds(out, "#sandbox:\n");
	template_options(out, "", "  ");
	for (unsigned i = 0; i < SCHEMA_SECTIONS; i++) {
		const struct schema_section *s = &schema_sections[i];
		buf_addf(out, "#\n#  # %s\n#  %s:\n", s->help, s->name);
		template_options(out, s->name, "    ");
	}
	buf_adds(out, "\n# Keys that later layers may tighten, but not loosen.\n"
		      "#lock: [mode, limits]\n"
		      "\n# The profile that applies when a run names none.\n");
	for (unsigned i = 0; ; i++) {
		const char *text, *name = profile_nth(i, &text);
		if (!name)
			break;
		buf_addf(out, "#   %-14s %s\n", name, text);
	}
	buf_adds(out, "#profile: default\n"
		      "\n# Profiles of your own, and what single tools get.\n"
		      "#profiles:\n#  quick:\n#    sandbox: {limits: {timeout: 5}}\n"
		      "#tools:\n#  fetch:\n"
		      "#    sandbox: {network: {allow: [\"api.example.com:443\"]}}\n"
		      "\n# One NAME.yaml per tenant.\n#tenants_dir: ~/.brig/tenants\n");
}

/* Text in a manual page: a backslash and a dot in front mean something there. */
static void man_text(struct buf *b, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\')
			buf_adds(b, "\\e");
		else if (*s == '-')
			buf_adds(b, "\\-");
		else
			buf_addc(b, *s);
	}
}

static void man_item(struct buf *b, const char *name, const char *expects,
		     const char *def, const char *help)
{
	buf_adds(b, ".TP\n.B ");
	man_text(b, name);
	buf_adds(b, "\n");
	man_text(b, help);
	buf_adds(b, ".\nExpected: ");
	man_text(b, expects);
	if (def) {
		buf_adds(b, ". Default: ");
		man_text(b, def);
	}
	buf_adds(b, ".\n");
}

void schema_man(struct buf *out)
{
	buf_adds(out, ".\\\" SPDX-License-Identifier: Apache-2.0\n"
		      ".\\\" Made from the tables by brig config man.  Do not edit.\n"
		      ".TH BRIG\\-CONFIG 5 \"\" brig\n.SH NAME\n"
		      "brig\\-config \\- the keys of a brig configuration file\n"
		      ".SH DESCRIPTION\n"
		      "A configuration is YAML. How layers combine, what locks do and where\n"
		      "files are looked for is told in\n.BR brig (1).\n"
		      ".SH AT THE TOP\n");
	for (unsigned i = 0; i < SCHEMA_TOP_COUNT; i++)
		man_item(out, schema_top[i].name, schema_top[i].type, NULL,
			 schema_top[i].help);
	buf_adds(out, ".SH BELOW SANDBOX\nThe same keys in\n.BR sandbox ,\n"
		      ".BI profiles. NAME .sandbox\nand\n.BI tools. NAME .sandbox .\n");
	for (unsigned i = 0; i < OPT__COUNT; i++)
		if (opt_table[i].key)
			man_item(out, opt_table[i].key, opt_expects((enum opt)i),
				 opt_table[i].def, opt_table[i].help);
	buf_adds(out, ".SH OTHER SPELLINGS\nAccepted as operators already write them.\n");
	for (unsigned i = 0; i < SCHEMA_ALIASES; i++)
		man_item(out, schema_aliases[i].key, schema_aliases[i].expects, NULL,
			 schema_aliases[i].help);
	buf_adds(out, ".TP\n.B network: none\nA plain word in place of the section sets\n"
		      ".BR network.mode .\n.TP\n.B sandbox: docker\n"
		      "A plain word in place of the section sets\n.BR mode .\n"
		      ".SH PROFILES\n");
	for (unsigned i = 0; ; i++) {
		const char *text, *name = profile_nth(i, &text);
		if (!name)
			break;
		buf_adds(out, ".TP\n.B ");
		man_text(out, name);
		buf_addc(out, '\n');
		man_text(out, text);
		buf_adds(out, ".\n");
	}
	buf_adds(out, ".SH SEE ALSO\n.BR brig (1)\n");
}
