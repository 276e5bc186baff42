/* SPDX-License-Identifier: Apache-2.0 */
/* The environment inside: built from nothing, nothing is inherited. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "confine/netns_allow.h"
#include "policy/envrules.h"
#include "policy/resolve_internal.h"

#define ENV_FD_MAX (1u << 20)

/* The environment as it grows. */
struct env {
	struct spec *s;
	size_t n; /* entries in s->env */
};

/* NAME=VALUE, which is taken over.  Of several with one name the last one counts: settle(). */
static int env_put(struct env *e, char *entry)
{
	return strv_put(&e->s->env, &e->n, entry);
}

struct named {
	char *entry;
	size_t len, at; /* of the name; and where the entry was */
};

static int by_name(const void *x, const void *y)
{
	const struct named *a = x, *b = y;
	int c = memcmp(a->entry, b->entry, a->len < b->len ? a->len : b->len);

	if (c == 0)
		c = (a->len > b->len) - (a->len < b->len);
	return c ? c : (a->at > b->at) - (a->at < b->at);
}

/* Leaves one entry for each name: the last value, where the name stood first. */
static int settle(struct env *e)
{
	char **env = e->s->env;
	cleanup_free struct named *v = calloc(e->n, sizeof *v);
	size_t first = 0, kept = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < e->n; i++) {
		v[i] = (struct named){ env[i], strcspn(env[i], "="), i };
		env[i] = NULL;
	}
	qsort(v, e->n, sizeof *v, by_name);
	for (size_t i = 0; i < e->n; i++) {
		const struct named *next = i + 1 < e->n ? &v[i + 1] : NULL;
		if (next && next->len == v[i].len &&
		    !memcmp(next->entry, v[i].entry, next->len)) {
			free(v[i].entry);
			continue;
		}
		env[v[first].at] = v[i].entry;
		first = i + 1;
	}
	for (size_t i = 0; i < e->n; i++)
		if (env[i])
			env[kept++] = env[i];
	env[kept] = NULL;
	return 0;
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

static int check_name(const char *opt, const char *text, size_t n,
		      struct brig_error *err)
{
	if (n == 0)
		return bad_env(err, opt, text, "has no name");
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] <= ' ')
			return bad_env(err, opt, text,
				       "has a space or control character in its name");
	return 0;
}

/* A run's own words: not for variables that run something by themselves. */
static int check_injection(const char *opt, const char *text, size_t n,
			   struct brig_error *err)
{
	const char *why = env_injects(text, n);
	char what[100];

	if (!why)
		return 0;
	snprintf(what, sizeof what, "is only for the operator to set: %s", why);
	bad_env(err, opt, text, what);
	err_fix(err, "set it in a configuration file (env.set or env.pass), or inside "
		     "the command itself: env NAME=VALUE COMMAND");
	return -EPERM;
}

static int put_text(struct env *e, const char *opt, const char *text, bool operator,
		    struct brig_error *err)
{
	size_t n = strcspn(text, "=");
	int r = check_name(opt, text, n, err);

	if (r == 0 && !operator)
		r = check_injection(opt, text, n, err);
	if (r < 0)
		return r;
	const char *value = text[n] == '=' ? NULL : getenv(text);
	if (text[n] != '=' && !value)
		return bad_env(err, opt, text, "is not set in your environment");
	r = env_put(e, value ? str_fmt("%s=%s", text, value) : strdup(text));
	return r < 0 ? err_set(err, BRIG_E_NO_MEMORY, -r, "policy", "%s", opt) : 0;
}

static int put_from_fd(struct env *e, int fd, struct brig_error *err)
{
	cleanup_free char *data = NULL;
	size_t len = 0;

	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY) {
		err_set(err, BRIG_E_BAD_FD, flags < 0 ? EBADF : 0, "policy", "--env-fd %d%s", fd,
			flags < 0 ? "" : " is not open for reading");
		err_fix(err, "open descriptor %d for reading before starting brig", fd);
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
		r = put_text(e, "--env-fd", data + at, false, err);
		if (r < 0)
			return r;
	}
	/* a helper that takes over from us will want to read it again */
	e->s->env_fd = fd;
	e->s->env_fd_data = take_ptr(data);
	e->s->env_fd_len = len;
	return 0;
}

#define SYSTEM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* What the operator puts in front, the caller's tools, the system. */
static int put_path(const struct brig_spec *rq, struct env *e)
{
	struct buf b = { 0 };

	buf_adds(&b, "PATH=");
	for (char **p = rq->o[OPT_PATH_PREPEND].v; p && *p; p++)
		buf_addf(&b, "%s:", *p);
	for (char **p = e->s->tool_path; p && *p; p++)
		buf_addf(&b, "%s:", *p);
	buf_adds(&b, SYSTEM_PATH);
	return env_put(e, buf_take(&b, NULL));
}

/* For programs that want to be told of a proxy; only when somebody asked for it. */
static int put_proxies(struct env *e)
{
	static const struct {
		const char *names[4], *value;
	} vars[] = {
		{ { "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy" }, "http://127.0.0.1:" },
		{ { "ALL_PROXY", "all_proxy" }, "socks5h://127.0.0.1:" },
		{ { "NO_PROXY", "no_proxy" }, "localhost,127.0.0.1,::1" },
	};
	static const int ports[] = { ALLOW_CONNECT_PORT, ALLOW_SOCKS_PORT, 0 };
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(vars); i++)
		for (size_t k = 0; k < 4 && vars[i].names[k] && r == 0; k++)
			r = env_put(e, ports[i] ? str_fmt("%s=%s%d", vars[i].names[k],
							  vars[i].value, ports[i]) :
						  str_fmt("%s=%s", vars[i].names[k],
							  vars[i].value));
	return r;
}

static int put_defaults(const struct brig_spec *rq, struct env *e)
{
	const struct spec *s = e->s;
	int r = put_path(rq, e);
	if (r == 0)
		r = env_put(e, str_fmt("HOME=%s", s->home));
	if (r == 0)
		r = env_put(e, strdup("USER=sandbox"));
	if (r == 0)
		r = env_put(e, strdup("LOGNAME=sandbox"));
	if (r == 0)
		r = env_put(e, strdup("SHELL=/bin/sh"));
	if (r == 0)
		r = env_put(e, str_fmt("BRIG_SANDBOX=%s", s->id));
	if (r == 0 && s->proxy_env)
		r = put_proxies(e);
	for (char **t = s->tool_env; r == 0 && t && *t; t++)
		r = env_put(e, strdup(*t));
	return r;
}

/* env.pass: the caller's values of these, where there are any. */
static int put_passed(const struct brig_spec *rq, struct env *e)
{
	bool failed;
	char **names = request_list(rq, OPT_ENV_PASS, &failed);
	int r = failed ? -ENOMEM : 0;

	for (char **n = names; r == 0 && n && *n; n++) {
		const char *v = getenv(*n);
		if (v)
			r = env_put(e, str_fmt("%s=%s", *n, v));
	}
	strv_free(names);
	return r;
}

static bool passes(const struct brig_spec *rq, const char *name)
{
	bool failed, found = false;
	char **names = request_list(rq, OPT_ENV_PASS, &failed);

	for (char **n = names; n && *n && !found; n++)
		found = streq(*n, name);
	strv_free(names);
	return found;
}

static int locked(const struct brig_spec *rq, enum opt o, const char *label,
		  struct brig_error *err)
{
	char where[300];

	origin_text(&rq->lock[o], where, sizeof where);
	err_set(err, BRIG_E_LOCKED, 0, "policy", "%s: %s is locked at %s", label,
		opt_table[o].key, where);
	err_fix(err, "leave %s out; only the lock's author can open it", label);
	return -EPERM;
}

static int put_asked(const struct brig_spec *rq, struct env *e,
		     struct brig_error *err)
{
	const struct req_value *rv = &rq->o[OPT_ENV];
	char label[300];

	for (size_t i = 0; rv->v && rv->v[i]; i++) {
		request_label(rq, OPT_ENV, i, label, sizeof label);
		/* a name alone passes a value on, as env.pass does */
		if (rv->at[i].rank == RANK_RUN && !strchr(rv->v[i], '=') &&
		    rq->lock[OPT_ENV_PASS].layer && !passes(rq, rv->v[i]))
			return locked(rq, OPT_ENV_PASS, label, err);
		int r = put_text(e, label, rv->v[i], rv->at[i].rank != RANK_RUN, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int put_all(const struct brig_spec *rq, struct env *e, struct brig_error *err)
{
	int r = put_defaults(rq, e);

	if (r == 0)
		r = put_passed(rq, e);
	if (r < 0)
		return err_set(err, BRIG_E_NO_MEMORY, -r, "policy", "environment");
	r = put_asked(rq, e, err);
	if (r < 0 || !request_has(rq, OPT_ENV_FD))
		return r;
	if (rq->lock[OPT_ENV].layer)
		return locked(rq, OPT_ENV, "--env-fd", err);
	return put_from_fd(e, atoi(request_text(rq, OPT_ENV_FD)), err);
}

int resolve_env(const struct brig_spec *rq, struct spec *s,
		struct brig_error *err)
{
	struct env e = { .s = s };
	int r = put_all(rq, &e, err);

	if (r == 0 && settle(&e) < 0)
		r = err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "environment");
	return r;
}
