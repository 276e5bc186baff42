/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/tls.h"

#include <string.h>

enum {
	RECORD_CCS = 20,
	RECORD_ALERT = 21,
	RECORD_HANDSHAKE = 22,
	RECORD_DATA = 23,
	RECORD_MAX = 1 << 14,
	RECORD_DATA_MAX = (1 << 14) + 2048,
	CLIENT_HELLO = 1,
	EXT_SERVER_NAME = 0,
	EXT_EARLY_DATA = 42,
	EXT_ECH = 0xfe0d,
	HEADER = 5,
};

/* What is left to read.  A read past the end makes it bad, and stays so. */
struct cur {
	const uint8_t *p;
	size_t len;
	bool bad;
};

static const uint8_t *take(struct cur *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->bad || n > c->len) {
		c->bad = true;
		c->len = 0;
		return NULL;
	}
	c->p += n;
	c->len -= n;
	return p;
}

static unsigned number(struct cur *c, unsigned bytes)
{
	const uint8_t *p = take(c, bytes);
	unsigned v = 0;

	for (unsigned i = 0; p && i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

/* A vector: its length in `bytes` bytes, then itself. */
static struct cur vector(struct cur *c, unsigned bytes)
{
	size_t n = number(c, bytes);
	const uint8_t *p = take(c, n);

	return (struct cur){ .p = p, .len = p ? n : 0, .bad = !p };
}

static bool read_server_name(struct cur ext, struct tls_hello *out)
{
	struct cur list = vector(&ext, 2);

	if (list.bad || ext.len || out->has_sni)
		return false;
	unsigned type = number(&list, 1);
	struct cur name = vector(&list, 2);
	/* one, of the only type there is */
	if (name.bad || list.len || type != 0 || name.len == 0 || name.len > 255)
		return false;
	memcpy(out->sni, name.p, name.len);
	out->sni_len = name.len;
	out->has_sni = true;
	return true;
}

static bool read_extensions(struct cur all, struct tls_hello *out)
{
	while (all.len && !all.bad) {
		unsigned type = number(&all, 2);
		struct cur ext = vector(&all, 2);
		if (ext.bad)
			return false;
		if (type == EXT_SERVER_NAME && !read_server_name(ext, out))
			return false;
		out->ech |= type == EXT_ECH;
		out->early_data |= type == EXT_EARLY_DATA;
	}
	return !all.bad;
}

static bool read_body(struct cur c, struct tls_hello *out)
{
	unsigned version = number(&c, 2);
	take(&c, 32);
	struct cur session = vector(&c, 1);
	struct cur ciphers = vector(&c, 2);
	struct cur compress = vector(&c, 1);

	if (c.bad || version >> 8 != 3 || session.len > 32 || ciphers.len < 2 ||
	    ciphers.len % 2 || compress.len < 1)
		return false;
	if (!c.len)
		return true; /* as it was before there were extensions */
	struct cur ext = vector(&c, 2);
	return !ext.bad && !c.len && read_extensions(ext, out);
}

static enum tls_result read_message(const uint8_t *msg, size_t have, size_t *want)
{
	if (have >= 1 && msg[0] != CLIENT_HELLO)
		return TLS_INVALID;
	if (have < 4)
		return TLS_MORE;
	*want = 4 + ((size_t)msg[1] << 16 | (size_t)msg[2] << 8 | msg[3]);
	if (*want > TLS_HELLO_MAX)
		return TLS_TOO_BIG;
	if (have > *want)
		return TLS_INVALID; /* something else in the same record */
	return have == *want ? TLS_HELLO : TLS_MORE;
}

static enum tls_result read_records(const uint8_t *data, size_t len, struct tls_hello *out)
{
	static uint8_t msg[TLS_HELLO_MAX + RECORD_MAX]; /* one thread, one use at a time */
	size_t at = 0, have = 0, want = 0;

	*out = (struct tls_hello){ 0 };
	if (len >= 1 && data[0] != RECORD_HANDSHAKE)
		return TLS_NOT;
	if (len >= 2 && data[1] != 3)
		return TLS_NOT;
	for (;;) {
		enum tls_result r = read_message(msg, have, &want);
		if (r == TLS_HELLO) {
			out->used = at;
			return read_body((struct cur){ msg + 4, want - 4, false }, out) ?
				       TLS_HELLO : TLS_INVALID;
		}
		if (r != TLS_MORE)
			return r;
		if (len - at < HEADER)
			return TLS_MORE;
		const uint8_t *h = data + at;
		size_t n = (size_t)h[3] << 8 | h[4];
		if (h[0] != RECORD_HANDSHAKE || h[1] != 3 || n == 0 || n > RECORD_MAX)
			return TLS_INVALID;
		size_t there = len - at - HEADER;
		bool whole = there >= n;
		if (!whole)
			n = there;
		memcpy(msg + have, h + HEADER, n);
		have += n;
		at += HEADER + n;
		if (!whole) {
			/* a record that is still coming never completes the hello:
			 * what matters is only whether to wait for it */
			r = read_message(msg, have, &want);
			if (r == TLS_HELLO)
				return TLS_INVALID;
			return r;
		}
	}
}

enum tls_result tls_read_hello(const uint8_t *data, size_t len, struct tls_hello *out)
{
	enum tls_result r = read_records(data, len, out);

	return r == TLS_MORE && len >= TLS_STREAM_MAX ? TLS_TOO_BIG : r;
}

enum tls_next tls_follow(struct tls_follow *f, const uint8_t *data, size_t len,
			 size_t *pass, struct tls_hello *hello)
{
	size_t at = 0;

	for (;;) {
		size_t n = f->skip < len - at ? f->skip : len - at;
		f->skip -= (uint32_t)n;
		at += n;
		*pass = at;
		/* the sixth byte is the handshake message's type */
		if (f->skip || len - at < HEADER + 1)
			return TLS_NEXT_MORE;
		const uint8_t *h = data + at;
		uint32_t size = (uint32_t)h[3] << 8 | h[4];
		if (h[1] != 3 || size == 0 || size > RECORD_DATA_MAX)
			return TLS_NEXT_BAD;
		switch (h[0]) {
		case RECORD_HANDSHAKE:
			if (h[HEADER] != CLIENT_HELLO)
				return TLS_NEXT_DONE; /* TLS 1.2 goes on */
			switch (tls_read_hello(h, len - at, hello)) {
			case TLS_MORE:
				return TLS_NEXT_MORE;
			case TLS_HELLO:
				return TLS_NEXT_HELLO;
			default:
				return TLS_NEXT_BAD;
			}
		case RECORD_CCS:
			if (size != 1 || ++f->ccs > 4)
				return TLS_NEXT_BAD;
			break;
		case RECORD_DATA:
			/* early data may be followed by a second hello; other
			 * data means that the handshake is over */
			if (!f->early)
				return TLS_NEXT_DONE;
			break;
		case RECORD_ALERT:
			break;
		default:
			return TLS_NEXT_BAD;
		}
		f->skip = HEADER + size;
	}
}
