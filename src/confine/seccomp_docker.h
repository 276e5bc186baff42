/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONFINE_SECCOMP_DOCKER_H
#define CONFINE_SECCOMP_DOCKER_H

#include "base/buf.h"

/*
 * The default policy as a profile in Docker's JSON format, for engines that
 * load filters themselves.  The format has no "this but not that", no negated
 * masks and one condition per argument: where the policy needs more, the
 * profile allows more than the policy, never less, and the job inside loads the
 * exact filter on top.  0, -ENOMEM, or -EINVAL for a policy that is broken.
 */
int seccomp_docker_json(struct buf *out);

#endif
