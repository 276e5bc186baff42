/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's loop.  Two phases: until the command is released (set-up,
 * evidence) and until pid 1 is gone.  The deadline lives here, outside the
 * sandbox, and ends in a SIGKILL of pid 1 through a pidfd: nothing inside can
 * delay either.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/diagnose.h"
#include "engine/egress.h"
#include "engine/run_internal.h"

void run_kill(struct run *r)
{
	if (r->init_pidfd >= 0)
		sys_pidfd_send_signal(r->init_pidfd, SIGKILL, 0);
}

static void fail(struct run *r, enum brig_code code, int errnum,
		 const char *phase, const char *what)
{
	if (r->res->error.code == BRIG_E_OK) {
		err_set(&r->res->error, code, errnum, phase, "%s", what);
		diagnose_fix(&r->res->error);
	}
	run_kill(r);
}

static void on_fail_record(struct run *r, struct wire *w)
{
	cleanup_free char *what = NULL, *phase = NULL;
	enum brig_code code;
	int errnum;

	watch_fail_record(w, &code, &errnum, &phase, &what);
	if (code == BRIG_E_IDMAP_DENIED && !r->l.spec->as_root &&
	    r->res->error.code == BRIG_E_OK)
		diagnose_idmap(errnum, &r->res->error);
	fail(r, code, errnum, phase ? phase : "?", what ? what : "?");
}

static void on_status(struct run *r);
static void hear_why(struct run *r);

/* The sockets of the sandbox's network.  Before the release only: what they are
 * was decided by our own code, not by the command. */
static void on_net(struct run *r, int *fds, size_t n)
{
	if (r->egress)
		r->egress->init = r->init;
	if (r->egress && !r->released && egress_adopt(r->egress, fds, n) == 0) {
		r->net_ready = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	fail(r, BRIG_E_SETUP_FAILED, EPROTO, "net", "the allow-list's sockets");
}

static void on_egress(struct run *r)
{
	struct brig_error err = { 0 };

	/* Without the process there is no network, which is safe; that it is gone
	 * is said in the result. */
	if (egress_handle(r->egress, r->res, &err) < 0)
		result_deny(r->res, "net", "egress", err.message, err.fix, 1);
}

static void refuse_mounts(struct run *r, int e, const char *bad)
{
	struct brig_error *err = &r->res->error;
	const bool died = streq(bad, "/") && (e == -ENOENT || e == -ESRCH);

	if (err->code == BRIG_E_OK && died) {
		err_set(err, BRIG_E_SETUP_FAILED, ECHILD, "evidence",
			"the command's process died while it was looked at");
		diagnose_fix(err);
	} else if (err->code == BRIG_E_OK) {
		err_set(err, BRIG_E_REQUIRE_UNMET, e == -EROFS ? 0 : -e, "evidence",
			"%.150s is not mounted as asked (read-only, nosuid, nodev)", bad);
		err_fix(err, "a filter around brig may be faking mount calls; run brig "
			     "outside of it");
	}
	run_kill(r);
}

static void refuse_evidence(struct run *r, const struct brig_error *err)
{
	hear_why(r);
	if (r->res->error.code == BRIG_E_OK)
		r->res->error = *err;
	run_kill(r);
}

/* The half of the evidence that the tree has no part in.  The process cannot change any
 * of what is read here: the capabilities and with them the ways to other namespaces,
 * groups and limits are gone, and the filter is there for good. */
static void read_confined(struct run *r)
{
	struct evidence *ev = &r->res->evidence;
	struct brig_error err = { 0 };

	/* Where the job was, unless the builder, which is where we are, has become init
	 * and said so. */
	struct pollfd init = { .fd = r->l.status_read, .events = POLLIN };
	int moved = poll(&init, 1, 0) > 0 ? 0 : place_move(&r->l.place, r->job_cpu);
	if (moved < 0) {
		fail(r, BRIG_E_SETUP_FAILED, -moved, "evidence", "the processors");
		return;
	}
	r->job_pidfd = sys_pidfd_open(r->job);
	if (r->job_pidfd < 0) {
		int e = errno;
		hear_why(r);
		fail(r, BRIG_E_SETUP_FAILED, e, "evidence", "the command's process");
		return;
	}
	if (evidence_confined(ev, r->job, r->job_pidfd, &r->held, &err) < 0) {
		refuse_evidence(r, &err);
		return;
	}
	ev->cgroup = cgroup_holds(&r->cg, r->job) ? r->cg.enforced : 0;
	/* the caller's own limit counts only when it is at least as tight */
	if (!r->l.who.nproc || ev->nproc > r->l.who.nproc)
		ev->nproc = 0;
}

/*
 * The builder places many trees, one by one, and we have nothing else to do.  The mounts are
 * looked at as they come: beside it, and not after it.  What has not come by then, or is not
 * as it should be, is left for collect_evidence().  How far it is, and which descriptor of
 * its is the top of the tree, is told by the memory that we share.
 */
static void follow_builder(struct run *r)
{
	struct root *root = &r->child.root;
	struct pollfd ctl = { .fd = r->l.ctl_supervisor, .events = POLLIN };
	uint64_t last = now_ns();
	bool all = false;

	if (!r->l.shares || r->seen.fine || !root_wants_help(root))
		return;
	int top = sys_pidfd_getfd(r->init_pidfd, __atomic_load_n(&root->rootfd, __ATOMIC_RELAXED));
	if (top < 3) /* 0 would be a filter's word: standard input is there */
		return;
	r->seen.top = top;
	r->seen.fine = calloc(r->plan.n_ops, sizeof *r->seen.fine);
	if (!r->seen.fine)
		return;
	/* without a clock there is no waiting */
	while (!all && last && poll(&ctl, 1, 0) == 0 && now_ns() - last < A_MOMENT_NS) {
		if (evidence_mounts_ahead(&r->plan, root->done, &r->seen, &r->held, &all))
			last = now_ns();
		else
			sched_yield();
	}
}

static void on_confined(struct run *r, pid_t job, int listener)
{
	r->job_confined = true;
	r->job = job;
	r->listener = listener;
	if (r->res->error.code == BRIG_E_OK)
		read_confined(r);
	if (r->res->error.code == BRIG_E_OK)
		follow_builder(r);
	/* the tree is about to be ready, and then the job is */
	if (r->res->error.code == BRIG_E_OK)
		watch_linger(r->l.ctl_supervisor, A_MOMENT_NS);
}

/*
 * The command is executed, or there is none: nobody waits for us until it has ended.  So
 * what would take its time then is done now.
 */
static void foresee(struct run *r)
{
	if (r->executed)
		return;
	r->executed = true;
	/* nobody is on our memory any more but the custodian, who sleeps */
	if (r->l.shares)
		spawn_forget();
	root_reap_holder(&r->l.root, false);
	collect_idle(&r->held, take_fd(&r->seen.top));
	watch_foresee(&r->cg);
	collect_ahead(&r->held);
}

/* One record; false when there was none, or there will be no more. */
static bool on_control(struct run *r)
{
	struct wire_in in;
	int got = wire_recv(r->l.ctl_supervisor, &in);

	if (got == -EAGAIN)
		return false;
	/* finish() closes it, last, as its end wakes the collector */
	if (got == 0 && r->released) {
		foresee(r);
		return false;
	}
	if (got == 0) {
		/* everything died */
		fd_close(&r->l.ctl_supervisor);
		/* init may have said why, in its last record */
		if (!r->init_ready && r->l.status_read >= 0)
			on_status(r);
		/* with a caller's profile, how it died is told at the end */
		if (!r->l.spec->seccomp)
			fail(r, BRIG_E_SETUP_FAILED, ECHILD, "setup",
			     "the sandbox died while it was being built");
		return false;
	}
	if (in.w.type == WIRE_NET) {
		on_net(r, in.fds, in.n_fds);
		return true;
	}
	cleanup_close int fd = wire_fd(&in); /* all others come with one at most */
	switch (in.w.type) {
	case WIRE_FAIL:
		on_fail_record(r, &in.w);
		break;
	case WIRE_EXEC_FAIL:
		if (r->released)
			watch_exec_failed(r->l.spec->argv[0], in.w.errnum, &r->res->error);
		break;
	case WIRE_PTY:
		if (r->term.pty < 0 && !r->job_ready && r->l.spec->pty)
			r->term.pty = take_fd(&fd);
		break;
	case WIRE_CONFINED:
		r->job_cpu = in.w.cpu;
		if (!r->job_confined && !r->job_ready && in.from > 0)
			on_confined(r, in.from, take_fd(&fd));
		break;
	case WIRE_READY:
		if (r->job_ready || in.from <= 0 || (r->job_confined && in.from != r->job))
			break;
		r->job_ready = true;
		r->job = in.from;
		r->job_cpu = in.w.cpu;
		if (!r->job_confined)
			r->listener = take_fd(&fd);
		r->res->evidence.landlock_abi = in.w.landlock_abi;
		r->res->evidence.landlock_canary = in.w.canary;
		break;
	default:
		fail(r, BRIG_E_INTERNAL, EPROTO, "setup", "an unknown record");
	}
	return true;
}

static void on_status(struct run *r)
{
	struct init_report rep;
	ssize_t n = read(r->l.status_read, &rep, sizeof rep);

	if (n < 0 && errno == EINTR)
		return;
	if (n != (ssize_t)sizeof rep) {
		fd_close(&r->l.status_read);
		/* before it was ready: the job may have said why */
		while (!r->init_ready && r->l.ctl_supervisor >= 0 && on_control(r))
			;
		if (!r->init_ready)
			fail(r, BRIG_E_SETUP_FAILED, n < 0 ? EIO : ECHILD, "init",
			     "the sandbox's init did not start");
		return;
	}
	if (rep.ready == INIT_NO_FILTER) {
		fail(r, BRIG_E_SECCOMP_FAILED, EPERM, "init", "init's own filter");
		return;
	}
	if (rep.ready == INIT_READY) {
		r->init_ready = true;
		return;
	}
	/* over before init heard of the deadline: nobody has stopped it */
	if (rep.ready == INIT_DONE)
		r->res->timed_out = false;
	r->status = rep.status;
	r->status_known = true;
	fd_close(&r->l.status_read); /* its last word */
	/* Init has killed and reaped all there was.  Its own end takes a while
	 * (the mounts go with it): time to look at the workspace, unless
	 * on_unfiltered() was earlier. */
	run_settle(r);
}

/* The job is not as it should be.  It may be dying because another process of the
 * sandbox failed: that one has said why before it ended, and its word is the cause. */
static void hear_why(struct run *r)
{
	while (r->l.ctl_supervisor >= 0 && on_control(r))
		;
}

/* What the kernel says about the job, which is confined and waits; init is on its
 * way meanwhile. */
static void collect_evidence(struct run *r)
{
	struct evidence *ev = &r->res->evidence;
	struct brig_error err = { 0 };

	r->judged = true;
	if (!r->job_confined)
		read_confined(r);
	if (r->res->error.code != BRIG_E_OK)
		return;
	if (evidence_rest(ev, r->job, &err) < 0) {
		refuse_evidence(r, &err);
		return;
	}
	r->res->have_evidence = true;
	char bad[200];
	int e = evidence_mounts(r->l.plan, r->job, &r->seen, &r->held, bad, sizeof bad);
	if (e < 0) {
		hear_why(r);
		refuse_mounts(r, e, bad);
		return;
	}
	if (!r->init_ready) {
		/* nobody can be shown anything else under their names any more */
		spec_close_sources(r->l.spec);
		watch_linger(r->l.status_read, A_MOMENT_NS);
	}
}

/* The heart of "fail closed": nothing is released on hope. */
static void judge_and_release(struct run *r)
{
	const struct spec *s = r->l.spec;
	struct evidence *ev = &r->res->evidence;
	struct brig_error *err = &r->res->error;

	ev->init_clean = r->init_ready;
	unsigned holds = evidence_layers(ev);
	/* the sockets are here, and they are of the namespace that was just proven */
	if (r->egress && egress_poll_fd(r->egress) >= 0 && (holds & LAYER_BIT(LAYER_NET)))
		holds |= LAYERS_ALLOW;
	r->res->enforced = holds;
	r->res->missing = (watch_wanted(s) | s->required) & ~holds;
	unsigned unmet = s->required & ~holds;
	if (unmet)
		hear_why(r);
	if (unmet && err->code == BRIG_E_OK) {
		char list[200];
		layers_list(unmet, list, sizeof list);
		err_set(err, unmet & LAYER_BIT(LAYER_LANDLOCK) ?
				     BRIG_E_LANDLOCK_UNAVAILABLE :
				     BRIG_E_REQUIRE_UNMET, 0, "evidence",
			"the kernel shows no evidence of: %s", list);
		diagnose_fix(err);
	}
	if (unmet) {
		run_kill(r);
		return;
	}
	/* before the command can look at its terminal, or change the caller's */
	watch_terminal(&r->term, &r->sig);
	const struct wire go = { .type = WIRE_GO };
	/* by its number: it should still be there */
	if (r->l.who.called && sys_pidfd_send_signal(r->job_pidfd, 0, 0) == 0)
		place_call(&r->l.place, r->job);
	r->t_release = now_ns(); /* the command may take our processor with the next call */
	if (send(r->l.ctl_supervisor, &go, sizeof go, MSG_NOSIGNAL) != sizeof go) {
		int e = errno;
		hear_why(r);
		fail(r, BRIG_E_SETUP_FAILED, e, "release", "the command's process");
		return;
	}
	r->released = true;
	r->res->ran = true;
	r->res->setup_us = (r->t_release - r->t_start) / 1000;
}

/*
 * Nobody is under the filter any more: every process inside but init, which has one of
 * its own, is past its last system call, and makes no more names.  Where there is none at
 * a protected path, that is final, and the rest can be done while init reaps the last one
 * and ends itself.  Where there is one, its content counts, and that may still change:
 * then init's word is waited for, which comes when all are reaped.  And under a caller's
 * profile, which may allow calls that go on after their process.
 */
static void on_unfiltered(struct run *r)
{
	/* init is woken next, and we have groups to remove */
	if (r->released && r->cg.version == 1)
		place_keep_off(&r->l.place, r->init);
	collect_hold(&r->held, take_fd(&r->listener));
	if (!r->released || r->l.spec->seccomp || r->settled ||
	    !protect_untouched(&r->plan.protect, r->l.spec->workspace.fd) ||
	    protect_shared(&r->plan.protect))
		return;
	r->untouched = true;
	run_settle(r);
}

static void on_signal(struct run *r)
{
	if (watch_signal(&r->sig, &r->term, r->released, r->job_pidfd))
		fail(r, BRIG_E_SETUP_FAILED, EINTR, "setup",
		     "interrupted before the command was released");
}

/* How long init has to end everything before it is killed itself. */
#define ENDING_MS 100u

/* Milliseconds until the deadline of the current phase, -1 for none; 0 passed. */
static int time_left(struct run *r)
{
	if (r->ending) {
		int left = deadline_left(r->t_ending, ENDING_MS);
		if (left > 0)
			return left;
		run_kill(r); /* the second lock; nothing inside can hold it */
		return -1;
	}
	/* The command has ended, in time.  What is done then may take longer than it had left. */
	if (r->status_known)
		return -1;
	/* killed already: only the end is waited for; not who could not be executed */
	if (r->res->error.code != BRIG_E_OK && !r->released)
		return -1;
	return r->released ? deadline_left(r->t_release, r->l.spec->limits.timeout_ms) :
			     deadline_left(r->t_planned, SETUP_DEADLINE_MS);
}

/* Init kills everything and reaps it, so that what it used is counted.  It is
 * not relied upon: see ENDING_MS. */
static void ask_to_end(struct run *r)
{
	r->ending = true;
	r->t_ending = now_ns();
	if (write(r->l.death_write, "x", 1) != 1)
		run_kill(r);
}

static void on_deadline(struct run *r)
{
	if (r->released) {
		r->res->timed_out = true;
		ask_to_end(r);
	} else {
		fail(r, BRIG_E_SETUP_FAILED, ETIMEDOUT, "setup",
		     "building the sandbox took too long");
	}
}

enum { P_CTL, P_STATUS, P_INIT, P_SIG, P_NOTIFY, P_OUT, P_ERR, P_NET, P_TERM,
       P__N = P_TERM + TERM_POLLS };

/*
 * The execve closes the command's end of a socket.  Who waits for that is woken by the
 * command, on a processor that sleeps, which takes it longer than many a call of brig's.
 * So it is only looked at, when it should have happened.
 */
#define EXECUTED_NS 400000u

static void wait_events(struct run *r, struct pollfd *p, int timeout)
{
	/* Every wake-up costs: before the release the job's word is waited for
	 * first, init's is there by then or follows. */
	/* Once the workspace is judged, how the command ended can be read when init has
	 * ended, too: it need not wake us, and goes on to its end sooner. */
	bool init_next = (r->job_ready || r->init_ready) && !r->settled;
	bool nap = r->released && !r->napped;
	p[P_CTL] = (struct pollfd){ r->executed || nap ? -1 : r->l.ctl_supervisor, POLLIN, 0 };
	p[P_STATUS] = (struct pollfd){ init_next ? r->l.status_read : -1, POLLIN, 0 };
	p[P_INIT] = (struct pollfd){ r->init_pidfd, POLLIN, 0 };
	p[P_SIG] = (struct pollfd){ r->sig.fd, POLLIN, 0 };
	p[P_NOTIFY] = (struct pollfd){ r->listener, POLLIN, 0 };
	p[P_OUT] = (struct pollfd){ r->out_read, POLLIN, 0 };
	p[P_ERR] = (struct pollfd){ r->err_read, POLLIN, 0 };
	p[P_NET] = (struct pollfd){ r->egress ? egress_poll_fd(r->egress) : -1, POLLIN, 0 };
	terminal_poll(&r->term, p + P_TERM);
	/* nothing is left to do but to wait for init's end */
	if (r->settled && !r->lingered) {
		r->lingered = true;
		/* who was still in a group leaves it before init sees its end */
		if (!r->cust.dismissed)
			watch_linger(r->init_pidfd, A_MOMENT_NS / 4);
		run_try_remove(r);
		watch_linger(r->init_pidfd, A_MOMENT_NS);
	}
	if (nap) {
		r->napped = true;
		if (!watch_nap(p, P__N, EXECUTED_NS))
			p[P_CTL].revents = POLLIN;
		return;
	}
	if (!watch_poll(p, P__N, terminal_timeout(&r->term, timeout), &r->odd_polls)) {
		fail(r, BRIG_E_SETUP_FAILED, EPROTO, "setup", WATCH_BLIND);
		r->blind = true;
	}
}

static void dispatch(struct run *r, const struct pollfd *p)
{
	if (p[P_STATUS].revents)
		on_status(r);
	if (p[P_CTL].revents)
		on_control(r);
	if (p[P_SIG].revents)
		on_signal(r);
	/* An error alone means that the kernel was interrupted (a stop, the freezer) when it
	 * wanted to look: nothing was found out. */
	if (p[P_NOTIFY].revents & POLLIN)
		notify_handle(&r->listener, r->refused);
	else if (p[P_NOTIFY].revents & POLLHUP)
		on_unfiltered(r);
	else if (p[P_NOTIFY].revents & POLLNVAL) /* somebody else in our process */
		r->listener = -1;
	if (p[P_OUT].revents)
		watch_drain(&r->out_read, &r->res->out);
	if (p[P_ERR].revents)
		watch_drain(&r->err_read, &r->res->err);
	if (p[P_NET].revents)
		on_egress(r);
	terminal_dispatch(&r->term, p + P_TERM);
	if (p[P_INIT].revents)
		r->init_gone = true;
}

static void conclude(struct run *r)
{
	struct brig_result *res = r->res;

	if (!r->released) {
		if (res->error.code == BRIG_E_OK && r->init_ready && r->l.spec->seccomp)
			fail(r, BRIG_E_SECCOMP_FAILED, 0, "seccomp",
			     "the profile refuses a call that is needed to start a "
			     "command");
		else if (res->error.code == BRIG_E_OK)
			fail(r, BRIG_E_SETUP_FAILED, ECHILD, "setup",
			     "the sandbox died while it was being built");
		return;
	}
	/* released, but it reported that it never got to run */
	if (res->error.code != BRIG_E_OK) {
		res->ran = false;
		return;
	}
	/* pid 1 was killed, from outside or by us; or all were, whatever a shell made of its
	 * child's end */
	if (!r->status_known || res->timed_out)
		res->signal = SIGKILL;
	else if (WIFEXITED(r->status))
		res->exit_code = WEXITSTATUS(r->status);
	else
		res->signal = WTERMSIG(r->status);
}

void supervise(struct run *r)
{
	struct pollfd p[P__N];

	while (!r->init_gone && !r->blind) {
		int left = time_left(r);
		if (left == 0)
			on_deadline(r);
		wait_events(r, p, left == 0 ? time_left(r) : left);
		dispatch(r, p);
		if (r->job_ready && !r->judged && r->res->error.code == BRIG_E_OK)
			collect_evidence(r);
		/* init is there after the sockets were sent, which is not to say that
		 * they have been read */
		if (!r->released && r->judged && r->init_ready &&
		    (!r->egress || r->net_ready) &&
		    r->res->error.code == BRIG_E_OK)
			judge_and_release(r);
	}
	/* a record may still be in the socket (exec failed, then all ended) */
	while (r->l.ctl_supervisor >= 0 && on_control(r))
		;
	while (r->l.status_read >= 0 && !r->status_known)
		on_status(r);
	watch_drain_rest(&r->out_read, &r->res->out);
	watch_drain_rest(&r->err_read, &r->res->err);
	watch_drain_terminal(&r->term, &r->sig, r->res->timed_out);
	terminal_end(&r->term);
	conclude(r);
}
