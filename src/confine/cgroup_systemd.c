/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scope from systemd, for people who log in: their session's group is not
 * theirs to write, but their service manager gives away groups that are.
 *
 * The client speaks just enough D-Bus for one call.  A library would have to
 * be linked into every start of brig, and none is made for static linking.
 * The other end runs as us or as root, yet nothing it says is trusted: sizes
 * are capped, every field is checked, and the time is bounded.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "confine/cgroup_internal.h"

enum {
	WIRE_MAX = 1024,      /* what we send */
	MESSAGE_MAX = 65536,  /* what we accept */
	MESSAGES_MAX = 256,   /* signals before our answer */
	LOGIN_MAX = 512,      /* a line of the login */
	HEADER = 16,
	SERIAL_HELLO = 1,
	SERIAL_START = 2,
};

enum { TYPE_CALL = 1, TYPE_RETURN = 2, TYPE_ERROR = 3 };

enum {
	FIELD_PATH = 1,
	FIELD_INTERFACE = 2,
	FIELD_MEMBER = 3,
	FIELD_ERROR_NAME = 4,
	FIELD_REPLY_SERIAL = 5,
	FIELD_DESTINATION = 6,
	FIELD_SIGNATURE = 8,
};

#define JOB_PREFIX "/org/freedesktop/systemd1/job/"

/* --- time --- */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits until fd has data.  0, -ETIMEDOUT or -errno. */
static int wait_readable(int fd, int64_t deadline)
{
	for (;;) {
		int64_t left = deadline - now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int n = poll(&p, 1, (int)left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int read_exact(int fd, void *data, size_t len, int64_t deadline)
{
	for (size_t got = 0; got < len;) {
		int r = wait_readable(fd, deadline);
		if (r < 0)
			return r;
		ssize_t n = recv(fd, (char *)data + got, len - got, MSG_DONTWAIT);
		if (n == 0)
			return -ECONNRESET;
		if (n > 0)
			got += (size_t)n;
		else if (errno != EINTR && errno != EAGAIN)
			return -errno;
	}
	return 0;
}

/* What we send is small: a peer whose buffer cannot take it is not answering
 * anyway, so a short write is an error. */
static int send_all(int fd, const void *data, size_t len)
{
	ssize_t n;

	do
		n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EMSGSIZE;
}

/* --- writing: each value is aligned to its size, in our byte order --- */

struct wire {
	uint8_t b[WIRE_MAX];
	size_t n;
	bool full;
};

static void put_bytes(struct wire *w, const void *data, size_t len)
{
	if (len > sizeof w->b - w->n) {
		w->full = true;
		return;
	}
	memcpy(w->b + w->n, data, len);
	w->n += len;
}

static void put_byte(struct wire *w, unsigned v)
{
	uint8_t b = (uint8_t)v;
	put_bytes(w, &b, 1);
}

static void put_align(struct wire *w, size_t to)
{
	while (w->n % to && !w->full)
		put_byte(w, 0);
}

static void put_u32(struct wire *w, uint32_t v)
{
	put_align(w, 4);
	put_bytes(w, &v, sizeof v);
}

static void put_string(struct wire *w, const char *s)
{
	put_u32(w, (uint32_t)strlen(s));
	put_bytes(w, s, strlen(s) + 1);
}

static void put_signature(struct wire *w, const char *s)
{
	put_byte(w, (unsigned)strlen(s));
	put_bytes(w, s, strlen(s) + 1);
}

/* An array begins with its length in bytes, known when it ends; the padding
 * before the first element does not count. */
static size_t array_begin(struct wire *w, size_t align, size_t *start)
{
	put_u32(w, 0);
	size_t at = w->n - 4;
	put_align(w, align);
	*start = w->n;
	return at;
}

static void array_end(struct wire *w, size_t at, size_t start)
{
	uint32_t len = (uint32_t)(w->n - start);

	if (!w->full)
		memcpy(w->b + at, &len, sizeof len);
}

static void put_field(struct wire *w, unsigned code, const char *type,
		      const char *value)
{
	put_align(w, 8);
	put_byte(w, code);
	put_signature(w, type);
	if (*type == 'g')
		put_signature(w, value);
	else
		put_string(w, value);
}

struct call {
	uint32_t serial;
	const char *destination; /* NULL when there is no bus in between */
	const char *path, *interface, *member, *signature;
};

static int send_call(int fd, const struct call *c, const struct wire *body)
{
	struct wire w = { .n = 0 };
	size_t at, start;

	put_byte(&w, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 'l' : 'B');
	put_byte(&w, TYPE_CALL);
	put_byte(&w, 0);
	put_byte(&w, 1); /* protocol version */
	put_u32(&w, (uint32_t)body->n);
	put_u32(&w, c->serial);
	at = array_begin(&w, 8, &start);
	put_field(&w, FIELD_PATH, "o", c->path);
	put_field(&w, FIELD_INTERFACE, "s", c->interface);
	put_field(&w, FIELD_MEMBER, "s", c->member);
	if (c->destination)
		put_field(&w, FIELD_DESTINATION, "s", c->destination);
	if (*c->signature)
		put_field(&w, FIELD_SIGNATURE, "g", c->signature);
	array_end(&w, at, start);
	put_align(&w, 8);
	put_bytes(&w, body->b, body->n);
	if (w.full || body->full)
		return -EMSGSIZE;
	return send_all(fd, w.b, w.n);
}

/* --- reading --- */

struct message {
	unsigned type;
	uint32_t reply_serial;
	const char *error;     /* name, or NULL */
	const char *signature; /* of the body, "" for none */
	const uint8_t *body;
	size_t body_len;
};

/* A cursor that cannot pass the end: after a failed step it stays failed. */
struct cursor {
	const uint8_t *b;
	size_t at, len;
	bool bad;
};

static void skip_align(struct cursor *c, size_t to)
{
	size_t at = (c->at + to - 1) / to * to;

	if (at > c->len)
		c->bad = true;
	else
		c->at = at;
}

static unsigned get_byte(struct cursor *c)
{
	if (c->bad || c->at >= c->len) {
		c->bad = true;
		return 0;
	}
	return c->b[c->at++];
}

static uint32_t get_u32(struct cursor *c)
{
	uint32_t v;

	skip_align(c, 4);
	if (c->bad || c->len - c->at < sizeof v) {
		c->bad = true;
		return 0;
	}
	memcpy(&v, c->b + c->at, sizeof v);
	c->at += sizeof v;
	return v;
}

/* Text of len bytes that is ended with NUL where it says and nowhere before. */
static const char *get_text(struct cursor *c, size_t len)
{
	if (c->bad || c->at >= c->len || len >= c->len - c->at ||
	    memchr(c->b + c->at, 0, len + 1) != c->b + c->at + len) {
		c->bad = true;
		return "";
	}
	const char *s = (const char *)c->b + c->at;
	c->at += len + 1;
	return s;
}

static const char *get_string(struct cursor *c)
{
	uint32_t len = get_u32(c);
	return get_text(c, len);
}

static const char *get_signature(struct cursor *c)
{
	unsigned len = get_byte(c);
	return get_text(c, len);
}

/* The header fields: a(yv), where the standard ones are s, o, g or u. */
static int parse_fields(const uint8_t *data, size_t len, struct message *m)
{
	struct cursor c = { .b = data, .len = len };

	while (!c.bad && c.at < c.len) {
		skip_align(&c, 8);
		unsigned code = get_byte(&c);
		const char *type = get_signature(&c), *text = NULL;
		uint32_t number = 0;

		if (c.bad || strlen(type) != 1)
			return -EBADMSG;
		switch (*type) {
		case 's':
		case 'o':
			text = get_string(&c);
			break;
		case 'g':
			text = get_signature(&c);
			break;
		case 'u':
			number = get_u32(&c);
			break;
		default:
			return -EBADMSG;
		}
		if (code == FIELD_REPLY_SERIAL && *type == 'u')
			m->reply_serial = number;
		else if (code == FIELD_ERROR_NAME && *type == 's')
			m->error = text;
		else if (code == FIELD_SIGNATURE && *type == 'g')
			m->signature = text;
	}
	return c.bad ? -EBADMSG : 0;
}

/* Reads one message into data (MESSAGE_MAX bytes), which *m points into. */
static int read_message(int fd, uint8_t *data, struct message *m, int64_t deadline)
{
	uint32_t body_len, fields_len;

	int r = read_exact(fd, data, HEADER, deadline);
	if (r < 0)
		return r;
	if (data[0] != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 'l' : 'B') ||
	    data[3] != 1)
		return -EBADMSG;
	memcpy(&body_len, data + 4, 4);
	memcpy(&fields_len, data + 12, 4);
	if (fields_len > MESSAGE_MAX / 2 || body_len > MESSAGE_MAX / 2 - HEADER - 8)
		return -EMSGSIZE;
	size_t body_at = (HEADER + (size_t)fields_len + 7) / 8 * 8;
	r = read_exact(fd, data + HEADER, body_at - HEADER + body_len, deadline);
	if (r < 0)
		return r;
	*m = (struct message){
		.type = data[1],
		.signature = "",
		.body = data + body_at,
		.body_len = body_len,
	};
	return parse_fields(data + HEADER, fields_len, m);
}

/* Copies text from the other end for people to read. */
static void copy_printable(char *out, size_t cap, const char *s)
{
	size_t n = 0;

	for (; *s && n + 1 < cap; s++)
		out[n++] = *s >= 0x20 && *s < 0x7f ? *s : '?';
	out[n] = '\0';
}

/* Reads until the answer to serial comes; signals and the like pass by. */
static int read_reply(int fd, uint8_t *data, uint32_t serial, struct message *m,
		      int64_t deadline, char *why, size_t cap)
{
	for (int i = 0; i < MESSAGES_MAX; i++) {
		int r = read_message(fd, data, m, deadline);
		if (r < 0)
			return r;
		if (m->reply_serial != serial ||
		    (m->type != TYPE_RETURN && m->type != TYPE_ERROR))
			continue;
		if (m->type == TYPE_RETURN)
			return 0;
		char text[100];
		struct cursor c = { .b = m->body, .len = m->body_len };
		const char *s = m->signature[0] == 's' ? get_string(&c) : "";
		if (!*s || c.bad)
			s = m->error ? m->error : "no reason given";
		copy_printable(text, sizeof text, s);
		snprintf(why, cap, "systemd refused a scope: %s", text);
		return -EREMOTEIO;
	}
	return -EMSGSIZE;
}

/* --- the conversation --- */

/* Logs in with our uid, which the other end checks against the socket's. */
static int log_in(int fd, int64_t deadline, char *why, size_t cap)
{
	char uid[16], line[LOGIN_MAX] = "";
	size_t n = 0;

	line[n++] = '\0';
	n += (size_t)snprintf(line + n, sizeof line - n, "AUTH EXTERNAL ");
	snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
	for (const char *p = uid; *p; p++)
		n += (size_t)snprintf(line + n, sizeof line - n, "%02x", (unsigned)*p);
	n += (size_t)snprintf(line + n, sizeof line - n, "\r\n");
	int r = send_all(fd, line, n);
	if (r < 0)
		return r;

	/* nothing may follow the line before we say BEGIN, so reading byte by
	 * byte takes none of the messages */
	for (n = 0;; n++) {
		if (n + 1 >= sizeof line)
			return -EBADMSG;
		r = read_exact(fd, line + n, 1, deadline);
		if (r < 0)
			return r;
		if (line[n] == '\n')
			break;
	}
	line[n] = '\0';
	if (strncmp(line, "REJECTED", 8) == 0) {
		snprintf(why, cap, "systemd's socket does not accept uid %s", uid);
		return -EACCES;
	}
	if (strncmp(line, "OK ", 3) != 0 || n < 1 || line[n - 1] != '\r')
		return -EBADMSG;
	return send_all(fd, "BEGIN\r\n", 7);
}

static int send_hello(int fd)
{
	const struct wire empty = { .n = 0 };

	return send_call(fd, &(struct call){
		.serial = SERIAL_HELLO,
		.destination = "org.freedesktop.DBus",
		.path = "/org/freedesktop/DBus",
		.interface = "org.freedesktop.DBus",
		.member = "Hello",
		.signature = "",
	}, &empty);
}

/* StartTransientUnit(s name, s mode, a(sv) properties, a(sa(sv)) aux) */
static int send_start(int fd, bool bus, const char *unit)
{
	struct wire w = { .n = 0 };
	size_t at, start, inner, inner_start;

	put_string(&w, unit);
	put_string(&w, "fail");
	at = array_begin(&w, 8, &start);

	put_align(&w, 8);
	put_string(&w, "Description");
	put_signature(&w, "s");
	put_string(&w, "brig sandbox");

	put_align(&w, 8);
	put_string(&w, "Delegate");
	put_signature(&w, "b");
	put_u32(&w, 1);

	/* 0 is "whoever asks", by the socket's own credentials: a number from
	 * us could mean another process in systemd's pid namespace */
	put_align(&w, 8);
	put_string(&w, "PIDs");
	put_signature(&w, "au");
	inner = array_begin(&w, 4, &inner_start);
	put_u32(&w, 0);
	array_end(&w, inner, inner_start);

	/* a scope that failed is to leave no trace in the manager */
	put_align(&w, 8);
	put_string(&w, "CollectMode");
	put_signature(&w, "s");
	put_string(&w, "inactive-or-failed");

	array_end(&w, at, start);
	at = array_begin(&w, 8, &start); /* no auxiliary units */
	array_end(&w, at, start);

	return send_call(fd, &(struct call){
		.serial = SERIAL_START,
		.destination = bus ? "org.freedesktop.systemd1" : NULL,
		.path = "/org/freedesktop/systemd1",
		.interface = "org.freedesktop.systemd1.Manager",
		.member = "StartTransientUnit",
		.signature = "ssa(sv)a(sa(sv))",
	}, &w);
}

static int converse(int fd, bool bus, const char *unit, int64_t deadline,
		    uint8_t *data, char *why, size_t cap)
{
	struct message m = { .signature = "" };

	int r = log_in(fd, deadline, why, cap);
	if (r == 0 && bus) {
		r = send_hello(fd);
		if (r == 0)
			r = read_reply(fd, data, SERIAL_HELLO, &m, deadline, why, cap);
	}
	if (r == 0)
		r = send_start(fd, bus, unit);
	if (r == 0)
		r = read_reply(fd, data, SERIAL_START, &m, deadline, why, cap);
	if (r < 0)
		return r;
	/* the answer is the job's path; anything else is not an answer */
	struct cursor c = { .b = m.body, .len = m.body_len };
	const char *job = get_string(&c);
	if (strcmp(m.signature, "o") != 0 || c.bad || c.at != c.len ||
	    strncmp(job, JOB_PREFIX, sizeof JOB_PREFIX - 1) != 0)
		return -EBADMSG;
	return 0;
}

int cg_dbus_start_scope(int fd, bool bus, const char *unit, int timeout_ms,
			char *why, size_t cap)
{
	cleanup_free uint8_t *data = malloc(MESSAGE_MAX);

	why[0] = '\0';
	int r = data ? converse(fd, bus, unit, now_ms() + timeout_ms, data, why, cap)
		     : -ENOMEM;
	if (r < 0 && !why[0])
		snprintf(why, cap, "systemd's answer: %s", strerror(-r));
	return r;
}

/* --- where systemd listens --- */

static int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof a.sun_path)
		return -ENAMETOOLONG;
	memcpy(a.sun_path, path, strlen(path) + 1);
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* a full backlog would block connect for ever otherwise */
	struct timeval t = { .tv_sec = 1 };
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
	if (connect(fd, (const struct sockaddr *)&a, sizeof a) < 0)
		return -errno;
	/* not somebody else's socket in a directory we were pointed at */
	struct ucred peer;
	socklen_t len = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	if (peer.uid != 0 && peer.uid != geteuid())
		return -EPERM;
	return take_fd(&fd);
}

/* Waits until the last part of our version 2 group is the unit. */
static int wait_inside(const char *unit, int64_t deadline)
{
	size_t n = strlen(unit);

	for (unsigned ms = 1;; ms = ms < 16 ? ms * 2 : ms) {
		char text[16 * 1024];
		const char *path;
		size_t len;
		ssize_t got = fd_read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);
		if (got < 0)
			return (int)got;
		if (cg_line_find(text, NULL, &path, &len) && len > n &&
		    path[len - n - 1] == '/' && memcmp(path + len - n, unit, n) == 0)
			return 0;
		if (now_ms() >= deadline)
			return -ETIMEDOUT;
		cg_sleep_ms(ms);
	}
}

int cg_systemd_scope(const char *id, int timeout_ms, char *why, size_t cap)
{
	char path[2][PATH_MAX], unit[96], dir[PATH_MAX];
	const char *run = getenv("XDG_RUNTIME_DIR");
	int64_t deadline = now_ms() + timeout_ms;
	int n_paths = 2, r = -ENOENT;

	snprintf(unit, sizeof unit, "brig-%s.scope", id);
	if (geteuid() == 0) {
		/* root's sandboxes belong to the system's own manager */
		snprintf(path[0], PATH_MAX, "/run/systemd/private");
		n_paths = 1;
	} else {
		if (run && *run == '/')
			snprintf(dir, sizeof dir, "%.2000s", run);
		else
			snprintf(dir, sizeof dir, "/run/user/%u", (unsigned)geteuid());
		snprintf(path[0], PATH_MAX, "%.2000s/systemd/private", dir);
		snprintf(path[1], PATH_MAX, "%.2000s/bus", dir);
	}
	for (int i = 0; i < n_paths; i++) {
		cleanup_close int fd = connect_to(path[i]);
		if (fd < 0) {
			if (r == -ENOENT)
				r = fd;
			snprintf(why, cap, "no systemd to ask for a scope: %.80s: %s",
				 path[0], strerror(-r));
			continue;
		}
		int64_t left = deadline - now_ms();
		r = cg_dbus_start_scope(fd, i == 1, unit, left > 0 ? (int)left : 0,
					why, cap);
		if (r < 0)
			return r;
		r = wait_inside(unit, deadline);
		if (r < 0)
			snprintf(why, cap, "systemd made %s but did not move brig "
					   "into it: %s", unit, strerror(-r));
		return r;
	}
	return r;
}
