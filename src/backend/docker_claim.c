/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's side of the pool.  A keeper process holds the channels of
 * containers that wait; a claim is one connection: the key goes there, a
 * container comes back with its channel as a descriptor, and as long as the
 * connection is open the container is this caller's.  A descriptor is handed
 * out once, so two callers cannot get the same container.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/docker.h"
#include "base/fd.h"
#include "base/msg.h"

#define CLAIM_MAGIC 0x6c6f6f70u

struct message {
	uint32_t magic;
	int32_t status; /* 0, or a negative errno: nothing follows */
	char id[DOCKER_ID_MAX], image[80];
	uint8_t stream;
	int32_t pid, job;
	uint32_t says, n_paths;
	uint8_t key[PARK_KEY];
	struct park_report report;
};

int docker_pool_path(const struct buf *key, const char *ending, char out[108], bool make)
{
	char dir[PATH_MAX];
	int r = docker_dir(dir, make);

	if (r < 0)
		return r;
	int n = snprintf(out, 108, "%s/%016llx%s", dir,
			 (unsigned long long)docker_hash(key->data, key->len), ending);
	return n > 0 && n < 108 ? 0 : -ENAMETOOLONG;
}

int docker_parked_send(int sock, const struct docker_parked *p)
{
	struct message msg = { .magic = CLAIM_MAGIC, .status = p ? 0 : -EAGAIN };

	if (p) {
		memcpy(msg.id, p->id, sizeof msg.id);
		memcpy(msg.image, p->image, sizeof msg.image);
		msg.stream = p->stream;
		msg.pid = p->pid;
		msg.job = p->job;
		msg.says = p->says;
		msg.report = p->report;
		memcpy(msg.key, p->key, sizeof msg.key);
		msg.n_paths = p->report.n_paths;
	}
	if (msg_send(sock, &msg, sizeof msg, p ? &p->fd : NULL, p != NULL) < 0)
		return -EPIPE;
	return p && msg.n_paths ?
		       fd_write_full(sock, p->paths, msg.n_paths * sizeof *p->paths) : 0;
}

static int receive(int sock, struct message *msg, int *fd)
{
	struct msg_in in;
	ssize_t n;

	do
		n = msg_recv(sock, msg, sizeof *msg, MSG_WAITALL, &in);
	while (n == -EINTR);
	if (in.n_fds)
		*fd = msg_fd(&in);
	return n == (ssize_t)sizeof *msg && msg->magic == CLAIM_MAGIC ? 0 : -EPROTO;
}

int docker_parked_recv(int sock, size_t n_paths, struct docker_parked *p)
{
	struct message msg;

	docker_parked_init(p);
	int r = receive(sock, &msg, &p->fd);
	if (r == 0 && msg.status)
		r = -EAGAIN;
	if (r == 0 && (p->fd < 0 || msg.n_paths != n_paths || msg.report.n_paths != n_paths))
		r = -EPROTO;
	if (r == 0) {
		memcpy(p->id, msg.id, sizeof p->id);
		memcpy(p->image, msg.image, sizeof p->image);
		p->id[sizeof p->id - 1] = p->image[sizeof p->image - 1] = '\0';
		p->stream = msg.stream;
		p->pid = msg.pid;
		p->job = msg.job;
		p->says = msg.says;
		p->report = msg.report;
		memcpy(p->key, msg.key, sizeof p->key);
		size_t len = n_paths * sizeof *p->paths;
		p->paths = malloc(len ? len : 1);
		if (!p->paths)
			r = -ENOMEM;
		else if (len && fd_read_full(sock, p->paths, len) != (ssize_t)len)
			r = -EPROTO;
	}
	if (r < 0)
		docker_parked_free(p);
	return r;
}

static int connect_keeper(const struct buf *key)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct ucred peer;
	socklen_t len = sizeof peer;
	/* it answers at once or is stuck; a cold container is made then */
	const struct timeval limit = { .tv_sec = 1 };

	int r = docker_pool_path(key, ".pool", a.sun_path, false);
	if (r < 0)
		return -ENOENT;
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
		return -ENOENT;
	/* environment and arguments will go through what it hands out */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid != geteuid())
		return -EPERM;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	return take_fd(&fd);
}

int docker_claim(const struct buf *key, size_t n_paths, struct docker_parked *p, int *keeper)
{
	uint32_t len = (uint32_t)key->len;

	cleanup_close int fd = connect_keeper(key);
	if (fd < 0)
		return fd;
	int r = fd_write_full(fd, &len, sizeof len);
	if (r == 0)
		r = fd_write_full(fd, key->data, key->len);
	if (r == 0)
		r = docker_parked_recv(fd, n_paths, p);
	if (r < 0)
		return r == -EAGAIN ? r : -ENOENT;
	*keeper = take_fd(&fd);
	return 0;
}

int docker_claim_stop(void *arg)
{
	int fd = *(int *)arg;
	char byte = 'K';
	const struct timeval limit = { .tv_sec = 60 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (fd_write_full(fd, &byte, 1) < 0 || read(fd, &byte, 1) != 1 || byte != 'k')
		return -EIO;
	return 0;
}
