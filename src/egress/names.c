/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "egress/allow.h"

enum { BUCKETS = 1024 };

struct slot {
	struct slot *by_name, *by_number; /* next in the same bucket */
	struct slot *newer, *older;       /* order of use */
	uint32_t number;
	bool keep; /* written in the list itself: bounded by it, never dropped */
	char name[];
};

struct names {
	struct allow_entry *entries;
	size_t n;
	bool learn;
	uint32_t next;
	unsigned used;
	struct slot *by_name[BUCKETS], *by_number[BUCKETS];
	struct slot *newest, *oldest;
};

static uint8_t net4[4] = { 198, 18 }; /* or 127.18: see names_use_loopback() */
static const uint8_t net6[16] = { 0xfd, 0x62, 0x72, 0x69, 0x67, 0x20 };

struct names *names_new(void)
{
	struct names *n = calloc(1, sizeof *n);

	if (n)
		n->next = NAMES_FIRST;
	return n;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (struct slot *s = n->oldest, *next; s; s = next) {
		next = s->newer;
		free(s);
	}
	free(n->entries);
	free(n);
}

int names_add(struct names *n, const char *entry, char *why, size_t cap)
{
	struct allow_entry e;

	if (n->n == EG_ALLOW_MAX)
		return -E2BIG;
	int r = allow_parse(entry, &e, why, cap);
	if (r < 0)
		return r;
	if (e.kind == ALLOW_GROUP) {
		snprintf(why, cap, "is a group, which is for the policy to expand");
		return -EINVAL;
	}
	struct allow_entry *more = reallocarray(n->entries, n->n + 1, sizeof e);
	if (!more)
		return -ENOMEM;
	n->entries = more;
	n->entries[n->n++] = e;
	return 0;
}

void names_learn(struct names *n)
{
	n->learn = true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What a browser, libc or a proxy would take for an IPv4 address: a last label
 * of digits only, or 0x and hexadecimal digits. */
static bool ends_in_number(const char *name)
{
	const char *last = strrchr(name, '.');

	last = last ? last + 1 : name;
	if (last[0] == '0' && last[1] == 'x')
		return last[2 + strspn(last + 2, "0123456789abcdef")] == '\0';
	return last[strspn(last, "0123456789")] == '\0';
}

bool names_canon(const char *raw, size_t len, char out[EG_NAME_LEN])
{
	size_t label = 0;

	if (len == 0 || len > 253)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = raw[i];
		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (c == '.') {
			if (label == 0 || raw[i - 1] == '-')
				return false;
			label = 0;
		} else {
			if (!(c >= 'a' && c <= 'z') && !is_digit(c) && c != '_' &&
			    !(c == '-' && label))
				return false;
			if (++label > 63)
				return false;
		}
		out[i] = c;
	}
	if (label == 0 || raw[len - 1] == '-')
		return false;
	out[len] = '\0';
	return !ends_in_number(out);
}

void names_show(const char *raw, size_t len, char out[EG_NAME_LEN])
{
	if (len > EG_NAME_LEN - 1)
		len = EG_NAME_LEN - 1;
	for (size_t i = 0; i < len; i++)
		out[i] = raw[i] > ' ' && raw[i] < 0x7f ? raw[i] : '?';
	out[len] = '\0';
}

static bool has_port(const struct allow_entry *e, uint16_t port)
{
	if (!port)
		return true;
	for (unsigned i = 0; i < e->n_ports; i++)
		if (e->ports[i] == port)
			return true;
	return false;
}

static bool matches(const struct allow_entry *e, const char *name, size_t len)
{
	if (e->kind == ALLOW_HOST)
		return streq(e->name, name);
	if (e->kind != ALLOW_WILDCARD)
		return false;
	/* below it, at a dot, and not the top itself */
	size_t top = strlen(e->name);
	return len > top + 1 && name[len - top - 1] == '.' &&
	       streq(name + len - top, e->name);
}

bool names_allow(const struct names *n, const char *name, uint16_t port)
{
	size_t len = strlen(name);

	/* one without a dot is not a name of the public network */
	if (n->learn && strchr(name, '.'))
		return true;
	for (size_t i = 0; i < n->n; i++)
		if (has_port(&n->entries[i], port) && matches(&n->entries[i], name, len))
			return true;
	return false;
}

bool names_known(const struct names *n, const char *name)
{
	return names_allow(n, name, 0);
}

bool names_exact(const struct names *n, const char *name)
{
	for (size_t i = 0; i < n->n; i++)
		if (n->entries[i].kind == ALLOW_HOST && streq(n->entries[i].name, name))
			return true;
	return false;
}

int names_address(const struct names *n, const struct eaddr *a, uint16_t port)
{
	int best = -1;

	for (size_t i = 0; i < n->n; i++) {
		const struct allow_entry *e = &n->entries[i];
		if (e->kind == ALLOW_ADDRESS && has_port(e, port) &&
		    addr_within(a, e->addr, (int)e->family, e->bits) &&
		    (int)e->bits > best)
			best = (int)e->bits;
	}
	return best;
}

static unsigned name_bucket(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return (h ^ h >> 15) % BUCKETS;
}

static void unlink_use(struct names *n, struct slot *s)
{
	*(s->newer ? &s->newer->older : &n->newest) = s->older;
	*(s->older ? &s->older->newer : &n->oldest) = s->newer;
}

static void link_newest(struct names *n, struct slot *s)
{
	s->newer = NULL;
	s->older = n->newest;
	*(n->newest ? &n->newest->newer : &n->oldest) = s;
	n->newest = s;
}

static void drop(struct names *n, struct slot *s)
{
	struct slot **p = &n->by_name[name_bucket(s->name)];
	while (*p && *p != s)
		p = &(*p)->by_name;
	if (*p)
		*p = s->by_name;
	p = &n->by_number[s->number % BUCKETS];
	while (*p && *p != s)
		p = &(*p)->by_number;
	if (*p)
		*p = s->by_number;
	unlink_use(n, s);
	n->used--;
	free(s);
}

/* Room for one more: the name that was not used for the longest time goes, and
 * its number with it, for good. */
static bool make_room(struct names *n)
{
	if (n->used < NAMES_MAX)
		return true;
	for (struct slot *s = n->oldest; s; s = s->newer) {
		if (!s->keep) {
			drop(n, s);
			return true;
		}
	}
	return false;
}

uint32_t names_number(struct names *n, const char *name)
{
	unsigned bucket = name_bucket(name);

	for (struct slot *s = n->by_name[bucket]; s; s = s->by_name) {
		if (streq(s->name, name)) {
			unlink_use(n, s);
			link_newest(n, s);
			return s->number;
		}
	}
	if (n->next > NAMES_LAST || !make_room(n))
		return 0;
	size_t len = strlen(name) + 1;
	struct slot *s = calloc(1, sizeof *s + len);
	if (!s)
		return 0;
	memcpy(s->name, name, len);
	s->number = n->next++;
	s->keep = names_exact(n, name);
	s->by_name = n->by_name[bucket];
	n->by_name[bucket] = s;
	s->by_number = n->by_number[s->number % BUCKETS];
	n->by_number[s->number % BUCKETS] = s;
	link_newest(n, s);
	n->used++;
	return s->number;
}

void names_use_loopback(void)
{
	net4[0] = 127;
}

void names_synthetic(uint32_t number, int family, struct eaddr *out)
{
	unsigned at = family == AF_INET ? 0 : 12;

	*out = (struct eaddr){ .family = (uint8_t)family };
	memcpy(out->b, family == AF_INET ? net4 : net6, family == AF_INET ? 4 : 16);
	for (unsigned i = 0; i < 4; i++)
		out->b[at + i] |= (uint8_t)(number >> (24 - 8 * i));
}

bool names_is_synthetic(const struct eaddr *a, uint32_t *number)
{
	struct eaddr back;
	unsigned at = a->family == AF_INET ? 0 : 12;

	*number = 0;
	if (!addr_within(a, net4, AF_INET, 15) && !addr_within(a, net6, AF_INET6, 64))
		return false;
	uint32_t v = (uint32_t)a->b[at] << 24 | (uint32_t)a->b[at + 1] << 16 |
		     (uint32_t)a->b[at + 2] << 8 | a->b[at + 3];
	if (a->family == AF_INET)
		v &= (1u << 17) - 1;
	if (v < NAMES_FIRST || v > NAMES_LAST)
		return true;
	/* the bits between prefix and number are zero */
	names_synthetic(v, a->family, &back);
	if (addr_equal(a, &back))
		*number = v;
	return true;
}

const char *names_of(const struct names *n, uint32_t number)
{
	if (!number)
		return NULL;
	for (struct slot *s = n->by_number[number % BUCKETS]; s; s = s->by_number)
		if (s->number == number)
			return s->name;
	return NULL;
}
