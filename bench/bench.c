/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sandbox start costs, side by side.  Contestants take turns, in another
 * order each time (A, B, C, B, A, C, …), so that drift of the machine, and what
 * one leaves to the kernel to take apart, hits all of them alike; medians are
 * compared, never single runs.  A contestant that fails ends the whole
 * benchmark with its message: a failure is fast and would flatter it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"

enum { FILTER_FD = 9, ARGS_MAX = 8192, RUNS_MAX = 100000 };

extern char **environ;

struct words {
	char **v;
	size_t n;
};

struct contestant {
	const char *name;
	const char *base; /* the contestant its scaling is measured against */
	struct words argv;
	bool filter; /* receives the filter as FILTER_FD */
	double *ms;
	double median, p95, least;
	double by_round; /* median of the ratios to bwrap in the same round, 0 none */
};

static struct {
	const char *brig, *bwrap, *filter, *workspace, *label;
	int rounds, warmup, pace, binds, filter_fd;
	bool json, scaling, net;
	char *program;
} opt = { .brig = "build/brig", .bwrap = "bwrap", .rounds = 200, .warmup = 5,
	  .binds = 100, .filter_fd = -1, .label = "", .program = (char[]){ "/bin/true" } };

static struct contestant list[8];
static size_t count;
static char scratch[] = "/tmp/brig-bench-XXXXXX";
static int stderr_fd = -1;

static void clean_up(void)
{
	char path[64];

	for (int i = 0; i < opt.binds; i++) {
		snprintf(path, sizeof path, "%s/b%d", scratch, i);
		rmdir(path);
	}
	snprintf(path, sizeof path, "%s/ws", scratch);
	rmdir(path);
	rmdir(scratch);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static void word(struct words *w, const char *s)
{
	if (!w->v)
		w->v = calloc(ARGS_MAX, sizeof *w->v);
	char *copy = strdup(s);
	if (!w->v || !copy)
		die("no memory");
	if (w->n + 1 >= ARGS_MAX)
		die("too many arguments");
	w->v[w->n++] = copy;
}

#define WORDS(w, ...)                                                     \
	do {                                                              \
		const char *const words_[] = { __VA_ARGS__ };             \
		for (size_t i_ = 0; i_ < sizeof words_ / sizeof *words_; i_++) \
			word(w, words_[i_]);                              \
	} while (0)

static struct contestant *enter(const char *name, const char *base)
{
	struct contestant *c = &list[count++];

	c->name = name;
	c->base = base;
	c->ms = calloc((size_t)opt.rounds, sizeof *c->ms);
	if (!c->ms)
		die("no memory");
	return c;
}

static void bind_words(struct words *w, const char *option, bool twice, int binds)
{
	char path[64];

	for (int i = 0; i < binds; i++) {
		snprintf(path, sizeof path, "%s/b%d", scratch, i);
		WORDS(w, option, path);
		if (twice)
			word(w, path);
	}
}

/* The flags agents give bubblewrap for a tool call with no network. */
static void bwrap_words(struct contestant *c, int binds)
{
	static const char *const tops[] = { "bin", "lib", "lib32", "lib64", "sbin" };
	struct words *w = &c->argv;

	WORDS(w, opt.bwrap, "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr");
	for (size_t i = 0; i < sizeof tops / sizeof tops[0]; i++) {
		char path[32], target[64] = "";
		struct stat st;
		snprintf(path, sizeof path, "/%s", tops[i]);
		if (lstat(path, &st) < 0)
			continue;
		if (readlink(path, target, sizeof target - 1) > 0)
			WORDS(w, "--symlink", target, path);
		else
			WORDS(w, "--ro-bind", path, path);
	}
	WORDS(w, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp");
	WORDS(w, "--bind", opt.workspace, opt.workspace, "--chdir", opt.workspace);
	bind_words(w, "--ro-bind", true, binds);
	if (c->filter) {
		char number[16];
		snprintf(number, sizeof number, "%d", FILTER_FD);
		WORDS(w, "--seccomp", number);
	}
	WORDS(w, "--", opt.program);
}

static void brig_words(struct contestant *c, int binds)
{
	WORDS(&c->argv, opt.brig, "run", "--workspace", opt.workspace);
	bind_words(&c->argv, "--ro", false, binds);
	WORDS(&c->argv, "--", opt.program);
}

static void enter_startup(bool brig)
{
	WORDS(&enter("bare", NULL)->argv, opt.program);
	if (brig)
		brig_words(enter("brig", NULL), 0);
	bwrap_words(enter("bwrap", NULL), 0);
	if (opt.filter) {
		struct contestant *c = enter("bwrap+seccomp", NULL);
		c->filter = true;
		bwrap_words(c, 0);
	}
}

static void enter_scaling(bool brig)
{
	if (brig) {
		brig_words(enter("brig, 1 bind", NULL), 1);
		brig_words(enter("brig, N binds", "brig, 1 bind"), opt.binds);
	}
	bwrap_words(enter("bwrap, 1 bind", NULL), 1);
	bwrap_words(enter("bwrap, N binds", "bwrap, 1 bind"), opt.binds);
}

/* What an allow-list adds to a start: routes, listeners, and with a port from 1024
 * on nftables.  The egress process is not started before somebody calls. */
static void enter_net(void)
{
	static const char *const ports[] = { "allowed.test:443", "allowed.test:443,8443" };
	static const char *const names[] = { "brig, allow-list", "brig, with nftables" };

	brig_words(enter("brig, no network", NULL), 0);
	for (size_t i = 0; i < 2; i++) {
		struct contestant *c = enter(names[i], "brig, no network");
		WORDS(&c->argv, opt.brig, "run", "--workspace", opt.workspace, "--allow",
		      ports[i], "--", opt.program);
	}
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void show_failure(const struct contestant *c, int status)
{
	char text[4096];
	ssize_t n = pread(stderr_fd, text, sizeof text - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	fprintf(stderr, "bench: %s failed (%s %d):\n ", c->name,
		WIFSIGNALED(status) ? "signal" : "exit",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	for (size_t i = 0; i < c->argv.n && i < 40; i++)
		fprintf(stderr, " %s", c->argv.v[i]);
	fprintf(stderr, "%s\n%s", c->argv.n > 40 ? " …" : "", text);
	exit(1);
}

/* posix_spawn is vfork-like: the cost of our own size is not measured. */
static double run_once(const struct contestant *c)
{
	posix_spawn_file_actions_t fa;
	pid_t pid;
	int status;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, stderr_fd, 2);
	if (c->filter) {
		/* the offset is shared with the child that read it last time */
		lseek(opt.filter_fd, 0, SEEK_SET);
		posix_spawn_file_actions_adddup2(&fa, opt.filter_fd, FILTER_FD);
	}
	if (ftruncate(stderr_fd, 0) < 0 || lseek(stderr_fd, 0, SEEK_SET) < 0)
		die("memfd: %s", strerror(errno));

	double start = now_ms();
	int r = posix_spawnp(&pid, c->argv.v[0], &fa, NULL, c->argv.v, environ);
	if (r)
		die("%s: %s", c->argv.v[0], strerror(r));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid: %s", strerror(errno));
	double ms = now_ms() - start;

	posix_spawn_file_actions_destroy(&fa);
	if (status)
		show_failure(c, status);
	return ms;
}

static void pause_ms(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	if (ms)
		nanosleep(&t, NULL);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Another order each time: the kernel is still at work on what the one before has left. */
static void shuffle(size_t *order)
{
	for (size_t k = count; k > 1; k--) {
		size_t other = (size_t)rand() % k, kept = order[k - 1];
		order[k - 1] = order[other];
		order[other] = kept;
	}
}

static double median_of(double *sorted, size_t n)
{
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* A machine that is slower for a while is so for a round at a time: the medians of two
 * contestants may come from different states of it, their ratio in one round seldom. */
static void compare_rounds(const struct contestant *to)
{
	size_t n = (size_t)opt.rounds;
	double *ratio = to ? malloc(n * sizeof *ratio) : NULL;

	for (size_t k = 0; ratio && k < count; k++) {
		for (size_t i = 0; i < n; i++)
			ratio[i] = list[k].ms[i] / to->ms[i];
		qsort(ratio, n, sizeof *ratio, by_value);
		list[k].by_round = median_of(ratio, n);
	}
	free(ratio);
}

static const struct contestant *find(const char *name)
{
	for (size_t k = 0; name && k < count; k++)
		if (!strcmp(list[k].name, name))
			return &list[k];
	return NULL;
}

static void measure(void)
{
	for (int i = 0; i < opt.warmup; i++)
		for (size_t k = 0; k < count; k++)
			run_once(&list[k]);
	size_t order[sizeof list / sizeof list[0]];
	for (size_t k = 0; k < count; k++)
		order[k] = k;
	srand((unsigned)time(NULL));
	for (int i = 0; i < opt.rounds; i++) {
		shuffle(order);
		for (size_t k = 0; k < count; k++) {
			pause_ms(opt.pace);
			struct contestant *c = &list[order[k]];
			c->ms[i] = run_once(c);
		}
	}
	compare_rounds(find("bwrap"));
	for (size_t k = 0; k < count; k++) {
		struct contestant *c = &list[k];
		size_t n = (size_t)opt.rounds;
		qsort(c->ms, n, sizeof *c->ms, by_value);
		c->median = median_of(c->ms, n);
		c->p95 = c->ms[(n * 95 + 99) / 100 - 1];
		c->least = c->ms[0];
	}
}

static void print_ratio(const struct contestant *c, const struct contestant *to)
{
	if (to)
		printf(" %.2f |", c->median / to->median);
	else
		printf(" |");
}

static void print_net(void)
{
	printf("\n\n| `%s` in | median ms | p95 ms | least ms | more, ms |\n", opt.program);
	printf("|---|---:|---:|---:|---:|\n");
	for (size_t k = 0; k < count; k++) {
		const struct contestant *c = &list[k], *to = find(c->base);
		printf("| %s | %.3f | %.3f | %.3f |", c->name, c->median, c->p95, c->least);
		if (to)
			printf(" %.3f |\n", c->median - to->median);
		else
			printf(" |\n");
	}
	printf("\n");
}

static void print_table(void)
{
	printf("%s%d rounds, %s", opt.label[0] ? opt.label : "", opt.rounds,
	       opt.pace ? "" : "tight loop");
	if (opt.pace)
		printf("paced at %d ms", opt.pace);
	if (opt.scaling)
		printf(", N = %d", opt.binds);
	if (opt.net) {
		print_net();
		return;
	}
	printf("\n\n| `%s` in | median ms | p95 ms | least ms | ÷ bare | ÷ bwrap | "
	       "÷ bwrap by round | ÷ own 1 bind |\n", opt.program);
	printf("|---|---:|---:|---:|---:|---:|---:|---:|\n");
	for (size_t k = 0; k < count; k++) {
		const struct contestant *c = &list[k];
		printf("| %s | %.3f | %.3f | %.3f |", c->name, c->median, c->p95, c->least);
		print_ratio(c, find("bare"));
		print_ratio(c, find("bwrap"));
		if (c->by_round > 0)
			printf(" %.3f |", c->by_round);
		else
			printf(" |");
		print_ratio(c, find(c->base));
		printf("\n");
	}
	printf("\n");
}

static void json_ratio(struct json *j, const char *key, const struct contestant *c,
		       const struct contestant *to)
{
	if (!to)
		return;
	jw_key(j, key);
	jw_fixed(j, c->median / to->median, 3);
}

static void print_json(void)
{
	cleanup_buf struct buf b = { 0 };
	struct json j;

	jw_init(&j, &b);
	jw_object(&j);
	jw_key(&j, "v");
	jw_int(&j, 1);
	jw_key(&j, "label");
	jw_string(&j, opt.label);
	jw_key(&j, "rounds");
	jw_int(&j, opt.rounds);
	jw_key(&j, "pace_ms");
	jw_int(&j, opt.pace);
	jw_key(&j, "binds");
	jw_int(&j, opt.scaling ? opt.binds : 0);
	jw_key(&j, "results");
	jw_array(&j);
	for (size_t k = 0; k < count; k++) {
		const struct contestant *c = &list[k];
		jw_object(&j);
		jw_key(&j, "name");
		jw_string(&j, c->name);
		jw_key(&j, "median_ms");
		jw_fixed(&j, c->median, 4);
		jw_key(&j, "p95_ms");
		jw_fixed(&j, c->p95, 4);
		jw_key(&j, "min_ms");
		jw_fixed(&j, c->least, 4);
		json_ratio(&j, "to_bare", c, find("bare"));
		json_ratio(&j, "to_bwrap", c, find("bwrap"));
		if (c->by_round > 0) {
			jw_key(&j, "to_bwrap_by_round");
			jw_fixed(&j, c->by_round, 3);
		}
		json_ratio(&j, "to_one_bind", c, find(c->base));
		jw_end_object(&j);
	}
	jw_end_array(&j);
	jw_end_object(&j);
	cleanup_free char *text = buf_take(&b, NULL);
	if (!text)
		die("no memory");
	puts(text);
}

static int whole(const char *s, const char *what, int min, int max)
{
	char *end;
	long v = strtol(s, &end, 10);

	if (*end || end == s || v < min || v > max)
		die("%s: a number from %d to %d, not \"%s\"", what, min, max, s);
	return (int)v;
}

static void prepare(void)
{
	char path[64];

	if (!mkdtemp(scratch))
		die("%s: %s", scratch, strerror(errno));
	atexit(clean_up);
	if (!opt.workspace) {
		snprintf(path, sizeof path, "%s/ws", scratch);
		if (mkdir(path, 0755) < 0 || !(opt.workspace = strdup(path)))
			die("%s: %s", path, strerror(errno));
	}
	for (int i = 0; opt.scaling && i < opt.binds; i++) {
		snprintf(path, sizeof path, "%s/b%d", scratch, i);
		if (mkdir(path, 0755) < 0)
			die("%s: %s", path, strerror(errno));
	}
	stderr_fd = memfd_create("stderr", MFD_CLOEXEC);
	if (stderr_fd < 0)
		die("memfd_create: %s", strerror(errno));
	if (opt.filter) {
		struct stat st;
		opt.filter_fd = open(opt.filter, O_RDONLY | O_CLOEXEC);
		if (opt.filter_fd < 0 || fstat(opt.filter_fd, &st) < 0)
			die("%s: %s", opt.filter, strerror(errno));
		if (st.st_size == 0 || st.st_size % 8)
			die("%s: not an array of struct sock_filter", opt.filter);
	}
	/* room for FILTER_FD: ours must not be overwritten by the dup2 */
	if (stderr_fd == FILTER_FD || opt.filter_fd == FILTER_FD)
		die("descriptor %d is taken", FILTER_FD);
}

static const char usage[] =
	"usage: bench [--brig PATH|none] [--bwrap PATH] [--filter FILE] [--workspace DIR]\n"
	"             [--program PATH] [--rounds N] [--warmup N] [--pace MS]\n"
	"             [--scaling | --net] [--binds N] [--label TEXT] [--json]\n"
	"Compares the start of one command: bare, brig, bubblewrap with agents' flags and,\n"
	"with a filter (raw struct sock_filter array), bubblewrap with an equal filter.\n"
	"--scaling compares 1 with N read-only binds instead, --net what an allow-list adds.\n";

static void parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "brig", 1, 0, 'b' },    { "bwrap", 1, 0, 'w' },  { "filter", 1, 0, 'f' },
		{ "workspace", 1, 0, 'd' }, { "program", 1, 0, 'x' }, { "rounds", 1, 0, 'r' },
		{ "warmup", 1, 0, 'u' },  { "pace", 1, 0, 'p' },   { "scaling", 0, 0, 's' },
		{ "binds", 1, 0, 'n' },   { "label", 1, 0, 'l' },  { "json", 0, 0, 'j' },
		{ "net", 0, 0, 't' },
		{ "help", 0, 0, 'h' },    { 0 },
	};

	for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		switch (c) {
		case 'b': opt.brig = optarg; break;
		case 'w': opt.bwrap = optarg; break;
		case 'f': opt.filter = optarg; break;
		case 'd': opt.workspace = optarg; break;
		case 'x': opt.program = optarg; break;
		case 'r': opt.rounds = whole(optarg, "--rounds", 1, RUNS_MAX); break;
		case 'u': opt.warmup = whole(optarg, "--warmup", 0, RUNS_MAX); break;
		case 'p': opt.pace = whole(optarg, "--pace", 0, 60000); break;
		case 'n': opt.binds = whole(optarg, "--binds", 1, 2000); break;
		case 's': opt.scaling = true; break;
		case 't': opt.net = true; break;
		case 'l': opt.label = optarg; break;
		case 'j': opt.json = true; break;
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs(usage, stderr); exit(2);
		}
	}
	if (optind < argc) {
		fputs(usage, stderr);
		exit(2);
	}
}

/* An interrupted run leaves no scratch directory either. */
static void on_signal(int sig)
{
	(void)sig;
	clean_up();
	_exit(1);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	prepare();
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	bool brig = strcmp(opt.brig, "none") != 0;
	if (!brig)
		fputs("bench: brig left out (--brig none)\n", stderr);
	if (opt.scaling)
		enter_scaling(brig);
	else if (opt.net && brig)
		enter_net();
	else
		enter_startup(brig);
	measure();
	if (opt.json)
		print_json();
	else
		print_table();
	return 0;
}
