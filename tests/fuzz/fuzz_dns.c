/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message from a sandbox.  Whatever it is, the answer is no longer than it may
 * be, carries its id and its question, and a name that is called good is one that
 * the strict reader of names gives back unchanged.
 */
#include <stdlib.h>
#include <string.h>

#include "egress/dns.h"
#include "egress/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1), out[DNS_REPLY_MAX];
	struct eaddr a;
	struct dns_query q, again;
	char name[EG_NAME_LEN];

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	int r = dns_parse(copy, size, &q);
	if (r == DNS_DROP) {
		free(copy);
		return 0;
	}
	if (q.good_name && (!names_canon(q.name, strlen(q.name), name) ||
			    strcmp(name, q.name)))
		abort();
	if (r == DNS_NOERROR && !q.has_question)
		abort();
	for (int i = 0; i < 3; i++) {
		names_synthetic(NAMES_FIRST + 7, i == 1 ? AF_INET6 : AF_INET, &a);
		size_t n = dns_answer(out, copy, &q, r ? r : DNS_NOERROR, i < 2 ? &a : NULL);
		if (n < 12 || n > DNS_REPLY_MAX || memcmp(out, copy, 2) || !(out[2] & 0x80))
			abort();
		if (q.has_question && memcmp(out + 12, copy + 12, q.question_len))
			abort();
		/* our own answers are no questions; without the bit they parse */
		if (dns_parse(out, n, &again) != DNS_DROP)
			abort();
	}
	free(copy);
	return 0;
}
