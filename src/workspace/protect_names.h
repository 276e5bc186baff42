/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names a directory certainly does not have, by one listing of it: most protected
 * paths do not exist, and to ask for each costs 30 µs before a run and again after it.
 * No allocation and no stdio.
 */
#ifndef WORKSPACE_PROTECT_NAMES_H
#define WORKSPACE_PROTECT_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* A directory with more than that has to be asked. */
enum { PROTECT_NAMES_ROOM = 4096 };

struct protect_names {
	size_t n; /* bytes; 0: nothing is known */
	_Alignas(8) char entries[PROTECT_NAMES_ROOM];
};

void protect_names_read(struct protect_names *names, int dirfd);

/* True: there is no such name, in whatever spelling the file system takes for the same.
 * False says nothing. */
bool protect_names_lack(const struct protect_names *names, const char *name);

#endif
