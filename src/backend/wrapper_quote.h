/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates of the wrapper backend.  {command} and {cwd} are replaced in one
 * pass: what came from a command is never looked at again, and no byte of it
 * can become a word of the wrapper's own.
 *
 * A list:    {argv}     an element of its own: becomes the command's words
 *            {command}  an element of its own: becomes one word, shell text that
 *                       means the command (for a wrapper that takes sh -c text)
 *            {cwd}      anywhere in an element: the directory, as it is
 * A string:  shell text for /bin/sh.  {command} and {cwd} are quoted for the
 *            place where they stand: bare, in '...', or in "...".
 */
#ifndef BACKEND_WRAPPER_QUOTE_H
#define BACKEND_WRAPPER_QUOTE_H

#include "base/buf.h"
#include "brig.h"

/* Appends one word, quoted for a POSIX shell: any bytes but NUL. */
void quote_word(struct buf *out, const char *s);
/* Appends all words, quoted, a space between two. */
void quote_words(struct buf *out, char *const *argv);

/*
 * Expands a list.  *out is a fresh vector, the caller's.  -EINVAL with err when
 * the template has no command in it, or a placeholder in a place where its text
 * could be taken apart.
 */
int wrapper_expand_list(char *const *tmpl, char *const *argv, const char *cwd,
			char ***out, struct brig_error *err);

/* Expands a string into shell text, the caller's.  The same. */
int wrapper_expand_text(const char *tmpl, char *const *argv, const char *cwd,
			char **out, struct brig_error *err);

#endif
