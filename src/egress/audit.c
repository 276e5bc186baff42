/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/audit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "egress/who.h"

enum { HELD = 64, EVERY_MS = 1000 };

struct audit {
	struct loop *loop;
	int ctl, fd;
	char id[EG_ID_LEN];
	uint32_t lost;
	struct buf line;
	struct owners *owners; /* NULL: brig does not tell */
	struct timer timer;
	unsigned n_held;
	struct eg_event held[HELD]; /* count: since it was told */
	struct eg_event more;       /* count: what found no place */
};

uint64_t audit_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void audit_client(struct eg_event *ev, const struct eaddr *a, uint16_t port)
{
	ev->client_family = a->family;
	memcpy(ev->client_addr, a->b, 16);
	ev->client_port = port;
}

static void put_time(struct json *j, uint64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	char text[40];

	gmtime_r(&s, &tm);
	size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, sizeof text - n, ".%03uZ", (unsigned)(ms % 1000));
	jw_string(j, text);
}

static void put_text(struct json *j, const char *key, const char *text)
{
	jw_key(j, key);
	jw_string(j, text);
}

static void put_number(struct json *j, const char *key, uint64_t v)
{
	jw_key(j, key);
	jw_uint(j, v);
}

/* What brig found, as far as it is certain.  The texts are the program's own. */
static void put_who(struct json *j, const struct eg_who *who)
{
	if (!who)
		return;
	if (who->pid) {
		put_number(j, "pid", who->pid);
		put_text(j, "comm", who->comm);
		put_text(j, "command", who->command);
	}
	if (who->holders > 1) /* then it is not known which of them it was */
		put_number(j, "holders", who->holders);
	if (who->unseen) /* nor whether one of these had it too */
		put_number(j, "unseen", who->unseen);
}

/* One line, one write: lines of several sandboxes in one file stay whole. */
static void write_line(void *arg, const struct eg_event *ev, const struct eg_who *who)
{
	struct audit *a = arg;
	struct eaddr client = { .family = ev->client_family };
	char text[ADDR_TEXT];
	struct json j;

	if (a->fd < 0)
		return;
	a->line.len = 0;
	a->line.failed = false;
	jw_init(&j, &a->line);
	jw_object(&j);
	jw_key(&j, "time");
	put_time(&j, ev->time_ms);
	put_text(&j, "sandbox", a->id);
	put_text(&j, "via", eg_via_text(ev->via));
	put_text(&j, "name", ev->name);
	if (ev->port)
		put_number(&j, "port", ev->port);
	put_text(&j, "verdict", eg_verdict_text(ev->verdict));
	put_text(&j, "reason", eg_reason_text(ev->reason));
	if (ev->ended)
		put_text(&j, "ended", eg_reason_text(ev->ended));
	if (ev->sni[0])
		put_text(&j, "sni", ev->sni);
	if (ev->ech) {
		jw_key(&j, "ech");
		jw_bool(&j, true);
	}
	if (client.family) {
		memcpy(client.b, ev->client_addr, 16);
		addr_format(&client, text);
		put_text(&j, "client", text);
		put_number(&j, "client_port", ev->client_port);
	}
	put_who(&j, who);
	if (ev->serial) {
		put_number(&j, "up", ev->bytes_up);
		put_number(&j, "down", ev->bytes_down);
		put_number(&j, "ms", ev->ms);
	}
	if (ev->count > 1)
		put_number(&j, "count", ev->count);
	if (ev->errnum)
		put_number(&j, "errno", (uint64_t)ev->errnum);
	jw_end_object(&j);
	buf_addc(&a->line, '\n');
	if (!buf_ok(&a->line) ||
	    write(a->fd, a->line.data, a->line.len) != (ssize_t)a->line.len)
		a->lost++;
}

bool audit_send(int ctl, const struct eg_msg *m)
{
	ssize_t n;

	do {
		n = send(ctl, m, sizeof *m, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof *m;
}

static bool tell(struct audit *a, enum eg_type type, struct eg_event *ev)
{
	struct eg_msg m = { .type = type, .size = sizeof m };

	ev->verdict = (uint8_t)eg_reason_verdict(ev->reason);
	if (!ev->count)
		ev->count = 1;
	if (type == EG_EVENT && a->owners)
		owners_over(a->owners, ev);
	else if (type == EG_EVENT)
		write_line(a, ev, NULL);
	ev->lost = a->lost;
	m.event = *ev;
	bool sent = audit_send(a->ctl, &m);
	if (sent)
		a->lost = 0;
	else if (type == EG_EVENT)
		a->lost++;
	return sent;
}

void audit_event(struct audit *a, struct eg_event *ev)
{
	tell(a, EG_EVENT, ev);
}

void audit_open(struct audit *a, struct eg_event *ev)
{
	/* what could not be asked is not waited for */
	if (tell(a, EG_OPEN, ev) && a->owners)
		owners_asked(a->owners, ev->serial);
}

void audit_who(struct audit *a, const struct eg_who *who)
{
	if (a->owners)
		owners_told(a->owners, who);
}

void audit_close(struct audit *a, const struct eg_event *ev, int fd)
{
	if (a->owners)
		owners_close(a->owners, ev->serial, fd);
	else
		close(fd);
}

static void flush(struct timer *t)
{
	struct audit *a = (void *)((char *)t - offsetof(struct audit, timer));
	bool again = false;

	for (unsigned i = 0; i < a->n_held; i++) {
		struct eg_event *ev = &a->held[i];
		if (ev->count) {
			struct eg_event out = *ev;
			tell(a, EG_EVENT, &out);
			again = true;
			ev->count = 0;
		} else {
			*ev = a->held[--a->n_held];
			i--;
		}
	}
	if (a->more.count) {
		struct eg_event out = a->more;
		tell(a, EG_EVENT, &out);
		a->more.count = 0;
	}
	if (again || a->n_held)
		loop_timer(a->loop, &a->timer, loop_now(a->loop) + EVERY_MS);
}

void audit_refused(struct audit *a, struct eg_event *ev)
{
	for (unsigned i = 0; i < a->n_held; i++) {
		struct eg_event *h = &a->held[i];
		if (h->reason == ev->reason && h->via == ev->via &&
		    h->port == ev->port && streq(h->name, ev->name)) {
			h->count++;
			return;
		}
	}
	if (!a->timer.at)
		loop_timer(a->loop, &a->timer, loop_now(a->loop) + EVERY_MS);
	if (a->n_held == HELD) {
		uint32_t count = a->more.count + 1;
		a->more = (struct eg_event){ .reason = EG_R_MANY, .via = ev->via,
					     .time_ms = ev->time_ms, .count = count };
		return;
	}
	tell(a, EG_EVENT, ev);
	a->held[a->n_held] = *ev;
	a->held[a->n_held++].count = 0;
}

void audit_flush(struct audit *a)
{
	flush(&a->timer);
	if (a->owners)
		owners_flush(a->owners);
}

struct audit *audit_new(struct loop *l, int ctl, int fd, const char *id, bool owners)
{
	struct audit *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	a->loop = l;
	a->ctl = ctl;
	a->fd = fd;
	a->timer.due = flush;
	snprintf(a->id, sizeof a->id, "%s", id);
	a->owners = owners ? owners_new(l, write_line, a) : NULL;
	if (owners && !a->owners)
		free(take_ptr(a));
	return a;
}
