/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The macOS sandbox profile for a spec, and the call that applies it.  Pure
 * text: made and tested on any system.
 */
#ifndef BACKEND_SEATBELT_PROFILE_H
#define BACKEND_SEATBELT_PROFILE_H

#include "base/buf.h"
#include "base/spec.h"

/* Appends a string literal: quotes, backslashes, control characters and bytes
 * beyond ASCII are escaped, so that no path can end it. */
void seatbelt_string(struct buf *out, const char *s);

/* Appends the profile; tmp is the private directory for HOME and TMPDIR.
 * Everything is denied but what is listed; later rules win. */
void seatbelt_profile(struct buf *out, const struct spec *s, const char *tmp);

/* sandbox-exec -p PROFILE ARGV…: a fresh vector, the caller's.  0, or -errno with
 * err for what a profile cannot express. */
int seatbelt_argv(const struct spec *s, const char *tmp, char ***out,
		  struct brig_error *err);

#endif
