/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence, before the command is released.  Two sources:
 *
 *   kernel   The job is a process of this machine's kernel, connected to us by a
 *            socket: its /proc entry is read from outside, as for the native
 *            engine.
 *   inside   The job runs on another kernel (gVisor, a virtual machine) or
 *            cannot be seen from here: what the engine stored is read back, and
 *            the job, which is brig's own program and the only one that has run
 *            in there, reports on itself.
 *
 * Limits are read from the control groups in both cases.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "backend/docker.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/str.h"
#include "base/sys.h"

int docker_check_job(const struct docker_parked *p, struct brig_error *err)
{
	big_buffer char park[PATH_MAX], text[4096];
	char path[48];
	struct ucred peer;
	socklen_t len = sizeof peer;
	struct stat mine, theirs;
	int parent = -1;

	if (getsockopt(p->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
	    peer.pid != p->pid)
		return err_set(err, BRIG_E_SETUP_FAILED, EPROTO, "evidence",
			       "the process at the socket is not the container's init");
	snprintf(path, sizeof path, "/proc/%d/status", (int)p->job);
	if (p->job <= 0 || fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
		return err_set(err, BRIG_E_SETUP_FAILED, ESRCH, "evidence",
			       "the container's job cannot be seen from here");
	const char *v = strstr(text, "\nPPid:\t");
	if (v)
		parent = atoi(v + 7);
	if (parent != p->pid)
		return err_set(err, BRIG_E_SETUP_FAILED, EPROTO, "evidence",
			       "the job is not a child of the container's init");
	snprintf(path, sizeof path, "/proc/%d/exe", (int)p->job);
	if (helper_find("brig-park", park) < 0 || stat(park, &mine) < 0 ||
	    stat(path, &theirs) < 0 || mine.st_dev != theirs.st_dev ||
	    mine.st_ino != theirs.st_ino)
		return err_set(err, BRIG_E_SETUP_FAILED, EPROTO, "evidence",
			       "the job does not run brig's own program");
	return 0;
}

static int read_kernel(const struct docker_job *j, const struct docker_parked *p,
		       struct evidence *ev, struct brig_error *err)
{
	int r = docker_check_job(p, err);
	if (r < 0)
		return r;
	cleanup_close int pidfd = sys_pidfd_open(p->job);
	if (pidfd < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, errno, "evidence", "the job");
	r = evidence_read(ev, p->job, pidfd, NULL, err);
	if (r < 0)
		return r;
	/* the caller's own per-user limit is not ours */
	ev->nproc = 0;
	ev->init_clean = p->report.parent == 1;
	if (ev->uid_host != docker_uid(j->spec) || ev->uid_host == 0)
		return err_set(err, BRIG_E_REQUIRE_UNMET, 0, "evidence",
			       "the container runs as uid %llu, not %u",
			       (unsigned long long)ev->uid_host, docker_uid(j->spec));
	ev->source = "kernel";
	return 0;
}

/* What the engine stored and the job's own word; LAYER_BITs. */
static unsigned read_inside(const struct docker_parked *p, struct evidence *ev)
{
	const struct park_report *r = &p->report;
	unsigned bits = p->says & (LAYER_BIT(LAYER_MOUNT) | LAYER_BIT(LAYER_IPC) |
				   LAYER_BIT(LAYER_UTS) | LAYER_BIT(LAYER_CGROUP));

	ev->seccomp = r->seccomp;
	ev->seccomp_filters = r->seccomp == 2;
	ev->no_new_privs = r->no_new_privs;
	ev->cap_inh = r->cap_inh;
	ev->cap_prm = r->cap_prm;
	ev->cap_eff = r->cap_eff;
	ev->cap_bnd = r->cap_bnd;
	ev->cap_amb = r->cap_amb;
	ev->uid_host = r->uid;
	ev->source = r->gvisor ? "inside, on gVisor" : "inside";
	if ((p->says & LAYER_BIT(LAYER_PID)) && r->parent == 1)
		bits |= LAYER_BIT(LAYER_PID);
	if ((p->says & LAYER_BIT(LAYER_NET)) && r->foreign_links == 0)
		bits |= LAYER_BIT(LAYER_NET);
	if ((p->says & LAYER_BIT(LAYER_CAPS)) &&
	    (r->cap_inh | r->cap_prm | r->cap_eff | r->cap_bnd | r->cap_amb) == 0)
		bits |= LAYER_BIT(LAYER_CAPS);
	if (r->no_new_privs == 1)
		bits |= LAYER_BIT(LAYER_NO_NEW_PRIVS);
	if (r->seccomp == 2)
		bits |= LAYER_BIT(LAYER_SECCOMP);
	return bits;
}

static bool still_there(const struct docker_check *c)
{
	cleanup_close int fd = sys_openat2(AT_FDCWD, c->src, O_PATH | O_CLOEXEC | O_NOFOLLOW,
					   RESOLVE_NO_SYMLINKS);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == c->dev && st.st_ino == c->ino;
}

/* Each path inside is what was looked at outside: engines take names, and names
 * can be swapped between the look and the mount (CVE-2021-30465). */
static int check_paths(const struct docker_job *j, const struct docker_parked *p,
		       struct brig_error *err)
{
	for (size_t i = 0; i < j->n_checks; i++) {
		const struct docker_check *c = &j->checks[i];
		const struct park_path *seen = &p->paths[i];
		cleanup_free char *shown = str_printable(c->path);
		bool there = seen->errnum == 0 && S_ISDIR(seen->mode) == c->is_dir;

		if (!p->stream)
			there = there && seen->dev == c->dev && seen->ino == c->ino &&
				(!c->read_only || seen->read_only);
		else /* other numbers inside: at least the name still means it outside */
			there = there && still_there(c);
		if (there)
			continue;
		if (seen->errnum > 0 && seen->errnum < 4096)
			err_set(err, BRIG_E_MOUNT_FAILED, seen->errnum, "evidence",
				"%.200s inside the container", shown ? shown : "?");
		else
			err_set(err, BRIG_E_SOURCE_CHANGED, 0, "evidence",
				"%.200s inside the container is not what was looked at",
				shown ? shown : "?");
		err_fix(err, "do not change the workspace while a container is being made; the "
			     "engine must see the same files as brig");
		return -ESTALE;
	}
	return 0;
}

static unsigned limit_bits(unsigned groups)
{
	return (groups & CG_MEMORY ? LAYER_BIT(LAYER_MEMORY) : 0) |
	       (groups & CG_PIDS ? LAYER_BIT(LAYER_PIDS) : 0) |
	       (groups & CG_CPU ? LAYER_BIT(LAYER_CPU) : 0);
}

static int refuse(const struct spec *s, unsigned unmet, const char *runtime,
		  struct brig_error *err)
{
	char list[200];

	layers_list(unmet, list, sizeof list);
	err_set(err, (unmet & ~LAYERS_LIMITS) ? BRIG_E_REQUIRE_UNMET :
						BRIG_E_LIMIT_UNENFORCEABLE,
		0, "evidence", "the container (runtime %s) shows no evidence of: %s", runtime,
		list);
	if (unmet & LAYERS_LIMITS & s->asked)
		err_fix(err, "the runtime must not ignore control groups, or leave the limit "
			     "out; brig doctor --backend docker shows what the engine can do");
	else
		err_fix(err, "brig doctor --backend docker shows what the engine can do");
	return -EPERM;
}

int docker_judge(const struct docker_job *j, const struct docker_parked *p,
		 const struct docker_groups *g, struct brig_result *res)
{
	const struct spec *s = j->spec;
	struct evidence *ev = &res->evidence;
	struct brig_error *err = &res->error;
	unsigned holds = 0, wanted = LAYERS_BASE;
	int r = 0;

	evidence_read_own(ev);
	ev->seccomp_filters_own = 0; /* a container does not inherit ours */
	if (!p->stream)
		r = read_kernel(j, p, ev, err);
	ev->cgroup = docker_groups_hold(g, &s->limits);
	if (r == 0)
		holds = p->stream ? read_inside(p, ev) | limit_bits(ev->cgroup) :
				    evidence_layers(ev);
	if (r == 0)
		r = check_paths(j, p, err);
	if (r < 0)
		return r;
	if (p->report.uid == 0 || p->report.gid == 0 || p->report.uid != docker_uid(s))
		return err_set(err, BRIG_E_REQUIRE_UNMET, 0, "evidence",
			       "the container's job is uid %u, gid %u, not %u, %u", p->report.uid,
			       p->report.gid, docker_uid(s), docker_gid(s));
	res->have_evidence = true;
	if (s->limits.memory)
		wanted |= LAYER_BIT(LAYER_MEMORY);
	if (s->limits.pids)
		wanted |= LAYER_BIT(LAYER_PIDS);
	if (s->limits.cpu_milli)
		wanted |= LAYER_BIT(LAYER_CPU);
	if (s->net == NET_ALLOW)
		wanted |= LAYERS_ALLOW;
	res->enforced = holds;
	res->missing = (wanted | s->required) & ~holds;
	unsigned required = docker_required(s);
	/* What this engine has not got is missing, and said; who requires it by
	 * name is refused. */
	if ((p->says & DOCKER_NO_CGROUPNS) && !s->require_explicit)
		required &= ~LAYER_BIT(LAYER_CGROUP) | s->asked;
	/* the names come with the sockets, which are made next or nothing runs */
	unsigned unmet = required & ~holds & ~(s->net == NET_ALLOW ? LAYERS_ALLOW : 0);
	return unmet ? refuse(s, unmet, s->runtime ? s->runtime : "default", err) : 0;
}
