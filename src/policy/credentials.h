/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where people keep keys, tokens and the traces of what they did, below HOME.
 * A sandbox normally sees nothing of HOME.  When a tree is shown that has one
 * of these places in it, the place is masked: showing a parent is no consent
 * to show the keys.
 */
#ifndef POLICY_CREDENTIALS_H
#define POLICY_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>

/* A directory or file of the host that is shown inside. */
struct credentials_shown {
	const char *src; /* canonical path on the host, links resolved */
	const char *dst; /* normalised path inside */
};

/*
 * Appends to *masks (a vector of strings, the caller's) the path inside of
 * every credential location that exists and could be seen through one of the
 * n shown trees, also where a link leads to it.  home is canonical or NULL.
 *
 * What is shown at or below a location is the caller's explicit choice and
 * stays visible; what lies beside it in the same location is masked.  No
 * system call is made unless a shown tree is HOME, holds it or lies in it.
 * 0 or -ENOMEM.
 */
int credentials_masks(const char *home, const struct credentials_shown *shown,
		      size_t n, char ***masks);

/* Why a path (relative to HOME) is not to be shown: it is or lies below a
 * location.  Static text, or NULL when it may be. */
const char *credentials_reason(const char *rel);

/* True when a location lies strictly below this path (relative to HOME). */
bool credentials_below(const char *rel);

/* The i-th location (relative to HOME) and, when why is not NULL, its reason;
 * NULL after the last.  For documentation and tests. */
const char *credentials_location(size_t i, const char **why);

/* An errno that settles it: a file that is not there needs no mask, and what we may
 * not look up the command may not either.  After any other nothing is run. */
bool credentials_absent(int e);

#endif
