/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's side of a terminal: raw mode, size, copying, restoring. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "engine/run_internal.h"

void terminal_start(struct run *r)
{
	if (tcgetattr(STDIN_FILENO, &r->tty) == 0) {
		r->tty_saved = true;
		r->stdin_flags = fcntl(STDIN_FILENO, F_GETFL);
	}
	if (r->pty < 0)
		return;
	if (r->tty_saved) {
		struct termios raw = r->tty;
		cfmakeraw(&raw);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	r->stdin_open = true;
	/* As long as one slave is open the master does not hang up, whatever the
	 * command closes: it may open its terminal again by name. */
	r->pty_slave = ioctl(r->pty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	/* a terminal whose command does not read must not block us */
	fcntl(r->pty, F_SETFL, fcntl(r->pty, F_GETFL) | O_NONBLOCK);
	terminal_resize(r);
}

void terminal_resize(struct run *r)
{
	struct winsize ws;

	if (r->pty < 0)
		return;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &ws) < 0 &&
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) < 0)
		ws = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	ioctl(r->pty, TIOCSWINSZ, &ws);
}

/* Reads into an empty buffer.  Bytes, 0 at the end, -1 to try again. */
static ssize_t fill(struct term_buf *b, int fd)
{
	ssize_t n = read(fd, b->data, sizeof b->data);

	if (n > 0) {
		b->at = 0;
		b->len = (size_t)n;
		return n;
	}
	return n < 0 && (errno == EINTR || errno == EAGAIN) ? -1 : 0;
}

/* Writes what the other side takes now. */
static void empty(struct term_buf *b, int fd)
{
	ssize_t n = write(fd, b->data + b->at, b->len - b->at);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0 || (b->at += (size_t)n) == b->len)
		b->at = b->len = 0; /* done, or nobody to write to */
}

void terminal_from_pty(struct run *r)
{
	ssize_t n = fill(&r->to_user, r->pty);

	if (n == 0) {
		fd_close(&r->pty); /* EIO: the last slave closed */
	} else if (n > 0 && r->l.spec->capture) {
		capture_add(&r->res->out, r->to_user.data, r->to_user.len);
		r->to_user.len = 0;
	}
}

void terminal_to_user(struct run *r)
{
	empty(&r->to_user, STDOUT_FILENO);
}

void terminal_to_pty(struct run *r)
{
	empty(&r->to_pty, r->pty);
}

void terminal_from_user(struct run *r)
{
	if (fill(&r->to_pty, STDIN_FILENO) != 0)
		return;
	/* end of input is typed as the terminal's end-of-file character */
	r->stdin_open = false;
	struct termios t;
	r->to_pty.data[0] = 4;
	if (tcgetattr(r->pty, &t) == 0 && t.c_cc[VEOF])
		r->to_pty.data[0] = (char)t.c_cc[VEOF];
	r->to_pty.at = 0;
	r->to_pty.len = 1;
}

void terminal_end(struct run *r)
{
	/* The command may have left the caller's terminal in any state, even
	 * without a pty of its own: it had it as stdin. */
	if (!r->tty_saved)
		return;
	tcsetattr(STDIN_FILENO, TCSANOW, &r->tty);
	ioctl(STDIN_FILENO, TIOCNXCL);
	if (r->stdin_flags >= 0)
		fcntl(STDIN_FILENO, F_SETFL, r->stdin_flags);
}
