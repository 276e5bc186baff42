/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/landlock_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/landlock_filter.h"
#include "base/fd.h"
#include "confine/cgroup.h"
#include "confine/landlock.h"

/* Runs fn in a process of its own; its return value, an errno. */
static int in_child(int (*fn)(int), int arg)
{
	int st;
	pid_t pid = fork();

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(fn(arg));
	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(st) ? WEXITSTATUS(st) : EFAULT;
}

/* Only /usr may be read: it can be, and the root directory cannot. */
static int restricted(int abi)
{
	int rules = landlock_ruleset(NULL, 0, abi, true);
	int usr = open("/usr", O_PATH | O_CLOEXEC);

	if (rules < 0 || usr < 0)
		return rules < 0 ? -rules : errno;
	int r = landlock_allow(rules, usr, LL_READ, true, abi);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	if (r == 0)
		r = landlock_apply(rules);
	if (r < 0)
		return -r;
	int allowed = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (allowed < 0)
		return errno;
	int denied = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return denied >= 0 ? ENOTRECOVERABLE : errno == EACCES ? 0 : errno;
}

static int filtered(int abi)
{
	struct sock_filter insns[LANDLOCK_FILTER_MAX];
	const struct sock_fprog prog = { landlock_filter(insns, abi, NET_NONE), insns };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return errno;
	return socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EAFNOSUPPORT ?
		       0 : ENOTRECOVERABLE;
}

static const char *lacks(int abi)
{
	return abi < 2 ? "; it cannot let files move between directories, and does not see "
			 "truncation, signals and devices" :
	       abi < 3 ? "; it does not see truncation (the filter refuses it), signals and "
			 "devices" :
	       abi < 5 ? "; it does not see signals and devices' controls" :
	       abi < 6 ? "; signals to the user's other processes are not stopped" : "";
}

void limits_probe(struct probe_result *out)
{
	static struct cgroup cg; /* large */
	unsigned bits = cgroup_probe(&cg);

	*out = (struct probe_result){ .name = "limits", .layers = LAYERS_LIMITS };
	out->state = bits == CG_ALL ? PROBE_OK : PROBE_DEGRADED;
	snprintf(out->detail, sizeof out->detail, "by control group:%s%s%s%s",
		 bits & CG_MEMORY ? " memory" : "", bits & CG_PIDS ? " pids" : "",
		 bits & CG_CPU ? " cpu" : "", bits ? "" : " none");
	if (out->state != PROBE_OK)
		snprintf(out->fix, sizeof out->fix, "%s", cgroup_fix(&cg, CG_ALL & ~bits));
}

int landlock_probe(struct probe_result out[PROBE_MAX])
{
	int abi = landlock_abi();
	int e = abi > 0 ? in_child(restricted, abi) : abi ? -abi : ENOSYS;

	out[0] = (struct probe_result){ .name = "landlock",
					.layers = LAYER_BIT(LAYER_LANDLOCK) };
	out[0].state = e ? PROBE_FAILED : abi < 6 ? PROBE_DEGRADED : PROBE_OK;
	if (e)
		snprintf(out[0].detail, sizeof out[0].detail, "%s", strerror(e));
	else
		snprintf(out[0].detail, sizeof out[0].detail,
			 "version %d, tried on a process: it holds%s", abi, lacks(abi));
	if (e)
		snprintf(out[0].fix, sizeof out[0].fix,
			 "Linux 5.13 or later, with landlock in the lsm= list");
	e = in_child(filtered, abi > 0 ? abi : 1);
	out[1] = (struct probe_result){
		.name = "seccomp",
		.layers = LAYER_BIT(LAYER_SECCOMP) | LAYER_BIT(LAYER_NET) |
			  LAYER_BIT(LAYER_NO_NEW_PRIVS) | LAYER_BIT(LAYER_CAPS),
		.state = e ? PROBE_FAILED : PROBE_OK,
	};
	snprintf(out[1].detail, sizeof out[1].detail, "%s",
		 e ? strerror(e) : "tried on a process: sockets are refused");
	if (e)
		snprintf(out[1].fix, sizeof out[1].fix, "a kernel with seccomp filters");
	limits_probe(&out[2]);
	return 3;
}
