/* SPDX-License-Identifier: Apache-2.0 */
/* What the groups of a run have counted. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "confine/cgroup_internal.h"

enum { USE_PEAK, USE_OOM, USE_PIDS, USE_CPU };

/* Version 1 has a file only where the group limits that. */
static const struct {
	unsigned bit;
	char v1[28], v2[16];
} files[] = {
	[USE_PEAK] = { CG_MEMORY, "memory.max_usage_in_bytes", "memory.peak" }, /* 5.19 */
	[USE_OOM] = { CG_MEMORY, "memory.oom_control", "memory.events" },
	[USE_PIDS] = { CG_PIDS, "pids.events", "pids.events" },
	/* version 1: where both controllers are mounted together, as they mostly are */
	[USE_CPU] = { CG_CPU, "cpuacct.usage", "cpu.stat" },
};

static int open_below(const char *dir, const char *file)
{
	char path[PATH_MAX + sizeof files[0].v1 + 1];

	snprintf(path, sizeof path, "%s/%s", dir, file);
	return openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* The text of counter k, empty when there is none. */
static const char *text_of(const struct cgroup *cg, int k, char *text, size_t cap)
{
	text[0] = '\0';
	for (int i = 0; i < cg->n_dirs && !text[0]; i++) {
		if (!cg->dirs[i][0] || (cg->version == 1 && !(cg->bits[i] & files[k].bit)))
			continue;
		cleanup_close int fd = open_below(cg->dirs[i], cg->version == 2 ? files[k].v2 :
										  files[k].v1);
		ssize_t n = fd < 0 ? 0 : pread(fd, text, cap - 1, 0);
		text[n > 0 ? n : 0] = '\0';
	}
	return text;
}

static uint64_t more_than(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

void cgroup_read_usage(struct cgroup *cg, struct cgroup_usage *u)
{
	big_buffer char text[4096];

	u->memory_peak = more_than(strtoull(text_of(cg, USE_PEAK, text, sizeof text), NULL, 10),
				   cg->before.memory_peak);
	u->oom_kills = more_than(cg_key_value(text_of(cg, USE_OOM, text, sizeof text), "oom_kill"),
				 cg->before.oom_kills);
	u->pids_refused = more_than(cg_key_value(text_of(cg, USE_PIDS, text, sizeof text), "max"),
				    cg->before.pids_refused);
	text_of(cg, USE_CPU, text, sizeof text);
	u->cpu_us = cg->version == 2 ? cg_key_value(text, "usage_usec") :
				       strtoull(text, NULL, 10) / 1000;
}
