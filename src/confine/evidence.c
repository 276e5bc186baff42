/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/idmap.h"
#include "base/str.h"
#include "base/sys.h"

const char *const evidence_ns_names[EV_NS_COUNT] = {
	[LAYER_USER] = "user", [LAYER_MOUNT] = "mnt",	[LAYER_PID] = "pid",
	[LAYER_NET] = "net",   [LAYER_IPC] = "ipc",	[LAYER_UTS] = "uts",
	[LAYER_CGROUP] = "cgroup",
};

/* A line of /proc/PID/status: its name, and where its value goes. */
struct field {
	const char *name;
	int base;
	uint64_t value;
	bool found; /* a field that is not there is not evidence of zero */
};

/* All that are asked for in one pass: the text is long, and it is read while the
 * command waits. */
static void read_fields(const char *text, struct field *f, size_t n)
{
	for (const char *p = text; *p;) {
		for (size_t i = 0; i < n; i++) {
			if (*p != f[i].name[0])
				continue;
			size_t len = strlen(f[i].name);
			if (strncmp(p, f[i].name, len) != 0 || p[len] != ':')
				continue;
			f[i].value = strtoull(p + len + 1, NULL, f[i].base);
			f[i].found = true;
		}
		const char *end = strchrnul(p, '\n');
		p = *end ? end + 1 : end;
	}
}

static int read_status(struct evidence *ev, int proc)
{
	big_buffer char text[4096];
	ssize_t n = fd_read_at(proc, "status", text, sizeof text);
	if (n < 0)
		return (int)n;
	enum { INH, PRM, EFF, BND, AMB, MODE, FILTERS, NNP, UID, FIELDS };
	struct field f[FIELDS] = {
		[INH] = { .name = "CapInh", .base = 16 },
		[PRM] = { .name = "CapPrm", .base = 16 },
		[EFF] = { .name = "CapEff", .base = 16 },
		[BND] = { .name = "CapBnd", .base = 16 },
		[AMB] = { .name = "CapAmb", .base = 16 },
		[MODE] = { .name = "Seccomp", .base = 10 },
		[FILTERS] = { .name = "Seccomp_filters", .base = 10 },
		[NNP] = { .name = "NoNewPrivs", .base = 10 },
		[UID] = { .name = "Uid", .base = 10 },
	};
	uint64_t *const caps[] = { &ev->cap_inh, &ev->cap_prm, &ev->cap_eff, &ev->cap_bnd,
				   &ev->cap_amb };

	read_fields(text, f, FIELDS);
	for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++)
		*caps[i] = f[INH + i].found ? f[INH + i].value : UINT64_MAX;
	ev->seccomp = f[MODE].found ? (int)f[MODE].value : -1;
	ev->seccomp_filters = f[FILTERS].found ? (int)f[FILTERS].value : -1;
	ev->no_new_privs = f[NNP].found ? (int)f[NNP].value : -1;
	ev->uid_host = f[UID].found ? f[UID].value : 0;
	return 0;
}

static uint64_t ns_link(int proc, const char *name)
{
	char path[24], link[64];

	snprintf(path, sizeof path, "ns/%s", name);
	ssize_t n = readlinkat(proc, path, link, sizeof link - 1);
	if (n <= 0)
		return 0;
	link[n] = '\0';
	const char *p = strchr(link, '[');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

/* In the order of the layers.  Much cheaper than looking the same up in /proc. */
static const unsigned char ns_request[EV_NS_COUNT] = {
	[LAYER_USER] = PIDFD_GET_USER, [LAYER_MOUNT] = PIDFD_GET_MOUNT,
	[LAYER_PID] = PIDFD_GET_PID,   [LAYER_NET] = PIDFD_GET_NET,
	[LAYER_IPC] = PIDFD_GET_IPC,   [LAYER_UTS] = PIDFD_GET_UTS,
	[LAYER_CGROUP] = PIDFD_GET_CGROUP,
};

static int open_namespace(pid_t pid, int pidfd, int which)
{
	char path[40];
	int fd = sys_pidfd_open_namespace(pidfd, ns_request[which]);

	if (fd >= 0)
		return fd;
	snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, evidence_ns_names[which]);
	return openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* The inode numbers of a process's namespaces; 0 where one cannot be had.  Ours cannot be
 * opened where /proc/PID is closed to us, but a link's text can be read. */
static void read_namespaces(uint64_t out[EV_NS_COUNT], pid_t pid, int pidfd, int *mntns)
{
	char path[32];
	cleanup_close int proc = -1;

	for (int i = 0; i < EV_NS_COUNT; i++) {
		struct stat st;
		cleanup_close int ns = open_namespace(pid, pidfd, i);
		out[i] = ns >= 0 && fstat(ns, &st) == 0 ? st.st_ino : 0;
		if (mntns && i == LAYER_MOUNT)
			*mntns = take_fd(&ns);
		if (out[i])
			continue;
		if (proc < 0) {
			snprintf(path, sizeof path, "/proc/%d", (int)pid);
			proc = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		}
		if (proc >= 0)
			out[i] = ns_link(proc, evidence_ns_names[i]);
	}
}

/* Exactly one line, of one id. */
static bool one_id_map(int proc, const char *file, bool nested)
{
	struct idmap m;

	return idmap_read(proc, file, &m) && m.alone && m.count == 1 &&
	       (m.outside != 0 || nested);
}

static bool id_maps(int proc, bool nested)
{
	return one_id_map(proc, "uid_map", nested) && one_id_map(proc, "gid_map", nested);
}

void evidence_read_own(struct evidence *ev)
{
	cleanup_close int self = sys_pidfd_open(getpid());

	read_namespaces(ev->ns_host, getpid(), self, NULL);
	/* whatever was read elsewhere: in here id 0 is root of the machine */
	if (ev->ns_host[LAYER_USER] == USERNS_INITIAL_INODE)
		ev->nested = false;
	/* no filter around us: nothing to count */
	struct field own = { .name = "Seccomp_filters", .base = 10, .found = true };
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0) {
		big_buffer char text[4096];
		own.found = false;
		if (fd_read_at(AT_FDCWD, "/proc/self/status", text, sizeof text) > 0)
			read_fields(text, &own, 1);
	}
	ev->seccomp_filters_own = own.found ? (int)own.value : INT_MAX; /* no evidence */
}

static int open_proc(pid_t pid, struct brig_error *err)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	int proc = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc >= 0)
		return proc;
	int e = errno;
	err_set(err, BRIG_E_SETUP_FAILED, e, "evidence", "%s", path);
	err_fix(err, "brig needs /proc mounted where it runs");
	return -e;
}

static int status_of(struct evidence *ev, int proc, pid_t pid, struct brig_error *err)
{
	int r = read_status(ev, proc);

	return r < 0 ? err_set(err, BRIG_E_SETUP_FAILED, -r, "evidence", "/proc/%d/status",
			       (int)pid) : 0;
}

int evidence_read(struct evidence *ev, pid_t pid, int pidfd, int *mntns,
		  struct brig_error *err)
{
	struct stat theirs, ours;
	struct rlimit lim;
	cleanup_close int proc = open_proc(pid, err);
	int r = proc < 0 ? proc : status_of(ev, proc, pid, err);

	if (r < 0)
		return r;
	read_namespaces(ev->ns, pid, pidfd, mntns);
	ev->uid_ok = id_maps(proc, ev->nested);
	if (prlimit(pid, RLIMIT_NPROC, NULL, &lim) == 0)
		ev->nproc = lim.rlim_cur == RLIM_INFINITY ? 0 : lim.rlim_cur;
	ev->root_ok = fstatat(proc, "root/.", &theirs, 0) == 0 && stat("/", &ours) == 0 &&
		      (theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino);
	return 0;
}

int evidence_read_status(struct evidence *ev, pid_t pid, struct brig_error *err)
{
	cleanup_close int proc = open_proc(pid, err);

	return proc < 0 ? proc : status_of(ev, proc, pid, err);
}

unsigned evidence_layers(const struct evidence *ev)
{
	unsigned bits = 0;

	for (int i = 0; i < EV_NS_COUNT; i++)
		if (ev->ns[i] && ev->ns_host[i] && ev->ns[i] != ev->ns_host[i])
			bits |= LAYER_BIT(i);
	if (!ev->uid_ok || (ev->uid_host == 0 && !ev->nested))
		bits &= ~LAYER_BIT(LAYER_USER);
	if (!ev->root_ok)
		bits &= ~LAYER_BIT(LAYER_MOUNT);
	/* a pid namespace without its own init at the top is not a cage */
	if (!ev->init_clean)
		bits &= ~LAYER_BIT(LAYER_PID);
	if ((ev->cap_inh | ev->cap_prm | ev->cap_eff | ev->cap_bnd | ev->cap_amb) == 0)
		bits |= LAYER_BIT(LAYER_CAPS);
	if (ev->no_new_privs == 1)
		bits |= LAYER_BIT(LAYER_NO_NEW_PRIVS);
	/* A container's filter around us is inherited and is not ours. */
	if (ev->seccomp == 2 && ev->seccomp_filters > ev->seccomp_filters_own)
		bits |= LAYER_BIT(LAYER_SECCOMP);
	if (ev->landlock_abi > 0 && ev->landlock_canary == EACCES)
		bits |= LAYER_BIT(LAYER_LANDLOCK);
	if (ev->cgroup & CG_MEMORY)
		bits |= LAYER_BIT(LAYER_MEMORY);
	if (ev->cgroup & CG_CPU)
		bits |= LAYER_BIT(LAYER_CPU);
	if ((ev->cgroup & CG_PIDS) || ev->nproc)
		bits |= LAYER_BIT(LAYER_PIDS);
	return bits;
}
