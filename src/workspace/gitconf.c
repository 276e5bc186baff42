/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/gitconf.h"

enum gitconf_what gitconf_next(struct gitconf_text *t)
{
	while (t->p < t->end) {
		char c = *t->p;
		if (c == '#' || c == ';') {
			gitconf_skip_line(t);
			continue;
		}
		if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '[')
			return GITCONF_SETTING;
		t->p++;
		if (c == '[')
			return GITCONF_SECTION;
	}
	return GITCONF_END;
}

bool gitconf_word(struct gitconf_text *t, char *out, size_t cap)
{
	size_t n = 0;

	while (t->p < t->end && (((*t->p | 32) >= 'a' && (*t->p | 32) <= 'z') ||
				 (*t->p >= '0' && *t->p <= '9') || *t->p == '-')) {
		if (n + 1 >= cap)
			return false;
		out[n++] = *t->p++;
	}
	out[n] = '\0';
	return n > 0;
}

void gitconf_skip_blank(struct gitconf_text *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
}

void gitconf_skip_line(struct gitconf_text *t)
{
	while (t->p < t->end && *t->p != '\n')
		t->p++;
}

bool gitconf_section(struct gitconf_text *t, struct gitconf_section *s)
{
	if (!gitconf_word(t, s->name, sizeof s->name))
		return false;
	gitconf_skip_blank(t);
	s->sub = t->p < t->end && *t->p == '"';
	if (s->sub) {
		for (t->p++; t->p < t->end && *t->p != '"'; t->p++) {
			if (*t->p == '\\')
				t->p++;
			if (t->p >= t->end || *t->p == '\n')
				return false;
		}
		if (t->p >= t->end)
			return false;
		t->p++;
	}
	if (t->p >= t->end || *t->p != ']')
		return false;
	t->p++;
	return true;
}
