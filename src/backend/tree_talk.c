/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor tells the keeper: see tree_internal.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/tree_internal.h"
#include "base/fd.h"

/* A piece of text and its descriptors. */
struct parcel {
	struct iovec iov[2];
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(KEEPER_FDS * sizeof(int))];
	} ctl;
	struct msghdr m;
};

static int post(const struct tree *t, struct parcel *p, size_t n_iov, const int *fds, size_t n)
{
	p->m = (struct msghdr){ .msg_iov = p->iov, .msg_iovlen = n_iov };
	if (n) {
		p->m.msg_control = p->ctl.space;
		p->m.msg_controllen = CMSG_SPACE(n * sizeof *fds);
		p->ctl.h = (struct cmsghdr){ .cmsg_len = CMSG_LEN(n * sizeof *fds),
					     .cmsg_level = SOL_SOCKET,
					     .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&p->ctl.h), fds, n * sizeof *fds);
	}
	return sendmsg(t->sock, &p->m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int keeper_tell(const struct tree *t, const struct keeper_word *w, int fd)
{
	const size_t len = w->kind == KEEPER_TTY ? sizeof *w : sizeof w->kind;
	struct parcel p = { .iov = { { (void *)w, len } } };

	return post(t, &p, 1, &fd, fd >= 0);
}

/* The groups, as far as they are filled in. */
static size_t groups_len(const struct cgroup *cg)
{
	const char *end = cg->n_dirs ? strchr(cg->groups[cg->n_dirs - 1], '\0') + 1 :
				       cg->text[0];

	return (size_t)(end - (const char *)cg);
}

int keeper_start(const struct tree *t, int made)
{
	const struct keeper_start head = { .kind = KEEPER_START, .made = made >= 0,
					   .counted = t->counted };
	struct parcel p = { .iov = { { (void *)&head, offsetof(struct keeper_start, cg) },
				     { (void *)&t->cg, groups_len(&t->cg) } } };
	int fds[KEEPER_FDS];
	size_t n = 0;

	if (made >= 0)
		fds[n++] = made;
	if (t->cg.clone_fd >= 0)
		fds[n++] = t->cg.clone_fd;
	for (int i = 0; i < t->cg.n_task_fds; i++)
		fds[n++] = t->cg.task_fds[i];
	return post(t, &p, 2, fds, n);
}

ssize_t keeper_hear(struct tree *t, int flags, int fds[KEEPER_FDS], size_t *n_fds)
{
	struct parcel p = { .iov = { { &t->heard, sizeof t->heard } } };
	ssize_t n;

	*n_fds = 0;
	do {
		p.m = (struct msghdr){ .msg_iov = p.iov, .msg_iovlen = 1,
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

void keeper_started(struct tree *t, size_t len, const int *fds, size_t n_fds)
{
	const struct keeper_start *s = &t->heard.start;
	size_t at = 0;

	/* its pointers point into itself, and a fork has it at the same address */
	memcpy(&t->cg, &s->cg, len - offsetof(struct keeper_start, cg));
	t->cg.journal = t->cg.lock = -1;
	t->counted = s->counted;
	if (s->made && at < n_fds)
		t->job->took(t->job->arg, fds[at++]);
	if (t->cg.clone_fd >= 0)
		t->cg.clone_fd = at < n_fds ? fds[at++] : -1;
	for (int i = 0; i < t->cg.n_task_fds; i++)
		t->cg.task_fds[i] = at < n_fds ? fds[at++] : -1;
}
