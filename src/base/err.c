/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const char *const code_names[] = {
#define X(name, text) #name,
	BRIG_ERROR_CODES(X)
#undef X
};

const char *brig_code_name(enum brig_code code)
{
	if ((unsigned)code >= BRIG_E__COUNT)
		return "INTERNAL";
	return code_names[code];
}

/* One of those that are met, not every C library has a word for. */
static const char *text_of(int errnum)
{
	return errnum == ETOOMANYREFS ? "Too many references" : strerror(errnum);
}

int err_set(struct brig_error *e, enum brig_code code, int errnum,
	    const char *phase, const char *fmt, ...)
{
	int ret = errnum ? -errnum : -EINVAL;

	if (!e)
		return ret;
	*e = (struct brig_error){ .code = code, .errnum = errnum };
	snprintf(e->phase, sizeof e->phase, "%s", phase);

	char text[sizeof e->message];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (errnum && n >= 0 && (size_t)n < sizeof text)
		snprintf(text + n, sizeof text - (size_t)n, ": %s", text_of(errnum));
	/* Names and values are whatever somebody chose: one plain line of them
	 * reaches a terminal, a log or JSON. */
	str_clean(text, e->message, sizeof e->message);
	if (code == BRIG_E_NO_MEMORY)
		err_fix(e, "give brig more memory, processes or descriptors "
			   "(ulimit -a shows the limits)");
	return ret;
}

void err_fix(struct brig_error *e, const char *fmt, ...)
{
	if (!e)
		return;
	char text[sizeof e->fix];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	str_clean(text, e->fix, sizeof e->fix);
}
