/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of one pool: a process of its own, started after a call that
 * wanted one, that holds the channels of containers that wait and hands them
 * out.  It never blocks on the engine: containers are made and removed by
 * children.  It ends, with its containers, when nobody has called for the idle
 * life; when it is killed its containers end by themselves (their channel
 * closes) and the next brig removes what is left of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/docker_engine.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "engine/watch.h"

enum { CALLERS_MAX = 64, POOL_MAX = 64, FAILURES_MAX = 3, REFILL_DELAY_MS = 20,
       KEY_TIMEOUT_S = 1 };


struct caller {
	int fd; /* -1: free */
	char id[DOCKER_ID_MAX]; /* the container it has */
	pid_t remover;          /* removes it because the caller asked */
};

struct keeper {
	struct docker_recipe recipe;
	int listener, sigfd;
	struct docker_parked parked[POOL_MAX];
	size_t n_parked;
	struct caller callers[CALLERS_MAX];
	int maker_fd;  /* from the child that makes one; -1 */
	pid_t maker;
	uint64_t t_last;  /* of a call, or the start */
	uint64_t t_refill;
	int failures;
};

static struct keeper k;

/* Children do what takes time, each with a connection of its own. */
static pid_t fork_child(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	/* not past the keeper: a container that nobody holds would be left */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* a copy would keep a channel open that the keeper has closed */
	fd_close(&k.listener);
	fd_close(&k.maker_fd);
	for (size_t i = 0; i < k.n_parked; i++)
		fd_close(&k.parked[i].fd);
	for (size_t i = 0; i < CALLERS_MAX; i++)
		fd_close(&k.callers[i].fd);
	return 0;
}

static pid_t remove_later(const char *id)
{
	struct docker_engine e;
	struct brig_error err = { 0 };
	pid_t pid = fork_child();

	if (pid)
		return pid;
	int r = docker_engine_open(k.recipe.socket, &e, &err);
	if (r == 0)
		r = docker_container_remove(&e, id, &err);
	_exit(r < 0);
}

static void drop(size_t i)
{
	remove_later(k.parked[i].id);
	docker_parked_free(&k.parked[i]);
	k.parked[i] = k.parked[--k.n_parked];
}

/* The maker: also looks after what others left behind. */
static void make_one(int to)
{
	struct docker_engine e;
	struct docker_parked p;
	struct brig_error err = { 0 };
	char id[27];

	if (id_make(id) < 0 || docker_engine_open(k.recipe.socket, &e, &err) < 0)
		_exit(1);
	docker_sweep(&e);
	if (docker_container_make(&e, &k.recipe, id, NULL, &p, &err) < 0) {
		docker_parked_send(to, NULL);
		_exit(1);
	}
	if (docker_parked_send(to, &p) < 0)
		docker_container_remove(&e, p.id, &err);
	_exit(0);
}

static void refill(void)
{
	int sv[2];

	if (k.maker_fd >= 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		return;
	pid_t pid = fork_child();
	if (pid == 0) {
		close(sv[0]);
		make_one(sv[1]);
	}
	close(sv[1]);
	if (pid < 0) {
		close(sv[0]);
		return;
	}
	k.maker = pid;
	k.maker_fd = sv[0];
}

static void on_maker(void)
{
	struct docker_parked p;
	int r = docker_parked_recv(k.maker_fd, k.recipe.n_paths, &p);

	fd_close(&k.maker_fd);
	if (r < 0) {
		k.failures++;
		k.t_refill = now_ns() + 1000000000u;
		return;
	}
	k.failures = 0;
	if (k.n_parked == POOL_MAX) {
		docker_parked_free(&p);
		return;
	}
	/* the name means another image now: older ones are not what is asked for */
	for (size_t i = k.n_parked; i-- > 0;)
		if (!streq(k.parked[i].image, p.image))
			drop(i);
	k.parked[k.n_parked++] = p;
}

static void end_caller(struct caller *c)
{
	/* the call is over, however it ended: so is the container */
	if (c->id[0])
		remove_later(c->id);
	fd_close(&c->fd);
	c->id[0] = '\0';
}

/* The whole key, compared byte by byte; the file's name is only a hash of it. */
static bool key_matches(int fd)
{
	const struct timeval limit = { .tv_sec = KEY_TIMEOUT_S };
	uint32_t len = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (fd_read_full(fd, &len, sizeof len) != (ssize_t)sizeof len ||
	    len != k.recipe.key.len)
		return false;
	cleanup_free char *text = malloc(len);
	return text && fd_read_full(fd, text, len) == (ssize_t)len &&
	       memcmp(text, k.recipe.key.data, len) == 0;
}

static void on_connect(void)
{
	struct ucred peer;
	socklen_t len = sizeof peer;
	struct caller *c = NULL;

	cleanup_close int fd = accept4(k.listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
	    peer.uid != geteuid() || !key_matches(fd))
		return;
	k.t_last = now_ns();
	for (size_t i = 0; i < CALLERS_MAX && !c; i++)
		if (k.callers[i].fd < 0)
			c = &k.callers[i];
	if (!c || !k.n_parked) {
		docker_parked_send(fd, NULL);
		return;
	}
	/* the oldest first */
	struct docker_parked p = k.parked[0];
	memmove(&k.parked[0], &k.parked[1], --k.n_parked * sizeof k.parked[0]);
	*c = (struct caller){ .fd = -1 };
	memcpy(c->id, p.id, sizeof c->id);
	if (docker_parked_send(fd, &p) == 0)
		c->fd = take_fd(&fd);
	else
		end_caller(c);
	docker_parked_free(&p);
	k.t_refill = now_ns() + REFILL_DELAY_MS * 1000000ull;
}

/* The caller wants its container ended now, or is gone. */
static void on_caller(struct caller *c)
{
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != 1 || byte != 'K') {
		end_caller(c);
		return;
	}
	c->remover = remove_later(c->id);
	c->id[0] = '\0';
}

static void on_child(void)
{
	struct signalfd_siginfo si;
	int st;
	pid_t pid;

	if (read(k.sigfd, &si, sizeof si) != (ssize_t)sizeof si)
		return;
	while ((pid = waitpid(-1, &st, WNOHANG)) > 0)
		for (size_t i = 0; i < CALLERS_MAX; i++)
			if (k.callers[i].fd >= 0 && k.callers[i].remover == pid) {
				send(k.callers[i].fd, st == 0 ? "k" : "!", 1, MSG_NOSIGNAL);
				k.callers[i].remover = 0;
			}
}

static int callers(void)
{
	int n = 0;

	for (size_t i = 0; i < CALLERS_MAX; i++)
		n += k.callers[i].fd >= 0;
	return n;
}

/* Milliseconds until something is due. */
static int due(void)
{
	uint64_t now = now_ns(), idle = k.t_last + k.recipe.pool_idle_ms * 1000000u;
	uint64_t next = idle;

	if (k.maker_fd < 0 && k.n_parked < k.recipe.pool_size && k.t_refill < next)
		next = k.t_refill;
	return next <= now ? 0 : next - now > 60000000000u ? 60000 :
							     (int)((next - now) / 1000000) + 1;
}

static void wait_and_serve(void)
{
	struct pollfd p[3 + POOL_MAX + CALLERS_MAX];
	size_t n = 3, parked = k.n_parked;

	p[0] = (struct pollfd){ k.listener, POLLIN, 0 };
	p[1] = (struct pollfd){ k.sigfd, POLLIN, 0 };
	p[2] = (struct pollfd){ k.maker_fd, POLLIN, 0 };
	for (size_t i = 0; i < parked; i++)
		p[n++] = (struct pollfd){ k.parked[i].fd, POLLIN, 0 };
	for (size_t i = 0; i < CALLERS_MAX; i++)
		p[n++] = (struct pollfd){ k.callers[i].fd, POLLIN, 0 };
	if (poll(p, n, due()) <= 0)
		return;
	for (size_t i = 0; i < CALLERS_MAX; i++)
		if (p[3 + parked + i].revents)
			on_caller(&k.callers[i]);
	/* one that waits says nothing: it has died, or lies */
	for (size_t i = parked; i-- > 0;)
		if (p[3 + i].revents)
			drop(i);
	if (p[2].revents)
		on_maker();
	if (p[1].revents)
		on_child();
	if (p[0].revents)
		on_connect();
}

static int listen_at(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	unlink(path); /* of a keeper that was killed: the lock is ours */
	k.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (k.listener < 0 || bind(k.listener, (struct sockaddr *)&a, sizeof a) < 0 ||
	    listen(k.listener, 64) < 0)
		return -errno;
	return 0;
}

static int load_recipe(int fd)
{
	cleanup_free char *text = NULL;
	size_t len = 0;

	int r = fd_read_all(fd, 16 << 20, &text, &len);
	close(fd);
	if (r == 0)
		r = docker_recipe_parse(&k.recipe, text, len);
	if (r == 0)
		r = docker_owner(k.recipe.owner);
	if (k.recipe.pool_size > POOL_MAX)
		k.recipe.pool_size = POOL_MAX;
	if (!k.recipe.pool_idle_ms)
		k.recipe.pool_idle_ms = 300000;
	return r;
}

static void end_all(const char *path)
{
	fd_close(&k.listener);
	unlink(path);
	if (k.maker_fd >= 0)
		on_maker();
	while (k.n_parked)
		drop(k.n_parked - 1);
	for (size_t i = 0; i < CALLERS_MAX; i++)
		if (k.callers[i].fd >= 0)
			end_caller(&k.callers[i]);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

int docker_keeper_main(int recipe_fd)
{
	char path[108], lock_path[108];
	sigset_t set;

	k = (struct keeper){ .listener = -1, .sigfd = -1, .maker_fd = -1 };
	for (size_t i = 0; i < CALLERS_MAX; i++)
		k.callers[i].fd = -1;
	if (load_recipe(recipe_fd) < 0 ||
	    docker_pool_path(&k.recipe.key, ".pool", path, true) < 0 ||
	    docker_pool_path(&k.recipe.key, ".lock", lock_path, true) < 0)
		return 1;
	cleanup_close int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
		return 0; /* this pool has its keeper */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	k.sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (k.sigfd < 0 || listen_at(path) < 0)
		return 1;
	k.t_last = now_ns();
	for (;;) {
		uint64_t now = now_ns();
		if (k.n_parked < k.recipe.pool_size && k.t_refill <= now)
			refill();
		wait_and_serve();
		bool idle = now_ns() >= k.t_last + k.recipe.pool_idle_ms * 1000000u;
		if (callers())
			k.t_last = idle ? now_ns() : k.t_last;
		else if (idle || k.failures >= FAILURES_MAX)
			break;
	}
	end_all(path);
	unlink(lock_path);
	docker_recipe_free(&k.recipe);
	return 0;
}
