/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts per second and processor time per start, side by side:
 *   load [-c CLIENTS] [-r ROUNDS] [-t MS] [-g GROUP] NAME ARGV… [:: NAME ARGV…]…
 * Each round gives every contestant MS milliseconds with that many clients, in another
 * order each time.  Processor time is counted twice: of all processes in GROUP, a version 1
 * cpuacct group that the clients enter (without one: of the processes that were waited for,
 * which leaves out what a contestant does not wait for itself), and (busy) of the whole
 * machine, which has kernel threads in it, and neighbours.  Medians over the rounds; ratios
 * are to the last contestant's in the same round.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONTESTANTS = 8, ROUNDS_MAX = 1000, VALUES = 4 };

extern char **environ;

/* What one round of one contestant gave. */
struct round {
	double value[VALUES]; /* latency ms, starts/s, processor ms, busy ms */
};
static const char *const names[VALUES] = { "ms per start", "starts/s", "cpu ms", "busy ms" };

static struct contestant {
	const char *name;
	char **argv;
	struct round rounds[ROUNDS_MAX];
} list[CONTESTANTS];
static int count, clients = 8, rounds = 10, slice = 500;
static const char *group;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Milliseconds that the processors were busy, all of them. */
static double busy(void)
{
	unsigned long long v[8] = { 0 };
	FILE *f = fopen("/proc/stat", "re");

	if (!f || fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", v, v + 1, v + 2, v + 3,
			 v + 4, v + 5, v + 6, v + 7) != 8)
		exit(1);
	fclose(f);
	return (double)(v[0] + v[1] + v[2] + v[5] + v[6]) * 1000 / (double)sysconf(_SC_CLK_TCK);
}

/* The group's file, or ends. */
static FILE *group_file(const char *name, const char *mode)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", group, name);
	FILE *f = fopen(path, mode);

	if (!f) {
		perror(path);
		exit(1);
	}
	return f;
}

static void client(const struct contestant *c, double end, unsigned *done)
{
	posix_spawn_file_actions_t fa;

	if (group) {
		FILE *f = group_file("tasks", "we");
		fputs("0", f);
		fclose(f);
	}
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
	while (now() < end) {
		pid_t pid;
		int status = 0;
		if (posix_spawnp(&pid, c->argv[0], &fa, NULL, c->argv, environ))
			_exit(1);
		while (waitpid(pid, &status, 0) < 0)
			if (errno != EINTR)
				_exit(1);
		if (status) {
			fprintf(stderr, "load: %s failed: %#x\n", c->name, (unsigned)status);
			_exit(1);
		}
		++*done;
	}
	_exit(0);
}

static double cpu_of_children(void)
{
	struct rusage ru;
	unsigned long long ns;

	if (group) {
		FILE *f = group_file("cpuacct.usage", "re");
		if (fscanf(f, "%llu", &ns) != 1)
			exit(1);
		fclose(f);
		return (double)ns / 1e6;
	}

	getrusage(RUSAGE_CHILDREN, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e3 +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e3;
}

static void run_round(struct contestant *c, int round)
{
	unsigned *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double cpu = cpu_of_children(), whole = busy(), start = now();
	int n = 0, status;

	if (done == MAP_FAILED)
		exit(1);
	for (int i = 0; i < clients; i++)
		if (fork() == 0)
			client(c, start + slice, done + i * 16);
	for (int i = 0; i < clients; i++)
		if (wait(&status) < 0 || status)
			exit(1);
	double took = now() - start;
	for (int i = 0; i < clients; i++)
		n += (int)done[i * 16];
	/* what the kernel takes apart afterwards is a part of it */
	usleep(30000);
	c->rounds[round] = (struct round){ { took * clients / n, n * 1e3 / took,
					     (cpu_of_children() - cpu) / n, (busy() - whole) / n } };
	munmap(done, 4096);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return v[n / 2];
}

static void show(void)
{
	printf("| %d client%s, %d rounds |", clients, clients > 1 ? "s" : "", rounds);
	for (int k = 0; k < VALUES; k++)
		printf(" %s | ratio |", names[k]);
	printf("\n|---|");
	for (int k = 0; k < VALUES; k++)
		printf("---|---|");
	printf("\n");
	for (int i = 0; i < count; i++) {
		printf("| %s |", list[i].name);
		for (int k = 0; k < VALUES; k++) {
			double v[ROUNDS_MAX], ratio[ROUNDS_MAX];
			for (int r = 0; r < rounds; r++) {
				v[r] = list[i].rounds[r].value[k];
				ratio[r] = v[r] / list[count - 1].rounds[r].value[k];
			}
			printf(" %.2f | %.2f |", median(v, rounds), median(ratio, rounds));
		}
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "+c:r:t:g:")) > 0) {
		if (opt == 'g') {
			group = optarg;
			continue;
		}
		int n = optarg ? atoi(optarg) : 0;
		*(opt == 'c' ? &clients : opt == 'r' ? &rounds : &slice) = n;
		if (opt == '?' || n < 1 || (opt == 'c' && n > 64) || (opt == 'r' && n > ROUNDS_MAX))
			return 2;
	}
	for (int i = optind; i < argc && count < CONTESTANTS; i++) {
		list[count].name = argv[i];
		list[count++].argv = argv + i + 1;
		while (i < argc && strcmp(argv[i], "::"))
			i++;
		if (i < argc)
			argv[i] = NULL;
	}
	if (!count)
		return 2;
	srand((unsigned)time(NULL));
	for (int r = 0; r < rounds; r++) {
		int first = rand() % count;
		for (int k = 0; k < count; k++)
			run_round(&list[(first + k) % count], r);
	}
	show();
	return 0;
}
