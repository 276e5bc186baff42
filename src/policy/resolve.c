/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "engine/layers.h"

/*
 * Run by root, the sandbox gets an id of its own that no account has: above
 * the range systemd hands to containers, below 2^31, plus the supervisor's pid
 * so that two sandboxes alive at once never share one (per-user kernel limits
 * and keyrings would otherwise be a channel between them).
 */
#define ROOT_ID_BASE 0x70000000u
#define ROOT_IN_ID 1000u

static uint64_t size_of(const struct brig_spec *rq, enum opt o)
{
	uint64_t v = 0;
	const char *t = request_text(rq, o);
	if (t)
		parse_size(t, &v); /* the form was checked when it was set */
	return v;
}

static uint64_t milli_of(const struct brig_spec *rq, enum opt o)
{
	uint64_t v = 0;
	parse_milli(request_text(rq, o), UINT64_MAX, &v);
	return v;
}

static void resolve_limits(const struct brig_spec *rq, struct spec *s)
{
	struct spec_limits *l = &s->limits;

	l->timeout_ms = milli_of(rq, OPT_TIMEOUT);
	l->cpu_milli = milli_of(rq, OPT_CPUS);
	l->memory = size_of(rq, OPT_MEMORY);
	l->tmp_size = size_of(rq, OPT_TMP_SIZE);
	l->file_size = size_of(rq, OPT_FILE_SIZE);
	l->max_output = size_of(rq, OPT_MAX_OUTPUT);
	parse_uint(request_text(rq, OPT_PIDS), UINT64_MAX, &l->pids);
	if (request_has(rq, OPT_MEMORY) && l->memory)
		s->asked |= LAYER_BIT(LAYER_MEMORY);
	if (request_has(rq, OPT_PIDS) && l->pids)
		s->asked |= LAYER_BIT(LAYER_PIDS);
	if (request_has(rq, OPT_CPUS) && l->cpu_milli)
		s->asked |= LAYER_BIT(LAYER_CPU);
}

static int check_limits(const struct spec *s, struct brig_error *err)
{
	const struct spec_limits *l = &s->limits;

	/* Below this nothing starts, and the failure would look like a crash. */
	if (l->memory && l->memory < (1u << 20)) {
		err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
			"--memory is below 1M: no program could start");
		err_fix(err, "give at least 1M, or 0 for no limit");
		return -EINVAL;
	}
	if (l->cpu_milli && l->cpu_milli < 10) {
		err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
			"--cpus is below 0.01");
		err_fix(err, "give at least 0.01, or 0 for no limit");
		return -EINVAL;
	}
	if (l->pids && l->pids < 2) {
		err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
			"--pids is below 2: the sandbox's init needs one");
		err_fix(err, "give at least 2, or 0 for no limit");
		return -EINVAL;
	}
	if (l->tmp_size < (64u << 10)) {
		err_set(err, BRIG_E_BAD_VALUE, 0, "policy",
			"--tmp-size is below 64K");
		err_fix(err, "give at least 64K");
		return -EINVAL;
	}
	return 0;
}

static void resolve_required(const struct brig_spec *rq, struct spec *s)
{
	unsigned bits = 0;
	const char *p = request_text(rq, OPT_REQUIRE);

	if (!p) {
		bits = LAYERS_BASE;
		if (s->net == NET_HOST)
			bits &= ~LAYER_BIT(LAYER_NET);
	}
	for (; p; p = strchr(p, ',')) {
		if (*p == ',')
			p++;
		bits |= LAYER_BIT(layer_by_name(p, strcspn(p, ",")));
	}
	/* A limit that was asked for by name must hold. */
	s->required = bits | s->asked;
	s->require_explicit = request_has(rq, OPT_REQUIRE);
}

/* Root of a container without privileges is not root of the machine: its id 0
 * is somebody's ordinary id outside. */
static bool in_initial_userns(void)
{
	char map[128];
	unsigned in, out, count;

	return fd_read_at(AT_FDCWD, "/proc/self/uid_map", map, sizeof map) > 0 &&
	       sscanf(map, "%u %u %u", &in, &out, &count) == 3 && in == 0 &&
	       out == 0 && count == UINT32_MAX;
}

/* After the workspace is known: its owner decides. */
static void resolve_ids(struct spec *s)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	s->nested = uid == 0 && !in_initial_userns();
	s->as_root = uid == 0 && !s->nested;
	if (s->nested)
		gid = 0; /* root here is an ordinary user outside */
	if (s->as_root) {
		/* Never host uid 0.  A workspace that belongs to an ordinary user
		 * is worked on under that user's id, as if they had started brig;
		 * one that belongs to root is shown through an id map under an id
		 * that nobody has. */
		uid = s->workspace.owner_uid;
		gid = s->workspace.owner_gid;
		s->idmapped = uid == 0;
		if (s->idmapped) {
			s->host_uid = ROOT_ID_BASE + (uid_t)getpid();
			s->host_gid = ROOT_ID_BASE + (gid_t)getpid();
			s->in_uid = s->in_gid = ROOT_IN_ID;
			return;
		}
		if (gid == 0)
			gid = uid; /* never root's group either */
	}
	s->host_uid = uid;
	s->in_uid = uid ? uid : ROOT_IN_ID;
	s->host_gid = gid;
	/* a gid of 0 would be shown as root's group inside */
	s->in_gid = gid ? gid : ROOT_IN_ID;
}

static int resolve_seccomp(const struct brig_spec *rq, struct spec *s,
			   struct brig_error *err)
{
	const char *path = request_text(rq, OPT_SECCOMP);
	if (!path)
		return 0;
	/* O_NONBLOCK: a FIFO must not hang us; the regular-file check refuses it */
	cleanup_close int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		int e = errno;
		err_set(err, BRIG_E_BAD_SECCOMP_PROFILE, e, "policy",
			"--seccomp %.200s", path);
		err_fix(err, "give a readable profile in Docker's JSON format");
		return -e;
	}
	cleanup_free char *json = NULL;
	size_t len = 0;
	int r = S_ISREG(st.st_mode) ? fd_read_all(fd, 1 << 20, &json, &len) :
				      -EINVAL;
	if (r < 0) {
		err_set(err, BRIG_E_BAD_SECCOMP_PROFILE, -r, "policy",
			"--seccomp %.200s", path);
		err_fix(err, "give a regular file of at most 1M");
		return r;
	}
	if (!(s->seccomp_path = strdup(path)))
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "--seccomp");
	r = seccomp_profile_compile(json, len, path, &s->seccomp, err);
	if (r < 0 && err && !err->fix[0])
		err_fix(err, "give a profile in Docker's JSON format: an object with "
			     "defaultAction and syscalls");
	return r;
}

static int check_supported(const struct brig_spec *rq, struct brig_error *err)
{
	const char *backend = request_text(rq, OPT_BACKEND);

	if (!backend_get(backend_by_name(backend))) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "policy",
			"the %s backend is not available in this version",
			backend);
		err_fix(err, "use --backend native");
		return -EOPNOTSUPP;
	}
	if (streq(request_text(rq, OPT_NET), "allow")) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "policy",
			"--net allow is not available in this version");
		err_fix(err, "use --net none (the default)");
		return -EOPNOTSUPP;
	}
	if (!rq->argv || !rq->argv[0]) {
		err_set(err, BRIG_E_BAD_OPTION, 0, "options",
			"there is no command to run");
		err_fix(err, "put it after the options: brig run -- true");
		return -EINVAL;
	}
	if (!rq->argv[0][0]) {
		err_set(err, BRIG_E_BAD_OPTION, 0, "options",
			"the command's name is empty");
		err_fix(err, "name a program: brig run -- true");
		return -EINVAL;
	}
	return 0;
}

/* What backends with an image take besides. */
static int resolve_container(const struct brig_spec *rq, struct spec *s)
{
	const struct {
		enum opt o;
		char **to;
	} texts[] = { { OPT_IMAGE, &s->image }, { OPT_RUNTIME, &s->runtime },
		      { OPT_DOCKER_SOCKET, &s->docker_socket } };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *v = request_text(rq, texts[i].o);
		if (v && !(*texts[i].to = strdup(v)))
			return -ENOMEM;
	}
	parse_uint(request_text(rq, OPT_POOL), 64, &s->pool_size);
	s->pool_idle_ms = milli_of(rq, OPT_POOL_IDLE);
	return 0;
}

static int resolve_all(const struct brig_spec *rq, struct spec *s,
		       struct brig_error *err)
{
	int r = check_supported(rq, err);
	if (r < 0)
		return r;
	r = id_make(s->id);
	if (r < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, -r, "policy",
			       "no randomness for an id");
	s->net = streq(request_text(rq, OPT_NET), "host") ? NET_HOST : NET_NONE;
	s->loopback = streq(request_text(rq, OPT_LOOPBACK), "on");
	s->backend = backend_by_name(request_text(rq, OPT_BACKEND));
	r = resolve_container(rq, s);
	if (r < 0)
		goto no_memory;
	s->capture = request_flag(rq, OPT_JSON);
	s->pty = request_flag(rq, OPT_PTY);
	resolve_limits(rq, s);
	r = check_limits(s, err);
	if (r < 0)
		return r;
	resolve_required(rq, s);

	for (size_t i = 0; rq->argv[i]; i++)
		if (strv_add(&s->argv, rq->argv[i]) < 0)
			goto no_memory;
	const char *name = request_text(rq, OPT_NAME);
	if (name && !(s->name = strdup(name)))
		goto no_memory;
	r = resolve_paths(rq, s, err);
	if (r < 0)
		return r;
	resolve_ids(s);
	r = resolve_env(rq, s, err);
	if (r < 0)
		return r;
	return resolve_seccomp(rq, s, err);

no_memory:
	return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "resolving");
}

int policy_resolve(const struct brig_spec *rq, struct spec **out,
		   struct brig_error *err)
{
	struct spec *s = calloc(1, sizeof *s);
	if (!s)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "spec");
	s->workspace.fd = -1;
	s->env_fd = -1;
	int r = resolve_all(rq, s, err);
	if (r < 0 && err && err->code != BRIG_E_OK && !err->fix[0])
		err_fix(err, "brig doctor shows what this machine can enforce");
	if (r < 0 && err && err->code == BRIG_E_OK)
		err_set(err, BRIG_E_NO_MEMORY, -r, "policy", "resolving");
	if (r < 0) {
		spec_free(s);
		return r;
	}
	*out = s;
	return 0;
}
