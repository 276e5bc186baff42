/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's attach stream: pieces of standard output and error, each behind
 * eight bytes that say which and how long.  The engine is not trusted: what
 * does not look like that ends the call.
 */
#include <errno.h>
#include <string.h>

#include "backend/docker.h"

static int begin(struct docker_demux *d)
{
	const unsigned char *h = d->head;

	if (h[0] > 2 || h[1] || h[2] || h[3])
		return -EPROTO;
	d->stream = h[0] == 2 ? 2 : 1; /* 0 is an echo of input: none is asked for */
	d->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	d->have = 0;
	return 0;
}

int docker_demux_feed(struct docker_demux *d, const char *data, size_t len,
		      int (*piece)(void *arg, int stream, const char *data, size_t len),
		      void *arg)
{
	while (len) {
		size_t n;
		int r = 0;

		if (!d->left) {
			n = sizeof d->head - d->have < len ? sizeof d->head - d->have : len;
			memcpy(d->head + d->have, data, n);
			d->have += n;
			if (d->have == sizeof d->head)
				r = begin(d);
		} else {
			n = d->left < len ? d->left : len;
			d->left -= (uint32_t)n;
			r = piece(arg, d->stream, data, n);
		}
		if (r < 0)
			return r;
		data += n;
		len -= n;
	}
	return 0;
}
