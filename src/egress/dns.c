/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/dns.h"

#include <string.h>

#include "egress/names.h"

enum { HEADER = 12, CLASS_IN = 1, CLASS_ANY = 255, UDP_SIZE = 1232 };
enum { QR = 0x80, OPCODE = 0x78, RD = 0x01, RA = 0x80, CD = 0x10 };

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static uint8_t *put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

/*
 * The name of the question: labels only.  Nothing stands before it that a pointer
 * could point to.  Returns its length on the wire, or 0 when malformed.  The text
 * joins labels with dots; a label that itself contains a dot must not become two,
 * so it spoils the name.
 */
static size_t read_name(const uint8_t *p, size_t len, struct dns_query *q)
{
	char text[256];
	size_t at = 0, n = 0;
	bool odd = false;

	for (;;) {
		if (at >= len)
			return 0;
		unsigned label = p[at++];
		if (label == 0)
			break;
		if (label > 63 || label > len - at || at + label > 254)
			return 0;
		if (n)
			text[n++] = '.';
		odd |= memchr(p + at, '.', label) != NULL;
		memcpy(text + n, p + at, label);
		n += label;
		at += label;
	}
	names_show(text, n, q->shown);
	q->good_name = !odd && names_canon(text, n, q->name);
	return at;
}

/* Skips a name that may end in a pointer; it is not looked at.  0 if malformed. */
static size_t skip_name(const uint8_t *p, size_t len)
{
	for (size_t at = 0; at < len;) {
		if (p[at] == 0)
			return at + 1;
		if ((p[at] & 0xc0) == 0xc0)
			return at + 2 <= len ? at + 2 : 0;
		if (p[at] > 63)
			return 0;
		at += 1u + p[at];
	}
	return 0;
}

/* The additional records: only OPT matters.  An rcode. */
static int read_extra(const uint8_t *p, size_t len, unsigned count, struct dns_query *q)
{
	for (; count; count--) {
		size_t n = skip_name(p, len);
		if (!n || len - n < 10)
			return DNS_FORMERR;
		const uint8_t *rr = p + n;
		size_t data = get16(rr + 8);
		if (len - n - 10 < data)
			return DNS_FORMERR;
		if (get16(rr) == DNS_TYPE_OPT) {
			if (q->edns || n != 1) /* one, and for the root */
				return DNS_FORMERR;
			q->edns = true;
			if (rr[5] != 0)
				return DNS_BADVERS;
		}
		p += n + 10 + data;
		len -= n + 10 + data;
	}
	return DNS_NOERROR;
}

int dns_parse(const uint8_t *msg, size_t len, struct dns_query *q)
{
	*q = (struct dns_query){ 0 };
	if (len < HEADER || msg[2] & QR)
		return DNS_DROP;
	if (msg[2] & OPCODE)
		return DNS_NOTIMP;
	/* one question, no answers and no authority in a query */
	if (get16(msg + 4) != 1 || get16(msg + 6) || get16(msg + 8) ||
	    get16(msg + 10) > 4)
		return DNS_FORMERR;
	size_t n = read_name(msg + HEADER, len - HEADER, q);
	if (!n || len - HEADER - n < 4)
		return DNS_FORMERR;
	q->type = (uint16_t)get16(msg + HEADER + n);
	q->class = (uint16_t)get16(msg + HEADER + n + 2);
	q->question_len = n + 4;
	q->has_question = true;
	size_t end = HEADER + q->question_len;
	int r = read_extra(msg + end, len - end, get16(msg + 10), q);
	if (r == DNS_NOERROR && q->class != CLASS_IN && q->class != CLASS_ANY)
		return DNS_REFUSED;
	return r;
}

size_t dns_answer(uint8_t out[DNS_REPLY_MAX], const uint8_t *msg,
		  const struct dns_query *q, int rcode, const struct eaddr *addr)
{
	uint8_t *p = out + HEADER;

	memset(out, 0, HEADER);
	memcpy(out, msg, 2);
	out[2] = (uint8_t)(QR | (msg[2] & (OPCODE | RD)));
	out[3] = (uint8_t)(RA | (msg[3] & CD) | (rcode & 15));
	if (q->has_question) {
		put16(out + 4, 1);
		memcpy(p, msg + HEADER, q->question_len); /* at most 259 */
		p += q->question_len;
	}
	if (addr && q->has_question) {
		unsigned size = addr->family == AF_INET ? 4 : 16;
		put16(out + 6, 1);
		p = put16(p, 0xc000 | HEADER);
		p = put16(p, addr->family == AF_INET ? DNS_TYPE_A : DNS_TYPE_AAAA);
		p = put16(p, CLASS_IN);
		p = put16(p, 0);
		p = put16(p, DNS_TTL);
		p = put16(p, size);
		memcpy(p, addr->b, size);
		p += size;
	}
	if (q->edns) {
		put16(out + 10, 1);
		*p++ = 0;
		p = put16(p, DNS_TYPE_OPT);
		p = put16(p, UDP_SIZE);
		*p++ = (uint8_t)(rcode >> 4);
		*p++ = 0;
		p = put16(p, 0);
		p = put16(p, 0);
	}
	return (size_t)(p - out);
}
