/* SPDX-License-Identifier: Apache-2.0 */
/* The egress process's readers of DNS, ClientHello, HTTP and SOCKS: good input,
 * hostile input, and input that arrives in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "egress/dns.h"
#include "egress/http.h"
#include "egress/names.h"
#include "egress/socks.h"
#include "egress/tls.h"

/* --- DNS -------------------------------------------------------------------- */

#define HEAD "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEAD_AR "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
#define NAME "\x07" "aLLowed" "\x04" "test" "\0"
#define IN_A "\x00\x01\x00\x01"
#define MSG(s) s, sizeof(s) - 1

static void dns_messages(void **state)
{
	static const struct {
		const char *what, *msg;
		size_t len;
		int result;
		const char *name; /* NULL: not good */
	} table[] = {
		{ "plain", MSG(HEAD NAME IN_A), DNS_NOERROR, "allowed.test" },
		{ "edns", MSG(HEAD_AR NAME IN_A "\0\0\x29\x04\xd0\0\0\0\0\0\0"), DNS_NOERROR,
		  "allowed.test" },
		{ "edns with a cookie",
		  MSG(HEAD_AR NAME IN_A "\0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x08" "12345678"),
		  DNS_NOERROR, "allowed.test" },
		{ "edns version 1", MSG(HEAD_AR NAME IN_A "\0\0\x29\x04\xd0\0\1\0\0\0\0"),
		  DNS_BADVERS, "allowed.test" },
		{ "edns cut", MSG(HEAD_AR NAME IN_A "\0\0\x29\x04\xd0\0\0\0\0\0\x09"), DNS_FORMERR,
		  "allowed.test" },
		{ "edns missing", MSG(HEAD_AR NAME IN_A), DNS_FORMERR, "allowed.test" },
		{ "class CH", MSG(HEAD NAME "\x00\x10\x00\x03"), DNS_REFUSED, "allowed.test" },
		{ "empty", "", 0, DNS_DROP, NULL },
		{ "short", MSG("\x12\x34\x01\x00"), DNS_DROP, NULL },
		{ "an answer", MSG("\x12\x34\x81\x80\0\1\0\0\0\0\0\0" NAME IN_A), DNS_DROP, NULL },
		{ "notify", MSG("\x12\x34\x20\x00\0\1\0\0\0\0\0\0" NAME IN_A), DNS_NOTIMP, NULL },
		{ "no question", MSG("\x12\x34\x01\x00\0\0\0\0\0\0\0\0"), DNS_FORMERR, NULL },
		{ "two questions", MSG("\x12\x34\x01\x00\0\2\0\0\0\0\0\0" NAME IN_A NAME IN_A),
		  DNS_FORMERR, NULL },
		{ "with an answer", MSG("\x12\x34\x01\x00\0\1\0\1\0\0\0\0" NAME IN_A), DNS_FORMERR,
		  NULL },
		{ "name cut", MSG(HEAD "\x07" "allo"), DNS_FORMERR, NULL },
		{ "name without end", MSG(HEAD "\x07" "allowed"), DNS_FORMERR, NULL },
		{ "type cut", MSG(HEAD NAME "\0\1\0"), DNS_FORMERR, "allowed.test" },
		{ "pointer", MSG(HEAD "\xc0\x0c" IN_A), DNS_FORMERR, NULL },
		{ "pointer to itself", MSG(HEAD "\x01" "a" "\xc0\x0c" IN_A), DNS_FORMERR, NULL },
		{ "reserved label", MSG(HEAD "\x41" "a\0" IN_A), DNS_FORMERR, NULL },
		{ "root", MSG(HEAD "\0" IN_A), DNS_NOERROR, NULL },
		{ "NUL", MSG(HEAD "\x07" "all\0wed" "\x04" "test\0" IN_A), DNS_NOERROR, NULL },
		{ "a dot in a label", MSG(HEAD "\x0c" "allowed.test\0" IN_A), DNS_NOERROR, NULL },
		{ "@", MSG(HEAD "\x03" "a@b" "\x04" "test\0" IN_A), DNS_NOERROR, NULL },
		{ "space", MSG(HEAD "\x03" "a b" "\x04" "test\0" IN_A), DNS_NOERROR, NULL },
		{ "UTF-8", MSG(HEAD "\x02\xc3\xa4\x04" "test\0" IN_A), DNS_NOERROR, NULL },
		{ "address", MSG(HEAD "\x03" "127\x01" "0\x01" "0\x01" "1\0" IN_A), DNS_NOERROR,
		  NULL },
		{ "bytes behind", MSG(HEAD NAME IN_A "rest"), DNS_NOERROR, "allowed.test" },
	};
	uint8_t out[DNS_REPLY_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct dns_query q;
		const uint8_t *m = (const uint8_t *)table[i].msg;
		int r = dns_parse(m, table[i].len, &q);
		if (r != table[i].result || q.good_name != (table[i].name != NULL) ||
		    (q.good_name && !streq(q.name, table[i].name)))
			fail_msg("%s: %d %s", table[i].what, r, q.name);
		if (r == DNS_DROP)
			continue;
		size_t n = dns_answer(out, m, &q, r, NULL);
		assert_true(n >= 12 && n <= sizeof out);
		assert_memory_equal(out, "\x12\x34", 2);
		assert_int_equal(out[3] & 15, r & 15);
	}
}

static void dns_long_names(void **state)
{
	uint8_t msg[400] = HEAD, out[DNS_REPLY_MAX];
	struct dns_query q;
	struct eaddr a = { .family = AF_INET6 };

	(void)state;
	for (unsigned total = 1; total < 300; total++) {
		uint8_t *p = msg + 12;
		for (unsigned left = total; left;) {
			unsigned n = left > 63 ? 63 : left;
			*p++ = (uint8_t)n;
			memset(p, 'a', n);
			p += n;
			left -= n;
		}
		size_t wire = (size_t)(p - msg) - 12 + 1;
		memcpy(p, "\0\0\x1c\0\1", 5);
		int r = dns_parse(msg, (size_t)(p - msg) + 5, &q);
		assert_int_equal(r, wire <= 255 ? DNS_NOERROR : DNS_FORMERR);
		assert_int_equal(q.good_name, wire <= 255);
		if (!r)
			assert_true(dns_answer(out, msg, &q, 0, &a) <= sizeof out);
	}
}

static void dns_keeps_case(void **state)
{
	static const uint8_t msg[] = HEAD NAME IN_A;
	uint8_t out[DNS_REPLY_MAX];
	struct dns_query q;
	struct eaddr a;

	(void)state;
	assert_int_equal(dns_parse(msg, sizeof msg - 1, &q), DNS_NOERROR);
	assert_true(addr_parse("198.18.1.0", &a));
	size_t n = dns_answer(out, msg, &q, DNS_NOERROR, &a);
	assert_memory_equal(out + 12, msg + 12, q.question_len);
	assert_int_equal(n, 12 + q.question_len + 16);
	assert_memory_equal(out + n - 4, "\xc6\x12\x01\x00", 4);
	assert_memory_equal(out + n - 10, "\0\0\0\x3c\0\4", 6);
}

/* --- TLS -------------------------------------------------------------------- */

struct hello {
	uint8_t b[60000];
	size_t n;
};

static void add(struct hello *h, const void *p, size_t n)
{
	memcpy(h->b + h->n, p, n);
	h->n += n;
}

static void add_ext(struct hello *h, unsigned type, const void *data, size_t n)
{
	const uint8_t head[4] = { (uint8_t)(type >> 8), (uint8_t)type, (uint8_t)(n >> 8),
				  (uint8_t)n };

	add(h, head, 4);
	add(h, data, n);
}

static void add_sni(struct hello *h, const char *name, size_t n)
{
	uint8_t e[300] = { (uint8_t)((n + 3) >> 8), (uint8_t)(n + 3), 0, (uint8_t)(n >> 8),
			   (uint8_t)n };

	memcpy(e + 5, name, n);
	add_ext(h, 0, e, n + 5);
}

/* A handshake message around extensions. */
static void wrap(struct hello *out, const struct hello *ext)
{
	static const uint8_t fixed[2 + 32 + 1 + 4 + 2] = { 3, 3, [34] = 0, [35] = 0, 2, 0x13, 1,
							  1, 0 };
	size_t len = sizeof fixed + 2 + ext->n;
	const uint8_t head[4] = { 1, (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len };
	const uint8_t el[2] = { (uint8_t)(ext->n >> 8), (uint8_t)ext->n };

	out->n = 0;
	add(out, head, 4);
	add(out, fixed, sizeof fixed);
	add(out, el, 2);
	add(out, ext->b, ext->n);
}

/* Records of at most `step` bytes around a message. */
static void records(struct hello *out, const struct hello *msg, size_t step)
{
	out->n = 0;
	for (size_t at = 0; at < msg->n; at += step) {
		size_t n = msg->n - at < step ? msg->n - at : step;
		const uint8_t h[5] = { 22, 3, 1, (uint8_t)(n >> 8), (uint8_t)n };
		add(out, h, 5);
		add(out, msg->b + at, n);
	}
}

static struct hello ext, msg, rec;

static void simple(const char *sni, size_t step)
{
	ext.n = 0;
	if (sni)
		add_sni(&ext, sni, strlen(sni));
	add_ext(&ext, 43, "\x02\x03\x04", 3);
	wrap(&msg, &ext);
	records(&rec, &msg, step);
}

static void tls_good(void **state)
{
	struct tls_hello h;

	(void)state;
	for (size_t step = 1; step < 200; step++) {
		simple("allowed.test", step);
		for (size_t n = 0; n < rec.n; n++)
			assert_int_equal(tls_read_hello(rec.b, n, &h), TLS_MORE);
		assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_HELLO);
		assert_int_equal(h.used, rec.n);
		assert_true(h.has_sni && h.sni_len == 12 && !h.ech && !h.early_data);
		assert_memory_equal(h.sni, "allowed.test", 12);
		add(&rec, "more", 4);
		assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_HELLO);
		assert_int_equal(h.used, rec.n - 4);
	}
	simple(NULL, 16384);
	assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_HELLO);
	assert_false(h.has_sni);
	ext.n = 0;
	add_sni(&ext, "allowed.test", 12);
	add_ext(&ext, 0xfe0d, "xx", 2);
	add_ext(&ext, 42, "", 0);
	wrap(&msg, &ext);
	records(&rec, &msg, 16384);
	assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_HELLO);
	assert_true(h.ech && h.early_data);
}

static void tls_bad(void **state)
{
	struct tls_hello h;
	size_t good;

	(void)state;
	assert_int_equal(tls_read_hello((const uint8_t *)"GET /", 5, &h), TLS_NOT);
	assert_int_equal(tls_read_hello((const uint8_t *)"\x16\x02", 2, &h), TLS_NOT);
	assert_int_equal(tls_read_hello((const uint8_t *)"\x16", 1, &h), TLS_MORE);
	assert_int_equal(tls_read_hello((const uint8_t *)"\x80\x2e\x01\x03\x01", 5, &h), TLS_NOT);
	/* an empty record, one that is too long, a server's message */
	assert_int_equal(tls_read_hello((const uint8_t *)"\x16\3\1\0\0", 5, &h), TLS_INVALID);
	assert_int_equal(tls_read_hello((const uint8_t *)"\x16\3\1\x40\1", 5, &h), TLS_INVALID);
	assert_int_equal(tls_read_hello((const uint8_t *)"\x16\3\1\0\4\2\0\0\0", 9, &h),
			 TLS_INVALID);
	/* longer than it may be: known from its first four bytes */
	assert_int_equal(tls_read_hello((const uint8_t *)"\x16\3\1\x40\0\1\0\x40\0", 9, &h),
			 TLS_TOO_BIG);
	assert_int_equal(tls_read_hello((const uint8_t *)"\x16\3\1\x40\0\1\1\0\0", 9, &h),
			 TLS_TOO_BIG);
	/* another record type in the middle */
	simple("allowed.test", 40);
	rec.b[45] = 20;
	assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_INVALID);
	/* a second message in the same record */
	simple("allowed.test", 16384);
	add(&msg, "\1\0\0\0", 4);
	records(&rec, &msg, 16384);
	assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_INVALID);
	/* every length one off */
	simple("allowed.test", 16384);
	good = rec.n;
	static const size_t lengths[] = { 43, 45, 48, 51, 55, 57, 60 };
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		for (int d = -1; d <= 1; d += 2) {
			rec.b[lengths[i]] = (uint8_t)(rec.b[lengths[i]] + d);
			assert_int_not_equal(tls_read_hello(rec.b, good, &h), TLS_HELLO);
			rec.b[lengths[i]] = (uint8_t)(rec.b[lengths[i]] - d);
		}
	}
	assert_int_equal(tls_read_hello(rec.b, good, &h), TLS_HELLO);
	/* two extensions, two names, another type of name, an empty name */
	ext.n = 0;
	add_sni(&ext, "allowed.test", 12);
	add_sni(&ext, "evil.test", 9);
	wrap(&msg, &ext);
	records(&rec, &msg, 16384);
	assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_INVALID);
	static const struct {
		const char *e;
		size_t n;
	} names[] = {
		{ MSG("\0\x08\0\0\1a\0\0\1b") }, { MSG("\0\4\1\0\1a") }, { MSG("\0\3\0\0\0") },
		{ MSG("\0\4\0\0\1aX") }, { MSG("\0\0") }, { MSG("") }, { MSG("\0\5\0\0\1a") },
	};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		ext.n = 0;
		add_ext(&ext, 0, names[i].e, names[i].n);
		wrap(&msg, &ext);
		records(&rec, &msg, 16384);
		assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_INVALID);
	}
}

static void tls_big(void **state)
{
	static const char zeros[20000];
	struct tls_hello h;

	(void)state;
	ext.n = 0;
	add_sni(&ext, "allowed.test", 12);
	add_ext(&ext, 21, zeros, 15000);
	wrap(&msg, &ext);
	records(&rec, &msg, 4000);
	assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_HELLO);
	/* the same in records of one byte is six times as long */
	records(&rec, &msg, 3);
	assert_int_equal(tls_read_hello(rec.b, rec.n > TLS_STREAM_MAX ? TLS_STREAM_MAX : rec.n, &h),
			 TLS_TOO_BIG);
	ext.n = 0;
	add_ext(&ext, 21, zeros, 17000);
	wrap(&msg, &ext);
	records(&rec, &msg, 4000);
	assert_int_equal(tls_read_hello(rec.b, rec.n, &h), TLS_TOO_BIG);
}

static void tls_second(void **state)
{
	struct tls_follow f = { 0 };
	struct tls_hello h;
	static struct hello s;
	size_t pass;

	(void)state;
	/* change_cipher_spec, then a second hello */
	simple("evil.test", 16384);
	s.n = 0;
	add(&s, "\x14\3\3\0\1\1", 6);
	add(&s, rec.b, rec.n);
	assert_int_equal(tls_follow(&f, s.b, s.n, &pass, &h), TLS_NEXT_HELLO);
	assert_int_equal(pass, 6);
	assert_memory_equal(h.sni, "evil.test", 9);
	/* byte by byte the same */
	f = (struct tls_follow){ 0 };
	size_t at = 0;
	for (size_t n = 0; n < s.n; n++) {
		assert_int_equal(tls_follow(&f, s.b + at, n - at, &pass, &h), TLS_NEXT_MORE);
		at += pass;
		assert_true(at <= 6);
	}
	assert_int_equal(tls_follow(&f, s.b + at, s.n - at, &pass, &h), TLS_NEXT_HELLO);
	/* data ends it, unless early data was offered */
	s.n = 0;
	add(&s, "\x17\3\3\0\2ab", 7);
	add(&s, rec.b, rec.n);
	f = (struct tls_follow){ 0 };
	assert_int_equal(tls_follow(&f, s.b, s.n, &pass, &h), TLS_NEXT_DONE);
	f = (struct tls_follow){ .early = true };
	assert_int_equal(tls_follow(&f, s.b, s.n, &pass, &h), TLS_NEXT_HELLO);
	assert_int_equal(pass, 7);
	/* TLS 1.2's next message, and nonsense */
	f = (struct tls_follow){ 0 };
	assert_int_equal(tls_follow(&f, (const uint8_t *)"\x16\3\3\0\4\x10\0\0\0", 9, &pass, &h),
			 TLS_NEXT_DONE);
	assert_int_equal(tls_follow(&f, (const uint8_t *)"GET / HTTP", 10, &pass, &h),
			 TLS_NEXT_BAD);
	assert_int_equal(tls_follow(&f, (const uint8_t *)"\x18\3\3\0\4....", 9, &pass, &h),
			 TLS_NEXT_BAD);
}

/* --- HTTP ------------------------------------------------------------------- */

static void http_heads(void **state)
{
	static const struct {
		const char *text;
		enum http_result result;
		const char *host; /* "": none */
	} table[] = {
		{ "GET / HTTP/1.1\r\nHost: Allowed.test\r\n\r\n", HTTP_HEAD, "allowed.test" },
		{ "GET / HTTP/1.1\r\nhost:\tallowed.test:8080 \r\nX: y\r\n\r\n", HTTP_HEAD, "allowed.test" },
		{ "FOO-BAR /x HTTP/1.0\r\n\r\n", HTTP_HEAD, "" },
		{ "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", HTTP_HEAD, "a.test" },
		{ "GET /", HTTP_MORE, "" },
		{ "G", HTTP_MORE, "" },
		{ "", HTTP_MORE, "" },
		{ "GET / HTTP/1.1\r\nHost: a.test\r\n", HTTP_MORE, "" },
		{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP_TWO, "" },
		{ "PRI * HT", HTTP_MORE, "" },
		{ "GET /\r\n", HTTP_INVALID, "" },
		{ "get http://evil.test/\r\n", HTTP_INVALID, "" },
		{ "get key\r\n", HTTP_NOT, "" },
		{ "EHLO me\r\n", HTTP_NOT, "" },
		{ "SSH-2.0-x\r\n", HTTP_NOT, "" },
		{ "*1\r\n$4\r\nPING\r\n", HTTP_NOT, "" },
		{ "\x00\x00\x00\x08", HTTP_MORE, "" }, /* "" to C: one byte decides, below */
		{ "\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", HTTP_INVALID, "" },
		{ "\nGET / HTTP/1.1\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\nHost: evil.test\n\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\nHost: a.test\nX: y\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\nHost: a.test\r\nhOST: a.test\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\n Host: a.test\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\nHost: a.test\r\n .evil.test\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\nHost: a.test\rX: y\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\nnocolon\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1\r\n: x\r\n\r\n", HTTP_INVALID, "" },
		{ "GET  / HTTP/1.1\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.2\r\n\r\n", HTTP_INVALID, "" },
		{ "GET / HTTP/1.1 \r\n\r\n", HTTP_INVALID, "" },
		{ "GET\t/ HTTP/1.1\r\n\r\n", HTTP_INVALID, "" },
		{ "GET /a\tb HTTP/1.1\r\n\r\n", HTTP_INVALID, "" },
		{ "GET evil.test/ HTTP/1.1\r\n\r\n", HTTP_INVALID, "" },
		{ "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", HTTP_INVALID, "" },
		{ "POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n", HTTP_INVALID, "" },
		{ "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", HTTP_INVALID, "" },
		{ "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", HTTP_INVALID, "" },
		{ "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_INVALID, "" },
		{ "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n", HTTP_INVALID, "" },
		{ "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", HTTP_INVALID, "" },
		{ "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", HTTP_INVALID, "" },
	};
	struct http_request r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		size_t len = strlen(table[i].text);
		enum http_result res = http_read_head(table[i].text, len, &r);
		if (res != table[i].result || (res == HTTP_HEAD && !streq(r.host.name, table[i].host)))
			fail_msg("%s: %d %s", table[i].text, res, r.host.name);
	}
	assert_int_equal(http_read_head("\0\0\0\x08", 4, &r), HTTP_NOT);
	assert_int_equal(http_read_head(MSG("GET / HTTP/1.1\r\nHost: al\0lowed.test\r\n\r\n"), &r),
			 HTTP_INVALID);
	static char big[HTTP_HEAD_MAX + 100];
	memset(big, 'a', sizeof big);
	assert_int_equal(http_read_head(big, 5000, &r), HTTP_MORE); /* a long method */
	assert_int_equal(http_read_head(big, sizeof big, &r), HTTP_TOO_BIG);
	memcpy(big, "GET /", 5);
	assert_int_equal(http_read_head(big, HTTP_HEAD_MAX - 1, &r), HTTP_MORE);
	assert_int_equal(http_read_head(big, HTTP_HEAD_MAX, &r), HTTP_TOO_BIG);
	memcpy(big, "GET / HTTP/1.1\r\nX: ", 19);
	assert_int_equal(http_read_head(big, HTTP_HEAD_MAX - 1, &r), HTTP_MORE);
	assert_int_equal(http_read_head(big, sizeof big, &r), HTTP_TOO_BIG);
}

static void http_places(void **state)
{
	static const struct {
		const char *text;
		bool good, addr;
		const char *name;
		unsigned port;
	} table[] = {
		{ "A.test", true, false, "a.test", 0 },
		{ "a.test:1", true, false, "a.test", 1 },
		{ "a.test:65535", true, false, "a.test", 65535 },
		{ "127.0.0.1:80", true, true, "127.0.0.1", 80 },
		{ "[::1]:80", true, true, "::1", 80 },
		{ "[::1]", true, true, "::1", 0 },
		{ "", false, false, NULL, 0 },
		{ ":80", false, false, NULL, 0 },
		{ "a.test:", false, false, NULL, 0 },
		{ "a.test:0", false, false, NULL, 0 },
		{ "a.test:65536", false, false, NULL, 0 },
		{ "a.test:80:80", false, false, NULL, 0 },
		{ "a.test:8a", false, false, NULL, 0 },
		{ "a.test:000080", false, false, NULL, 0 },
		{ "user@a.test", false, false, NULL, 0 },
		{ "a.test.", false, false, NULL, 0 },
		{ "::1", false, false, NULL, 0 },
		{ "[::1", false, false, NULL, 0 },
		{ "[::1]80", false, false, NULL, 0 },
		{ "[127.0.0.1]", false, false, NULL, 0 },
		{ "[a.test]", false, false, NULL, 0 },
		{ "127.1:80", false, false, NULL, 0 },
		{ "0x7f.1", false, false, NULL, 0 },
		{ "2130706433:80", false, false, NULL, 0 },
		{ "a.test#", false, false, NULL, 0 },
		{ "a.test\\", false, false, NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct http_place p;
		http_read_place(table[i].text, strlen(table[i].text), &p);
		if (p.good != table[i].good)
			fail_msg("%s is %s", table[i].text, p.good ? "good" : "bad");
		if (p.good && (p.is_addr != table[i].addr || p.port != table[i].port ||
			       !streq(p.name, table[i].name)))
			fail_msg("%s: %s %u", table[i].text, p.name, p.port);
	}
}

static void http_targets(void **state)
{
	struct http_request r;
	char out[1024];

	(void)state;
	static const char con[] = "CONNECT a.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\n";
	assert_int_equal(http_read_head(con, sizeof con - 1, &r), HTTP_HEAD);
	assert_true(r.connect && !r.absolute && r.target.port == 443);
	assert_string_equal(r.target.name, "a.test");
	static const char abs[] = "GET HTTP://A.test:81?q=1 HTTP/1.1\r\nHost: a.test:81\r\n"
				  "Proxy-Connection: keep-alive\r\nConnection: x\r\nKeep-Alive: 5\r\n"
				  "Proxy-Authorization: Basic eA==\r\nAccept: */*\r\n\r\n";
	assert_int_equal(http_read_head(abs, sizeof abs - 1, &r), HTTP_HEAD);
	assert_true(r.absolute && !r.https && r.target.port == 81);
	size_t n = http_rewrite(abs, &r, out, sizeof out);
	out[n] = '\0';
	assert_string_equal(out, "GET /?q=1 HTTP/1.1\r\nHost: a.test:81\r\nAccept: */*\r\n"
				 "Connection: close\r\n\r\n");
	static const char user[] = "GET http://a.test@evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n";
	assert_int_equal(http_read_head(user, sizeof user - 1, &r), HTTP_HEAD);
	assert_false(r.target.good);
	static const char ws[] = "GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: WebSocket\r\n\r\n";
	assert_int_equal(http_read_head(ws, sizeof ws - 1, &r), HTTP_HEAD);
	assert_true(r.websocket);
	static const char h2c[] = "GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: h2c, websocket\r\n\r\n";
	assert_int_equal(http_read_head(h2c, sizeof h2c - 1, &r), HTTP_HEAD);
	assert_false(r.websocket);
}

static void http_bodies(void **state)
{
	static const struct {
		const char *text;
		int64_t used; /* -1: malformed */
	} table[] = {
		{ "0\r\n\r\nGET", 5 },
		{ "5\r\nhello\r\n0\r\n\r\nGET", 15 },
		{ "A;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\nX", 30 },
		{ "5\r\nhelloX", -1 },
		{ "\r\n", -1 },
		{ "x\r\n", -1 },
		{ " 5\r\n", -1 },
		{ "5 \r\n", -1 },
		{ "5\nhello", -1 },
		{ "1000000000000000\r\n", -1 },
		{ "0\r\n T: v\r\n\r\n", -1 },
		{ "0\r\nT: v\n\r\n", -1 },
	};
	struct http_request r = { .chunked = true };
	struct http_body b;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		http_body_begin(&b, &r);
		int64_t n = http_body_feed(&b, table[i].text, strlen(table[i].text));
		if (n != table[i].used || (n >= 0 && !http_body_ended(&b)))
			fail_msg("%s: %d", table[i].text, (int)n);
	}
	r = (struct http_request){ .length = 3 };
	http_body_begin(&b, &r);
	assert_int_equal(http_body_feed(&b, "ab", 2), 2);
	assert_false(http_body_ended(&b));
	assert_int_equal(http_body_feed(&b, "cGET", 4), 1);
	assert_true(http_body_ended(&b));
}

/* --- SOCKS ------------------------------------------------------------------ */

static void socks(void **state)
{
	static const struct {
		const char *what, *req;
		size_t len;
		enum socks_result result;
		uint8_t code;
		bool good, addr;
		const char *name;
	} table[] = {
		{ "name", MSG("\5\1\0\3\x06" "A.test\1\xbb"), SOCKS_OK, 0, true, false, "a.test" },
		{ "v4", MSG("\5\1\0\1\x7f\0\0\1\0\x50"), SOCKS_OK, 0, true, true, "127.0.0.1" },
		{ "v6", MSG("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\x50"), SOCKS_OK, 0, true, true,
		  "::1" },
		{ "address as name", MSG("\5\1\0\3\x09" "127.0.0.1\0\x50"), SOCKS_OK, 0, true, true,
		  "127.0.0.1" },
		{ "odd address", MSG("\5\1\0\3\x05" "127.1\0\x50"), SOCKS_OK, 0, false, false, NULL },
		{ "NUL in a name", MSG("\5\1\0\3\x08" "a.test\0x\0\x50"), SOCKS_OK, 0, false, false, NULL },
		{ "NUL in an address", MSG("\5\1\0\3\x0b" "127.0.0.1\0x\0\x50"), SOCKS_OK, 0, false,
		  false, NULL },
		{ "empty name", MSG("\5\1\0\3\0\0\x50"), SOCKS_OK, 0, false, false, NULL },
		{ "bind", MSG("\5\2\0\1\x7f\0\0\1\0\x50"), SOCKS_REFUSE, SOCKS_COMMAND, true, true,
		  "127.0.0.1" },
		{ "udp", MSG("\5\3\0\1\0\0\0\0\0\0"), SOCKS_REFUSE, SOCKS_COMMAND, true, true, "0.0.0.0" },
		{ "port 0", MSG("\5\1\0\3\x06" "a.test\0\0"), SOCKS_REFUSE, SOCKS_HOST, true, false,
		  "a.test" },
		{ "type 2", MSG("\5\1\0\2aaaaaaaa"), SOCKS_REFUSE, SOCKS_ADDRESS, false, false, NULL },
		{ "version 4", MSG("\4\1\0\x50\x7f\0\0\1\0"), SOCKS_INVALID, 0, false, false, NULL },
		{ "cut", MSG("\5\1\0\3\x06" "a.tes"), SOCKS_MORE, 0, false, false, NULL },
	};
	struct http_place p;
	size_t used;
	uint8_t code;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		code = 0;
		enum socks_result r = socks_request((const uint8_t *)table[i].req, table[i].len,
						    &used, &p, &code);
		if (r != table[i].result || code != table[i].code)
			fail_msg("%s: %d, code %d", table[i].what, r, code);
		if (r == SOCKS_OK && (p.good != table[i].good || used != table[i].len))
			fail_msg("%s: good %d", table[i].what, p.good);
		if (p.good && (p.is_addr != table[i].addr || !streq(p.name, table[i].name)))
			fail_msg("%s: %s", table[i].what, p.name);
	}
	assert_int_equal(socks_greeting((const uint8_t *)"\5\2\1\0", 4, false, &used, &code), SOCKS_OK);
	assert_int_equal(used, 4);
	assert_int_equal(socks_greeting((const uint8_t *)"\5\1\2", 3, false, &used, &code), SOCKS_REFUSE);
	assert_int_equal(code, SOCKS_NO_METHOD);
	assert_int_equal(socks_greeting((const uint8_t *)"\5\0", 2, false, &used, &code), SOCKS_REFUSE);
	assert_int_equal(socks_greeting((const uint8_t *)"\5\2\0", 3, false, &used, &code), SOCKS_MORE);
	assert_int_equal(socks_greeting((const uint8_t *)"GET", 3, false, &used, &code), SOCKS_INVALID);
}

#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static void proxy_passwords(void **state)
{
	static const char head[] = "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n"
				   "proxy-Authorization:  Basic YnJpZzpzZWNyZXQ= \r\n\r\n";
	struct http_request r;
	size_t used = 0;
	uint8_t code = 9;

	(void)state;
	assert_int_equal(socks_greeting(BYTES("\5\2\0\2"), true, &used, &code), SOCKS_OK);
	assert_int_equal(code, 2);
	assert_int_equal(socks_greeting(BYTES("\5\1\0"), true, &used, &code), SOCKS_REFUSE);
	assert_int_equal(code, SOCKS_NO_METHOD);
	static const char good[] = "\1\4brig\6secret";
	for (size_t n = 0; n < sizeof good - 1; n++)
		assert_int_equal(socks_password((const uint8_t *)good, n, "brig:secret", &used, &code),
				 SOCKS_MORE);
	assert_int_equal(socks_password(BYTES(good), "brig:secret", &used, &code), SOCKS_OK);
	assert_int_equal(used, sizeof good - 1);
	assert_int_equal(code, 0);
	static const char *const bad[] = { "\1\4brig\6secreT", "\1\4brig\5secre", "\1\4brug\6secret",
					   "\1\4brig\7secretX", "\1\3bri\6secret" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(socks_password((const uint8_t *)bad[i], strlen(bad[i]), "brig:secret",
						&used, &code), SOCKS_REFUSE);
		assert_int_equal(code, 1);
	}
	/* nothing at all is not the password */
	assert_int_equal(socks_password(BYTES("\1\0\0"), "brig:secret", &used, &code), SOCKS_REFUSE);
	assert_int_equal(socks_password(BYTES("\5\4brig\6secret"), "brig:secret", &used, &code),
			 SOCKS_INVALID);
	assert_int_equal(http_read_head(head, sizeof head - 1, &r), HTTP_HEAD);
	assert_int_equal(r.auth_len, strlen("Basic YnJpZzpzZWNyZXQ="));
	assert_memory_equal(head + r.auth_at, "Basic YnJpZzpzZWNyZXQ=", r.auth_len);
	assert_true(socks_same(head + r.auth_at, r.auth_len, "Basic YnJpZzpzZWNyZXQ=", 22));
	assert_false(socks_same("", 0, "Basic x", 7));
	static const char two[] = "CONNECT a.test:443 HTTP/1.1\r\nProxy-Authorization: a\r\n"
				  "Proxy-Authorization: b\r\n\r\n";
	assert_int_equal(http_read_head(two, sizeof two - 1, &r), HTTP_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dns_messages), cmocka_unit_test(dns_long_names),
		cmocka_unit_test(dns_keeps_case), cmocka_unit_test(tls_good),
		cmocka_unit_test(tls_bad),     cmocka_unit_test(tls_big),
		cmocka_unit_test(tls_second),  cmocka_unit_test(http_heads),
		cmocka_unit_test(http_places), cmocka_unit_test(http_targets),
		cmocka_unit_test(http_bodies), cmocka_unit_test(socks),
		cmocka_unit_test(proxy_passwords),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
