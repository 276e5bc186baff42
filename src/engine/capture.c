/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void capture_init(struct capture *c, size_t max)
{
	*c = (struct capture){ .head_cap = max - max / 2, .tail_cap = max / 2 };
}

static int add_head(struct capture *c, const char *data, size_t len)
{
	if (c->head_len + len > c->head_alloc) {
		size_t want = c->head_alloc ? c->head_alloc * 2 : 4096;
		while (want < c->head_len + len)
			want *= 2;
		if (want > c->head_cap)
			want = c->head_cap;
		char *p = realloc(c->head, want);
		if (!p)
			return -ENOMEM;
		c->head = p;
		c->head_alloc = want;
	}
	memcpy(c->head + c->head_len, data, len);
	c->head_len += len;
	return 0;
}

static int add_tail(struct capture *c, const char *data, size_t len)
{
	if (!c->tail_cap) {
		c->dropped += len;
		return 0;
	}
	if (!c->tail) {
		c->tail = malloc(c->tail_cap);
		if (!c->tail)
			return -ENOMEM;
	}
	if (len > c->tail_cap) {
		/* only its end can survive; all before it is lost */
		c->dropped += c->tail_len + (len - c->tail_cap);
		data += len - c->tail_cap;
		len = c->tail_cap;
		c->tail_len = c->tail_at = 0;
	} else if (c->tail_len + len > c->tail_cap) {
		size_t lost = c->tail_len + len - c->tail_cap;
		c->dropped += lost;
		c->tail_at = (c->tail_at + lost) % c->tail_cap;
		c->tail_len -= lost;
	}
	size_t to = (c->tail_at + c->tail_len) % c->tail_cap;
	size_t first = c->tail_cap - to < len ? c->tail_cap - to : len;
	memcpy(c->tail + to, data, first);
	memcpy(c->tail, data + first, len - first);
	c->tail_len += len;
	return 0;
}

int capture_add(struct capture *c, const char *data, size_t len)
{
	size_t room = c->head_cap - c->head_len;
	size_t n = len < room ? len : room;
	int r = 0;

	if (n)
		r = add_head(c, data, n);
	if (r == 0 && len > n)
		r = add_tail(c, data + n, len - n);
	if (r < 0)
		c->dropped += len;
	return r;
}

char *capture_text(const struct capture *c, size_t *len)
{
	char *out = malloc(c->head_len + c->tail_len + 1);

	if (!out)
		return NULL;
	size_t n = c->head_len;
	if (n)
		memcpy(out, c->head, n);
	for (size_t i = 0; i < c->tail_len;) {
		size_t from = (c->tail_at + i) % c->tail_cap;
		size_t run = c->tail_cap - from;
		if (run > c->tail_len - i)
			run = c->tail_len - i;
		memcpy(out + n, c->tail + from, run);
		n += run;
		i += run;
	}
	out[n] = '\0';
	*len = n;
	return out;
}

void capture_free(struct capture *c)
{
	free(c->head);
	free(c->tail);
	*c = (struct capture){ 0 };
}
