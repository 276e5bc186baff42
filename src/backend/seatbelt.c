/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seatbelt backend: macOS's own sandbox.  On this system the profile can be
 * made and looked at (explain), not applied.
 */
#include <errno.h>
#include <stdio.h>

#include "backend/backend.h"
#include "backend/seatbelt_profile.h"
#include "base/err.h"
#include "base/fd.h"

static int refuse(struct brig_error *err)
{
	err_set(err, BRIG_E_UNSUPPORTED, 0, "backend",
		"the seatbelt backend works on macOS only");
	err_fix(err, "use --backend native");
	return -EOPNOTSUPP;
}

static int probe(struct probe_result out[PROBE_MAX])
{
	out[0] = (struct probe_result){ .name = "sandbox-exec", .state = PROBE_FAILED };
	snprintf(out[0].detail, sizeof out[0].detail, "not macOS");
	return 1;
}

static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	(void)s, (void)state;
	return refuse(err);
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	(void)s, (void)state;
	refuse(&res->error);
}

static void release(void *state)
{
	(void)state;
}

static void describe(const struct spec *s, const void *state, struct buf *out)
{
	(void)state;
	seatbelt_profile(out, s, "/private/tmp/brig");
}

const struct backend backend_seatbelt = {
	.name = "seatbelt",
	.summary = "macOS's own sandbox; here only its profile can be shown",
	.can = 0,
	.probe = probe,
	.prepare = prepare,
	.run = run,
	.release = release,
	.describes_bare = true,
	.describe = describe,
};
