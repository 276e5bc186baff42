/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests.  A head that is taken is taken the same however its bytes arrive; it
 * ends with an empty line and has one Host at most; what goes to a server through
 * the proxy reads as a request for the same path; a body ends at the same byte
 * whether it comes whole or in pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "egress/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void body(const char *p, size_t len, const struct http_request *r)
{
	struct http_body a, b;
	size_t at = 0;
	int64_t n = 0;

	http_body_begin(&a, r);
	http_body_begin(&b, r);
	int64_t whole = http_body_feed(&a, p, len);
	while (at < len && !http_body_ended(&b)) {
		size_t step = len - at < 3 ? len - at : 3;
		n = http_body_feed(&b, p + at, step);
		if (n < 0)
			break;
		at += (size_t)n;
	}
	if ((whole < 0) != (n < 0))
		abort();
	if (whole >= 0 && ((size_t)whole != at || http_body_ended(&a) != http_body_ended(&b)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_request r, part;
	char *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	enum http_result res = http_read_head(copy, size, &r);
	if (res == HTTP_MORE && size >= HTTP_HEAD_MAX)
		abort();
	if (res == HTTP_HEAD) {
		if (r.len > size || r.len < 4 || memcmp(copy + r.len - 4, "\r\n\r\n", 4))
			abort();
		for (size_t n = 0; n < r.len; n += 1 + r.len / 32)
			if (http_read_head(copy, n, &part) != HTTP_MORE)
				abort();
		if (r.absolute) {
			static char out[HTTP_HEAD_MAX + 64];
			size_t n = http_rewrite(copy, &r, out, sizeof out);
			if (!n || n > sizeof out || http_read_head(out, n, &part) != HTTP_HEAD ||
			    part.len != n || part.absolute || part.length != r.length ||
			    part.chunked != r.chunked || strcmp(part.host.name, r.host.name))
				abort();
		}
		body(copy + r.len, size - r.len, &r);
	}
	struct http_place p;
	http_read_place(copy, size < 400 ? size : 400, &p);
	if (p.good && strlen(p.name) == 0)
		abort();
	free(copy);
	return 0;
}
