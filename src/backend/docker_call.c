/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command on a container that waits: judge, release, copy streams, forward
 * signals, keep the deadline, conclude.  Needs no engine, only the channel to
 * the container's init, so that a waiting container is used by brig itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/docker_call.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/msg.h"
#include "base/str.h"
#include "base/sys.h"
#include "engine/watch.h"

/* How long the init has to end everything before the container is stopped. */
#define ENDING_MS 500u

static int block_signals(struct docker_run *r, struct brig_error *err)
{
	static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,
					 SIGALRM, SIGTSTP, SIGCONT, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(forwarded); i++)
		sigaddset(&set, forwarded[i]);
	sigaddset(&set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &set, &r->old_mask);
	sigdelset(&set, SIGPIPE);
	r->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->sigfd < 0 ? err_set(err, BRIG_E_NO_MEMORY, errno, "docker", "signals") : 0;
}

/* The descriptors the command gets over a socket: ours, or pipes to us. */
static int make_stdio(struct docker_run *r, int fds[3], struct brig_error *err)
{
	const struct spec *s = r->spec;

	fds[0] = STDIN_FILENO;
	fds[1] = STDOUT_FILENO;
	fds[2] = STDERR_FILENO;
	for (int fd = 0; fd < 3; fd++) {
		struct stat st;
		int flags = fcntl(fd, F_GETFL);
		/* names could be looked up from a directory: a way out */
		if (flags >= 0 && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) &&
		    !(flags & O_PATH)) {
			if (caller_tty_maybe(st.st_mode, st.st_rdev))
				r->caller.streams |= 1u << fd;
			continue;
		}
		err_set(err, BRIG_E_BAD_FD, 0, "docker",
			"standard descriptor %d is closed or a directory", fd);
		err_fix(err, "redirect it: </dev/null, for one");
		return -EBADF;
	}
	if (!s->capture || s->pty)
		return 0;
	for (int i = 1; i < 3; i++) {
		int e = fd_pipe_from_command(i == 1 ? &r->out_read : &r->err_read, &fds[i]);
		if (e < 0)
			return err_set(err, BRIG_E_NO_MEMORY, -e, "docker", "pipes");
		/* /dev/stdout is opened by name inside, under the container's id */
		if (geteuid() == 0 && fchown(fds[i], docker_uid(s), docker_gid(s)) < 0)
			return err_set(err, BRIG_E_SETUP_FAILED, errno, "docker", "pipes");
	}
	return 0;
}

static int send_go(struct docker_run *r, struct brig_error *err)
{
	const struct spec *s = r->spec;
	struct park_go go = { .flags = s->pty ? PARK_GO_PTY : 0,
			      .argc = (uint32_t)strv_len(s->argv),
			      .envc = (uint32_t)strv_len(s->env) };
	struct buf b = { 0 };
	int fds[3], e = make_stdio(r, fds, err);

	if (s->pty)
		docker_window(&go.rows, &go.cols);
	buf_add(&b, &go, sizeof go);
	buf_add(&b, r->job->cwd, strlen(r->job->cwd) + 1);
	for (char **a = s->argv; *a; a++)
		buf_add(&b, *a, strlen(*a) + 1);
	for (char **v = s->env; v && *v; v++)
		buf_add(&b, *v, strlen(*v) + 1);
	if (e == 0 && !buf_ok(&b))
		e = err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "the command");
	if (e == 0 && b.len >= PARK_GO_MAX) {
		e = err_set(err, BRIG_E_EXEC_FAILED, E2BIG, "exec", "the command");
		err_fix(err, "the arguments and environment are too long");
	}
	if (e == 0) {
		bool pass = !r->p->stream && !s->pty;
		e = docker_frame_send(r->p->fd, PARK_GO, b.data, b.len, fds, pass ? 3 : 0);
		if (e < 0)
			err_set(err, BRIG_E_SETUP_FAILED, -e, "release", "the container's job");
	}
	/* what may be a secret does not stay */
	if (b.data)
		explicit_bzero(b.data, b.cap);
	buf_free(&b);
	if (r->out_read >= 0)
		close(fds[1]);
	if (r->err_read >= 0)
		close(fds[2]);
	return e;
}

static int on_frame(void *arg, uint32_t type, const char *body, size_t len)
{
	struct docker_run *r = arg;

	switch (type) {
	case PARK_STARTED:
		r->started = true;
		return 0;
	case PARK_PTY:
		return r->pty >= 0 ? 0 : -EPROTO; /* it came with a descriptor */
	case PARK_FAIL:
		if (len != sizeof r->fail || r->started)
			return -EPROTO;
		memcpy(&r->fail, body, len);
		r->failed = true;
		return 0;
	case PARK_OUT:
	case PARK_ERR:
		if (!r->p->stream)
			return -EPROTO;
		docker_output(r, type == PARK_ERR, body, len);
		return 0;
	case PARK_TAKEN:
		r->stdin_busy = false;
		return 0;
	case PARK_STATUS:
		if (len != sizeof r->status)
			return -EPROTO;
		memcpy(&r->status, body, len);
		/* not from the init: somebody inside wrote it, and runs */
		if (memcmp(r->status.key, r->p->key, sizeof r->status.key) != 0)
			return -EPROTO;
		r->status_known = true;
		return 0;
	default:
		return -EPROTO;
	}
}

static int on_piece(void *arg, int stream, const char *data, size_t len)
{
	struct docker_run *r = arg;

	return stream == 1 ? docker_frames_feed(&r->frames, data, len, on_frame, r) : 0;
}

static void take_pty(struct docker_run *r, int fd)
{
	r->pty = fd;
	/* while one slave is open the master does not hang up */
	r->pty_slave = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void on_channel(struct docker_run *r)
{
	big_buffer char data[PARK_DATA_MAX];
	struct msg_in in;

	ssize_t n = msg_recv(r->p->fd, data, sizeof data, MSG_DONTWAIT, &in);
	if (n == -EINTR || n == -EAGAIN)
		return;
	int fd = msg_fd(&in);
	/* before the command runs, from our own program */
	if (fd >= 0 && r->spec->pty && r->pty < 0 && !r->started && !r->p->stream)
		take_pty(r, fd);
	else
		fd_close(&fd);
	int e = n <= 0 ? -ECONNRESET :
		r->p->stream ? docker_demux_feed(&r->demux, data, (size_t)n, on_piece, r) :
			       docker_frames_feed(&r->frames, data, (size_t)n, on_frame, r);
	if (e < 0)
		r->hung_up = true; /* ended without a word, or with nonsense */
}

static void on_signal(struct docker_run *r)
{
	struct signalfd_siginfo si;

	if (read(r->sigfd, &si, sizeof si) != (ssize_t)sizeof si ||
	    signals_ignored((int)si.ssi_signo))
		return;
	const struct park_signal sig = { (int32_t)si.ssi_signo }, stop = { SIGSTOP },
				 cont = { SIGCONT };
	if (sig.sig == SIGWINCH) {
		docker_terminal_resize(r);
		return;
	}
	docker_frame_send(r->p->fd, PARK_SIGNAL, &sig, sizeof sig, NULL, 0);
	if (sig.sig != SIGTSTP || r->spec->pty)
		return;
	/* see signals_forward() */
	bool stops = signals_let_stop();
	if (stops) {
		docker_frame_send(r->p->fd, PARK_SIGNAL, &stop, sizeof stop, NULL, 0);
		raise(SIGSTOP);
	}
	if (!stops || signals_ignored(SIGCONT))
		docker_frame_send(r->p->fd, PARK_SIGNAL, &cont, sizeof cont, NULL, 0);
}

/* Milliseconds until something is due, -1 for nothing; 0 it is. */
static int time_left(const struct docker_run *r)
{
	uint64_t limit = r->ending ? ENDING_MS : r->spec->limits.timeout_ms;
	uint64_t from = r->ending ? r->t_ending : r->t_release;

	if (!limit)
		return -1;
	uint64_t spent = (now_ns() - from) / 1000000;
	if (spent >= limit)
		return 0;
	return limit - spent > 1000000 ? 1000000 : (int)(limit - spent);
}

/* The deadline; and when the init does not end everything in time, the end of
 * the container.  True when there is nothing more to wait for. */
static bool on_deadline(struct docker_run *r)
{
	if (r->ending)
		return true;
	r->ending = true;
	r->res->timed_out = true;
	r->t_ending = now_ns();
	return docker_frame_send(r->p->fd, PARK_END, NULL, 0, NULL, 0) < 0;
}

enum { P_CHANNEL, P_SIG, P_OUT, P_ERR, P_PTY, P_STDIN, P_STDOUT, P_STDERR, P_NET, P__N };

static void wait_events(struct docker_run *r, struct pollfd *p, int timeout)
{
	bool stuck = r->to_out.len || r->to_err.len;
	bool feed = r->to_pty.len > 0 && !r->p->stream;
	bool read_input = r->stdin_open && r->released && !r->stdin_busy && !feed &&
			  (r->p->stream || r->pty >= 0);

	p[P_CHANNEL] = (struct pollfd){ stuck && r->p->stream ? -1 : r->p->fd, POLLIN, 0 };
	p[P_SIG] = (struct pollfd){ r->sigfd, POLLIN, 0 };
	p[P_OUT] = (struct pollfd){ r->out_read, POLLIN, 0 };
	p[P_ERR] = (struct pollfd){ r->err_read, POLLIN, 0 };
	p[P_PTY] = (struct pollfd){ stuck && !feed ? -1 : r->pty,
				    (short)((stuck ? 0 : POLLIN) | (feed ? POLLOUT : 0)), 0 };
	p[P_STDIN] = (struct pollfd){ read_input ? STDIN_FILENO : -1, POLLIN, 0 };
	p[P_STDOUT] = (struct pollfd){ r->to_out.len ? STDOUT_FILENO : -1, POLLOUT, 0 };
	p[P_STDERR] = (struct pollfd){ r->to_err.len ? STDERR_FILENO : -1, POLLOUT, 0 };
	p[P_NET] = (struct pollfd){ r->egress ? egress_poll_fd(r->egress) : -1, POLLIN, 0 };
	if (poll(p, P__N, timeout) < 0)
		for (int i = 0; i < P__N; i++)
			p[i].revents = 0;
}

/* Without the process there is no network, which is safe; that it is gone is said
 * in the result. */
static void on_egress(struct docker_run *r)
{
	struct brig_error err = { 0 };

	if (egress_handle(r->egress, r->res, &err) < 0)
		result_deny(r->res, "net", "egress", err.message, err.fix, 1);
}

static void dispatch(struct docker_run *r, const struct pollfd *p)
{
	if (p[P_OUT].revents)
		watch_drain(&r->out_read, &r->res->out);
	if (p[P_ERR].revents)
		watch_drain(&r->err_read, &r->res->err);
	if (p[P_STDOUT].revents)
		docker_flush(&r->to_out, STDOUT_FILENO);
	if (p[P_STDERR].revents)
		docker_flush(&r->to_err, STDERR_FILENO);
	if ((p[P_PTY].revents & POLLOUT) && r->to_pty.len)
		docker_flush(&r->to_pty, r->pty);
	if (p[P_PTY].revents & ~POLLOUT)
		docker_from_pty(r);
	if (p[P_STDIN].revents)
		docker_from_stdin(r);
	if (p[P_NET].revents)
		on_egress(r);
	if (p[P_CHANNEL].revents)
		on_channel(r);
	if (p[P_SIG].revents)
		on_signal(r);
}

static void watch(struct docker_run *r)
{
	struct pollfd p[P__N];

	while (!r->status_known && !r->hung_up) {
		int left = time_left(r);
		if (left == 0 && on_deadline(r))
			return;
		wait_events(r, p, left == 0 ? time_left(r) : left);
		dispatch(r, p);
	}
}

/* Until nothing in the container runs: only then is the workspace looked at. */
static int make_sure(struct docker_run *r)
{
	struct pollfd p = { r->init_pidfd, POLLIN, 0 };

	if (r->status_known)
		return 0; /* the init has killed and reaped everything */
	/* an engine that still has something to write to us would not end it */
	shutdown(r->p->fd, SHUT_RDWR);
	/* its end is the end of all: the kernel sees to it before it says so */
	if (r->init_pidfd >= 0 &&
	    (sys_pidfd_send_signal(r->init_pidfd, SIGKILL, 0) == 0 || errno == ESRCH) &&
	    poll(&p, 1, 5000) > 0)
		return 0;
	return r->stop->stop(r->stop->arg);
}

static void settle(struct docker_run *r)
{
	struct brig_result *res = r->res;

	watch_sweep(&r->job->protect, r->spec->workspace.fd, -1, 0, res);
	if (r->status_known) {
		res->cpu_ms = (double)r->status.cpu_us / 1e3;
		res->max_rss_kb = r->p->stream ? 0 : r->status.max_rss_kb;
	}
	docker_groups_account(&r->groups, res);
}

/* The command never ran: which step, and why. */
static void explain_failure(struct docker_run *r)
{
	struct brig_error *e = &r->res->error;
	int errnum = r->fail.errnum > 0 && r->fail.errnum < 4096 ? r->fail.errnum : EPROTO;
	cleanup_free char *shown = str_printable(r->fail.step == PARK_STEP_CWD ?
							 r->job->cwd : r->spec->argv[0]);
	const char *name = shown ? shown : "?";

	if (r->fail.step == PARK_STEP_EXEC && errnum == ENOENT) {
		err_set(e, BRIG_E_NOT_FOUND, 0, "exec", "%.200s: not found in the image", name);
		err_fix(e, "name a program that the image has, or show its directory with --ro");
	} else if (r->fail.step == PARK_STEP_EXEC) {
		err_set(e, BRIG_E_EXEC_FAILED, errnum, "exec", "%.200s", name);
		err_fix(e, errnum == E2BIG ? "the arguments and environment are too long" :
				   "it must be executable and of this machine's kind");
	} else if (r->fail.step == PARK_STEP_CWD) {
		err_set(e, BRIG_E_BAD_CWD, errnum, "exec", "%.200s", name);
		err_fix(e, "the directory must exist and be open to uid %u",
			docker_uid(r->spec));
	} else {
		err_set(e, BRIG_E_SETUP_FAILED, errnum, "exec",
			r->fail.step == PARK_STEP_PTY ? "a terminal inside the container" :
							"the container's job");
	}
}

static void conclude(struct docker_run *r)
{
	struct brig_result *res = r->res;

	if (r->failed || !r->started) {
		/* released, and told that it did not get to run */
		res->ran = false;
		if (r->failed)
			explain_failure(r);
		else if (!r->res->timed_out)
			err_set(&res->error, BRIG_E_SETUP_FAILED, ECONNRESET, "release",
				"the container ended before the command started");
		else
			res->ran = true;
	}
	if (res->error.code != BRIG_E_OK)
		return;
	/* ended by us, whatever a shell made of its child's end */
	if (!r->status_known || r->status.status < 0 || res->timed_out)
		res->signal = SIGKILL;
	else if (WIFEXITED(r->status.status))
		res->exit_code = WEXITSTATUS(r->status.status);
	else
		res->signal = WTERMSIG(r->status.status);
}

/* A signal that came while the container was being made: nothing has run yet. */
static int check_interrupt(struct docker_run *r, struct brig_error *err)
{
	struct signalfd_siginfo si;

	while (read(r->sigfd, &si, sizeof si) == (ssize_t)sizeof si) {
		int sig = (int)si.ssi_signo;
		if (signals_ends_setup(sig) && !signals_ignored(sig))
			return err_set(err, BRIG_E_SETUP_FAILED, EINTR, "docker",
				       "interrupted before the command was released");
	}
	return 0;
}

/* The allow-list's sockets, before anything that is not brig's own runs inside. */
static int make_net(struct docker_run *r, struct brig_error *err)
{
	if (r->spec->net != NET_ALLOW)
		return 0;
	r->egress = calloc(1, sizeof *r->egress);
	if (!r->egress)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "the allow-list");
	int e = egress_init(r->egress, r->spec, err);
	if (e == 0) {
		r->egress->net.form = docker_net_form(r->spec);
		e = docker_net_make(r->p, r->egress, err);
	}
	if (e == 0) {
		r->res->enforced |= LAYERS_ALLOW;
		r->res->missing &= ~LAYERS_ALLOW;
	}
	return e;
}

static void release_and_run(struct docker_run *r, uint64_t t_start)
{
	struct brig_result *res = r->res;

	if (check_interrupt(r, &res->error) < 0)
		return;
	r->t_release = now_ns();
	if (send_go(r, &res->error) < 0)
		return;
	r->released = true;
	res->ran = true;
	res->setup_us = (r->t_release - t_start) / 1000;
	docker_terminal_start(r);
	watch(r);
	docker_terminal_end(r);
	int e = make_sure(r);
	if (r->egress)
		egress_end(r->egress, res);
	res->wall_ms = (double)(now_ns() - r->t_release) / 1e6;
	docker_drain_rest(r);
	if (e == 0)
		settle(r);
	else
		result_deny(res, "container", r->p->id,
			    "the container could not be stopped", "remove it by hand", 1);
	conclude(r);
	docker_frame_send(r->p->fd, PARK_BYE, NULL, 0, NULL, 0);
}

void docker_call(const struct docker_job *j, struct docker_parked *p,
		 const struct docker_stop *stop, uint64_t t_start, struct brig_result *res)
{
	struct docker_run *r = calloc(1, sizeof *r);

	if (!r) {
		err_set(&res->error, BRIG_E_NO_MEMORY, ENOMEM, "docker", "a run");
		return;
	}
	*r = (struct docker_run){
		.job = j, .spec = j->spec, .p = p, .stop = stop, .res = res,
		.groups = { -1, -1, -1, false }, .sigfd = -1, .init_pidfd = -1,
		.out_read = -1, .err_read = -1, .pty = -1, .pty_slave = -1,
	};
	if (j->spec->name && !res->name)
		res->name = strdup(j->spec->name);
	res->captured = j->spec->capture;
	capture_init(&res->out, j->spec->limits.max_output);
	capture_init(&res->err, j->spec->limits.max_output);
	docker_groups_open(&r->groups, p->pid, p->id);
	if (!p->stream)
		r->init_pidfd = sys_pidfd_open(p->pid);
	if (docker_judge(j, p, &r->groups, res) == 0 && block_signals(r, &res->error) == 0) {
		if (make_net(r, &res->error) == 0)
			release_and_run(r, t_start);
		sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
	}
	if (r->egress)
		egress_end(r->egress, res);
	free(r->egress);
	int *fds[] = { &r->sigfd, &r->init_pidfd, &r->out_read, &r->err_read, &r->pty,
		       &r->pty_slave };
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_close(fds[i]);
	docker_groups_close(&r->groups);
	docker_frames_free(&r->frames);
	free(r);
}
