/* SPDX-License-Identifier: Apache-2.0 */
/* Building and sending netlink requests in a fixed buffer: no allocation. */
#ifndef CONFINE_NETLINK_H
#define CONFINE_NETLINK_H

#include <stddef.h>
#include <stdint.h>

enum { NL_CAP = 4096 };

struct nl {
	_Alignas(8) char data[NL_CAP];
	size_t len;
	size_t msg;     /* where the current message starts */
	size_t nest[4]; /* open nested attributes */
	int depth;
	int failed;     /* it did not fit */
	uint32_t seq;
};

void nl_init(struct nl *n);
/* Starts a message with room for its fixed header, which is copied. */
void nl_begin(struct nl *n, uint16_t type, uint16_t flags, const void *head,
	      size_t head_len);
void nl_end(struct nl *n);
void nl_attr(struct nl *n, uint16_t type, const void *data, size_t len);
void nl_text(struct nl *n, uint16_t type, const char *text); /* with its NUL */
void nl_be32(struct nl *n, uint16_t type, uint32_t value);
void nl_open(struct nl *n, uint16_t type);
void nl_close(struct nl *n);

/* Sends everything to the protocol and waits for `answers` acknowledgements.
 * 0, or the first error, negative. */
int nl_talk(struct nl *n, int protocol, int answers);
/* The same, but the message with this number (->seq after its nl_begin(), 0 none)
 * may fail: *excuse is its error or 0. */
int nl_talk_except(struct nl *n, int protocol, int answers, uint32_t excused, int *excuse);

#endif
