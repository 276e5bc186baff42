/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/gitindex.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

/* Offsets in an entry, before its variable part. */
enum { AT_MODE = 24, AT_HASH = 40, EXTENDED = 0x4000, NAME_BITS = 0xfff };
enum { TYPE_BITS = 0170000, TYPE_GITLINK = 0160000, TYPE_TREE = 0040000 };

/* Reading and not mmap: a file cut short under a map would kill us. */
struct reader {
	struct gitindex_work *w;
	int fd, error;
	size_t at, len;
	bool every;    /* entry is wanted */
	size_t shared; /* how much of its name the last entry has of the one before */
	off_t off;  /* in the file, of the buffer's first byte */
	off_t paid; /* up to here; what a nested reader made us read again is free */
};

void gitindex_begin(struct gitindex_work *w)
{
	clock_gettime(CLOCK_MONOTONIC, &w->end);
	w->end.tv_sec += GITINDEX_SECONDS;
	w->bytes = GITINDEX_BYTES;
	w->n_seen = 0;
	w->owner = NULL;
	w->split = w->nameless = w->every = false;
}

bool gitindex_late(const struct gitindex_work *w)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > w->end.tv_sec ||
	       (now.tv_sec == w->end.tv_sec && now.tv_nsec >= w->end.tv_nsec);
}

int gitindex_visit(struct gitindex_work *w, const struct stat *st)
{
	for (unsigned i = 0; i < w->n_seen; i++)
		if (w->seen[i].ino == st->st_ino && w->seen[i].dev == st->st_dev)
			return 0;
	if (w->n_seen == GITINDEX_LINKS)
		return -EDQUOT;
	w->seen[w->n_seen].dev = st->st_dev;
	w->seen[w->n_seen++].ino = st->st_ino;
	return 1;
}

char *gitindex_buffer(struct gitindex_work *w)
{
	w->owner = NULL;
	return w->buf;
}

bool gitindex_path_ok(const char *path)
{
	for (;;) {
		size_t n = strcspn(path, "/");
		if (!n || n > NAME_MAX || (n == 1 && path[0] == '.') ||
		    (n == 2 && !memcmp(path, "..", 2)))
			return false;
		if (!path[n])
			return true;
		path += n + 1;
	}
}

/* Makes a byte available at r->at. */
static bool fill(struct reader *r)
{
	struct gitindex_work *w = r->w;

	if (r->at < r->len && w->owner == r)
		return true;
	if (w->bytes <= 0 || gitindex_late(w)) {
		r->error = -EDQUOT;
		return false;
	}
	r->off += (off_t)r->at;
	r->at = r->len = 0;
	w->owner = r;
	ssize_t n;
	do
		n = pread(r->fd, w->buf, sizeof w->buf, r->off);
	while (n < 0 && errno == EINTR);
	if (n <= 0) {
		r->error = n < 0 ? -errno : -EBADMSG;
		return false;
	}
	if (r->off + n > r->paid) {
		w->bytes -= r->off + n - r->paid;
		r->paid = r->off + n;
	}
	r->len = (size_t)n;
	return true;
}

static int next_byte(struct reader *r)
{
	return fill(r) ? (unsigned char)r->w->buf[r->at++] : -1;
}

static bool take(struct reader *r, unsigned char *out, size_t n)
{
	while (n) {
		if (!fill(r))
			return false;
		size_t part = r->len - r->at < n ? r->len - r->at : n;
		memcpy(out, r->w->buf + r->at, part);
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

/* A submodule; or a directory of a sparse index, which stands for all that is in it. */
static bool is_interesting(const struct reader *r, uint32_t mode)
{
	return r->every || (mode & TYPE_BITS) == TYPE_GITLINK || (mode & TYPE_BITS) == TYPE_TREE;
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
	for (bool ended = false; !ended;) {
		if (!fill(r))
			return malformed(r);
		const char *p = r->w->buf + r->at, *nul = memchr(p, '\0', r->len - r->at);
		size_t n = nul ? (size_t)(nul - p) + 1 : r->len - r->at;
		if (n > PATH_MAX - at)
			return malformed(r);
		memcpy(name + at, p, n);
		r->at += n;
		at += n;
		ended = nul;
	}
	*len = at - 1;
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

/* An entry that is in the buffer as a whole and nothing special, as nearly all are: a
 * large project has a hundred thousand, and all but a few are passed over.  The name is
 * there if it is a gitlink.  False says nothing: it is to be read in pieces. */
static bool take_whole(struct reader *r, size_t hash, char name[PATH_MAX], size_t *len,
		       uint32_t *mode)
{
	const unsigned char *p = (const unsigned char *)r->w->buf + r->at;
	const size_t size = AT_HASH + hash + 2, left = r->w->owner == r ? r->len - r->at : 0;

	if (left < size)
		return false;
	unsigned flags = (unsigned)p[size - 2] << 8 | p[size - 1];
	size_t n = flags & NAME_BITS, total = (size + n + 8) & ~(size_t)7;
	if ((flags & EXTENDED) || n == NAME_BITS || left < total || p[size + n] ||
	    memchr(p + size, '\0', n))
		return false;
	*mode = be32(p + AT_MODE);
	if (is_interesting(r, *mode))
		memcpy(name, p + size, n + 1);
	*len = n;
	r->at += total;
	return true;
}

/* One entry; *len is the length of name before and after. */
static bool take_entry(struct reader *r, uint32_t version, size_t hash,
		       char name[PATH_MAX], size_t *len, uint32_t *mode)
{
	if (version < 4 && take_whole(r, hash, name, len, mode))
		return true;
	unsigned char fixed[AT_HASH + 32 + 2 + 2], pad[8];
	size_t size = AT_HASH + hash + 2, strip = 0, start = 0;
	r->shared = 0;
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
		start = r->shared = *len - strip;
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

/* Where git, told to use threads (index.threads), finds entries: blocks of them, by a table
 * behind the entries.  Ours have to be the same. */
enum { BLOCKS_MAX = 512 };

struct blocks {
	unsigned n;
	struct {
		uint32_t at, count;
	} v[BLOCKS_MAX];
};

static bool read_at(struct reader *r, off_t at, void *to, size_t n)
{
	ssize_t got;

	do
		got = pread(r->fd, to, n, at);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)n || malformed(r);
}

/* One extension of that kind; false: not as git would write it. */
static bool take_blocks(struct reader *r, off_t at, size_t size, struct blocks *b)
{
	unsigned char word[8];

	if (size < 4 || size % 8 != 4 || size / 8 > BLOCKS_MAX || b->n)
		return malformed(r);
	for (at += 4; size > 4; at += 8, size -= 8) {
		if (!read_at(r, at, word, sizeof word))
			return false;
		b->v[b->n].at = be32(word);
		b->v[b->n++].count = be32(word + 4);
	}
	return true;
}

/* The extensions begin where the entries end; git finds that by one at the end of the file,
 * and looks for the table only then. */
static bool find_blocks(struct reader *r, size_t hash, off_t size, struct blocks *b)
{
	unsigned char head[12];
	const off_t first = r->off + (off_t)r->at, hashes = (off_t)hash;
	off_t last = size - 2 * hashes - (off_t)sizeof head, at = first;

	b->n = 0;
	if (first + hashes > size)
		return malformed(r);
	/* the extension that git writes first */
	r->w->split = first + hashes + 4 <= size && read_at(r, first, head, 4) &&
		      !memcmp(head, "link", 4);
	/* git looks there, whatever else the bytes are */
	if (last < (off_t)sizeof head)
		return true;
	if (!read_at(r, last, head, sizeof head))
		return false;
	if (memcmp(head, "EOIE", 4) != 0)
		return true;
	if (first > last || be32(head + 8) != first)
		return malformed(r);
	while (at <= size - hashes - 8) {
		if (!read_at(r, at, head, 8))
			return false;
		if (!memcmp(head, "IEOT", 4) && !take_blocks(r, at + 8, be32(head + 4), b))
			return false;
		at += 8 + (off_t)be32(head + 4);
	}
	return true;
}

/* The entries once more: each block begins where we find its first one. */
static bool check_blocks(struct reader *r, uint32_t version, size_t hash, uint32_t count,
			 const struct blocks *b, char name[PATH_MAX])
{
	unsigned char head[12];
	size_t len = 0;
	uint32_t mode, left = 0;
	unsigned k = 0;

	*r = (struct reader){ .w = r->w, .fd = r->fd };
	r->w->owner = NULL;
	if (!take(r, head, sizeof head))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		for (; !left; k++) {
			if (k == b->n || b->v[k].at != r->off + (off_t)r->at)
				return malformed(r);
			left = b->v[k].count;
		}
		bool first = left-- == b->v[k - 1].count;
		if (!take_entry(r, version, hash, name, &len, &mode))
			return false;
		if (first && r->shared)
			return malformed(r); /* to git there is no entry before it */
	}
	return (!left && k == b->n) || malformed(r);
}

int gitindex_links(int fd, size_t hash, struct gitindex_work *w, gitindex_link *cb, void *arg)
{
	struct reader r = { .w = w, .fd = fd, .every = w->every };
	unsigned char head[12];
	char name[PATH_MAX] = "";
	size_t len = 0;
	bool nameless = false;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > GITINDEX_BYTES)
		return -EDQUOT;
	if (hash != GITINDEX_SHA1 && hash != GITINDEX_SHA256)
		return -EBADMSG;
	/* another reader's frame may have been at this address */
	w->owner = NULL;
	w->every = false; /* not of those that are read meanwhile */
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
		if (!is_interesting(&r, mode))
			continue;
		/* a directory's name ends with a slash, which the next one may begin with */
		bool tree = (mode & TYPE_BITS) == TYPE_TREE;
		if (!tree && !len) {
			nameless = true; /* its name is in the shared index */
			continue;
		}
		if (tree && (len == 0 || name[len - 1] != '/'))
			return -EBADMSG; /* git would put names right behind it */
		if (tree)
			name[len - 1] = '\0';
		if (!gitindex_path_ok(name))
			return -EBADMSG;
		int verdict = gitindex_late(w) ? -EDQUOT : cb(arg, name, tree);
		if (verdict)
			return verdict;
		if (tree)
			name[len - 1] = '/';
	}
	struct blocks b;
	if (!find_blocks(&r, hash, st.st_size, &b) ||
	    (b.n && !check_blocks(&r, version, hash, count, &b, name)))
		return r.error;
	w->nameless = nameless;
	return nameless && !w->split ? -EBADMSG : 0;
}
