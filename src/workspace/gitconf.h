/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of git's config files, for the two places that read them: what a
 * sandbox left behind (gitsafe.c) and the caller's identity
 * (policy/toolchain_git.c).  No allocation and no stdio.
 */
#ifndef WORKSPACE_GITCONF_H
#define WORKSPACE_GITCONF_H

#include <stdbool.h>
#include <stddef.h>

/* What is still to be read. */
struct gitconf_text {
	const char *p, *end;
};

struct gitconf_section {
	char name[32];
	bool sub; /* [section "anything"] rather than [section] */
};

/* What comes next, behind blanks and comments: a section, whose '[' is taken, or a setting,
 * which may follow a section on its line. */
enum gitconf_what { GITCONF_END, GITCONF_SECTION, GITCONF_SETTING };
enum gitconf_what gitconf_next(struct gitconf_text *t);

/* Letters, digits and '-', as git allows in names; false when empty or longer
 * than cap - 1. */
bool gitconf_word(struct gitconf_text *t, char *out, size_t cap);

/* Over spaces and tabs. */
void gitconf_skip_blank(struct gitconf_text *t);
/* To the end of the line; the newline itself stays. */
void gitconf_skip_line(struct gitconf_text *t);

/*
 * "[name]" or '[name "sub"]', with t->p after the '['.  The old form
 * "[name.sub]" fails at the dot, with t->p there: nothing writes it any more.
 */
bool gitconf_section(struct gitconf_text *t, struct gitconf_section *s);

#endif
