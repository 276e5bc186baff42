/* SPDX-License-Identifier: Apache-2.0 */
/* One container, from the recipe to an armed job, and its removal. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/docker_engine.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

enum { CREATE_MS = 30000, START_MS = 60000, INSPECT_MS = 10000, REMOVE_MS = 60000,
       CONNECT_MS = 20000, REPORT_MS = 20000 };

/* The socket that the container's init connects to, once. */
struct door {
	int fd;
	char path[108];
};

static int open_door(struct door *d, const char *id, struct brig_error *err)
{
	char dir[PATH_MAX];
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	d->fd = -1;
	int r = docker_dir(dir, true);
	if (r == 0 && snprintf(d->path, sizeof d->path, "%s/%d-%s.ctl", dir, (int)getpid(), id) >=
			      (int)sizeof d->path)
		r = -ENAMETOOLONG;
	if (r < 0) {
		err_set(err, BRIG_E_SETUP_FAILED, -r, "docker", "brig's directory for sockets");
		err_fix(err, "it must belong to you alone: remove what is in its place");
		return r;
	}
	memcpy(a.sun_path, d->path, sizeof d->path);
	d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* for the container's id, which sees this one file; on the host the
	 * directory above is closed to everybody else */
	if (d->fd < 0 || bind(d->fd, (struct sockaddr *)&a, sizeof a) < 0 ||
	    chmod(d->path, 0666) < 0 || listen(d->fd, 1) < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, errno, "docker", "%s", d->path);
	return 0;
}

/* After the first connection nobody inside can make another. */
static void close_door(struct door *d)
{
	if (d->fd >= 0)
		unlink(d->path);
	fd_close(&d->fd);
}

static json_t *container_body(const struct docker_recipe *r, const struct door *d,
			      const char *id, const char *name)
{
	char owner[160];
	json_t *body = json_deep_copy(r->body);

	if (r->owner[0])
		snprintf(owner, sizeof owner, "%s", r->owner);
	else if (docker_owner(owner) < 0)
		owner[0] = '\0';
	if (!body || !owner[0]) {
		json_decref(body);
		return NULL;
	}
	json_t *labels = json_pack("{s:s, s:s}", "brig.id", id, "brig.owner", owner);
	if (name)
		json_object_set_new(labels, "brig.name", json_string(name));
	json_object_set_new(body, "Labels", labels);
	if (d->fd >= 0) {
		json_t *mounts = json_object_get(json_object_get(body, "HostConfig"), "Mounts");
		json_array_append_new(mounts, json_pack("{s:s, s:s, s:s, s:b}", "Type", "bind",
							"Source", d->path, "Target",
							DOCKER_INSIDE "/ctl", "ReadOnly", 1));
	}
	return body;
}

/* Podman takes the profile as the name of a file, Docker as text. */
static int profile_file(json_t *body, const char *id, char path[128], struct brig_error *err)
{
	json_t *opts = json_object_get(json_object_get(body, "HostConfig"), "SecurityOpt");
	char dir[PATH_MAX], option[160];
	size_t i;
	json_t *v;

	json_array_foreach(opts, i, v) {
		const char *text = json_string_value(v);
		if (!text || strncmp(text, "seccomp=", 8) != 0)
			continue;
		int n = docker_dir(dir, true);
		if (n == 0 && snprintf(path, 128, "%s/%d-%s.json", dir, (int)getpid(), id) >= 128)
			n = -ENAMETOOLONG;
		cleanup_close int fd = n < 0 ? n : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
							0600);
		if (n == 0)
			n = fd < 0 ? -errno : fd_write_full(fd, text + 8, strlen(text + 8));
		if (n < 0)
			return err_set(err, BRIG_E_SETUP_FAILED, -n, "docker", "the profile");
		snprintf(option, sizeof option, "seccomp=%s", path);
		json_array_set_new(opts, i, json_string(option));
	}
	return 0;
}

/* resolv.conf of a container with an allow-list: the egress process answers.  A file
 * of ours rather than the engine's own option for it, which Podman refuses without a
 * network and Docker adds the host's search domains to. */
static int resolver_file(json_t *body, const char *id, const char *resolver, char path[128],
			 struct brig_error *err)
{
	json_t *mounts = json_object_get(json_object_get(body, "HostConfig"), "Mounts");
	char dir[PATH_MAX], text[80];

	int len = snprintf(text, sizeof text, "nameserver %s\noptions timeout:5 attempts:1\n",
			   resolver);
	int n = docker_dir(dir, true);
	if (n == 0 && snprintf(path, 128, "%s/%d-%s.resolv", dir, (int)getpid(), id) >= 128)
		n = -ENAMETOOLONG;
	cleanup_close int fd = n < 0 ? n : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (n == 0)
		n = fd < 0 ? -errno : fd_write_full(fd, text, (size_t)len);
	/* everybody inside reads it; on the host the directory is closed */
	if (n == 0 && fchmod(fd, 0444) < 0)
		n = -errno;
	if (n < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, -n, "docker", "resolv.conf");
	json_array_append_new(mounts, json_pack("{s:s, s:s, s:s, s:b}", "Type", "bind", "Source",
						path, "Target", "/etc/resolv.conf", "ReadOnly",
						1));
	return 0;
}

static void list_runtimes(const struct docker_engine *e, char *out, size_t cap)
{
	const char *key;
	json_t *v;
	size_t at = 0;

	out[0] = '\0';
	json_object_foreach(json_object_get(e->info, "Runtimes"), key, v) {
		char word[64];
		str_clean(key, word, sizeof word);
		int n = snprintf(out + at, cap - at, "%s%s", at ? ", " : "", word);
		if (n < 0 || (size_t)n >= cap - at)
			return;
		at += (size_t)n;
	}
}

static bool mentions(const json_t *answer, const char *word)
{
	const char *said = json_string_value(json_object_get(answer, "message"));

	return said && strstr(said, word);
}

static int create_error(const struct docker_engine *e, const struct docker_recipe *r,
			long status, const json_t *answer, struct brig_error *err)
{
	const json_t *host = json_object_get(r->body, "HostConfig");
	const char *image = json_string_value(json_object_get(r->body, "Image"));
	const char *runtime = json_string_value(json_object_get(host, "Runtime"));
	cleanup_free char *shown = str_printable(image ? image : "");

	if (status == 404 && !mentions(answer, "runtime")) {
		err_set(err, BRIG_E_SETUP_FAILED, 0, "docker",
			"the image %.150s is not on this machine", shown ? shown : "?");
		err_fix(err, "load it first: docker pull %.100s (brig never pulls by itself)",
			shown ? shown : "IMAGE");
		return -ENOENT;
	}
	int n = docker_api_error(err, "making the container", status, answer);
	if (runtime && mentions(answer, "runtime")) {
		char list[300];
		cleanup_free char *name = str_printable(runtime);
		list_runtimes(e, list, sizeof list);
		err_set(err, BRIG_E_UNSUPPORTED, 0, "docker",
			"the engine has no runtime \"%.60s\"", name ? name : "?");
		err_fix(err, "it has: %s; others are registered in its daemon.json", list);
	}
	return n;
}

static int create(struct docker_engine *e, const struct docker_recipe *r, const json_t *body,
		  const char *id, struct docker_parked *p, struct brig_error *err)
{
	char path[96];
	json_t *answer = NULL;
	long status = 0;

	snprintf(path, sizeof path, "/containers/create?name=brig-%s", id);
	int n = docker_api_call(e->api, "POST", path, body, CREATE_MS, &status, &answer, err);
	if (n == 0 && status != 201)
		n = create_error(e, r, status, answer, err);
	if (n == 0) {
		const char *made = json_string_value(json_object_get(answer, "Id"));
		size_t len = made ? strlen(made) : 0;
		if (len >= 12 && len < sizeof p->id && strspn(made, "0123456789abcdef") == len)
			memcpy(p->id, made, len + 1);
		else
			n = err_set(err, BRIG_E_SETUP_FAILED, EPROTO, "docker",
				    "the engine's answer to creating a container");
	}
	json_decref(answer);
	return n;
}

static int start(struct docker_engine *e, const char *id, struct brig_error *err)
{
	char path[128];
	json_t *answer = NULL;
	long status = 0;

	snprintf(path, sizeof path, "/containers/%s/start", id);
	int r = docker_api_call(e->api, "POST", path, NULL, START_MS, &status, &answer, err);
	if (r == 0 && status != 204) {
		r = docker_api_error(err, "starting the container", status, answer);
		err_fix(err, "the engine must see brig's files and the workspace under the same "
			     "names; its log tells more");
	}
	json_decref(answer);
	return r;
}

static int inspect(struct docker_engine *e, const char *id, json_t **out,
		   struct brig_error *err)
{
	char path[128];
	long status = 0;

	snprintf(path, sizeof path, "/containers/%s/json", id);
	int r = docker_api_call(e->api, "GET", path, NULL, INSPECT_MS, &status, out, err);
	if (r == 0 && (status != 200 || !json_is_object(*out)))
		r = docker_api_error(err, "looking at the container", status, *out);
	return r;
}

/* Waits for the init; looks now and then whether it has died instead. */
static int accept_init(struct docker_engine *e, const struct door *d, const char *id,
		       struct brig_error *err)
{
	for (int waited = 0; waited < CONNECT_MS; waited += 500) {
		struct pollfd p = { d->fd, POLLIN, 0 };
		if (poll(&p, 1, 500) > 0) {
			int fd = accept4(d->fd, NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0)
				return fd;
		}
		json_t *v = NULL;
		int r = inspect(e, id, &v, err);
		const json_t *state = json_object_get(v, "State");
		bool dead = r == 0 && !json_is_true(json_object_get(state, "Running"));
		json_int_t code = json_integer_value(json_object_get(state, "ExitCode"));
		json_decref(v);
		if (r < 0)
			return r;
		if (dead)
			return err_set(err, BRIG_E_SETUP_FAILED, ECHILD, "docker",
				       "the container's init ended (%d) before it connected",
				       (int)code);
	}
	return err_set(err, BRIG_E_SETUP_FAILED, ETIMEDOUT, "docker",
		       "the container's init did not connect");
}

static int bring_up(struct docker_engine *e, const struct docker_recipe *r,
		    const json_t *body, struct door *d, struct docker_parked *p,
		    struct brig_error *err)
{
	json_t *v = NULL;
	int n = 0;

	p->stream = r->stream;
	if (r->stream)
		n = p->fd = docker_api_attach(e->api, p->id, err);
	if (n >= 0)
		n = start(e, p->id, err);
	if (n == 0 && !r->stream)
		n = p->fd = accept_init(e, d, p->id, err);
	close_door(d);
	if (n >= 0)
		n = inspect(e, p->id, &v, err);
	if (n >= 0)
		n = docker_readback(v, body, &p->says, err);
	if (n == 0 && e->podman && !(p->says & LAYER_BIT(LAYER_CGROUP)) &&
	    streq(e->cgroups, "1"))
		p->says |= DOCKER_NO_CGROUPNS;
	if (n >= 0) {
		const json_t *pid = json_object_get(json_object_get(v, "State"), "Pid");
		json_int_t number = json_integer_value(pid);
		p->pid = number > 0 && number <= 4194304 ? (pid_t)number : 0;
		const char *image = json_string_value(json_object_get(v, "Image"));
		snprintf(p->image, sizeof p->image, "%s", image ? image : "");
		n = docker_hello(p, &r->hello, r->n_paths, REPORT_MS, err);
	}
	json_decref(v);
	return n < 0 ? n : 0;
}

int docker_container_make(struct docker_engine *e, const struct docker_recipe *r,
			  const char *id, const char *name, struct docker_parked *p,
			  struct brig_error *err)
{
	struct door d = { .fd = -1 };
	struct docker_mapped mapped = { .n = 0 };
	char profile[128] = "", resolv[128] = "";
	struct brig_error ignored = { 0 };

	docker_parked_init(p);
	int n = r->stream ? 0 : open_door(&d, id, err);
	json_t *body = n == 0 ? container_body(r, &d, id, name) : NULL;
	if (n == 0 && !body)
		n = err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "a request");
	if (n == 0 && r->map_uid)
		n = docker_idmap_apply(&mapped, body, r, id, err);
	if (n == 0 && e->podman)
		n = profile_file(body, id, profile, err);
	if (n == 0 && r->resolver[0])
		n = resolver_file(body, id, r->resolver, resolv, err);
	if (n == 0)
		n = create(e, r, body, id, p, err);
	if (n == 0)
		n = bring_up(e, r, body, &d, p, err);
	json_decref(body);
	docker_idmap_release(&mapped);
	if (profile[0])
		unlink(profile);
	if (resolv[0])
		unlink(resolv); /* the mount holds it */
	close_door(&d);
	if (n < 0 && p->id[0])
		docker_container_remove(e, p->id, &ignored);
	if (n < 0)
		docker_parked_free(p);
	return n;
}

int docker_container_remove(struct docker_engine *e, const char *id, struct brig_error *err)
{
	char path[128];
	json_t *answer = NULL;
	long status = 0;
	int r = 0;

	snprintf(path, sizeof path, "/containers/%s?force=1&v=1", id);
	/* "removal in progress" is somebody else's, or our own that timed out */
	for (int tries = 0; tries < 20; tries++) {
		json_decref(answer);
		answer = NULL;
		r = docker_api_call(e->api, "DELETE", path, NULL, REMOVE_MS, &status, &answer,
				    err);
		if (r < 0 || status == 204 || status == 200 || status == 404)
			break;
		if (status != 409 && status != 500)
			break;
		usleep(50000);
	}
	if (r == 0 && status != 204 && status != 200 && status != 404)
		r = docker_api_error(err, "removing the container", status, answer);
	json_decref(answer);
	return r;
}

bool docker_container_oom(struct docker_engine *e, const char *id)
{
	struct brig_error err = { 0 };
	json_t *v = NULL;

	bool oom = inspect(e, id, &v, &err) == 0 &&
		   json_is_true(json_object_get(json_object_get(v, "State"), "OOMKilled"));
	json_decref(v);
	return oom;
}
