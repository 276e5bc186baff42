/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/registries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "egress/allow.h"

enum { FILE_MAX_BYTES = 64 << 10, HOSTS_MAX = 64 };

/* Values that are one URL, or several separated by commas, bars or spaces. */
static const char *const variables[] = {
	"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX",
	"UV_INDEX", "UV_EXTRA_INDEX_URL", "npm_config_registry", "NPM_CONFIG_REGISTRY",
	"YARN_NPM_REGISTRY_SERVER", "GOPROXY", "GOSUMDB", "CARGO_REGISTRIES_CRATES_IO_INDEX",
	"GEM_SOURCE",
};

/* Files, and the keys whose values are URLs; ~ is HOME. */
static const struct {
	const char *path, *keys;
} files[] = {
	{ "/etc/pip.conf", "index-url|extra-index-url|index_url|extra_index_url" },
	{ "~/.config/pip/pip.conf", "index-url|extra-index-url|index_url|extra_index_url" },
	{ "~/.pip/pip.conf", "index-url|extra-index-url|index_url|extra_index_url" },
	{ "~/.config/uv/uv.toml", "url|index-url|extra-index-url" },
	{ "/etc/npmrc", "registry" },
	{ "~/.npmrc", "registry" },
	{ "~/.yarnrc.yml", "npmRegistryServer" },
	{ "~/.cargo/config.toml", "registry|index" },
	{ "~/.cargo/config", "registry|index" },
	{ "~/.config/go/env", "GOPROXY|GOSUMDB" },
};

int registries_host(const char *url, char *out, unsigned long cap)
{
	static const struct {
		const char *scheme, *port;
	} schemes[] = { { "https://", "443" }, { "http://", "80" } };
	struct allow_entry e;
	char why[120];

	if (strncmp(url, "sparse+", 7) == 0)
		url += 7;
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		size_t n = strlen(schemes[i].scheme);
		if (strncmp(url, schemes[i].scheme, n) != 0)
			continue;
		url += n;
		size_t end = strcspn(url, "/?#\"' \t\r\n,|");
		/* a name and a password may stand in front: they stay here */
		for (size_t k = end; k-- > 0;)
			if (url[k] == '@') {
				url += k + 1;
				end -= k + 1;
				break;
			}
		bool port = end > 0 && url[0] != '[' && memchr(url, ':', end);
		int len = snprintf(out, cap, "%.*s%s%s", (int)end, url, port ? "" : ":",
				   port ? "" : schemes[i].port);
		if (len < 0 || (size_t)len >= cap)
			return -EINVAL;
		int r = allow_parse(out, &e, why, sizeof why);
		/* a plain name only: a file must not open an address or a domain */
		return r == 0 && e.kind == ALLOW_HOST ? 0 : -EINVAL;
	}
	return -EINVAL;
}

static int add(char ***out, const char *entry)
{
	for (char **v = *out; v && *v; v++)
		if (streq(*v, entry))
			return 0;
	return strv_len(*out) < HOSTS_MAX ? strv_add(out, entry) : 0;
}

/* Every URL in a text. */
static int add_urls(char ***out, const char *text)
{
	char host[ALLOW_NAME + 16];
	int r = 0;

	for (const char *p = text; p && *p && r == 0;) {
		if (registries_host(p, host, sizeof host) == 0)
			r = add(out, host);
		p += strcspn(p, ",| \t\"'");
		p += strspn(p, ",| \t\"'");
	}
	return r;
}

/* "key = value", "key: value", "@scope:registry=value"; one of the keys. */
static const char *value_of(char *line, const char *keys)
{
	line += strspn(line, " \t");
	if (*line == '#' || *line == ';')
		return NULL;
	size_t n = strcspn(line, "=");
	if (!line[n]) /* YAML */
		n = strcspn(line, ":");
	if (!line[n])
		return NULL;
	char *value = line + n + 1;
	line[n] = '\0';
	while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t'))
		line[--n] = '\0';
	const char *key = line;
	const char *scope = strrchr(line, ':'); /* of npm: @scope:registry */
	if (*line == '@' && scope)
		key = scope + 1;
	for (const char *k = keys; k; k = strchr(k, '|')) {
		k += *k == '|';
		size_t len = strcspn(k, "|");
		if (strlen(key) == len && strncmp(k, key, len) == 0)
			return value + strspn(value, " \t\"'[");
	}
	return NULL;
}

/* NULL when it is not there, not a plain file, or too large: then it says
 * nothing. */
static char *read_file(const char *home, const char *path)
{
	cleanup_free char *full = NULL;
	char *text = NULL;
	struct stat st;
	size_t len;

	if (path[0] == '~') {
		full = home ? str_fmt("%s%s", home, path + 1) : NULL;
		path = full;
	}
	cleanup_close int fd = path ? openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC |
							     O_NONBLOCK) : -1;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (st.st_mode & S_IWOTH) || (st.st_uid != 0 && st.st_uid != geteuid()) ||
	    fd_read_all(fd, FILE_MAX_BYTES, &text, &len) < 0)
		return NULL;
	return text;
}

static int from_file(const char *home, const char *path, const char *keys,
		     char ***out)
{
	cleanup_free char *text = read_file(home, path);
	char *save = NULL;
	int r = 0;

	for (char *line = text ? strtok_r(text, "\r\n", &save) : NULL; line && r == 0;
	     line = strtok_r(NULL, "\r\n", &save)) {
		const char *v = value_of(line, keys);
		if (v)
			r = add_urls(out, v);
	}
	return r;
}

/* One allow-list entry per line, written by the operator. */
static int from_operator(char ***out)
{
	cleanup_free char *text = read_file(NULL, BRIG_REGISTRIES);
	char *save = NULL, why[120];
	struct allow_entry e;
	int r = 0;

	for (char *line = text ? strtok_r(text, "\r\n", &save) : NULL; line && r == 0;
	     line = strtok_r(NULL, "\r\n", &save)) {
		line += strspn(line, " \t");
		line[strcspn(line, " \t#")] = '\0';
		if (*line && allow_parse(line, &e, why, sizeof why) == 0 &&
		    e.kind != ALLOW_GROUP)
			r = add(out, line);
	}
	return r;
}

int registries_find(const char *home, const char *(*env)(const char *name),
		    char ***out)
{
	int r = from_operator(out);

	for (size_t i = 0; i < ARRAY_LEN(variables) && r == 0; i++) {
		const char *v = env(variables[i]);
		if (v)
			r = add_urls(out, v);
	}
	for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++)
		r = from_file(home, files[i].path, files[i].keys, out);
	return r;
}
