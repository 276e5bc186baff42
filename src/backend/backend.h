/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One interface, one file per backend.  A backend takes a spec, which is the
 * whole policy of one run, and gives a result; what it cannot enforce it
 * refuses, before anything has run.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/buf.h"
#include "engine/probe.h"
#include "engine/result.h"
#include "base/spec.h"

struct backend {
	const char *name;
	const char *summary; /* one line for doctor */
	unsigned can;        /* LAYER_BITs it can give at best */
	bool images;         /* it starts from an image: capabilities and a writable
				root can be had */

	bool learns;         /* --learn and --proxy-env work with it */

	bool becomes_helper; /* prepare() and probe() may replace this process by a
				helper that starts over with the same arguments */

	/* How it keeps to a network allow-list, in one line; NULL: it refuses one. */
	const char *allow_list;

	/* Really tries, on this machine, what the backend needs, and leaves
	 * nothing behind.  Returns how many entries were filled in. */
	int (*probe)(struct probe_result out[PROBE_MAX]);

	/* Checks the spec and prepares everything that can fail without starting
	 * anything.  0 and *state (may stay NULL), or -errno with err. */
	int (*prepare)(const struct spec *s, void **state, struct brig_error *err);

	/* Runs the prepared command; always fills *res: either res->ran, or
	 * res->error says why not and nothing ran. */
	void (*run)(const struct spec *s, void *state, struct brig_result *res);

	/* Frees what prepare() made; takes NULL. */
	void (*release)(void *state);

	/* What would be done, for explain: lines of text.  May be NULL.  With
	 * describes_bare it needs no state: what it says does not depend on
	 * this machine. */
	bool describes_bare;
	void (*describe)(const struct spec *s, const void *state, struct buf *out);
};

/* The backend, or NULL when this build has none of that kind. */
const struct backend *backend_get(enum backend_id id);
const char *backend_name(enum backend_id id);
/* The id with that name, or BACKEND__COUNT. */
enum backend_id backend_by_name(const char *name);

/*
 * Runs the spec with its backend.  Only when the policy lists a fallback, and
 * only when nothing has run, is the next one tried; the result names the
 * backend that ran.  Always fills *res.
 */
void backend_run(const struct spec *s, struct brig_result *res);

extern const struct backend backend_native, backend_landlock, backend_bwrap,
	backend_docker, backend_wrapper, backend_seatbelt, backend_none;

#endif
