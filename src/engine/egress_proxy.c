/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's own proxy and his exceptions from it, from the environment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/egress_internal.h"

/* The first of them that says something. */
static const char *variable(const char *const *names, size_t n, const char **name)
{
	for (size_t i = 0; i < n; i++) {
		const char *v = getenv(names[i]);
		*name = names[i];
		if (v && *v)
			return v;
	}
	return NULL;
}

/* The value may hold a password: it is not shown. */
static int refuse(const char *name, const char *what, struct brig_error *err)
{
	err_set(err, BRIG_E_BAD_VALUE, 0, "egress", "%s %s", name, what);
	err_fix(err, "write it as http://[USER:PASSWORD@]HOST:PORT, or unset it");
	return -EINVAL;
}

static int read_url(struct egress_proxy *p, const char *name, const char *url,
		    struct brig_error *err)
{
	const char *scheme = strstr(url, "://");

	if (scheme && strncasecmp(url, "http://", 7) != 0)
		return refuse(name, "is no http:// proxy: brig speaks plain HTTP to a proxy, "
				    "not TLS or SOCKS", err);
	if (scheme)
		url += 7;
	size_t end = strcspn(url, "/?#");
	const char *at = memrchr(url, '@', end);
	const char *host = at ? at + 1 : url;
	size_t len = end - (size_t)(host - url);
	const char *colon = memrchr(host, ':', len);
	const char *close = memchr(host, ']', len);
	char port[8] = "80";
	uint64_t n;

	if (colon && !(close && close > colon)) {
		size_t digits = len - (size_t)(colon - host) - 1;
		if (digits >= sizeof port)
			return refuse(name, "has no valid port", err);
		snprintf(port, sizeof port, "%.*s", (int)digits, colon + 1);
		len = (size_t)(colon - host);
	}
	if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	if (parse_uint(port, 65535, &n) < 0 || n == 0)
		return refuse(name, "has no valid port", err);
	if (len == 0 || len >= sizeof p->host)
		return refuse(name, "has no valid host", err);
	if (at && (size_t)(at - url) >= sizeof p->auth)
		return refuse(name, "has a user and password that are too long", err);
	memcpy(p->host, host, len);
	p->port = (uint16_t)n;
	if (at)
		memcpy(p->auth, url, (size_t)(at - url));
	return 0;
}

/* Separated by commas or blanks. */
static int read_exceptions(struct egress_proxy *p, const char *list, struct brig_error *err)
{
	static const char between[] = ", \t";

	for (const char *s = list + strspn(list, between); *s; s += strspn(s, between)) {
		size_t n = strcspn(s, between);
		cleanup_free char *word = strndup(s, n);
		if (!word || strv_add(&p->direct, word) < 0)
			return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "egress", "NO_PROXY");
		if (strv_len(p->direct) > EG_DIRECT_MAX)
			return refuse("NO_PROXY", "has more than 128 items", err);
		s += n;
	}
	return 0;
}

int egress_proxy_read(struct egress_proxy *p, struct brig_error *err)
{
	static const char *const proxies[] = { "HTTPS_PROXY", "https_proxy", "ALL_PROXY",
					       "all_proxy" };
	static const char *const exceptions[] = { "NO_PROXY", "no_proxy" };
	const char *name;
	const char *url = variable(proxies, ARRAY_LEN(proxies), &name);

	*p = (struct egress_proxy){ 0 };
	if (!url)
		return 0;
	int r = read_url(p, name, url, err);
	const char *list = variable(exceptions, ARRAY_LEN(exceptions), &name);
	return r == 0 && list ? read_exceptions(p, list, err) : r;
}

void egress_proxy_free(struct egress_proxy *p)
{
	strv_free(p->direct);
	p->direct = NULL;
}
