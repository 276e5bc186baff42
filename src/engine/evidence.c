/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/sys.h"

const char *const evidence_ns_names[EV_NS_COUNT] = {
	[LAYER_USER] = "user", [LAYER_MOUNT] = "mnt",	[LAYER_PID] = "pid",
	[LAYER_NET] = "net",   [LAYER_IPC] = "ipc",	[LAYER_UTS] = "uts",
	[LAYER_CGROUP] = "cgroup",
};

/* The value after "Name:" at the start of a line, or NULL. */
static const char *field(const char *text, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		if (*p == '\n')
			p++;
		if (strncmp(p, name, n) == 0 && p[n] == ':') {
			p += n + 1;
			return p + strspn(p, " \t");
		}
	}
	return NULL;
}

static int read_status(struct evidence *ev, int proc)
{
	big_buffer char text[4096];
	ssize_t n = fd_read_at(proc, "status", text, sizeof text);
	if (n < 0)
		return (int)n;
	const struct {
		const char *name;
		uint64_t *to;
	} caps[] = {
		{ "CapInh", &ev->cap_inh }, { "CapPrm", &ev->cap_prm },
		{ "CapEff", &ev->cap_eff }, { "CapBnd", &ev->cap_bnd },
		{ "CapAmb", &ev->cap_amb },
	};
	const char *v;
	for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
		v = field(text, caps[i].name);
		/* a field that is not there is not evidence of zero */
		*caps[i].to = v ? strtoull(v, NULL, 16) : UINT64_MAX;
	}
	v = field(text, "Seccomp");
	ev->seccomp = v ? atoi(v) : -1;
	v = field(text, "Seccomp_filters");
	ev->seccomp_filters = v ? atoi(v) : -1;
	v = field(text, "NoNewPrivs");
	ev->no_new_privs = v ? atoi(v) : -1;
	v = field(text, "Uid");
	ev->uid_host = v ? strtoull(v, NULL, 10) : 0;
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

/* Requests of a pidfd for a namespace (Linux 6.11), in the order of the layers:
 * much cheaper than looking the same up in /proc. */
static const unsigned char ns_request[EV_NS_COUNT] = {
	[LAYER_USER] = 9, [LAYER_MOUNT] = 3, [LAYER_PID] = 5, [LAYER_NET] = 4,
	[LAYER_IPC] = 2,  [LAYER_UTS] = 10,  [LAYER_CGROUP] = 1,
};

/* The inode numbers of a process's namespaces in a set of layers; 0 where one
 * cannot be had. */
static void read_namespaces(uint64_t out[EV_NS_COUNT], pid_t pid, int pidfd,
			    unsigned layers)
{
	char path[32];
	struct stat st;
	cleanup_close int proc = -1;

	for (int i = 0; i < EV_NS_COUNT; i++) {
		if (!(layers & LAYER_BIT(i)))
			continue;
		int fd = pidfd < 0 ? -1 : ioctl(pidfd, _IO(0xff, ns_request[i]), 0);
		out[i] = fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
		if (fd >= 0) {
			close(fd);
			continue;
		}
		if (proc < 0) {
			snprintf(path, sizeof path, "/proc/%d", (int)pid);
			proc = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		}
		if (proc >= 0)
			out[i] = ns_link(proc, evidence_ns_names[i]);
	}
}

int evidence_mntns(pid_t pid, int pidfd)
{
	char path[40];
	int fd = ioctl(pidfd, _IO(0xff, ns_request[LAYER_MOUNT]), 0);

	if (fd >= 0)
		return fd;
	snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
	return openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* Exactly one line, of one id. */
static bool one_id_map(int proc, const char *file, bool nested)
{
	char text[256];
	unsigned inside, out, count;
	int used = 0;

	if (fd_read_at(proc, file, text, sizeof text) <= 0)
		return false;
	return sscanf(text, "%u %u %u %n", &inside, &out, &count, &used) == 3 &&
	       text[used] == '\0' && count == 1 && (out != 0 || nested);
}

static bool id_maps(int proc, bool nested)
{
	return one_id_map(proc, "uid_map", nested) && one_id_map(proc, "gid_map", nested);
}

int evidence_tree(struct evidence *ev, const struct plan *p, pid_t pid, int pidfd,
		  char *bad, size_t cap)
{
	uint64_t ns[EV_NS_COUNT] = { 0 };
	struct stat st;
	char path[32];

	int r = evidence_mounts(p, pid, bad, cap);
	if (r < 0)
		return r;
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	cleanup_close int proc = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return -errno;
	if (fstatat(proc, "root/.", &st, 0) < 0)
		return -errno;
	ev->tree_root[0] = st.st_dev;
	ev->tree_root[1] = st.st_ino;
	ev->uid_ok = id_maps(proc, ev->nested);
	read_namespaces(ns, pid, pidfd, LAYER_BIT(LAYER_USER) | LAYER_BIT(LAYER_MOUNT));
	ev->tree_user = ns[LAYER_USER];
	ev->tree_mnt = ns[LAYER_MOUNT];
	return 0;
}

bool evidence_covers(const struct evidence *ev)
{
	return ev->tree_mnt && ev->tree_mnt == ev->ns[LAYER_MOUNT] &&
	       ev->tree_root[0] == ev->root[0] && ev->tree_root[1] == ev->root[1];
}

void evidence_read_own(struct evidence *ev)
{
	cleanup_close int self = sys_pidfd_open(getpid());
	read_namespaces(ev->ns_host, getpid(), self, ~0u);
	/* 0: no filter around us, nothing to count */
	const char *v = "0";
	big_buffer char text[4096];
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0)
		v = fd_read_at(AT_FDCWD, "/proc/self/status", text, sizeof text) > 0 ?
			    field(text, "Seccomp_filters") : NULL;
	ev->seccomp_filters_own = v ? atoi(v) : INT_MAX; /* unknown: no evidence */
}

int evidence_read(struct evidence *ev, pid_t pid, int pidfd, struct brig_error *err)
{
	char path[32];
	struct stat theirs, ours;
	struct rlimit lim;

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	cleanup_close int proc = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0) {
		int e = errno;
		err_set(err, BRIG_E_SETUP_FAILED, e, "evidence", "%s", path);
		err_fix(err, "brig needs /proc mounted where it runs");
		return -e;
	}
	int r = read_status(ev, proc);
	if (r < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, -r, "evidence",
			       "%s/status", path);
	read_namespaces(ev->ns, pid, pidfd, ~0u);
	if (!ev->tree_user || ev->tree_user != ev->ns[LAYER_USER])
		ev->uid_ok = id_maps(proc, ev->nested);
	bool seen = fstatat(proc, "root/.", &theirs, 0) == 0;
	ev->root_ok = seen && stat("/", &ours) == 0 &&
		      (theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino);
	ev->root[0] = seen ? theirs.st_dev : 0;
	ev->root[1] = seen ? theirs.st_ino : 0;
	if (prlimit(pid, RLIMIT_NPROC, NULL, &lim) == 0)
		ev->nproc = lim.rlim_cur == RLIM_INFINITY ? 0 : lim.rlim_cur;
	return 0;
}

int evidence_read_status(struct evidence *ev, pid_t pid, struct brig_error *err)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	cleanup_close int proc = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = proc < 0 ? -errno : read_status(ev, proc);
	if (r == 0)
		return 0;
	err_set(err, BRIG_E_SETUP_FAILED, -r, "evidence", "%s/status", path);
	err_fix(err, "brig needs /proc mounted where it runs");
	return r;
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
