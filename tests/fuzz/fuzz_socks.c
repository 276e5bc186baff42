/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the SOCKS port: greeting, then request, whole and in pieces. */
#include <stdlib.h>
#include <string.h>

#include "egress/names.h"
#include "egress/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_place p, q;
	uint8_t *copy = malloc(size ? size : 1), code = 0, reply[SOCKS_REPLY];
	size_t used = 0, at = 0, again = 0;
	char name[EG_NAME_LEN];

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (socks_greeting(copy, size, false, &used, &code) == SOCKS_OK) {
		if (used > size)
			abort();
		at = used;
	}
	if (socks_password(copy, size, "brig:secret", &used, &code) == SOCKS_OK && used > size)
		abort();
	enum socks_result r = socks_request(copy + at, size - at, &used, &p, &code);
	if (r == SOCKS_OK) {
		if (used > size - at || !p.port)
			abort();
		for (size_t n = 0; n < used; n++)
			if (socks_request(copy + at, n, &again, &q, &code) != SOCKS_MORE)
				abort();
		struct eaddr a;
		if (p.good && p.is_addr && !addr_parse(p.name, &a))
			abort();
		if (p.good && !p.is_addr && !names_canon(p.name, strlen(p.name), name))
			abort();
	}
	socks_reply(reply, code);
	free(copy);
	return 0;
}
