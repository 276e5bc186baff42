/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_merge.c: values to draw from, by a seed, and the oracle, which says whether
 * one value lets something through that another did not.  It knows what values mean
 * and nothing of the code under test.
 */
#ifndef TESTS_MERGE_ORACLE_H
#define TESTS_MERGE_ORACLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/layers.h"
#include "policy/merge.h"

static uint64_t random_state;
static unsigned long seed_now;

static unsigned rnd(unsigned below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state >> 20) % below;
}

static void seed(unsigned long n)
{
	seed_now = n;
	random_state = 0x9e3779b97f4a7c15ull * (n + 1);
	for (int i = 0; i < 10; i++)
		rnd(2);
}

#define broken(...)                                                   \
	do {                                                          \
		fprintf(stderr, "BRIG_SEED=%lu repeats this\n", seed_now); \
		fail_msg(__VA_ARGS__);                                \
	} while (0)

/* -- values to choose from ------------------------------------------------- */

static const char *const paths[] = {
	"/opt", "/opt/tools", "/opt/tools/bin", "/opt/tool", "/srv", "/srv/data:/data",
	"/srv/data", "/srv/data:/opt/data", "/", NULL,
};
static const char *const hosts[] = {
	"example.com", "example.com:443", "www.example.com", "www.example.com:80",
	"*.example.com", "*.example.com:443", "*.www.example.com:443,80",
	"badexample.com", "192.0.2.0/24", "192.0.2.0/24:80", "192.0.2.0/25:80", "192.0.2.7",
	"192.0.2.200:443", "0.0.0.0/0:443", "@registries", NULL,
};
static const char *const names[] = { "A", "B", "LANG", "TERM", NULL };
static const char *const pairs[] = { "A=1", "A=2", "B=1", "B", "C=", NULL };
static const char *const dirs[] = { "/a/bin", "/b/bin", "/c", NULL };
static const char *const caps[] = { "ALL", "NET_RAW", "CHOWN", NULL };
static const char *const masks[] = { "/x", "/y", "/z", NULL };
static const char *const protects[] = { "none", "Makefile", "ci", ".env", NULL };
static const char *const backends[] = { "native", "landlock", "docker", "none", NULL };
static const char *const fallbacks[] = { "landlock", "docker", "bwrap", NULL };
static const char *const workspaces[] = { "/w", "/w/a", "/w/a/b", "/wa", "/", NULL };
static const char *const required[] = { "user", "net", "seccomp", "memory", NULL };
static const char *const toolchains[] = { "auto", "none", NULL };
static const char *const texts[] = { "one", "two", "same", "default", NULL };
static const char *const flags[] = { "true", "false", NULL };
static const char *const access_words[] = { "ro", "rw", NULL };
static const char *const nets[] = { "none", "allow", "host", NULL };
static const char *const switches[] = { "on", "off", NULL };
static const char *const caches[] = { "private", "shared", NULL };

/* Numbers with what they mean, so that no code under test has to say so. */
static const struct {
	const char *text;
	double value;
} sizes[] = { { "0", 0 }, { "1M", 1048576 }, { "1048576", 1048576 }, { "2M", 2097152 },
	      { "1.5M", 1572864 }, { "1G", 1073741824 }, { "1T", 1099511627776 },
	      { "256M", 268435456 }, { "300M", 314572800 } },
  decimals[] = { { "0", 0 }, { "0.5", 0.5 }, { "1", 1 }, { "1.0", 1 }, { "1.25", 1.25 },
		 { "60", 60 }, { "61", 61 }, { "300", 300 } },
  counts[] = { { "0", 0 }, { "2", 2 }, { "256", 256 }, { "257", 257 }, { "64", 64 } };

static double number_of(enum opt_kind kind, const char *text)
{
	if (!text)
		return 0;
	if (kind == OK_SIZE) {
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
			if (streq(sizes[i].text, text))
				return sizes[i].value;
	} else if (kind == OK_MILLI) {
		for (size_t i = 0; i < ARRAY_LEN(decimals); i++)
			if (streq(decimals[i].text, text))
				return decimals[i].value;
	} else {
		for (size_t i = 0; i < ARRAY_LEN(counts); i++)
			if (streq(counts[i].text, text))
				return counts[i].value;
	}
	broken("no number for %s", text);
	return 0;
}

static const char *const *pool(enum opt o)
{
	switch (o) {
	case OPT_BACKEND: return backends;
	case OPT_FALLBACK: return fallbacks;
	case OPT_REQUIRE: return required;
	case OPT_WORKSPACE: return workspaces;
	case OPT_ACCESS: return access_words;
	case OPT_PROTECT: return protects;
	case OPT_RO:
	case OPT_RW: return paths;
	case OPT_MASK: return masks;
	case OPT_NET: return nets;
	case OPT_ALLOW: return hosts;
	case OPT_LOOPBACK: return switches;
	case OPT_ENV: return pairs;
	case OPT_ENV_PASS: return names;
	case OPT_PATH_PREPEND: return dirs;
	case OPT_TOOLCHAINS: return toolchains;
	case OPT_CACHES: return caches;
	case OPT_DROP_CAPS:
	case OPT_ADD_CAPS: return caps;
	case OPT_ALLOW_HOME:
	case OPT_LEARN:
	case OPT_PROXY_ENV:
	case OPT_READ_ONLY: return flags;
	default: return texts;
	}
}

static const char *pick(enum opt o)
{
	const char *const *p = pool(o);
	unsigned n = 0;

	switch (opt_table[o].kind) {
	case OK_SIZE:
		/* 0 is no size of /tmp */
		return sizes[o == OPT_TMP_SIZE ? 1 + rnd(ARRAY_LEN(sizes) - 1) :
						 rnd(ARRAY_LEN(sizes))].text;
	case OK_MILLI:
		return decimals[rnd(ARRAY_LEN(decimals))].text;
	case OK_COUNT:
		return counts[rnd(ARRAY_LEN(counts))].text;
	default:
		while (p[n])
			n++;
		return p[rnd(n)];
	}
}

static bool is_list(enum opt o)
{
	enum opt_kind k = opt_table[o].kind;

	return k == OK_LIST || k == OK_WORDS || k == OK_PAIRS || k == OK_ARGV;
}

/* -- what a value lets through --------------------------------------------- */

static bool under(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (streq(dir, "/"))
		return true;
	return strncmp(path, dir, n) == 0 && (!path[n] || path[n] == '/');
}

/* A host path seen at a path inside through one bind. */
static bool bind_shows(const char *bind, const char *host, const char *inside)
{
	char src[64];
	const char *colon = strchr(bind, ':');

	snprintf(src, sizeof src, "%.*s", (int)(colon ? colon - bind : 60), bind);
	if (!under(host, src))
		return false;
	if (!colon)
		return streq(host, inside);
	char at[128];
	snprintf(at, sizeof at, "%s%s", colon + 1, host + strlen(src));
	return streq(at, inside);
}

static const struct {
	const char *host, *inside;
} bind_probes[] = {
	{ "/opt", "/opt" }, { "/opt/tools", "/opt/tools" },
	{ "/opt/tools/bin", "/opt/tools/bin" }, { "/opt/tools/lib", "/opt/tools/lib" },
	{ "/opt/tool", "/opt/tool" }, { "/opt/tool/x", "/opt/tool/x" },
	{ "/srv", "/srv" }, { "/srv/x", "/srv/x" }, { "/srv/data", "/srv/data" },
	{ "/srv/data/x", "/srv/data/x" }, { "/srv/data/x", "/data/x" },
	{ "/srv/data", "/data" }, { "/srv/data/x", "/opt/data/x" }, { "/etc", "/etc" },
};

struct net_probe {
	const char *host; /* a name or an address in dots */
	unsigned port;
};
static const struct net_probe net_probes[] = {
	{ "example.com", 443 }, { "example.com", 80 }, { "example.com", 22 },
	{ "www.example.com", 443 }, { "www.example.com", 80 }, { "www.example.com", 22 },
	{ "a.www.example.com", 443 }, { "a.www.example.com", 80 },
	{ "api.example.com", 443 }, { "api.example.com", 80 }, { "badexample.com", 443 },
	{ "192.0.2.7", 443 }, { "192.0.2.7", 80 }, { "192.0.2.200", 443 },
	{ "192.0.2.200", 80 }, { "203.0.113.1", 443 }, { "203.0.113.1", 80 },
	{ "@registries", 443 },
};

static uint32_t dotted(const char *text)
{
	unsigned a, b, c, d;

	if (sscanf(text, "%u.%u.%u.%u", &a, &b, &c, &d) != 4)
		broken("%s", text);
	return (uint32_t)(a << 24 | b << 16 | c << 8 | d);
}

static bool is_address(const char *text)
{
	return text[0] >= '0' && text[0] <= '9';
}

/* An entry of the list above, read once more in the plainest way. */
static bool entry_lets(const char *text, const struct net_probe *p)
{
	char host[64], ports[64] = "443,80", want[16];
	unsigned bits = 32;

	if (text[0] == '@')
		return streq(text, p->host);
	snprintf(host, sizeof host, "%s", text);
	char *colon = strchr(host, ':');
	if (colon) {
		*colon = '\0';
		snprintf(ports, sizeof ports, "%s", colon + 1);
	}
	bool port = false;
	snprintf(want, sizeof want, "%u", p->port);
	char *save = NULL;
	for (char *w = strtok_r(ports, ",", &save); w; w = strtok_r(NULL, ",", &save))
		port = port || streq(w, want);
	if (!port || p->host[0] == '@')
		return false;
	if (is_address(host) != is_address(p->host))
		return false;
	if (is_address(host)) {
		char *slash = strchr(host, '/');
		if (slash) {
			*slash = '\0';
			bits = (unsigned)atoi(slash + 1);
		}
		uint32_t mask = bits ? ~0u << (32 - bits) : 0;
		return ((dotted(host) ^ dotted(p->host)) & mask) == 0;
	}
	if (host[0] != '*')
		return streq(host, p->host);
	size_t n = strlen(p->host), t = strlen(host) - 1; /* with its dot */
	return n > t && streq(p->host + n - t, host + 1);
}

/* Every thing of a kind that could be let through, by number. */
static bool lets(enum opt o, char **list, unsigned thing)
{
	for (char **w = list; w && *w; w++) {
		bool yes = false;
		if (o == OPT_RO || o == OPT_RW)
			yes = bind_shows(*w, bind_probes[thing].host,
					 bind_probes[thing].inside);
		else if (o == OPT_ALLOW)
			yes = entry_lets(*w, &net_probes[thing]);
		else if (o == OPT_TOOLCHAINS)
			yes = streq(*w, "auto");
		else
			yes = streq(*w, pool(o)[thing]);
		if (yes)
			return true;
	}
	return false;
}

static unsigned things(enum opt o)
{
	unsigned n = 0;

	if (o == OPT_RO || o == OPT_RW)
		return ARRAY_LEN(bind_probes);
	if (o == OPT_ALLOW)
		return ARRAY_LEN(net_probes);
	while (pool(o)[n])
		n++;
	return n;
}

/* A word of a list that closes something is in force: "none" takes away what
 * stood before it, the built-in list (here: "built-in") included. */
static bool closes(enum opt o, char **list, const char *word)
{
	bool on = o == OPT_PROTECT && streq(word, "built-in");

	for (char **w = list; w && *w; w++) {
		if (o == OPT_PROTECT && streq(*w, "none"))
			on = false;
		else if (streq(*w, word))
			on = true;
	}
	return on;
}

/* The layers that must hold: all of them unless somebody listed some. */
static bool requires(const struct brig_spec *s, char **list, const char *word)
{
	enum layer l = layer_by_name(word, strlen(word));

	if (!request_has(s, OPT_REQUIRE))
		return LAYERS_BASE & LAYER_BIT(l);
	return closes(OPT_REQUIRE, list, word);
}

static unsigned word_rank(enum opt o, const char *word)
{
	static const struct {
		enum opt o;
		const char *word;
		unsigned rank;
	} t[] = {
		{ OPT_ACCESS, "ro", 0 }, { OPT_ACCESS, "rw", 1 },
		{ OPT_NET, "none", 0 }, { OPT_NET, "allow", 1 }, { OPT_NET, "host", 2 },
		{ OPT_LOOPBACK, "off", 0 }, { OPT_LOOPBACK, "on", 1 },
		{ OPT_CACHES, "private", 0 }, { OPT_CACHES, "shared", 1 },
		{ OPT_ALLOW_HOME, "false", 0 }, { OPT_ALLOW_HOME, "true", 1 },
		{ OPT_LEARN, "false", 0 }, { OPT_LEARN, "true", 1 },
		{ OPT_PROXY_ENV, "false", 0 }, { OPT_PROXY_ENV, "true", 1 },
		{ OPT_READ_ONLY, "true", 0 }, { OPT_READ_ONLY, "false", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		if (t[i].o == o && streq(t[i].word, word))
			return t[i].rank;
	broken("%s: no place for %s", opt_table[o].key, word);
	return 0;
}

/* Each key once: how its values compare.  A key that is missing here fails. */
static const struct {
	enum opt o;
	enum { NUMBER, RANKED, OPENS, CLOSES, SAME, BELOW, PAIRS } how;
} rules[] = {
	{ OPT_BACKEND, SAME }, { OPT_FALLBACK, OPENS }, { OPT_REQUIRE, CLOSES },
	{ OPT_WORKSPACE, BELOW }, { OPT_ROOT, SAME }, { OPT_AT, SAME },
	{ OPT_ACCESS, RANKED }, { OPT_PROTECT, CLOSES }, { OPT_ALLOW_HOME, RANKED },
	{ OPT_RO, OPENS }, { OPT_RW, OPENS }, { OPT_MASK, CLOSES },
	{ OPT_TMP_SIZE, NUMBER }, { OPT_NET, RANKED }, { OPT_ALLOW, OPENS },
	{ OPT_LEARN, RANKED }, { OPT_PROXY_ENV, RANKED },
	{ OPT_LOOPBACK, RANKED }, { OPT_ENV, PAIRS }, { OPT_ENV_PASS, OPENS },
	{ OPT_PATH_PREPEND, OPENS }, { OPT_TOOLCHAINS, OPENS }, { OPT_CACHES, RANKED },
	{ OPT_TIMEOUT, NUMBER }, { OPT_MEMORY, NUMBER }, { OPT_CPUS, NUMBER },
	{ OPT_PIDS, NUMBER }, { OPT_FILE_SIZE, NUMBER }, { OPT_MAX_OUTPUT, NUMBER },
	{ OPT_DISK, NUMBER }, { OPT_SECCOMP, SAME }, { OPT_IMAGE, SAME },
	{ OPT_RUNTIME, SAME }, { OPT_READ_ONLY, RANKED }, { OPT_DROP_CAPS, CLOSES },
	{ OPT_ADD_CAPS, OPENS }, { OPT_DOCKER_SOCKET, SAME }, { OPT_DOCKER_POOL, SAME },
	{ OPT_DOCKER_IDLE, SAME }, { OPT_WRAPPER, SAME },
};

static int how(enum opt o)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (rules[i].o == o)
			return (int)rules[i].how;
	return -1;
}

static bool lists_equal(char **a, char **b)
{
	size_t n = strv_len(a);

	if (n != strv_len(b))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!streq(a[i], b[i]))
			return false;
	return true;
}

/* The entry that counts for a name: the last one. */
static const char *last_of(char **list, const char *entry)
{
	size_t n = strcspn(entry, "=");
	const char *found = NULL;

	for (char **w = list; w && *w; w++)
		if (strcspn(*w, "=") == n && strncmp(*w, entry, n) == 0)
			found = *w;
	return found;
}

/* Every name of the one has the same value in the other. */
static bool maps_equal(char **a, char **b)
{
	for (char **w = a; w && *w; w++) {
		const char *x = last_of(a, *w), *y = last_of(b, *w);
		if (!y || !streq(x, y))
			return false;
	}
	return true;
}

/* The oracle: does `after` let something through that `before` did not? */
static bool looser(enum opt o, const struct brig_spec *before,
		   const struct brig_spec *after)
{
	bool failed, worse = false;
	char **was = request_list(before, o, &failed), **is = request_list(after, o, &failed);
	const char *a = request_text(before, o), *b = request_text(after, o);
	enum opt_kind kind = opt_table[o].kind;

	switch (how(o)) {
	case NUMBER: {
		double x = number_of(kind, a), y = number_of(kind, b);
		worse = x > 0 && (y <= 0 || y > x);
		break;
	}
	case RANKED:
		worse = word_rank(o, b ? b : "false") > word_rank(o, a ? a : "false");
		break;
	case OPENS:
		for (unsigned i = 0; i < things(o); i++)
			worse = worse || (lets(o, is, i) && !lets(o, was, i));
		break;
	case CLOSES:
		for (unsigned i = 0; pool(o)[i]; i++) {
			const char *w = pool(o)[i];
			bool before_on = o == OPT_REQUIRE ? requires(before, was, w) :
							    closes(o, was, w);
			bool after_on = o == OPT_REQUIRE ? requires(after, is, w) :
							   closes(o, is, w);
			worse = worse || (before_on && !after_on);
		}
		worse = worse || (o == OPT_PROTECT && closes(o, was, "built-in") &&
				  !closes(o, is, "built-in"));
		break;
	case BELOW:
		/* without one it is where the caller stands */
		worse = a ? !b || !under(b, a) : b != NULL;
		break;
	case PAIRS:
		worse = !maps_equal(was, is) || !maps_equal(is, was);
		break;
	default:
		worse = !lists_equal(was, is);
		break;
	}
	strv_free(was);
	strv_free(is);
	return worse;
}

#endif
