/* SPDX-License-Identifier: Apache-2.0 */
/* brig config: check, show, init, import, schema, man. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/json.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "policy/import.h"
#include "policy/load.h"
#include "policy/schema.h"

static int usage(const char *what, const char *fix)
{
	struct brig_error e;

	err_set(&e, BRIG_E_BAD_OPTION, 0, "options", "config: %s", what);
	err_fix(&e, "%s", fix);
	cli_error(&e);
	return EXIT_USAGE;
}

static void report(void *arg, const struct brig_error *e)
{
	(void)arg;
	cli_error(e);
}

/* Locks can forbid what a profile or a tool of the same files says: every one of
 * them is put on top of the rest, as a run would. */
static int check_combinations(struct config *c)
{
	static const struct {
		const char *section;
		enum opt opt;
	} kinds[] = { { "profiles", OPT_PROFILE }, { "tools", OPT_TOOL } };
	int bad = 0;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		for (size_t i = 0; i < c->n; i++) {
			const struct ynode *n = ynode_get(ydoc_root(c->file[i].doc),
							  kinds[k].section);
			for (size_t j = 0; n && n->kind == YAML_MAP && j < n->n; j++) {
				struct brig_spec *rq = brig_spec_new();
				struct brig_spec *out = brig_spec_new();
				struct brig_error err = { 0 };
				if (rq && out &&
				    (request_set(rq, kinds[k].opt, n->item[2 * j]->text, "check",
						 &err) < 0 ||
				     policy_layers(c, rq, out, &err) < 0)) {
					cli_error(&err);
					bad++;
				}
				brig_spec_free(rq);
				brig_spec_free(out);
			}
		}
	}
	return bad;
}

static int check_plain(struct config *c)
{
	struct brig_spec *rq = brig_spec_new(), *out = brig_spec_new();
	struct brig_error err = { 0 };
	int bad = 0;

	if (rq && out && policy_layers(c, rq, out, &err) < 0) {
		cli_error(&err);
		bad = 1;
	}
	brig_spec_free(rq);
	brig_spec_free(out);
	return bad;
}

static int config_check(int argc, char **argv)
{
	struct config c;
	struct brig_error err = { 0 };

	if (argc > 2)
		return usage("check takes one file", "brig config check [FILE]");
	config_init(&c);
	c.report = report;
	int r = argc == 2 ? config_read(&c, argv[1], RANK_USER, "user", true, &err) :
			    config_read_global(&c, NULL, &err);
	size_t bad = c.n_errors;
	if (r < 0 && bad == 0) {
		cli_error(&err); /* what was not reported on the way */
		bad = 1;
	}
	c.report = NULL;
	if (bad == 0)
		bad += (size_t)check_plain(&c);
	if (bad == 0)
		bad += (size_t)check_combinations(&c);
	if (bad == 0 && c.n == 0)
		printf("no configuration file; the built-in defaults hold "
		       "(brig config init writes one)\n");
	for (size_t i = 0; bad == 0 && i < c.n; i++) {
		cleanup_free char *shown = str_printable(c.file[i].path);
		printf("%s: ok\n", shown ? shown : "?");
	}
	config_free(&c);
	return bad ? EXIT_USAGE : 0;
}

/* One value as YAML. */
static void yaml_value(struct buf *b, const struct brig_spec *rq, enum opt o)
{
	enum opt_kind k = opt_table[o].kind;
	bool failed;
	struct json j;

	if (k == OK_PAIRS) {
		buf_addc(b, '{');
		for (char **v = rq->o[o].v; v && *v; v++) {
			cleanup_free char *name = explain_value(o, *v);
			buf_adds(b, v == rq->o[o].v ? "" : ", ");
			jw_init(&j, b);
			jw_string(&j, name);
			buf_adds(b, ": \"(not shown)\"");
		}
		buf_addc(b, '}');
	} else if (k == OK_LIST || k == OK_WORDS || k == OK_ARGV) {
		char **v = request_list(rq, o, &failed);
		buf_addc(b, '[');
		for (char **w = v; w && *w; w++) {
			buf_adds(b, w == v ? "" : ", ");
			jw_init(&j, b);
			jw_string(&j, *w);
		}
		buf_addc(b, ']');
		strv_free(v);
	} else if (k == OK_TEXT) {
		jw_init(&j, b);
		jw_string(&j, request_text(rq, o));
	} else {
		buf_adds(b, request_text(rq, o));
	}
}

static void yaml_option(struct buf *b, const struct brig_spec *rq, enum opt o,
			const char *indent)
{
	const char *key = opt_table[o].key, *dot = strrchr(key, '.');
	char from[400];
	size_t n = strv_len(rq->o[o].v);
	size_t start = b->len;

	buf_addf(b, "%s%s: ", indent, dot ? dot + 1 : key);
	yaml_value(b, rq, o);
	origin_text(rq->o[o].here ? &rq->o[o].at[n ? n - 1 : 0] : NULL, from, sizeof from);
	size_t width = b->len - start;
	buf_addf(b, "%*s# %s%s\n", (int)(width < 40 ? 41 - width : 1), "", from,
		 rq->lock[o].layer ? ", locked" : "");
}

static void yaml_effective(struct buf *b, const struct brig_spec *rq)
{
	buf_adds(b, "version: 1\nsandbox:\n");
	for (unsigned i = 0; i < OPT__COUNT; i++)
		if (opt_table[i].key && !strchr(opt_table[i].key, '.') &&
		    explain_shows(rq, (enum opt)i))
			yaml_option(b, rq, (enum opt)i, "  ");
	for (unsigned s = 0; s < SCHEMA_SECTIONS; s++) {
		const char *name = schema_sections[s].name;
		size_t n = strlen(name);
		bool opened = false;
		for (unsigned i = 0; i < OPT__COUNT; i++) {
			const char *key = opt_table[i].key;
			if (!key || strncmp(key, name, n) != 0 || key[n] != '.' ||
			    !explain_shows(rq, (enum opt)i))
				continue;
			if (!opened)
				buf_addf(b, "  %s:\n", name);
			opened = true;
			yaml_option(b, rq, (enum opt)i, "    ");
		}
	}
}

static int show_files(const struct brig_spec *rq)
{
	struct config c;
	struct brig_error err = { 0 };

	config_init(&c);
	int r = config_read_global(&c, request_text(rq, OPT_CONFIG), &err);
	for (size_t i = 0; r == 0 && i < c.n; i++) {
		cleanup_free char *shown = str_printable(c.file[i].path);
		printf("%-8s %s\n", c.file[i].layer, shown ? shown : "?");
	}
	if (r == 0 && c.n == 0)
		printf("no configuration file; the built-in defaults hold\n");
	config_free(&c);
	if (r < 0) {
		cli_error(&err);
		return EXIT_USAGE;
	}
	return 0;
}

static int config_show(int argc, char **argv)
{
	struct brig_spec *rq = brig_spec_new(), *eff = NULL;
	struct brig_error err = { 0 };
	bool effective = false;
	const struct cli_flag flags[] = { { "effective", &effective }, { NULL, NULL } };
	int rest, code;

	if (!rq)
		return EXIT_REFUSED;
	code = cli_options(argc, argv, rq, flags, &rest);
	if (code == 0 && rest < argc)
		code = usage("show takes options only", "brig config show [--effective] "
			     "[--config F] [--profile P] [--tenant T] [--tool N]");
	if (code == -1) {
		cli_help(&verb_config);
		code = 0;
	} else if (code == 0 && !effective) {
		code = show_files(rq);
	} else if (code == 0 && policy_load(rq, &eff, &err) < 0) {
		cli_error(&err);
		code = cli_error_code(&err, false);
	} else if (code == 0) {
		struct buf b = { 0 };
		yaml_effective(&b, eff);
		size_t len;
		cleanup_free char *text = buf_take(&b, &len);
		code = text ? cli_print(text, len) : EXIT_REFUSED;
	}
	brig_spec_free(eff);
	brig_spec_free(rq);
	return code;
}

/* Directories on the way are made, as a person would do it with mkdir -p. */
static int make_parents(const char *path)
{
	cleanup_free char *part = strdup(path);

	if (!part)
		return -ENOMEM;
	for (char *p = strchr(part + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

static char *default_path(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		return strdup(BRIG_SYSTEM_CONFIG);
	if (xdg && xdg[0] == '/')
		return str_fmt("%s/brig/config.yaml", xdg);
	return home && home[0] == '/' ? str_fmt("%s/.config/brig/config.yaml", home) : NULL;
}

static int config_write(int argc, char **argv)
{
	struct buf b = { 0 };
	size_t len;

	if (argc > 2)
		return usage("init takes one file", "brig config init [FILE|-]");
	schema_template(&b);
	cleanup_free char *text = buf_take(&b, &len);
	if (!text)
		return EXIT_REFUSED;
	if (argc == 2 && streq(argv[1], "-"))
		return cli_print(text, len);
	cleanup_free char *path = argc == 2 ? strdup(argv[1]) : default_path();
	if (!path)
		return usage("init: there is no home directory", "brig config init FILE");
	int r = argc == 2 ? 0 : make_parents(path);
	/* never over something that is there */
	cleanup_close int fd = r < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
						 0644);
	if (fd < 0 || (r = fd_write_full(fd, text, len)) < 0) {
		struct brig_error e;
		err_set(&e, BRIG_E_IO_FAILED, r < 0 ? -r : errno, "config", "%.300s", path);
		err_fix(&e, "brig config init - prints it; an existing file is never "
			    "overwritten");
		cli_error(&e);
		return EXIT_USAGE;
	}
	cleanup_free char *shown = str_printable(path);
	printf("wrote %s\n", shown ? shown : "?");
	return 0;
}

/* What was made must load; else the fault is ours, and better known now. */
static int check_text(const char *text, size_t len, struct ywhere *where)
{
	struct config c;
	struct config_file f = { .path = (char *)"(imported)", .dir = (char *)"/" };

	config_init(&c);
	int r = ydoc_parse(text, len, &f.doc, where);
	if (r == 0 && config_check_file(&c, &f) < 0) {
		snprintf(where->what, sizeof where->what, "%.190s", c.first.message);
		snprintf(where->fix, sizeof where->fix, "%.150s", c.first.fix);
		r = -EINVAL;
	}
	ydoc_free(f.doc);
	config_free(&c);
	return r;
}

static int import_file(const struct import_from *from, const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	cleanup_free char *in = NULL, *text = NULL;
	struct ydoc *doc = NULL;
	struct ywhere w = { 0 };
	struct buf b = { 0 };
	size_t len = 0;

	int r = fd < 0 ? -errno : fd_read_all(fd, YAML_MAX_BYTES, &in, &len);
	if (r < 0)
		snprintf(w.what, sizeof w.what, "%s", strerror(-r));
	else
		r = ydoc_parse(in, import_join_escapes(in, len), &doc, &w);
	if (r == 0)
		r = from->convert(ydoc_root(doc), &b, &w);
	text = buf_take(&b, &len);
	if (r == 0)
		r = text ? check_text(text, len, &w) : -ENOMEM;
	ydoc_free(doc);
	if (r == 0)
		return cli_print(text, len);
	struct brig_error e;
	if (w.line)
		err_set(&e, BRIG_E_BAD_CONFIG, 0, "config", "%.200s:%u:%u: %s", path, w.line,
			w.column, w.what);
	else
		err_set(&e, BRIG_E_BAD_CONFIG, 0, "config", "%.200s: %s", path, w.what);
	err_fix(&e, "%s", w.fix[0] ? w.fix : "give a readable file");
	cli_error(&e);
	return EXIT_USAGE;
}

static int config_import(int argc, char **argv)
{
	if (argc == 3)
		for (const struct import_from *f = import_table; f->name; f++)
			if (streq(f->name, argv[1]))
				return import_file(f, argv[2]);
	return usage("import needs a program's name and its file",
		     "brig config import nanobot|astrbot FILE");
}

static int print_made(void (*make)(struct buf *), int argc)
{
	struct buf b = { 0 };
	size_t len;

	if (argc > 1)
		return usage("takes no argument", "brig help config");
	make(&b);
	cleanup_free char *text = buf_take(&b, &len);
	return text ? cli_print(text, len) : EXIT_REFUSED;
}

static int config_schema(int argc, char **argv)
{
	(void)argv;
	return print_made(schema_json, argc);
}

static int config_man(int argc, char **argv)
{
	(void)argv;
	return print_made(schema_man, argc);
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} words[] = {
	{ "check", config_check },   { "show", config_show },     { "init", config_write },
	{ "import", config_import }, { "schema", config_schema }, { "man", config_man },
};

static int config_main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(words); i++)
		if (streq(words[i].name, argv[1]))
			return words[i].run(argc - 1, argv + 1);
	return usage(argc > 1 ? "unknown word" : "what?",
		     "brig config check|show|init|import|schema|man");
}

const struct verb verb_config = {
	.name = "config",
	.synopsis = "check [FILE] | show [--effective] [OPTIONS] | init [FILE|-] | "
		    "import nanobot|astrbot FILE | schema | man",
	.summary = "check, show, write or import a configuration",
	.run = config_main,
};
