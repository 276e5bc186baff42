/* SPDX-License-Identifier: Apache-2.0 */
/* Where the engine listens, and brig's own directory for sockets. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/docker.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

enum { SOCKET_MAX = 108 };

static int bad_host(const char *host, const char *what, struct brig_error *err)
{
	cleanup_free char *shown = str_printable(host);

	err_set(err, BRIG_E_UNSUPPORTED, 0, "docker", "DOCKER_HOST=%.150s %s",
		shown ? shown : "?", what);
	err_fix(err, "set it to unix:///PATH of a local engine's socket, or unset it");
	return -EOPNOTSUPP;
}

static int take(char out[SOCKET_MAX], const char *path, struct brig_error *err)
{
	cleanup_free char *shown = str_printable(path);

	if (snprintf(out, SOCKET_MAX, "%s", path) < SOCKET_MAX)
		return 0;
	err_set(err, BRIG_E_BAD_VALUE, ENAMETOOLONG, "docker", "the engine's socket %.150s",
		shown ? shown : "?");
	err_fix(err, "use a path of at most 107 bytes");
	return -ENAMETOOLONG;
}

int docker_socket_find(const struct spec *s, char out[SOCKET_MAX], struct brig_error *err)
{
	static const struct {
		bool runtime_dir; /* below $XDG_RUNTIME_DIR */
		const char *path;
	} places[] = {
		{ false, "/var/run/docker.sock" },
		{ true, "docker.sock" },
		{ true, "podman/podman.sock" },
		{ false, "/run/podman/podman.sock" },
	};
	const char *host = getenv("DOCKER_HOST"), *run = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];

	if (s && s->docker_socket)
		return take(out, s->docker_socket, err);
	if (host && *host) {
		if (strncmp(host, "unix://", 7) != 0)
			return bad_host(host, "is not a unix socket", err);
		if (host[7] != '/')
			return bad_host(host, "has no absolute path", err);
		return take(out, host + 7, err);
	}
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct stat st;
		if (places[i].runtime_dir && (!run || *run != '/'))
			continue;
		int n = snprintf(path, sizeof path, "%s%s%s",
				 places[i].runtime_dir ? run : "",
				 places[i].runtime_dir ? "/" : "", places[i].path);
		if (n > 0 && n < (int)sizeof path && stat(path, &st) == 0 &&
		    S_ISSOCK(st.st_mode))
			return take(out, path, err);
	}
	err_set(err, BRIG_E_SETUP_FAILED, ENOENT, "docker",
		"no container engine is running here: /var/run/docker.sock");
	err_fix(err, "start Docker or Podman's socket, or point DOCKER_HOST at it "
		     "(unix:///PATH)");
	return -ENOENT;
}

/* Ours alone: a directory that somebody else made there beforehand is refused. */
static int own_dir(const char *path, bool make)
{
	struct stat st;

	if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
		return -EPERM;
	return 0;
}

int docker_dir(char out[PATH_MAX], bool make)
{
	char base[64];
	struct stat st;
	uid_t uid = geteuid();

	/* not from the environment: a keeper must be found by every call of a user */
	if (uid == 0)
		snprintf(base, sizeof base, "/run/brig");
	else if (snprintf(base, sizeof base, "/run/user/%u", uid) > 0 &&
		 stat(base, &st) == 0 && st.st_uid == uid)
		snprintf(base, sizeof base, "/run/user/%u/brig", uid);
	else
		snprintf(base, sizeof base, "/tmp/brig-%u", uid);
	int r = own_dir(base, make);
	if (r < 0)
		return r;
	snprintf(out, PATH_MAX, "%s/docker", base);
	return own_dir(out, make);
}

uint64_t docker_hash(const char *data, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)data[i]) * 0x100000001b3u;
	return h;
}
