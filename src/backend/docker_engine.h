/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the parts of the docker backend that speak to the engine. */
#ifndef BACKEND_DOCKER_ENGINE_H
#define BACKEND_DOCKER_ENGINE_H

#include <jansson.h>

#include "backend/docker.h"
#include "backend/docker_api.h"

struct docker_engine {
	struct docker_api *api;
	json_t *info; /* /info, for the probe */
	bool podman;
	bool remapped; /* ids inside are not the same outside */
	char runtime[64]; /* the default one */
	char cgroups[8];  /* the version of control groups it uses */
};

/*
 * Everything a container is made from, and nothing of the call it is made for:
 * this is what the pool's keeper gets.
 */
struct docker_recipe {
	char socket[108];
	json_t *body;      /* of the create call; name, labels and the channel's
			      mount are added for each container */
	bool stream;       /* the channel is the attach stream */
	struct buf hello;  /* arms the job */
	size_t n_paths;
	struct buf key;
	uint64_t pool_size, pool_idle_ms;
	uint32_t map_uid, map_gid; /* root's trees are shown under these; 0: none are */
	char resolver[16]; /* its address inside; empty: there is none */
	char owner[160];   /* label of its containers; empty: this process */
};

/* docker_engine.c.  0 or -errno with err. */
int docker_engine_open(const char *socket, struct docker_engine *e, struct brig_error *err);
void docker_engine_close(struct docker_engine *e);

/* docker_body.c: the recipe of a job on this engine. */
int docker_recipe_build(struct docker_recipe *r, const struct docker_job *j,
			const struct docker_engine *e, struct brig_error *err);
void docker_recipe_free(struct docker_recipe *r);
/* The recipe as text, and back. */
char *docker_recipe_text(const struct docker_recipe *r);
int docker_recipe_parse(struct docker_recipe *r, const char *text, size_t len);
/* True when this runtime runs containers as processes of this kernel, which can
 * connect to a socket of ours. */
bool docker_runtime_is_native(const char *name);

/* docker_container.c: makes and starts a container from the recipe, connects to its init, reads back what
 * the engine stored, and arms the job.  What it made it removes when it fails. */
int docker_container_make(struct docker_engine *e, const struct docker_recipe *r,
			  const char *id, const char *name, struct docker_parked *p,
			  struct brig_error *err);
/* Removes it, running or not; gone already is a success. */
int docker_container_remove(struct docker_engine *e, const char *id, struct brig_error *err);
/* The engine's own word on whether memory ran out. */
bool docker_container_oom(struct docker_engine *e, const char *id);
/* docker_readback.c: LAYER_BITs that the stored configuration supports; -errno with err when it is
 * not what was asked for. */
int docker_readback(const json_t *inspect, const json_t *body, unsigned *says,
		    struct brig_error *err);

/* docker_idmap.c: trees of root's, each mounted once more for the engine under
 * other ids, and the body's sources changed to there.  The mounts are detached
 * again by docker_idmap_release(), when the container has them. */
enum { DOCKER_MAPPED_MAX = 16 };
struct docker_mapped {
	char at[DOCKER_MAPPED_MAX][108];
	size_t n;
};
int docker_idmap_apply(struct docker_mapped *m, json_t *body, const struct docker_recipe *r,
		       const char *id, struct brig_error *err);
void docker_idmap_release(struct docker_mapped *m);
/* Removes sockets and mounts of processes that are gone. */
void docker_dir_sweep(void);

/* docker_sweep.c: "boot pidns uid pid start" of this process, for a label. */
int docker_owner(char out[160]);
/* Removes containers of owners that are gone.  How many. */
int docker_sweep(struct docker_engine *e);
/* True when the owner text names a process that is gone for certain. */
bool docker_owner_gone(const char *owner);

/* docker_probe.c: what doctor shows. */
struct probe_result;
int docker_probe(struct probe_result *out);

/* docker_keeper.c: the process that keeps containers waiting; returns its exit
 * code.  docker_keeper_start() starts one, detached. */
int docker_keeper_main(int recipe_fd);
int docker_keeper_start(const struct docker_recipe *r);

#endif
