/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile bytes for the readers of the toolchain presets.  The first byte
 * chooses: the caller's gitconfig, or a pyvenv.cfg.  Besides not crashing:
 *
 *  - an identity has no control character, and what brig writes from it reads
 *    back as the same; text that is refused changes nothing;
 *  - a base interpreter is a normalised absolute path, a version is digits and
 *    one dot, whatever was in the file.
 */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "policy/toolchain_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool truth)
{
	if (!truth)
		abort();
}

static void check_value(const char *s, size_t cap)
{
	size_t n = strnlen(s, cap);

	need(n < cap);
	for (size_t i = 0; i < n; i++)
		need((unsigned char)s[i] >= ' ' && s[i] != 0x7f);
}

static void fuzz_identity(const char *text, size_t size)
{
	struct git_identity id = { .name = "before" }, again = { .name = "" };

	if (!git_identity_parse(text, size, &id)) {
		need(streq(id.name, "before") && !*id.email);
		return;
	}
	check_value(id.name, sizeof id.name);
	check_value(id.email, sizeof id.email);
	check_value(id.hooks, sizeof id.hooks);
	/* a directory with the same bytes must not break out of its line */
	cleanup_free char *dir = calloc(1, size + 2);
	cleanup_free char *made = NULL;
	if (!dir)
		return;
	dir[0] = '/';
	memcpy(dir + 1, text, strnlen(text, size));
	made = git_config_write(&id, dir);
	if (!made)
		return;
	if (!git_identity_parse(made, strlen(made), &again))
		abort();
	need(streq(id.name, again.name) && streq(id.email, again.email));
}

static void fuzz_pyvenv(const char *text, size_t size)
{
	static struct pyvenv v;
	cleanup_free char *norm = NULL;

	if (!pyvenv_parse(text, size, &v))
		return;
	check_value(v.home, sizeof v.home);
	need(path_normalise(v.home, &norm) == 0 && streq(norm, v.home));
	check_value(v.version, sizeof v.version);
	size_t n = strlen(v.version);
	need(n >= 3 && strspn(v.version, "0123456789.") == n);
	need(strchr(v.version, '.') && strchr(v.version, '.') == strrchr(v.version, '.'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > FILE_MAX)
		return 0;
	/* a copy of exactly the right size, so that one byte too far is seen */
	char *copy = malloc(size > 1 ? size - 1 : 1);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (data[0] & 1)
		fuzz_pyvenv(copy, size - 1);
	else
		fuzz_identity(copy, size - 1);
	free(copy);
	return 0;
}
