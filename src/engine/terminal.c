/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor's side of a terminal: raw mode, size, copying, restoring. */
#include <errno.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "engine/run_internal.h"

void terminal_start(struct run *r)
{
	if (tcgetattr(STDIN_FILENO, &r->tty) == 0)
		r->tty_saved = true;
	if (r->pty < 0)
		return;
	if (r->tty_saved) {
		struct termios raw = r->tty;
		cfmakeraw(&raw);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	r->stdin_open = true;
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

void terminal_from_pty(struct run *r)
{
	char data[16384];
	ssize_t n = read(r->pty, data, sizeof data);

	if (n > 0) {
		if (r->l.spec->capture)
			capture_add(&r->res->out, data, (size_t)n);
		else
			fd_write_full(STDOUT_FILENO, data, (size_t)n);
		return;
	}
	/* EIO: the last slave closed */
	if (n == 0 || (errno != EINTR && errno != EAGAIN))
		fd_close(&r->pty);
}

void terminal_from_user(struct run *r)
{
	char data[4096];
	ssize_t n = read(STDIN_FILENO, data, sizeof data);

	if (n > 0) {
		fd_write_full(r->pty, data, (size_t)n);
		return;
	}
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	/* end of input is typed as the terminal's end-of-file character */
	r->stdin_open = false;
	struct termios t;
	char eof = 4;
	if (r->pty >= 0 && tcgetattr(r->pty, &t) == 0 && t.c_cc[VEOF])
		eof = (char)t.c_cc[VEOF];
	if (r->pty >= 0)
		fd_write_full(r->pty, &eof, 1);
}

void terminal_end(struct run *r)
{
	/* The command may have left the caller's terminal in any state, even
	 * without a pty of its own: it had it as stdin. */
	if (r->tty_saved)
		tcsetattr(STDIN_FILENO, TCSANOW, &r->tty);
}
