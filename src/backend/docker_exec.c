/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The docker backend of the brig executable.  A container that waits is used
 * right here: that needs no engine.  For everything else the engine's libraries
 * live in brig-docker, which is brig with libbrig, and this process becomes it
 * with the same arguments, environment and descriptors; nothing has been done
 * yet that would have to be undone.  libbrig has docker.c instead of this file.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/docker.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/str.h"
#include "engine/watch.h"

extern char **environ;

struct state {
	struct docker_job job;
	struct docker_parked parked;
	int keeper;
	uint64_t t_start;
};

static void release(void *state)
{
	struct state *st = state;

	if (!st)
		return;
	docker_parked_free(&st->parked);
	fd_close(&st->keeper);
	docker_job_free(&st->job);
	free(st);
}

/* The arguments of this process, as the kernel has them. */
static char **own_arguments(void)
{
	cleanup_close int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	cleanup_free char *text = NULL;
	char **argv = NULL;
	size_t len = 0, n = 0;

	if (fd < 0 || fd_read_all(fd, 16 << 20, &text, &len) < 0)
		return NULL;
	for (size_t at = 0; at < len; at += strlen(text + at) + 1)
		if (strv_put(&argv, &n, strdup(text + at)) < 0)
			return NULL;
	return argv;
}

/* What --env-fd brought has been read: the same again, in its place. */
static int refill_env_fd(const struct spec *s)
{
	if (s->env_fd < 0)
		return 0;
	int fd = (int)syscall(SYS_memfd_create, "brig-env", 0u);
	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, s->env_fd_data, s->env_fd_len);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0 || (fd != s->env_fd && dup2(fd, s->env_fd) < 0))
		return -errno;
	if (fd != s->env_fd)
		close(fd);
	return 0;
}

/* Returns only when it cannot. */
static int become_helper(const struct spec *s, struct brig_error *err)
{
	big_buffer char path[PATH_MAX];

	int r = helper_find("brig-docker", path);
	if (r < 0) {
		err_set(err, BRIG_E_UNSUPPORTED, -r, "docker",
			"the helper brig-docker is missing");
		err_fix(err, "install it beside brig or in ../libexec/brig");
		return r;
	}
	char **argv = own_arguments();
	if (!argv)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "the arguments");
	r = refill_env_fd(s);
	if (r == 0) {
		execve(path, argv, environ);
		r = -errno;
	}
	strv_free(argv);
	return err_set(err, BRIG_E_SETUP_FAILED, -r, "docker", "brig-docker");
}

static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	uint64_t t_start = now_ns();
	struct buf key = { 0 };

	if (!s->pool_size)
		return become_helper(s, err);
	struct state *st = calloc(1, sizeof *st);
	if (!st)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "a run");
	docker_parked_init(&st->parked);
	st->keeper = -1;
	st->t_start = t_start;
	int r = docker_job_init(&st->job, s, err);
	if (r == 0 && docker_job_key(&st->job, &key) == 0 &&
	    docker_claim(&key, st->job.n_checks, &st->parked, &st->keeper) == 0)
		*state = st;
	else if (r == 0)
		r = become_helper(s, err);
	buf_free(&key);
	if (!*state)
		release(st);
	return r;
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	struct state *st = state;
	const struct docker_stop stop = { docker_claim_stop, &st->keeper };

	docker_call(&st->job, &st->parked, &stop, st->t_start, res);
	if (docker_call_unused(res)) {
		struct brig_error ignored = { 0 };
		become_helper(s, &ignored); /* drops the claim by close-on-exec */
	}
}

/* The plan of a container needs the engine: the helper explains. */
static void describe(const struct spec *s, const void *state, struct buf *out)
{
	struct brig_error err = { 0 };

	(void)state;
	become_helper(s, &err);
	buf_addf(out, "it cannot run here: %s (%s)\n", err.message, err.fix);
}

static int probe(struct probe_result out[PROBE_MAX])
{
	const struct spec none = { .env_fd = -1 };
	struct brig_error err = { 0 };

	become_helper(&none, &err);
	out[0] = (struct probe_result){ .name = "engine", .layers = DOCKER_CAN,
					.state = PROBE_FAILED };
	snprintf(out[0].detail, sizeof out[0].detail, "%s", err.message);
	snprintf(out[0].fix, sizeof out[0].fix, "%s", err.fix);
	return 1;
}

const struct backend backend_docker = {
	.name = "docker",
	.summary = "a container of Docker or Podman, with runc, gVisor or any runtime",
	.can = DOCKER_CAN,
	.images = true,
	.allow_list = DOCKER_ALLOW_LIST,
	.becomes_helper = true,
	.probe = probe,
	.prepare = prepare,
	.run = run,
	.release = release,
	.describes_bare = true,
	.describe = describe,
};
