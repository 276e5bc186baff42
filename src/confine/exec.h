/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last steps of the command's process, whichever backend made it.  No
 * allocation and no stdio: what needs memory is prepared before the clone.  And
 * but for the execve no errno: another process may have the same.
 */
#ifndef CONFINE_EXEC_H
#define CONFINE_EXEC_H

#include "confine/seccomp.h"

/* sh FILE ARGS…, for files without #!: the file's name is filled in when it is
 * known.  Freed by the caller; NULL without memory. */
char **exec_script_argv(char **argv);

/* Executes the first of the candidates that can be.  script may be NULL.  Returns
 * only when none could be: the errno to tell. */
int exec_candidates(char *const *paths, char **argv, char **env, char **script);

/* The caller's ignored and blocked signals are not the command's. */
void exec_default_signals(void);

/* Neither is a priority that is raised (real-time, negative nice, real-time input and output),
 * nor the right to raise it: no processor limit holds real-time processes, and the supervisor
 * would not get to run at the deadline.  0, or -errno and what failed. */
int exec_plain_priority(const char **what);

/* Ends for certain, even where a filter refuses the call for it. */
void exec_leave(int code) __attribute__((noreturn));

#endif
