/* SPDX-License-Identifier: Apache-2.0 */
/* Arming the job of a fresh container: the filter and the paths go in, its
 * report on itself comes out. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#include "backend/docker.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/msg.h"

struct wait {
	struct docker_parked *p;
	struct brig_error *err;
	size_t n_checks;
	bool done;
	char noise[200]; /* what came instead, for the message */
	size_t noise_len;
};

int docker_hello_build(const struct docker_job *j, struct buf *b)
{
	/* Under a caller's own profile, which the engine loads, the floor stays. */
	const struct seccomp_prog *f = j->spec->seccomp ? seccomp_floor() :
							  seccomp_default(false);
	const struct park_hello h = { .magic = PARK_MAGIC, .version = PARK_VERSION,
				      .n_filter = f->len,
				      .n_paths = (uint32_t)j->n_checks };

	buf_add(b, &h, sizeof h);
	buf_add(b, f->insns, f->len * sizeof *f->insns);
	for (size_t i = 0; i < j->n_checks; i++)
		buf_add(b, j->checks[i].path, strlen(j->checks[i].path) + 1);
	return !buf_ok(b) ? -ENOMEM : b->len > PARK_HELLO_MAX ? -E2BIG : 0;
}

static int on_report(struct wait *w, const char *body, size_t len)
{
	struct docker_parked *p = w->p;

	if (len < sizeof p->report)
		return -EPROTO;
	memcpy(&p->report, body, sizeof p->report);
	struct park_report *r = &p->report;
	size_t list = w->n_checks * sizeof *p->paths;
	if (r->magic != PARK_MAGIC || r->version != PARK_VERSION ||
	    r->n_paths != w->n_checks || len != sizeof *r + list)
		return -EPROTO;
	r->release[sizeof r->release - 1] = '\0';
	r->nodename[sizeof r->nodename - 1] = '\0';
	free(p->paths);
	p->paths = malloc(list ? list : 1);
	if (!p->paths)
		return -ENOMEM;
	memcpy(p->paths, body + sizeof *r, list);
	w->done = true;
	return 0;
}

static int on_frame(void *arg, uint32_t type, const char *body, size_t len)
{
	struct wait *w = arg;
	struct park_fail f;

	if (w->done)
		return -EPROTO;
	if (type == PARK_REPORT)
		return on_report(w, body, len);
	if (type != PARK_FAIL || len != sizeof f)
		return -EPROTO;
	memcpy(&f, body, sizeof f);
	return err_set(w->err, f.step == PARK_STEP_FILTER ? BRIG_E_SECCOMP_FAILED :
							    BRIG_E_SETUP_FAILED,
		       f.errnum > 0 && f.errnum < 4096 ? f.errnum : EPROTO, "docker",
		       f.step == PARK_STEP_FILTER ? "the filter inside the container" :
						    "the init inside the container");
}

struct both {
	struct docker_frames *frames;
	struct wait *w;
};

static int on_piece(void *arg, int stream, const char *data, size_t len)
{
	struct both *b = arg;

	if (stream == 1)
		return docker_frames_feed(b->frames, data, len, on_frame, b->w);
	/* standard error: a runtime that could not start the init says why */
	size_t room = sizeof b->w->noise - 1 - b->w->noise_len;
	size_t n = len < room ? len : room;
	memcpy(b->w->noise + b->w->noise_len, data, n);
	b->w->noise_len += n;
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* One read; the kernel says which process wrote it, in our own numbers. */
static ssize_t receive(struct docker_parked *p, char *data, size_t cap)
{
	struct msg_in in;
	ssize_t n = msg_recv(p->fd, data, cap, MSG_DONTWAIT, &in);
	cleanup_close int none = msg_fd(&in); /* nothing comes with these */

	if (n > 0 && !p->stream && in.from >= 0)
		p->job = in.from;
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

/* The same for every container of a recipe, but for the key. */
static int send_hello(struct docker_parked *p, const struct buf *hello)
{
	struct park_hello h;
	struct buf b = { 0 };

	if (hello->len < sizeof h || getrandom(p->key, sizeof p->key, 0) != sizeof p->key)
		return -EIO;
	memcpy(&h, hello->data, sizeof h);
	memcpy(h.key, p->key, sizeof h.key);
	buf_add(&b, &h, sizeof h);
	buf_add(&b, hello->data + sizeof h, hello->len - sizeof h);
	int r = buf_ok(&b) ? docker_frame_send(p->fd, PARK_HELLO, b.data, b.len, NULL, 0) :
			     -ENOMEM;
	buf_free(&b);
	return r;
}

int docker_hello(struct docker_parked *p, const struct buf *hello, size_t n_paths,
		 int timeout_ms, struct brig_error *err)
{
	struct wait w = { .p = p, .err = err, .n_checks = n_paths };
	struct docker_frames frames = { 0 };
	struct docker_demux demux = { 0 };
	struct both both = { &frames, &w };
	int64_t until = now_ms() + timeout_ms;
	int on = 1, r = 0;

	if (!p->stream)
		setsockopt(p->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
	r = send_hello(p, hello);
	while (r == 0 && !w.done) {
		big_buffer char data[8192];
		struct pollfd pfd = { p->fd, POLLIN, 0 };
		int64_t left = until - now_ms();
		if (left <= 0 || poll(&pfd, 1, (int)left) == 0) {
			r = -ETIMEDOUT;
			break;
		}
		ssize_t n = receive(p, data, sizeof data);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			r = n < 0 ? -errno : -ECONNRESET;
		else if (p->stream)
			r = docker_demux_feed(&demux, data, (size_t)n, on_piece, &both);
		else
			r = docker_frames_feed(&frames, data, (size_t)n, on_frame, &w);
	}
	/* more than the report would be a command that runs already */
	if (r == 0 && (frames.have || demux.have || demux.left))
		r = -EPROTO;
	docker_frames_free(&frames);
	if (r < 0 && err->code == BRIG_E_OK)
		err_set(err, BRIG_E_SETUP_FAILED, -r, "docker",
			"the container's init did not report%s%.*s", w.noise_len ? ": " : "",
			(int)w.noise_len, w.noise);
	return r;
}
