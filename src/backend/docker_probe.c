/* SPDX-License-Identifier: Apache-2.0 */
/* What brig doctor shows of the engine.  Only looks: nothing is made. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/docker_engine.h"
#include "base/str.h"
#include "engine/probe.h"

static struct probe_result *add(struct probe_result *out, int *n, const char *name,
				unsigned layers, enum probe_state state)
{
	struct probe_result *r = &out[(*n)++];

	*r = (struct probe_result){ .name = name, .layers = layers, .state = state };
	return r;
}

static void failed(struct probe_result *r, const struct brig_error *err)
{
	r->state = PROBE_FAILED;
	str_clean(err->message, r->detail, sizeof r->detail);
	str_clean(err->fix, r->fix, sizeof r->fix);
}

static void probe_runtimes(struct probe_result *out, int *n, const struct docker_engine *e)
{
	struct probe_result *r = add(out, n, "runtimes", 0, PROBE_OK);
	const char *key;
	json_t *v;
	size_t at = 0;

	json_object_foreach(json_object_get(e->info, "Runtimes"), key, v) {
		char word[64];
		str_clean(key, word, sizeof word);
		int len = snprintf(r->detail + at, sizeof r->detail - at, "%s%s%s",
				   at ? ", " : "", word,
				   streq(word, e->runtime) ? " (default)" : "");
		if (len < 0 || (size_t)len >= sizeof r->detail - at)
			break;
		at += (size_t)len;
	}
}

static void probe_limits(struct probe_result *out, int *n, const json_t *info)
{
	static const struct {
		const char *name, *key;
		enum layer layer;
	} kinds[] = { { "memory limit", "MemoryLimit", LAYER_MEMORY },
		      { "processor limit", "CpuCfsQuota", LAYER_CPU },
		      { "process limit", "PidsLimit", LAYER_PIDS } };
	const char *version = json_string_value(json_object_get(info, "CgroupVersion"));

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		bool can = json_is_true(json_object_get(info, kinds[i].key));
		struct probe_result *r = add(out, n, kinds[i].name, LAYER_BIT(kinds[i].layer),
					     can ? PROBE_OK : PROBE_DEGRADED);
		char word[16];
		str_clean(version ? version : "?", word, sizeof word);
		snprintf(r->detail, sizeof r->detail, can ? "control group version %s" :
			 "the engine cannot set it (control group version %s)", word);
		if (!can)
			snprintf(r->fix, sizeof r->fix,
				 "give the engine control groups: cgroup v2 with delegation for a "
				 "rootless one");
	}
}

/* Which form of it the caller would get. */
static void probe_allow_list(struct probe_result *out, int *n, const struct docker_engine *e)
{
	bool native = docker_runtime_is_native(e->runtime);
	struct probe_result *r = add(out, n, "allow-list", LAYERS_ALLOW,
				     native && !e->remapped ? PROBE_OK : PROBE_DEGRADED);

	if (r->state != PROBE_OK) {
		snprintf(r->detail, sizeof r->detail, "refused: %s",
			 e->remapped ? "the engine maps ids" :
				       "the default runtime has a kernel of its own");
		snprintf(r->fix, sizeof r->fix, "use an engine and a runtime (runc) whose "
						"containers are processes of this kernel");
		return;
	}
	snprintf(r->detail, sizeof r->detail, "%s", geteuid() == 0 ?
		 "by name, for every program: routes are made in the container's network" :
		 "by name, for every program: on 127.18.0.0/15, where the list's ports are taken");
}

int docker_probe(struct probe_result *out)
{
	char socket[108];
	struct docker_engine e;
	struct brig_error err = { 0 };
	int n = 0;

	struct probe_result *r = add(out, &n, "engine", DOCKER_CAN, PROBE_OK);
	if (docker_socket_find(NULL, socket, &err) < 0 ||
	    docker_engine_open(socket, &e, &err) < 0) {
		failed(r, &err);
		return n;
	}
	snprintf(r->detail, sizeof r->detail, "%s %s, API %s, at %.120s%s",
		 e.podman ? "Podman" : "Docker", docker_api_engine(e.api),
		 docker_api_version(e.api), socket,
		 e.remapped ? ", ids are mapped (rootless or userns-remap)" : "");
	probe_runtimes(out, &n, &e);
	const json_t *count = json_object_get(e.info, "Images");
	r = add(out, &n, "images", 0, PROBE_OK);
	snprintf(r->detail, sizeof r->detail, "%d on this machine",
		 (int)json_integer_value(count));
	if (json_integer_value(count) <= 0) {
		r->state = PROBE_DEGRADED;
		snprintf(r->fix, sizeof r->fix, "load one: brig never pulls by itself");
	}
	probe_limits(out, &n, e.info);
	probe_allow_list(out, &n, &e);
	docker_engine_close(&e);
	return n;
}
