/* SPDX-License-Identifier: Apache-2.0 */
/* What one run asks of a container: paths to be shown and checked, and the key
 * under which waiting containers are shared. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/docker.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/str.h"

/*
 * Root's own workspace is shown under an id that nobody has.  It is made from
 * the workspace, so that waiting containers fit the next call; different
 * workspaces have different ids.
 */
static uint32_t mapped_id(const struct spec *s)
{
	const struct {
		uint64_t dev, ino;
	} what = { s->workspace.dev, s->workspace.ino };

	return 0x70400000u + (uint32_t)(docker_hash((const char *)&what, sizeof what) & 0x3fffff);
}

uid_t docker_uid(const struct spec *s)
{
	if (s->idmapped)
		return mapped_id(s);
	return s->host_uid ? s->host_uid : s->in_uid;
}

gid_t docker_gid(const struct spec *s)
{
	if (s->idmapped)
		return mapped_id(s);
	return s->host_gid ? s->host_gid : s->in_gid;
}

unsigned docker_required(const struct spec *s)
{
	if (s->require_explicit)
		return s->required;
	unsigned bits = s->required & (DOCKER_CAN | s->asked);
	/* a capability that was asked for is not a missing layer */
	return s->add_caps && s->add_caps[0] ? bits & ~LAYER_BIT(LAYER_CAPS) : bits;
}

/* Takes both names over, even on failure. */
static int add_check(struct docker_job *j, char *path, char *src, dev_t dev, ino_t ino,
		     bool is_dir, bool read_only)
{
	struct docker_check *v =
		path && src ? realloc(j->checks, (j->n_checks + 1) * sizeof *v) : NULL;

	if (!v) {
		free(path);
		free(src);
		return -ENOMEM;
	}
	j->checks = v;
	v[j->n_checks++] = (struct docker_check){ path, src, dev, ino, is_dir, read_only };
	return 0;
}

static int collect_checks(struct docker_job *j)
{
	const struct spec *s = j->spec;
	const struct spec_bind *w = &s->workspace;
	int r = add_check(j, strdup(w->dst), strdup(w->src), w->dev, w->ino, true, !w->writable);

	for (size_t i = 0; r == 0 && i < s->n_binds; i++) {
		const struct spec_bind *b = &s->binds[i];
		r = add_check(j, strdup(b->dst), strdup(b->src), b->dev, b->ino, b->is_dir,
			      !b->writable);
	}
	for (size_t i = 0; r == 0 && i < j->protect.n; i++) {
		const struct protect_entry *e = &j->protect.v[i];
		if (e->kind == PROTECT_RO || e->kind == PROTECT_PIN)
			r = add_check(j, str_fmt("%s/%s", w->dst, e->path),
				      str_fmt("%s/%s", w->src, e->path), e->dev, e->ino,
				      e->is_dir, e->kind == PROTECT_RO);
	}
	return r;
}

/* What this backend cannot do is said before anything is started. */
static int check_spec(const struct spec *s, struct brig_error *err)
{
	if (!s->image) {
		err_set(err, BRIG_E_BAD_OPTION, 0, "docker",
			"the docker backend needs an image");
		err_fix(err, "give one with --image, docker images lists what is here");
		return -EINVAL;
	}
	return 0;
}

int docker_job_init(struct docker_job *j, const struct spec *s, struct brig_error *err)
{
	*j = (struct docker_job){ .spec = s };
	int r = check_spec(s, err);
	if (r == 0)
		r = docker_socket_find(s, j->socket, err);
	if (r < 0)
		return r;
	r = protect_scan(&j->protect, s->workspace.fd, s->workspace.src, (const char *const *)s->protect, s->id,
			 err);
	if (r < 0)
		return r;
	j->cwd = *s->cwd ? str_fmt("%s/%s", s->workspace.dst, s->cwd) :
			   strdup(s->workspace.dst);
	if (!j->cwd || collect_checks(j) < 0) {
		docker_job_free(j);
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "docker", "a list of paths");
	}
	if (j->n_checks > PARK_PATHS_MAX) {
		docker_job_free(j);
		err_set(err, BRIG_E_BAD_MOUNT, E2BIG, "docker",
			"more than %d paths to show and protect", PARK_PATHS_MAX);
		err_fix(err, "show fewer paths, or use --backend native");
		return -E2BIG;
	}
	return 0;
}

void docker_job_free(struct docker_job *j)
{
	for (size_t i = 0; i < j->n_checks; i++) {
		free(j->checks[i].path);
		free(j->checks[i].src);
	}
	free(j->checks);
	free(j->cwd);
	protect_free(&j->protect);
	*j = (struct docker_job){ 0 };
}

/* Length first: no value can look like the next field. */
static void field(struct buf *b, const char *name, const char *value)
{
	buf_addf(b, "%s %zu ", name, value ? strlen(value) : (size_t)0);
	buf_adds(b, value ? value : "");
	buf_addc(b, '\n');
}

static void number(struct buf *b, const char *name, uint64_t v)
{
	buf_addf(b, "%s %llu\n", name, (unsigned long long)v);
}

static void list(struct buf *b, const char *name, char *const *v)
{
	for (; v && *v; v++)
		field(b, name, *v);
}

static void key_bind(struct buf *b, const struct spec_bind *m)
{
	field(b, "from", m->src);
	field(b, "to", m->dst);
	number(b, "writable", m->writable);
}

int docker_job_key(const struct docker_job *j, struct buf *b)
{
	const struct spec *s = j->spec;
	big_buffer char park[PATH_MAX];
	struct stat st;

	int r = helper_find("brig-park", park);
	if (r < 0 || stat(park, &st) < 0)
		return r < 0 ? r : -errno;
	buf_addf(b, "brig %s\n", BRIG_VERSION);
	number(b, "park", (uint64_t)st.st_ino ^ (uint64_t)st.st_mtim.tv_nsec);
	field(b, "socket", j->socket);
	field(b, "image", s->image);
	field(b, "runtime", s->runtime);
	number(b, "idmapped", s->idmapped);
	number(b, "uid", docker_uid(s));
	number(b, "gid", docker_gid(s));
	key_bind(b, &s->workspace);
	for (size_t i = 0; i < s->n_binds; i++)
		key_bind(b, &s->binds[i]);
	list(b, "mask", s->masks);
	list(b, "add", s->add_caps);
	field(b, "home", s->home);
	/* that there is an allow-list, never which: it comes with the call */
	number(b, "net", s->net);
	field(b, "resolver", docker_net_resolver(s));
	number(b, "writable_root", s->writable_root);
	number(b, "memory", s->limits.memory);
	number(b, "cpu", s->limits.cpu_milli);
	number(b, "pids", s->limits.pids);
	number(b, "tmp", s->limits.tmp_size);
	number(b, "file", s->limits.file_size);
	for (size_t i = 0; i < j->n_checks; i++) {
		const struct docker_check *c = &j->checks[i];
		field(b, "path", c->path);
		number(b, "dev", c->dev);
		number(b, "ino", c->ino);
		number(b, "ro", c->read_only);
	}
	field(b, "profile", s->seccomp_path);
	if (s->seccomp)
		buf_add(b, s->seccomp->insns, s->seccomp->len * sizeof *s->seccomp->insns);
	return buf_ok(b) ? 0 : -ENOMEM;
}

void docker_parked_init(struct docker_parked *p)
{
	*p = (struct docker_parked){ .fd = -1 };
}

void docker_parked_free(struct docker_parked *p)
{
	fd_close(&p->fd);
	free(p->paths);
	p->paths = NULL;
}
