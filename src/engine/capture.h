/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A captured stream with bounded memory: the first half of the budget is kept
 * from the head, the second half is a ring holding the tail, and what falls
 * between is only counted.
 */
#ifndef ENGINE_CAPTURE_H
#define ENGINE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capture {
	char *head, *tail;
	size_t head_len, head_cap, head_alloc;
	size_t tail_len, tail_at, tail_cap;
	uint64_t dropped;
};

/* Keeps at most max bytes.  Memory is taken as it is needed. */
void capture_init(struct capture *c, size_t max);
/* 0 or -ENOMEM (the bytes are then counted as dropped). */
int capture_add(struct capture *c, const char *data, size_t len);
/* Head and tail joined into fresh memory, ended with NUL. */
char *capture_text(const struct capture *c, size_t *len);
void capture_free(struct capture *c);

#endif
