/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/seatbelt_profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

/* What programs need to start; nothing in them is a user's. */
static const char *const system_read[] = {
	"/usr/lib", "/usr/bin", "/usr/sbin", "/usr/libexec", "/usr/share", "/usr/local",
	"/bin", "/sbin", "/opt/homebrew", "/System/Library", "/System/Cryptexes",
	"/System/Volumes/Preboot/Cryptexes", "/Library/Apple",
	"/Library/Developer/CommandLineTools", "/private/var/db/dyld",
	"/private/var/db/timezone",
};
static const char *const etc_read[] = {
	"/private/etc/ssl", "/private/etc/passwd", "/private/etc/group",
	"/private/etc/localtime", "/private/etc/services", "/private/etc/protocols",
	"/private/etc/shells",
};
static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/random",
				       "/dev/urandom", "/dev/dtracehelper" };
static const char *const services[] = {
	"com.apple.system.opendirectoryd.libinfo", "com.apple.system.notification_center",
	"com.apple.bsd.dirhelper",
};

void seatbelt_string(struct buf *out, const char *s)
{
	static const char hex[] = "0123456789abcdef";

	buf_addc(out, '"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\') {
			buf_addc(out, '\\');
			buf_addc(out, (char)c);
		} else if (c < 0x20 || c >= 0x7f) {
			/* exactly two digits follow an x */
			const char esc[] = { '\\', 'x', hex[c >> 4], hex[c & 15] };
			buf_add(out, esc, sizeof esc);
		} else {
			buf_addc(out, (char)c);
		}
	}
	buf_addc(out, '"');
}

/* The kernel compares real paths, and these three are links. */
static char *real_path(const char *path)
{
	static const char *const links[] = { "/tmp", "/var", "/etc" };

	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (path_is_under(path, links[i]))
			return str_fmt("/private%s", path);
	return strdup(path);
}

static void filter(struct buf *out, const char *kind, const char *path)
{
	cleanup_free char *real = real_path(path);

	if (!real) {
		out->failed = true;
		return;
	}
	buf_addf(out, " (%s ", kind);
	seatbelt_string(out, real);
	buf_addc(out, ')');
}

static void list(struct buf *out, const char *operation, const char *kind,
		 const char *const *paths, size_t n)
{
	buf_addf(out, "(allow %s", operation);
	for (size_t i = 0; i < n; i++) {
		buf_adds(out, "\n ");
		filter(out, kind, paths[i]);
	}
	buf_adds(out, ")\n");
}

/* Directories above a path may be looked at, not listed. */
static void ancestors(struct buf *out, const char *path)
{
	cleanup_free char *real = real_path(path);

	for (size_t i = 1; real && real[i]; i++)
		if (real[i] == '/') {
			real[i] = '\0';
			buf_adds(out, "(allow file-read-metadata (literal ");
			seatbelt_string(out, real);
			buf_adds(out, "))\n");
			real[i] = '/';
		}
	if (!real)
		out->failed = true;
}

static void tree(struct buf *out, const char *path, bool is_dir, bool writable)
{
	buf_addf(out, "(allow file-read* process-exec%s", writable ? " file-write*" : "");
	filter(out, is_dir ? "subpath" : "literal", path);
	buf_adds(out, ")\n");
	ancestors(out, path);
}

static void one_rule(struct buf *out, const char *head, const char *kind, const char *path)
{
	buf_adds(out, head);
	filter(out, kind, path);
	buf_adds(out, ")\n");
}

/* "*" in a protected path is any one name. */
static void protected_glob(struct buf *out, const char *ws, const char *pattern)
{
	cleanup_free char *real = real_path(ws);
	struct buf re = { 0 };

	buf_addc(&re, '^');
	for (const char *part = real; part; part = part == real ? pattern : NULL) {
		for (const char *p = part; *p; p++) {
			if (*p == '*' && part == pattern) {
				buf_adds(&re, "[^/]+");
				continue;
			}
			if (strchr("\\.[](){}*+?^$|", *p))
				buf_addc(&re, '\\');
			buf_addc(&re, *p);
		}
		if (part == real)
			buf_addc(&re, '/');
	}
	buf_adds(&re, "(/.*)?$");
	cleanup_free char *text = buf_take(&re, NULL);
	if (!real || !text) {
		out->failed = true;
		return;
	}
	buf_adds(out, "(deny file-write* (regex ");
	seatbelt_string(out, text);
	buf_adds(out, "))\n");
}

static void protections(struct buf *out, const struct spec *s)
{
	for (char **p = s->protect; p && *p; p++) {
		if (strchr(*p, '*')) {
			protected_glob(out, s->workspace.src, *p);
			continue;
		}
		cleanup_free char *path = str_fmt("%s/%s", s->workspace.src, *p);
		if (path)
			one_rule(out, "(deny file-write*", "subpath", path);
		else
			out->failed = true;
	}
	/* nobody moves the way to a protected path out from under it */
	one_rule(out, "(deny file-write-unlink", "literal", s->workspace.src);
}

void seatbelt_profile(struct buf *out, const struct spec *s, const char *tmp)
{
	buf_adds(out, "(version 1)\n(deny default)\n"
		      "(allow process-fork)\n"
		      "(allow signal (target same-sandbox))\n"
		      "(allow process-info* (target same-sandbox))\n"
		      "(allow sysctl-read)\n"
		      "(allow file-read-metadata (literal \"/\") (literal \"/tmp\")"
		      " (literal \"/var\") (literal \"/etc\"))\n"
		      "(allow file-read-data (literal \"/\"))\n");
	list(out, "mach-lookup", "global-name", services, ARRAY_LEN(services));
	list(out, "file-read* process-exec", "subpath", system_read, ARRAY_LEN(system_read));
	list(out, "file-read*", "subpath", etc_read, ARRAY_LEN(etc_read));
	list(out, "file-read* file-write-data file-ioctl", "literal", devices,
	     ARRAY_LEN(devices));
	if (s->pty)
		buf_adds(out, "(allow pseudo-tty)\n(allow file-read* file-write-data file-ioctl"
			      " (literal \"/dev/tty\"))\n");
	for (size_t i = 0; i < s->n_binds; i++)
		tree(out, s->binds[i].src, s->binds[i].is_dir, s->binds[i].writable);
	tree(out, s->workspace.src, true, s->workspace.writable);
	tree(out, tmp, true, true);
	/* The loopback interface is the host's own there: no network is none. */
	if (s->net == NET_HOST)
		buf_adds(out, "(allow network*)\n(allow system-socket)\n");
	/* what came last counts: read-only trees inside writable ones, protected
	 * paths and masks close again */
	for (size_t i = 0; i < s->n_binds; i++)
		if (!s->binds[i].writable)
			one_rule(out, "(deny file-write*",
				 s->binds[i].is_dir ? "subpath" : "literal",
				 s->binds[i].src);
	protections(out, s);
	for (char **m = s->masks; m && *m; m++)
		one_rule(out, "(deny file* process-exec", "subpath", *m);
}

int seatbelt_argv(const struct spec *s, const char *tmp, char ***out,
		  struct brig_error *err)
{
	struct buf b = { 0 };
	char **v = NULL;

	for (size_t i = 0; i < s->n_binds; i++)
		if (!streq(s->binds[i].src, s->binds[i].dst))
			goto elsewhere;
	if (!streq(s->workspace.src, s->workspace.dst))
		goto elsewhere;
	if (s->net == NET_ALLOW) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "backend",
			"the seatbelt backend cannot keep to a network allow-list");
		err_fix(err, "leave --allow out");
		return -EOPNOTSUPP;
	}
	seatbelt_profile(&b, s, tmp);
	char *text = buf_take(&b, NULL);
	int r = text ? 0 : -ENOMEM;
	if (r == 0)
		r = strv_add(&v, "/usr/bin/sandbox-exec");
	if (r == 0)
		r = strv_add(&v, "-p");
	if (r == 0)
		r = strv_take(&v, take_ptr(text));
	if (r == 0)
		r = strv_append(&v, (const char *const *)s->argv);
	free(text);
	if (r < 0) {
		strv_free(v);
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "the profile");
	}
	*out = v;
	return 0;

elsewhere:
	err_set(err, BRIG_E_UNSUPPORTED, 0, "backend",
		"the seatbelt backend cannot show anything under another name");
	err_fix(err, "leave --at and :DST out");
	return -EOPNOTSUPP;
}
