/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

void nl_init(struct nl *n)
{
	n->len = n->msg = 0;
	n->depth = n->failed = 0;
	n->seq = 0;
}

/* len bytes at the end, zeroed, rounded up; NULL when they do not fit. */
static void *put(struct nl *n, size_t len)
{
	size_t room = NLMSG_ALIGN(len);

	if (n->failed || n->len + room > sizeof n->data) {
		n->failed = 1;
		return NULL;
	}
	void *p = n->data + n->len;
	memset(p, 0, room);
	n->len += room;
	return p;
}

void nl_begin(struct nl *n, uint16_t type, uint16_t flags, const void *head,
	      size_t head_len)
{
	n->msg = n->len;
	struct nlmsghdr *h = put(n, sizeof *h);
	if (!h)
		return;
	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	h->nlmsg_seq = ++n->seq;
	void *to = put(n, head_len);
	if (to)
		memcpy(to, head, head_len);
}

void nl_end(struct nl *n)
{
	struct nlmsghdr *h = (struct nlmsghdr *)(void *)(n->data + n->msg);

	if (!n->failed)
		h->nlmsg_len = (uint32_t)(n->len - n->msg);
}

void nl_attr(struct nl *n, uint16_t type, const void *data, size_t len)
{
	struct nlattr *a = put(n, sizeof *a + len);

	if (!a)
		return;
	a->nla_type = type;
	a->nla_len = (uint16_t)(sizeof *a + len);
	memcpy(a + 1, data, len);
}

void nl_text(struct nl *n, uint16_t type, const char *text)
{
	nl_attr(n, type, text, strlen(text) + 1);
}

void nl_be32(struct nl *n, uint16_t type, uint32_t value)
{
	uint32_t be = htonl(value);

	nl_attr(n, type, &be, sizeof be);
}

void nl_open(struct nl *n, uint16_t type)
{
	if (n->depth == (int)(sizeof n->nest / sizeof n->nest[0])) {
		n->failed = 1;
		return;
	}
	n->nest[n->depth++] = n->len;
	struct nlattr *a = put(n, sizeof *a);
	if (a)
		a->nla_type = type | NLA_F_NESTED;
}

void nl_close(struct nl *n)
{
	if (n->failed || n->depth == 0) {
		n->failed = 1;
		return;
	}
	size_t at = n->nest[--n->depth];
	struct nlattr *a = (struct nlattr *)(void *)(n->data + at);
	a->nla_len = (uint16_t)(n->len - at);
}

/* One datagram may carry several answers.  What is wrong with the message of the
 * excused number is noted, anything else is the end. */
static int read_answers(int fd, int *left, uint32_t excused, int *excuse)
{
	_Alignas(8) char reply[4096];
	ssize_t got = recv(fd, reply, sizeof reply, 0);

	if (got < 0)
		return errno == EINTR ? 0 : -errno;
	size_t size = (size_t)got;
	for (struct nlmsghdr *h = (struct nlmsghdr *)(void *)reply; NLMSG_OK(h, size);
	     h = NLMSG_NEXT(h, size)) {
		if (h->nlmsg_type != NLMSG_ERROR)
			continue;
		const struct nlmsgerr *e = NLMSG_DATA(h);
		if (e->error && h->nlmsg_seq == excused)
			*excuse = e->error;
		else if (e->error)
			return e->error;
		--*left;
	}
	return 0;
}

int nl_talk(struct nl *n, int protocol, int answers)
{
	int ignored;

	return nl_talk_except(n, protocol, answers, 0, &ignored);
}

int nl_talk_except(struct nl *n, int protocol, int answers, uint32_t excused, int *excuse)
{
	*excuse = 0;
	if (n->failed || n->depth)
		return -EMSGSIZE;
	cleanup_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (fd < 0)
		return -errno;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	if (sendto(fd, n->data, n->len, 0, (struct sockaddr *)&kernel, sizeof kernel) !=
	    (ssize_t)n->len)
		return -errno;
	int r = 0;
	while (r == 0 && answers > 0)
		r = read_answers(fd, &answers, excused, excuse);
	return r;
}
