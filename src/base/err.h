/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "brig.h"

/*
 * Fills *e (when not NULL) and returns -errnum, so that a failing function
 * can end with `return err_set(...)`.  errnum 0 returns -EINVAL.  When
 * errnum is not 0 its text is appended to the message.
 */
int err_set(struct brig_error *e, enum brig_code code, int errnum,
	    const char *phase, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Sets the fix line of an error that is already filled. */
void err_fix(struct brig_error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
