/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spec.h"

#include <stdlib.h>

#include "base/fd.h"
#include "base/str.h"

static void bind_free(struct spec_bind *b)
{
	free(b->src);
	free(b->dst);
	fd_close(&b->fd);
}

void spec_close_sources(const struct spec *s)
{
	for (size_t i = 0; i < s->n_binds; i++)
		fd_close(&s->binds[i].fd);
}

void spec_free(struct spec *s)
{
	if (!s)
		return;
	free(s->name);
	strv_free(s->argv);
	strv_free(s->env);
	free(s->env_fd_data);
	bind_free(&s->workspace);
	free(s->cwd);
	for (size_t i = 0; i < s->n_binds; i++)
		bind_free(&s->binds[i]);
	free(s->binds);
	strv_free(s->masks);
	strv_free(s->key_masks);
	strv_free(s->tool_path);
	strv_free(s->tool_env);
	free(s->gitconfig);
	strv_free(s->notes);
	strv_free(s->protect);
	free(s->image);
	free(s->runtime);
	strv_free(s->add_caps);
	strv_free(s->drop_caps);
	strv_free(s->wrapper);
	free(s->docker_socket);
	strv_free(s->allow);
	seccomp_prog_free(s->seccomp);
	free(s->seccomp_path);
	free(s->home);
	free(s);
}
