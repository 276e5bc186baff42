/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exercises engine/cgroup on the machine it runs on, for real: makes a group,
 * puts a child into it, looks whether the limits bite, and whether nothing is
 * left.  Exit 0 when all that could be tried holds, 1 when something does
 * not, 77 with a reason when this machine offers nothing (for this uid).
 *
 *   cgtest [--asked] [--need memory,pids,cpu] [--pace N]
 *
 * --asked  as if a person had asked: brig may ask systemd for a scope
 * --need   fail (not skip) unless these are enforced
 * --pace   also time N entries, 100 ms apart
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "confine/cgroup.h"
#include "confine/cgroup_internal.h"

enum { MEMORY = 32 << 20, PIDS = 8, CPU_MILLI = 200, SKIP = 77 };

static int failures;

static void check(int ok, const char *what)
{
	printf("%s - %s\n", ok ? "ok" : "not ok", what);
	if (!ok)
		failures++;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* Enters the groups the way the engine does: born inside, or by writing. */
static pid_t spawn(const struct cgroup *cg)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	fflush(stdout);
	if (cg->clone_fd >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)cg->clone_fd;
	}
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid == 0)
		for (int i = 0; i < cg->n_task_fds; i++)
			if (write(cg->task_fds[i], "0", 1) != 1)
				_exit(99);
	return pid;
}

/* Runs body in a child inside the group; its wait status. */
static int run(const struct cgroup *cg, void (*body)(void))
{
	int status = -1;
	pid_t pid = spawn(cg);

	if (pid < 0)
		return -1;
	if (pid == 0) {
		body();
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static void body_memory(void)
{
	size_t size = 2u * MEMORY;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		_exit(1);
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
}

/* Exits with the number of children it could have at once. */
static void body_pids(void)
{
	int n = 0;
	pid_t pids[4 * PIDS];

	while (n < 4 * PIDS) {
		pid_t pid = fork();
		if (pid == 0) {
			pause();
			_exit(0);
		}
		if (pid < 0)
			break;
		pids[n++] = pid;
	}
	for (int i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	_exit(n);
}

/* Spins for 600 ms and exits with the percentage of a CPU it got. */
static void body_cpu(void)
{
	uint64_t start = now_us(), spent;
	struct timespec t;

	while (now_us() - start < 600000)
		;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	spent = (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
	_exit((int)(spent * 100 / (now_us() - start)));
}

static void body_pause(void)
{
	fork();
	for (;;)
		pause();
}

/* A child waits inside: membership, killing. */
static void try_holds(const struct cgroup *cg)
{
	int status;
	pid_t pid = spawn(cg);

	if (pid == 0)
		body_pause();
	for (int i = 0; i < 200 && !cgroup_holds(cg, pid); i++)
		usleep(1000);
	check(cgroup_holds(cg, pid), "the child is in every group");
	check(!cgroup_holds(cg, getpid()), "we are not");
	usleep(20000);
	cgroup_kill(cg);
	check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status),
	      "cgroup_kill ended it");
	/* its own child is ours now; a zombie still counts as a task */
	while (waitpid(-1, &status, 0) > 0)
		check(WIFSIGNALED(status), "cgroup_kill ended its child");
}

static void try_limits(struct cgroup *cg)
{
	struct cgroup_usage u;
	int s;

	if (cg->enforced & CG_PIDS) {
		s = run(cg, body_pids);
		printf("# pids: %d children at a limit of %d\n", WEXITSTATUS(s), PIDS);
		check(WIFEXITED(s) && WEXITSTATUS(s) == PIDS - 1, "pids limit holds");
	}
	if (cg->enforced & CG_CPU) {
		s = run(cg, body_cpu);
		printf("# cpu: %d %% at a limit of %d %%\n", WEXITSTATUS(s),
		       CPU_MILLI / 10);
		check(WIFEXITED(s) && WEXITSTATUS(s) <= CPU_MILLI / 10 + 25,
		      "cpu limit holds");
	}
	if (cg->enforced & CG_MEMORY) {
		s = run(cg, body_memory);
		check(WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL, "memory limit holds");
	}
	cgroup_read_usage(cg, &u);
	printf("# peak %llu oom %llu refused %llu\n", (unsigned long long)u.memory_peak,
	       (unsigned long long)u.oom_kills, (unsigned long long)u.pids_refused);
	if (cg->enforced & CG_MEMORY) {
		check(u.oom_kills >= 1, "the oom kill was counted");
		check(u.memory_peak <= MEMORY, "peak is within the limit");
	}
	if (cg->enforced & CG_PIDS)
		check(u.pids_refused >= 1, "the refused fork was counted");
}

/* A supervisor killed right after preparing: the record in shared memory is
 * enough for another process to clean up. */
static void try_custodian(const struct cgroup_want *want, const char *id)
{
	struct cgroup *cg = mmap(NULL, sizeof *cg, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (cg == MAP_FAILED)
		return;
	cgroup_init(cg);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		cgroup_prepare(cg, want, id, NULL);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	char first[PATH_MAX];
	snprintf(first, sizeof first, "%s", cg->n_dirs ? cg->dirs[0] : "");
	if (first[0]) {
		check(access(first, F_OK) == 0, "the dead supervisor left a group");
		cgroup_remove(cg);
		check(access(first, F_OK) < 0, "the custodian removed it");
	}
	cgroup_remove(cg); /* again: nothing to do */
	munmap(cg, sizeof *cg);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return *x < *y ? -1 : *x > *y;
}

/* Medians of making, entering (until the child reports) and removing. */
static void pace(const struct cgroup_want *want, int n)
{
	uint64_t t[3][256];
	int k = 0;

	for (; k < n && k < 256; k++) {
		struct cgroup cg;
		char id[32], c;
		int p[2];
		cgroup_init(&cg);
		snprintf(id, sizeof id, "pace-%d-%d", (int)getpid(), k);
		usleep(100000);
		uint64_t t0 = now_us();
		if (cgroup_prepare(&cg, want, id, NULL) < 0 || pipe2(p, O_CLOEXEC) < 0)
			return;
		uint64_t t1 = now_us();
		pid_t pid = spawn(&cg);
		if (pid == 0)
			_exit(write(p[1], "x", 1) != 1);
		if (read(p[0], &c, 1) != 1)
			return;
		uint64_t t2 = now_us();
		waitpid(pid, NULL, 0);
		close(p[0]);
		close(p[1]);
		uint64_t t3 = now_us();
		cgroup_close(&cg);
		cgroup_remove(&cg);
		t[0][k] = t1 - t0;
		t[1][k] = t2 - t1;
		t[2][k] = now_us() - t3;
	}
	for (int i = 0; i < 3 && k; i++) {
		qsort(t[i], (size_t)k, sizeof t[i][0], by_value);
		printf("# %s: median %llu us, p90 %llu us\n",
		       i == 0 ? "prepare" : i == 1 ? "spawn+enter" : "remove",
		       (unsigned long long)t[i][k / 2],
		       (unsigned long long)t[i][k * 9 / 10]);
	}
}

int main(int argc, char **argv)
{
	struct cgroup_want want = {
		.memory = MEMORY, .pids = PIDS, .cpu_milli = CPU_MILLI,
	};
	unsigned need = 0;
	int paced = 0;
	struct brig_error err = { 0 };
	static struct cgroup cg;
	char id[32];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--asked") == 0)
			want.asked = CG_MEMORY | CG_PIDS | CG_CPU;
		else if (strcmp(argv[i], "--need") == 0 && i + 1 < argc) {
			for (char *w = strtok(argv[++i], ","); w; w = strtok(NULL, ","))
				need |= cg_bits_parse(w);
		} else if (strcmp(argv[i], "--pace") == 0 && i + 1 < argc)
			paced = atoi(argv[++i]);
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	cgroup_init(&cg);
	snprintf(id, sizeof id, "cgtest-%d", (int)getpid());
	int r = cgroup_prepare(&cg, &want, id, &err);
	if (r < 0) {
		printf("not ok - prepare: %s\n", err.message);
		return 1;
	}
	char text[32];
	printf("# uid %u version %d enforced: %s%s\n", (unsigned)geteuid(), cg.version,
	       cg_bits_text(cg.enforced, text, sizeof text), cg.scope ? " (scope)" : "");
	for (int i = 0; i < cg.n_dirs; i++)
		printf("# dir %s\n", cg.dirs[i]);
	char why[512];
	if (cg.n_why)
		printf("# why: %s\n# fix: %s\n", cgroup_why(&cg, CG_ALL, why, sizeof why),
		       cgroup_fix(&cg, CG_ALL));
	if ((cg.enforced & need) != need) {
		check(0, "the limits this run needs are enforced");
		cgroup_close(&cg);
		cgroup_remove(&cg);
		return 1;
	}
	if (!cg.enforced) {
		printf("SKIP - no limit can be enforced here: %s\n",
		       cgroup_why(&cg, CG_ALL, why, sizeof why));
		return SKIP;
	}
	char dirs[CG_MAX_DIRS][PATH_MAX];
	int n = cg.n_dirs;
	memcpy(dirs, cg.dirs, sizeof dirs);

	try_limits(&cg);
	/* last: kernels (6.1.190 and 6.18 do) go on killing what is cloned into
	 * a group that was killed once */
	try_holds(&cg);
	cgroup_close(&cg);
	cgroup_remove(&cg);
	int left = 0;
	for (int i = 0; i < n; i++)
		left += access(dirs[i], F_OK) == 0;
	check(left == 0, "nothing is left");
	if (paced)
		pace(&want, paced);
	snprintf(id, sizeof id, "cgtest-%dc", (int)getpid());
	try_custodian(&want, id);
	printf("# %d failure%s\n", failures, failures == 1 ? "" : "s");
	return failures ? 1 : 0;
}
