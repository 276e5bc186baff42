/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/gitsafe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "workspace/gitconf.h"
#include "workspace/gitindex.h"
#include "workspace/protect_walk.h"

/*
 * An allow-list, because the list of keys that make git run a program grows
 * with git: core.fsmonitor, core.hooksPath, core.sshCommand, core.pager,
 * core.editor, core.askPass, alias.*, filter.*, diff.*.command, diff.*.textconv,
 * merge.*.driver, credential.helper, gpg.program, include.path, includeIf.*,
 * protocol.*.allow, remote.*.uploadpack, submodule.*.update, sequence.editor …
 *
 * core.worktree is missing on purpose: it lets `git checkout` on the host
 * write anywhere.  (Submodules have it; one added inside a repository that is
 * itself new therefore loses its config, and says so.)  So are
 * extensions.partialclone, remote.*.promisor and remote.*.partialclonefilter:
 * for a missing object a mere `git status` would connect to the URL.  URLs are
 * held to plain ones: "ext::sh -c …" and every other helper:: form starts a
 * program.
 */
enum value_rule { ANY, URL };
static const struct {
	char section[12]; /* no pointer: nothing to adjust when brig starts */
	bool sub; /* [section "anything"] rather than [section] */
	char key[28];
	enum value_rule rule;
} allowed[] = {
	{ "core", false, "repositoryformatversion", ANY },
	{ "core", false, "filemode", ANY },
	{ "core", false, "bare", ANY },
	{ "core", false, "logallrefupdates", ANY },
	{ "core", false, "ignorecase", ANY },
	{ "core", false, "precomposeunicode", ANY },
	{ "core", false, "symlinks", ANY },
	{ "core", false, "autocrlf", ANY },
	{ "core", false, "safecrlf", ANY },
	{ "core", false, "eol", ANY },
	{ "core", false, "quotepath", ANY },
	{ "core", false, "abbrev", ANY },
	{ "core", false, "compression", ANY },
	{ "core", false, "longpaths", ANY },
	{ "core", false, "sparsecheckout", ANY },
	{ "core", false, "sparsecheckoutcone", ANY },
	{ "core", false, "untrackedcache", ANY },
	{ "extensions", false, "objectformat", ANY },
	{ "extensions", false, "refstorage", ANY },
	{ "extensions", false, "preciousobjects", ANY },
	/* config.worktree, which it switches on, is checked as config is */
	{ "extensions", false, "worktreeconfig", ANY },
	{ "user", false, "name", ANY },
	{ "user", false, "email", ANY },
	{ "init", false, "defaultbranch", ANY },
	{ "pull", false, "rebase", ANY },
	{ "pull", false, "ff", ANY },
	{ "push", false, "default", ANY },
	{ "push", false, "autosetupremote", ANY },
	{ "fetch", false, "prune", ANY },
	{ "gc", false, "auto", ANY },
	{ "gc", false, "autodetach", ANY },
	{ "advice", false, "detachedhead", ANY },
	{ "commit", false, "gpgsign", ANY },
	{ "tag", false, "gpgsign", ANY },
	{ "index", false, "version", ANY },
	{ "lfs", false, "repositoryformatversion", ANY },
	{ "remote", true, "url", URL },
	{ "remote", true, "pushurl", URL },
	{ "remote", true, "fetch", ANY },
	{ "remote", true, "push", ANY },
	{ "remote", true, "tagopt", ANY },
	{ "remote", true, "prune", ANY },
	/* a branch's remote may be a URL itself */
	{ "branch", true, "remote", URL },
	{ "branch", true, "pushremote", URL },
	{ "branch", true, "merge", ANY },
	{ "branch", true, "rebase", ANY },
	{ "branch", true, "description", ANY },
	{ "submodule", true, "url", URL },
	{ "submodule", true, "active", ANY },
};

/* Quotes and escapes could spell "::" in pieces, so a URL may have neither. */
static bool url_plain(const char *v, size_t len)
{
	if (len && v[0] == '-')
		return false;
	return !memmem(v, len, "::", 2) && !memchr(v, '"', len) &&
	       !memchr(v, '\\', len);
}

/* One "key", "key = value" up to the end of its line. */
static bool read_setting(struct gitconf_text *t, const struct gitconf_section *s)
{
	char key[32];

	if (!gitconf_word(t, key, sizeof key))
		return false;
	gitconf_skip_blank(t);
	const char *v = t->p;
	gitconf_skip_line(t);
	const char *eol = t->p;
	if (v < eol && *v == '=') {
		v++;
		while (v < eol && (*v == ' ' || *v == '\t'))
			v++;
	} else if (v < eol && *v != '#' && *v != ';' && *v != '\r') {
		return false;
	}
	/* A continued line would make the next one part of this value for git
	 * and a key for us; nothing git writes by itself needs one. */
	const char *last = eol;
	if (last > v && last[-1] == '\r')
		last--;
	if (last > v && last[-1] == '\\')
		return false;

	for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
		if (strcasecmp(allowed[i].section, s->name) != 0 ||
		    allowed[i].sub != s->sub || strcasecmp(allowed[i].key, key) != 0)
			continue;
		return allowed[i].rule == ANY || url_plain(v, (size_t)(eol - v));
	}
	return false;
}

/* Bytes whose meaning to git's reader we would have to guess. */
static bool bytes_plain(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c == '\r' && i + 1 < len && s[i + 1] == '\n')
			continue;
		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

bool gitsafe_config_text(const char *text, size_t len)
{
	struct gitconf_text t = { text, text + len };
	struct gitconf_section s = { .name = "" };

	if (!bytes_plain(text, len))
		return false;
	for (enum gitconf_what next; (next = gitconf_next(&t)) != GITCONF_END;)
		if (next == GITCONF_SECTION ? !gitconf_section(&t, &s) : !read_setting(&t, &s))
			return false;
	return true;
}

/* The value of a setting, up to the end of its line; -1 when it is not plain text. */
static long plain_value(struct gitconf_text *t, const char **v)
{
	gitconf_skip_blank(t);
	if (t->p < t->end && *t->p == '=')
		t->p++;
	gitconf_skip_blank(t);
	*v = t->p;
	gitconf_skip_line(t);
	const char *end = t->p;
	while (end > *v && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	return end > *v && end[-1] == '\\' ? -1 : end - *v;
}

static const char format_key[] = "objectformat";

/* No name of a setting can be written in another way. */
static bool names_format(const char *text, size_t len)
{
	for (size_t i = 0; i + sizeof format_key - 1 <= len; i++)
		if (strncasecmp(text + i, format_key, sizeof format_key - 1) == 0)
			return true;
	return false;
}

/* What a configuration says of the format. */
struct format {
	size_t hash;
	bool one, other; /* repositoryformatversion: 1, and what else */
};

static bool read_format(struct gitconf_text *t, const struct gitconf_section *s, struct format *f)
{
	char key[64];
	const char *v;

	if (!gitconf_word(t, key, sizeof key))
		return false;
	long n = plain_value(t, &v);
	if (n < 0 || s->sub)
		return n >= 0;
	if (!strcasecmp(s->name, "core") && !strcasecmp(key, "repositoryformatversion")) {
		if (n == 1 && *v == '1')
			f->one = true;
		else
			f->other = true;
	}
	if (strcasecmp(s->name, "extensions") != 0 || strcasecmp(key, format_key) != 0)
		return true;
	bool long_one = n == 6 && !memcmp(v, "sha256", 6);
	f->hash = long_one ? GITINDEX_SHA256 : GITINDEX_SHA1;
	return long_one || (n == 4 && !memcmp(v, "sha1", 4));
}

size_t gitsafe_hash_text(const char *text, size_t len)
{
	struct gitconf_text t = { text, text + len };
	struct gitconf_section s = { .name = "" };
	struct format f = { .hash = GITINDEX_SHA1 };

	if (!names_format(text, len))
		return f.hash;
	for (enum gitconf_what next; (next = gitconf_next(&t)) != GITCONF_END;)
		if (next == GITCONF_SECTION ? !gitconf_section(&t, &s) : !read_format(&t, &s, &f))
			return 0;
	/* extensions count in version 1; git goes by SHA-1 where there is none */
	return f.hash == GITINDEX_SHA1 || (f.one && !f.other) ? f.hash : 0;
}

size_t gitsafe_hash(int fd, char *buf, size_t size)
{
	enum { FILE_MAX = 16 << 20, OVERLAP = sizeof format_key - 2 };
	size_t kept = 0;
	off_t at = 0;
	ssize_t n;

	/* A configuration may be large: one of many branches.  Nearly none says it. */
	do {
		n = pread(fd, buf + kept, size - kept, at);
		if ((n < 0 && errno != EINTR) || at > FILE_MAX)
			return 0;
		if (n <= 0)
			continue;
		at += n;
		kept += (size_t)n;
		if (names_format(buf, kept)) {
			n = pread(fd, buf, size, 0);
			return n < 0 || (size_t)n >= size ? 0 : gitsafe_hash_text(buf, (size_t)n);
		}
		size_t keep = kept < OVERLAP ? kept : OVERLAP;
		memmove(buf, buf + kept - keep, keep);
		kept = keep;
	} while (n != 0);
	return GITINDEX_SHA1;
}

bool gitsafe_config(int fd, char *buf, size_t size)
{
	ssize_t n = fd_read_full(fd, buf, size);

	return n >= 0 && (size_t)n < size && gitsafe_config_text(buf, (size_t)n);
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), m = strlen(tail);

	return n > m && !strcmp(s + n - m, tail);
}

bool gitsafe_hooks(int fd)
{
	/* getdents64 and not readdir(): the latter allocates */
	_Alignas(struct sys_dirent) char buf[4096];

	for (;;) {
		long n = syscall(SYS_getdents64, fd, buf, sizeof buf);
		if (n < 0)
			return false;
		if (n == 0)
			return true;
		for (long at = 0; at < n;) {
			const struct sys_dirent *d = (const void *)(buf + at);
			at += d->len;
			if (!strcmp(d->name, ".") || !strcmp(d->name, ".."))
				continue;
			if (!ends_with(d->name, ".sample"))
				return false;
		}
	}
}

bool gitsafe_commondir(int fd)
{
	static const char own[] = "../..\n";
	char text[16];
	ssize_t n = fd_read_full(fd, text, sizeof text);

	return n == sizeof own - 1 && !memcmp(text, own, sizeof own - 1);
}

size_t gitsafe_hash_at(int git_fd, char *buf, size_t size)
{
	cleanup_close int common = openat(git_fd, "commondir", O_RDONLY | O_NONBLOCK | O_NOCTTY |
								       O_NOFOLLOW | O_CLOEXEC);

	if (common < 0 && errno != ENOENT)
		return 0;
	if (common >= 0 && !gitsafe_commondir(common))
		return 0;
	/* a link of the user's is followed, as git does: one that is new does not stay */
	cleanup_close int fd = protect_open_linked(git_fd, common < 0 ? "config" : "../../config");
	if (fd < 0)
		return fd == -ENOENT ? GITINDEX_SHA1 : 0;
	return gitsafe_hash(fd, buf, size);
}

static bool exists_at(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool gitsafe_is_gitdir(int dirfd)
{
	/* git's own test, widened: `commondir` makes it look elsewhere for
	 * objects, refs and config. */
	return exists_at(dirfd, "HEAD") &&
	       (exists_at(dirfd, "commondir") ||
		(exists_at(dirfd, "objects") && exists_at(dirfd, "refs")));
}
