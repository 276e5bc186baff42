/* SPDX-License-Identifier: Apache-2.0 */
/* The containment layers: their names are part of the result object. */
#ifndef BASE_LAYERS_H
#define BASE_LAYERS_H

#include <stddef.h>

#define BRIG_LAYERS(X)                                                         \
	X(USER, "user", "own user namespace, no id of the host's root inside") \
	X(MOUNT, "mount", "own mount namespace with its own root tree")        \
	X(PID, "pid", "own process ids; nothing outside is visible")           \
	X(NET, "net", "own, empty network namespace")                          \
	X(IPC, "ipc", "own SysV and POSIX IPC objects")                        \
	X(UTS, "uts", "own host name")                                         \
	X(CGROUP, "cgroup", "own view of the control group tree")              \
	X(CAPS, "caps", "no capability in any set, none to be regained")       \
	X(NO_NEW_PRIVS, "no_new_privs", "no program can raise privileges")     \
	X(SECCOMP, "seccomp", "default-deny system-call filter")               \
	X(LANDLOCK, "landlock", "second, path-based access control")           \
	X(MEMORY, "memory", "memory limit for the whole tree")                 \
	X(PIDS, "pids", "limit on processes and threads")                      \
	X(CPU, "cpu", "limit on processor time per second")                    \
	X(NET_NAMES, "net-names", "an allow-list's names, for every program, proxy or not")

enum layer {
#define X(sym, name, text) LAYER_##sym,
	BRIG_LAYERS(X)
#undef X
	LAYER__COUNT
};

#define LAYER_BIT(l) (1u << (l))

/* Layers that are always asked for, whatever the limits say. */
#define LAYERS_BASE                                                           \
	(LAYER_BIT(LAYER_USER) | LAYER_BIT(LAYER_MOUNT) |                     \
	 LAYER_BIT(LAYER_PID) | LAYER_BIT(LAYER_NET) | LAYER_BIT(LAYER_IPC) | \
	 LAYER_BIT(LAYER_UTS) | LAYER_BIT(LAYER_CGROUP) |                     \
	 LAYER_BIT(LAYER_CAPS) | LAYER_BIT(LAYER_NO_NEW_PRIVS) |              \
	 LAYER_BIT(LAYER_SECCOMP) | LAYER_BIT(LAYER_LANDLOCK))

/* Asked for when there is an allow-list: without one there is nothing to name. */
#define LAYERS_ALLOW LAYER_BIT(LAYER_NET_NAMES)

/* Layers that limits give. */
#define LAYERS_LIMITS                                          \
	(LAYER_BIT(LAYER_MEMORY) | LAYER_BIT(LAYER_PIDS) |     \
	 LAYER_BIT(LAYER_CPU))

/* The name used in JSON and in --require. */
const char *layer_name(enum layer l);
/* "net, pid": the names of a LAYER_BIT set, for a message. */
void layers_list(unsigned bits, char *out, size_t cap);
/* The layer with this name of the given length, or LAYER__COUNT. */
enum layer layer_by_name(const char *name, size_t len);

#endif
