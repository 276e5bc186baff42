/* SPDX-License-Identifier: Apache-2.0 */
/* Standard streams and the terminal of a command in a container. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "backend/docker_call.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/timed.h"
#include "engine/watch.h"

enum { MOMENT_MS = 20 }; /* how long a read or a write of the caller's may take */

void docker_window(uint16_t *rows, uint16_t *cols)
{
	struct winsize ws;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &ws) < 0 &&
	    ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) < 0)
		ws = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	*rows = ws.ws_row;
	*cols = ws.ws_col;
}

void docker_terminal_start(struct docker_run *r)
{
	caller_tty_save(&r->caller);
	if (!r->spec->pty) {
		r->stdin_open = r->p->stream;
		return;
	}
	if (r->caller.saved && r->caller.fd == STDIN_FILENO) {
		struct termios raw = r->caller.was;
		cfmakeraw(&raw);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	r->stdin_open = true;
}

void docker_terminal_resize(struct docker_run *r)
{
	struct park_size size;

	if (!r->spec->pty || !r->released)
		return;
	docker_window(&size.rows, &size.cols);
	if (r->p->stream) {
		docker_frame_send(r->p->fd, PARK_SIZE, &size, sizeof size, NULL, 0);
	} else if (r->pty >= 0) {
		struct winsize ws = { .ws_row = size.rows, .ws_col = size.cols };
		ioctl(r->pty, TIOCSWINSZ, &ws);
	}
}

void docker_terminal_end(struct docker_run *r)
{
	caller_tty_restore(&r->caller);
}

void docker_output(struct docker_run *r, bool is_err, const char *data, size_t len)
{
	if (r->spec->capture) {
		capture_add(is_err ? &r->res->err : &r->res->out, data, len);
		return;
	}
	struct docker_queue *q = is_err ? &r->to_err : &r->to_out;
	int fd = is_err ? STDERR_FILENO : STDOUT_FILENO;
	/* The queue is empty when a frame is read, but one read may bring two. */
	while (len) {
		if (q->at == q->len)
			q->at = q->len = 0;
		size_t room = sizeof q->data - q->len;
		size_t n = len < room ? len : room;
		memcpy(q->data + q->len, data, n);
		q->len += n;
		data += n;
		len -= n;
		if (!len)
			return;
		/* no room: wait for the reader, but not past the deadline's grace */
		struct pollfd p = { fd, POLLOUT, 0 };
		if (poll(&p, 1, 500) <= 0) {
			r->res->out.dropped += len;
			return;
		}
		docker_flush(q, fd);
	}
}

/* Writes what the reader takes now. */
void docker_flush(struct docker_queue *q, int fd)
{
	ssize_t done = timed_write(fd, q->data + q->at, q->len - q->at, MOMENT_MS);

	if (done == -EINTR || done == -EAGAIN)
		return;
	if (done < 0 || (q->at += (size_t)done) == q->len)
		q->at = q->len = 0; /* done, or nobody to write to */
	if (q->at && q->at > sizeof q->data / 2) {
		memmove(q->data, q->data + q->at, q->len - q->at);
		q->len -= q->at;
		q->at = 0;
	}
}

void docker_from_stdin(struct docker_run *r)
{
	struct docker_queue *q = &r->to_pty;
	ssize_t n = timed_read(STDIN_FILENO, q->data, sizeof q->data, MOMENT_MS);

	if (n == -EINTR || n == -EAGAIN)
		return;
	if (n <= 0)
		r->stdin_open = false;
	if (r->p->stream) {
		r->stdin_busy = true;
		docker_frame_send(r->p->fd, PARK_STDIN, q->data, n > 0 ? (size_t)n : 0, NULL, 0);
		return;
	}
	q->at = 0;
	q->len = n > 0 ? (size_t)n : 1;
	if (n <= 0) {
		/* the end of input is typed as the terminal's own character for it */
		struct termios t;
		q->data[0] = tcgetattr(r->pty, &t) == 0 && t.c_cc[VEOF] ?
				     (char)t.c_cc[VEOF] : 4;
	}
}

void docker_from_pty(struct docker_run *r)
{
	big_buffer char data[4096];
	ssize_t n = read(r->pty, data, sizeof data);

	if (n > 0)
		docker_output(r, false, data, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		fd_close(&r->pty); /* EIO: the last slave closed */
}

static bool ready(int fd, short events, int ms)
{
	struct pollfd p = { fd, events, 0 };

	return fd >= 0 && poll(&p, 1, ms) > 0;
}

void docker_drain_rest(struct docker_run *r)
{
	watch_drain_rest(&r->out_read, &r->res->out);
	watch_drain_rest(&r->err_read, &r->res->err);
	/* as far as the reader takes it: one that is stuck gets a moment */
	uint64_t until = now_ns() + 500000000u;
	while (now_ns() < until) {
		if (r->to_out.len) {
			if (ready(STDOUT_FILENO, POLLOUT, 100))
				docker_flush(&r->to_out, STDOUT_FILENO);
		} else if (r->to_err.len) {
			if (ready(STDERR_FILENO, POLLOUT, 100))
				docker_flush(&r->to_err, STDERR_FILENO);
		} else if (ready(r->pty, POLLIN, 0)) {
			docker_from_pty(r);
		} else {
			break;
		}
	}
}
