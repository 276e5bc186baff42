/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Engine API over its unix socket.  The engine is on the other side of a
 * trust boundary in both directions: every answer is bounded in size and time,
 * and nothing of it is shown without being made printable.
 */
#ifndef BACKEND_DOCKER_API_H
#define BACKEND_DOCKER_API_H

#include <jansson.h>
#include <stddef.h>

#include "brig.h"

struct docker_api;

/* Connects and agrees on a version.  0 or -errno with err and a fix. */
int docker_api_open(const char *socket, struct docker_api **out, struct brig_error *err);
void docker_api_close(struct docker_api *api);

/*
 * One request.  body may be NULL; path starts with "/" and is used below the
 * version.  The status goes to *status and the answer, when it is JSON, to
 * *answer (may be NULL; the caller's reference).  0 when there was an answer,
 * whatever its status; -errno with err when there was none.
 */
int docker_api_call(struct docker_api *api, const char *method, const char *path,
		    const json_t *body, int timeout_ms, long *status, json_t **answer,
		    struct brig_error *err);

/* Fills err from an answer that is not a success: the engine's own message,
 * cleaned.  Always negative. */
int docker_api_error(struct brig_error *err, const char *what, long status,
		     const json_t *answer);

/* The container's standard streams as one connection, after which nothing is
 * HTTP any more.  The descriptor, or -errno with err. */
int docker_api_attach(struct docker_api *api, const char *id, struct brig_error *err);

/* "1.41" and so on; what the engine calls itself. */
const char *docker_api_version(const struct docker_api *api);
const char *docker_api_engine(const struct docker_api *api);

#endif
