/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's loop.  Two phases: until the command is released (set-up,
 * evidence) and until pid 1 is gone.  The deadline lives here, outside the
 * sandbox, and ends in a SIGKILL of pid 1 through a pidfd: nothing inside can
 * delay either.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"
#include "confine/netns_enter.h"
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
static bool on_control(struct run *r);

/* The job is not as it should be.  It may be dying because another process of the
 * sandbox failed: that one has said why before it ended, and its word is the cause. */
static void hear_why(struct run *r)
{
	while (r->l.ctl_supervisor >= 0 && on_control(r))
		;
}

static void on_egress(struct run *r)
{
	struct brig_error err = { 0 };

	/* Without the process there is no network, which is safe; that it is gone
	 * is said in the result. */
	if (egress_handle(r->egress, r->res, &err) < 0)
		result_deny(r->res, "net", "egress", err.message, err.fix, 1);
}

/* The filter's listener comes with it, and the kernel's word whose it is. */
static void on_ready(struct run *r, struct wire_in *in)
{
	struct evidence *ev = &r->res->evidence;

	if (in->msg.from <= 0) {
		fail(r, BRIG_E_INTERNAL, EPROTO, "setup", "a record without a sender");
		return;
	}
	r->state = RUN_HELD;
	r->job = in->msg.from;
	r->listener = msg_fd(&in->msg);
	ev->landlock_abi = in->w.landlock_abi;
	ev->landlock_canary = in->w.canary;
}

/*
 * Which records may come in which state.  Anything else means that somebody inside
 * speaks who should not be able to, and ends the run.
 */
#define ALLOW(type) (1u << (type))
static const unsigned allowed[RUN_STATES] = {
	[RUN_BUILDING] = ALLOW(WIRE_PTY) | ALLOW(WIRE_READY) | ALLOW(WIRE_FAIL),
	[RUN_HELD] = ALLOW(WIRE_FAIL),
	[RUN_RELEASED] = ALLOW(WIRE_EXEC_FAIL),
	[RUN_ENDED] = ALLOW(WIRE_EXEC_FAIL), /* it may still lie in the socket */
};

static bool is_allowed(const struct run *r, const struct wire_in *in)
{
	if (in->msg.truncated || in->w.type >= WIRE__COUNT ||
	    !(allowed[r->state] & ALLOW(in->w.type)))
		return false;
	/* what was not asked for, or comes twice */
	return in->w.type != WIRE_PTY || (r->l.spec->pty && r->term.pty < 0);
}

static void on_record(struct run *r, struct wire_in *in)
{
	if (!is_allowed(r, in)) {
		/* too few descriptors here is a lack, not a lie */
		fail(r, in->msg.truncated ? BRIG_E_SETUP_FAILED : BRIG_E_INTERNAL,
		     in->msg.truncated ? EMFILE : EPROTO, "setup",
		     in->msg.truncated ? "descriptors" : "a record out of turn");
		return;
	}
	switch (in->w.type) {
	case WIRE_PTY:
		r->term.pty = msg_fd(&in->msg);
		break;
	case WIRE_READY:
		on_ready(r, in);
		break;
	case WIRE_FAIL:
		on_fail_record(r, &in->w);
		break;
	case WIRE_EXEC_FAIL:
		watch_exec_failed(r->l.spec->argv[0], in->w.errnum, &r->res->error);
		break;
	}
}

/* One record; false when there was none, or there will be no more. */
static bool on_control(struct run *r)
{
	struct wire_in in;
	int got = wire_recv(r->l.ctl_supervisor, &in);

	if (got == -EAGAIN)
		return false;
	if (got > 0) {
		on_record(r, &in);
		int rest = msg_fd(&in.msg);
		fd_close(&rest);
		return true;
	}
	fd_close(&r->l.ctl_supervisor);
	if (r->state >= RUN_RELEASED)
		return false; /* the execve closed it */
	/* everything died: init may have said why, in its last record */
	if (!r->init_ready && r->l.status_read >= 0)
		on_status(r);
	/* with a caller's profile, how it died is told at the end */
	if (!r->l.spec->seccomp)
		fail(r, BRIG_E_SETUP_FAILED, ECHILD, "setup",
		     "the sandbox died while it was being built");
	return false;
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
	if (r->ran)
		r->state = RUN_ENDED;
	fd_close(&r->l.status_read); /* its last word */
	/* Init has killed and reaped all there was.  Its own end takes a while
	 * (the mounts go with it): time to look at the workspace. */
	run_settle(r);
}

static int read_job(struct run *r, struct brig_error *err)
{
	struct evidence *ev = &r->res->evidence;
	char bad[200];

	r->job_pidfd = sys_pidfd_open(r->job);
	if (r->job_pidfd < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, errno, "evidence",
			       "the command's process");
	int e = evidence_read(ev, r->job, r->job_pidfd, &r->mntns, err);
	if (e < 0)
		return e;
	ev->cgroup = cgroup_holds(&r->cg, r->job) ? r->cg.enforced : 0;
	/* the caller's own limit counts only when it is at least as tight */
	if (!r->l.nproc || ev->nproc > r->l.nproc)
		ev->nproc = 0;
	r->res->have_evidence = true;
	e = evidence_mounts(r->l.plan, r->job, bad, sizeof bad);
	if (streq(bad, "/") && (e == -ENOENT || e == -ESRCH))
		return err_set(err, BRIG_E_SETUP_FAILED, ECHILD, "evidence",
			       "the command's process died while it was looked at");
	if (e < 0)
		return err_set(err, BRIG_E_REQUIRE_UNMET, e == -EROFS ? 0 : -e, "evidence",
			       "%.150s is not mounted as asked (read-only, nosuid, nodev)", bad);
	return 0;
}

/* What the kernel says about the job, which is confined and waits. */
static bool collect_evidence(struct run *r)
{
	struct brig_error err = { 0 };

	if (read_job(r, &err) == 0) {
		/* what was shown is mounted: its descriptors are not needed any more */
		spec_close_sources(r->l.spec);
		return true;
	}
	hear_why(r);
	if (r->res->error.code == BRIG_E_OK) {
		r->res->error = err;
		diagnose_fix(&r->res->error);
	}
	run_kill(r);
	return false;
}

/* The routes and sockets of an allow-list, in the network namespace of the job, which
 * waits.  False, with the error, when they cannot be had. */
static bool make_network(struct run *r)
{
	if (!r->egress)
		return true;
	r->egress->init = r->init;
	if (netns_enter(r->egress, r->job, r->job_pidfd, &r->res->error) == 0)
		return true;
	run_kill(r);
	return false;
}

/* False, with the error, when a layer that is required has no evidence. */
static bool meets(struct run *r)
{
	const struct spec *s = r->l.spec;
	struct evidence *ev = &r->res->evidence;
	struct brig_error *err = &r->res->error;
	char list[200];

	ev->init_clean = r->init_ready;
	unsigned holds = evidence_layers(ev);
	/* the sockets are here, and they are of the namespace that was just proven */
	if (r->egress && egress_poll_fd(r->egress) >= 0 && (holds & LAYER_BIT(LAYER_NET)))
		holds |= LAYERS_ALLOW;
	r->res->enforced = holds;
	r->res->missing = (watch_wanted(s) | s->required) & ~holds;
	unsigned unmet = s->required & ~holds;
	if (!unmet)
		return true;
	hear_why(r);
	if (err->code == BRIG_E_OK) {
		layers_list(unmet, list, sizeof list);
		err_set(err, unmet & LAYER_BIT(LAYER_LANDLOCK) ? BRIG_E_LANDLOCK_UNAVAILABLE :
								 BRIG_E_REQUIRE_UNMET,
			0, "evidence", "the kernel shows no evidence of: %s", list);
		diagnose_fix(err);
	}
	run_kill(r);
	return false;
}

/* By which mounts the command reaches the workspace, and how the caller's terminal is
 * before it becomes raw. */
static int tell_janitor(struct run *r)
{
	int e = janitor_know_mounts(&r->janitor, r->mntns);

	if (e < 0 || r->term.pty < 0)
		return e;
	caller_tty_save(&r->term.caller);
	return janitor_know_tty(&r->janitor, &r->term.caller);
}

/* The heart of "fail closed": nothing is released on hope. */
static void judge_and_release(struct run *r)
{
	const struct wire go = { .type = WIRE_GO };

	if (!collect_evidence(r) || !make_network(r) || !meets(r))
		return;
	if (tell_janitor(r) < 0) {
		fail(r, BRIG_E_SETUP_FAILED, EPIPE, "release",
		     "the process that cleans up after us is gone");
		return;
	}
	/* before the command can look at its terminal, or change the caller's */
	watch_terminal(&r->term, &r->sig);
	r->t_release = now_ns(); /* the command may take our processor with the next call */
	if (send(r->l.ctl_supervisor, &go, sizeof go, MSG_NOSIGNAL) != sizeof go) {
		int e = errno;
		hear_why(r);
		fail(r, BRIG_E_SETUP_FAILED, e, "release", "the command's process");
		return;
	}
	r->state = RUN_RELEASED;
	r->ran = r->res->ran = true;
	r->res->setup_us = (r->t_release - r->t_start) / 1000;
}

static void on_signal(struct run *r)
{
	if (watch_signal(&r->sig, &r->term, r->ran, r->job_pidfd))
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
	if (r->res->error.code != BRIG_E_OK && !r->ran)
		return -1;
	return r->ran ? deadline_left(r->t_release, r->l.spec->limits.timeout_ms) :
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
	if (r->ran) {
		r->res->timed_out = true;
		ask_to_end(r);
	} else {
		fail(r, BRIG_E_SETUP_FAILED, ETIMEDOUT, "setup",
		     "building the sandbox took too long");
	}
}

enum { P_CTL, P_STATUS, P_INIT, P_SIG, P_NOTIFY, P_OUT, P_ERR, P_NET, P_TERM,
       P__N = P_TERM + TERM_POLLS };

static void wait_events(struct run *r, struct pollfd *p, int timeout)
{
	p[P_CTL] = (struct pollfd){ r->l.ctl_supervisor, POLLIN, 0 };
	p[P_STATUS] = (struct pollfd){ r->l.status_read, POLLIN, 0 };
	p[P_INIT] = (struct pollfd){ r->init_pidfd, POLLIN, 0 };
	p[P_SIG] = (struct pollfd){ r->sig.fd, POLLIN, 0 };
	p[P_NOTIFY] = (struct pollfd){ r->listener, POLLIN, 0 };
	p[P_OUT] = (struct pollfd){ r->out_read, POLLIN, 0 };
	p[P_ERR] = (struct pollfd){ r->err_read, POLLIN, 0 };
	p[P_NET] = (struct pollfd){ r->egress ? egress_poll_fd(r->egress) : -1, POLLIN, 0 };
	terminal_poll(&r->term, p + P_TERM);
	watch_poll(p, P__N, terminal_timeout(&r->term, timeout));
}

static void dispatch(struct run *r, const struct pollfd *p)
{
	if (p[P_STATUS].revents)
		on_status(r);
	if (p[P_CTL].revents && r->l.ctl_supervisor >= 0)
		on_control(r);
	if (p[P_SIG].revents)
		on_signal(r);
	/* An error alone means that the kernel was interrupted (a stop, the freezer) when it
	 * wanted to look: nothing was found out. */
	if (p[P_NOTIFY].revents & POLLIN)
		notify_handle(&r->listener, r->refused);
	else if (p[P_NOTIFY].revents & POLLHUP) /* nobody is under the filter any more */
		fd_close(&r->listener);
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

	if (!r->ran) {
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

	while (!r->init_gone) {
		int left = time_left(r);
		if (left == 0)
			on_deadline(r);
		wait_events(r, p, left == 0 ? time_left(r) : left);
		dispatch(r, p);
		if (r->state == RUN_HELD && r->init_ready && r->res->error.code == BRIG_E_OK)
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
