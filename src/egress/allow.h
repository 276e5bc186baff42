/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One entry of a network allow-list: HOST[:PORT[,PORT...]].
 *
 *   api.example.com        ports 443 and 80
 *   *.example.com:443      any name below example.com, not example.com itself
 *   192.0.2.7:5432         an address, only because it is written as one
 *   [2001:db8::/32]:443    a network
 *   @registries            a named group
 */
#ifndef EGRESS_ALLOW_H
#define EGRESS_ALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ALLOW_PORTS = 16, ALLOW_NAME = 253 };

enum allow_kind { ALLOW_HOST, ALLOW_WILDCARD, ALLOW_ADDRESS, ALLOW_GROUP };

struct allow_entry {
	enum allow_kind kind;
	char name[ALLOW_NAME + 1]; /* lower case; a wildcard without its "*."; a
				      group without its '@' */
	unsigned char addr[16];    /* ALLOW_ADDRESS, network order */
	unsigned family, bits;     /* AF_INET or AF_INET6; prefix length */
	uint16_t ports[ALLOW_PORTS];
	unsigned n_ports;
};

/* Reads one entry.  0, or -EINVAL with the reason in why ("has port 0"). */
int allow_parse(const char *text, struct allow_entry *out, char *why, size_t cap);
/* The same, for the form only. */
int allow_check(const char *text, char *why, size_t cap);

/* True when everything that `narrow` allows is allowed by `wide`. */
bool allow_covers(const struct allow_entry *wide, const struct allow_entry *narrow);

#endif
