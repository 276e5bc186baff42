/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFINE_SEAL_H
#define CONFINE_SEAL_H

/*
 * A protect_seal, when every process of the sandbox is gone; held is a struct collect with
 * the namespace of its mounts.  Makes all of those read-only: a directory that the command
 * has handed to another sandbox, over a socket in the workspace, would else be a way past
 * that one's read-only mounts, to what is judged now.  The kernel refuses as long as
 * a file is open for writing through one of them, somewhere.  0 or -errno.  No
 * allocation, no stdio: the custodian calls this, too.
 */
int seal_mounts(void *held);

#endif
