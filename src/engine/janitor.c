/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/janitor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/msg.h"
#include "base/sys.h"
#include "engine/watch.h"

enum {
	END_BY_ITSELF_MS = 2000, /* init notices the supervisor's death */
	END_KILLED_MS = 5000,
	KEEP_MAX = 240, /* descriptors that it keeps; more are not sorted out */
};

/* The control groups speak on the same socket: see cgroup.h. */
enum note_kind { NOTE_INIT = CG_NOTE__LAST, NOTE_MOUNTS, NOTE_TTY };

struct note {
	uint32_t kind;
	struct caller_tty tty;
};

/* Its own state. */
struct duty {
	struct cgroup *cg;
	const struct protect *protect;
	int wsfd, sock, init, mntns;
	pid_t supervisor;
	struct caller_tty tty;
};

static void learn(struct duty *d, const void *text, size_t len, int fd)
{
	const struct note *n = text;

	switch (n->kind) {
	case NOTE_INIT:
		d->init = fd;
		break;
	case NOTE_MOUNTS:
		d->mntns = fd;
		break;
	case NOTE_TTY:
		d->tty = n->tty;
		break;
	default:
		cgroup_remember(d->cg, text, len);
		break;
	}
}

/* False at the end: the supervisor is gone. */
static bool hear(struct duty *d)
{
	union {
		struct note note;
		struct cg_note group;
	} text;
	struct msg_in in;
	ssize_t n;

	do
		n = msg_recv(d->sock, &text, sizeof text, 0, &in);
	while (n == -EINTR);
	if (n <= 0)
		return false;
	learn(d, &text, (size_t)n, msg_fd(&in));
	return true;
}

static void clean_up(const struct duty *d)
{
	/* at once: a person may be sitting there */
	caller_tty_rescue(&d->tty);
	if (d->init >= 0) {
		struct pollfd gone = { .fd = d->init, .events = POLLIN };
		if (poll(&gone, 1, END_BY_ITSELF_MS) <= 0) {
			/* init notices by itself; this is the second lock */
			sys_pidfd_send_signal(d->init, SIGKILL, 0);
			poll(&gone, 1, END_KILLED_MS);
		}
	}
	watch_sweep(d->protect, d->wsfd, d->mntns, 0, NULL);
	watch_supervisor_end(d->supervisor);
	cgroup_kill(d->cg);
	cgroup_remove(d->cg);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Closes every descriptor that is not needed here: those of the program around us would
 * otherwise stay open for as long as this process lives.  0, 1 and 2 may be the caller's
 * terminal. */
static void forget_others(const struct duty *d)
{
	int keep[KEEP_MAX];
	size_t n = 0;
	int from = STDERR_FILENO + 1;

	if (d->protect->n + CG_MAX_DIRS + 3 > KEEP_MAX)
		return; /* many protected paths: then it keeps the others as well */
	keep[n++] = d->sock;
	keep[n++] = d->wsfd;
	keep[n++] = d->protect->lock;
	for (size_t i = 0; i < CG_MAX_DIRS; i++)
		keep[n++] = d->cg->slot_fds[i];
	for (size_t i = 0; i < d->protect->n; i++)
		keep[n++] = d->protect->v[i].fd;
	qsort(keep, n, sizeof *keep, by_number);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] > from)
			sys_close_range((unsigned)from, (unsigned)keep[i] - 1, 0);
		if (keep[i] >= from)
			from = keep[i] + 1;
	}
	sys_close_range((unsigned)from, ~0u, 0);
}

int janitor_start(struct janitor *j, const struct cgroup *cg, const struct protect *protect,
		  int wsfd)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	struct duty d = { .cg = (struct cgroup *)cg, .protect = protect, .wsfd = wsfd,
			  .init = -1, .mntns = -1, .supervisor = getpid() };
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return -errno;
	pid_t pid = sys_clone3(&args);
	if (pid < 0) {
		int e = errno;
		close(sv[0]);
		close(sv[1]);
		return -e;
	}
	if (pid == 0) {
		/* Out of the caller's process group and session: what kills either must not
		 * kill the one that cleans up. */
		setsid();
		prctl(PR_SET_NAME, "brig-janitor", 0, 0, 0);
		close(sv[0]); /* its end is what this process waits for */
		d.sock = sv[1];
		forget_others(&d);
		while (hear(&d))
			;
		clean_up(&d);
		_exit(0);
	}
	close(sv[1]);
	j->pid = pid;
	j->sock = sv[0];
	return 0;
}

static int tell(const struct janitor *j, const struct note *n, size_t len, int fd)
{
	return msg_send(j->sock, n, len, &fd, fd >= 0);
}

int janitor_know_init(const struct janitor *j, int pidfd)
{
	const struct note n = { .kind = NOTE_INIT };

	return tell(j, &n, sizeof n.kind, pidfd);
}

int janitor_know_mounts(const struct janitor *j, int mntns)
{
	const struct note n = { .kind = NOTE_MOUNTS };

	return tell(j, &n, sizeof n.kind, mntns);
}

int janitor_know_tty(const struct janitor *j, const struct caller_tty *tty)
{
	const struct note n = { .kind = NOTE_TTY, .tty = *tty };

	return tell(j, &n, sizeof n, -1);
}

void janitor_dismiss(struct janitor *j)
{
	if (j->pid > 0)
		kill(j->pid, SIGKILL);
}

void janitor_reap(struct janitor *j)
{
	janitor_dismiss(j);
	if (j->pid > 0)
		while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR)
			;
	j->pid = -1;
	fd_close(&j->sock);
}
