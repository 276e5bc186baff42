/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yamldoc.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

struct anchor {
	struct anchor *next;
	struct ynode *node;
	bool open; /* still being read: an alias to it would be a circle */
	char name[];
};

struct ydoc {
	struct ynode *root;
	struct ynode **nodes; /* all of them, for freeing */
	size_t n, cap;
	struct anchor *anchors;
	size_t n_anchors, n_aliases;
};

struct reader {
	yaml_parser_t parser;
	struct ydoc *doc;
	struct ywhere *where;
	const char *text;
	size_t len;
};

static int fail(struct ywhere *w, int e, unsigned line, unsigned column,
		const char *what, const char *fix)
{
	w->line = line;
	w->column = column;
	snprintf(w->what, sizeof w->what, "%s", what);
	snprintf(w->fix, sizeof w->fix, "%s", fix);
	return -e;
}

static int fail_at(struct reader *r, yaml_mark_t m, int e, const char *what,
		   const char *fix)
{
	return fail(r->where, e, (unsigned)m.line + 1, (unsigned)m.column + 1, what,
		    fix);
}

/* Where byte `at` of the text is. */
static void position(const char *text, size_t at, unsigned *line, unsigned *column)
{
	*line = *column = 1;
	for (size_t i = 0; i < at; i++) {
		if (text[i] == '\n') {
			++*line;
			*column = 1;
		} else if (((unsigned char)text[i] & 0xc0) != 0x80) {
			++*column;
		}
	}
}

/* The n-th character's first byte, '\0' behind the end: libyaml's marks count
 * characters. */
static char char_at(const char *text, size_t len, size_t n)
{
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80 && n-- == 0)
			return text[i];
	return '\0';
}

/* libyaml would also guess UTF-16; here there is one encoding. */
static int check_text(struct reader *r)
{
	unsigned line, column;

	if (r->len > YAML_MAX_BYTES)
		return fail(r->where, E2BIG, 0, 0, "the file is larger than 1M",
			    "keep it below 1M");
	const char *nul = memchr(r->text, '\0', r->len);
	if (nul) {
		position(r->text, (size_t)(nul - r->text), &line, &column);
		return fail(r->where, EINVAL, line, column, "a NUL byte",
			    "remove it; the file must be UTF-8 text");
	}
	size_t good = utf8_valid_part(r->text, r->len);
	if (good == r->len)
		return 0;
	position(r->text, good, &line, &column);
	return fail(r->where, EINVAL, line, column, "the text is not UTF-8",
		    "save the file as UTF-8");
}

/* libyaml's words, and our own for what people really get wrong. */
static int parser_failed(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	unsigned line = (unsigned)p->problem_mark.line + 1;
	unsigned column = (unsigned)p->problem_mark.column + 1;

	if (p->error == YAML_MEMORY_ERROR)
		return fail(r->where, ENOMEM, 0, 0, "out of memory", "");
	if (p->error == YAML_READER_ERROR) {
		position(r->text, p->problem_offset < r->len ? p->problem_offset : r->len,
			 &line, &column);
		return fail(r->where, EINVAL, line, column,
			    p->problem ? p->problem : "unreadable text",
			    "remove the character; the file must be plain UTF-8 text");
	}
	if (char_at(r->text, r->len, p->problem_mark.index) == '\t')
		return fail(r->where, EINVAL, line, column, "a tab where spaces belong",
			    "indent with spaces: YAML does not allow tabs there");
	char what[200];
	snprintf(what, sizeof what, "%s%s%s", p->problem ? p->problem : "malformed",
		 p->context ? ", " : "", p->context ? p->context : "");
	return fail(r->where, EINVAL, line, column, what,
		    "check quotes, colons and indentation around this place");
}

static int node_new(struct reader *r, enum yaml_kind kind, yaml_mark_t m,
		    struct ynode **out)
{
	struct ydoc *d = r->doc;

	if (d->n == YAML_MAX_NODES)
		return fail_at(r, m, E2BIG, "too many values", "split the file");
	if (d->n == d->cap) {
		size_t cap = d->cap ? 2 * d->cap : 64;
		struct ynode **v = realloc(d->nodes, cap * sizeof(void *));
		if (!v)
			return fail_at(r, m, ENOMEM, "out of memory", "");
		d->nodes = v;
		d->cap = cap;
	}
	struct ynode *n = calloc(1, sizeof *n);
	if (!n)
		return fail_at(r, m, ENOMEM, "out of memory", "");
	n->kind = kind;
	n->line = (unsigned)m.line + 1;
	n->column = (unsigned)m.column + 1;
	d->nodes[d->n++] = n;
	*out = n;
	return 0;
}

/* Appends to a list, or a key or value to a map. */
static int node_push(struct ynode *to, size_t used, struct ynode *what)
{
	if ((used & (used - 1)) == 0) {
		size_t cap = used ? 2 * used : 1;
		struct ynode **v = realloc(to->item, cap * sizeof(void *));
		if (!v)
			return -ENOMEM;
		to->item = v;
	}
	to->item[used] = what;
	return 0;
}

/* *slot stays NULL without an anchor. */
static int anchor_add(struct reader *r, const yaml_char_t *name, struct ynode *n,
		      yaml_mark_t m, struct anchor **slot)
{
	if (!name)
		return 0;
	/* every alias looks through all of them */
	if (r->doc->n_anchors++ == YAML_MAX_ANCHORS)
		return fail_at(r, m, E2BIG, "too many anchors", "write the values out");
	size_t len = strlen((const char *)name) + 1;
	struct anchor *a = malloc(sizeof *a + len);
	if (!a)
		return fail(r->where, ENOMEM, 0, 0, "out of memory", "");
	memcpy(a->name, name, len);
	a->node = n;
	a->open = true;
	a->next = r->doc->anchors;
	r->doc->anchors = a;
	*slot = a;
	return 0;
}

static int alias_find(struct reader *r, const yaml_event_t *ev, struct ynode **out)
{
	const char *name = (const char *)ev->data.alias.anchor;

	if (r->doc->n_aliases++ == YAML_MAX_NODES)
		return fail_at(r, ev->start_mark, E2BIG, "too many aliases",
			       "write the values out");
	for (struct anchor *a = r->doc->anchors; a; a = a->next) {
		if (!streq(a->name, name))
			continue;
		if (a->open)
			return fail_at(r, ev->start_mark, EINVAL,
				       "an alias inside what it stands for",
				       "write the value out");
		*out = a->node;
		return 0;
	}
	return fail_at(r, ev->start_mark, EINVAL, "an alias without an anchor",
		       "define it before it is used");
}

static int next_event(struct reader *r, yaml_event_t *ev)
{
	return yaml_parser_parse(&r->parser, ev) ? 0 : parser_failed(r);
}

static int read_node(struct reader *r, yaml_event_t *ev, int depth,
		     struct ynode **out);

static int read_scalar(struct reader *r, const yaml_event_t *ev, struct ynode **out)
{
	struct ynode *n = NULL;
	struct anchor *a = NULL;

	int e = node_new(r, YAML_SCALAR, ev->start_mark, &n);
	if (e < 0)
		return e;
	*out = n;
	n->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	/* "\0" in a quoted scalar: every later comparison would stop there */
	if (memchr(ev->data.scalar.value, '\0', ev->data.scalar.length))
		return fail_at(r, ev->start_mark, EINVAL, "a NUL character in a value",
			       "remove it");
	n->text = strdup((const char *)ev->data.scalar.value);
	if (!n->text)
		return fail_at(r, ev->start_mark, ENOMEM, "out of memory", "");
	n->hash = str_hash(n->text, strlen(n->text));
	e = anchor_add(r, ev->data.scalar.anchor, n, ev->start_mark, &a);
	if (a)
		a->open = false;
	return e;
}

static int read_list(struct reader *r, const yaml_event_t *start, int depth,
		     struct ynode **out)
{
	struct ynode *n = NULL;
	struct anchor *a = NULL;

	int e = node_new(r, YAML_LIST, start->start_mark, &n);
	if (e == 0)
		e = anchor_add(r, start->data.sequence_start.anchor, n, start->start_mark, &a);
	*out = n;
	while (e == 0) {
		yaml_event_t ev;
		struct ynode *item = NULL;
		e = next_event(r, &ev);
		if (e < 0)
			break;
		bool end = ev.type == YAML_SEQUENCE_END_EVENT;
		if (!end)
			e = read_node(r, &ev, depth + 1, &item);
		yaml_event_delete(&ev);
		if (end)
			break;
		if (e == 0 && node_push(n, n->n, item) < 0)
			e = fail_at(r, start->start_mark, ENOMEM, "out of memory", "");
		n->n += e == 0;
	}
	if (a)
		a->open = false;
	return e;
}

static int check_key(struct reader *r, const struct ynode *map,
		     const struct ynode *key)
{
	char what[120];

	if (key->kind != YAML_SCALAR)
		return fail(r->where, EINVAL, key->line, key->column,
			    "a key that is not a word", "write KEY: VALUE");
	if (!key->quoted && streq(key->text, "<<"))
		return fail(r->where, EINVAL, key->line, key->column,
			    "merge keys (<<) are not supported",
			    "write the settings out, or use profiles");
	if (map->n == YAML_MAX_KEYS)
		return fail(r->where, E2BIG, key->line, key->column,
			    "too many keys in one place", "split it up");
	for (size_t i = 0; i < map->n; i++) {
		const struct ynode *other = map->item[2 * i];
		if (other->hash != key->hash || !streq(other->text, key->text))
			continue;
		char shown[40];
		str_clean(key->text, shown, sizeof shown);
		snprintf(what, sizeof what, "the key '%s' for the second time; the "
			 "first is on line %u", shown, other->line);
		return fail(r->where, EINVAL, key->line, key->column, what,
			    "keep one of them");
	}
	return 0;
}

static int read_map(struct reader *r, const yaml_event_t *start, int depth,
		    struct ynode **out)
{
	struct ynode *n = NULL;
	struct anchor *a = NULL;

	int e = node_new(r, YAML_MAP, start->start_mark, &n);
	if (e == 0)
		e = anchor_add(r, start->data.mapping_start.anchor, n, start->start_mark, &a);
	*out = n;
	for (size_t used = 0; e == 0; used++) {
		yaml_event_t ev;
		struct ynode *item = NULL;
		e = next_event(r, &ev);
		if (e < 0)
			break;
		bool end = ev.type == YAML_MAPPING_END_EVENT;
		if (!end)
			e = read_node(r, &ev, depth + 1, &item);
		yaml_event_delete(&ev);
		if (end)
			break;
		if (e == 0 && used % 2 == 0)
			e = check_key(r, n, item);
		if (e == 0 && node_push(n, used, item) < 0)
			e = fail_at(r, start->start_mark, ENOMEM, "out of memory", "");
		n->n += e == 0 && used % 2 == 1;
	}
	if (a)
		a->open = false;
	return e;
}

/* A tag asks for a type; types come from the schema, so none is obeyed. */
static bool has_tag(const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return ev->data.scalar.tag;
	case YAML_SEQUENCE_START_EVENT:
		return ev->data.sequence_start.tag;
	case YAML_MAPPING_START_EVENT:
		return ev->data.mapping_start.tag;
	default:
		return false;
	}
}

static int read_node(struct reader *r, yaml_event_t *ev, int depth,
		     struct ynode **out)
{
	if (depth > YAML_MAX_DEPTH)
		return fail_at(r, ev->start_mark, E2BIG, "too deeply nested",
			       "no setting lies that deep");
	if (has_tag(ev))
		return fail_at(r, ev->start_mark, EINVAL, "tags (!...) are not supported",
			       "remove the tag");
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return read_scalar(r, ev, out);
	case YAML_SEQUENCE_START_EVENT:
		return read_list(r, ev, depth, out);
	case YAML_MAPPING_START_EVENT:
		return read_map(r, ev, depth, out);
	case YAML_ALIAS_EVENT:
		return alias_find(r, ev, out);
	default:
		return fail_at(r, ev->start_mark, EINVAL, "malformed", "");
	}
}

static int read_stream(struct reader *r)
{
	for (bool seen = false;;) {
		yaml_event_t ev;
		int e = next_event(r, &ev);
		if (e < 0)
			return e;
		yaml_event_type_t type = ev.type;
		if (type == YAML_DOCUMENT_START_EVENT && seen)
			e = fail_at(r, ev.start_mark, EINVAL, "a second document",
				    "one document per file: remove the ---");
		seen = seen || type == YAML_DOCUMENT_START_EVENT;
		if (type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT ||
		    type == YAML_MAPPING_START_EVENT || type == YAML_ALIAS_EVENT)
			e = read_node(r, &ev, 0, &r->doc->root);
		yaml_event_delete(&ev);
		if (e < 0 || type == YAML_STREAM_END_EVENT)
			return e;
	}
}

int ydoc_parse(const char *text, size_t len, struct ydoc **out,
	       struct ywhere *where)
{
	struct reader r = { .where = where, .text = text, .len = len };

	/* an editor's mark in front: no part of the text, nor of its columns */
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		r.text += 3;
		r.len -= 3;
	}
	*where = (struct ywhere){ 0 };
	int e = check_text(&r);
	if (e < 0)
		return e;
	r.doc = calloc(1, sizeof *r.doc);
	if (!r.doc || !yaml_parser_initialize(&r.parser)) {
		free(r.doc);
		return fail(where, ENOMEM, 0, 0, "out of memory", "");
	}
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)r.text,
				     r.len);
	e = read_stream(&r);
	yaml_parser_delete(&r.parser);
	if (e < 0) {
		ydoc_free(r.doc);
		return e;
	}
	*out = r.doc;
	return 0;
}

void ydoc_free(struct ydoc *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n; i++) {
		free(d->nodes[i]->text);
		free(d->nodes[i]->item);
		free(d->nodes[i]);
	}
	free(d->nodes);
	for (struct anchor *a = d->anchors, *next; a; a = next) {
		next = a->next;
		free(a);
	}
	free(d);
}

const struct ynode *ydoc_root(const struct ydoc *d)
{
	return d->root;
}

static const struct ynode *get_n(const struct ynode *n, const char *key, size_t len)
{
	for (size_t i = 0; n && n->kind == YAML_MAP && i < n->n; i++)
		if (strncmp(n->item[2 * i]->text, key, len) == 0 &&
		    !n->item[2 * i]->text[len])
			return n->item[2 * i + 1];
	return NULL;
}

const struct ynode *ynode_get(const struct ynode *n, const char *key)
{
	return get_n(n, key, strlen(key));
}

const struct ynode *ynode_path(const struct ynode *n, const char *path)
{
	while (n && *path) {
		size_t len = strcspn(path, ".");
		n = get_n(n, path, len);
		path += len + (path[len] == '.');
	}
	return n;
}

bool ynode_is_null(const struct ynode *n)
{
	return !n || (n->kind == YAML_SCALAR && !n->quoted &&
		      (!*n->text || streq(n->text, "~") ||
		       strcasecmp(n->text, "null") == 0));
}

int ynode_bool(const struct ynode *n)
{
	static const struct {
		const char *word;
		int value;
	} words[] = { { "true", 1 }, { "yes", 1 }, { "on", 1 },
		      { "false", 0 }, { "no", 0 }, { "off", 0 } };

	for (size_t i = 0; n && n->kind == YAML_SCALAR && !n->quoted &&
			   i < ARRAY_LEN(words); i++)
		if (strcasecmp(n->text, words[i].word) == 0)
			return words[i].value;
	return -1;
}
