/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/bwrap_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/landlock_probe.h"
#include "backend/spawn.h"
#include "base/fd.h"

static void try_version(struct probe_result *r, char *path)
{
	char *const argv[] = { path, (char *)"--version", NULL };
	char text[128];
	struct bwrap_features f;
	int code = spawn_output(argv, text, sizeof text);

	text[strcspn(text, "\n")] = '\0';
	bool fine = code == 0 && bwrap_features(path, &f) == 0;
	r->state = fine ? PROBE_OK : PROBE_FAILED;
	if (!fine) {
		snprintf(r->detail, sizeof r->detail, "%.200s does not run", path);
		snprintf(r->fix, sizeof r->fix, "install bubblewrap");
		return;
	}
	snprintf(r->detail, sizeof r->detail, "%.100s (%.200s)%s%s%s", text, path,
		 f.size ? "" : ", cannot limit temporary files",
		 f.bind_fd ? "" : ", binds by name only",
		 f.disable_userns ? "" : ", cannot switch off user namespaces");
	if (!f.size)
		r->state = PROBE_DEGRADED;
}

/* The flags a run uses, on a program that does nothing. */
static void try_flags(struct probe_result *r, char *path)
{
	static const char *const flags[] = {
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts",
		"--unshare-cgroup", "--unshare-net", "--die-with-parent", "--new-session",
		"--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc", "--dev",
		"/dev", "--tmpfs", "/tmp", "--remount-ro", "/", "--", "/bin/true",
	};
	char *argv[sizeof flags / sizeof flags[0] + 2] = { path };
	char text[300];

	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
		argv[i + 1] = (char *)flags[i];
	int code = spawn_output(argv, text, sizeof text);
	text[strcspn(text, "\n")] = '\0';
	r->state = code == 0 ? PROBE_OK : PROBE_FAILED;
	if (code == 0) {
		snprintf(r->detail, sizeof r->detail, "ran /bin/true with every namespace");
		return;
	}
	snprintf(r->detail, sizeof r->detail, "exit %d: %.280s", code, text);
	snprintf(r->fix, sizeof r->fix,
		 "the probes of the native backend tell why, mostly");
}

int bwrap_probe(struct probe_result out[PROBE_MAX])
{
	const unsigned ns = LAYERS_BASE & ~LAYER_BIT(LAYER_LANDLOCK);
	cleanup_free char *path = bwrap_find();

	out[0] = (struct probe_result){ .name = "bubblewrap", .layers = ns };
	if (!path) {
		out[0].state = PROBE_FAILED;
		snprintf(out[0].detail, sizeof out[0].detail, "not installed");
		snprintf(out[0].fix, sizeof out[0].fix, "install bubblewrap");
		return 1;
	}
	try_version(&out[0], path);
	out[1] = (struct probe_result){ .name = "namespaces", .layers = ns };
	try_flags(&out[1], path);
	limits_probe(&out[2]);
	return 3;
}
