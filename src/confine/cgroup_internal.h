/* SPDX-License-Identifier: Apache-2.0 */
/* What the cgroup files share among themselves; nobody else includes this. */
#ifndef CONFINE_CGROUP_INTERNAL_H
#define CONFINE_CGROUP_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "confine/cgroup.h"

/* The leaf a supervisor moves itself to when its own group must become an
 * inner one (version 2 forbids processes in groups that hand out controllers). */
#define CG_LEAF_NAME "brig-supervisor"

#define CG_MAGIC_V1 0x27e0ebu
#define CG_MAGIC_V2 0x63677270u

enum { CG_CPU_PERIOD = 100000 }; /* µs, the kernel's own default */

/* A group, both as a directory and as /proc/PID/cgroup names it. */
struct cg_place {
	char dir[PATH_MAX];
	char group[PATH_MAX];
	size_t top; /* how much of dir is the mount point */
};

/* /proc/self/cgroup and, once it was needed, /proc/self/mountinfo, as text. */
struct cg_text {
	char *groups;
	char *mountinfo;
};

struct cg_controller {
	unsigned bit;
	const char *name;
};
extern const struct cg_controller cg_controllers[3];

/* --- cgroup_text.c: text in, paths out; no system calls --- */

/*
 * Finds the path of a process in text from /proc/PID/cgroup: in the version 1
 * hierarchy that has the controller, or in version 2 when controller is NULL.
 * The path is not ended with NUL: *len says where it ends.
 */
bool cg_line_find(const char *groups, const char *controller, const char **path,
		  size_t *len);

/*
 * Finds our own group in that hierarchy.  0; -ENOENT no such hierarchy is
 * mounted or we are in none; -EXDEV it is mounted, but not the part of it our
 * group is in; -ENAMETOOLONG.
 */
int cg_place_find(const char *mountinfo, const char *groups,
		  const char *controller, struct cg_place *place);

/* Sets *place to the group at `path`, on a mount at `point` that shows the
 * hierarchy from its root.  0, -EXDEV or -ENAMETOOLONG. */
int cg_place_set(const char *point, const char *path, size_t len,
		 struct cg_place *place);

/* Moves *place one group up; false at the top of what is mounted. */
bool cg_place_up(struct cg_place *place);

/* The CG_ bits named in a list of controllers (cgroup.controllers). */
unsigned cg_bits_parse(const char *list);

/* The number after "key " at the start of a line (memory.events, cpu.stat);
 * 0 when there is none. */
uint64_t cg_key_value(const char *text, const char *key);

/* True for an id that is safe in a file name and in a unit name. */
bool cg_id_ok(const char *id);

/* --- cgroup.c: the shared steps --- */

/* Reads /proc/self/cgroup.  0 or -errno. */
int cg_text_read(struct cg_text *t);
void cg_text_free(struct cg_text *t);

/* cg_place_find() on this machine: tries the usual mount point first, else reads all of
 * mountinfo into *t. */
int cg_place_own(struct cg_text *t, const char *controller, struct cg_place *place);

/* Notes brig-<name> inside *parent as the next group; n_dirs is the caller's to raise, when
 * it exists.  0 or -errno. */
int cg_dir_name(struct cgroup *cg, const struct cg_place *parent, const char *name);

/*
 * Makes the group brig-<id> inside *parent and records it in *cg.  A directory
 * descriptor, the caller's, or -errno with nothing recorded and nothing left behind.
 */
int cg_dir_make(struct cgroup *cg, const struct cg_place *parent, const char *id);

/* Tells the journal, if there is one.  0 or -errno: then nothing may be made. */
int cg_note(const struct cgroup *cg, enum cg_note_kind kind, unsigned bits, const char *path);

/* Takes back the last group made. */
void cg_dir_unmake(struct cgroup *cg);

/* Writes text to a control file and reads back what the kernel kept (kept may
 * be text itself).  0 or -errno. */
int cg_text_set(int dirfd, const char *file, const char *text, char *kept,
		size_t cap);

/* Writes a number, reads it back and accepts only what lies in (value - slack,
 * value].  0 or -errno, -ERANGE when the kernel kept something else. */
int cg_number_set(int dirfd, const char *file, uint64_t value, uint64_t slack);

/* Adds a reason why the limits in bits are not to be had.  More than CG_WHY_MAX are too many
 * to read. */
void cg_why_add(struct cgroup *cg, unsigned bits, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Says what to do about those of them nothing was said for: the first obstacle comes first. */
void cg_fix_set(struct cgroup *cg, unsigned bits, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Makes /proc/PID<file>; no allocation, no stdio. */
enum { CG_PID_PATH = 40 };
void cg_pid_path(char path[CG_PID_PATH], pid_t pid, const char *file);

/* Waits; no allocation, survives signals. */
void cg_sleep_ms(unsigned ms);

/* "memory, pids" for CG_ bits, in text of cap bytes; returns text. */
const char *cg_bits_text(unsigned bits, char *text, size_t cap);

/* --- the two versions --- */

int cg_v1_prepare(struct cgroup *cg, const struct cgroup_want *want,
		  unsigned need, struct cg_text *t, struct brig_error *err);

int cg_v2_prepare(struct cgroup *cg, const struct cgroup_want *want,
		  unsigned need, const char *id, struct cg_text *t,
		  struct brig_error *err);

/* Moves this process back out of cg->leaf and takes the controllers away
 * again, when nobody else uses them. */
void cg_v2_undo_leaf(struct cgroup *cg);

/* --- systemd --- */

/*
 * Asks the service manager (our user's, or the system's when we are root) to
 * put this process into a new delegated scope unit, brig-<id>.scope, and
 * waits until it is there: at most timeout_ms.  0, or -errno with the reason
 * in why; -ENOPKG when the helper that asks is not installed.
 */
int cg_systemd_scope(const char *id, int timeout_ms, char *why, size_t cap);

#endif
