/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's side of a terminal: raw mode, size, copying, restoring. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/timed.h"
#include "engine/terminal.h"

bool caller_tty_maybe(mode_t mode, dev_t rdev)
{
	enum { MEMORY = 1 }; /* /dev/null and its like */

	return S_ISCHR(mode) && major(rdev) != MEMORY;
}

void caller_tty_save(struct caller_tty *c)
{
	/* Not that of standard error alone: in a pipeline it is the terminal of a pager, too,
	 * which has settings of its own by the time we end. */
	for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO && !c->saved; fd++) {
		if (!(c->streams & 1u << fd) || tcgetattr(fd, &c->was) < 0)
			continue;
		c->saved = true;
		c->fd = fd;
		c->flags = fcntl(fd, F_GETFL);
	}
}

/* Output that was stopped with tcflow() stays so for everybody, and who writes, waits. */
static void caller_tty_go_on(const struct caller_tty *c)
{
	for (int fd = 0; fd < 3; fd++)
		if (c->streams & 1u << fd)
			tcflow(fd, TCOON);
}

static void caller_tty_put_back(const struct caller_tty *c)
{
	pid_t front = tcgetpgrp(c->fd); /* -1: of another session, or none */

	/* in the background the settings are what the shell has made of them meanwhile */
	if (front < 0 || front == getpgrp())
		tcsetattr(c->fd, TCSANOW, &c->was);
	ioctl(c->fd, TIOCNXCL);
	if (c->flags >= 0)
		fcntl(c->fd, F_SETFL, c->flags);
}

void caller_tty_restore(struct caller_tty *c)
{
	sigset_t ttou, old;

	if (!c->streams)
		return;
	/* Also from the background, where it is no offence.  We would be stopped, at the end of
	 * a command that has no use for the terminal, and for ever where nobody is in charge of
	 * jobs: below timeout(1) in a script. */
	sigemptyset(&ttou);
	sigaddset(&ttou, SIGTTOU);
	sigprocmask(SIG_BLOCK, &ttou, &old);
	caller_tty_go_on(c);
	if (c->saved)
		caller_tty_put_back(c);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

void caller_tty_rescue(const struct caller_tty *c)
{
	struct termios now, raw = c->was;

	if (!c->saved || c->fd != STDIN_FILENO || tcgetattr(c->fd, &now) < 0)
		return;
	cfmakeraw(&raw);
	if (now.c_iflag == raw.c_iflag && now.c_oflag == raw.c_oflag &&
	    now.c_lflag == raw.c_lflag && now.c_cflag == raw.c_cflag)
		tcsetattr(c->fd, TCSANOW, &c->was);
}

void terminal_start(struct terminal *t)
{
	caller_tty_save(&t->caller);
	if (t->pty < 0)
		return;
	if (t->caller.saved && t->caller.fd == STDIN_FILENO) {
		struct termios raw = t->caller.was;
		cfmakeraw(&raw);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	t->stdin_open = true;
	/* As long as one slave is open the master does not hang up, whatever the
	 * command closes: it may open its terminal again by name. */
	t->pty_slave = ioctl(t->pty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	/* a terminal whose command does not read must not block us */
	fcntl(t->pty, F_SETFL, fcntl(t->pty, F_GETFL) | O_NONBLOCK);
}

void terminal_resize(struct terminal *t)
{
	struct winsize ws;

	if (t->pty < 0)
		return;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &ws) < 0 &&
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) < 0)
		ws = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	ioctl(t->pty, TIOCSWINSZ, &ws);
}

enum { MOMENT_MS = 20 }; /* how long a read or a write of the caller's may take */

/* Reads into an empty buffer.  Bytes, 0 at the end, -1 to try again.  Only the pty's
 * descriptor is told not to wait: it is ours. */
static ssize_t fill(struct term_buf *b, int fd)
{
	ssize_t n = timed_read(fd, b->data, sizeof b->data, MOMENT_MS);

	if (n > 0) {
		b->at = 0;
		b->len = (size_t)n;
		return n;
	}
	return n == -EINTR || n == -EAGAIN ? -1 : 0;
}

/* Writes what the other side takes now. */
static void empty(struct term_buf *b, int fd)
{
	ssize_t n = timed_write(fd, b->data + b->at, b->len - b->at, MOMENT_MS);

	if (n == -EINTR || n == -EAGAIN)
		return;
	if (n < 0 || (b->at += (size_t)n) == b->len)
		b->at = b->len = 0; /* done, or nobody to write to */
}

/* As fill(). */
static ssize_t from_pty(struct terminal *t)
{
	ssize_t n = fill(&t->to_user, t->pty);

	if (n == 0) {
		fd_close(&t->pty); /* EIO: the last slave closed */
	} else if (n > 0 && t->capture) {
		capture_add(t->capture, t->to_user.data, t->to_user.len);
		t->to_user.len = 0;
	}
	return n;
}

static void to_user(struct terminal *t)
{
	empty(&t->to_user, STDOUT_FILENO);
}

static void to_pty(struct terminal *t)
{
	empty(&t->to_pty, t->pty);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000u + (uint64_t)ts.tv_nsec / 1000000u;
}

/*
 * The end of the caller's input is typed as the terminal's end-of-file character.  A file
 * stays at its end, a terminal does not: what was typed before a program with line editing
 * has set up its terminal is lost, and the one who reads next would wait for ever.  So it is
 * typed again, now and then.
 */
enum { END_GAP_FIRST = 50, END_GAP_MOST = 1000 };

static void type_end(struct terminal *t)
{
	struct termios now = { 0 };
	const bool known = tcgetattr(t->pty, &now) == 0;
	int waiting = 0;

	t->t_end = now_ms();
	t->end_gap = !t->end_gap ? END_GAP_FIRST :
		     t->end_gap < END_GAP_MOST / 2 ? 2 * t->end_gap : END_GAP_MOST;
	/* Without lines it is a key like any other: not before the last one was read. */
	const bool keys = known && !(now.c_lflag & ICANON);
	if (keys && ioctl(t->pty_slave, TIOCINQ, &waiting) == 0 && waiting > 0)
		return;
	t->to_pty.at = t->to_pty.len = 0;
	/* and who edits a line takes it for its end only where that is empty */
	if (keys && t->last && t->last != '\n' && t->last != '\r') {
		t->to_pty.data[t->to_pty.len++] = '\r';
		t->last = 0;
	}
	t->to_pty.data[t->to_pty.len++] = known && now.c_cc[VEOF] ? (char)now.c_cc[VEOF] : 4;
}

static void from_user(struct terminal *t)
{
	ssize_t n = fill(&t->to_pty, STDIN_FILENO);

	if (n > 0)
		t->last = t->to_pty.data[n - 1];
	if (n != 0)
		return;
	t->stdin_open = false;
	type_end(t);
}

int terminal_timeout(const struct terminal *t, int timeout)
{
	if (t->pty < 0 || !t->end_gap || t->to_pty.len)
		return timeout;
	const uint64_t gone = now_ms() - t->t_end;
	const int left = gone < t->end_gap ? (int)(t->end_gap - gone) : 0;
	return timeout >= 0 && timeout < left ? timeout : left;
}

enum { T_PTY, T_USER, T_STDOUT };

void terminal_poll(const struct terminal *t, struct pollfd p[TERM_POLLS])
{
	/* each direction: read when empty, write when not */
	bool out = t->to_user.len > 0, in = t->to_pty.len > 0;

	p[T_PTY] = (struct pollfd){ out && !in ? -1 : t->pty,
				    (short)((out ? 0 : POLLIN) | (in ? POLLOUT : 0)),
				    0 };
	p[T_USER] = (struct pollfd){ t->pty >= 0 && t->stdin_open && !in ?
					     STDIN_FILENO : -1, POLLIN, 0 };
	p[T_STDOUT] = (struct pollfd){ out ? STDOUT_FILENO : -1, POLLOUT, 0 };
}

void terminal_dispatch(struct terminal *t, const struct pollfd p[TERM_POLLS])
{
	if (p[T_STDOUT].revents)
		to_user(t);
	if ((p[T_PTY].revents & POLLOUT) && t->to_pty.len)
		to_pty(t);
	if ((p[T_PTY].revents & ~POLLOUT) && !t->to_user.len)
		from_pty(t);
	if (p[T_USER].revents && t->pty >= 0)
		from_user(t);
	if (t->pty >= 0 && t->end_gap && !t->to_pty.len && now_ms() - t->t_end >= t->end_gap)
		type_end(t);
}

int terminal_drain(struct terminal *t, int ms)
{
	enum { PTY_HOLDS = 1 << 17 }; /* and some more: no kernel lets it hold as much */
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	struct pollfd p = { .fd = t->pty, .events = POLLIN };
	const size_t had = t->to_user.len - t->to_user.at;

	if (had) {
		if (poll(&out, 1, ms) <= 0)
			return 0;
		to_user(t);
		return t->to_user.len - t->to_user.at < had;
	}
	/* somebody outside may have been handed the other side, and write without pause */
	if (t->pty < 0 || t->rest >= PTY_HOLDS || poll(&p, 1, 0) <= 0)
		return -1;
	ssize_t n = from_pty(t);
	t->rest += n > 0 ? (size_t)n : 0;
	return n > 0;
}

void terminal_end(struct terminal *t)
{
	caller_tty_restore(&t->caller);
}
