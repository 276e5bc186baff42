/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client says, held against the name it called.  Nothing is decrypted and
 * nothing is changed; bytes that were not looked at do not go out.
 */
#include <string.h>

#include "base/str.h"
#include "egress/conn.h"

/* Where an encrypted or a web connection is what one expects, other bytes are
 * more likely a way around these checks than a protocol of its own. */
static const uint16_t web_ports[] = { 80, 443, 8080, 8443 };

bool check_web_port(uint16_t port)
{
	for (size_t i = 0; i < ARRAY_LEN(web_ports); i++)
		if (web_ports[i] == port)
			return true;
	return false;
}

static enum eg_reason check_hello(struct conn *c, const struct tls_hello *h)
{
	char name[EG_NAME_LEN];

	c->ev.ech |= h->ech;
	if (h->has_sni)
		names_show(h->sni, h->sni_len, c->ev.sni);
	/* the operator wrote an address: whatever answers there is allowed */
	if (c->listed)
		return EG_R_NONE;
	if (!h->has_sni)
		return EG_R_NO_SNI;
	if (!names_canon(h->sni, h->sni_len, name) || !streq(name, c->ev.name))
		return EG_R_SNI;
	return EG_R_NONE;
}

static enum eg_reason check_place(const struct conn *c, const struct http_place *p)
{
	if (!p->good || p->is_addr || !streq(p->name, c->ev.name) ||
	    (p->port && p->port != c->ev.port))
		return EG_R_HOST;
	return EG_R_NONE;
}

static enum eg_reason check_request(struct conn *c, const struct http_request *r)
{
	if (!c->ev.sni[0])
		memcpy(c->ev.sni, r->host.shown, sizeof c->ev.sni);
	if (r->connect)
		return EG_R_NESTED;
	if (!r->host.there)
		return EG_R_NO_HOST;
	enum eg_reason bad = check_place(c, &r->host);
	if (bad)
		memcpy(c->ev.sni, r->host.shown, sizeof c->ev.sni);
	if (!bad && r->absolute) {
		bad = r->https ? EG_R_BAD_HTTP : check_place(c, &r->target);
		if (bad)
			memcpy(c->ev.sni, r->target.shown, sizeof c->ev.sni);
	}
	return bad;
}

static const uint8_t http_reasons[] = {
	[HTTP_INVALID] = EG_R_BAD_HTTP,
	[HTTP_NOT] = EG_R_BAD_HTTP,
	[HTTP_TOO_BIG] = EG_R_BIG_HTTP,
	[HTTP_TWO] = EG_R_HTTP2,
};

/* Requests and their bodies, one after the other. */
static enum eg_reason check_http(struct conn *c)
{
	struct flow *f = &c->flow[UP];
	struct http_request r;

	while (f->ok < f->len) {
		char *p = f->buf + f->ok;
		size_t n = f->len - f->ok;
		if (!http_body_ended(&c->body)) {
			int64_t took = http_body_feed(&c->body, p, n);
			if (took < 0)
				return EG_R_BAD_HTTP;
			f->ok += (unsigned)took;
			continue;
		}
		if (c->check == CHECK_ONE)
			return EG_R_BAD_HTTP; /* it was told that this is the last */
		enum http_result res = http_read_head(p, n, &r);
		if (res == HTTP_MORE)
			return EG_R_NONE;
		if (res != HTTP_HEAD)
			return (enum eg_reason)http_reasons[res];
		enum eg_reason bad = check_request(c, &r);
		if (bad)
			return bad;
		f->ok += (unsigned)r.len;
		http_body_begin(&c->body, &r);
		/* Only as the first request: with others on the way we could not
		 * tell to which of them a "101" belongs. */
		if (r.websocket && !c->flow[UP].bytes && f->ok == r.len &&
		    http_body_ended(&c->body)) {
			c->check = CHECK_WAIT;
			return EG_R_NONE;
		}
	}
	return EG_R_NONE;
}

static enum eg_reason check_second_hello(struct conn *c)
{
	struct flow *f = &c->flow[UP];
	struct tls_hello h;

	for (;;) {
		size_t pass = 0;
		enum tls_next next = tls_follow(&c->follow, (uint8_t *)f->buf + f->ok,
						f->len - f->ok, &pass, &h);
		f->ok += (unsigned)pass;
		if (next == TLS_NEXT_MORE)
			return f->len - f->ok >= TLS_STREAM_MAX ? EG_R_BIG_HELLO :
								  EG_R_NONE;
		if (next == TLS_NEXT_BAD)
			return EG_R_HELLO;
		if (next == TLS_NEXT_DONE) {
			c->check = CHECK_NONE;
			f->ok = f->len;
			return EG_R_NONE;
		}
		enum eg_reason bad = check_hello(c, &h);
		if (bad)
			return bad;
		f->ok += (unsigned)h.used;
	}
}

static void decide(struct conn *c, enum eg_reason what, enum check next)
{
	c->ev.reason = (uint8_t)what;
	c->check = next;
}

/* The client has said all it wants to, and it was no whole line. */
static enum eg_reason check_cut_short(struct conn *c)
{
	const struct flow *f = &c->flow[UP];

	if (check_web_port(c->ev.port) || memchr(f->buf, ' ', f->len))
		return EG_R_BAD_HTTP;
	decide(c, EG_R_OPAQUE, CHECK_NONE);
	return EG_R_NONE;
}

static enum eg_reason check_first(struct conn *c)
{
	struct flow *f = &c->flow[UP];
	struct tls_hello h;
	struct http_request r;

	if (!f->len)
		return EG_R_NONE;
	switch (tls_read_hello((uint8_t *)f->buf, f->len, &h)) {
	case TLS_MORE:
		return f->eof ? EG_R_HELLO : EG_R_NONE;
	case TLS_INVALID:
		if (c->listed)
			break;
		return EG_R_HELLO;
	case TLS_TOO_BIG:
		if (c->listed)
			break;
		return EG_R_BIG_HELLO;
	case TLS_HELLO:
		f->ok = (unsigned)h.used;
		c->follow = (struct tls_follow){ .early = h.early_data };
		decide(c, EG_R_TLS, c->listed ? CHECK_NONE : CHECK_HELLO);
		return check_hello(c, &h);
	case TLS_NOT:
		break;
	}
	enum http_result res = http_read_head(f->buf, f->len, &r);
	if (c->listed) { /* whatever it is; what we make of it is for the log */
		if (res == HTTP_HEAD)
			memcpy(c->ev.sni, r.host.shown, sizeof c->ev.sni);
		decide(c, res == HTTP_HEAD ? EG_R_HTTP : EG_R_OPAQUE, CHECK_NONE);
		return EG_R_NONE;
	}
	if (res == HTTP_MORE)
		return f->eof ? check_cut_short(c) : EG_R_NONE;
	if (res == HTTP_HEAD) {
		decide(c, EG_R_HTTP, CHECK_HTTP);
		return EG_R_NONE;
	}
	if (res != HTTP_NOT)
		return (enum eg_reason)http_reasons[res];
	if (check_web_port(c->ev.port))
		return EG_R_NOT_WEB;
	decide(c, EG_R_OPAQUE, CHECK_NONE);
	return EG_R_NONE;
}

enum eg_reason check_bytes(struct conn *c)
{
	struct flow *f = &c->flow[UP];
	enum eg_reason bad = EG_R_NONE;

	if (c->check == CHECK_FIRST)
		bad = check_first(c);
	if (!bad && (c->check == CHECK_HTTP || c->check == CHECK_ONE))
		bad = check_http(c);
	if (!bad && c->check == CHECK_HELLO)
		bad = check_second_hello(c);
	if (!bad && c->check == CHECK_NONE)
		f->ok = f->len;
	return bad;
}

enum eg_reason check_server(struct conn *c, const char *data, size_t len)
{
	static const char yes[] = "HTTP/1.1 101 ";

	if (c->check != CHECK_WAIT)
		return EG_R_NONE;
	/* a status line comes in one piece, or the websocket does not come */
	bool is = len >= sizeof yes - 1 && memcmp(data, yes, sizeof yes - 1) == 0;
	c->check = is ? CHECK_NONE : CHECK_HTTP;
	return check_bytes(c);
}
