/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bwrap backend: the system's bubblewrap builds the sandbox, from the same
 * plan; brig's gate is what it executes inside, as pid 1.  The gate becomes
 * brig-init, and its child waits until the evidence about it has been read from
 * outside, then becomes the command.  So a set-up that failed is never taken for the
 * command's exit code, and nothing runs on bubblewrap's word alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/bwrap_args.h"
#include "backend/bwrap_probe.h"
#include "backend/tree.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/diagnose.h"
#include "engine/watch.h"

#define CAN ((LAYERS_BASE & ~LAYER_BIT(LAYER_LANDLOCK)) | LAYERS_LIMITS | LAYERS_ALLOW)

/* Made at build time from src/gate and src/init. */
extern const unsigned char brig_gate_image[], brig_init_image[];
extern const unsigned brig_gate_image_len, brig_init_image_len;

/* What the gate finds at numbers that it is told: high enough to be out of the way of
 * what is opened one after the other, before and after. */
enum { CTL, STDERR, STATUS, DEATH, GROUPS, GATE_FDS = GROUPS + CG_MAX_DIRS, GATE_AT = 900,
       GATE_APART = 64 };

struct state {
	struct plan plan;
	bool planned;
	struct bwrap_fds fds;
	struct buf args;
	char **argv, **paths, **exec_paths;
	char *env[1];
	int at[GATE_FDS];
	struct egress egress; /* with an allow-list: its network is made from outside,
				 while the gate waits */
};

static void release(void *p)
{
	struct state *st = p;

	if (!st)
		return;
	if (st->planned)
		plan_free(&st->plan);
	bwrap_fds_free(&st->fds);
	buf_free(&st->args);
	strv_free(st->argv);
	strv_free(st->paths);
	strv_free(st->exec_paths);
	free(st);
}

char *bwrap_find(void)
{
	/* root does not go by a path that somebody else may have set */
	const char *path = geteuid() == 0 ? NULL : getenv("PATH");

	if (!path || !*path)
		path = "/usr/bin:/usr/local/bin:/bin";
	for (;;) {
		size_t n = strcspn(path, ":");
		if (n > 0 && path[0] == '/') {
			char *full = str_fmt("%.*s/bwrap", (int)n, path);
			if (!full || access(full, X_OK) == 0)
				return full;
			free(full);
		}
		if (!path[n])
			return NULL;
		path += n + 1;
	}
}

int bwrap_features(const char *path, struct bwrap_features *f)
{
	struct stat st;
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	*f = (struct bwrap_features){ 0 };
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < 4 || st.st_size > (64 << 20))
		return -EINVAL;
	/* The names of its options are in the program itself: looking costs a
	 * few microseconds, asking it would cost a millisecond on every run. */
	size_t len = (size_t)st.st_size;
	char *text = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return -errno;
	bwrap_features_find(f, text, len);
	munmap(text, len);
	/* a wrapper around it: nothing is assumed of that */
	if (!f->own)
		*f = (struct bwrap_features){ 0 };
	return 0;
}

static int add_number(char ***v, uint64_t n)
{
	return strv_take(v, str_fmt("%llu", (unsigned long long)n));
}

/* bwrap --args FD -- GATE …: the words that others may see. */
static int make_argv(struct state *st, const struct spec *s)
{
	int args_fd = bwrap_data_fd(&st->fds, "brig-args", st->args.data, st->args.len);
	int gate_fd = bwrap_image_fd(&st->fds, "brig-gate", brig_gate_image,
				     brig_gate_image_len);
	int init_fd = bwrap_image_fd(&st->fds, "brig-init", brig_init_image,
				     brig_init_image_len);
	/* processes are counted per user namespace since Linux 5.14: exact inside */
	uint64_t nproc = kernel_at_least(5, 14) ? s->limits.pids : 0;
	char ***v = &st->argv;

	if (args_fd < 0 || gate_fd < 0 || init_fd < 0 ||
	    plan_exec_paths(s->argv, s->env, &st->exec_paths) < 0)
		return -ENOMEM;
	int top = GATE_AT - GATE_APART;
	for (size_t i = 0; i < st->fds.n; i++)
		top = st->fds.v[i] > top ? st->fds.v[i] : top;
	for (int i = 0; i < GATE_FDS; i++)
		st->at[i] = top + GATE_APART + i;
	const uint64_t numbers[] = { (uint64_t)st->at[CTL], (uint64_t)st->at[STDERR],
				     (uint64_t)st->at[STATUS], (uint64_t)st->at[DEATH],
				     (uint64_t)init_fd, !s->seccomp, nproc, s->pty,
				     s->seccomp ? 0 : (uint64_t)st->at[GROUPS],
				     bwrap_locks(&st->plan),
				     strv_len(st->exec_paths) };
	int r = strv_add(v, "bwrap");
	if (r == 0)
		r = strv_add(v, "--args");
	if (r == 0)
		r = add_number(v, (uint64_t)args_fd);
	if (r == 0)
		r = strv_add(v, "--");
	if (r == 0)
		r = strv_take(v, str_fmt("/proc/self/fd/%d", gate_fd));
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(numbers); i++)
		r = add_number(v, numbers[i]);
	if (r == 0)
		r = strv_append(v, (const char *const *)st->exec_paths);
	return r < 0 ? r : strv_append(v, (const char *const *)s->argv);
}

/* Bubblewrap has a limit of its own, and says nothing of what to do. */
static int check_words(const struct state *st, const struct spec *s, struct brig_error *err)
{
	enum { WORDS_MAX = 9000, OURS = 16 }; /* ours: on its command line */
	size_t n = OURS + strv_len(s->argv);

	/* and every place where the command may be */
	for (char **e = s->env; e && *e; e++)
		for (const char *c = *e; *c && strncmp(*e, "PATH=", 5) == 0; c++)
			n += *c == ':';

	for (size_t i = 0; i < st->args.len; i++)
		n += st->args.data[i] == '\0';
	if (n <= WORDS_MAX)
		return 0;
	err_set(err, BRIG_E_UNSUPPORTED, E2BIG, "backend",
		"%zu words for bubblewrap, which takes %d", n, WORDS_MAX);
	err_fix(err, "use fewer arguments, variables or binds, or --backend native");
	return -E2BIG;
}

/* What bubblewrap is told, in st->args. */
static int make_args(struct state *st, const struct spec *s, struct brig_error *err)
{
	struct bwrap_features f;
	int r = bwrap_features(st->paths[0], &f);

	if (r < 0)
		return err_set(err, BRIG_E_UNSUPPORTED, -r, "backend", "%s", st->paths[0]);
	r = plan_build(&st->plan, s, err);
	st->planned = r == 0;
	if (r == 0)
		r = bwrap_args(&st->args, &st->fds, &st->plan, &f, err);
	return r < 0 ? r : check_words(st, s, err);
}

static int no_memory(struct brig_error *err)
{
	return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "bwrap");
}

static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	struct state *st = calloc(1, sizeof *st);

	if (!st)
		return no_memory(err);
	*state = st;
	int r = tree_check_ids(s, "bwrap", err);
	if (r < 0)
		return r;
	char *bwrap = bwrap_find();
	if (!bwrap) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "backend", "bubblewrap is not installed");
		err_fix(err, "install bubblewrap, or use --backend native");
		return -ENOENT;
	}
	if (strv_take(&st->paths, bwrap) < 0)
		return no_memory(err);
	r = make_args(st, s, err);
	if (r == 0 && s->net == NET_ALLOW)
		r = egress_init(&st->egress, s, err);
	if (r < 0)
		return r;
	return make_argv(st, s) < 0 ? no_memory(err) : 0;
}

static unsigned judge(const void *arg, const struct evidence *ev,
		      const struct wire *ready, pid_t pid, unsigned bits)
{
	(void)arg, (void)ready, (void)pid;
	/* see the landlock backend: without new privileges the bounding set of
	 * a namespace without any capability gives nothing */
	if ((ev->cap_inh | ev->cap_prm | ev->cap_eff | ev->cap_amb) == 0 &&
	    ev->no_new_privs == 1)
		bits |= LAYER_BIT(LAYER_CAPS);
	return bits;
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	struct state *st = state;
	struct tree_job job = {
		.spec = s, .argv = st->argv, .paths = st->paths, .env = st->env,
		.sandbox = true, .gate = true, .nproc_inside = true,
		.ctl_at = st->at[CTL], .stderr_at = st->at[STDERR],
		.status_at = st->at[STATUS], .death_at = st->at[DEATH],
		/* a profile of the caller's, loaded before the gate, may be in its way */
		.groups_at = s->seccomp ? 0 : st->at[GROUPS],
		.keep = st->fds.v, .n_keep = st->fds.n,
		.wanted = watch_wanted(s), .can = CAN, .judge = judge, .arg = st,
		.protect = &st->plan.protect,
		.egress = s->net == NET_ALLOW ? &st->egress : NULL,
	};

	tree_run(&job, res);
	/* bubblewrap's own words, and what they usually mean */
	if (!res->ran && res->error.code == BRIG_E_SETUP_FAILED &&
	    strstr(res->error.message, "uid map"))
		diagnose_userns(EPERM, &res->error);
}

static void describe(const struct spec *s, const void *state, struct buf *out)
{
	const struct state *st = state;

	(void)s;
	buf_addf(out, "%s with these arguments, then brig's gate:\n", st->paths[0]);
	bool value = false;
	for (size_t at = 0; at < st->args.len; at += strlen(st->args.data + at) + 1) {
		const char *w = st->args.data + at;
		cleanup_free char *shown = str_printable(w);
		/* values of variables may be secrets */
		if (value) {
			value = false;
			buf_addf(out, " %s ...", shown ? shown : "?");
			at += strlen(w) + 1;
			continue;
		}
		buf_addf(out, "%s%s", strncmp(w, "--", 2) == 0 ? "\n  " : " ",
			 shown ? shown : "?");
		value = streq(w, "--setenv");
	}
	buf_addc(out, '\n');
}

const struct backend backend_bwrap = {
	.name = "bwrap",
	.summary = "the system's bubblewrap, with brig's plan, filter and evidence",
	.can = CAN,
	.allow_list = "by name, for every program, through routes made in bubblewrap's "
		      "network namespace before the command runs",
	.probe = bwrap_probe,
	.prepare = prepare,
	.run = run,
	.release = release,
	.describe = describe,
};
