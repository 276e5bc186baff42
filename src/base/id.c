/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

int id_make(char out[27])
{
	static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
	struct timespec ts;
	uint8_t b[16];

	clock_gettime(CLOCK_REALTIME, &ts);
	uint64_t ms = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	for (int i = 0; i < 6; i++)
		b[i] = (uint8_t)(ms >> (40 - 8 * i));
	/* 10 bytes are delivered whole or not at all */
	while (getrandom(b + 6, 10, 0) != 10)
		if (errno != EINTR)
			return -errno;
	unsigned __int128 v = 0;
	for (int i = 0; i < 16; i++)
		v = v << 8 | b[i];
	for (int i = 25; i >= 0; i--) {
		out[i] = alphabet[(unsigned)v & 31];
		v >>= 5;
	}
	out[26] = '\0';
	return 0;
}
