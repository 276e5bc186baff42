/* SPDX-License-Identifier: Apache-2.0 */
/* The environment inside: built from nothing, nothing is inherited. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "policy/resolve.h"

#define ENV_FD_MAX (1u << 20)

/* Harmless, and missed at once when absent. */
static const char *const passed[] = { "LANG", "LC_ALL", "TERM", "TZ" };

/* Sets or replaces NAME=VALUE; entry is taken over. */
static int env_put(struct spec *s, char *entry)
{
	if (!entry)
		return -ENOMEM;
	size_t n = strcspn(entry, "=") + 1;
	for (size_t i = 0; s->env && s->env[i]; i++)
		if (strncmp(s->env[i], entry, n) == 0) {
			free(s->env[i]);
			s->env[i] = entry;
			return 0;
		}
	return strv_take(&s->env, entry);
}

static int bad_env(struct brig_error *err, const char *opt, const char *name,
		   const char *what)
{
	cleanup_free char *shown = str_printable(name);
	if (shown)
		shown[strcspn(shown, "=")] = '\0'; /* a value may be a secret */
	err_set(err, BRIG_E_BAD_VALUE, 0, "policy", "%s: '%.100s' %s", opt,
		shown ? shown : "?", what);
	err_fix(err, "write NAME=VALUE, or NAME to pass your own value");
	return -EINVAL;
}

static int put_text(struct spec *s, const char *opt, const char *text,
		    struct brig_error *err)
{
	size_t n = strcspn(text, "=");

	if (n == 0)
		return bad_env(err, opt, text, "has no name");
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] <= ' ')
			return bad_env(err, opt, text,
				       "has a space or control character in its name");
	if (text[n] == '=')
		return env_put(s, strdup(text));
	const char *value = getenv(text);
	if (!value)
		return bad_env(err, opt, text, "is not set in your environment");
	return env_put(s, str_fmt("%s=%s", text, value));
}

static int put_from_fd(struct spec *s, int fd, struct brig_error *err)
{
	cleanup_free char *data = NULL;
	size_t len = 0;

	if (fcntl(fd, F_GETFD) < 0) {
		err_set(err, BRIG_E_BAD_FD, EBADF, "policy", "--env-fd %d", fd);
		err_fix(err, "open descriptor %d before starting brig", fd);
		return -EBADF;
	}
	int r = fd_read_all(fd, ENV_FD_MAX, &data, &len);
	if (r < 0) {
		err_set(err, BRIG_E_BAD_FD, -r, "policy", "--env-fd %d", fd);
		err_fix(err, "write at most 1M of NAME=VALUE\\0 to it and close it");
		return r;
	}
	for (size_t at = 0; at < len; at += strlen(data + at) + 1) {
		if (!strchr(data + at, '=')) {
			/* what it says may be a secret that lost its name */
			err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
				"--env-fd %d: an entry has no '='", fd);
			err_fix(err, "write NAME=VALUE, each ended by a NUL");
			return -EINVAL;
		}
		r = put_text(s, "--env-fd", data + at, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int put_defaults(struct spec *s)
{
	int r = env_put(s, strdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:"
				  "/usr/bin:/sbin:/bin"));
	if (r == 0)
		r = env_put(s, str_fmt("HOME=%s", s->home));
	if (r == 0)
		r = env_put(s, strdup("USER=sandbox"));
	if (r == 0)
		r = env_put(s, strdup("LOGNAME=sandbox"));
	if (r == 0)
		r = env_put(s, strdup("SHELL=/bin/sh"));
	if (r == 0)
		r = env_put(s, str_fmt("BRIG_SANDBOX=%s", s->id));
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(passed); i++) {
		const char *v = getenv(passed[i]);
		if (v)
			r = env_put(s, str_fmt("%s=%s", passed[i], v));
	}
	return r;
}

int resolve_env(const struct brig_spec *rq, struct spec *s,
		struct brig_error *err)
{
	int r = put_defaults(s);
	if (r < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -r, "policy", "environment");
	for (char **e = rq->o[OPT_ENV].v; e && *e; e++) {
		r = put_text(s, "--env", *e, err);
		if (r < 0)
			return r;
	}
	if (request_has(rq, OPT_ENV_FD)) {
		s->env_fd = atoi(request_text(rq, OPT_ENV_FD));
		return put_from_fd(s, s->env_fd, err);
	}
	return 0;
}
