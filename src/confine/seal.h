/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFINE_SEAL_H
#define CONFINE_SEAL_H

/*
 * Makes every mount of a sandbox read-only, when all its processes are gone.  A directory
 * that the command handed to another sandbox, over a socket in the workspace, would
 * otherwise be a way past that one's read-only mounts to what is judged now.  The kernel
 * refuses as long as a file is open for writing through one of them.  mntns: a descriptor
 * of the mount namespace.  0 or -errno.  No allocation, no stdio.
 */
int seal_mounts(int mntns);

#endif
