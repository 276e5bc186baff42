/* SPDX-License-Identifier: Apache-2.0 */
#include "base/helper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

int helper_find(const char *name, char out[PATH_MAX])
{
	static const char *const places[] = { "", "../libexec/brig/" };
	big_buffer char dir[PATH_MAX];

	ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
	if (n <= 0)
		return n < 0 ? -errno : -ENOENT;
	dir[n] = '\0';
	char *slash = strrchr(dir, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		int len = snprintf(out, PATH_MAX, "%s/%s%s", dir, places[i], name);
		if (len > 0 && len < PATH_MAX && access(out, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}
