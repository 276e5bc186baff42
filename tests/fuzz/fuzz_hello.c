/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ClientHello, and what comes after it.  The verdict must not depend on how the
 * bytes arrive: if some beginning of the stream is a hello, no shorter beginning
 * may have been called another one, and none may have been called invalid.
 */
#include <stdlib.h>
#include <string.h>

#include "egress/tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void follow(const uint8_t *data, size_t size, size_t step)
{
	struct tls_follow f = { .early = size & 1 };
	size_t have = 0, at = 0;

	while (have < size) {
		have = have + step < size ? have + step : size;
		for (;;) {
			struct tls_hello h;
			size_t pass = 0;
			enum tls_next r = tls_follow(&f, data + at, have - at, &pass, &h);
			if (pass > have - at)
				abort();
			at += pass;
			if (r == TLS_NEXT_DONE || r == TLS_NEXT_BAD)
				return;
			if (r == TLS_NEXT_MORE)
				break;
			if (!h.used || h.used > have - at)
				abort();
			at += h.used;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tls_hello h, part;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	enum tls_result r = tls_read_hello(copy, size, &h);
	if (r == TLS_HELLO) {
		if (h.used > size || h.sni_len > 255 || h.has_sni != (h.sni_len > 0))
			abort();
		for (size_t n = 0; n < h.used; n += 1 + h.used / 64)
			if (tls_read_hello(copy, n, &part) != TLS_MORE)
				abort();
		if (tls_read_hello(copy, h.used, &part) != TLS_HELLO ||
		    memcmp(&h, &part, sizeof h))
			abort();
	} else if (r == TLS_MORE && size > TLS_STREAM_MAX) {
		abort();
	}
	follow(copy, size, size);
	follow(copy, size, 7);
	free(copy);
	return 0;
}
