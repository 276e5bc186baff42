/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile bytes for what reads an engine's stream: the demultiplexer, the frames
 * of the parked init behind it, and the reader of a pool's recipe.  The first
 * byte says how the rest is cut into pieces.  Besides not crashing:
 *
 *  - however the bytes are cut, the same pieces come out;
 *  - no more comes out than went in;
 *  - a frame is never longer than is allowed.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker_engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	struct docker_frames frames;
	uint64_t hash;
	size_t bytes, count;
};

static void mix(struct sum *s, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		s->hash = (s->hash ^ (unsigned char)data[i]) * 0x100000001b3u;
}

static int on_frame(void *arg, uint32_t type, const char *body, size_t len)
{
	struct sum *s = arg;

	if (len > DOCKER_FRAME_MAX)
		abort();
	s->count++;
	s->hash += type;
	mix(s, body, len);
	return type == PARK_BYE ? -EPROTO : 0;
}

static int on_piece(void *arg, int stream, const char *data, size_t len)
{
	struct sum *s = arg;

	if (!len || (stream != 1 && stream != 2))
		abort();
	s->bytes += len;
	return stream == 1 ? docker_frames_feed(&s->frames, data, len, on_frame, s) : 0;
}

static int feed(struct sum *s, const char *data, size_t size, size_t step)
{
	struct docker_demux d = { 0 };
	int r = 0;

	*s = (struct sum){ .hash = 1 };
	for (size_t at = 0; at < size && r == 0; at += step)
		r = docker_demux_feed(&d, data + at, size - at < step ? size - at : step, on_piece,
				      s);
	docker_frames_free(&s->frames);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sum whole, cut;
	struct docker_recipe recipe;

	if (size < 2)
		return 0;
	const char *text = (const char *)data + 1;
	int a = feed(&whole, text, size - 1, size);
	int b = feed(&cut, text, size - 1, data[0] % 17 + 1u);
	if (a != b || (a == 0 && whole.hash != cut.hash) || whole.count != cut.count)
		abort();
	if (whole.bytes > size)
		abort();
	if (docker_recipe_parse(&recipe, text, size - 1) == 0)
		docker_recipe_free(&recipe);
	return 0;
}
