/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers on top of one another: a property test that what is locked never gets
 * looser, whatever later layers say.  What "looser" means is decided here, by
 * what the two values would let through, and not by the code under test.
 *
 * Everything random comes from a seed, which is printed on failure;
 * BRIG_SEED=N runs that one alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "engine/layers.h"
#include "policy/merge.h"
#include "policy_text.h"

enum { ITERATIONS = 20000, LAYERS_MAX = 6 };

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

/* -- layers ---------------------------------------------------------------- */

static const char *const layer_names[] = { "zero", "system", "user", "profile x",
					   "tenant y", "tool z", "command line" };

/* A line number says which layer and option a word was written by, and as the
 * which of its words. */
static struct origin origin_of(unsigned rank, unsigned o, unsigned nth)
{
	return (struct origin){ .rank = (enum layer_rank)rank, .layer = layer_names[rank],
				.file = rank == RANK_RUN ? NULL : "f.yaml",
				.line = (rank * 100 + o) * 10 + nth, .column = rank };
}

static void random_value(struct brig_spec *s, enum opt o, unsigned rank)
{
	struct origin at = origin_of(rank, o, 0);

	if (is_list(o) && rnd(6) == 0 && rank != RANK_RUN) {
		assert_int_equal(request_clear(s, o, &at), 0);
		return;
	}
	/* a mapping in a file cannot have a name twice */
	bool once = opt_table[o].kind == OK_PAIRS && rank != RANK_RUN;
	for (unsigned n = is_list(o) ? 1 + rnd(3) : 1; n > 0; n--) {
		const char *word = pick(o);
		if (once && last_of(s->o[o].v, word))
			continue;
		at = origin_of(rank, o, (unsigned)strv_len(s->o[o].v));
		assert_int_equal(request_put(s, o, word, &at), 0);
	}
}

/* The options that a stack of layers is about.  Mostly few of them: of layers
 * that say much, hardly one gets past all locks. */
static bool active[OPT__COUNT];

static void choose_options(void)
{
	bool all = rnd(5) == 0;

	for (unsigned o = 0; o < OPT__COUNT; o++)
		active[o] = all;
	for (unsigned n = 1 + rnd(4); n > 0; n--)
		active[rnd(OPT__COUNT)] = true;
	if (rnd(6) == 0)
		active[OPT_ALLOW] = active[OPT_NET] = true;
}

static struct brig_spec *random_layer(unsigned rank, unsigned density)
{
	struct brig_spec *s = brig_spec_new();

	assert_non_null(s);
	for (unsigned o = 0; o < OPT__COUNT; o++) {
		if (!opt_table[o].key || !active[o])
			continue;
		if (rnd(density) == 0)
			random_value(s, (enum opt)o, rank);
		if (rank != RANK_RUN && rnd(density) == 0)
			s->lock[o] = origin_of(rank, o, 0);
	}
	return s;
}

static char *text_of(const struct brig_spec *s)
{
	struct buf b = { 0 };

	policy_text(&b, s, NULL);
	char *t = buf_take(&b, NULL);
	return t ? t : strdup("");
}

static struct brig_spec *copy_of(const struct brig_spec *s)
{
	struct brig_spec *c = brig_spec_new();

	assert_non_null(c);
	for (unsigned o = 0; o < OPT__COUNT; o++) {
		const struct req_value *rv = &s->o[o];
		for (size_t i = 0; rv->v && rv->v[i]; i++)
			assert_int_equal(request_put(c, (enum opt)o, rv->v[i], &rv->at[i]), 0);
		if (rv->here && !rv->v)
			assert_int_equal(request_clear(c, (enum opt)o, &rv->at[0]), 0);
		c->lock[o] = s->lock[o];
	}
	return c;
}

/* Every word in force was written by a layer that was accepted. */
static void check_origins(const struct brig_spec *s, struct brig_spec **layers,
			  const bool *taken)
{
	for (unsigned o = 0; o < OPT__COUNT; o++) {
		const struct req_value *rv = &s->o[o];
		for (size_t i = 0; rv->v && rv->v[i]; i++) {
			const struct origin *at = &rv->at[i];
			bool found = false;
			if (streq(at->layer, "built-in")) {
				found = opt_table[o].def && strstr(opt_table[o].def, rv->v[i]);
			} else {
				unsigned rank = at->line / 1000, by = at->line / 10 % 100;
				unsigned nth = at->line % 10;
				/* an allow-list, or learning one, says which network it
				 * is for */
				bool implied = o == OPT_NET && (by == OPT_ALLOW || by == OPT_LEARN) &&
					       streq(rv->v[i], "allow");
				found = rank && taken[rank] && (by == o || implied) &&
					streq(at->layer, layer_names[rank]);
				const struct req_value *from = rank ? &layers[rank]->o[o] : rv;
				bool there = implied;
				for (size_t k = 0; from->v && from->v[k]; k++)
					there = there || (k == nth && streq(from->v[k], rv->v[i]));
				found = found && there;
			}
			if (!found)
				broken("%s: '%s' comes from nowhere (%s:%u)", opt_table[o].key,
				       rv->v[i], at->layer, at->line);
		}
	}
}

static void check_accepted(const struct brig_spec *before, const struct brig_spec *after)
{
	for (unsigned i = 0; i < OPT__COUNT; i++) {
		enum opt o = (enum opt)i;
		if (!before->lock[o].layer)
			continue;
		if (!after->lock[o].layer || after->lock[o].line != before->lock[o].line)
			broken("%s lost its lock", opt_table[o].key);
		if (looser(o, before, after)) {
			cleanup_free char *a = text_of(before), *b = text_of(after);
			broken("%s is locked and got looser.\nBefore:\n%s\nAfter:\n%s",
			       opt_table[o].key, a, b);
		}
	}
}

static void one_stack(unsigned long n)
{
	struct brig_spec *layers[LAYERS_MAX + 1] = { NULL };
	bool taken[LAYERS_MAX + 1] = { false };
	struct brig_spec *in_force = brig_spec_new(), *again = brig_spec_new();

	seed(n);
	choose_options();
	unsigned density = 2 + rnd(active[OPT_BACKEND] && active[OPT_WRAPPER] ? 20 : 2);
	for (unsigned rank = RANK_SYSTEM; rank <= RANK_RUN; rank++) {
		struct brig_error err = { 0 };
		layers[rank] = random_layer(rank, density);
		struct brig_spec *before = copy_of(in_force);
		cleanup_free char *was = text_of(in_force);
		int r = layer_apply(in_force, layers[rank], &err);
		taken[rank] = r == 0;
		if (r == 0) {
			check_accepted(before, in_force);
			if (layer_apply(again, layers[rank], &err) != 0)
				broken("not accepted the second time: %s", err.message);
		} else {
			cleanup_free char *is = text_of(in_force);
			if (r != -EPERM || err.code != BRIG_E_LOCKED || !err.message[0])
				broken("%d: %s", r, err.message);
			/* refused as a whole: nothing of it is there */
			if (!streq(was, is))
				broken("a refused layer left something:\n%s\nnow:\n%s", was, is);
		}
		brig_spec_free(before);
	}
	cleanup_free char *a = text_of(in_force), *b = text_of(again);
	if (!streq(a, b))
		broken("the same layers, two results:\n%s\n%s", a, b);
	check_origins(in_force, layers, taken);
	for (unsigned rank = RANK_SYSTEM; rank <= RANK_RUN; rank++)
		brig_spec_free(layers[rank]);
	/* the origins live on without the layers they were copied from */
	cleanup_free char *c = text_of(in_force);
	assert_string_equal(a, c);
	brig_spec_free(in_force);
	brig_spec_free(again);
}

static void locked_values_never_get_looser(void **state)
{
	const char *given = getenv("BRIG_SEED");

	(void)state;
	if (given) {
		one_stack(strtoul(given, NULL, 10));
		return;
	}
	for (unsigned long n = 0; n < ITERATIONS; n++)
		one_stack(n);
}

/* The property must be able to fail: both outcomes are common. */
static void the_property_is_not_vacuous(void **state)
{
	unsigned accepted = 0, refused = 0;

	(void)state;
	for (unsigned long n = 0; n < 2000; n++) {
		struct brig_spec *to = brig_spec_new();
		struct brig_error err = { 0 };
		seed(n);
		unsigned o = rnd(OPT__COUNT);
		if (opt_table[o].key) {
			struct origin at = origin_of(RANK_SYSTEM, o, 0);
			struct brig_spec *first = brig_spec_new(), *second = brig_spec_new();
			random_value(first, (enum opt)o, RANK_SYSTEM);
			first->lock[o] = at;
			random_value(second, (enum opt)o, RANK_TOOL);
			assert_int_equal(layer_apply(to, first, &err), 0);
			struct brig_spec *plain = brig_spec_new(), *locked = copy_of(to);
			/* what it would be without the lock */
			for (unsigned i = 0; i < OPT__COUNT; i++)
				first->lock[i] = (struct origin){ 0 };
			assert_int_equal(layer_apply(plain, first, &err), 0);
			assert_int_equal(layer_apply(plain, second, &err), 0);
			bool would = looser((enum opt)o, locked, plain);
			int r = layer_apply(to, second, &err);
			if (would && r == 0)
				broken("%s: loosened", opt_table[o].key);
			accepted += r == 0;
			refused += would;
			brig_spec_free(first);
			brig_spec_free(second);
			brig_spec_free(plain);
			brig_spec_free(locked);
		}
		brig_spec_free(to);
	}
	assert_true(accepted > 300 && refused > 300);
}

static void every_key_has_a_rule(void **state)
{
	(void)state;
	for (unsigned o = 0; o < OPT__COUNT; o++) {
		if (opt_table[o].key && how((enum opt)o) < 0)
			fail_msg("%s: this test does not know what loosens it",
				 opt_table[o].key);
		if (!opt_table[o].key && how((enum opt)o) >= 0)
			fail_msg("%s has no key", opt_table[o].name);
	}
}

static void nothing_changes_nothing(void **state)
{
	struct brig_spec *empty = brig_spec_new();
	struct brig_error err = { 0 };

	(void)state;
	for (unsigned long n = 0; n < 500; n++) {
		seed(n);
		choose_options();
		struct brig_spec *s = brig_spec_new(), *l = random_layer(RANK_USER, 2);
		assert_int_equal(layer_apply(s, empty, &err), 0);
		cleanup_free char *zero = text_of(s);
		assert_string_equal(zero, "");
		assert_int_equal(layer_apply(s, l, &err), 0);
		cleanup_free char *a = text_of(s);
		assert_int_equal(layer_apply(s, empty, &err), 0);
		cleanup_free char *b = text_of(s);
		assert_string_equal(a, b);
		brig_spec_free(s);
		brig_spec_free(l);
	}
	brig_spec_free(empty);
}

/* -- single cases, by hand -------------------------------------------------- */

/* "rank:key=value value", the same order as written. */
static struct brig_spec *layer(unsigned rank, const char *text)
{
	struct brig_spec *s = brig_spec_new();
	cleanup_free char *copy = strdup(text);
	char *save = NULL;

	for (char *item = strtok_r(copy, ";", &save); item;
	     item = strtok_r(NULL, ";", &save)) {
		while (*item == ' ')
			item++;
		bool lock = strncmp(item, "lock ", 5) == 0;
		char *eq = strchr(item, '='), *inner = NULL;
		if (eq)
			*eq = '\0';
		enum opt o = opt_by_key(lock ? item + 5 : item);
		if (o == OPT__COUNT)
			fail_msg("no key %s", item);
		struct origin at = origin_of(rank, o, 0);
		if (lock)
			s->lock[o] = at;
		else if (!eq[1])
			assert_int_equal(request_clear(s, o, &at), 0);
		for (char *w = eq ? strtok_r(eq + 1, " ", &inner) : NULL; w;
		     w = strtok_r(NULL, " ", &inner))
			assert_int_equal(request_put(s, o, w, &at), 0);
	}
	return s;
}

static char *words_of(const struct brig_spec *s, enum opt o)
{
	bool failed;
	char **v = request_list(s, o, &failed);
	struct buf b = { 0 };

	buf_adds(&b, "");
	for (char **w = v; w && *w; w++)
		buf_addf(&b, "%s%s", w == v ? "" : " ", *w);
	strv_free(v);
	return b.data ? buf_take(&b, NULL) : strdup("");
}

static void how_lists_combine(void **state)
{
	static const struct {
		const char *key, *file, *later, *run, *made;
	} t[] = {
		/* what opens: the last file's, and the run's on top */
		{ "filesystem.read", "/a /b", "/c", NULL, "/c" },
		{ "filesystem.read", "/a", NULL, "/b", "/a /b" },
		{ "filesystem.read", "/a", "/b", "/c", "/b /c" },
		{ "filesystem.read", "/a", NULL, "/a", "/a" }, /* not two binds in one place */
		{ "filesystem.read", "/a", "", NULL, "" },
		{ "filesystem.write", "/a", "", "/b", "/b" },
		{ "network.allow", "a.x:1", "b.x:1", "c.x:1", "b.x:1 c.x:1" },
		{ "env.pass", NULL, NULL, "A", "LANG LC_ALL TERM TZ A" },
		{ "env.pass", "A", NULL, NULL, "A" },
		{ "env.pass", "", NULL, NULL, "" },
		{ "add_caps", "CHOWN", "NET_RAW", NULL, "NET_RAW" },
		{ "env.path_prepend", "/a", "/b", NULL, "/b" },
		/* words in one option are that option's whole value */
		{ "toolchains", "auto", NULL, "none", "none" },
		{ "fallback", "landlock", NULL, "docker", "docker" },
		/* what closes adds up, and an empty list adds nothing */
		{ "filesystem.mask", "/a", "/b", "/c", "/a /b /c" },
		{ "filesystem.mask", "/a", "", "/a", "/a" },
		{ "require", "user", "net", "pid", "user net pid" },
		{ "require", "user", "", NULL, "user" },
		{ "drop_caps", "CHOWN", NULL, NULL, "ALL CHOWN" },
		{ "drop_caps", "", NULL, NULL, "ALL" },
		{ "workspace.protect", "ci", "Makefile", "ci", "ci Makefile" },
		{ "workspace.protect", "ci", NULL, "none", "ci none" },
		/* 'none' drops what was there; what follows it stays */
		{ "workspace.protect", "ci", NULL, "none ci", "ci none ci" },
		{ "workspace.protect", "ci", "none ci", "ci", "ci none ci" },
		{ "env.set", "A=1 B=1", "A=2", "C=3", "B=1 A=2 C=3" },
		{ "env.set", "A=1", "", "A", "A" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct brig_spec *s = brig_spec_new();
		const char *const parts[] = { t[i].file, t[i].later, t[i].run };
		static const unsigned ranks[] = { RANK_SYSTEM, RANK_TOOL, RANK_RUN };
		for (size_t k = 0; k < 3; k++) {
			char text[200];
			struct brig_error err = { 0 };
			if (!parts[k])
				continue;
			snprintf(text, sizeof text, "%s=%s", t[i].key, parts[k]);
			struct brig_spec *l = layer(ranks[k], text);
			assert_int_equal(layer_apply(s, l, &err), 0);
			brig_spec_free(l);
		}
		cleanup_free char *made = words_of(s, opt_by_key(t[i].key));
		if (!streq(made, t[i].made))
			fail_msg("%s: %s, %s, %s make '%s', not '%s'", t[i].key,
				 t[i].file ? t[i].file : "-", t[i].later ? t[i].later : "-",
				 t[i].run ? t[i].run : "-", made, t[i].made);
		brig_spec_free(s);
	}
}

/* A list that requires nothing is not the same as no list. */
static void an_empty_require_is_no_require(void **state)
{
	struct brig_spec *s = brig_spec_new(), *l = layer(RANK_USER, "require=");
	struct brig_error err = { 0 };

	(void)state;
	assert_int_equal(layer_apply(s, l, &err), 0);
	assert_false(request_has(s, OPT_REQUIRE));
	brig_spec_free(s);
	brig_spec_free(l);
}

static void what_an_allow_list_implies(void **state)
{
	static const struct {
		const char *first, *second, *mode; /* NULL: refused */
	} t[] = {
		{ "", "network.allow=a.x:1", "allow" },
		{ "network.mode=none", "network.allow=a.x:1", "allow" },
		{ "network.mode=host", "network.allow=a.x:1", "allow" },
		{ "network.mode=none; lock network.mode", "network.allow=a.x:1", NULL },
		{ "network.mode=allow; lock network.mode", "network.allow=a.x:1", "allow" },
		{ "network.mode=host; lock network.mode", "network.allow=a.x:1", "allow" },
		{ "lock network.mode", "network.allow=a.x:1", NULL },
		{ "network.mode=host", "network.allow=", "host" },
		{ "network.allow=a.x:1", "network.mode=none", "none" },
		{ "network.allow=a.x:1", "network.mode=host", "host" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct brig_spec *s = brig_spec_new();
		struct brig_spec *a = layer(RANK_USER, t[i].first), *b = layer(RANK_RUN,
									      t[i].second);
		struct brig_error err = { 0 };
		assert_int_equal(layer_apply(s, a, &err), 0);
		int r = layer_apply(s, b, &err);
		if ((r == 0) != (t[i].mode != NULL))
			fail_msg("%s, %s: %d %s", t[i].first, t[i].second, r, err.message);
		if (t[i].mode && !streq(request_text(s, OPT_NET), t[i].mode))
			fail_msg("%s, %s: mode %s", t[i].first, t[i].second,
				 request_text(s, OPT_NET));
		brig_spec_free(s);
		brig_spec_free(a);
		brig_spec_free(b);
	}
}

/* What tightens must be possible, or locks would be of no use. */
static void tightening_is_fine(void **state)
{
	static const struct {
		const char *first, *second;
		bool ok;
	} t[] = {
		{ "limits.memory=1G; lock limits.memory", "limits.memory=1G", true },
		{ "limits.memory=1G; lock limits.memory", "limits.memory=512M", true },
		{ "limits.memory=1G; lock limits.memory", "limits.memory=1025M", false },
		{ "limits.memory=1G; lock limits.memory", "limits.memory=0", false },
		{ "limits.memory=0; lock limits.memory", "limits.memory=1T", true },
		{ "lock limits.memory", "limits.memory=1G", true }, /* the default */
		{ "lock limits.memory", "limits.memory=2G", false },
		{ "lock limits.disk", "limits.disk=2G", true },
		{ "lock limits.timeout", "limits.timeout=60.001", false },
		{ "lock limits.cpus", "limits.cpus=0.5", true },
		{ "workspace.access=rw; lock workspace.access", "workspace.access=ro", true },
		{ "workspace.access=ro; lock workspace.access", "workspace.access=rw", false },
		{ "lock workspace.allow_home", "workspace.allow_home=false", true },
		{ "lock workspace.allow_home", "workspace.allow_home=true", false },
		{ "mode=docker; lock mode", "mode=docker", true },
		{ "mode=docker; lock mode", "mode=native", false },
		{ "lock mode", "mode=native", true },
		{ "lock mode", "mode=none", false },
		{ "filesystem.read=/opt; lock filesystem.read", "filesystem.read=/opt/x", true },
		{ "filesystem.read=/opt; lock filesystem.read", "filesystem.read=/opt/../etc", false },
		{ "filesystem.read=/opt; lock filesystem.read", "filesystem.read=/optx", false },
		{ "filesystem.read=/opt; lock filesystem.read", "filesystem.read=/opt:/x", false },
		{ "filesystem.read=/a:/x; lock filesystem.read", "filesystem.read=/a:/x", true },
		{ "lock filesystem.write", "filesystem.write=/a", false },
		{ "lock filesystem.mask", "filesystem.mask=/a", true },
		{ "lock workspace.protect", "workspace.protect=ci", true },
		{ "lock workspace.protect", "workspace.protect=none", false },
		{ "network.allow=*.x.y; lock network.allow", "network.allow=a.x.y:443", true },
		{ "network.allow=*.x.y; lock network.allow", "network.allow=x.y", false },
		{ "env.set=A=1; lock env.set", "env.set=A=1", true },
		{ "env.set=A=1; lock env.set", "env.set=A=2", false },
		{ "env.set=A=1; lock env.set", "env.set=B=1", false },
		{ "lock env.pass", "env.pass=LANG", true },
		{ "lock env.pass", "env.pass=HOME", false },
		{ "lock add_caps", "add_caps=NET_RAW", false },
		{ "lock drop_caps", "drop_caps=NET_RAW", true },
		{ "require=user net; lock require", "require=pid", true },
		/* nothing listed means that all must hold: a list would be less */
		{ "lock require", "require=net", false },
		{ "lock toolchains", "toolchains=none", true },
		{ "toolchains=none; lock toolchains", "toolchains=auto", false },
		{ "workspace.path=/w; lock workspace.path", "workspace.path=/w/a", true },
		{ "workspace.path=/w; lock workspace.path", "workspace.path=a", false },
		{ "workspace.path=/w; lock workspace.path", "workspace.path=/w/..", false },
		{ "read_only=true; lock read_only", "read_only=false", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		struct brig_spec *s = brig_spec_new();
		struct brig_spec *a = layer(RANK_SYSTEM, t[i].first), *b = layer(RANK_RUN,
										t[i].second);
		struct brig_error err = { 0 };
		assert_int_equal(layer_apply(s, a, &err), 0);
		int r = layer_apply(s, b, &err);
		if ((r == 0) != t[i].ok)
			fail_msg("%s, then %s: %d %s", t[i].first, t[i].second, r, err.message);
		if (r < 0) {
			assert_int_equal(err.code, BRIG_E_LOCKED);
			assert_non_null(strstr(err.message, "f.yaml:"));
			assert_true(err.fix[0]);
		}
		brig_spec_free(s);
		brig_spec_free(a);
		brig_spec_free(b);
	}
}

/* The message is for people; a value of a variable is not. */
static void refusals_name_no_values(void **state)
{
	struct brig_spec *s = brig_spec_new();
	struct brig_spec *a = layer(RANK_SYSTEM, "lock env.set"),
			 *b = layer(RANK_RUN, "env.set=TOKEN=topsecret");
	struct brig_error err = { 0 };

	(void)state;
	assert_int_equal(layer_apply(s, a, &err), 0);
	assert_int_equal(layer_apply(s, b, &err), -EPERM);
	assert_non_null(strstr(err.message, "TOKEN"));
	assert_null(strstr(err.message, "topsecret"));
	brig_spec_free(s);
	brig_spec_free(a);
	brig_spec_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_has_a_rule),
		cmocka_unit_test(how_lists_combine),
		cmocka_unit_test(an_empty_require_is_no_require),
		cmocka_unit_test(what_an_allow_list_implies),
		cmocka_unit_test(tightening_is_fine),
		cmocka_unit_test(refusals_name_no_values),
		cmocka_unit_test(nothing_changes_nothing),
		cmocka_unit_test(the_property_is_not_vacuous),
		cmocka_unit_test(locked_values_never_get_looser),
	};

	return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
