/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor tells the keeper: see tree_internal.h. */
#include <errno.h>

#include "backend/tree_internal.h"
#include "base/fd.h"
#include "base/msg.h"

int keeper_tell(const struct tree *t, const struct keeper_word *w, int fd)
{
	const size_t len = w->kind == KEEPER_TTY ? sizeof *w : sizeof w->kind;

	return msg_send(t->sock, w, len, &fd, fd >= 0);
}

int keeper_start(const struct tree *t, int made)
{
	const struct keeper_start s = { .kind = KEEPER_START, .made = made >= 0,
					.born = t->cg.clone_fd >= 0, .counted = t->counted };
	int fds[2];
	size_t n = 0;

	if (s.made)
		fds[n++] = made;
	if (s.born)
		fds[n++] = t->cg.clone_fd;
	return msg_send(t->sock, &s, sizeof s, fds, n);
}

ssize_t keeper_hear(struct tree *t, int flags, struct msg_in *in)
{
	ssize_t n;

	do
		n = msg_recv(t->keeper_sock, &t->heard, sizeof t->heard, flags, in);
	while (n == -EINTR);
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
