/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between brig and the parked init: collecting and sending. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/msg.h"
#include "backend/docker.h"

int docker_frames_feed(struct docker_frames *f, const char *data, size_t len,
		       int (*frame)(void *arg, uint32_t type, const char *body,
				    size_t len),
		       void *arg)
{
	for (;;) {
		const size_t head = sizeof f->head;
		size_t want = f->have < head ? head : head + f->head.len;
		size_t n = want - f->have < len ? want - f->have : len;

		if (f->have < head) {
			memcpy((char *)&f->head + f->have, data, n);
		} else if (n) {
			if (!f->body && !(f->body = malloc(DOCKER_FRAME_MAX)))
				return -ENOMEM;
			memcpy(f->body + f->have - head, data, n);
		}
		f->have += n;
		data += n;
		len -= n;
		if (f->have < head)
			return 0;
		if (f->head.len > DOCKER_FRAME_MAX)
			return -EPROTO;
		if (f->have < head + f->head.len) {
			if (!len)
				return 0;
			continue;
		}
		f->have = 0;
		int r = frame(arg, f->head.type, f->body, f->head.len);
		if (r < 0)
			return r;
	}
}

void docker_frames_free(struct docker_frames *f)
{
	free(f->body);
	*f = (struct docker_frames){ 0 };
}

static int send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

int docker_frame_send(int fd, uint32_t type, const void *data, size_t len,
		      const int *fds, size_t n)
{
	const struct park_head head = { type, (uint32_t)len };
	int r = msg_send(fd, &head, sizeof head, fds, n);

	return r < 0 ? r : send_all(fd, data, len);
}
