/* SPDX-License-Identifier: Apache-2.0 */
/* The docker backend proper: one call, with a container made for it or one that
 * waited. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/docker_engine.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/watch.h"


struct state {
	struct docker_job job;
	struct docker_engine engine;
	struct docker_recipe recipe;
	uint64_t t_start;
};

static void release(void *state)
{
	struct state *st = state;

	if (!st)
		return;
	docker_recipe_free(&st->recipe);
	docker_engine_close(&st->engine);
	docker_job_free(&st->job);
	free(st);
}

static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	struct state *st = calloc(1, sizeof *st);

	if (!st)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "a run");
	st->t_start = now_ns();
	int r = docker_job_init(&st->job, s, err);
	if (r == 0)
		r = docker_engine_open(st->job.socket, &st->engine, err);
	if (r == 0)
		r = docker_recipe_build(&st->recipe, &st->job, &st->engine, err);
	if (r < 0) {
		release(st);
		return r;
	}
	*state = st;
	return 0;
}

struct target {
	struct docker_engine *engine;
	const char *id;
	bool gone;
};

static int stop_container(void *arg)
{
	struct target *t = arg;
	struct brig_error err = { 0 };
	int r = docker_container_remove(t->engine, t->id, &err);

	t->gone = r == 0;
	return r;
}

static void make_and_call(struct state *st, const struct spec *s, struct brig_result *res)
{
	struct docker_parked p;
	struct brig_error gone = { 0 };

	if (docker_container_make(&st->engine, &st->recipe, s->id, s->name, &p, &res->error) < 0)
		return;
	struct target t = { &st->engine, p.id, false };
	const struct docker_stop stop = { stop_container, &t };
	docker_call(&st->job, &p, &stop, st->t_start, res);
	/* besides what the control group counted, if it could be read */
	if (res->ran && !res->oom && res->signal == SIGKILL && !res->timed_out && !t.gone)
		res->oom = docker_container_oom(&st->engine, p.id);
	if (!t.gone && docker_container_remove(&st->engine, p.id, &gone) < 0)
		result_deny(res, "container", p.id, gone.message, "remove it by hand", 1);
	docker_parked_free(&p);
}

/* While a container exists, a signal must not end us without it. */
static void hold_signals(sigset_t *old)
{
	static const int held[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1,
				    SIGUSR2, SIGPIPE };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(held); i++)
		sigaddset(&set, held[i]);
	sigprocmask(SIG_BLOCK, &set, old);
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	struct state *st = state;
	struct docker_parked p;
	sigset_t old;
	int keeper = -1;

	hold_signals(&old);
	int claimed = s->pool_size ? docker_claim(&st->recipe.key, st->job.n_checks, &p, &keeper) :
				     -ENOENT;
	if (claimed == 0) {
		const struct docker_stop stop = { docker_claim_stop, &keeper };
		docker_call(&st->job, &p, &stop, st->t_start, res);
		docker_parked_free(&p);
		fd_close(&keeper);
		if (docker_call_unused(res)) {
			res->error = (struct brig_error){ 0 };
			claimed = -EAGAIN;
		}
	}
	if (claimed < 0) {
		docker_sweep(&st->engine);
		make_and_call(st, s, res);
		if (s->pool_size && claimed == -ENOENT && res->error.code == BRIG_E_OK)
			docker_keeper_start(&st->recipe);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void describe(const struct spec *s, const void *state, struct buf *out)
{
	const struct state *st = state;
	const json_t *host = json_object_get(st->recipe.body, "HostConfig"), *m;

	buf_addf(out, "image %s, runtime %s, engine at %s\n", s->image,
		 s->runtime ? s->runtime : st->engine.runtime, st->job.socket);
	const json_t *mounts = json_object_get(host, "Mounts");
	for (size_t i = 0; (m = json_array_get(mounts, i)); i++)
		buf_addf(out, "bind %s at %s%s\n",
			 json_string_value(json_object_get(m, "Source")),
			 json_string_value(json_object_get(m, "Target")),
			 json_is_true(json_object_get(m, "ReadOnly")) ? ", read-only" : "");
	buf_addf(out, "network %s, user %s\n",
		 json_string_value(json_object_get(host, "NetworkMode")),
		 json_string_value(json_object_get(st->recipe.body, "User")));
	if (s->net == NET_ALLOW)
		buf_addf(out, "allow-list: resolver at %s, %s\n", st->recipe.resolver,
			 docker_net_form(s) == ALLOW_ROUTED ?
				 "routes and listeners made in the container's network namespace" :
				 "names have addresses of 127.18.0.0/15, listeners made by "
				 "brig-park inside; the list's ports are taken there");
}

const struct backend backend_docker = {
	.name = "docker",
	.summary = "a container of Docker or Podman, with runc, gVisor or any runtime",
	.can = DOCKER_CAN,
	.images = true,
	.allow_list = DOCKER_ALLOW_LIST,
	.probe = docker_probe,
	.prepare = prepare,
	.run = run,
	.release = release,
	.describe = describe,
};
