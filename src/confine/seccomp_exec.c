/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp_profile_compile() for the brig executable: a profile is rare, so its
 * reader lives in a helper executable and is run only when one is given.
 * libbrig has the reader itself (seccomp_profile*.c) instead of this file.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/helper.h"
#include "confine/seccomp.h"
#include "confine/seccomp_helper.h"

enum { MAX_INSNS = 4096 }; /* the kernel's own limit */

static int start_helper(const char *path, const char *label, int in, int out,
			pid_t *pid)
{
	char *const argv[] = { (char *)"brig-seccomp", (char *)label, NULL };
	char *const envp[] = { NULL };
	posix_spawn_file_actions_t fa;

	int e = posix_spawn_file_actions_init(&fa);
	if (e)
		return -e;
	e = posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
	if (!e)
		e = posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	if (!e)
		e = posix_spawn(pid, path, &fa, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&fa);
	return -e;
}

/* The profile as a file to read from: no pipe that could fill up. */
static int text_fd(const char *json, size_t len)
{
	cleanup_close int fd = openat(AT_FDCWD, "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = (int)syscall(SYS_memfd_create, "brig-profile", 1u /* CLOEXEC */);
	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, json, len);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return take_fd(&fd);
}

static int read_reply(int fd, struct seccomp_prog **out, struct brig_error *err)
{
	struct seccomp_helper_reply rep;

	if (fd_read_full(fd, &rep, sizeof rep) != (ssize_t)sizeof rep ||
	    rep.magic != SECCOMP_HELPER_MAGIC || rep.len > MAX_INSNS ||
	    (unsigned)rep.error.code >= BRIG_E__COUNT)
		return -EPROTO;
	if (rep.error.code != BRIG_E_OK || rep.len == 0) {
		rep.error.phase[sizeof rep.error.phase - 1] = '\0';
		rep.error.message[sizeof rep.error.message - 1] = '\0';
		rep.error.fix[sizeof rep.error.fix - 1] = '\0';
		if (err)
			*err = rep.error;
		return -EINVAL;
	}
	size_t size = rep.len * sizeof(struct sock_filter);
	cleanup_free struct sock_filter *insns = malloc(size);
	struct seccomp_prog *p = calloc(1, sizeof *p);
	if (!insns || !p || fd_read_full(fd, insns, size) != (ssize_t)size) {
		free(p);
		return -EPROTO;
	}
	p->insns = take_ptr(insns);
	p->len = (unsigned short)rep.len;
	*out = p;
	return 0;
}

int seccomp_profile_compile(const char *json, size_t len, const char *label,
			    struct seccomp_prog **out, struct brig_error *err)
{
	big_buffer char helper[PATH_MAX];
	pid_t pid = -1;
	int p[2], st;

	int r = helper_find("brig-seccomp", helper);
	if (r < 0) {
		err_set(err, BRIG_E_UNSUPPORTED, -r, "policy",
			"the helper brig-seccomp is missing");
		err_fix(err, "install it beside brig or in ../libexec/brig");
		return r;
	}
	cleanup_close int text = text_fd(json, len);
	if (text < 0 || pipe2(p, O_CLOEXEC) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, text < 0 ? -text : errno,
			       "policy", "--seccomp");
	r = start_helper(helper, label, text, p[1], &pid);
	close(p[1]);
	if (r == 0)
		r = read_reply(p[0], out, err);
	close(p[0]);
	while (pid > 0 && waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	if (r < 0 && err && err->code == BRIG_E_OK)
		err_set(err, BRIG_E_BAD_SECCOMP_PROFILE, -r, "policy", "brig-seccomp");
	return r;
}

void seccomp_prog_free(struct seccomp_prog *prog)
{
	if (!prog)
		return;
	free((void *)prog->insns); /* only compile() makes these */
	free(prog);
}
