/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spec: everything one run needs, resolved and checked, immutable from
 * here on.  src/policy makes it; the plan and the engine only read it.  It
 * owns its strings and descriptors.
 */
#ifndef BASE_SPEC_H
#define BASE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "confine/seccomp.h"

enum net_mode { NET_NONE, NET_ALLOW, NET_HOST };

/* What makes the sandbox; src/backend has one file for each. */
#define BRIG_BACKENDS(X)                                  \
	X(NATIVE, "native") X(LANDLOCK, "landlock")       \
	X(BWRAP, "bwrap") X(DOCKER, "docker")             \
	X(WRAPPER, "wrapper") X(SEATBELT, "seatbelt")     \
	X(NONE, "none") /* no sandbox: only ever an explicit choice */

enum backend_id {
#define X(sym, name) BACKEND_##sym,
	BRIG_BACKENDS(X)
#undef X
	BACKEND__COUNT
};

/* A tree or file of the host that appears inside. */
struct spec_bind {
	char *src;       /* canonical absolute path on the host */
	char *dst;       /* normalised absolute path inside */
	bool writable;
	bool is_dir;
	bool tool;       /* found by a toolchain preset; nobody asked for it by name */
	int fd;          /* O_PATH descriptor of src: the identity that was checked */
	dev_t dev;
	ino_t ino;
	uid_t owner_uid; /* for id-mapped mounts when root runs brig */
	gid_t owner_gid;
};

struct spec_limits {
	uint64_t timeout_ms; /* 0 = none */
	uint64_t memory;     /* bytes; 0 = none */
	uint64_t cpu_milli;  /* 1000 = one CPU; 0 = none */
	uint64_t pids;       /* 0 = none */
	uint64_t tmp_size;   /* bytes of all private writable trees together */
	uint64_t file_size;  /* RLIMIT_FSIZE; 0 = none */
	uint64_t max_output; /* captured bytes per stream */
};

struct spec {
	char id[27]; /* ULID */
	char *name;  /* label or NULL */

	char **argv;
	char **env;
	int env_fd; /* where part of env was read from, -1 none; and what was read */
	char *env_fd_data;
	size_t env_fd_len;

	struct spec_bind workspace;
	char *cwd; /* relative to the workspace; "" is its top */
	struct spec_bind *binds;
	size_t n_binds;
	char **masks;      /* absolute paths inside; must be there */
	char **key_masks;  /* credentials that a shown tree has in it */
	char **tool_path, **tool_env; /* the caller's tools: PATH, NAME=VALUE */
	char *gitconfig;              /* text of /etc/gitconfig inside, or NULL */
	char **notes;                 /* how the above was found, for explain */
	char **protect;

	enum net_mode net;
	bool loopback;

	struct spec_limits limits;
	unsigned required; /* LAYER_BIT set: absent evidence means 125 */
	unsigned asked;    /* limits a person asked for (MEMORY, PIDS, CPU bits) */
	bool tmp_asked;    /* and whether tmp_size is one of them */

	enum backend_id backend;
	enum backend_id fallback[BACKEND__COUNT]; /* tried in order, only if listed */
	size_t n_fallback;
	bool require_explicit; /* `required` was written down by somebody: it is not
				  narrowed to what the backend can do */

	/* for backends that start from an image or a template */
	char *image, *runtime;      /* NULL: the backend's default */
	char **add_caps, **drop_caps; /* "NET_RAW", "ALL"; without "CAP_" */
	bool writable_root;         /* read_only: false was asked for */
	char **wrapper;             /* argv template; one word only: shell text */
	char *docker_socket;        /* NULL: the usual places */
	uint64_t pool_size, pool_idle_ms; /* warm containers; 0 = none */
	char **allow;               /* NET_ALLOW: HOST[:PORT,...] entries */
	bool learn;                 /* NET_ALLOW: every name, and what was used is told */
	bool proxy_env;             /* NET_ALLOW: proxies inside, and variables for them */

	struct seccomp_prog *seccomp; /* NULL: the default filter */
	char *seccomp_path;           /* the profile it came from, or NULL */
	char *home;                   /* absolute path inside */

	uid_t host_uid, in_uid; /* the one id that is mapped */
	gid_t host_gid, in_gid;
	bool as_root;  /* the supervisor is host root: ids are mapped away */
	bool nested;   /* the supervisor is root of a user namespace only */
	bool idmapped; /* as_root, and the workspace belongs to root too */

	bool capture; /* stdout and stderr into the result */
	bool pty;
};

/* What was shown is mounted: the descriptors of the binds are not needed any more. */
void spec_close_sources(const struct spec *s);

void spec_free(struct spec *s);

#endif
