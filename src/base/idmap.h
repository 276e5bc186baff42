/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about the ids of a user namespace: uid_map and gid_map. */
#ifndef BASE_IDMAP_H
#define BASE_IDMAP_H

#include <stdbool.h>

struct idmap {
	unsigned long inside, outside, count;
	bool alone; /* there is no other line */
};

/* The first line.  False when there is none, or it cannot be read. */
bool idmap_read(int dir, const char *file, struct idmap *m);
/* Is every id here the same id outside? */
bool idmap_is_identity(const struct idmap *m);

/* Whose root is root here?  Where the text says that it is somebody else's than the
 * machine's, the kernel is asked again, as the command may come to keep the id then: a file
 * may be mounted over the text. */
enum userns { USERNS_UNKNOWN, USERNS_INITIAL, USERNS_OTHER };
enum userns userns_here(void);

/* In a namespace that has an id 0: whether that is the machine's root, too, as it is in one that
 * root made for itself (`unshare -Ur`).  Yes, if it cannot be told. */
bool userns_root_is_machines(void);

/* The inode number of the machine's own, part of the kernel's interface. */
#define USERNS_INITIAL_INODE 0xEFFFFFFDu

#endif
