/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the docker backend.  The parts that need no engine (a call on a
 * container that waits, evidence, the pool's client) are in brig itself; the
 * parts that speak to the engine are in libbrig, and so in the helper
 * executable brig-docker and the pool's keeper.
 */
#ifndef BACKEND_DOCKER_H
#define BACKEND_DOCKER_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "engine/egress.h"
#include "engine/result.h"
#include "base/spec.h"
#include "init/park.h"
#include "workspace/protect.h"

#define DOCKER_ID_MAX 65
/* Where brig's own files are in a container. */
#define DOCKER_INSIDE "/.brig"

/* Layers a container can give at best.  A user namespace and Landlock are not
 * the engine's to give by container. */
#define DOCKER_CAN                                                           \
	(LAYER_BIT(LAYER_MOUNT) | LAYER_BIT(LAYER_PID) | LAYER_BIT(LAYER_NET) | \
	 LAYER_BIT(LAYER_IPC) | LAYER_BIT(LAYER_UTS) | LAYER_BIT(LAYER_CGROUP) | \
	 LAYER_BIT(LAYER_CAPS) | LAYER_BIT(LAYER_NO_NEW_PRIVS) |             \
	 LAYER_BIT(LAYER_SECCOMP) | LAYERS_LIMITS | LAYERS_ALLOW)

#define DOCKER_ALLOW_LIST \
	"by name, for every program, in the container's network namespace; not with " \
	"gVisor or an engine that maps ids"

/* Beside the LAYER_BITs an engine's read-back supports: it has no cgroup namespace
 * to give (Podman on version 1 control groups). */
#define DOCKER_NO_CGROUPNS (1u << 31)

/* A path inside that must be what was looked at outside. */
struct docker_check {
	char *path;
	char *src; /* its name outside */
	dev_t dev;
	ino_t ino;
	bool is_dir;
	bool read_only;
};

/* One run as this backend sees it before there is a container. */
struct docker_job {
	const struct spec *spec;
	struct protect protect;
	struct docker_check *checks;
	size_t n_checks;
	char *cwd; /* absolute, inside */
	char socket[108]; /* of the engine */
};

/* A container whose init waits for a command. */
struct docker_parked {
	char id[DOCKER_ID_MAX];
	int fd;          /* the channel to its init */
	bool stream;     /* it is the engine's attach stream, not a socket */
	pid_t pid;       /* as the engine says: its init, or what stands for it */
	pid_t job;       /* the job, from the kernel; 0 on a stream */
	unsigned says;   /* LAYER_BITs that the engine's read-back supports, and
			    DOCKER_NO_CGROUPNS */
	char image[80];  /* its id, which a name may lose */
	uint8_t key[PARK_KEY]; /* only its init and we know it */
	struct park_report report;
	struct park_path *paths;
};

/* docker_socket.c: where the engine listens: what the spec names, $DOCKER_HOST, or the first of
 * the usual places that exists.  0 or -errno with err and a fix. */
int docker_socket_find(const struct spec *s, char out[108], struct brig_error *err);

/* docker_job.c: what is asked of a container, and its protected paths.  0 or
 * -errno with err. */
int docker_job_init(struct docker_job *j, const struct spec *s, struct brig_error *err);
void docker_job_free(struct docker_job *j);
/* Everything that a container is made from, as text: two calls with the same
 * text may use each other's waiting containers.  No environment, no command. */
int docker_job_key(const struct docker_job *j, struct buf *out);
/* The id the command has: never 0. */
uid_t docker_uid(const struct spec *s);
gid_t docker_gid(const struct spec *s);
/* The layers that must hold. */
unsigned docker_required(const struct spec *s);

void docker_parked_init(struct docker_parked *p);
void docker_parked_free(struct docker_parked *p);

/* docker_limits.c: the control groups of a process, read from outside; only those
 * that the engine made for the container with this id. */
struct docker_groups {
	int memory, pids, cpu; /* directories, -1 none */
	bool v2;
};
void docker_groups_open(struct docker_groups *g, pid_t pid, const char *id);
void docker_groups_close(struct docker_groups *g);
/* CG_ bits of limits that are in force and not wider than asked for. */
unsigned docker_groups_hold(const struct docker_groups *g, const struct spec_limits *l);
/* What the kernel counted: denials, peak and oom of the result. */
void docker_groups_account(const struct docker_groups *g, struct brig_result *res);

/* docker_hello.c: the frame that arms a job, and arming the job of a fresh
 * container with it: sends it and reads the report on n_paths paths.  Bounded
 * by timeout_ms.  0 or -errno with err. */
int docker_hello_build(const struct docker_job *j, struct buf *out);
int docker_hello(struct docker_parked *p, const struct buf *hello, size_t n_paths,
		 int timeout_ms, struct brig_error *err);

/* docker_judge.c: compares the report and what the kernel says with the spec and fills
 * the result's evidence.  0: release it; -errno with err: do not. */
int docker_judge(const struct docker_job *j, const struct docker_parked *p,
		 const struct docker_groups *g, struct brig_result *res);

/* docker_judge.c: the process is the job: brig-park itself, child of the init we
 * talk to.  0 or -errno with err. */
int docker_check_job(const struct docker_parked *p, struct brig_error *err);

/* docker_net.c: how a container gets to the egress process: root makes routes in its
 * network namespace; others may not enter it, and the job makes what needs none. */
enum allow_form docker_net_form(const struct spec *s);
/* The address of the resolver in a container of this call, or "". */
const char *docker_net_resolver(const struct spec *s);
/* Makes the sockets of the allow-list in a container whose job waits.  0 or -errno
 * with err. */
int docker_net_make(const struct docker_parked *p, struct egress *e, struct brig_error *err);

/* docker_call.c: one command on a container that waits, from evidence to result. */
struct docker_stop {
	/* Ends the container by force; returns when nothing in it runs.  0, -errno. */
	int (*stop)(void *arg);
	void *arg;
};
/* True when a container that waited was found unusable, before anything was
 * sent to it: one made for the call may do. */
static inline bool docker_call_unused(const struct brig_result *res)
{
	return !res->ran && !res->setup_us && res->error.code == BRIG_E_SETUP_FAILED &&
	       res->error.errnum != EINTR;
}
void docker_call(const struct docker_job *j, struct docker_parked *p,
		 const struct docker_stop *stop, uint64_t t_start,
		 struct brig_result *res);

/* docker_demux.c: the engine's stream of standard output and error in one. */
struct docker_demux {
	unsigned char head[8];
	size_t have;
	uint32_t left;
	int stream;
};
/* Calls back for every piece; stream is 1 or 2.  0, or -EPROTO when the bytes
 * are not such a stream; a negative return of the callback ends it as well. */
int docker_demux_feed(struct docker_demux *d, const char *data, size_t len,
		      int (*piece)(void *arg, int stream, const char *data, size_t len),
		      void *arg);

/* docker_frame.c: frames of the parked init, collected from pieces. */
enum { DOCKER_FRAME_MAX = 160 * 1024 };
struct docker_frames {
	struct park_head head;
	size_t have;  /* of head and body together */
	char *body;   /* DOCKER_FRAME_MAX, allocated when first needed */
};
int docker_frames_feed(struct docker_frames *f, const char *data, size_t len,
		       int (*frame)(void *arg, uint32_t type, const char *body,
				    size_t len),
		       void *arg);
void docker_frames_free(struct docker_frames *f);
/* Sends one frame, with descriptors when n is not 0.  0 or -errno. */
int docker_frame_send(int fd, uint32_t type, const void *data, size_t len,
		      const int *fds, size_t n);

/* docker_dir.c: brig's directory for sockets, 0700, the caller's own.  0 or -errno. */
int docker_dir(char out[PATH_MAX], bool make);

/* docker_claim.c: takes a waiting container from the keeper of this key, if there is
 * one.  0 and *p and *keeper (held open for the whole call: when it is closed
 * the container is removed), -ENOENT when there is no keeper, -EAGAIN when it
 * has none waiting. */
int docker_claim(const struct buf *key, size_t n_paths, struct docker_parked *p,
		 int *keeper);
/* For struct docker_stop: asks the keeper (arg points to its descriptor) to end
 * the container now, and waits until it has. */
int docker_claim_stop(void *arg);

/* A waiting container as a message, with its channel.  recv checks everything
 * and gives -EAGAIN for "none".  0 or -errno. */
int docker_parked_send(int sock, const struct docker_parked *p);
int docker_parked_recv(int sock, size_t n_paths, struct docker_parked *p);
/* Where the keeper of a key listens. */
int docker_pool_path(const struct buf *key, const char *ending, char out[108], bool make);

/* FNV-1a; for names, never for equality. */
uint64_t docker_hash(const char *data, size_t len);

#endif
