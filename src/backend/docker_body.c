/* SPDX-License-Identifier: Apache-2.0 */
/* From a job to the body of the engine's create call. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "backend/docker_engine.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/str.h"
#include "confine/seccomp_docker.h"

/* Kernel files that tell about the host or steer it: the lists of container
 * runtimes, whatever the engine's own default is. */
static const char *const masked[] = {
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
	"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list",
	"/proc/timer_stats", "/sys", /* all of it: nothing there is for a command */
};
static const char *const read_only[] = {
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

static json_t *strings(const char *const *v, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < n; i++)
		json_array_append_new(a, json_string(v[i]));
	return a;
}

/* A mount of something of the host's.  A source that is missing is an error of
 * the engine then, where the older form would make a directory.  Read-only ones
 * are not recursive: a mount below would stay writable. */
static int add_mount(json_t *mounts, const char *src, const char *dst, bool writable)
{
	json_t *m = json_pack("{s:s, s:s, s:s, s:b, s:{s:s, s:b}}", "Type", "bind", "Source",
			      src, "Target", dst, "ReadOnly", !writable, "BindOptions",
			      "Propagation", "rprivate", "NonRecursive", !writable);

	/* a name that is not UTF-8 cannot be said in JSON */
	return m && json_array_append_new(mounts, m) == 0 ? 0 : -EILSEQ;
}

static int mount_error(const char *path, struct brig_error *err)
{
	cleanup_free char *shown = str_printable(path);

	err_set(err, BRIG_E_BAD_MOUNT, EILSEQ, "docker", "%.200s", shown ? shown : "?");
	err_fix(err, "the engine takes names in UTF-8 only: rename it, or use --backend native");
	return -EILSEQ;
}

static int add_binds(json_t *mounts, const struct docker_job *j, struct brig_error *err)
{
	const struct spec *s = j->spec;
	const struct spec_bind *w = &s->workspace;

	if (add_mount(mounts, w->src, w->dst, w->writable) < 0)
		return mount_error(w->src, err);
	for (size_t i = 0; i < s->n_binds; i++)
		if (add_mount(mounts, s->binds[i].src, s->binds[i].dst,
			      s->binds[i].writable) < 0)
			return mount_error(s->binds[i].src, err);
	for (size_t i = 0; i < j->protect.n; i++) {
		const struct protect_entry *e = &j->protect.v[i];
		if (e->kind != PROTECT_RO && e->kind != PROTECT_PIN)
			continue;
		cleanup_free char *src = str_fmt("%s/%s", w->src, e->path);
		cleanup_free char *dst = str_fmt("%s/%s", w->dst, e->path);
		if (!src || !dst || add_mount(mounts, src, dst, e->kind == PROTECT_PIN) < 0)
			return mount_error(e->path, err);
	}
	return 0;
}

/* Where on the host a path inside comes from, or NULL when from the image. */
static char *host_path(const struct spec *s, const char *path)
{
	const struct spec_bind *best = NULL;

	for (size_t i = 0; i <= s->n_binds; i++) {
		const struct spec_bind *b = i < s->n_binds ? &s->binds[i] : &s->workspace;
		if (path_is_under(path, b->dst) &&
		    (!best || strlen(b->dst) > strlen(best->dst)))
			best = b;
	}
	return best ? str_fmt("%s%s", best->src, path + strlen(best->dst)) : NULL;
}

/* Hides what is at the path: behind an empty tree, or behind /dev/null.  In the
 * image only the runtime knows what is there, and hides it itself. */
static int add_mask(json_t *mounts, json_t *tmpfs, json_t *by_runtime, const struct spec *s,
		    const char *path, bool stream, struct brig_error *err)
{
	cleanup_free char *host = host_path(s, path);
	struct stat st;

	if (!host && stream) {
		cleanup_free char *shown = str_printable(path);
		err_set(err, BRIG_E_UNSUPPORTED, 0, "docker",
			"--mask %.150s: this runtime does not hide paths of the image",
			shown ? shown : "?");
		err_fix(err, "use the runtime runc, or an image without it");
		return -EOPNOTSUPP;
	}
	if (!host)
		return json_array_append_new(by_runtime, json_string(path)) < 0 ? -EILSEQ : 0;
	if (lstat(host, &st) < 0)
		return errno == ENOENT ? 0 : err_set(err, BRIG_E_BAD_MOUNT, errno, "docker",
						     "--mask %.200s", path);
	if (S_ISDIR(st.st_mode))
		return json_object_set_new(tmpfs, path, json_string("ro,size=4k,mode=0555")) < 0 ?
			       -EILSEQ : 0;
	return add_mount(mounts, "/dev/null", path, false);
}

/* The private writable trees share the size that was given for all of them. */
static void add_tmpfs(json_t *tmpfs, const struct spec *s, bool podman)
{
	unsigned long long size = s->limits.tmp_size;
	const char *modes[] = { "1777", "0700" };
	const char *paths[] = { "/tmp", s->home };
	const unsigned long long sizes[] = { size / 2, size / 4 };
	bool own_home = !streq(s->home, s->workspace.dst) && !streq(s->home, "/tmp");

	for (size_t i = 0; i < (own_home ? 2u : 1u); i++) {
		char text[160];
		/* runc gives it the mode of the image's directory, so it has to be
		 * owned; Podman knows no owner, so it has to be open.  There is
		 * nobody else inside either way. */
		int n = snprintf(text, sizeof text, "rw,exec,nosuid,nodev,size=%llu,mode=%s",
				 sizes[i], podman ? "1777" : modes[i]);
		if (!podman)
			snprintf(text + n, sizeof text - (size_t)n, ",uid=%u,gid=%u",
				 docker_uid(s), docker_gid(s));
		json_object_set_new(tmpfs, paths[i], json_string(text));
	}
}

/* Podman's own defaults are higher than what it may set when it is confined. */
static void add_own_limits(json_t *list)
{
	static const struct {
		const char *name;
		int which;
		rlim_t most; /* its service has lowered its own to this */
	} kinds[] = { { "nofile", RLIMIT_NOFILE, 1048576 }, { "nproc", RLIMIT_NPROC, 32768 } };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct rlimit r;
		if (getrlimit((__rlimit_resource_t)kinds[i].which, &r) < 0)
			continue;
		json_int_t hard = (json_int_t)(r.rlim_max > kinds[i].most ? kinds[i].most : r.rlim_max);
		json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "Name", kinds[i].name,
						      "Soft", hard, "Hard", hard));
	}
}

static json_t *ulimits(const struct spec *s, bool podman)
{
	/* 1 and not 0: a core handler behind a pipe is started for 0 too */
	json_t *a = json_pack("[{s:s, s:i, s:i}]", "Name", "core", "Soft", 1, "Hard", 1);

	if (s->limits.file_size)
		json_array_append_new(a, json_pack("{s:s, s:I, s:I}", "Name", "fsize", "Soft",
						   (json_int_t)s->limits.file_size, "Hard",
						   (json_int_t)s->limits.file_size));
	if (podman)
		add_own_limits(a);
	return a;
}

/* The text of the profile: the caller's, or brig's own. */
static int profile_text(const struct spec *s, struct buf *b, struct brig_error *err)
{
	if (!s->seccomp_path)
		return seccomp_docker_json(b) < 0 ?
			       err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "the filter") : 0;
	cleanup_free char *text = NULL;
	size_t len = 0;
	FILE *f = fopen(s->seccomp_path, "re");
	int r = f ? fd_read_all(fileno(f), 1 << 20, &text, &len) : -errno;
	if (f)
		fclose(f);
	if (r < 0)
		return err_set(err, BRIG_E_BAD_SECCOMP_PROFILE, -r, "docker", "--seccomp %.200s",
			       s->seccomp_path);
	buf_add(b, text, len);
	return 0;
}

static int add_security(json_t *host, const struct docker_job *j, struct brig_error *err)
{
	cleanup_buf struct buf b = { 0 };
	json_t *opts = json_pack("[s]", "no-new-privileges");

	buf_adds(&b, "seccomp=");
	int r = profile_text(j->spec, &b, err);
	buf_addc(&b, '\0');
	if (r == 0 && (!buf_ok(&b) || json_array_append_new(opts, json_string(b.data)) < 0))
		r = err_set(err, BRIG_E_BAD_SECCOMP_PROFILE, EILSEQ, "docker", "the profile");
	json_object_set_new(host, "SecurityOpt", opts);
	json_object_set_new(host, "CapDrop", json_pack("[s]", "ALL"));
	json_t *add = json_array();
	for (char **c = j->spec->add_caps; c && *c; c++)
		json_array_append_new(add, json_string(*c));
	json_object_set_new(host, "CapAdd", add);
	return r;
}

static void add_limits(json_t *host, const struct spec *s, bool podman)
{
	const struct spec_limits *l = &s->limits;

	if (l->memory) {
		json_object_set_new(host, "Memory", json_integer((json_int_t)l->memory));
		/* the same: memory and swap together, so no swap */
		json_object_set_new(host, "MemorySwap", json_integer((json_int_t)l->memory));
	}
	if (l->cpu_milli)
		json_object_set_new(host, "NanoCpus",
				    json_integer((json_int_t)l->cpu_milli * 1000000));
	if (l->pids)
		json_object_set_new(host, "PidsLimit", json_integer((json_int_t)l->pids));
	json_object_set_new(host, "ShmSize", json_integer((json_int_t)(l->tmp_size / 4)));
	json_object_set_new(host, "Ulimits", ulimits(s, podman));
	json_object_set_new(host, "OomScoreAdj", json_integer(500));
}

static int host_config(json_t *host, const struct docker_job *j, bool stream, bool podman,
		       struct brig_error *err)
{
	const struct spec *s = j->spec;
	json_t *mounts = json_array(), *tmpfs = json_object();
	json_t *hide = strings(masked, ARRAY_LEN(masked));
	char park[PATH_MAX];

	json_object_set_new(host, "Mounts", mounts);
	json_object_set_new(host, "Tmpfs", tmpfs);
	json_object_set_new(host, "MaskedPaths", hide);
	json_object_set_new(host, "ReadonlyPaths", strings(read_only, ARRAY_LEN(read_only)));
	int r = helper_find("brig-park", park);
	if (r < 0) {
		err_set(err, BRIG_E_UNSUPPORTED, -r, "docker", "the helper brig-park is missing");
		err_fix(err, "install it beside brig or in ../libexec/brig");
		return r;
	}
	if (add_mount(mounts, park, DOCKER_INSIDE "/park", false) < 0)
		return mount_error(park, err);
	add_tmpfs(tmpfs, s, podman);
	r = add_binds(mounts, j, err);
	for (char **m = s->masks; r == 0 && m && *m; m++)
		r = add_mask(mounts, tmpfs, hide, s, *m, stream, err);
	if (r == -EILSEQ && err->code == BRIG_E_OK)
		mount_error("--mask", err);
	if (r == 0)
		r = add_security(host, j, err);
	add_limits(host, s, podman);
	return r;
}

static json_t *create_body(const struct docker_job *j, bool stream, bool podman,
			   struct brig_error *err)
{
	const struct spec *s = j->spec;
	char user[32];

	snprintf(user, sizeof user, "%u:%u", docker_uid(s), docker_gid(s));
	json_t *host = json_pack("{s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:{s:s}, s:{s:s}}",
				 "NetworkMode", s->net == NET_HOST ? "host" : "none", "IpcMode",
				 "private", "CgroupnsMode", "private", "ReadonlyRootfs",
				 !s->writable_root, "Privileged", 0, "AutoRemove", 0, "Init", 0,
				 "LogConfig", "Type", "none", "RestartPolicy", "Name", "no");
	/* the job, an ordinary user, makes the resolver's and web servers' listeners;
	 * where it is the engine's default already nothing changes */
	if (host && s->net == NET_ALLOW && docker_net_form(s) == ALLOW_LOOPBACK)
		json_object_set_new(host, "Sysctls",
				    json_pack("{s:s}", "net.ipv4.ip_unprivileged_port_start",
					      "0"));
	if (host && s->runtime)
		json_object_set_new(host, "Runtime", json_string(s->runtime));
	/* "NONE": the image's own health check would run its programs before the
	 * evidence is in */
	json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:[], s:[], s:{s:[s]}, s:b, s:b, s:b}",
				 "Image", s->image, "User", user, "Hostname", "sandbox",
				 "WorkingDir", "/", "Env", "Cmd", "Healthcheck", "Test", "NONE",
				 "Tty", 0, "OpenStdin", stream, "StdinOnce", stream);
	if (!host || !body) {
		json_decref(host);
		json_decref(body);
		err_set(err, BRIG_E_BAD_VALUE, EILSEQ, "docker",
			"the name of the image or runtime");
		err_fix(err, "give it in UTF-8");
		return NULL;
	}
	json_object_set_new(body, "HostConfig", host);
	json_object_set_new(body, "Entrypoint",
			    json_pack("[s, s]", DOCKER_INSIDE "/park",
				      stream ? "-" : DOCKER_INSIDE "/ctl"));
	if (host_config(host, j, stream, podman, err) < 0) {
		json_decref(body);
		return NULL;
	}
	return body;
}

bool docker_runtime_is_native(const char *name)
{
	static const char *const known[] = { "runc", "crun", "youki", "io.containerd.runc.v2",
					     "io.containerd.runc.v1",
					     "io.containerd.runtime.v1.linux" };

	/* Podman may name its own by a path */
	if (name[0] == '/')
		name = strrchr(name, '/') + 1;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (streq(known[i], name))
			return true;
	return false;
}

/* Sockets cannot be had out of another kernel, nor by ids that mean others here. */
static int no_allow_list(const struct spec *s, const struct docker_engine *e,
			 struct brig_error *err)
{
	if (e->remapped)
		err_set(err, BRIG_E_UNSUPPORTED, 0, "docker",
			"an allow-list does not reach the containers of an engine that maps "
			"ids (rootless, userns-remap)");
	else
		err_set(err, BRIG_E_UNSUPPORTED, 0, "docker",
			"an allow-list does not reach a container with the runtime %.60s: its "
			"network is inside that runtime's own kernel, out of brig's reach",
			s->runtime ? s->runtime : e->runtime);
	err_fix(err, "use the runtime runc, --net none, or --backend native");
	return -EOPNOTSUPP;
}

int docker_recipe_build(struct docker_recipe *r, const struct docker_job *j,
			const struct docker_engine *e, struct brig_error *err)
{
	const struct spec *s = j->spec;

	*r = (struct docker_recipe){ .n_paths = j->n_checks, .pool_size = s->pool_size,
				     .pool_idle_ms = s->pool_idle_ms };
	snprintf(r->socket, sizeof r->socket, "%s", j->socket);
	if (s->idmapped) {
		r->map_uid = docker_uid(s);
		r->map_gid = docker_gid(s);
	}
	/* Where ids or the kernel are others, no socket and no descriptors of ours:
	 * the engine's stream goes everywhere. */
	r->stream = e->remapped || !docker_runtime_is_native(s->runtime ? s->runtime : e->runtime);
	snprintf(r->resolver, sizeof r->resolver, "%s", docker_net_resolver(s));
	if (s->net == NET_ALLOW && r->stream)
		return no_allow_list(s, e, err);
	r->body = create_body(j, r->stream, e->podman, err);
	if (r->body && docker_job_key(j, &r->key) == 0 && docker_hello_build(j, &r->hello) == 0)
		return 0;
	if (err->code == BRIG_E_OK)
		err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "a recipe");
	docker_recipe_free(r);
	return -EINVAL;
}

void docker_recipe_free(struct docker_recipe *r)
{
	json_decref(r->body);
	buf_free(&r->hello);
	buf_free(&r->key);
	*r = (struct docker_recipe){ 0 };
}
