/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a connection.  Short ones are copied through one buffer that all
 * share; what the other side does not take at once waits in the connection's own,
 * and nothing more is read until it is gone.  A stream that turns out to be long
 * is spliced through a pipe, where the kernel moves pages instead of copying.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/conn.h"

static char chunk[PUMP_CHUNK];

void pump_free(struct flow *f)
{
	free(take_ptr(f->buf));
	f->off = f->ok = f->len = f->cap = 0;
	fd_close(&f->pipe[0]);
	fd_close(&f->pipe[1]);
	f->in_pipe = 0;
}

bool pump_room(struct flow *f, unsigned n, unsigned cap)
{
	if (f->off) {
		memmove(f->buf, f->buf + f->off, f->len - f->off);
		f->len -= f->off;
		f->ok -= f->off;
		f->off = 0;
	}
	if (f->cap - f->len >= n)
		return true;
	unsigned want = f->cap ? f->cap * 2 : 4096;
	while (want < f->len + n)
		want *= 2;
	if (want > cap)
		want = cap;
	if (want < f->len + n)
		return false;
	char *more = realloc(f->buf, want);
	if (!more)
		return false;
	f->buf = more;
	f->cap = want;
	return true;
}

static bool transient(int e)
{
	return e == EAGAIN || e == EINTR;
}

/* Less than there was room for: that was all, and epoll will say when there is
 * more.  Not so when the end has been announced, which it will not say again. */
static void drained(struct side *s, size_t got, size_t room)
{
	if (got && got < room && !s->hup)
		s->in = false;
}

/* One read into the flow's own buffer.  >0 bytes, 0 nothing now (or the buffer is
 * full, or the end), <0 -errno. */
static int fill(struct flow *f, struct side *from)
{
	if (!from->in || f->eof || f->len - f->off >= CONN_BUF)
		return 0;
	if (!pump_room(f, 1, CONN_BUF))
		return -ENOMEM;
	ssize_t n = recv(from->src.fd, f->buf + f->len, f->cap - f->len, 0);
	if (n < 0) {
		from->in = !transient(errno) || errno == EINTR;
		return transient(errno) ? 0 : -errno;
	}
	if (n == 0)
		f->eof = true;
	drained(from, (size_t)n, f->cap - f->len);
	f->len += (unsigned)n;
	return (int)n;
}

bool pump_fill(struct conn *c)
{
	int n;

	while ((n = fill(&c->flow[UP], &c->client)) > 0)
		;
	if (n < 0)
		conn_end(c, EG_R_RESET, -n);
	return n >= 0;
}

/* Sends what may go.  1: all of it is gone; 0: the other side takes no more now;
 * <0 -errno. */
static int flush(struct flow *f, struct side *to)
{
	while (f->in_pipe || f->off < f->ok) {
		if (!to->out)
			return 0;
		ssize_t n = f->in_pipe ?
			splice(f->pipe[0], NULL, to->src.fd, NULL, f->in_pipe,
			       SPLICE_F_MOVE | SPLICE_F_NONBLOCK) :
			send(to->src.fd, f->buf + f->off, f->ok - f->off, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			to->out = false;
			return 0;
		}
		if (n < 0)
			return -errno;
		f->bytes += (uint64_t)n;
		if (f->in_pipe)
			f->in_pipe -= (unsigned)n;
		else
			f->off += (unsigned)n;
	}
	if (f->off == f->len) {
		f->off = f->ok = f->len = 0;
		if (f->cap > CONN_BUF) { /* it held what could not go at once */
			free(take_ptr(f->buf));
			f->cap = 0;
		}
	}
	return 1;
}

static bool make_pipe(struct flow *f)
{
	if (f->pipe[0] >= 0)
		return true;
	if (pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
		f->pipe[0] = f->pipe[1] = -1;
		return false;
	}
	fcntl(f->pipe[1], F_SETPIPE_SZ, PUMP_PIPE); /* if it may; else smaller */
	free(take_ptr(f->buf));
	f->cap = 0;
	return true;
}

/* A read of at most `most` bytes that go straight on.  As fill(). */
static int move(struct conn *c, int dir, struct side *from, struct side *to, uint64_t most)
{
	struct flow *f = &c->flow[dir];
	bool bulk = f->bytes > PUMP_BULK && make_pipe(f);
	size_t room = bulk ? (size_t)PUMP_PIPE : sizeof chunk;

	if (room > most)
		room = (size_t)most;
	ssize_t n = bulk ? splice(from->src.fd, NULL, f->pipe[1], NULL, room,
				  SPLICE_F_MOVE | SPLICE_F_NONBLOCK) :
			   recv(from->src.fd, chunk, room, 0);

	if (n < 0) {
		if (errno == EAGAIN)
			from->in = false;
		return transient(errno) ? 0 : -errno;
	}
	if (n == 0) {
		f->eof = true;
		return 0;
	}
	if (bulk) {
		f->in_pipe = (unsigned)n;
		return (int)n;
	}
	drained(from, (size_t)n, room);
	if (dir == DOWN) {
		enum eg_reason bad = check_server(c, chunk, (size_t)n);
		if (bad) {
			conn_end(c, bad, 0);
			return (int)n;
		}
	}
	ssize_t sent = send(to->src.fd, chunk, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && !transient(errno))
		return -errno;
	if (sent < 0)
		sent = 0;
	f->bytes += (uint64_t)sent;
	if (sent < n) {
		unsigned rest = (unsigned)(n - sent);
		to->out = false;
		if (!pump_room(f, rest, PUMP_CHUNK))
			return -ENOMEM;
		memcpy(f->buf, chunk + sent, rest);
		f->ok = f->len = rest;
	}
	return (int)n;
}

/* Reads more for one direction, with the looking that is still to be done. */
static int refill(struct conn *c, int dir, struct side *from, struct side *to)
{
	struct flow *f = &c->flow[dir];

	if (dir == DOWN || c->check == CHECK_NONE)
		return move(c, dir, from, to, UINT64_MAX);
	/* a long body is nobody's business: only where it ends is */
	if ((c->check == CHECK_HTTP || c->check == CHECK_ONE) && !f->len &&
	    http_body_plain(&c->body) > CONN_BUF) {
		int moved = move(c, dir, from, to, http_body_plain(&c->body));
		if (moved > 0)
			http_body_feed(&c->body, NULL, (size_t)moved);
		return moved;
	}
	bool first = c->check == CHECK_FIRST && !f->len;
	bool ended = f->eof;
	int n = fill(f, from);
	if (n > 0 || f->eof != ended) {
		enum eg_reason bad = check_bytes(c);
		if (bad) {
			conn_end(c, bad, 0);
			return n;
		}
		if (first && f->len)
			loop_timer(c->eg->loop, &c->timer,
				   loop_now(c->eg->loop) + c->eg->config.head_ms);
	}
	return n;
}

/* One direction, until nothing more can be done.  Returns bytes moved or -errno. */
static int64_t run(struct conn *c, int dir)
{
	struct side *from = dir == UP ? &c->client : &c->up;
	struct side *to = dir == UP ? &c->up : &c->client;
	struct flow *f = &c->flow[dir];
	uint64_t before = f->bytes;

	for (;;) {
		int r = flush(f, to);
		if (r < 0)
			return r;
		if (r == 0 || c->state != CONN_PASS)
			break;
		if (f->eof) {
			/* the end of both is said by closing, which is next */
			bool last = c->flow[!dir].closed;
			if (!f->closed && !last && shutdown(to->src.fd, SHUT_WR) < 0)
				return -errno;
			f->closed = true;
			break;
		}
		if (!from->in)
			break;
		if (f->bytes - before > PUMP_BUDGET) {
			loop_task(c->eg->loop, &c->task);
			break;
		}
		r = refill(c, dir, from, to);
		if (r < 0 || c->state != CONN_PASS)
			return r;
		if (r == 0 && !f->eof && from->in && f->len - f->off >= CONN_BUF)
			break; /* full of what waits for the server's word */
	}
	return (int64_t)(f->bytes - before);
}

void pump(struct conn *c)
{
	int64_t up = run(c, UP), down = 0;

	if (c->state == CONN_PASS && up >= 0)
		down = run(c, DOWN);
	/* a server's "101" may have released what the client said meanwhile */
	if (c->state == CONN_PASS && up >= 0 && down > 0 &&
	    c->flow[UP].off < c->flow[UP].ok)
		up = run(c, UP);
	if (c->state != CONN_PASS)
		return;
	if (up < 0 || down < 0) {
		conn_end(c, EG_R_RESET, (int)-(up < 0 ? up : down));
		return;
	}
	if (c->flow[UP].closed && c->flow[DOWN].closed) {
		conn_end(c, c->ev.reason ? (enum eg_reason)c->ev.reason : EG_R_SILENT, 0);
		return;
	}
	/* the limit on a first line that does not end is not moved by more of it */
	if ((up || down) && !(c->check == CHECK_FIRST && c->flow[UP].len))
		c->timer.at = loop_now(c->eg->loop) + c->eg->config.idle_ms;
}
