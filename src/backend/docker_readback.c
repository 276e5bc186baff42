/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the engine stored, compared with what was asked for.  An engine (or a
 * proxy in front of it) that widens a request is found here, before anything
 * runs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/docker_engine.h"
#include "base/err.h"
#include "base/str.h"

static const char *text_of(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

static int differs(struct brig_error *err, const char *what)
{
	err_set(err, BRIG_E_REQUIRE_UNMET, 0, "docker",
		"the engine did not store what was asked for: %.200s", what);
	err_fix(err, "a plug-in or proxy of the engine changes requests: look at its settings");
	return -EPERM;
}

static bool holds_word(const json_t *list, const char *word)
{
	size_t i;
	const json_t *v;

	json_array_foreach(list, i, v) {
		const char *s = json_string_value(v);
		if (s && strncmp(s, word, strlen(word)) == 0)
			return true;
	}
	return false;
}

/* The entry of the request with this target, or NULL. */
static const json_t *asked_mount(const json_t *asked, const char *target)
{
	size_t i;
	const json_t *m;

	json_array_foreach(asked, i, m)
		if (streq(text_of(m, "Target"), target))
			return m;
	return NULL;
}

/* Every mount that is there was asked for, from the same source, and no wider. */
static int check_mounts(const json_t *inspect, const json_t *asked, const json_t *tmpfs,
			struct brig_error *err)
{
	size_t i;
	const json_t *m;
	char what[300];

	json_array_foreach(json_object_get(inspect, "Mounts"), i, m) {
		const char *dst = text_of(m, "Destination");
		const json_t *a = asked_mount(asked, dst);
		char shown[200];
		str_clean(dst, shown, sizeof shown);
		if (streq(dst, DOCKER_INSIDE "/ctl") || json_object_get(tmpfs, dst))
			continue;
		if (!a && streq(text_of(m, "Type"), "volume")) {
			err_set(err, BRIG_E_UNSUPPORTED, 0, "docker",
				"the image declares a volume at %s, which no limit holds", shown);
			err_fix(err, "show a directory there with --rw, or use an image without "
				     "VOLUME");
			return -EOPNOTSUPP;
		}
		snprintf(what, sizeof what, "the mount at %s", shown);
		if (!a || !streq(text_of(a, "Source"), text_of(m, "Source")) ||
		    (json_is_true(json_object_get(a, "ReadOnly")) &&
		     json_is_true(json_object_get(m, "RW"))))
			return differs(err, what);
	}
	return 0;
}

/* Namespaces and limits that the stored configuration supports. */
static unsigned layers_of(const json_t *host)
{
	unsigned bits = LAYER_BIT(LAYER_MOUNT);
	const char *ipc = text_of(host, "IpcMode");

	if (!*text_of(host, "PidMode") || streq(text_of(host, "PidMode"), "private"))
		bits |= LAYER_BIT(LAYER_PID);
	if (streq(ipc, "private"))
		bits |= LAYER_BIT(LAYER_IPC);
	if (!*text_of(host, "UTSMode") || streq(text_of(host, "UTSMode"), "private"))
		bits |= LAYER_BIT(LAYER_UTS);
	if (streq(text_of(host, "NetworkMode"), "none"))
		bits |= LAYER_BIT(LAYER_NET);
	if (streq(text_of(host, "CgroupnsMode"), "private") ||
	    streq(text_of(host, "CgroupMode"), "private"))
		bits |= LAYER_BIT(LAYER_CGROUP);
	if (json_array_size(json_object_get(host, "CapAdd")) == 0)
		bits |= LAYER_BIT(LAYER_CAPS);
	return bits;
}

int docker_readback(const json_t *inspect, const json_t *body, unsigned *says,
		    struct brig_error *err)
{
	const json_t *host = json_object_get(inspect, "HostConfig");
	const json_t *want = json_object_get(body, "HostConfig");
	const json_t *config = json_object_get(inspect, "Config");
	const json_t *opts = json_object_get(host, "SecurityOpt");

	*says = 0;
	if (!json_is_object(host) || !json_is_object(config))
		return differs(err, "no configuration at all");
	if (json_is_true(json_object_get(host, "Privileged")))
		return differs(err, "it is privileged");
	if (json_is_true(json_object_get(want, "ReadonlyRootfs")) &&
	    !json_is_true(json_object_get(host, "ReadonlyRootfs")))
		return differs(err, "the root is writable");
	if (!streq(text_of(config, "User"), text_of(body, "User")))
		return differs(err, "the user");
	if (json_array_size(json_object_get(host, "Devices")) > 0)
		return differs(err, "it has devices");
	if (json_array_size(json_object_get(host, "CapAdd")) >
	    json_array_size(json_object_get(want, "CapAdd")))
		return differs(err, "it has more capabilities");
	if (holds_word(opts, "seccomp=unconfined") || holds_word(opts, "seccomp:unconfined"))
		return differs(err, "it has no system-call filter");
	/* Podman ignores the runtime of a request and tells the real one elsewhere */
	const char *runtime = streq(text_of(host, "Runtime"), "oci") ?
				      text_of(inspect, "OCIRuntime") : text_of(host, "Runtime");
	if (*text_of(want, "Runtime") && !streq(text_of(want, "Runtime"), runtime))
		return differs(err, "the runtime");
	if (json_array_size(json_object_get(host, "Binds")) > 0 &&
	    !json_object_get(inspect, "Mounts"))
		return differs(err, "the mounts");
	*says = layers_of(host);
	return check_mounts(inspect, json_object_get(want, "Mounts"),
			    json_object_get(want, "Tmpfs"), err);
}
