/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/idmap.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/diagnose.h"
#include "confine/seal.h"

uint64_t now_ns(void)
{
	struct timespec ts = { 0 };

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void watch_poll(struct pollfd *p, size_t n, int timeout)
{
	if (poll(p, n, timeout) >= 0)
		return;
	for (size_t i = 0; i < n; i++)
		p[i].revents = 0;
}

int deadline_left(uint64_t from, uint64_t limit_ms)
{
	if (!limit_ms)
		return -1;
	uint64_t spent = (now_ns() - from) / 1000000;
	if (spent >= limit_ms)
		return 0;
	uint64_t left = limit_ms - spent;
	return left > 1000000 ? 1000000 : (int)left;
}

static void taken_set(sigset_t *set)
{
	static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1,
					 SIGUSR2, SIGALRM, SIGTSTP, SIGCONT,
					 SIGWINCH };

	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_LEN(forwarded); i++)
		sigaddset(set, forwarded[i]);
	/* a reader of our output that left must not kill us before we clean up */
	sigaddset(set, SIGPIPE);
}

int signals_take(struct signals *s)
{
	sigset_t set;

	/* Ignored by the caller, it would make our children vanish unseen, and
	 * the disposition would even survive into init. */
	const struct sigaction dfl = { .sa_handler = SIG_DFL };
	s->chld_changed = sigaction(SIGCHLD, &dfl, &s->old_chld) == 0;
	taken_set(&set);
	s->taken = sigprocmask(SIG_BLOCK, &set, &s->old_mask) == 0;
	sigdelset(&set, SIGPIPE);
	s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->fd < 0 ? -errno : 0;
}

void signals_pass(const struct signals *s, bool pass)
{
	sigset_t set = s->old_mask;

	if (!s->taken)
		return;
	if (!pass)
		taken_set(&set);
	sigprocmask(pass ? SIG_SETMASK : SIG_BLOCK, &set, NULL);
}

void signals_restore(struct signals *s)
{
	fd_close(&s->fd);
	if (s->taken)
		sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	if (s->chld_changed)
		sigaction(SIGCHLD, &s->old_chld, NULL);
	s->taken = s->chld_changed = false;
}

bool signals_ignored(int sig)
{
	struct sigaction now;

	return sig != SIGWINCH && sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

int signals_next(const struct signals *s)
{
	struct signalfd_siginfo si;

	if (read(s->fd, &si, sizeof si) != (ssize_t)sizeof si)
		return 0;
	return signals_ignored((int)si.ssi_signo) ? 0 : (int)si.ssi_signo;
}

bool signals_ends_setup(int sig)
{
	return sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
}

static void to_group(int pidfd, int sig)
{
	if (sys_pidfd_send_signal(pidfd, sig, PIDFD_SIGNAL_PROCESS_GROUP) < 0 &&
	    (errno == EINVAL || errno == ESRCH))
		sys_pidfd_send_signal(pidfd, sig, 0); /* before Linux 6.9; no leader */
}

bool signals_let_stop(void)
{
	const struct timespec moment = { .tv_nsec = 10L * 1000 * 1000 };
	sigset_t cont;

	sigemptyset(&cont);
	sigaddset(&cont, SIGCONT);
	return sigtimedwait(&cont, NULL, &moment) != SIGCONT;
}

void signals_forward(int pidfd, int sig, bool pty)
{
	to_group(pidfd, sig);
	if (sig != SIGTSTP || pty)
		return;
	/* The command has a session of its own, in which nobody takes care of jobs: of such a
	 * group the kernel stops no process for SIGTSTP.  It would go on behind our back, and
	 * no deadline would come. */
	bool stop = signals_let_stop();
	if (stop) {
		to_group(pidfd, SIGSTOP);
		raise(SIGSTOP);
	}
	/* what continues us is passed on like every other signal */
	if (!stop || signals_ignored(SIGCONT))
		to_group(pidfd, SIGCONT);
}

bool watch_signal(const struct signals *s, struct terminal *term, bool released, int pidfd)
{
	int sig = signals_next(s);

	if (sig == SIGWINCH)
		terminal_resize(term);
	else if (sig && !released)
		return signals_ends_setup(sig);
	else if (sig)
		signals_forward(pidfd, sig, term->pty >= 0);
	return false;
}

/* What read() said. */
static ssize_t drain(int *fd, struct capture *c)
{
	big_buffer char data[65536];
	ssize_t n = read(*fd, data, sizeof data);

	if (n > 0)
		capture_add(c, data, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		fd_close(fd);
	return n;
}

void watch_drain(int *fd, struct capture *c)
{
	drain(fd, c);
}

void watch_drain_rest(int *fd, struct capture *c)
{
	int there = 0;

	if (*fd < 0)
		return;
	/* As much as is there now, and not until there is no more: somebody outside may have
	 * been handed the other end, and write without pause. */
	if (ioctl(*fd, FIONREAD, &there) < 0)
		there = 1 << 20; /* the most that an ordinary user's pipe holds */
	while (*fd >= 0 && there > 0) {
		ssize_t n = drain(fd, c);
		if (n <= 0)
			return;
		there -= (int)n;
	}
}

void watch_terminal(struct terminal *t, const struct signals *s)
{
	/* Stopped in there, we are to be ended all the same (timeout(1) in a script), and that
	 * is no loss yet. */
	if (t->pty >= 0)
		signals_pass(s, true);
	terminal_start(t);
	if (t->pty >= 0)
		signals_pass(s, false);
	/* only now: who tells that it changes is heard again */
	terminal_resize(t);
}

void watch_drain_terminal(struct terminal *t, const struct signals *s, bool late)
{
	const uint64_t most = 500000000;
	uint64_t last = now_ns();
	int r;

	while ((r = terminal_drain(t, 50)) >= 0) {
		const uint64_t now = now_ns();
		if (r > 0 && !late)
			last = now;
		/* without a clock there is no waiting */
		if (!now || now - last >= most || signals_ends_setup(signals_next(s)))
			return;
	}
}

void watch_fail_record(struct wire *w, enum brig_code *code, int *errnum, char **phase,
		       char **what)
{
	w->phase[sizeof w->phase - 1] = '\0';
	w->what[sizeof w->what - 1] = '\0';
	*phase = str_printable(w->phase);
	*what = str_printable(w->what);
	*code = w->code > BRIG_E_OK && w->code < BRIG_E__COUNT ? (enum brig_code)w->code :
								  BRIG_E_INTERNAL;
	*errnum = w->errnum > 0 && w->errnum < 4096 ? w->errnum : EPROTO;
}

/* What it may be, from the look of it. */
static const char *not_found_fix(const char *command)
{
	if (strpbrk(command, " \t\n;|&<>"))
		return "the first word is the program, its arguments are words of their own; a "
		       "line of shell text: sh -c 'TEXT'";
	if (strchr(command, '/'))
		return "it has to be under /usr, in the workspace, or shown with --ro; and so has "
		       "the program that the first line of a script names";
	return "name a program under /usr or in the workspace, or show its directory with --ro";
}

void watch_exec_failed(const char *command, int errnum, struct brig_error *err)
{
	cleanup_free char *shown = str_printable(command);

	if (errnum == ENOENT) {
		err_set(err, BRIG_E_NOT_FOUND, 0, "exec",
			"%.200s: not found inside the sandbox", shown ? shown : "?");
		err_fix(err, "%s", not_found_fix(command));
		return;
	}
	err_set(err, BRIG_E_EXEC_FAILED, errnum, "exec", "%.200s", shown ? shown : "?");
	err_fix(err, errnum == E2BIG ? "the arguments and environment are too long" :
				       "it must be executable and of this machine's kind");
}

void watch_denied(void *arg, const char *path, enum protect_fate fate, const char *moved_to)
{
	static const struct {
		const char *rule, *fix, *then; /* moved_to is said between these two */
	} said[] = {
		[PROTECT_MOVED] = { "a protected path was created or replaced",
				    "moved aside to ", "; if you want it, review it and rename "
				    "it back" },
		[PROTECT_BACK] = { "a protected path was changed or removed",
				   "it was put back as it was before the run", NULL },
		[PROTECT_BESIDE] = { "a protected path was changed or removed",
				     "as it was when the run began it is now ",
				     ", as another run was at work here, which may have made "
				     "it: review it and rename it back" },
		[PROTECT_GONE] = { "a protected path was removed",
				   "it was not put back: whoever did it (another run, or "
				   "somebody outside) has it, or nobody", NULL },
		[PROTECT_DELETED] = { "a protected path was created or replaced",
				      "it was deleted: there was no room to move it aside",
				      NULL },
		[PROTECT_LOST] = { "a protected path was changed or removed",
				   "it could not be put back as it was before the run", NULL },
		[PROTECT_STUCK] = { "a protected path was created and could not be moved aside",
				    "look at it before using the workspace", NULL },
	};
	struct brig_result *res = arg;

	if (!res)
		return;
	cleanup_free char *fix =
		said[fate].then ? str_fmt("%s%s%s", said[fate].fix, moved_to, said[fate].then) :
		moved_to ? str_fmt("%s; what the command left is beside it as %s",
				   said[fate].fix, moved_to) : strdup(said[fate].fix);
	result_deny(res, "path", path, said[fate].rule, fix ? fix : "", 1);
}

/* Once is enough, and may take a while. */
struct sealing {
	int mntns;
	bool asked;
	int result;
};

static int seal_once(void *arg)
{
	struct sealing *s = arg;

	if (!s->asked)
		s->result = seal_mounts(s->mntns);
	s->asked = true;
	return s->result;
}

/*
 * A run that is at work here may have been handed descriptors of this one, and their mounts
 * know nothing of what is protected in the next.  It may hand them on, to one that begins
 * when this one is long over.  So they end now, whether or not there is anything to judge,
 * and before that is judged.
 */
void watch_sweep(const struct protect *p, int wsfd, int mntns, unsigned how,
		 struct brig_result *res)
{
	struct sealing sealing = { .mntns = mntns };
	const struct protect_hooks hooks = {
		.report = watch_denied, .report_arg = res,
		.seal = mntns >= 0 ? seal_once : NULL, .seal_arg = &sealing,
		.kept = how & SWEEP_KEPT,
	};

	if (mntns >= 0 && ((how & SWEEP_SEAL) || protect_shared(p)) && seal_once(&sealing) < 0 && res)
		result_deny(res, "path", ".",
			    "the run is over, and what it had open here could not be made "
			    "read-only",
			    "another run has a file of this one's open for writing: until it "
			    "ends, protected paths can be changed by that", 1);
	if (protect_sweep(p, wsfd, &hooks) < 0 && res)
		result_deny(res, "path", "protected paths",
			    "a protected path was created and could not be moved aside",
			    "look at the workspace before using it", 1);
}

void watch_cpu(uint64_t us, struct brig_result *res)
{
	if ((double)us / 1e3 > res->cpu_ms)
		res->cpu_ms = (double)us / 1e3;
}

void watch_account(struct cgroup *cg, struct brig_result *res)
{
	struct cgroup_usage u = { 0 };

	if (!cg->version)
		return;
	cgroup_read_usage(cg, &u);
	if (u.memory_peak)
		res->max_rss_kb = u.memory_peak / 1024;
	watch_cpu(u.cpu_us, res);
	res->oom = u.oom_kills > 0;
	if (u.oom_kills)
		result_deny(res, "memory", "memory limit",
			    "the tree used more than its memory limit", "raise --memory",
			    u.oom_kills);
	if (u.pids_refused)
		result_deny(res, "pids", "process limit",
			    "the tree reached its limit on processes", "raise --pids",
			    u.pids_refused);
}

void watch_supervisor_end(pid_t supervisor)
{
	enum { END_MS = 2000 };
	cleanup_close int pidfd = sys_pidfd_open(supervisor);
	struct pollfd gone = { .fd = pidfd, .events = POLLIN };

	/* another parent: it is gone, and its number may be another process's */
	if (pidfd >= 0 && getppid() == supervisor)
		poll(&gone, 1, END_MS);
}

unsigned watch_wanted(const struct spec *s)
{
	unsigned bits = LAYERS_BASE;

	if (s->limits.memory)
		bits |= LAYER_BIT(LAYER_MEMORY);
	if (s->limits.pids)
		bits |= LAYER_BIT(LAYER_PIDS);
	if (s->limits.cpu_milli)
		bits |= LAYER_BIT(LAYER_CPU);
	if (s->net == NET_ALLOW)
		bits |= LAYERS_ALLOW;
	return bits;
}

uint64_t watch_nproc(uint64_t pids, bool nested)
{
	return kernel_at_least(5, 14) && !(nested && userns_root_is_machines()) ? pids : 0;
}

int watch_limits(const struct spec *s, const struct cgroup *cg, uint64_t nproc,
		 struct brig_error *err)
{
	static const struct {
		enum layer layer;
		unsigned bit;
		const char *option;
	} need[] = { { LAYER_MEMORY, CG_MEMORY, "memory" },
		     { LAYER_CPU, CG_CPU, "cpus" },
		     { LAYER_PIDS, CG_PIDS, "pids" } };
	char why[512];

	for (size_t i = 0; i < ARRAY_LEN(need); i++) {
		if (!(s->required & LAYER_BIT(need[i].layer)) ||
		    (cg->enforced & need[i].bit) || (need[i].bit == CG_PIDS && nproc))
			continue;
		err_set(err, BRIG_E_LIMIT_UNENFORCEABLE, 0, "cgroup",
			"--%s cannot be enforced here: %s", need[i].option,
			cgroup_why(cg, need[i].bit, why, sizeof why));
		err_fix(err, "%s", cgroup_fix(cg, need[i].bit));
		return -EPERM;
	}
	return 0;
}
