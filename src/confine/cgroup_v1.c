/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Version 1: one directory per hierarchy.  The group is made inside the group
 * we are in ourselves, so that whatever limits us limits the sandbox too.
 *
 * How the child gets in matters: writing a pid to cgroup.procs takes a lock
 * whose slow side waits for RCU, 8 to 15 ms unless somebody did the same a
 * moment ago.  A task that writes "0" to `tasks` moves itself and needs no
 * such lock (cgroup_procs_write_start), about 40 µs.  The kernel checks the
 * credentials `tasks` was opened with, so the child may have dropped its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "confine/cgroup_internal.h"

static int set_memory(int dir, const struct cgroup_want *want)
{
	long page = sysconf(_SC_PAGESIZE);
	uint64_t slack = page > 0 ? (uint64_t)page : 4096;

	int r = cg_number_set(dir, "memory.limit_in_bytes", want->memory, slack);
	if (r < 0)
		return r;
	/* memory plus swap: without it the limit is only on what stays in RAM.
	 * The file exists only where swap is accounted. */
	r = cg_number_set(dir, "memory.memsw.limit_in_bytes", want->memory, slack);
	if ((r < 0 && r != -ENOENT) || !(want->asked & CG_MEMORY))
		return r == -ENOENT ? 0 : r;
	/* What sockets hold for each other is counted apart, and only where there is a limit.
	 * The first one in a machine has the kernel patch itself, which takes it 170 µs: for
	 * somebody who wants the limit, not for a default. */
	r = cg_number_set(dir, "memory.kmem.tcp.limit_in_bytes", want->memory, slack);
	return r == -ENOENT ? 0 : r;
}

static int set_pids(int dir, const struct cgroup_want *want)
{
	return cg_number_set(dir, "pids.max", want->pids, 1);
}

static int set_cpu(int dir, const struct cgroup_want *want)
{
	int r = cg_number_set(dir, "cpu.cfs_period_us", CG_CPU_PERIOD, 1);
	if (r < 0)
		return r;
	return cg_number_set(dir, "cpu.cfs_quota_us",
			     want->cpu_milli * (CG_CPU_PERIOD / 1000), 1);
}

static const struct {
	unsigned bit;
	const char *name;
	int (*set)(int dir, const struct cgroup_want *want);
} limits[] = {
	{ CG_MEMORY, "memory", set_memory },
	{ CG_PIDS, "pids", set_pids },
	{ CG_CPU, "cpu", set_cpu },
};

/* One hierarchy may carry several controllers, and then has one group. */
struct made {
	int dir;       /* directory descriptor of the group */
	size_t parent; /* how much of its path is that of the group above it */
};

/* A group starts with no CPUs when cpuset is mounted together with what we
 * need, and nothing may enter it then: give it what its parent has. */
static int copy_cpuset(int dir)
{
	static const char *const files[][2] = {
		{ "cpuset.cpus", "../cpuset.cpus" },
		{ "cpuset.mems", "../cpuset.mems" },
	};
	for (size_t i = 0; i < 2; i++) {
		big_buffer char text[4096];
		ssize_t n = fd_read_at(dir, files[i][1], text, sizeof text);
		if (n < 0)
			return (int)n;
		int r = fd_write_at(dir, files[i][0], text);
		if (r < 0)
			return r;
	}
	return 0;
}

static bool same_hierarchy(const char *groups, const char *a, const char *b)
{
	const char *pa, *pb;
	size_t la, lb;

	return cg_line_find(groups, a, &pa, &la) && cg_line_find(groups, b, &pb, &lb) &&
	       pa == pb; /* the very same line of text */
}

static void explain_place(struct cgroup *cg, size_t which, int r)
{
	const unsigned bit = limits[which].bit;
	const char *name = limits[which].name;

	if (r == -ENOENT) {
		cg_why_add(cg, bit, "the %s controller is not mounted here", name);
		cg_fix_set(cg, bit, "mount it: mount -t cgroup -o %s cgroup "
			       "/sys/fs/cgroup/%s", name, name);
	} else if (r == -EXDEV) {
		cg_why_add(cg, bit, "brig's own %s group is outside what is mounted here",
			   name);
		cg_fix_set(cg, bit, "start the container with the host's cgroup "
			       "namespace, or without a hidden parent group");
	} else {
		cg_why_add(cg, bit, "brig's own %s group: %s", name, strerror(-r));
	}
}

static void explain_make(struct cgroup *cg, size_t which, const char *dir, int r)
{
	const unsigned bit = limits[which].bit;
	const char *name = limits[which].name;

	if (r == -EROFS) {
		cg_why_add(cg, bit, "%s: %s is mounted read-only", name, dir);
		cg_fix_set(cg, bit, "start the container with a writable %s (for example "
			       "podman or docker run --privileged)", dir);
	} else if (r == -EACCES || r == -EPERM) {
		cg_why_add(cg, bit, "%s: %s is not writable by uid %u (version 1 groups "
			       "are not delegated)", name, dir, (unsigned)geteuid());
		cg_fix_set(cg, bit, "as root: g=%s/u; mkdir $g && chown -R %u $g && echo PID "
				    ">$g/cgroup.procs (PID: the shell you start brig from)",
			   dir, (unsigned)geteuid());
	} else {
		cg_why_add(cg, bit, "%s: no group could be made in %s: %s", name, dir,
			   strerror(-r));
	}
}

/* Makes the group in one hierarchy and opens its `tasks`.  A negative return
 * is a fault; for a mere "cannot" there is a reason, and *made stays closed. */
static int make_group(struct cgroup *cg, size_t which, bool cpuset,
		      const struct cg_place *own, const char *id,
		      struct made *made, struct brig_error *err)
{
	const unsigned bit = limits[which].bit;
	const char *name = limits[which].name;
	struct statfs fs;

	/* something may be mounted over the hierarchy; making directories in
	 * a tmpfs would look like success */
	if (statfs(own->dir, &fs) < 0 || fs.f_type != CG_MAGIC_V1) {
		cg_why_add(cg, bit, "%s: %s is not a control group", name, own->dir);
		return 0;
	}
	int dir = cg_dir_make(cg, own, id);
	if (dir == -EEXIST || dir == -EMFILE || dir == -ENFILE)
		return err_set(err, BRIG_E_CGROUP_FAILED, -dir, "cgroup",
			       "%.300s/brig-%s", own->dir, id);
	if (dir < 0) {
		explain_make(cg, which, own->dir, dir);
		return 0;
	}
	int r = cpuset ? copy_cpuset(dir) : 0;
	if (r < 0) {
		cg_why_add(cg, bit, "%s: cpuset of %s: %s", name, own->dir, strerror(-r));
		close(dir);
		cg_dir_unmake(cg);
		return 0;
	}
	int tasks = openat(dir, "tasks", O_WRONLY | O_CLOEXEC);
	if (tasks < 0) {
		r = -errno;
		close(dir);
		cg_dir_unmake(cg);
		return err_set(err, BRIG_E_CGROUP_FAILED, -r, "cgroup",
			       "%.300s/brig-%s/tasks", own->dir, id);
	}
	cg->task_fds[cg->n_task_fds++] = tasks;
	made->dir = dir;
	made->parent = strlen(own->dir);
	return 0;
}

/* Sets one limit in group k; when the kernel refuses, the controller is
 * simply not enforced, and a group that then limits nothing is taken back. */
static void set_limit(struct cgroup *cg, size_t which, int k, struct made *made,
		      const struct cgroup_want *want)
{
	const unsigned bit = limits[which].bit;
	int r = limits[which].set(made[k].dir, want), len = (int)made[k].parent;

	if (r == 0) {
		cg->bits[k] |= bit;
		cg->enforced |= bit;
		return;
	}
	if (r == -EINVAL && bit == CG_CPU) {
		cg_why_add(cg, bit, "cpu: the kernel refused %llu/1000 CPU: below its "
			       "minimum, or more than %.*s itself has",
			   (unsigned long long)want->cpu_milli, len, cg->dirs[k]);
		cg_fix_set(cg, bit, "ask for at least 0.01 CPU and no more than the group "
			       "brig runs in may use");
	} else {
		cg_why_add(cg, bit, "%s: the limit could not be set in %.*s: %s",
			   limits[which].name, len, cg->dirs[k], strerror(-r));
	}
	if (cg->bits[k] == 0 && k == cg->n_dirs - 1) {
		fd_close(&made[k].dir);
		fd_close(&cg->task_fds[k]);
		cg->n_task_fds--;
		cg_dir_unmake(cg);
	}
}

int cg_v1_prepare(struct cgroup *cg, const struct cgroup_want *want,
		  unsigned need, const char *id, struct cg_text *t,
		  struct brig_error *err)
{
	struct made made[CG_MAX_DIRS];
	struct cg_place own;
	int result = 0;

	for (int i = 0; i < CG_MAX_DIRS; i++)
		made[i] = (struct made){ .dir = -1 };
	cg->version = 1;
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		if (!(need & limits[i].bit))
			continue;
		int r = cg_place_own(t, limits[i].name, &own);
		if (r < 0) {
			explain_place(cg, i, r);
			continue;
		}
		int k = 0;
		while (k < cg->n_dirs && (made[k].parent != strlen(own.dir) ||
					  memcmp(cg->dirs[k], own.dir, made[k].parent) != 0))
			k++;
		if (k == cg->n_dirs) {
			bool cpuset = same_hierarchy(t->groups, limits[i].name, "cpuset");
			result = make_group(cg, i, cpuset, &own, id,
					    &made[k], err);
			if (result < 0)
				break;
			if (made[k].dir < 0)
				continue;
		}
		set_limit(cg, i, k, made, want);
		need &= ~limits[i].bit;
	}
	for (int i = 0; i < CG_MAX_DIRS; i++)
		fd_close(&made[i].dir);
	return result;
}
