/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespaces that are made beside: of the mounts, of ipc and of the network.  They
 * cost up to half a millisecond, all of it in the kernel.  So the job, once it is there,
 * makes them on another processor, while the supervisor plans and the builder works on
 * the root tree; the builder joins them.  The two share memory and descriptors
 * meanwhile, but not errno: what the job calls is called bare.
 */
#include "engine/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/mountapi.h"
#include "base/raw.h"
#include "base/sys.h"
#include "engine/launch.h"

static const struct {
	unsigned request;
	const char *proc, *none, *fd, *join;
} kinds[BESIDE_COUNT] = {
	[BESIDE_MOUNT] = { PIDFD_GET_MOUNT, "/proc/self/ns/mnt",
			   "a mount namespace", "a descriptor of the mount namespace",
			   "joining the mount namespace" },
	[BESIDE_IPC] = { PIDFD_GET_IPC, "/proc/self/ns/ipc",
			 "an ipc namespace", "a descriptor of the ipc namespace",
			 "joining the ipc namespace" },
	[BESIDE_NET] = { PIDFD_GET_NET, "/proc/self/ns/net",
			 "a network namespace", "a descriptor of the network namespace",
			 "joining the network namespace" },
};

/* The builder tells the supervisor: it has read all that was said to it by then. */
static void refuse_as(struct launch *l, enum brig_code code, const char *what, long r)
	__attribute__((noreturn));
static void refuse_as(struct launch *l, enum brig_code code, const char *what, long r)
{
	l->beside_code = code;
	l->beside_failed = what;
	/* the builder may have joined the first of them already, and look just now */
	__atomic_store_n(&l->beside_errno, (int)-r, __ATOMIC_RELEASE);
	word_set(&l->mounts_done);
	word_set(&l->beside_done);
	die(125);
}

static void refuse(struct launch *l, const char *what, long r) __attribute__((noreturn));
static void refuse(struct launch *l, const char *what, long r)
{
	refuse_as(l, BRIG_E_NAMESPACE_DENIED, what, r);
}

/* In the builder's table, too: it joins through this.  By a look-up in /proc only where
 * the kernel has nothing that is cheaper. */
static void leave_descriptor(struct launch *l, long self, int which)
{
	long fd = self < 0 ? self :
			     SYS3(SYS_ioctl, self, PIDFD_REQUEST(kinds[which].request), 0);

	if (fd < 0)
		fd = SYS4(SYS_openat, AT_FDCWD, kinds[which].proc, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 3) /* 0 would be a filter's word: standard input is there */
		refuse(l, kinds[which].fd, fd < 0 ? fd : -EPROTO);
	l->beside[which] = (int)fd;
}

/* Both in one call; the cause is that of the one which cannot be had alone. */
static void make_others(struct launch *l, bool net)
{
	long r = SYS1(SYS_unshare, CLONE_NEWIPC | (net ? CLONE_NEWNET : 0));

	if (r < 0)
		refuse(l, kinds[net && SYS1(SYS_unshare, CLONE_NEWIPC) == 0 ? BESIDE_NET :
									      BESIDE_IPC].none,
		       r);
}

/* Nothing the host mounts later may appear inside: before anything is cloned from this.  The
 * newer call where there is one: if a filter around us answers it and does nothing, the
 * flags of the mounts, which it makes as well, show that. */
static void make_private(struct launch *l)
{
	const struct mnt_attr private = { .propagation = MS_PRIVATE };
	long r = SYS5(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof private);

	if (r == -ENOSYS)
		r = SYS5(SYS_mount, 0, "/", 0, MS_REC | MS_PRIVATE, 0);
	if (r < 0)
		refuse_as(l, BRIG_E_MOUNT_FAILED, "making / private", r);
}

void beside_make(struct launch *l)
{
	const bool net = plan_own_net(l->spec);
	const char *failed = NULL;
	long r = SYS1(SYS_unshare, CLONE_NEWNS);

	if (r < 0)
		refuse(l, kinds[BESIDE_MOUNT].none, r);
	make_private(l);
	long self = SYS2(SYS_pidfd_open, SYS0(SYS_getpid), 0);
	leave_descriptor(l, self, BESIDE_MOUNT);
	/* this one the builder needs as soon as it has the plan */
	word_set(&l->mounts_done);
	make_others(l, net);
	leave_descriptor(l, self, BESIDE_IPC);
	if (net)
		leave_descriptor(l, self, BESIDE_NET);
	if (self >= 0)
		SYS1(SYS_close, self);
	/* an allow-list is made of it, and handed over by the builder */
	r = l->allow ? netns_populate(l, &failed) : 0;
	if (r < 0)
		refuse(l, failed, r);
	word_set(&l->beside_done);
}

static void await_maker(struct launch *l, const uint32_t *word, pid_t maker)
{
	if (!child_await(word, maker))
		child_fail(l, BRIG_E_NAMESPACE_DENIED, ECHILD, "namespaces",
			   "the process that makes the namespaces died");
	int e = __atomic_load_n(&l->beside_errno, __ATOMIC_ACQUIRE);
	if (e)
		child_fail(l, l->beside_code, e,
			   l->beside_code == BRIG_E_MOUNT_FAILED ? "mount" : "namespaces",
			   l->beside_failed);
}

/* setns() of these kinds needs CAP_SYS_ADMIN over the namespace: they were made in our
 * user namespace, which is why we may and why no process of the host's can have been in
 * them.  The kind is not said: a filter around us that answers in the kernel's place
 * cannot tell one of the three calls from another, and without the mounts nothing works. */
static void join(struct launch *l, int which)
{
	if (setns(l->beside[which], 0) < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, errno, "namespaces", kinds[which].join);
	close(l->beside[which]);
}

void beside_join_mounts(struct launch *l, pid_t maker)
{
	await_maker(l, &l->mounts_done, maker);
	join(l, BESIDE_MOUNT);
}

void beside_join(struct launch *l, pid_t maker)
{
	await_maker(l, &l->beside_done, maker);
	join(l, BESIDE_IPC);
	if (plan_own_net(l->spec))
		join(l, BESIDE_NET);
}

/*
 * Whoever of the two has less to do: it is a twentieth of a run.  A job that has groups to
 * enter waits for them, and comes last; where the mounts are locked it starts anew, and who
 * made the network has the time.
 */
void beside_loopback(struct launch *l, bool builder)
{
	const struct spec *s = l->spec;

	/* an allow-list's is up already: its addresses and routes needed it */
	if (builder != (l->who.late_groups && !l->plan->lock) || !plan_own_net(s) ||
	    !s->loopback || l->allow)
		return;
	int r = netns_loopback_up();
	if (r < 0)
		child_fail(l, BRIG_E_NAMESPACE_DENIED, -r, "net", "the loopback interface");
}
