/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/idmap.h"
#include "base/str.h"
#include "base/layers.h"
#include "policy/credentials.h"
#include "policy/registries.h"
#include "policy/resolve_internal.h"

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
	s->tmp_asked = request_has(rq, OPT_TMP_SIZE);
}

/* A limit that nothing here can hold is refused, not remembered. */
static int check_limits(const struct brig_spec *rq, struct brig_error *err)
{
	uint64_t disk = size_of(rq, OPT_DISK);
	char label[300];

	if (!disk)
		return 0;
	request_label(rq, OPT_DISK, 0, label, sizeof label);
	err_set(err, BRIG_E_LIMIT_UNENFORCEABLE, 0, "policy",
		"%s: no backend can bound how much the workspace grows", label);
	err_fix(err, "remove it (limits.file_size bounds each file), or put the "
		     "workspace on a file system of its own");
	return -EOPNOTSUPP;
}

static void resolve_required(const struct brig_spec *rq, struct spec *s)
{
	unsigned bits = 0;

	if (!request_has(rq, OPT_REQUIRE)) {
		bits = LAYERS_BASE;
		if (s->net == NET_HOST)
			bits &= ~LAYER_BIT(LAYER_NET);
		if (s->net == NET_ALLOW)
			bits |= LAYERS_ALLOW;
	}
	for (char **l = rq->o[OPT_REQUIRE].v; l && *l; l++)
		bits |= LAYER_BIT(layer_by_name(*l, strlen(*l)));
	/* no network at all is more than was asked for */
	if (s->net == NET_NONE)
		bits &= ~LAYERS_ALLOW;
	/* Whatever else is required: without a network of its own a list of names
	 * is no limit. */
	if (s->net == NET_ALLOW)
		bits |= LAYER_BIT(LAYER_NET);
	/* A limit that was asked for by name must hold. */
	s->required = bits | s->asked;
	s->require_explicit = request_has(rq, OPT_REQUIRE);
}

/* Root of a container without privileges is not root of the machine: its id 0
 * is somebody's ordinary id outside. */
static bool in_initial_userns(void)
{
	/* when it cannot be told, root is taken for root of the machine: otherwise the
	 * command could be given that id */
	return userns_here() != USERNS_OTHER;
}

/* As root the workspace's owner decides. */
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
	char label[300];
	if (!path || streq(path, "default"))
		return 0;
	request_label(rq, OPT_SECCOMP, 0, label, sizeof label);
	/* O_NONBLOCK: a FIFO must not hang us; the regular-file check refuses it */
	cleanup_close int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		int e = errno;
		err_set(err, BRIG_E_BAD_SECCOMP_PROFILE, e, "policy",
			"%s %.200s", label, path);
		err_fix(err, "give a readable profile in Docker's JSON format");
		return -e;
	}
	cleanup_free char *json = NULL;
	size_t len = 0;
	int r = S_ISREG(st.st_mode) ? fd_read_all(fd, 1 << 20, &json, &len) :
				      -EINVAL;
	if (r < 0) {
		err_set(err, BRIG_E_BAD_SECCOMP_PROFILE, -r, "policy",
			"%s %.200s", label, path);
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

static int check_command(const struct brig_spec *rq, struct brig_error *err)
{
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

static enum backend_id backend_of(const char *name)
{
	static const char *const names[] = {
#define X(sym, text) text,
		BRIG_BACKENDS(X)
#undef X
	};
	unsigned i = 0;

	while (i < BACKEND_NONE && !streq(names[i], name))
		i++;
	return (enum backend_id)i; /* the form was checked when it was set */
}

static int copy_list(char ***to, const struct brig_spec *rq, enum opt o)
{
	bool failed;

	*to = request_list(rq, o, &failed);
	return failed ? -ENOMEM : 0;
}

static int copy_text(char **to, const struct brig_spec *rq, enum opt o)
{
	const char *t = request_text(rq, o);

	*to = t ? strdup(t) : NULL;
	return t && !*to ? -ENOMEM : 0;
}

/* A list that is locked is all there may be: learning would go beyond it.  (A mode
 * that is locked, or learning itself, has been decided when the layers were put
 * together.) */
static int check_learn(const struct brig_spec *rq, struct brig_error *err)
{
	bool allow = streq(request_text(rq, OPT_NET), "allow");
	const struct origin *at = request_origin(rq, OPT_PROXY_ENV);
	char here[300], there[300];

	if (allow && request_flag(rq, OPT_LEARN) && rq->lock[OPT_ALLOW].layer) {
		request_label(rq, OPT_LEARN, 0, here, sizeof here);
		origin_text(&rq->lock[OPT_ALLOW], there, sizeof there);
		err_set(err, BRIG_E_LOCKED, 0, "policy",
			"%s: every host name is more than the network.allow that is locked "
			"at %s", here, there);
		err_fix(err, "leave it out; only the lock's author can open it");
		return -EPERM;
	}
	if (!allow && at && at->rank == RANK_RUN && request_flag(rq, OPT_PROXY_ENV)) {
		err_set(err, BRIG_E_BAD_OPTION, 0, "policy",
			"--proxy-env without an allow-list: there is nothing to proxy");
		err_fix(err, "name hosts with --allow, or leave it out");
		return -EINVAL;
	}
	return 0;
}

/* Asked for by this very run, an option that its backend has no use for is a
 * misunderstanding; in a file it may be meant for another tool's backend. */
static int check_meant(const struct brig_spec *rq, struct brig_error *err)
{
	static const struct {
		enum opt o;
		const char *backend;
	} only[] = { { OPT_IMAGE, "docker" }, { OPT_RUNTIME, "docker" },
		     { OPT_DOCKER_SOCKET, "docker" }, { OPT_DOCKER_POOL, "docker" },
		     { OPT_DOCKER_IDLE, "docker" }, { OPT_WRAPPER, "wrapper" } };
	const char *backend = request_text(rq, OPT_BACKEND);

	if (streq(request_text(rq, OPT_NET), "allow") &&
	    streq(request_text(rq, OPT_LOOPBACK), "off")) {
		err_set(err, BRIG_E_BAD_OPTION, 0, "policy",
			"loopback off together with a network allow-list, which is reached "
			"through it");
		err_fix(err, "leave one of them out");
		return -EINVAL;
	}
	int r = check_learn(rq, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(only); i++) {
		const struct origin *at = request_origin(rq, only[i].o);
		if (!at || at->rank != RANK_RUN || streq(backend, only[i].backend))
			continue;
		bool falls = false;
		for (char **f = rq->o[OPT_FALLBACK].v; f && *f; f++)
			falls = falls || streq(*f, only[i].backend);
		if (falls)
			continue;
		err_set(err, BRIG_E_BAD_OPTION, 0, "policy",
			"--%s means nothing to the %s backend",
			opt_table[only[i].o].name, backend);
		err_fix(err, "add --backend %s, or leave it out", only[i].backend);
		return -EINVAL;
	}
	return 0;
}

static const char *own_env(const char *name)
{
	return getenv(name);
}

/* The allow-list, with groups written out. */
static int resolve_allow(const struct brig_spec *rq, struct spec *s, const char *home)
{
	int r = 0;

	for (char **a = rq->o[OPT_ALLOW].v; a && *a && r == 0; a++)
		r = streq(*a, "@registries") ? registries_find(home, own_env, &s->allow) :
					       strv_add(&s->allow, *a);
	return r;
}

/* What the backend is, and what only some of them use. */
static int resolve_backend(const struct brig_spec *rq, struct spec *s, const char *home)
{
	static const enum net_mode modes[] = { NET_NONE, NET_ALLOW, NET_HOST };
	static const char *const words[] = { "none", "allow", "host" };
	const char *net = request_text(rq, OPT_NET);

	s->backend = backend_of(request_text(rq, OPT_BACKEND));
	for (char **f = rq->o[OPT_FALLBACK].v; f && *f; f++)
		if (s->n_fallback < BACKEND__COUNT)
			s->fallback[s->n_fallback++] = backend_of(*f);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (streq(net, words[i]))
			s->net = modes[i];
	s->learn = s->net == NET_ALLOW && request_flag(rq, OPT_LEARN);
	s->proxy_env = s->net == NET_ALLOW && request_flag(rq, OPT_PROXY_ENV);
	s->loopback = streq(request_text(rq, OPT_LOOPBACK), "on");
	s->writable_root = !request_flag(rq, OPT_READ_ONLY);
	parse_uint(request_text(rq, OPT_DOCKER_POOL), UINT64_MAX, &s->pool_size);
	s->pool_idle_ms = milli_of(rq, OPT_DOCKER_IDLE);
	if (s->net == NET_ALLOW && resolve_allow(rq, s, home) < 0)
		return -ENOMEM;
	return copy_text(&s->image, rq, OPT_IMAGE) < 0 ||
	       copy_text(&s->runtime, rq, OPT_RUNTIME) < 0 ||
	       copy_text(&s->docker_socket, rq, OPT_DOCKER_SOCKET) < 0 ||
	       copy_list(&s->add_caps, rq, OPT_ADD_CAPS) < 0 ||
	       copy_list(&s->drop_caps, rq, OPT_DROP_CAPS) < 0 ||
	       copy_list(&s->wrapper, rq, OPT_WRAPPER) < 0 ? -ENOMEM : 0;
}

/* What the words alone decide: no file is looked at but the filter's profile. */
static int resolve_words(const struct brig_spec *rq, struct spec *s, const struct home *home,
			 struct brig_error *err)
{
	int r = check_command(rq, err);
	if (r == 0)
		r = check_meant(rq, err);
	if (r < 0)
		return r;
	r = id_make(s->id);
	if (r < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, -r, "policy",
			       "no randomness for an id");
	if (resolve_backend(rq, s, home->path) < 0)
		goto no_memory;
	s->capture = request_flag(rq, OPT_JSON);
	s->pty = request_flag(rq, OPT_PTY);
	resolve_limits(rq, s);
	r = check_limits(rq, err);
	if (r < 0)
		return r;
	resolve_required(rq, s);

	if (strv_append(&s->argv, (const char *const *)rq->argv) < 0)
		goto no_memory;
	const char *name = request_text(rq, OPT_NAME);
	if (name && !(s->name = strdup(name)))
		goto no_memory;
	return resolve_seccomp(rq, s, err);

no_memory:
	return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "resolving");
}

/* A failure has a code and a way out, whoever found it. */
static int explained(int r, struct brig_error *err)
{
	if (r < 0 && err && err->code != BRIG_E_OK && !err->fix[0])
		err_fix(err, "brig doctor shows what this machine can enforce");
	if (r < 0 && err && err->code == BRIG_E_OK)
		err_set(err, BRIG_E_NO_MEMORY, -r, "policy", "resolving");
	return r;
}

static void look_home(struct home *h)
{
	big_buffer char real[PATH_MAX];

	*h = (struct home){ .path = caller_home() };
	if (!h->path)
		return;
	cleanup_close int fd = fd_open_real(AT_FDCWD, h->path, real, sizeof real);
	h->real = fd < 0 ? NULL : strdup(real);
	h->error = fd < 0 ? -fd : ENOMEM;
}

/* What keeps HOME out of sight must not be left out because HOME could not be found. */
static int check_home(const struct home *h, struct brig_error *err)
{
	if (!h->path || h->real || credentials_absent(h->error))
		return 0;
	cleanup_free char *text = str_printable(h->path);
	err_set(err, BRIG_E_SETUP_FAILED, h->error, "policy", "looking at %.200s",
		text ? text : "HOME");
	err_fix(err, "see that HOME can be read, or set it to a directory that can");
	return -h->error;
}

static int resolve_all(const struct brig_spec *rq, struct spec *s, const struct home *home,
		       struct brig_error *err)
{
	int r = resolve_words(rq, s, home, err);
	if (r == 0)
		r = resolve_workspace(rq, s, home, err);
	if (r == 0)
		r = check_home(home, err);
	if (r < 0)
		return r;
	resolve_ids(s);
	r = resolve_shown(rq, s, home, err);
	return r == 0 ? resolve_env(rq, s, err) : r;
}

int policy_resolve(const struct brig_spec *rq, struct spec **out,
		   struct brig_error *err)
{
	struct spec *s = calloc(1, sizeof *s);

	if (!s)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "policy", "spec");
	s->workspace.fd = -1;
	s->env_fd = -1;
	struct home home;
	look_home(&home);
	int r = explained(resolve_all(rq, s, &home, err), err);
	free(home.path);
	free(home.real);
	if (r < 0) {
		spec_free(s);
		return r;
	}
	*out = s;
	return 0;
}
