/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile bytes for the readers of git's files.  The first byte chooses:
 * an index, a config, or a commondir.  Besides not crashing, what a reader
 * says is held against something simpler:
 *
 *  - a gitlink's name is a C string that fits, and the same bytes give the
 *    same answer twice;
 *  - a config that is called harmless contains none of the keys that run a
 *    program, however they are spelt, and stays harmless when a comment is
 *    put before it, while text that would be harmful makes it harmful.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workspace/gitindex.h"
#include "workspace/gitsafe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES_MAX = 128 * 1024 };

static int file_of(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("git", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) ||
	    write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	return fd;
}

struct links {
	size_t n, bytes;
	uint32_t sum;
};

static int one_link(void *arg, const char *path, bool whole_directory)
{
	struct links *l = arg;
	size_t len = strlen(path);

	if (len >= PATH_MAX)
		abort();
	l->n++;
	l->bytes += len;
	l->sum += whole_directory;
	for (size_t i = 0; i < len; i++)
		l->sum = l->sum * 31 + (unsigned char)path[i];
	return 0;
}

static void fuzz_index(const uint8_t *data, size_t size)
{
	struct links a = { 0 }, b = { 0 };
	int fd = file_of(data, size);
	static struct gitindex_work w;

	gitindex_begin(&w);
	const size_t hash = size % 2 ? GITINDEX_SHA256 : GITINDEX_SHA1;
	int r = gitindex_links(fd, hash, &w, one_link, &a);

	if (r > 0)
		abort();
	gitindex_begin(&w);
	if (gitindex_links(fd, hash, &w, one_link, &b) != r || a.n != b.n || a.sum != b.sum)
		abort();
	/* each entry takes 62 bytes at least */
	if (a.n > size / 62 + 1)
		abort();
	/* in version 4 names share their beginnings, elsewhere they are there */
	if (size > 7 && data[7] < 4 && a.bytes > size)
		abort();
}

/* A key at the start of a line or after ']', as git would see it. */
static bool has_key(const char *text, size_t len, const char *key)
{
	size_t n = strlen(key);
	bool start = true;

	for (size_t i = 0; i < len; i++) {
		if (start && len - i >= n && strncasecmp(text + i, key, n) == 0 &&
		    (i + n == len || strchr(" \t=\n\r", text[i + n])))
			return true;
		if (text[i] == '\n')
			start = true;
		else if (text[i] != ' ' && text[i] != '\t')
			start = false;
	}
	return false;
}

static void fuzz_config(const uint8_t *data, size_t size)
{
	static const char *const deadly[] = {
		"fsmonitor", "hookspath", "sshcommand", "pager", "editor", "askpass",
		"textconv", "driver", "helper", "program", "path", "uploadpack",
		"receivepack", "worktree", "command", "clean", "smudge", "process",
	};
	static const char comment[] = "# [core]\n; fsmonitor = x\n";
	static const char evil[] = "\n[core]\n\tfsmonitor = touch /tmp/x\n";
	const char *text = (const char *)data;
	bool safe = gitsafe_config_text(text, size);
	static char buf[16384];
	bool from_file = gitsafe_config(file_of(data, size), buf, sizeof buf);

	/* the file reader only adds a limit on the size */
	if (from_file && !safe)
		abort();
	if (safe && size < sizeof buf - 1 && !from_file)
		abort();
	if (!safe)
		return;
	for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
		if (has_key(text, size, deadly[i]))
			abort();
	char *more = malloc(size + sizeof comment + sizeof evil);
	if (!more)
		return;
	memcpy(more, comment, sizeof comment - 1);
	memcpy(more + sizeof comment - 1, text, size);
	if (!gitsafe_config_text(more, sizeof comment - 1 + size))
		abort();
	memcpy(more, text, size);
	memcpy(more + size, evil, sizeof evil - 1);
	if (gitsafe_config_text(more, size + sizeof evil - 1))
		abort();
	free(more);
}

static void fuzz_commondir(const uint8_t *data, size_t size)
{
	bool own = gitsafe_commondir(file_of(data, size));

	if (own != (size == 6 && memcmp(data, "../..\n", 6) == 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > BYTES_MAX)
		return 0;
	/* a copy of exactly the right size, so that one byte too far is seen */
	uint8_t *copy = malloc(size > 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	switch (data[0] % 3) {
	case 0:
		fuzz_index(copy, size - 1);
		break;
	case 1:
		fuzz_config(copy, size - 1);
		break;
	default:
		fuzz_commondir(copy, size - 1);
	}
	free(copy);
	return 0;
}
