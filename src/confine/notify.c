/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refused system calls, reported by the kernel itself: the filter hands calls
 * that matter to the supervisor, which answers with the errno the filter would
 * have given and counts.  Nothing is ever allowed here, and no argument behind
 * a pointer is looked at, so there is nothing to race with.
 */
#include "confine/notify.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "confine/seccomp.h"

void notify_answer(int listener, struct seccomp_notif_resp *resp)
{
	/* A stop interrupts it before anything is sent.  Else it fails only when who asked
	 * is gone already. */
	while (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, resp) < 0 && errno == EINTR)
		;
}

void notify_handle(int *listener, uint32_t refused[DENY_MAX_CALL])
{
	/* The kernel may know larger structures than our headers: it is told
	 * ours by the ioctl number, and wants them zeroed. */
	struct seccomp_notif req;
	memset(&req, 0, sizeof req);
	if (ioctl(*listener, SECCOMP_IOCTL_NOTIF_RECV, &req) < 0) {
		/* ENOENT: the caller died meanwhile; EINTR: try again later */
		if (errno != ENOENT && errno != EINTR)
			fd_close(listener);
		return;
	}
	int nr = req.data.nr;
	notify_count(nr, refused);
	struct seccomp_notif_resp resp = {
		.id = req.id,
		.error = -seccomp_refusal_errno(nr),
	};
	notify_answer(*listener, &resp);
}

void notify_report(const uint32_t refused[DENY_MAX_CALL], struct brig_result *res)
{
	char number[32];

	for (int nr = 0; nr < DENY_MAX_CALL; nr++) {
		if (!refused[nr])
			continue;
		const char *name = seccomp_call_name(nr);
		if (!name) {
			snprintf(number, sizeof number, "call %d", nr);
			name = number;
		}
		result_deny(res, "syscall", name,
			    "refused by the system-call filter",
			    "by design; a workload that needs it belongs on a "
			    "stronger backend", refused[nr]);
	}
}
