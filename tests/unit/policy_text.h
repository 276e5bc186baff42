/* SPDX-License-Identifier: Apache-2.0 */
/* What is in force, as text that two runs can be compared by. */
#ifndef TESTS_POLICY_TEXT_H
#define TESTS_POLICY_TEXT_H

#include <string.h>

#include "base/buf.h"
#include "policy/request.h"

static inline const char *policy_base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

static inline void policy_origin(struct buf *b, const struct origin *at)
{
	buf_adds(b, at->layer ? at->layer : "built-in");
	if (at->file)
		buf_addf(b, " %s:%u:%u", policy_base_name(at->file), at->line, at->column);
}

/* A text with the directory `dir` written as DIR; NULL: none. */
static inline void policy_word(struct buf *b, const char *text, const char *dir)
{
	size_t n = dir ? strlen(dir) : 0;

	while (n) {
		const char *at = strstr(text, dir);
		if (!at)
			break;
		buf_add(b, text, (size_t)(at - text));
		buf_adds(b, "DIR");
		text = at + n;
	}
	buf_adds(b, text);
}

/* One line per value, with where it is from and where it is locked.  What
 * nobody set and nobody locked is left out. */
static inline void policy_text(struct buf *b, const struct brig_spec *s,
			       const char *dir)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const struct req_value *rv = &s->o[i];
		const struct opt_def *d = &opt_table[i];
		enum opt_kind k = d->kind;
		bool list = k == OK_LIST || k == OK_WORDS || k == OK_PAIRS || k == OK_ARGV;
		if (!rv->here && !s->lock[i].layer)
			continue;
		buf_addf(b, "%s:", d->key ? d->key : d->name);
		if (!rv->here)
			buf_addf(b, " %s  # built-in", d->def ? d->def : "(not set)");
		if (rv->here && !rv->v) {
			buf_adds(b, " []  # ");
			policy_origin(b, &rv->at[0]);
		}
		for (size_t w = 0; rv->v && rv->v[w]; w++) {
			buf_adds(b, list ? "\n- " : " ");
			policy_word(b, rv->v[w], dir);
			buf_adds(b, "  # ");
			policy_origin(b, &rv->at[w]);
		}
		if (s->lock[i].layer) {
			buf_adds(b, list && rv->v ? "\n# locked by " : "; locked by ");
			policy_origin(b, &s->lock[i]);
		}
		buf_addc(b, '\n');
	}
}

#endif
