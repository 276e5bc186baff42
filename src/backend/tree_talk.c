/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor tells the keeper: see tree_internal.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/tree_internal.h"
#include "base/fd.h"

/* Text and its descriptors. */
struct parcel {
	struct iovec iov;
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(KEEPER_FDS * sizeof(int))];
	} ctl;
	struct msghdr m;
};

static int post(const struct tree *t, const void *text, size_t len, const int *fds, size_t n)
{
	struct parcel p = { .iov = { (void *)text, len } };

	p.m = (struct msghdr){ .msg_iov = &p.iov, .msg_iovlen = 1 };
	if (n) {
		p.m.msg_control = p.ctl.space;
		p.m.msg_controllen = CMSG_SPACE(n * sizeof *fds);
		p.ctl.h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(n * sizeof *fds),
					    .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&p.ctl.h), fds, n * sizeof *fds);
	}
	return sendmsg(t->sock, &p.m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int keeper_tell(const struct tree *t, const struct keeper_word *w, int fd)
{
	const size_t len = w->kind == KEEPER_TTY ? sizeof *w : sizeof w->kind;

	return post(t, w, len, &fd, fd >= 0);
}

int keeper_start(const struct tree *t, int made)
{
	const struct keeper_start s = { .kind = KEEPER_START, .made = made >= 0,
					.born = t->cg.clone_fd >= 0, .counted = t->counted };
	int fds[KEEPER_FDS];
	size_t n = 0;

	if (s.made)
		fds[n++] = made;
	if (s.born)
		fds[n++] = t->cg.clone_fd;
	return post(t, &s, sizeof s, fds, n);
}

ssize_t keeper_hear(struct tree *t, int flags, int fds[KEEPER_FDS], size_t *n_fds)
{
	struct parcel p = { .iov = { &t->heard, sizeof t->heard } };
	ssize_t n;

	*n_fds = 0;
	do {
		p.m = (struct msghdr){ .msg_iov = &p.iov, .msg_iovlen = 1,
				       .msg_control = p.ctl.space,
				       .msg_controllen = sizeof p.ctl.space };
		n = recvmsg(t->keeper_sock, &p.m, MSG_CMSG_CLOEXEC | flags);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&p.m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		*n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), *n_fds * sizeof(int));
	}
	return n;
}

void keeper_started(struct tree *t, const int *fds, size_t n_fds)
{
	const struct keeper_start s = t->heard.start;
	size_t at = 0;

	t->counted = s.counted;
	if (s.made && at < n_fds)
		t->job->took(t->job->arg, fds[at++]);
	/* one that was made before the fork we have already */
	fd_close(&t->cg.clone_fd);
	if (s.born && at < n_fds)
		t->cg.clone_fd = fds[at];
}
