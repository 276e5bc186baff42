/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles that every installation has, written as a person would. */
#include "base/str.h"
#include "policy/load.h"

static const struct {
	const char *name, *text, *sandbox;
} table[] = {
	{ "strict", "no network at all, the workspace read-only, no tools but the system's",
	  "network: {mode: none, loopback: off}\n"
	  "workspace: {access: ro}\n"
	  "toolchains: [none]\n"
	  "caches: private\n" },
	{ "default", "what holds without any configuration", "" },
	{ "dev", "the caller's tools and package caches, and the package registries "
		 "this machine is configured for",
	  "toolchains: [auto]\n"
	  "caches: shared\n"
	  "network: {mode: allow, allow: ['@registries']}\n"
	  "limits: {timeout: 600, pids: 1024}\n" },
	{ "offline-build", "the caller's tools and package caches, no network, time to "
			   "build",
	  "toolchains: [auto]\n"
	  "caches: shared\n"
	  "network: {mode: none}\n"
	  "limits: {timeout: 1800, pids: 2048, file_size: 4G}\n"
	  "filesystem: {tmp_size: 2G}\n" },
};

const char *profile_builtin(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (streq(table[i].name, name))
			return table[i].sandbox;
	return NULL;
}

const char *profile_nth(unsigned n, const char **text)
{
	if (n >= ARRAY_LEN(table))
		return NULL;
	if (text)
		*text = table[n].text;
	return table[n].name;
}
