/* SPDX-License-Identifier: Apache-2.0 */
/* The recipe as text, on its way to the pool's keeper. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/docker_engine.h"

static json_t *to_hex(const struct buf *b)
{
	static const char digits[] = "0123456789abcdef";
	char *text = malloc(b->len * 2 + 1);

	if (!text)
		return NULL;
	for (size_t i = 0; i < b->len; i++) {
		text[2 * i] = digits[(unsigned char)b->data[i] >> 4];
		text[2 * i + 1] = digits[(unsigned char)b->data[i] & 15];
	}
	json_t *v = json_stringn(text, b->len * 2);
	free(text);
	return v;
}

static int nibble(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int from_hex(const json_t *v, struct buf *b)
{
	const char *s = json_string_value(v);
	size_t n = json_string_length(v);

	if (!s || n % 2)
		return -EINVAL;
	for (size_t i = 0; i < n; i += 2) {
		int hi = nibble(s[i]), lo = nibble(s[i + 1]);
		if (hi < 0 || lo < 0)
			return -EINVAL;
		buf_addc(b, (char)(hi << 4 | lo));
	}
	return buf_ok(b) ? 0 : -ENOMEM;
}

char *docker_recipe_text(const struct docker_recipe *r)
{
	json_t *v = json_pack("{s:s, s:s, s:O, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "socket",
			      r->socket, "resolver", r->resolver,
			      "body", r->body, "stream", r->stream, "paths",
			      (json_int_t)r->n_paths, "size", (json_int_t)r->pool_size, "idle",
			      (json_int_t)r->pool_idle_ms, "map_uid", (json_int_t)r->map_uid,
			      "map_gid", (json_int_t)r->map_gid, "hello", to_hex(&r->hello), "key",
			      to_hex(&r->key));
	char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;

	json_decref(v);
	return text;
}

int docker_recipe_parse(struct docker_recipe *r, const char *text, size_t len)
{
	json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *socket = json_string_value(json_object_get(v, "socket"));
	const char *resolver = json_string_value(json_object_get(v, "resolver"));
	int e = -EINVAL;

	*r = (struct docker_recipe){ 0 };
	json_t *body = json_object_get(v, "body");
	if (socket && resolver && json_is_object(body)) {
		snprintf(r->socket, sizeof r->socket, "%s", socket);
		snprintf(r->resolver, sizeof r->resolver, "%s", resolver);
		r->body = json_incref(body);
		r->stream = json_is_true(json_object_get(v, "stream"));
		r->n_paths = (size_t)json_integer_value(json_object_get(v, "paths"));
		r->pool_size = (uint64_t)json_integer_value(json_object_get(v, "size"));
		r->pool_idle_ms = (uint64_t)json_integer_value(json_object_get(v, "idle"));
		r->map_uid = (uint32_t)json_integer_value(json_object_get(v, "map_uid"));
		r->map_gid = (uint32_t)json_integer_value(json_object_get(v, "map_gid"));
		e = from_hex(json_object_get(v, "hello"), &r->hello);
		if (e == 0)
			e = from_hex(json_object_get(v, "key"), &r->key);
	}
	json_decref(v);
	if (e < 0)
		docker_recipe_free(r);
	return e;
}
