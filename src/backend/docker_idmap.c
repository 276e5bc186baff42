/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root's own workspace under an id that nobody has.  The engine takes names, so
 * the tree is mounted once more, id-mapped, in brig's own directory, for as
 * long as it takes to start the container.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/docker_engine.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mountapi.h"
#include "base/str.h"
#include "confine/root.h"

static int attach(struct docker_mapped *m, const struct docker_recipe *r, const char *src,
		  const struct stat *st, const char *id, struct brig_error *err)
{
	const struct spec_bind b = { .src = (char *)src, .writable = true, .is_dir = true,
				     .owner_uid = st->st_uid, .owner_gid = st->st_gid };
	char dir[PATH_MAX];

	if (m->n == DOCKER_MAPPED_MAX)
		return err_set(err, BRIG_E_BAD_MOUNT, E2BIG, "docker",
			       "too many writable trees that belong to root");
	int e = docker_dir(dir, true);
	if (e < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, -e, "docker", "brig's directory");
	/* gVisor's file server is root: it makes a file and gives it to the one who
	 * asked.  As root it has to exist in the tree for that; what it makes belongs,
	 * on the disk, to the id that nobody has until it is given away. */
	cleanup_close int tree = root_idmap_tree(&b, r->map_uid, r->map_gid, r->stream, err);
	if (tree < 0)
		return tree;
	char *at = m->at[m->n];
	snprintf(at, sizeof m->at[0], "%s/%d-%s-%zu.map", dir, (int)getpid(), id, m->n);
	if (mkdir(at, 0700) < 0)
		return err_set(err, BRIG_E_SETUP_FAILED, errno, "docker", "%s", at);
	m->n++;
	if (sys_move_mount(tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(err, BRIG_E_MOUNT_FAILED, errno, "docker", "%s", at);
	return 0;
}

/* Changes the sources that are this tree or lie in it. */
static void redirect(json_t *mounts, const char *src, const char *at)
{
	size_t i;
	json_t *m;

	json_array_foreach(mounts, i, m) {
		const char *from = json_string_value(json_object_get(m, "Source"));
		if (!from || !path_is_under(from, src))
			continue;
		cleanup_free char *to = str_fmt("%s%s", at, from + strlen(src));
		if (to)
			json_object_set_new(m, "Source", json_string(to));
	}
}

int docker_idmap_apply(struct docker_mapped *m, json_t *body, const struct docker_recipe *r,
		       const char *id, struct brig_error *err)
{
	json_t *mounts = json_object_get(json_object_get(body, "HostConfig"), "Mounts");
	size_t i;
	json_t *v;

	json_array_foreach(mounts, i, v) {
		const char *src = json_string_value(json_object_get(v, "Source"));
		struct stat st;
		/* what is read-only stays as it is: the command reads what everybody
		 * may read */
		if (!src || json_is_true(json_object_get(v, "ReadOnly")) ||
		    lstat(src, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != 0 ||
		    strstr(src, ".map"))
			continue;
		cleanup_free char *from = strdup(src);
		int e = from ? attach(m, r, from, &st, id, err) : -ENOMEM;
		if (e < 0)
			return e;
		redirect(mounts, from, m->at[m->n - 1]);
	}
	return 0;
}

/* The socket and lock of a keeper that was killed: nobody holds the lock. */
static void sweep_keeper(const char *lock_path)
{
	char pool[PATH_MAX + 300];
	size_t n = strlen(lock_path) - strlen(".lock");

	cleanup_close int lock = open(lock_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
		return;
	snprintf(pool, sizeof pool, "%.*s.pool", (int)n, lock_path);
	unlink(pool);
	unlink(lock_path);
}

/* "PID-….ctl", ".json", ".resolv" and ".map" of processes that are gone. */
void docker_dir_sweep(void)
{
	char dir[PATH_MAX];
	DIR *d = docker_dir(dir, false) == 0 ? opendir(dir) : NULL;

	for (struct dirent *e; d && (e = readdir(d));) {
		char path[PATH_MAX + 300];
		const char *ending = strrchr(e->d_name, '.');
		int pid = atoi(e->d_name);
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (ending && streq(ending, ".lock"))
			sweep_keeper(path);
		if (!ending || pid <= 0 || !strchr(e->d_name, '-') ||
		    kill(pid, 0) == 0 || errno != ESRCH)
			continue;
		if (streq(ending, ".ctl") || streq(ending, ".json") || streq(ending, ".resolv"))
			unlink(path);
		if (streq(ending, ".map")) {
			umount2(path, MNT_DETACH);
			rmdir(path);
		}
	}
	if (d)
		closedir(d);
}

void docker_idmap_release(struct docker_mapped *m)
{
	while (m->n) {
		m->n--;
		umount2(m->at[m->n], MNT_DETACH);
		rmdir(m->at[m->n]);
	}
}
