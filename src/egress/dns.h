/* SPDX-License-Identifier: Apache-2.0 */
/* DNS messages from the sandbox: one question in, one answer out.  No state. */
#ifndef EGRESS_DNS_H
#define EGRESS_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/addr.h"
#include "egress/wire.h"

enum {
	DNS_TYPE_A = 1,
	DNS_TYPE_AAAA = 28,
	DNS_TYPE_OPT = 41,
	DNS_TYPE_ANY = 255,
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
	DNS_BADVERS = 16, /* of which the upper bits go into the OPT record */
	DNS_TTL = 60,
	DNS_REPLY_MAX = 512,
};

struct dns_query {
	uint16_t type, class;
	bool has_question; /* name, type and class are set, and it is repeated */
	bool good_name;    /* name is canonical; else only shown is set */
	bool edns;
	size_t question_len; /* bytes of the question, which begin at byte 12 */
	char name[EG_NAME_LEN];
	char shown[EG_NAME_LEN];
};

enum { DNS_DROP = -1 };

/*
 * Reads a message.  DNS_NOERROR, an error code to answer with (then has_question
 * says whether the question can be repeated), or DNS_DROP for what deserves no
 * answer (too short, itself an answer).
 */
int dns_parse(const uint8_t *msg, size_t len, struct dns_query *q);

/*
 * Writes the answer to a message that was read into q: its id, its question with
 * the letters' case as sent, rcode, and the address if there is one.  Returns its
 * length, always ≤ DNS_REPLY_MAX.
 */
size_t dns_answer(uint8_t out[DNS_REPLY_MAX], const uint8_t *msg,
		  const struct dns_query *q, int rcode, const struct eaddr *addr);

#endif
