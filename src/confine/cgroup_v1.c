/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Version 1: one directory per hierarchy, inside the group we are in ourselves, so that
 * whatever limits us limits the sandbox too.  Making and removing groups is dear (a memory
 * group that is removed stays for as long as a page of its is cached), so there is a set of
 * slots, brig-slot-0 and so on, which stay.  A slot belongs to whoever holds the lock on its
 * directory; the set grows when all are taken.  One that still holds a task is not used.
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
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "confine/cgroup_internal.h"

enum { SLOTS_MAX = 4096 };

static int set_memory(int dir, const struct cgroup_want *want)
{
	long page = sysconf(_SC_PAGESIZE);
	uint64_t slack = page > 0 ? (uint64_t)page : 4096;

	int r = cg_number_set(dir, "memory.limit_in_bytes", want->memory, slack);
	if (r == -EINVAL) {
		/* more than memory and swap together had in this slot's last run */
		fd_write_at(dir, "memory.memsw.limit_in_bytes", "-1");
		r = cg_number_set(dir, "memory.limit_in_bytes", want->memory, slack);
	}
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

static uint64_t read_number(int dir, const char *file, const char *key)
{
	big_buffer char text[4096];

	if (fd_read_at(dir, file, text, sizeof text) <= 0)
		return 0;
	return key ? cg_key_value(text, key) : strtoull(text, NULL, 10);
}

/* Opens one slot and locks it.  Its directory, or -errno: -EWOULDBLOCK when it is taken. */
static int open_slot(const char *dir)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	cleanup_close int fd = openat(AT_FDCWD, dir, flags);

	if (fd < 0 && errno == ENOENT) {
		if (mkdir(dir, 0755) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(AT_FDCWD, dir, flags);
	}
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Its `tasks`, for the child to enter by, when nobody is in there.  -EBUSY otherwise. */
static int open_tasks(int slot)
{
	char one[2];
	cleanup_close int tasks = openat(slot, "tasks", O_RDWR | O_CLOEXEC);
	ssize_t n = tasks < 0 ? -1 : pread(tasks, one, sizeof one, 0);

	if (n < 0)
		return errno == EACCES ? -EBUSY : -errno; /* EACCES: it is another user's */
	return n > 0 ? -EBUSY : take_fd(&tasks);
}

/* Whether a run before has left files in a tmpfs of the host's: they count here, and nothing
 * takes them back. */
static bool is_littered(int slot)
{
	const uint64_t little = 1u << 20;

	/* the short file first; a group of another hierarchy has neither */
	return read_number(slot, "memory.usage_in_bytes", NULL) > little &&
	       read_number(slot, "memory.stat", "shmem") > little;
}

/* Takes the first free slot in *own.  0 or -errno. */
static int take_slot(struct cgroup *cg, const struct cg_place *own, const char *kind)
{
	for (unsigned n = 0; n < SLOTS_MAX; n++) {
		char name[32];
		snprintf(name, sizeof name, "%s-%u", kind, n);
		int r = cg_dir_name(cg, own, name);
		if (r < 0)
			return r;
		cleanup_close int slot = open_slot(cg->dirs[cg->n_dirs]);
		if (slot == -EWOULDBLOCK)
			continue;
		if (slot < 0)
			return slot;
		int tasks = is_littered(slot) ? -EBUSY : open_tasks(slot);
		if (tasks == -EBUSY)
			continue;
		if (tasks < 0)
			return tasks;
		cg->slot_fds[cg->n_dirs++] = take_fd(&slot);
		cg->task_fds[cg->n_task_fds++] = tasks;
		return 0;
	}
	return -EUSERS;
}

static void give_back_slot(struct cgroup *cg)
{
	cg->n_dirs--;
	fd_close(&cg->slot_fds[cg->n_dirs]);
	fd_close(&cg->task_fds[--cg->n_task_fds]);
}

/* What runs before have left: the peak starts anew, counters that cannot be are subtracted
 * later, and so is what is still cached of their files, which the kernel takes back when this
 * run needs the room. */
static void forget_past(struct cgroup *cg, unsigned bit, int slot)
{
	struct cgroup_usage *b = &cg->before;

	if (bit == CG_PIDS)
		b->pids_refused = read_number(slot, "pids.events", "max");
	if (bit == CG_CPU)
		fd_write_at(slot, "cpuacct.usage", "0");
	if (bit != CG_MEMORY)
		return;
	b->oom_kills = read_number(slot, "memory.oom_control", "oom_kill");
	b->memory_peak = read_number(slot, "memory.usage_in_bytes", NULL);
	fd_write_at(slot, "memory.max_usage_in_bytes", "0");
}

/* A slot in one hierarchy.  A negative return is a fault; for a mere "cannot" there is a
 * reason, and no group. */
static int take_group(struct cgroup *cg, size_t which, bool cpuset, const char *kind,
		      const struct cg_place *own, struct brig_error *err)
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
	int r = take_slot(cg, own, kind);
	if (r == -EMFILE || r == -ENFILE)
		return err_set(err, BRIG_E_CGROUP_FAILED, -r, "cgroup", "%.300s", own->dir);
	if (r < 0) {
		explain_make(cg, which, own->dir, r);
		return 0;
	}
	r = cpuset ? copy_cpuset(cg->slot_fds[cg->n_dirs - 1]) : 0;
	if (r < 0) {
		cg_why_add(cg, bit, "%s: cpuset of %s: %s", name, own->dir, strerror(-r));
		give_back_slot(cg);
	}
	return 0;
}

/* Sets one limit in group k; when the kernel refuses, the controller is
 * simply not enforced, and a group that then limits nothing is given back. */
static void set_limit(struct cgroup *cg, size_t which, int k, int parent,
		      const struct cgroup_want *want)
{
	const unsigned bit = limits[which].bit;
	int r = limits[which].set(cg->slot_fds[k], want);

	if (r == 0) {
		cg->bits[k] |= bit;
		cg->enforced |= bit;
		forget_past(cg, bit, cg->slot_fds[k]);
		return;
	}
	if (r == -EINVAL && bit == CG_CPU) {
		cg_why_add(cg, bit, "cpu: the kernel refused %llu/1000 CPU: below its "
			       "minimum, or more than %.*s itself has",
			   (unsigned long long)want->cpu_milli, parent, cg->dirs[k]);
		cg_fix_set(cg, bit, "ask for at least 0.01 CPU and no more than the group "
			       "brig runs in may use");
	} else {
		cg_why_add(cg, bit, "%s: the limit could not be set in %.*s: %s",
			   limits[which].name, parent, cg->dirs[k], strerror(-r));
	}
	if (cg->bits[k] == 0 && k == cg->n_dirs - 1)
		give_back_slot(cg);
}

int cg_v1_prepare(struct cgroup *cg, const struct cgroup_want *want,
		  unsigned need, struct cg_text *t, struct brig_error *err)
{
	/* A limit on the memory of sockets cannot be taken back without a trace, so groups
	 * that have one are apart. */
	const char *kind = want->asked & CG_MEMORY ? "slot-tcp" : "slot";
	size_t parent[CG_MAX_DIRS] = { 0 };
	struct cg_place own;

	cg->version = 1;
	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		if (!(need & limits[i].bit))
			continue;
		int r = cg_place_own(t, limits[i].name, &own);
		if (r < 0) {
			explain_place(cg, i, r);
			continue;
		}
		/* one hierarchy may carry several controllers, and then has one group */
		const size_t len = strlen(own.dir);
		int k = 0;
		while (k < cg->n_dirs && (parent[k] != len ||
					  memcmp(cg->dirs[k], own.dir, len) != 0))
			k++;
		if (k == cg->n_dirs) {
			bool cpuset = same_hierarchy(t->groups, limits[i].name, "cpuset");
			r = take_group(cg, i, cpuset, kind, &own, err);
			if (r < 0)
				return r;
			if (k == cg->n_dirs)
				continue;
			parent[k] = len;
		}
		set_limit(cg, i, k, (int)len, want);
	}
	return 0;
}
