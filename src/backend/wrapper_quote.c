/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/wrapper_quote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

#define COMMAND "{command}"
#define ARGV "{argv}"
#define CWD "{cwd}"

void quote_word(struct buf *out, const char *s)
{
	buf_addc(out, '\'');
	for (; *s; s++) {
		if (*s == '\'')
			buf_adds(out, "'\\''");
		else
			buf_addc(out, *s);
	}
	buf_addc(out, '\'');
}

void quote_words(struct buf *out, char *const *argv)
{
	for (size_t i = 0; argv[i]; i++) {
		if (i)
			buf_addc(out, ' ');
		quote_word(out, argv[i]);
	}
}

static int bad(struct brig_error *err, const char *what, const char *fix)
{
	err_set(err, BRIG_E_BAD_VALUE, 0, "wrapper", "the wrapper template: %s", what);
	err_fix(err, "%s", fix);
	return -EINVAL;
}

static bool starts(const char *s, const char *what)
{
	return strncmp(s, what, strlen(what)) == 0;
}

/* Characters that mean nothing to a shell wherever they stand. */
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_./:=,@%+-", c));
}

/* --- lists --- */

/* {cwd} in one element.  The element may be text for some interpreter, in
 * which a directory's name could act: so nothing but a plain option around it. */
static int put_cwd(const char *elem, const char *cwd, char ***out, struct brig_error *err)
{
	struct buf b = { 0 };

	for (const char *p = elem; *p;) {
		if (starts(p, CWD)) {
			buf_adds(&b, cwd);
			p += strlen(CWD);
		} else if (is_plain(*p)) {
			buf_addc(&b, *p++);
		} else {
			buf_free(&b);
			return bad(err, "{cwd} stands in an element that could be taken for a "
					"script",
				   "write {cwd} as an element of its own, or as --option={cwd}");
		}
	}
	char *text = buf_take(&b, NULL);
	return text ? strv_take(out, text) : -ENOMEM;
}

static int put_element(const char *elem, char *const *argv, const char *cwd, char ***out,
		       bool *have, struct brig_error *err)
{
	if (streq(elem, ARGV)) {
		*have = true;
		return strv_append(out, (const char *const *)argv);
	}
	if (streq(elem, COMMAND)) {
		struct buf b = { 0 };
		*have = true;
		quote_words(&b, argv);
		char *text = buf_take(&b, NULL);
		return text ? strv_take(out, text) : -ENOMEM;
	}
	if (strstr(elem, COMMAND) || strstr(elem, ARGV))
		return bad(err, "{command} is only a part of an element",
			   "write \"{command}\" (one word of shell text) or \"{argv}\" (the "
			   "command's words) as an element of its own");
	return strstr(elem, CWD) ? put_cwd(elem, cwd, out, err) : strv_add(out, elem);
}

int wrapper_expand_list(char *const *tmpl, char *const *argv, const char *cwd,
			char ***out, struct brig_error *err)
{
	char **v = NULL;
	bool have = false;
	int r = 0;

	for (size_t i = 0; tmpl && tmpl[i] && r == 0; i++) {
		if (i == 0 && (strchr(tmpl[0], '{') || !tmpl[0][0]))
			r = bad(err, "its first element must be a program",
				"begin with the wrapper's name");
		else
			r = put_element(tmpl[i], argv, cwd, &v, &have, err);
	}
	if (r == 0 && !have)
		r = bad(err, "it has no {command} and no {argv}: nothing would be run",
			"add \"{argv}\" where the command belongs");
	if (r < 0) {
		strv_free(v);
		return r == -ENOMEM ? err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "wrapper",
					      "the command") : r;
	}
	*out = v;
	return 0;
}

/* --- strings --- */

enum quotes { BARE, SINGLE, DOUBLE };

struct expansion {
	struct buf out;
	char *const *argv;
	const char *cwd;
	bool have;
};

/* Text inside quotes of the template, so that it comes out of them as it is. */
static void add_inside(struct buf *out, const char *text, enum quotes q)
{
	for (const char *p = text; *p; p++) {
		if (q == SINGLE && *p == '\'') {
			buf_adds(out, "'\\''");
			continue;
		}
		if (q == DOUBLE && strchr("\\\"$`", *p))
			buf_addc(out, '\\');
		buf_addc(out, *p);
	}
}

/* The length of a placeholder at p, or 0. */
static size_t placeholder(const char *p)
{
	return starts(p, COMMAND) ? strlen(COMMAND) :
	       starts(p, ARGV)	  ? strlen(ARGV) :
	       starts(p, CWD)	  ? strlen(CWD) : 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/*
 * A part in quotes that holds {command} is shell text itself (sh -c '…'): the
 * command is quoted once for that shell and once for this one.  That is only
 * right where the inner shell would find it bare, between blanks, so the rest
 * of the part may hold nothing that has a meaning.
 */
static int put_quoted_script(struct expansion *x, const char *p, size_t len, enum quotes q,
			     struct brig_error *err)
{
	static const char *const fix =
		"keep the quoted part plain, as in sh -c 'exec {command}', or use a list";

	for (size_t i = 0; i < len;) {
		size_t n = placeholder(p + i);
		struct buf inner = { 0 };
		if (!n) {
			if (!is_plain(p[i]) && !strchr(" \t\n;&|", p[i]))
				return bad(err, "{command} stands in quotes beside characters that "
						"mean something to a shell", fix);
			buf_addc(&x->out, p[i++]);
			continue;
		}
		if ((i > 0 && !is_blank(p[i - 1])) || (i + n < len && !is_blank(p[i + n])))
			return bad(err, "{command} or {cwd} is glued to other text in quotes",
				   fix);
		if (starts(p + i, CWD)) {
			quote_word(&inner, x->cwd);
		} else {
			quote_words(&inner, x->argv);
			x->have = true;
		}
		cleanup_free char *text = buf_take(&inner, NULL);
		if (!text)
			return -ENOMEM;
		add_inside(&x->out, text, q);
		i += n;
	}
	return 0;
}

/* A part in quotes without {command}: its own text, and perhaps {cwd}. */
static int put_quoted_text(struct expansion *x, const char *p, size_t len, enum quotes q,
			   struct brig_error *err)
{
	bool cwd = memmem(p, len, CWD, strlen(CWD)) != NULL;

	for (size_t i = 0; i < len;) {
		if (starts(p + i, CWD)) {
			add_inside(&x->out, x->cwd, q);
			i += strlen(CWD);
		} else if (cwd && !is_plain(p[i])) {
			return bad(err, "{cwd} stands in quotes that could be a script",
				   "write it outside of the quotes, or as \"--option={cwd}\"");
		} else {
			buf_addc(&x->out, p[i++]);
		}
	}
	return 0;
}

/* The part in quotes that begins after *p; moves *p to its closing quote. */
static int put_quoted(struct expansion *x, const char **p, enum quotes q,
		      struct brig_error *err)
{
	const char *from = *p, *end = from;
	char close = q == SINGLE ? '\'' : '"';

	while (*end && *end != close) {
		if (q == DOUBLE && strchr("`$", *end) &&
		    (*end == '`' || end[1] == '(' || end[1] == '{'))
			return bad(err, "it uses a substitution", "use a list, or a script file");
		if (q == DOUBLE && *end == '\\' && end[1])
			end++;
		end++;
	}
	if (!*end)
		return bad(err, "a quote is not closed", "close it");
	size_t len = (size_t)(end - from);
	*p = end;
	bool script = memmem(from, len, COMMAND, strlen(COMMAND)) ||
		      memmem(from, len, ARGV, strlen(ARGV));
	buf_addc(&x->out, close);
	int r = script ? put_quoted_script(x, from, len, q, err) :
			 put_quoted_text(x, from, len, q, err);
	buf_addc(&x->out, close);
	return r;
}

/* Whether the word in front is -c (or -lc and the like): what follows is one word
 * of shell text, to every shell. */
static bool after_dash_c(const char *tmpl, const char *p)
{
	while (p > tmpl && is_blank(p[-1]))
		p--;
	const char *end = p;
	while (p > tmpl && p[-1] >= 'a' && p[-1] <= 'z')
		p--;
	return end - p >= 1 && end - p <= 4 && end[-1] == 'c' && p > tmpl && p[-1] == '-' &&
	       p - 1 > tmpl && is_blank(p[-2]);
}

/* A placeholder outside of quotes. */
static int put_bare(struct expansion *x, const char *tmpl, const char *p, size_t n,
		    struct brig_error *err)
{
	if (starts(p, CWD)) {
		if (p > tmpl && p[-1] == '$')
			return bad(err, "{cwd} follows a $", "put a space between them");
		quote_word(&x->out, x->cwd);
		return 0;
	}
	if ((p > tmpl && !is_blank(p[-1])) || (p[n] && !is_blank(p[n])))
		return bad(err, "{command} is glued to other text",
			   "put spaces around it");
	x->have = true;
	if (!starts(p, COMMAND) || !after_dash_c(tmpl, p)) {
		quote_words(&x->out, x->argv);
		return 0;
	}
	struct buf inner = { 0 };
	quote_words(&inner, x->argv);
	cleanup_free char *text = buf_take(&inner, NULL);
	if (!text)
		return -ENOMEM;
	quote_word(&x->out, text);
	return 0;
}

/* What would need a whole shell parser to follow is refused, not guessed. */
static int check_bare(const char *tmpl, const char *p, struct brig_error *err)
{
	bool word_start = p == tmpl || is_blank(p[-1]) || strchr(";&|()", p[-1]);

	if (*p == '`' || (*p == '$' && p[1] && strchr("({'\"", p[1])))
		return bad(err, "it uses a substitution", "use a list, or a script file");
	if (*p == '<' && p[1] == '<')
		return bad(err, "it uses a here-document", "use a list, or a script file");
	if (*p == '#' && word_start)
		return bad(err, "it has a comment", "leave the comment out");
	/* an escaped blank or newline is none: what follows would be glued on */
	if (*p == '\\' && (!p[1] || p[1] == '{' || is_blank(p[1])))
		return bad(err, "a backslash stands before a placeholder, a blank or the end",
			   "leave the backslash out, or use quotes");
	return 0;
}

static int expand(struct expansion *x, const char *tmpl, struct brig_error *err)
{
	for (const char *p = tmpl; *p;) {
		size_t n = placeholder(p);
		int r = n ? put_bare(x, tmpl, p, n, err) : check_bare(tmpl, p, err);
		if (r < 0)
			return r;
		if (n) {
			p += n;
		} else if (*p == '\'' || *p == '"') {
			enum quotes q = *p++ == '\'' ? SINGLE : DOUBLE;
			r = put_quoted(x, &p, q, err);
			if (r < 0)
				return r;
			p++;
		} else {
			if (*p == '\\')
				buf_addc(&x->out, *p++);
			buf_addc(&x->out, *p++);
		}
	}
	return 0;
}

int wrapper_expand_text(const char *tmpl, char *const *argv, const char *cwd,
			char **out, struct brig_error *err)
{
	struct expansion x = { .argv = argv, .cwd = cwd };
	int r = expand(&x, tmpl, err);

	if (r == 0 && !x.have)
		r = bad(err, "it has no {command}: nothing would be run",
			"write {command} where the command belongs");
	char *text = buf_take(&x.out, NULL);
	if (r == 0 && !text)
		r = -ENOMEM;
	if (r < 0) {
		free(text);
		return r == -ENOMEM ? err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "wrapper",
					      "the command") : r;
	}
	*out = text;
	return 0;
}
