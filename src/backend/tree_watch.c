/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's loop over a process tree.  Nothing is released on hope: the
 * command's process waits, confined, until the evidence has been read from
 * outside and shows what is required.
 */
#include "backend/tree_internal.h"

#include <errno.h>
#include <fcntl.h>
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
#include "engine/diagnose.h"
#include "confine/netns_enter.h"
#include "engine/watch.h"

#define NO_KEEPER "the process that ends the others"
#define ENDING_MS 8000u /* how long the keeper has before it is ended itself */

void tree_end(struct tree *t)
{
	const struct keeper_word end = { .kind = KEEPER_END };

	if (t->ending)
		return;
	t->ending = true;
	t->t_ending = now_ns();
	keeper_tell(t, &end, -1);
	/* what still waits for its release learns that there will be none */
	if (t->state != TREE_RELEASED && t->ctl >= 0)
		shutdown(t->ctl, SHUT_WR);
}

static void fail(struct tree *t, enum brig_code code, int errnum, const char *phase,
		 const char *what)
{
	if (t->res->error.code == BRIG_E_OK) {
		err_set(&t->res->error, code, errnum, phase, "%s", what);
		diagnose_fix(&t->res->error);
	}
	tree_end(t);
}

static void on_fail_record(struct tree *t, struct wire *w)
{
	cleanup_free char *what = NULL, *phase = NULL;
	enum brig_code code;
	int errnum;

	watch_fail_record(w, &code, &errnum, &phase, &what);
	fail(t, code, errnum, phase ? phase : "?", what ? what : "?");
}

static bool on_control(struct tree *t);

/* The process is not as it should be.  It may be ending because a step of its own failed:
 * it has said why before it ended, and its word is the cause. */
static void hear_why(struct tree *t)
{
	while (t->ctl >= 0 && on_control(t))
		;
}

static int read_evidence(struct tree *t)
{
	struct evidence *ev = &t->res->evidence;
	const struct keeper_word mounts = { .kind = KEEPER_MOUNTS };
	struct brig_error err = { 0 };

	t->ready_pidfd = sys_pidfd_open(t->ready_pid);
	if (t->ready_pidfd < 0) {
		int e = errno;
		hear_why(t);
		fail(t, BRIG_E_SETUP_FAILED, e, "evidence", "the command's process");
		return -e;
	}
	int r = t->job->gate ?
			evidence_read(ev, t->ready_pid, t->ready_pidfd, &t->mntns, &err) :
			evidence_read_status(ev, t->ready_pid, &err);
	if (r < 0) {
		hear_why(t);
		if (t->res->error.code == BRIG_E_OK)
			t->res->error = err;
		tree_end(t);
		return r;
	}
	ev->landlock_abi = t->ready_wire.landlock_abi;
	ev->landlock_canary = t->ready_wire.canary;
	t->res->have_evidence = true;
	if (t->mntns < 0 || keeper_tell(t, &mounts, t->mntns) == 0)
		return 0;
	fail(t, BRIG_E_SETUP_FAILED, EPIPE, "setup", NO_KEEPER);
	return -EPIPE;
}

/* Notes what holds and what is missing.  False, with the error, when something is that
 * was required. */
static bool meets(struct tree *t, unsigned holds)
{
	const struct tree_job *job = t->job;
	const struct spec *s = job->spec;
	struct brig_error *err = &t->res->error;
	/* as in backend_run(): all that was written down, or what it can give */
	unsigned required = s->require_explicit ? s->required :
						  s->required & (job->can | s->asked);
	unsigned unmet = required & ~holds;
	char list[200];

	t->res->enforced = holds;
	t->res->missing = (job->wanted | s->required) & ~holds;
	if (!unmet)
		return true;
	hear_why(t);
	if (err->code != BRIG_E_OK)
		return false;
	layers_list(unmet, list, sizeof list);
	err_set(err, unmet & LAYER_BIT(LAYER_LANDLOCK) ? BRIG_E_LANDLOCK_UNAVAILABLE :
							 BRIG_E_REQUIRE_UNMET, 0, "evidence",
		"the kernel shows no evidence of: %s", list);
	diagnose_fix(err);
	return false;
}

/* As the kernel tells it to everybody: prlimit() would take a capability that root of a
 * container may not have. */
static uint64_t read_process_limit(pid_t pid)
{
	static const char name[] = "\nMax processes ";
	unsigned long long soft, hard;
	big_buffer char text[4096];
	char path[32];

	snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
	if (fd_read_at(AT_FDCWD, path, text, sizeof text) <= 0)
		return 0;
	const char *line = strstr(text, name);
	return line && sscanf(line + sizeof name - 1, "%llu %llu", &soft, &hard) == 2 &&
	       soft == hard ? soft : 0;
}

/* The limit on processes that is brig's own: exactly what was set in the command's process, or
 * at most what the gate was told. */
static uint64_t read_nproc(const struct tree *t)
{
	const uint64_t told = t->ready_wire.nproc > 0 ? (uint64_t)t->ready_wire.nproc : 0;
	const uint64_t limit = t->counted || t->nproc ? read_process_limit(t->ready_pid) : 0;

	return (t->job->gate ? limit <= t->nproc : limit == told) ? limit : 0;
}

/* Before it becomes raw: the keeper makes it usable again if we do not live to do it. */
static int tell_terminal(struct tree *t)
{
	struct keeper_word w = { .kind = KEEPER_TTY };

	if (t->term.pty >= 0)
		caller_tty_save(&t->term.caller);
	w.tty = t->term.caller;
	/* also a look at whether it is there */
	return keeper_tell(t, &w, -1);
}

/* The heart of "fail closed". */
static void judge_and_release(struct tree *t)
{
	const struct tree_job *job = t->job;
	struct evidence *ev = &t->res->evidence;
	struct brig_error *err = &t->res->error;

	if (read_evidence(t) < 0)
		return;
	ev->init_clean = t->init_ready;
	ev->cgroup = cgroup_holds(&t->cg, t->ready_pid) ? t->cg.enforced : 0;
	ev->nproc = read_nproc(t);
	unsigned holds = evidence_layers(ev);
	if (job->judge)
		holds = job->judge(job->arg, ev, &t->ready_wire, t->ready_pid, holds);
	/* without it nothing is released: an allow-list requires it */
	if (job->egress && egress_poll_fd(job->egress) < 0 && (holds & LAYER_BIT(LAYER_NET))) {
		/* only brig's own gate has run in there, and it waits */
		if (netns_enter(job->egress, t->ready_pid, t->ready_pidfd, err) < 0) {
			tree_end(t);
			return;
		}
		holds |= LAYERS_ALLOW;
	}
	if (!meets(t, holds & job->can)) {
		tree_end(t);
		return;
	}
	if (job->before_release && job->before_release(job->arg, err) < 0) {
		tree_end(t);
		return;
	}
	if (tell_terminal(t) < 0) {
		hear_why(t);
		fail(t, BRIG_E_SETUP_FAILED, ECHILD, "setup", NO_KEEPER);
		return;
	}
	/* before the command can look at its terminal, or change the caller's */
	watch_terminal(&t->term, &t->sig);
	const struct wire go = { .type = WIRE_GO };
	t->t_release = now_ns(); /* the command may take our processor with the next call */
	if (send(t->ctl, &go, sizeof go, MSG_NOSIGNAL) != (ssize_t)sizeof go) {
		int e = errno;
		hear_why(t);
		fail(t, BRIG_E_SETUP_FAILED, e, "release", "the command's process");
		return;
	}
	t->state = TREE_RELEASED;
	t->res->ran = true;
	t->res->setup_us = (t->t_release - t->t_start) / 1000;
}

/* From an init inside: that it is clean and watching, then how it ended. */
static void on_status(struct tree *t)
{
	struct init_report rep;
	ssize_t n = read(t->status_read, &rep, sizeof rep);

	if (n < 0 && errno == EINTR)
		return;
	if (n != (ssize_t)sizeof rep) {
		int e = n < 0 ? errno : EPROTO;
		fd_close(&t->status_read);
		/* its end alone is not ours to judge: the keeper sees who died */
		if (n != 0 && t->state != TREE_RELEASED)
			fail(t, BRIG_E_SETUP_FAILED, e, "init", "init's word");
		return;
	}
	if (rep.ready == INIT_NO_FILTER) {
		fail(t, BRIG_E_SECCOMP_FAILED, EPERM, "init", "init's own filter");
	} else if (rep.ready) {
		t->init_ready = true;
	} else if (t->state == TREE_RELEASED && !t->ending) {
		t->inner = rep.status;
		t->inner_known = true;
		fd_close(&t->status_read); /* its last word */
	}
}

/* A record that is allowed, by what it is. */
static void on_record(struct tree *t, struct wire_in *in)
{
	switch (in->w.type) {
	case WIRE_READY:
		t->state = TREE_READY;
		t->ready_pid = in->msg.from;
		t->ready_wire = in->w;
		t->listener = msg_fd(&in->msg);
		break;
	case WIRE_EXEC_FAIL:
		watch_exec_failed(t->job->spec->argv[0], in->w.errnum, &t->res->error);
		break;
	default:
		on_fail_record(t, &in->w);
		break;
	}
}

/* The execve closes the other end, so only brig's own code can have sent a record.  One that
 * the table does not allow means that this is not so. */
static bool is_allowed(const struct tree *t, const struct wire_in *in)
{
	enum { FAIL = 1u << WIRE_FAIL, READY = 1u << WIRE_READY, EXEC = 1u << WIRE_EXEC_FAIL };
	static const unsigned allowed[TREE_STATES] = {
		[TREE_SETUP] = FAIL | READY,
		[TREE_READY] = FAIL, /* of an init inside */
		[TREE_RELEASED] = FAIL | EXEC,
	};

	return in->w.type < 32 && (allowed[t->state] & 1u << in->w.type) && in->msg.from > 0;
}

/* One record; false when there was none, or there will be no more. */
static bool on_control(struct tree *t)
{
	struct wire_in in;
	int got = wire_recv(t->ctl, &in);

	if (got == -EAGAIN)
		return false;
	if (got == 0) {
		fd_close(&t->ctl); /* the command is running, or all is over */
		return false;
	}
	if (in.msg.truncated) /* it is not known which of them came */
		fail(t, BRIG_E_SETUP_FAILED, EMFILE, "setup", "descriptors");
	else if (is_allowed(t, &in))
		on_record(t, &in);
	else
		fail(t, BRIG_E_INTERNAL, EPROTO, "setup",
		     "the command's process said what it may not say now");
	cleanup_close int rest = msg_fd(&in.msg);
	return true;
}

static void on_note(struct tree *t)
{
	struct keeper_note n;
	ssize_t got = read(t->sock, &n, sizeof n);

	if (got < 0 && errno == EINTR)
		return;
	if (got != (ssize_t)sizeof n) {
		t->keeper_gone = true;
		return;
	}
	switch (n.type) {
	case NOTE_FAILED:
		fail(t, BRIG_E_SETUP_FAILED, n.status, "clone",
		     "the command's process");
		t->tree_gone = true;
		break;
	case NOTE_GONE:
		t->tree_gone = true;
		t->status = n.status;
		t->status_known = true;
		t->left = n.left;
		watch_cpu(n.cpu_us, t->res);
		if (!t->res->max_rss_kb) /* the group's own peak is the better number */
			t->res->max_rss_kb = n.max_rss_kb;
		break;
	default:
		break;
	}
}

static void on_signal(struct tree *t)
{
	if (watch_signal(&t->sig, &t->term, t->state == TREE_RELEASED, t->ready_pidfd))
		fail(t, BRIG_E_SETUP_FAILED, EINTR, "setup",
		     "interrupted before the command was released");
}

/* Without the process there is no network, which is safe; that it is gone is said
 * in the result. */
static void on_egress(struct tree *t)
{
	struct brig_error err = { 0 };

	if (egress_handle(t->job->egress, t->res, &err) < 0)
		result_deny(t->res, "net", "egress", err.message, err.fix, 1);
}

/* The first words of a sandbox program that did not get as far as READY. */
static void on_said(struct tree *t)
{
	char data[512];
	ssize_t n = read(t->say_read, data, sizeof data);

	if (n <= 0) {
		if (n == 0 || (errno != EINTR && errno != EAGAIN))
			fd_close(&t->say_read);
		return;
	}
	size_t room = sizeof t->said - 1 - t->n_said;
	size_t take = (size_t)n < room ? (size_t)n : room;
	memcpy(t->said + t->n_said, data, take);
	t->n_said += take;
	t->said[t->n_said] = '\0';
}

/* After the tree is gone: what is still in the pipes. */
static void drain_rest(struct tree *t)
{
	watch_drain_rest(&t->out_read, &t->res->out);
	watch_drain_rest(&t->err_read, &t->res->err);
	struct pollfd p = { .fd = t->say_read, .events = POLLIN };
	while (t->say_read >= 0 && poll(&p, 1, 0) > 0)
		on_said(t);
	watch_drain_terminal(&t->term, &t->sig, t->res->timed_out);
}

/* Milliseconds until the deadline of the current phase, -1 for none; 0 passed. */
static int time_left(struct tree *t)
{
	if (t->ending) {
		int left = deadline_left(t->t_ending, ENDING_MS);
		if (left > 0)
			return left;
		/* its tree falls to us then */
		sys_pidfd_send_signal(t->keeper_pidfd, SIGKILL, 0);
		return -1;
	}
	if (t->status_known)
		return -1;
	return t->state == TREE_RELEASED ?
		       deadline_left(t->t_release, t->job->spec->limits.timeout_ms) :
		       deadline_left(t->t_start, SETUP_DEADLINE_MS);
}

static void on_deadline(struct tree *t)
{
	if (t->state == TREE_RELEASED) {
		/* The command may have ended, in time: what was done then took longer than it had
		 * left.  The program around it has no more to do. */
		t->res->timed_out = !t->inner_known;
		tree_end(t);
	} else {
		fail(t, BRIG_E_SETUP_FAILED, ETIMEDOUT, "setup",
		     "building the sandbox took too long");
	}
}

enum { P_CTL, P_NOTE, P_KEEPER, P_SIG, P_NOTIFY, P_OUT, P_ERR, P_SAY, P_STATUS, P_NET, P_TERM,
       P__N = P_TERM + TERM_POLLS };

static void wait_events(struct tree *t, struct pollfd *p, int timeout)
{
	/* Once it is released, all that could come is that the execve failed, and the end
	 * of the tree tells that as soon: no need to be woken by its success. */
	p[P_CTL] = (struct pollfd){ t->state == TREE_RELEASED ? -1 : t->ctl, POLLIN, 0 };
	p[P_NOTE] = (struct pollfd){ t->sock, POLLIN, 0 };
	p[P_KEEPER] = (struct pollfd){ t->keeper_pidfd, POLLIN, 0 };
	p[P_SIG] = (struct pollfd){ t->sig.fd, POLLIN, 0 };
	p[P_NOTIFY] = (struct pollfd){ t->listener, POLLIN, 0 };
	p[P_OUT] = (struct pollfd){ t->out_read, POLLIN, 0 };
	p[P_ERR] = (struct pollfd){ t->err_read, POLLIN, 0 };
	p[P_SAY] = (struct pollfd){ t->say_read, POLLIN, 0 };
	p[P_STATUS] = (struct pollfd){ t->status_read, POLLIN, 0 };
	p[P_NET] = (struct pollfd){ t->job->egress ? egress_poll_fd(t->job->egress) : -1,
				    POLLIN, 0 };
	terminal_poll(&t->term, p + P_TERM);
	if (t->state != TREE_RELEASED) /* nothing of the caller's is read before it runs */
		for (int i = P_TERM; i < P__N; i++)
			p[i].fd = -1;
	watch_poll(p, P__N, terminal_timeout(&t->term, timeout));
}

static void dispatch(struct tree *t, const struct pollfd *p)
{
	/* the start before the word of what was started */
	if (p[P_NOTE].revents)
		on_note(t);
	if (p[P_CTL].revents && t->ctl >= 0)
		on_control(t);
	if (p[P_SIG].revents)
		on_signal(t);
	if ((p[P_NOTIFY].revents & POLLIN) && t->job->notified)
		t->job->notified(t->job->arg, &t->listener, t->refused, t->res);
	else if (p[P_NOTIFY].revents & POLLIN)
		notify_handle(&t->listener, t->refused);
	else if (p[P_NOTIFY].revents & POLLHUP) /* nobody is under the filter any more */
		fd_close(&t->listener);
	if (p[P_OUT].revents)
		watch_drain(&t->out_read, &t->res->out);
	if (p[P_ERR].revents)
		watch_drain(&t->err_read, &t->res->err);
	if (p[P_SAY].revents)
		on_said(t);
	if (p[P_STATUS].revents && t->status_read >= 0)
		on_status(t);
	if (p[P_NET].revents)
		on_egress(t);
	if (t->state == TREE_READY && t->res->error.code == BRIG_E_OK && !t->ending &&
	    (t->init_ready || !t->job->gate))
		judge_and_release(t);
	terminal_dispatch(&t->term, p + P_TERM);
	if (p[P_KEEPER].revents)
		t->keeper_gone = true;
}

static void conclude(struct tree *t)
{
	struct brig_result *res = t->res;

	if (t->state != TREE_RELEASED) {
		if (res->error.code != BRIG_E_OK)
			return;
		/* one line of it is enough, the first */
		t->said[strcspn(t->said, "\n")] = '\0';
		cleanup_free char *said = str_printable(t->said);
		if (said && *said) {
			err_set(&res->error, BRIG_E_SETUP_FAILED, 0, "setup", "%.300s", said);
			diagnose_fix(&res->error);
		} else {
			fail(t, BRIG_E_SETUP_FAILED, ECHILD, "setup",
			     "the sandbox died while it was being built");
		}
		return;
	}
	/* released, but it reported that it never got to run */
	if (res->error.code != BRIG_E_OK) {
		res->ran = false;
		return;
	}
	/* a program around the command tells a death by signal as an exit code;
	 * init knows better */
	if (t->inner_known) {
		t->status = t->inner;
		t->status_known = true;
	}
	if (t->status_known && WIFEXITED(t->status))
		res->exit_code = WEXITSTATUS(t->status);
	else if (t->status_known && WIFSIGNALED(t->status))
		res->signal = WTERMSIG(t->status);
	else
		res->signal = SIGKILL; /* the keeper was killed */
	if (res->timed_out && res->signal == 0) {
		/* it was ended by us, whatever the program around it says */
		res->exit_code = -1;
		res->signal = SIGKILL;
	}
}

void tree_watch(struct tree *t)
{
	struct pollfd p[P__N];

	while (!t->tree_gone && !t->keeper_gone) {
		int left = time_left(t);
		if (left == 0)
			on_deadline(t);
		wait_events(t, p, left == 0 ? time_left(t) : left);
		dispatch(t, p);
	}
	/* a record may still be in a socket (exec failed, then all ended) */
	while (!t->tree_gone) {
		struct pollfd more = { .fd = t->sock, .events = POLLIN };
		if (poll(&more, 1, 0) <= 0)
			break;
		t->keeper_gone = false;
		on_note(t);
		if (t->keeper_gone)
			break; /* nothing but the end */
	}
	hear_why(t);
	struct pollfd last = { .fd = t->status_read, .events = POLLIN };
	while (t->status_read >= 0 && poll(&last, 1, 0) > 0)
		on_status(t);
	drain_rest(t);
	terminal_end(&t->term);
	conclude(t);
}
