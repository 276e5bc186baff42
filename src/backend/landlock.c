/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The landlock backend: no namespaces at all, for places where there are none
 * to be had.  Landlock decides about files, two system-call filters about the
 * rest, a keeper about the end of the process tree.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/backend.h"
#include "backend/connects.h"
#include "backend/guard.h"
#include "backend/landlock_filter.h"
#include "backend/landlock_probe.h"
#include "backend/scratch.h"
#include "backend/tree.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "engine/diagnose.h"
#include "confine/exec.h"
#include "confine/landlock.h"
#include "plan/plan.h"
#include "engine/watch.h"

#define CAN                                                               \
	(LAYER_BIT(LAYER_NET) | LAYER_BIT(LAYER_CAPS) |                   \
	 LAYER_BIT(LAYER_NO_NEW_PRIVS) | LAYER_BIT(LAYER_SECCOMP) |       \
	 LAYER_BIT(LAYER_LANDLOCK) | LAYERS_LIMITS)

struct state {
	const struct spec *spec;
	struct plan plan;
	bool have_plan;
	struct guard *guard;
	struct scratch scratch;
	uid_t uid; /* whose it is */
	gid_t gid;
	int abi;
	bool root_proves;
	int ruleset; /* but for the private directory, which the command's process adds */
	char **env;
	struct sock_filter filter[LANDLOCK_FILTER_MAX];
	unsigned short filter_len;
	struct egress egress; /* with an allow-list */
	struct connects connects;
	struct seccomp_prog both; /* that one and the default one, as one */
	struct sock_filter joined[LANDLOCK_JOINED_MAX]; /* if it has to be made here */
};

/* From this version on it sees truncation, and needs no help with it. */
enum { ABI_TRUNCATE = 3 };

static void release(void *p)
{
	struct state *st = p;

	if (!st)
		return;
	scratch_remove(&st->scratch, st->uid, st->gid);
	scratch_forget(&st->scratch);
	fd_close(&st->ruleset);
	if (st->spec && st->spec->net == NET_ALLOW)
		egress_forget(&st->egress);
	guard_free(st->guard);
	if (st->have_plan)
		plan_free(&st->plan);
	strv_free(st->env);
	free(st);
}

static int refuse(struct brig_error *err, const char *what, const char *fix)
{
	err_set(err, BRIG_E_UNSUPPORTED, 0, "backend", "the landlock backend cannot %s",
		what);
	err_fix(err, "%s, or use --backend native", fix);
	return -EOPNOTSUPP;
}

/* A path below something that is shown: rules only ever add. */
static bool is_shown(const struct spec *s, const struct plan *p, const char *path)
{
	if (path_is_under(path, s->workspace.dst) || path_is_under(s->workspace.dst, path))
		return true;
	for (size_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].kind == OP_BIND && (path_is_under(path, p->ops[i].dst) ||
						  path_is_under(p->ops[i].dst, path)))
			return true;
	return path_is_under(path, "/proc");
}

static bool in_writable(const struct spec *s, const char *path)
{
	if (s->workspace.writable && path_is_under(path, s->workspace.dst))
		return true;
	for (size_t i = 0; i < s->n_binds; i++)
		if (s->binds[i].writable && path_is_under(path, s->binds[i].dst))
			return true;
	return false;
}

/* What only mounts can do is refused, not forgotten. */
static int check(const struct state *st, struct brig_error *err)
{
	const struct spec *s = st->spec;
	int r = tree_check_places(s, "landlock", err);

	if (r < 0)
		return r;
	for (char **m = s->masks; m && *m; m++)
		if (is_shown(s, &st->plan, *m))
			return refuse(err, "hide a path inside a tree that is shown (--mask)",
				      "leave --mask out");
	if (s->key_masks)
		return refuse(err, "hide the credentials that a tree to be shown has in it",
			      "show a smaller tree");
	for (size_t i = 0; i < s->n_binds; i++)
		if (!s->binds[i].writable && in_writable(s, s->binds[i].dst))
			return refuse(err, "keep a tree read-only inside a writable one (--ro)",
				      "move it out of the workspace");
	if (s->tmp_asked)
		return refuse(err, "limit the size of temporary files (--tmp-size)",
			      "leave --tmp-size out");
	return 0;
}

/* What the command could not reach by name anyway needs no rule. */
static int allow_path(const struct state *st, int ruleset, const char *path,
		      enum ll_class class, bool must)
{
	struct stat sb;
	cleanup_close int fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &sb) < 0)
		return must && errno != EACCES ? -errno : 0;
	return landlock_allow(ruleset, fd, class, S_ISDIR(sb.st_mode), st->abi);
}

/* The system trees, the harmless part of /etc and the devices, as native shows
 * them; what native makes itself (passwd, hosts) is the host's own here. */
static int allow_system(const struct state *st, int ruleset)
{
	static const char *const etc[] = { "/etc/passwd", "/etc/group", "/etc/hosts",
					   "/etc/nsswitch.conf" };
	int r = 0;

	for (size_t i = 0; i < st->plan.n_ops && r == 0; i++) {
		const struct plan_op *op = &st->plan.ops[i];
		if (op->kind != OP_BIND || op->bind)
			continue;
		r = allow_path(st, ruleset, op->src,
			       op->flags & OPF_DEVICE ? LL_DEVICE :
			       op->flags & OPF_NOEXEC ? LL_LOOK : LL_READ, true);
	}
	for (size_t i = 0; i < ARRAY_LEN(etc) && r == 0; i++)
		r = allow_path(st, ruleset, etc[i], LL_LOOK, false);
	/* The whole of /proc, for reading: /proc/self cannot be named ahead for
	 * processes that do not exist yet.  Environments, memory and open files
	 * of processes outside stay closed (Landlock counts them as tracing). */
	return r == 0 ? allow_path(st, ruleset, "/proc", LL_LOOK, true) : r;
}

static int find_landlock(struct state *st, struct brig_error *err)
{
	st->abi = landlock_abi();
	if (st->abi <= 0) {
		err_set(err, BRIG_E_LANDLOCK_UNAVAILABLE, st->abi ? -st->abi : ENOSYS,
			"landlock", "Landlock");
		err_fix(err, "use Linux 5.13 or later with lsm=landlock,... on its command "
			     "line, or --backend native");
		return -EOPNOTSUPP;
	}
	if (st->spec->net == NET_ALLOW && st->abi < 4) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "landlock",
			"this kernel's Landlock (version %d) does not hold connections to "
			"ports, which an allow-list needs", st->abi);
		err_fix(err, "use Linux 6.7 or later, --net none, or --backend native");
		return -EOPNOTSUPP;
	}
	return 0;
}

/* The rules but for the private directory, which is not there yet.  A descriptor or -errno. */
static int make_ruleset(const struct state *st)
{
	const struct spec *s = st->spec;
	int ruleset = landlock_ruleset(NULL, 0, st->abi, s->net != NET_HOST);

	if (ruleset < 0)
		return ruleset;
	int r = allow_system(st, ruleset);
	for (int i = 0; i < 2 && r == 0 && s->net == NET_ALLOW; i++)
		r = landlock_allow_port(ruleset, st->connects.ports[i]);
	if (r == 0)
		r = landlock_allow(ruleset, s->workspace.fd,
				   s->workspace.writable ? LL_WRITE : LL_READ, true,
				   st->abi);
	for (size_t i = 0; i < s->n_binds && r == 0; i++)
		r = landlock_allow(ruleset, s->binds[i].fd,
				   s->binds[i].writable ? LL_WRITE : LL_READ,
				   s->binds[i].is_dir, st->abi);
	if (r == 0)
		return ruleset;
	close(ruleset);
	return r;
}

/* The proxies, before the rules that let them be reached. */
static int make_proxies(struct state *st, struct brig_error *err)
{
	if (st->spec->net != NET_ALLOW)
		return 0;
	int r = egress_init(&st->egress, st->spec, err);
	if (r < 0)
		return r;
	r = egress_proxies(&st->egress);
	st->connects.ports[0] = egress_port(&st->egress, ALLOW_CONNECT);
	st->connects.ports[1] = egress_port(&st->egress, ALLOW_SOCKS);
	return r < 0 ? err_set(err, BRIG_E_SETUP_FAILED, -r, "net", "the proxies' listeners") : 0;
}

static bool has_variable(char **env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return true;
	return false;
}

/* Without them no program would find the way.  Nothing else than HTTP in ALL_PROXY:
 * not everybody who looks there knows SOCKS, and some fail for that. */
static int add_proxies(struct state *st)
{
	static const char *const names[] = { "http_proxy", "HTTP_PROXY", "https_proxy",
					     "HTTPS_PROXY", "all_proxy", "ALL_PROXY" };
	int r = 0;

	if (st->spec->net != NET_ALLOW)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(names) && r == 0; i++)
		if (!has_variable(st->spec->env, names[i]))
			r = strv_take(&st->env, str_fmt("%s=http://%s@127.0.0.1:%u", names[i],
							st->egress.password,
							st->connects.ports[0]));
	if (r == 0 && !has_variable(st->spec->env, "BRIG_SOCKS_PROXY"))
		r = strv_take(&st->env, str_fmt("BRIG_SOCKS_PROXY=socks5h://%s@127.0.0.1:%u",
						st->egress.password, st->connects.ports[1]));
	return r;
}

/* The system's settings for git may hold credentials, and are not shown.  One that is there and
 * cannot be read is an error to git, which then does nothing at all. */
static int hide_gitconfig(struct state *st)
{
	char **env = st->spec->env;

	if (has_variable(env, "GIT_CONFIG_NOSYSTEM") || has_variable(env, "GIT_CONFIG_SYSTEM"))
		return 0;
	return strv_take(&st->env, strdup("GIT_CONFIG_NOSYSTEM=1"));
}

/* HOME and TMPDIR are the private directory, unless the caller set others. */
static int make_env(struct state *st)
{
	const struct spec *s = st->spec;
	cleanup_free char *home = str_fmt("HOME=%s", s->home);
	bool tmp = false;
	size_t n = 0;
	int r = home ? 0 : -ENOMEM;

	for (char **e = s->env; r == 0 && e && *e; e++) {
		tmp = tmp || strncmp(*e, "TMPDIR=", 7) == 0;
		r = strv_put(&st->env, &n, streq(*e, home) ?
						   str_fmt("HOME=%s", st->scratch.path) :
						   strdup(*e));
	}
	if (r == 0 && !tmp)
		r = strv_take(&st->env, str_fmt("TMPDIR=%s", st->scratch.path));
	if (r == 0)
		r = hide_gitconfig(st);
	return r == 0 ? add_proxies(st) : r;
}

static int make_filters(struct state *st)
{
	st->filter_len = landlock_filter(st->filter, st->abi, st->spec->net);
	if (st->spec->net == NET_NONE && st->abi >= ABI_TRUNCATE) {
		st->both = *seccomp_hostns(); /* the usual case, compiled ahead */
		return 0;
	}
	unsigned short n = landlock_filter_join(st->joined, st->filter, st->filter_len,
						seccomp_default(true));
	st->both = (struct seccomp_prog){ .insns = st->joined, .len = n, .notify = true };
	return n ? 0 : -E2BIG;
}

static int plan(struct state *st, struct brig_error *err)
{
	int r = plan_build(&st->plan, st->spec, err);

	if (r < 0)
		return r;
	st->have_plan = true;
	r = check(st, err);
	if (r == 0)
		r = guard_take(&st->guard, &st->plan.protect, st->spec->workspace.fd, err);
	if (r == 0)
		r = make_proxies(st, err);
	if (r < 0)
		return r;
	return make_env(st) < 0 ? err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare",
					  "environment") : 0;
}

static int prepare(const struct spec *s, void **state, struct brig_error *err)
{
	struct state *st = calloc(1, sizeof *st);

	if (!st)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "prepare", "landlock");
	*state = st;
	st->spec = s;
	st->scratch.fd = st->scratch.parent = st->ruleset = -1;
	st->egress.watch = st->egress.sock = -1;
	st->uid = s->as_root ? s->host_uid : geteuid();
	st->gid = s->as_root ? s->host_gid : getegid();
	int r = tree_check_ids(s, "landlock", err);
	if (r == 0)
		r = find_landlock(st, err);
	if (r == 0)
		r = scratch_plan(&st->scratch, s->id, s->nested, err);
	if (r == 0)
		r = plan(st, err);
	if (r < 0)
		return r;
	if (make_filters(st) < 0)
		return err_set(err, BRIG_E_INTERNAL, E2BIG, "prepare", "the filter");
	st->ruleset = make_ruleset(st);
	if (st->ruleset >= 0)
		return 0;
	err_set(err, BRIG_E_LANDLOCK_UNAVAILABLE, -st->ruleset, "confine", "the ruleset");
	diagnose_fix(err);
	return -EPERM;
}

static int make(void *arg)
{
	struct state *st = arg;
	int r = scratch_make(&st->scratch, st->uid, st->gid);

	return r < 0 ? r : st->scratch.fd;
}

static void took(void *arg, int fd)
{
	struct state *st = arg;

	scratch_took(&st->scratch, fd);
}

/* May everybody list the root directory, and does no rule allow it? */
static bool root_proves(const struct spec *s)
{
	struct stat sb;

	for (size_t i = 0; i < s->n_binds; i++)
		if (streq(s->binds[i].dst, "/"))
			return false;
	return stat("/", &sb) == 0 && (sb.st_mode & S_IROTH);
}

/* Proof that Landlock holds: the permissions let this process list the root directory, and
 * Landlock does not. */
static int canary_root(void)
{
	if (faccessat(AT_FDCWD, "/", R_OK, 0) < 0)
		return 0; /* not Landlock: that proves nothing */
	cleanup_close int fd = openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? errno : 0;
}

/* Proof that Landlock holds connections to ports: nobody else says EACCES. */
static bool ports_are_held(void)
{
	const struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(1),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) < 0 &&
	       errno == EACCES;
}

/* With an allow-list our own part asks about connections: then there has to be a
 * listener, and it has to be ours. */
static int load_filters(const struct state *st, int *listener)
{
	const bool ask = st->spec->net == NET_ALLOW;
	const struct seccomp_prog own = { .insns = st->filter, .len = st->filter_len,
					  .notify = ask };
	const struct seccomp_prog *theirs = st->spec->seccomp;
	int asks = -1, r = theirs ? 0 : seccomp_install(&st->both, NULL, listener);

	/* somebody else's supervisor is around us: see seccomp_install() */
	if (!theirs && (r != -EBUSY || ask))
		return r;
	r = seccomp_install(&own, NULL, &asks);
	if (r == 0 && theirs) /* a caller's profile never goes below the floor */
		r = seccomp_install(seccomp_floor(), NULL, listener);
	if (r == 0)
		r = seccomp_install(theirs ? theirs : seccomp_default(false), NULL, listener);
	*listener = asks;
	return r;
}

static int restrict_files(const struct state *st, struct wire *ready, const char **what)
{
	*what = "the ruleset";
	int r = landlock_allow(st->ruleset, st->scratch.fd, LL_WRITE, true, st->abi);
	if (r < 0)
		return r;
	*what = "restricting the command";
	r = landlock_apply(st->ruleset);
	if (r < 0)
		return r;
	*what = "holding connections to ports";
	if (st->spec->net == NET_ALLOW && !ports_are_held())
		return -EPERM;
	ready->landlock_abi = st->abi;
	/* Linux 6.1 lets the other one be made: a device in the private directory */
	ready->canary = st->root_proves ? canary_root() : landlock_canary(st->scratch.fd);
	return 0;
}

/* In the command's process: no allocation, no stdio. */
static int confine(const void *arg, struct wire *ready, int *listener, const char **what,
		   enum brig_code *code)
{
	*code = BRIG_E_LANDLOCK_UNAVAILABLE;
	int r = restrict_files(arg, ready, what);
	if (r < 0)
		return r;
	*code = BRIG_E_SECCOMP_FAILED;
	*what = "loading the filter";
	r = load_filters(arg, listener);
	if (r < 0)
		return r;
	/* proof that the filter closes the network: a call only it refuses so */
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ready->errnum = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	return 0;
}

static unsigned judge(const void *arg, const struct evidence *ev,
		      const struct wire *ready, pid_t pid, unsigned bits)
{
	const struct state *st = arg;
	int filters = st->spec->seccomp ? 3 : 1;

	(void)pid;
	/* An ordinary user cannot empty the bounding set; without new privileges
	 * and with every other set empty it gives nothing to anybody. */
	if ((ev->cap_inh | ev->cap_prm | ev->cap_eff | ev->cap_amb) == 0 &&
	    ev->no_new_privs == 1)
		bits |= LAYER_BIT(LAYER_CAPS);
	bool all = ev->seccomp == 2 && ev->seccomp_filters_own < 1000 &&
		   ev->seccomp_filters >= ev->seccomp_filters_own + filters;
	if (!all)
		bits &= ~LAYER_BIT(LAYER_SECCOMP);
	bits &= ~LAYER_BIT(LAYER_NET);
	if (all && st->spec->net != NET_HOST && ready->errnum == EAFNOSUPPORT)
		bits |= LAYER_BIT(LAYER_NET);
	/* never root of the machine */
	if (ev->uid_host == 0 && !ev->nested)
		bits = 0;
	return bits;
}

static void place(void *arg, struct brig_result *res)
{
	const struct state *st = arg;

	guard_report(st->guard, st->spec->workspace.fd, res);
}

static void settle(void *arg, struct brig_result *res)
{
	struct state *st = arg;

	if (scratch_remove(&st->scratch, st->uid, st->gid) < 0 && res)
		result_deny(res, "path", st->scratch.path,
			    "the private directory could not be removed",
			    "what is left in it is not the command's user's to remove, or a "
			    "mount: look at it, then remove it", 1);
}

static void notified(void *arg, int *listener, uint32_t refused[DENY_MAX_CALL],
		     struct brig_result *res)
{
	struct state *st = arg;

	connects_handle(&st->connects, listener, refused, res);
}

static void run(const struct spec *s, void *state, struct brig_result *res)
{
	struct state *st = state;
	struct tree_job job = {
		.spec = s, .argv = s->argv, .paths = st->plan.exec_paths, .env = st->env,
		.sandbox = true, .wanted = watch_wanted(s), .can = CAN, .make = make,
		.took = took, .confine = confine, .judge = judge, .place = place,
		.settle = settle, .arg = st, .protect = &st->plan.protect,
		.egress = s->net == NET_ALLOW ? &st->egress : NULL,
		.notified = s->net == NET_ALLOW ? notified : NULL,
	};

	st->root_proves = root_proves(s);
	tree_run(&job, res);
}

static void describe(const struct spec *s, const void *state, struct buf *out)
{
	const struct state *st = state;

	buf_addf(out, "Landlock version %d, no namespaces\n", st->abi);
	buf_adds(out, "read and execute: the system trees; read: /proc, parts of /etc\n");
	buf_addf(out, "write: the workspace, and a private directory for HOME and TMPDIR\n");
	for (size_t i = 0; i < s->n_binds; i++) {
		cleanup_free char *p = str_printable(s->binds[i].src);
		buf_addf(out, "%s: %s\n", s->binds[i].writable ? "write" : "read",
			 p ? p : "?");
	}
	buf_adds(out, s->net == NET_HOST ? "sockets: IPv4, IPv6\n" :
		      s->net == NET_ALLOW ? "sockets: TCP to brig's proxies, which keep to the "
					    "allow-list; proxy variables are set\n" :
					    "sockets: none\n");
}

const struct backend backend_landlock = {
	.name = "landlock",
	.summary = "Landlock and seccomp without namespaces: where there are none",
	.can = CAN,
	.allow_list = "for programs that heed the proxy variables, which are set; nothing "
		      "else can be reached by anybody",
	.probe = landlock_probe,
	.prepare = prepare,
	.run = run,
	.release = release,
	.describe = describe,
};
