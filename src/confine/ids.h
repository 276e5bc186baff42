/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User and group ids, and what goes with an identity.  The maps are read back by
 * evidence.c.  All of it runs between clone and exec: no allocation, no stdio.
 */
#ifndef CONFINE_IDS_H
#define CONFINE_IDS_H

#include <sys/types.h>

/* The one line of each map, "inside outside 1\n". */
struct id_maps {
	char uid[40], gid[40];
};
void ids_format(struct id_maps *m, uid_t in_uid, uid_t out_uid, gid_t in_gid, gid_t out_gid);

/* Writes the maps of the user namespace that process `proc` (a path, /proc/PID) is in.
 * Without privileges outside (deny) setgroups has to be given up first (CVE-2014-8989).
 * 0 or -errno. */
int ids_map(const char *proc, const struct id_maps *m, int deny_setgroups);

/* Becomes that id.  Supplementary groups are dropped if they can be.  -errno. */
int ids_become(uid_t uid, gid_t gid, int drop_groups);

/* A session keyring of its own: the command would otherwise possess the keys of the
 * caller's session.  A kernel without keyrings has nothing to share.  -errno. */
int ids_own_keyring(void);

#endif
