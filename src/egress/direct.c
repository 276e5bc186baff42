/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/direct.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "egress/names.h"

/* Cuts ":PORT" off; false when what is behind the colon is no port. */
static bool cut_port(char *text, uint16_t *port)
{
	char *colon = strrchr(text, ':');
	char *end = strchr(text, ']');
	uint64_t n;

	*port = 0;
	if (text[0] == '[') {
		if (!end || (end[1] && end[1] != ':'))
			return false;
		colon = end[1] ? end + 1 : NULL;
		*end = '\0';
	} else if (colon && strchr(text, ':') != colon) {
		colon = NULL; /* an IPv6 address */
	}
	if (!colon)
		return true;
	*colon = '\0';
	if (parse_uint(colon + 1, 65535, &n) < 0 || n == 0)
		return false;
	*port = (uint16_t)n;
	return true;
}

static bool parse_address(char *text, struct direct_item *out)
{
	char *slash = strchr(text, '/');
	struct eaddr a;
	uint64_t bits;

	if (slash)
		*slash = '\0';
	if (!addr_parse(text, &a)) {
		if (slash)
			*slash = '/';
		return false;
	}
	bits = a.family == AF_INET ? 32 : 128;
	if (slash && parse_uint(slash + 1, bits, &bits) < 0)
		return false;
	out->family = a.family;
	out->bits = (uint8_t)bits;
	memcpy(out->addr, a.b, sizeof out->addr);
	return true;
}

bool direct_parse(const char *text, struct direct_item *out)
{
	char copy[EG_NAME_LEN + 16];
	char *p = copy;

	*out = (struct direct_item){ 0 };
	if (strlen(text) >= sizeof copy)
		return false;
	snprintf(copy, sizeof copy, "%s", text);
	if (streq(copy, "*")) {
		out->all = true;
		return true;
	}
	if (!cut_port(copy, &out->port))
		return false;
	if (*p == '[')
		p++;
	if (parse_address(p, out))
		return p == copy || out->family == AF_INET6;
	if (p != copy)
		return false;
	out->below = true;
	out->self = true;
	if (*p == '*' && p[1] == '.')
		p++;
	if (*p == '.') {
		out->self = false;
		p++;
	}
	return names_canon(p, strlen(p), out->name);
}

bool direct_matches(const struct direct_item *d, const char *name,
		    const struct eaddr *addr, uint16_t port)
{
	if (d->all)
		return true;
	if (d->port && d->port != port)
		return false;
	if (d->family || addr)
		return d->family && addr &&
		       addr_within(addr, d->addr, d->family, d->bits);
	size_t n = strlen(name), top = strlen(d->name);
	if (n == top)
		return d->self && streq(name, d->name);
	return d->below && n > top + 1 && name[n - top - 1] == '.' &&
	       streq(name + n - top, d->name);
}
