/* SPDX-License-Identifier: Apache-2.0 */
/* One engine: its facts, and whose containers are whose. */
#include "backend/docker_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

enum { INFO_TIMEOUT_MS = 10000, LIST_TIMEOUT_MS = 10000 };

static bool has_option(const json_t *list, const char *word)
{
	size_t i;
	const json_t *v;

	json_array_foreach(list, i, v) {
		const char *s = json_string_value(v);
		if (s && strstr(s, word))
			return true;
	}
	return false;
}

static void read_info(struct docker_engine *e)
{
	const json_t *options = json_object_get(e->info, "SecurityOptions");
	const char *name = json_string_value(json_object_get(e->info, "DefaultRuntime"));

	e->remapped = json_is_true(json_object_get(e->info, "Rootless")) ||
		      has_option(options, "name=rootless") ||
		      has_option(options, "name=userns");
	str_clean(name ? name : "runc", e->runtime, sizeof e->runtime);
	name = json_string_value(json_object_get(e->info, "CgroupVersion"));
	str_clean(name ? name : "", e->cgroups, sizeof e->cgroups);
	/* only Podman tells about buildah */
	e->podman = json_object_get(e->info, "BuildahVersion") != NULL;
}

int docker_engine_open(const char *socket, struct docker_engine *e, struct brig_error *err)
{
	long status = 0;

	*e = (struct docker_engine){ 0 };
	int r = docker_api_open(socket, &e->api, err);
	if (r == 0)
		r = docker_api_call(e->api, "GET", "/info", NULL, INFO_TIMEOUT_MS, &status,
				    &e->info, err);
	if (r == 0 && (status != 200 || !json_is_object(e->info)))
		r = docker_api_error(err, "asking for its facts", status, e->info);
	if (r < 0) {
		docker_engine_close(e);
		return r;
	}
	read_info(e);
	return 0;
}

void docker_engine_close(struct docker_engine *e)
{
	json_decref(e->info);
	docker_api_close(e->api);
	*e = (struct docker_engine){ 0 };
}

/* When a process started, in ticks since boot; 0 when it is gone, or waits only
 * to be reaped. */
static unsigned long long start_of(pid_t pid)
{
	char path[32], text[1024];
	unsigned long long start = 0;
	char state = 'Z';

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
		return 0;
	/* the name in the second field may hold anything, even ") " */
	const char *p = strrchr(text, ')');
	if (!p || sscanf(p + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
				"%*d %*d %*d %*d %llu", &state, &start) != 2 ||
	    state == 'Z' || state == 'X')
		return 0;
	return start;
}

static int boot_and_namespace(char boot[40], unsigned long long *ns)
{
	struct stat st;

	if (fd_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, 40) <= 0 ||
	    stat("/proc/self/ns/pid", &st) < 0)
		return -ENOENT;
	boot[strcspn(boot, "\n")] = '\0';
	*ns = (unsigned long long)st.st_ino;
	return 0;
}

int docker_owner(char out[160])
{
	unsigned long long ns;
	char boot[40];

	int r = boot_and_namespace(boot, &ns);
	if (r == 0)
		snprintf(out, 160, "1 %s %llu %u %d %llu", boot, ns, geteuid(), (int)getpid(),
			 start_of(getpid()));
	return r;
}

bool docker_owner_gone(const char *owner)
{
	unsigned long long ns, their_ns, start;
	char boot[40], their_boot[40], end;
	unsigned uid;
	int pid;

	if (boot_and_namespace(boot, &ns) < 0 ||
	    sscanf(owner, "1 %39s %llu %u %d %llu%c", their_boot, &their_ns, &uid, &pid, &start,
		   &end) != 5 || pid <= 0)
		return false;
	/* somebody else's processes may be hidden from us, and numbers of another
	 * pid namespace mean nothing here: not for certain */
	if (uid != geteuid())
		return false;
	if (!streq(boot, their_boot))
		return true;
	return their_ns == ns && start_of(pid) != start;
}

static bool valid_id(const char *id)
{
	size_t n = strlen(id);

	return n >= 12 && n < DOCKER_ID_MAX && strspn(id, "0123456789abcdef") == n;
}

int docker_sweep(struct docker_engine *e)
{
	json_t *list = NULL;
	long status = 0;
	int removed = 0;
	size_t i;
	const json_t *c;
	struct brig_error err = { 0 };

	/* {"label":["brig.owner"]} */
	if (docker_api_call(e->api, "GET",
			    "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22brig.owner"
			    "%22%5D%7D", NULL, LIST_TIMEOUT_MS, &status, &list, &err) < 0)
		return 0;
	json_array_foreach(list, i, c) {
		const char *id = json_string_value(json_object_get(c, "Id"));
		const char *owner = json_string_value(
			json_object_get(json_object_get(c, "Labels"), "brig.owner"));
		if (status == 200 && id && owner && valid_id(id) && docker_owner_gone(owner) &&
		    docker_container_remove(e, id, &err) == 0)
			removed++;
	}
	json_decref(list);
	docker_dir_sweep();
	return removed;
}
