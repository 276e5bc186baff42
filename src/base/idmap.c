/* SPDX-License-Identifier: Apache-2.0 */
#include "base/idmap.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

bool idmap_read(int dir, const char *file, struct idmap *m)
{
	unsigned long *const v[] = { &m->inside, &m->outside, &m->count };
	char text[256], *end = text;

	if (fd_read_at(dir, file, text, sizeof text) <= 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		end += strspn(end, " ");
		if (*end < '0' || *end > '9')
			return false;
		*v[i] = strtoul(end, &end, 10);
	}
	m->alone = streq(end, "\n");
	return *end == '\n';
}

bool idmap_is_identity(const struct idmap *m)
{
	return m->inside == 0 && m->outside == 0 && m->count == UINT32_MAX;
}

bool userns_root_is_machines(void)
{
	struct stat st;

	/* a file of the machine's root; of nobody's where that has no id here */
	return stat("/proc/version", &st) < 0 || st.st_uid == 0;
}

enum userns userns_here(void)
{
	struct idmap m;

	if (!idmap_read(AT_FDCWD, "/proc/self/uid_map", &m))
		return USERNS_UNKNOWN;
	if (idmap_is_identity(&m))
		return USERNS_INITIAL;
	cleanup_close int self = sys_pidfd_open(getpid());
	return sys_pidfd_namespace(self, PIDFD_GET_USER) == USERNS_INITIAL_INODE ?
		       USERNS_INITIAL : USERNS_OTHER;
}
