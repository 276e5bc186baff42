/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

const struct schema_top schema_top[SCHEMA_TOP_COUNT] = {
	{ "version", "number", "of this format: 1" },
	{ "include", "list", "files read before this one; it has the last word" },
	{ "profile", "text", "the profile that applies when a run names none" },
	{ "sandbox", "mapping", "the policy for everything" },
	{ "lock", "list", "keys of sandbox that no later layer may loosen" },
	{ "profiles", "mapping", "NAME: {sandbox: ...}, chosen with --profile" },
	{ "tools", "mapping", "NAME: {sandbox: ...}, chosen with --tool; \"*\" for the others" },
	{ "tenants_dir", "text", "directory with one NAME.yaml per tenant" },
	{ "description", "text", "for people" },
};

const struct schema_section schema_sections[SCHEMA_SECTIONS] = {
	{ "workspace", "the one tree that persists", OPT__COUNT },
	{ "filesystem", "what else is there", OPT__COUNT },
	{ "network", "none unless something is allowed", OPT_NET },
	{ "env", "the environment inside; nothing is inherited", OPT__COUNT },
	{ "limits", "0 means no limit", OPT__COUNT },
	{ "docker", "the docker backend", OPT__COUNT },
};

const struct schema_section *schema_section(const char *name)
{
	for (unsigned i = 0; i < SCHEMA_SECTIONS; i++)
		if (streq(schema_sections[i].name, name))
			return &schema_sections[i];
	return NULL;
}

static int from_megabytes(const char *in, char *out, size_t cap)
{
	uint64_t n;

	if (parse_uint(in, 1u << 30, &n) < 0)
		return -EINVAL;
	snprintf(out, cap, "%" PRIu64 "M", n);
	return 0;
}

/*
 * Written in two ways: processors ("0.5"), or microseconds of each tenth of a
 * second, as the engine's own interface has it ("50000").  No machine has a
 * thousand processors to give away, and no quota is below a thousand.
 */
static int from_quota(const char *in, char *out, size_t cap)
{
	uint64_t milli;

	if (parse_milli(in, 1000ull * 1000 * 1000 * 1000, &milli) < 0)
		return -EINVAL;
	if (milli >= 1000000u)
		milli = (milli / 1000 + 99) / 100; /* µs of 100 ms to thousandths */
	snprintf(out, cap, "%" PRIu64 ".%03" PRIu64, milli / 1000, milli % 1000);
	return 0;
}

const struct schema_alias schema_aliases[SCHEMA_ALIASES] = {
	{ "memory_limit_mb", OPT_MEMORY, from_megabytes, "a whole number of megabytes",
	  "limits.memory in megabytes" },
	{ "cpu_quota", OPT_CPUS, from_quota, "processors (0.5) or microseconds (50000)",
	  "limits.cpus, also as microseconds of each 100 ms" },
};

/* The last part of a key path. */
static const char *leaf(const char *key)
{
	const char *dot = strrchr(key, '.');

	return dot ? dot + 1 : key;
}

static bool in_section(const char *key, const char *section)
{
	size_t n = strlen(section);

	if (!n)
		return !strchr(key, '.');
	return strncmp(key, section, n) == 0 && key[n] == '.';
}

void schema_suggest(const char *section, const char *key, char *out, size_t cap)
{
	const char *near = NULL, *elsewhere = NULL;
	unsigned least = 3, least_else = 2;

	for (unsigned i = 0; i < OPT__COUNT; i++) {
		const char *k = opt_table[i].key;
		if (!k)
			continue;
		unsigned d = word_distance(key, leaf(k));
		if (in_section(k, section) && d < least) {
			least = d;
			near = leaf(k);
		} else if (d < least_else || (opt_table[i].name &&
					      streq(opt_table[i].name, key))) {
			least_else = d;
			elsewhere = k;
		}
	}
	for (unsigned i = 0; !*section && i < SCHEMA_SECTIONS; i++) {
		unsigned d = word_distance(key, schema_sections[i].name);
		if (d < least) {
			least = d;
			near = schema_sections[i].name;
		}
	}
	for (unsigned i = 0; !*section && i < SCHEMA_ALIASES; i++) {
		unsigned d = word_distance(key, schema_aliases[i].key);
		if (d < least) {
			least = d;
			near = schema_aliases[i].key;
		}
	}
	if (near) {
		snprintf(out, cap, "did you mean '%s'?", near);
	} else if (elsewhere) {
		snprintf(out, cap, "did you mean '%s'?", elsewhere);
	} else {
		int at = snprintf(out, cap, "known here:");
		bool first = true;
		for (unsigned i = 0; i < OPT__COUNT && at > 0 && (size_t)at < cap; i++) {
			const char *k = opt_table[i].key;
			if (!k || !in_section(k, section))
				continue;
			at += snprintf(out + at, cap - (size_t)at, "%s %s",
				       first ? "" : ",", leaf(k));
			first = false;
		}
		for (unsigned i = 0; !*section && i < SCHEMA_SECTIONS && at > 0 &&
				     (size_t)at < cap; i++)
			at += snprintf(out + at, cap - (size_t)at, ", %s",
				       schema_sections[i].name);
	}
}
