/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

int err_set(struct brig_error *e, enum brig_code code, int errnum,
	    const char *phase, const char *fmt, ...)
{
	int ret = errnum ? -errnum : -EINVAL;

	if (!e)
		return ret;
	*e = (struct brig_error){ .code = code, .errnum = errnum };
	snprintf(e->phase, sizeof e->phase, "%s", phase);

	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(e->message, sizeof e->message, fmt, ap);
	va_end(ap);
	if (errnum && n >= 0 && (size_t)n < sizeof e->message)
		snprintf(e->message + n, sizeof e->message - (size_t)n, ": %s",
			 strerror(errnum));
	return ret;
}

void err_fix(struct brig_error *e, const char *fmt, ...)
{
	if (!e)
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(e->fix, sizeof e->fix, fmt, ap);
	va_end(ap);
}
