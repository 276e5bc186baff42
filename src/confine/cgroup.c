/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both cgroup versions share: finding our own group, making and removing
 * a directory, membership, killing.
 */
#include "confine/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "confine/cgroup_internal.h"

enum {
	TEXT_MAX = 8 << 20,      /* a host with thousands of mounts is still fine */
	MEMBER_TEXT = 16 * 1024, /* /proc/PID/cgroup */
	REMOVE_WAIT_MS = 200,
	KILL_ROUNDS = 10,
};

/* --- shared steps --- */

static void say(struct cg_words *w, unsigned bits, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
static void say(struct cg_words *w, unsigned bits, const char *fmt, va_list ap)
{
	w->bits = bits;
	vsnprintf(w->text, sizeof w->text, fmt, ap);
}

void cg_why_add(struct cgroup *cg, unsigned bits, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (cg->n_why < CG_WHY_MAX)
		say(&cg->why[cg->n_why++], bits, fmt, ap);
	va_end(ap);
}

void cg_fix_set(struct cgroup *cg, unsigned bits, const char *fmt, ...)
{
	va_list ap;

	for (int i = 0; i < cg->n_fix; i++)
		bits &= ~cg->fix[i].bits;
	va_start(ap, fmt);
	if (bits && cg->n_fix < CG_WHY_MAX)
		say(&cg->fix[cg->n_fix++], bits, fmt, ap);
	va_end(ap);
}

const char *cgroup_why(const struct cgroup *cg, unsigned bits, char *out, size_t cap)
{
	size_t n = 0;

	for (int i = 0; i < cg->n_why; i++)
		if ((cg->why[i].bits & bits) && n < cap)
			n += (size_t)snprintf(out + n, cap - n, "%s%s", n ? "; " : "",
					      cg->why[i].text);
	return n ? out : "no control group is usable";
}

const char *cgroup_fix(const struct cgroup *cg, unsigned bits)
{
	for (int i = 0; i < cg->n_fix; i++)
		if (cg->fix[i].bits & bits)
			return cg->fix[i].text;
	return "brig doctor shows what is missing";
}

void cg_sleep_ms(unsigned ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static int text_file(const char *path, char **text)
{
	size_t len;
	cleanup_close int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd_read_all(fd, TEXT_MAX, text, &len);
}

int cg_text_read(struct cg_text *t)
{
	*t = (struct cg_text){ 0 };
	return text_file("/proc/self/cgroup", &t->groups);
}

void cg_text_free(struct cg_text *t)
{
	free(t->mountinfo);
	free(t->groups);
	*t = (struct cg_text){ 0 };
}

/*
 * True when point is a writable mount of a cgroup file system (by its magic) that has our own
 * group at `path`.  A mount of another part of the hierarchy may have a group of that name,
 * too: then the evidence, which compares /proc/PID/cgroup, shows no limit.
 */
static bool is_usual_place(const char *point, uint64_t magic, const char *path, size_t len,
			   struct cg_place *place)
{
	struct statfs fs;

	return statfs(point, &fs) == 0 && (uint64_t)fs.f_type == magic &&
	       !(fs.f_flags & ST_RDONLY) && cg_place_set(point, path, len, place) == 0 &&
	       access(place->dir, F_OK) == 0;
}

int cg_place_own(struct cg_text *t, const char *controller, struct cg_place *place)
{
	char point[64];
	const char *path;
	size_t len;

	if (!cg_line_find(t->groups, controller, &path, &len))
		return -ENOENT;
	snprintf(point, sizeof point, "/sys/fs/cgroup%s%s", controller ? "/" : "",
		 controller ? controller : "");
	if (is_usual_place(point, controller ? CG_MAGIC_V1 : CG_MAGIC_V2, path, len, place))
		return 0;
	if (!t->mountinfo) {
		int r = text_file("/proc/self/mountinfo", &t->mountinfo);
		if (r < 0)
			return r;
	}
	return cg_place_find(t->mountinfo, t->groups, controller, place);
}

int cg_note(const struct cgroup *cg, enum cg_note_kind kind, unsigned bits, const char *path)
{
	struct cg_note n = { .kind = kind, .bits = bits };
	size_t len = strlen(path) + 1;

	if (cg->journal < 0)
		return 0;
	if (len > sizeof n.path)
		return -ENAMETOOLONG;
	memcpy(n.path, path, len);
	struct iovec iov = { &n, len + offsetof(struct cg_note, path) };
	const struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	return sendmsg(cg->journal, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void cgroup_remember(struct cgroup *cg, const struct cg_note *n, size_t len)
{
	const int i = cg->n_dirs;

	if (len <= offsetof(struct cg_note, path) || len > sizeof *n)
		return;
	len -= offsetof(struct cg_note, path);
	cg->version = 2; /* only these are made when somebody listens */
	if (n->kind == CG_NOTE_LEAF) {
		memcpy(cg->leaf, n->path, len);
		cg->leaf_bits = n->bits;
	} else if (n->kind == CG_NOTE_GROUP && i < CG_MAX_DIRS) {
		/* nobody is in it yet: the name by which members are known is not needed */
		memcpy(cg->text[i], n->path, len);
		cg->dirs[i] = cg->text[i];
		cg->groups[i] = cg->text[i] + len - 1;
		cg->n_dirs = i + 1;
	}
}

int cgroup_enter(const struct cgroup *cg)
{
	/* "0" in `tasks` moves the writer itself; unlike a pid in cgroup.procs it takes no
	 * lock that waits for an RCU grace period */
	for (int i = 0; i < cg->n_task_fds; i++)
		if (write(cg->task_fds[i], "0", 1) != 1)
			return -errno;
	return cg->n_task_fds;
}

int cg_dir_name(struct cgroup *cg, const struct cg_place *parent, const char *name)
{
	int i = cg->n_dirs;

	if (i >= CG_MAX_DIRS)
		return -ENOSPC;
	char *dir = i ? cg->groups[i - 1] + strlen(cg->groups[i - 1]) + 1 : cg->text[0];
	int n = snprintf(dir, PATH_MAX, "%s/brig-%s", parent->dir, name);
	if (n >= PATH_MAX)
		return -ENAMETOOLONG;
	int g = snprintf(dir + n + 1, PATH_MAX, "%s/brig-%s",
			 strcmp(parent->group, "/") == 0 ? "" : parent->group, name);
	if (g >= PATH_MAX)
		return -ENAMETOOLONG;
	cg->dirs[i] = dir;
	cg->groups[i] = dir + n + 1;
	cg->bits[i] = 0;
	return 0;
}

int cg_dir_make(struct cgroup *cg, const struct cg_place *parent, const char *id)
{
	int i = cg->n_dirs;
	int r = cg_dir_name(cg, parent, id);

	if (r == 0)
		r = cg_note(cg, CG_NOTE_GROUP, 0, cg->dirs[i]);
	if (r < 0)
		return r;
	if (mkdir(cg->dirs[i], 0755) < 0)
		return -errno; /* whatever is there is not ours to remove */
	cg->n_dirs = i + 1;
	int fd = openat(AT_FDCWD, cg->dirs[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		r = -errno;
		cg_dir_unmake(cg);
		return r;
	}
	return fd;
}

void cg_dir_unmake(struct cgroup *cg)
{
	int i = cg->n_dirs - 1;

	if (i >= 0 && (rmdir(cg->dirs[i]) == 0 || errno == ENOENT))
		cg->n_dirs = i;
}

int cg_text_set(int dirfd, const char *file, const char *text, char *kept, size_t cap)
{
	/* one descriptor for both: opening is the dearest part, and a start
	 * makes three groups */
	cleanup_close int fd = openat(dirfd, file, O_RDWR | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	ssize_t n = pread(fd, kept, cap - 1, 0);
	if (n < 0)
		return -errno;
	kept[n] = '\0';
	return 0;
}

int cg_number_set(int dirfd, const char *file, uint64_t value, uint64_t slack)
{
	char text[32], *end;

	snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	int r = cg_text_set(dirfd, file, text, text, sizeof text);
	if (r < 0)
		return r;
	errno = 0;
	uint64_t kept = strtoull(text, &end, 10);
	if (end == text || errno || kept > value || value - kept >= slack)
		return -ERANGE;
	return 0;
}

/* --- the interface --- */

void cgroup_init(struct cgroup *cg)
{
	/* field by field, and no path that is not counted: each lies in a page of
	 * its own */
	cg->version = 0;
	cg->enforced = 0;
	cg->clone_fd = cg->lock = cg->journal = -1;
	for (int i = 0; i < CG_MAX_DIRS; i++) {
		cg->task_fds[i] = cg->slot_fds[i] = -1;
		cg->bits[i] = 0;
	}
	cg->before = (struct cgroup_usage){ 0 };
	cg->n_task_fds = 0;
	cg->n_dirs = 0;
	cg->scope = false;
	cg->leaf[0] = '\0';
	cg->leaf_bits = 0;
	cg->n_why = cg->n_fix = 0;
}

bool cgroup_is_v1(void)
{
	struct statfs fs;

	/* A version 2 mount in the usual place is the usual machine.  Should a
	 * controller live in a second, version 2 mount of a hybrid one, its
	 * group is made too late to be born into: there is no evidence of it
	 * then, which is said (or refused) like any other limit that is not
	 * there. */
	return statfs("/sys/fs/cgroup", &fs) < 0 || fs.f_type != CG_MAGIC_V2;
}

int cgroup_prepare(struct cgroup *cg, const struct cgroup_want *want,
		   const char *id, struct brig_error *err)
{
	unsigned need = (want->memory ? CG_MEMORY : 0u) |
			(want->pids ? CG_PIDS : 0u) |
			(want->cpu_milli ? CG_CPU : 0u);
	unsigned on_v1 = 0;
	struct cg_text t;

	if (!cg_id_ok(id))
		return err_set(err, BRIG_E_INTERNAL, EINVAL, "cgroup",
			       "\"%s\" cannot name a group", id);
	if (!need)
		return 0;
	int r = cg_text_read(&t);
	if (r < 0) {
		/* without /proc we know nothing, which is a reason, not a fault */
		cg_why_add(cg, CG_ALL, "/proc/self/cgroup cannot be read: %s", strerror(-r));
		cg_fix_set(cg, CG_ALL, "mount proc on /proc");
		return r == -ENOMEM ? err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "cgroup",
					      "no memory") : 0;
	}
	/* A controller lives in one version at a time, whatever else is
	 * mounted; a hierarchy we are listed in is where it lives. */
	for (size_t i = 0; i < 3; i++) {
		const char *path;
		size_t len;
		if (cg_line_find(t.groups, cg_controllers[i].name, &path, &len))
			on_v1 |= cg_controllers[i].bit;
	}
	if (need & on_v1)
		r = cg_v1_prepare(cg, want, need, &t, err);
	else
		r = cg_v2_prepare(cg, want, need, id, &t, err);
	cg_text_free(&t);
	if (r < 0) {
		cgroup_close(cg);
		cgroup_remove(cg);
		cg->enforced = 0;
		cg->version = 0;
	}
	return r;
}

/* True when pid is in the group dirs[i]; no allocation. */
static bool is_member(const struct cgroup *cg, int i, const char *text)
{
	const char *path, *name = NULL;
	size_t len;

	if (cg->version == 1) {
		for (size_t k = 0; k < 3 && !name; k++)
			if (cg->bits[i] & cg_controllers[k].bit)
				name = cg_controllers[k].name;
		if (!name)
			return false;
	}
	return cg_line_find(text, name, &path, &len) &&
	       len == strlen(cg->groups[i]) &&
	       memcmp(path, cg->groups[i], len) == 0;
}

void cg_pid_path(char path[CG_PID_PATH], pid_t pid, const char *file)
{
	char digits[16];
	size_t n = 0, k = sizeof "/proc/" - 1;
	unsigned v = (unsigned)pid;

	do
		digits[n++] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	memcpy(path, "/proc/", k);
	while (n)
		path[k++] = digits[--n];
	while (k + 1 < CG_PID_PATH && *file)
		path[k++] = *file++;
	path[k] = '\0';
}

/* Reads /proc/PID/cgroup whole, or fails. */
static bool member_text(pid_t pid, char *text, size_t cap)
{
	char path[CG_PID_PATH];

	if (pid <= 0)
		return false;
	cg_pid_path(path, pid, "/cgroup");
	ssize_t got = fd_read_at(AT_FDCWD, path, text, cap);
	return got > 0 && (size_t)got < cap - 1;
}

bool cgroup_holds(const struct cgroup *cg, pid_t pid)
{
	char text[MEMBER_TEXT];

	if (cg->n_dirs == 0 || !member_text(pid, text, sizeof text))
		return false;
	for (int i = 0; i < cg->n_dirs; i++)
		if (!is_member(cg, i, text))
			return false;
	return true;
}

/* The number may have been given to another process since the list was made.  A pidfd pins
 * whoever has it now; only if that one is in the group is it ours to kill. */
static bool kill_member(const struct cgroup *cg, int i, pid_t pid)
{
	char text[MEMBER_TEXT];

	if (pid <= 1 || pid == getpid())
		return false;
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0 || !member_text(pid, text, sizeof text) || !is_member(cg, i, text))
		return false;
	syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	return true;
}

/* Signals every member found in one reading; how many there were. */
static int kill_listed(const struct cgroup *cg, int i, int dirfd)
{
	char list[4096];
	pid_t pid = 0;
	int n = 0;
	ssize_t got;
	cleanup_close int fd = openat(dirfd, "cgroup.procs", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && (got = read(fd, list, sizeof list)) > 0)
		for (ssize_t k = 0; k < got; k++) {
			if (list[k] >= '0' && list[k] <= '9') {
				pid = pid * 10 + (list[k] - '0');
				continue;
			}
			n += kill_member(cg, i, pid);
			pid = 0;
		}
	return n;
}

void cgroup_kill(const struct cgroup *cg)
{
	for (int i = 0; i < cg->n_dirs; i++) {
		if (!cg->dirs[i][0])
			continue;
		cleanup_close int dir = openat(AT_FDCWD, cg->dirs[i], O_DIRECTORY | O_CLOEXEC);
		/* atomic against forks, 5.14 and later */
		if (dir < 0 || fd_write_at(dir, "cgroup.kill", "1") == 0)
			continue;
		for (int round = 0; round < KILL_ROUNDS; round++) {
			if (kill_listed(cg, i, dir) == 0)
				break;
			/* Stops members from forking.  Not in the first round: a refused
			 * fork is counted as one that met the run's own limit. */
			if (round > 0)
				fd_write_at(dir, "pids.max", "0");
			cg_sleep_ms(1);
		}
	}
}

/* Gone, or never there; waits for members that were killed a moment ago. */
static bool remove_one(const char *dir, unsigned *waited)
{
	while (rmdir(dir) < 0) {
		if (errno != EBUSY || *waited >= REMOVE_WAIT_MS)
			return errno == ENOENT;
		unsigned ms = *waited < 4 ? 1 : 5;
		cg_sleep_ms(ms);
		*waited += ms;
	}
	return true;
}

void cgroup_remove(struct cgroup *cg)
{
	unsigned waited = 0;
	bool left = false;

	if (cg->version == 1)
		return;
	for (int i = cg->n_dirs - 1; i >= 0; i--) {
		if (!cg->dirs[i][0])
			continue;
		if (remove_one(cg->dirs[i], &waited))
			cg->dirs[i][0] = '\0';
		else
			left = true;
	}
	if (left)
		return;
	cg->n_dirs = 0;
	if (cg->leaf[0])
		cg_v2_undo_leaf(cg);
}

void cgroup_close(struct cgroup *cg)
{
	fd_close(&cg->clone_fd);
	for (int i = 0; i < CG_MAX_DIRS; i++) {
		fd_close(&cg->task_fds[i]);
		fd_close(&cg->slot_fds[i]);
	}
	cg->n_task_fds = 0;
}

unsigned cgroup_probe(struct cgroup *cg)
{
	const struct cgroup_want want = {
		.memory = 64u << 20,
		.pids = 64,
		.cpu_milli = 500,
		.asked = CG_MEMORY | CG_PIDS | CG_CPU,
	};
	struct timespec now;
	char id[48];

	cgroup_init(cg);
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(id, sizeof id, "probe-%d-%lx", (int)getpid(),
		 (unsigned long)now.tv_nsec);
	struct brig_error err;
	if (cgroup_prepare(cg, &want, id, &err) < 0) {
		cg_why_add(cg, CG_ALL, "%.200s", err.message);
		return 0;
	}
	unsigned bits = cg->enforced;
	cgroup_close(cg);
	cgroup_remove(cg);
	return bits;
}
