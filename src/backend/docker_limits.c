/* SPDX-License-Identifier: Apache-2.0 */
/* The control groups the engine put a container into, as the kernel has them:
 * whether the limits are there, and what was counted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker.h"
#include "base/fd.h"
#include "base/str.h"
#include "confine/cgroup.h"

/* A directory of a hierarchy below the usual place; -1 when it is not there. */
static int open_group(const char *hierarchy, const char *path)
{
	big_buffer char full[PATH_MAX];
	int n = snprintf(full, sizeof full, "/sys/fs/cgroup%s%s%s", *hierarchy ? "/" : "",
			 hierarchy, path);

	if (n < 0 || (size_t)n >= sizeof full || strstr(path, "/../"))
		return -1;
	return open(full, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool has_controller(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; p && *p; p = strchr(p, ',')) {
		if (*p == ',')
			p++;
		if (strncmp(p, name, n) == 0 && (p[n] == ',' || !p[n]))
			return true;
	}
	return false;
}

/* One "4:cpu,cpuacct:/docker/…" */
static void one_line(struct docker_groups *g, char *line, const char *id)
{
	struct {
		const char *name;
		int *fd;
	} kinds[] = { { "memory", &g->memory }, { "pids", &g->pids }, { "cpu", &g->cpu } };
	char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return;
	/* A runtime that ignores control groups leaves the process in somebody
	 * else's: its limits and counters are not the container's. */
	if (!strstr(path, id))
		return;
	*path++ = '\0';
	list++;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (*kinds[i].fd >= 0 || !has_controller(list, kinds[i].name))
			continue;
		*kinds[i].fd = open_group(list, path);
		if (*kinds[i].fd < 0)
			*kinds[i].fd = open_group(kinds[i].name, path);
	}
	if (*list)
		return;
	int fd = open_group("", path); /* version 2 */
	if (fd < 0 || faccessat(fd, "memory.max", F_OK, 0) < 0) {
		fd_close(&fd);
		return;
	}
	g->v2 = true;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (*kinds[i].fd < 0)
			*kinds[i].fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
}

void docker_groups_open(struct docker_groups *g, pid_t pid, const char *id)
{
	char path[40];
	big_buffer char text[8192];

	*g = (struct docker_groups){ -1, -1, -1, false };
	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	if (pid <= 0 || fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
		return;
	char *save = NULL;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		one_line(g, l, id);
}

void docker_groups_close(struct docker_groups *g)
{
	fd_close(&g->memory);
	fd_close(&g->pids);
	fd_close(&g->cpu);
}

/* A number in a file; false for "max" and for a file that is not there. */
static bool read_number(int dir, const char *file, uint64_t *out)
{
	char text[64];

	if (dir < 0 || fd_read_at(dir, file, text, sizeof text) <= 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return parse_uint(text, UINT64_MAX, out) == 0;
}

static bool cpu_holds(const struct docker_groups *g, uint64_t milli)
{
	uint64_t quota = 0, period = 0;
	unsigned long long q, p;
	char text[64];

	if (g->v2) {
		if (g->cpu < 0 || fd_read_at(g->cpu, "cpu.max", text, sizeof text) <= 0 ||
		    sscanf(text, "%llu %llu", &q, &p) != 2)
			return false;
		quota = q;
		period = p;
	} else if (!read_number(g->cpu, "cpu.cfs_quota_us", &quota) ||
		   !read_number(g->cpu, "cpu.cfs_period_us", &period)) {
		return false;
	}
	return period && quota * 1000 <= milli * period;
}

unsigned docker_groups_hold(const struct docker_groups *g, const struct spec_limits *l)
{
	unsigned bits = 0;
	uint64_t v;

	if (l->memory &&
	    read_number(g->memory, g->v2 ? "memory.max" : "memory.limit_in_bytes", &v) &&
	    v <= l->memory)
		bits |= CG_MEMORY;
	if (l->pids && read_number(g->pids, "pids.max", &v) && v <= l->pids)
		bits |= CG_PIDS;
	if (l->cpu_milli && cpu_holds(g, l->cpu_milli))
		bits |= CG_CPU;
	return bits;
}

/* "name N" in a file of such lines. */
static uint64_t counter(int dir, const char *file, const char *name)
{
	char text[1024];
	size_t n = strlen(name);

	if (dir < 0 || fd_read_at(dir, file, text, sizeof text) <= 0)
		return 0;
	for (const char *p = text; p && *p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		if (strncmp(p, name, n) == 0 && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
	}
	return 0;
}

void docker_groups_account(const struct docker_groups *g, struct brig_result *res)
{
	uint64_t peak;
	uint64_t kills = counter(g->memory, g->v2 ? "memory.events" : "memory.oom_control",
				 "oom_kill");
	uint64_t refused = counter(g->pids, "pids.events", "max");

	if (read_number(g->memory, g->v2 ? "memory.peak" : "memory.max_usage_in_bytes", &peak))
		res->max_rss_kb = peak / 1024;
	if (kills) {
		res->oom = true;
		result_deny(res, "memory", "memory limit",
			    "the tree used more than its memory limit", "raise --memory",
			    kills);
	}
	if (refused)
		result_deny(res, "pids", "process limit",
			    "the tree reached its limit on processes", "raise --pids", refused);
}
