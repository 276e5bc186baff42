/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/gitindex.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/fd.h"

/* Offsets in an entry, before its variable part. */
enum { AT_MODE = 24, AT_HASH = 40, EXTENDED = 0x4000, NAME_BITS = 0xfff };
enum { TYPE_BITS = 0170000, TYPE_GITLINK = 0160000 };

/* Reading and not mmap: a file cut short under a map would kill us. */
struct reader {
	int fd, error;
	size_t at, len;
	unsigned char buf[16384];
};

static int next_byte(struct reader *r)
{
	if (r->at == r->len) {
		ssize_t n = fd_read_full(r->fd, r->buf, sizeof r->buf);
		if (n <= 0) {
			r->error = n < 0 ? (int)n : -EBADMSG;
			return -1;
		}
		r->at = 0;
		r->len = (size_t)n;
	}
	return r->buf[r->at++];
}

static bool take(struct reader *r, unsigned char *out, size_t n)
{
	while (n) {
		if (r->at == r->len) {
			int c = next_byte(r);
			if (c < 0)
				return false;
			r->at--;
		}
		size_t part = r->len - r->at < n ? r->len - r->at : n;
		memcpy(out, r->buf + r->at, part);
		r->at += part;
		out += part;
		n -= part;
	}
	return true;
}

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool malformed(struct reader *r)
{
	if (!r->error)
		r->error = -EBADMSG;
	return false;
}

/* Reads a name up to its NUL, which is consumed, into name + at. */
static bool take_name(struct reader *r, char name[PATH_MAX], size_t at, size_t *len)
{
	for (;;) {
		int c = next_byte(r);
		if (c < 0 || at >= PATH_MAX)
			return malformed(r);
		name[at] = (char)c;
		if (!c)
			break;
		at++;
	}
	*len = at;
	return true;
}

/* Version 4: how much of the last name's end to drop. */
static bool take_strip(struct reader *r, size_t *out)
{
	size_t v = 0;

	for (int i = 0;; i++) {
		int c = next_byte(r);
		if (c < 0 || i > 4)
			return malformed(r);
		v = (v << 7) | ((unsigned)c & 0x7f);
		if (!(c & 0x80))
			break;
		v++;
	}
	*out = v;
	return true;
}

/* One entry; *len is the length of name before and after. */
static bool take_entry(struct reader *r, uint32_t version, size_t hash,
		       char name[PATH_MAX], size_t *len, uint32_t *mode)
{
	unsigned char fixed[AT_HASH + 32 + 2 + 2], pad[8];
	size_t size = AT_HASH + hash + 2, strip = 0, start = 0;

	if (!take(r, fixed, size))
		return false;
	*mode = be32(fixed + AT_MODE);
	unsigned flags = (unsigned)fixed[size - 2] << 8 | fixed[size - 1];
	if (flags & EXTENDED) {
		if (version < 3 || !take(r, fixed + size, 2))
			return malformed(r);
		size += 2;
	}
	if (version == 4) {
		if (!take_strip(r, &strip) || strip > *len)
			return malformed(r);
		start = *len - strip;
	}
	if (!take_name(r, name, start, len))
		return false;
	/* git goes by the length and never looks for the NUL: where the two
	 * disagree it would see another path than we do */
	if ((flags & NAME_BITS) != NAME_BITS && (flags & NAME_BITS) != *len)
		return malformed(r);
	if (version == 4)
		return true;
	/* one NUL is consumed; up to seven more align the entry to eight */
	size_t total = size + *len + 1;
	return take(r, pad, (8 - total % 8) % 8);
}

static int read_links(int fd, size_t hash, gitindex_link *cb, void *arg)
{
	struct reader r;
	unsigned char head[12];
	big_buffer char name[PATH_MAX];
	size_t len = 0;

	r.fd = fd;
	r.error = 0;
	r.at = r.len = 0;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	if (!take(&r, head, sizeof head))
		return r.error;
	uint32_t version = be32(head + 4), count = be32(head + 8);
	if (memcmp(head, "DIRC", 4) != 0)
		return -EBADMSG;
	if (version < 2 || version > 4)
		return -EPROTONOSUPPORT;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t mode;
		if (!take_entry(&r, version, hash, name, &len, &mode))
			return r.error;
		if ((mode & TYPE_BITS) == TYPE_GITLINK)
			cb(arg, name);
	}
	return 0;
}

int gitindex_links(int fd, gitindex_link *cb, void *arg)
{
	/*
	 * The hash is chosen by the configuration, but an index can be made to
	 * read well under both lengths and differently.  Reading it both ways
	 * leaves nothing to that; the wrong way ends at the first entry.
	 */
	int a = read_links(fd, 20, cb, arg);
	int b = read_links(fd, 32, cb, arg);

	return a == 0 || b == 0 ? 0 : a;
}
