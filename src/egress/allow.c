/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/allow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static int bad(char *why, size_t cap, const char *what)
{
	snprintf(why, cap, "%s", what);
	return -EINVAL;
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* "1.2.3", "0x7f.1" or "0x7f000001" would be taken for an address by some
 * programs: what ends in a number, decimal or not, is none of ours to resolve. */
static bool ends_in_number(const char *name)
{
	const char *dot = strrchr(name, '.');
	const char *last = dot ? dot + 1 : name;

	if (last[0] == '0' && last[1] == 'x')
		return !last[2 + strspn(last + 2, "0123456789abcdef")];
	return !last[strspn(last, "0123456789")];
}

/*
 * Letters, digits, hyphens and underscores, in labels of 1 to 63: the form in
 * which a resolver sees a name.  Anything else has been used to make one checker
 * and one connecting program disagree about which host is meant: NUL, '@', '%',
 * spaces, a trailing dot, letters that look like others.
 */
static int check_name(const char *name, char *why, size_t cap)
{
	size_t label = 0, len = strlen(name);

	if (len == 0)
		return bad(why, cap, "has no host name");
	if (len > ALLOW_NAME)
		return bad(why, cap, "has a host name of more than 253 characters");
	for (size_t i = 0; i <= len; i++) {
		char c = name[i];
		if (c == '.' || c == '\0') {
			if (label == 0)
				return bad(why, cap, c && i ? "has an empty part in its name" :
					   i ? "ends with a dot" : "starts with a dot");
			if (label > 63)
				return bad(why, cap, "has a part of more than 63 characters");
			if (name[i - 1] == '-')
				return bad(why, cap, "has a part that ends with '-'");
			label = 0;
			continue;
		}
		if ((unsigned char)c >= 0x80)
			return bad(why, cap, "is not in ASCII: write the xn-- form");
		if (!is_alnum(c) && c != '_' && !(c == '-' && label))
			return bad(why, cap, "has a character that no host name has");
		label++;
	}
	if (ends_in_number(name))
		return bad(why, cap, "looks like an address but is none");
	return 0;
}

static int read_ports(const char *text, struct allow_entry *e, char *why, size_t cap)
{
	for (const char *p = text;; p++) {
		size_t n = strcspn(p, ",");
		char word[8];
		uint64_t port;
		if (n == 0 || n >= sizeof word)
			return bad(why, cap, "has a port that is not a number");
		memcpy(word, p, n);
		word[n] = '\0';
		if (parse_uint(word, 65535, &port) < 0 || port == 0)
			return bad(why, cap, "has a port outside 1 to 65535");
		if (e->n_ports == ALLOW_PORTS)
			return bad(why, cap, "has more than 16 ports");
		e->ports[e->n_ports++] = (uint16_t)port;
		p += n;
		if (!*p)
			return 0;
	}
}

/* 198.18.0.0/15 and fd62:7269:6720::/64 stand for names inside a sandbox. */
static bool is_our_own(const struct allow_entry *e)
{
	static const unsigned char six[8] = { 0xfd, 0x62, 0x72, 0x69, 0x67, 0x20 };

	if (e->family == AF_INET)
		return e->bits >= 15 && e->addr[0] == 198 && (e->addr[1] & 0xfe) == 18;
	return e->bits >= 64 && memcmp(e->addr, six, sizeof six) == 0;
}

/* ADDRESS or ADDRESS/BITS; -ENOENT when it is not an address at all. */
static int read_address(const char *host, struct allow_entry *e, char *why, size_t cap)
{
	char addr[INET6_ADDRSTRLEN + 1];
	size_t n = strcspn(host, "/");
	uint64_t bits;

	if (n >= sizeof addr)
		return -ENOENT;
	memcpy(addr, host, n);
	addr[n] = '\0';
	if (inet_pton(AF_INET, addr, e->addr) == 1)
		e->family = AF_INET;
	else if (inet_pton(AF_INET6, addr, e->addr) == 1)
		e->family = AF_INET6;
	else
		return -ENOENT;
	e->kind = ALLOW_ADDRESS;
	e->bits = e->family == AF_INET ? 32 : 128;
	if (host[n]) {
		if (parse_uint(host + n + 1, e->bits, &bits) < 0)
			return bad(why, cap, "has a prefix length that does not fit");
		e->bits = (unsigned)bits;
	}
	for (unsigned i = e->bits; i < (e->family == AF_INET ? 32u : 128u); i++)
		if (e->addr[i / 8] & (0x80u >> i % 8))
			return bad(why, cap, "has bits set behind its prefix length");
	if (is_our_own(e))
		return bad(why, cap, "lies in a range that brig uses inside the sandbox");
	snprintf(e->name, sizeof e->name, "%s", host);
	return 0;
}

static int read_host(char *host, struct allow_entry *e, char *why, size_t cap)
{
	int r = read_address(host, e, why, cap);
	if (r != -ENOENT)
		return r;
	for (char *p = host; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	const char *name = host;
	e->kind = ALLOW_HOST;
	if (strncmp(host, "*.", 2) == 0) {
		e->kind = ALLOW_WILDCARD;
		name = host + 2;
		if (!strchr(name, '.'))
			return bad(why, cap, "would allow a whole top-level domain");
	} else if (strchr(host, '*')) {
		return bad(why, cap, "has a '*' that is not its whole first part");
	}
	r = check_name(name, why, cap);
	if (r == 0)
		snprintf(e->name, sizeof e->name, "%s", name);
	return r;
}

int allow_parse(const char *text, struct allow_entry *out, char *why, size_t cap)
{
	char host[ALLOW_NAME + 8];
	const char *ports = NULL;
	bool bracketed = text[0] == '[';
	size_t n;

	*out = (struct allow_entry){ 0 };
	if (text[0] == '@') {
		if (!streq(text, "@registries"))
			return bad(why, cap, "is not a group (there is @registries)");
		out->kind = ALLOW_GROUP;
		snprintf(out->name, sizeof out->name, "%s", text + 1);
		return 0;
	}
	if (bracketed) {
		const char *end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return bad(why, cap, "has a '[' without its ']'");
		n = (size_t)(end - text) - 1;
		ports = end[1] ? end + 2 : NULL;
		text++;
	} else {
		const char *colon = strchr(text, ':');
		if (colon && strchr(colon + 1, ':'))
			return bad(why, cap, "is an IPv6 address without brackets");
		n = colon ? (size_t)(colon - text) : strlen(text);
		ports = colon ? colon + 1 : NULL;
	}
	if (n >= sizeof host)
		return bad(why, cap, "has a host name of more than 253 characters");
	memcpy(host, text, n);
	host[n] = '\0';
	int r = bracketed ? read_address(host, out, why, cap) :
			    read_host(host, out, why, cap);
	/* "[example.com]" and "[192.0.2.1]" mean something to some programs only */
	if (bracketed && (r == -ENOENT || (r == 0 && out->family != AF_INET6)))
		return bad(why, cap, "has something in brackets that is no IPv6 address");
	if (r < 0)
		return r;
	if (ports)
		return read_ports(ports, out, why, cap);
	out->ports[0] = 443;
	out->ports[1] = 80;
	out->n_ports = 2;
	return 0;
}

int allow_check(const char *text, char *why, size_t cap)
{
	struct allow_entry e;

	return allow_parse(text, &e, why, cap);
}

static bool has_port(const struct allow_entry *e, uint16_t port)
{
	for (unsigned i = 0; i < e->n_ports; i++)
		if (e->ports[i] == port)
			return true;
	return false;
}

static bool network_covers(const struct allow_entry *wide,
			   const struct allow_entry *narrow)
{
	if (wide->family != narrow->family || wide->bits > narrow->bits)
		return false;
	for (unsigned i = 0; i < wide->bits; i++)
		if ((wide->addr[i / 8] ^ narrow->addr[i / 8]) & (0x80u >> i % 8))
			return false;
	return true;
}

/* The name lies below a wildcard's. */
static bool below(const char *name, const char *top)
{
	size_t n = strlen(name), t = strlen(top);

	return n > t + 1 && name[n - t - 1] == '.' && streq(name + n - t, top);
}

bool allow_covers(const struct allow_entry *wide, const struct allow_entry *narrow)
{
	for (unsigned i = 0; i < narrow->n_ports; i++)
		if (!has_port(wide, narrow->ports[i]))
			return false;
	if (wide->kind == ALLOW_ADDRESS && narrow->kind == ALLOW_ADDRESS)
		return network_covers(wide, narrow);
	if (wide->kind == narrow->kind && streq(wide->name, narrow->name))
		return true;
	return wide->kind == ALLOW_WILDCARD &&
	       (narrow->kind == ALLOW_HOST || narrow->kind == ALLOW_WILDCARD) &&
	       below(narrow->name, wide->name);
}
