/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates of the wrapper backend: the input is a template and the words of a
 * command, separated by NUL bytes.  What is accepted must hold the invariant
 * that matters: read as a POSIX shell reads it, the text has the same words
 * whatever the command is, but for the command's own, which come out byte by
 * byte.  A list must come out element by element.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/wrapper_quote.h"
#include "base/str.h"

enum { WORDS_MAX = 16, BYTES_MAX = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where a reader of shell text stands. */
enum where { BARE, SINGLE, DOUBLE };

/*
 * A reader for what the templates may hold (no substitutions, comments or
 * here-documents: those are refused).  Gives the words, with operators and
 * newlines as words of their own; aborts where the text ends inside quotes.
 */
static char **shell_words(const char *p)
{
	char **v = NULL;
	struct buf b = { 0 };
	bool open = false;
	enum where w = BARE;

	for (;; p++) {
		bool end = !*p || (w == BARE && strchr(" \t\n;&|()<>", *p));
		if (w == BARE && end) {
			if (open) {
				buf_addc(&b, '\0');
				strv_take(&v, buf_take(&b, NULL));
				b = (struct buf){ 0 };
			}
			open = false;
			if (!*p)
				return v;
			if (!strchr(" \t", *p)) {
				char op[2] = { *p, 0 };
				strv_add(&v, op);
			}
			continue;
		}
		if (!*p)
			abort(); /* inside quotes */
		if (w == BARE && (*p == '\'' || *p == '"')) {
			w = *p == '\'' ? SINGLE : DOUBLE;
			open = true;
		} else if ((w == SINGLE && *p == '\'') || (w == DOUBLE && *p == '"')) {
			w = BARE;
		} else {
			if (*p == '\\' && p[1] && (w == BARE || (w == DOUBLE && strchr("\\\"$`", p[1]))))
				p++;
			buf_addc(&b, *p);
			open = true;
		}
	}
}

/* The same template with a harmless command: as many words before and after. */
static void check_text(const char *tmpl, char **argv, const char *cwd)
{
	/* a word that no template and no command has by chance */
	char plain[] = "\x01stand-in\x02", *one[] = { plain, NULL }, *a = NULL, *b = NULL;
	struct brig_error err = { 0 };

	if (strstr(tmpl, plain)) /* not by chance, then: libFuzzer found it */
		return;
	int r = wrapper_expand_text(tmpl, argv, cwd, &a, &err);
	if (r < 0) {
		if (err.code == BRIG_E_OK || !err.fix[0] || a)
			abort();
		return;
	}
	/* only the template decides whether it is accepted */
	if (wrapper_expand_text(tmpl, one, "/", &b, &err) < 0)
		abort();
	char **va = shell_words(a), **vb = shell_words(b);
	size_t na = strv_len(va), nb = strv_len(vb), n = strv_len(argv);
	/* each bare {command} brings n words instead of one; one in quotes none */
	if (na < nb || (n == 1 && na != nb) || (n > 1 && (na - nb) % (n - 1) != 0))
		abort();
	size_t i = 0, k = 0;
	while (i < na && k < nb) {
		if (streq(vb[k], plain)) {
			for (size_t c = 0; c < n; c++)
				if (i + c >= na || !streq(va[i + c], argv[c]))
					abort();
			i += n;
		} else {
			/* the same, or with a directory or a text for another shell
			 * inside: one word in any case */
			i++;
		}
		k++;
	}
	if (i != na || k != nb)
		abort();
	strv_free(va);
	strv_free(vb);
	free(a);
	free(b);
}

static void check_list(const char *tmpl, char **argv, const char *cwd)
{
	char **t = NULL, **out = NULL;
	struct brig_error err = { 0 };
	cleanup_buf struct buf copy = { 0 };

	buf_adds(&copy, tmpl);
	buf_addc(&copy, '\0');
	if (!buf_ok(&copy))
		return;
	/* elements of the template are its lines */
	for (char *p = copy.data, *next; p; p = next) {
		next = strchr(p, '\n');
		if (next)
			*next++ = '\0';
		strv_add(&t, p);
	}
	if (wrapper_expand_list(t, argv, cwd, &out, &err) == 0) {
		size_t want = 0;
		for (size_t i = 0; t[i]; i++)
			want += streq(t[i], "{argv}") ? strv_len(argv) : 1;
		if (strv_len(out) != want || !streq(out[0], t[0]))
			abort();
		strv_free(out);
	} else if (err.code == BRIG_E_OK || out) {
		abort();
	}
	strv_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[BYTES_MAX + 1];
	char **argv = NULL;
	size_t at = 0;

	if (size > BYTES_MAX)
		return 0;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	const char *tmpl = text;
	at = strlen(text) + 1;
	const char *cwd = at < size ? text + at : "/";
	at += at < size ? strlen(cwd) + 1 : 0;
	for (int i = 0; at < size && i < WORDS_MAX; i++, at += strlen(text + at) + 1)
		strv_add(&argv, text + at);
	if (!argv)
		strv_add(&argv, "true");
	check_text(tmpl, argv, cwd);
	check_list(tmpl, argv, cwd);
	strv_free(argv);
	return 0;
}
