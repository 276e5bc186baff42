/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/bwrap_args.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

struct writer {
	struct buf *out;
	struct bwrap_fds *fds;
	const struct plan *p;
	const struct bwrap_features *f;
	int failed; /* -errno, sticky */
};

void bwrap_fds_free(struct bwrap_fds *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->own[i])
			close(f->v[i]);
	free(f->v);
	free(f->own);
	*f = (struct bwrap_fds){ 0 };
}

int bwrap_fds_add(struct bwrap_fds *f, int fd, bool own)
{
	int *v = realloc(f->v, (f->n + 1) * sizeof *v);
	if (v)
		f->v = v;
	bool *o = v ? realloc(f->own, (f->n + 1) * sizeof *o) : NULL;
	if (o)
		f->own = o;
	if (!v || !o) {
		if (own)
			close(fd);
		return -ENOMEM;
	}
	f->v[f->n] = fd;
	f->own[f->n++] = own;
	return 0;
}

/* A pipe that holds all there is to read, and its end. */
static int full_pipe(const void *data, size_t len)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	int r = fd_write_full(p[1], data, len);
	/* as long as it is open there is no end to read */
	if (close(p[1]) < 0 && r == 0)
		r = -errno;
	if (r == 0)
		return p[0];
	close(p[0]);
	return r;
}

static int full_file(const char *name, const void *data, size_t len)
{
	int fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, data, len);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

/* The descriptor is in *f then. */
static int keep(struct bwrap_fds *f, int fd)
{
	int r = fd < 0 ? fd : bwrap_fds_add(f, fd, true);

	return r < 0 ? r : fd;
}

int bwrap_image_fd(struct bwrap_fds *f, const char *name, const void *data, size_t len)
{
	return keep(f, full_file(name, data, len));
}

int bwrap_data_fd(struct bwrap_fds *f, const char *name, const void *data, size_t len)
{
	/* half of what a file in memory costs */
	int fd = len <= BWRAP_PIPE ? full_pipe(data, len) : -E2BIG;

	return keep(f, fd < 0 ? full_file(name, data, len) : fd);
}

void bwrap_features_find(struct bwrap_features *f, const char *text, size_t len)
{
	const struct {
		const char *option;
		bool *has;
	} table[] = {
		{ "--unshare-user-try", &f->own },
		{ "--perms", &f->perms },
		{ "--size", &f->size },
		{ "--ro-bind-fd", &f->bind_fd },
		{ "--add-seccomp-fd", &f->add_seccomp_fd },
		{ "--disable-userns", &f->disable_userns },
	};
	const char *end = text + len;

	*f = (struct bwrap_features){ 0 };
	/* once over the text, from one hyphen to the next: six searches take 50 µs */
	for (const char *p = text; (p = memchr(p, '-', (size_t)(end - p))); p++) {
		if (end - p < 3 || p[1] != '-')
			continue;
		for (size_t i = 0; i < ARRAY_LEN(table); i++) {
			size_t n = strlen(table[i].option);
			if ((size_t)(end - p) >= n && memcmp(p, table[i].option, n) == 0)
				*table[i].has = true;
		}
	}
}

/* One word; whatever it holds, it stays one word. */
static void word(struct writer *w, const char *s)
{
	buf_add(w->out, s, strlen(s) + 1);
}

static void put_words(struct writer *w, const char *const *v)
{
	for (; *v; v++)
		word(w, *v);
}
#define words(w, ...) put_words(w, (const char *const[]){ __VA_ARGS__, NULL })

static void number(struct writer *w, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, v);
	word(w, text);
}

static void perms(struct writer *w, mode_t mode)
{
	char text[8];

	if (!w->f->perms)
		return;
	snprintf(text, sizeof text, "%04o", (unsigned)mode & 07777);
	words(w, "--perms", text);
}

/* A bind by descriptor: what was checked is what is mounted. */
static void bind_fd(struct writer *w, int fd, const char *dst, bool ro)
{
	if (w->f->bind_fd) {
		word(w, ro ? "--ro-bind-fd" : "--bind-fd");
		number(w, (uint64_t)fd);
	} else {
		char path[40];
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		words(w, ro ? "--ro-bind" : "--bind", path);
	}
	word(w, dst);
	if (bwrap_fds_add(w->fds, fd, false) < 0)
		w->failed = -ENOMEM;
}

static void op_file(struct writer *w, const struct plan_op *op)
{
	int fd = bwrap_data_fd(w->fds, "brig-file", op->text, strlen(op->text));

	if (fd < 0) {
		w->failed = fd;
		return;
	}
	/* a file in the root itself, which becomes read-only in the end: a mount
	 * of its own would cost more than all the rest of it */
	perms(w, op->mode);
	word(w, "--file");
	number(w, (uint64_t)fd);
	word(w, op->dst);
}

static void op_bind(struct writer *w, const struct plan_op *op)
{
	if (op->bind)
		bind_fd(w, op->bind->fd, op->dst, op->flags & OPF_RO);
	else
		words(w, op->flags & OPF_RO ? "--ro-bind" : "--bind", op->src, op->dst);
}

/* All private trees together may take what was asked for.  Each is a file
 * system of its own here, so the sum is divided: half of it is /tmp's. */
static void op_scratch(struct writer *w, const struct plan_op *op)
{
	uint64_t n = 0, size = w->p->spec->limits.tmp_size;

	for (size_t i = 0; i < w->p->n_ops; i++)
		n += w->p->ops[i].kind == OP_SCRATCH;
	if (n > 1)
		size = streq(op->src, "tmp") ? size / 2 : size / 2 / (n - 1);
	perms(w, op->mode);
	if (w->f->size) {
		word(w, "--size");
		number(w, size & ~4095ull);
	}
	words(w, "--tmpfs", op->dst);
}

/* Where a path inside comes from on the host; false when it is brig's own. */
static bool host_path(const struct plan *p, const char *dst, char out[PATH_MAX])
{
	const struct plan_op *best = NULL;

	for (size_t i = 0; i < p->n_ops; i++)
		if (p->ops[i].kind == OP_BIND && path_is_under(dst, p->ops[i].dst) &&
		    (!best || strlen(p->ops[i].dst) >= strlen(best->dst)))
			best = &p->ops[i];
	if (!best)
		return false;
	int n = snprintf(out, PATH_MAX, "%s%s", best->src, dst + strlen(best->dst));
	return n > 0 && n < PATH_MAX;
}

static int op_mask(struct writer *w, const struct plan_op *op, struct brig_error *err)
{
	char path[PATH_MAX];
	struct stat st;
	bool dir = op->flags & OPF_DIR;

	if (op->flags & OPF_USER) {
		if (!host_path(w->p, op->dst, path) || lstat(path, &st) < 0) {
			cleanup_free char *shown = str_printable(op->dst);
			err_set(err, BRIG_E_BAD_MOUNT, 0, "mount",
				"--mask %.200s: there is nothing to hide",
				shown ? shown : "?");
			err_fix(err, "name what exists inside, or leave --mask out");
			return -ENOENT;
		}
		if (S_ISLNK(st.st_mode)) {
			err_set(err, BRIG_E_BAD_MOUNT, 0, "mount",
				"--mask: a symbolic link cannot be hidden");
			err_fix(err, "name what it points to");
			return -ELOOP;
		}
		dir = S_ISDIR(st.st_mode);
	} else if (access(op->dst, F_OK) < 0) {
		return 0; /* a kernel file that this kernel does not have */
	}
	if (dir)
		words(w, "--tmpfs", op->dst, "--remount-ro", op->dst);
	else /* a device on a mount without devices: nothing can open it */
		words(w, "--ro-bind", "/dev/null", op->dst);
	return 0;
}

/* Existing protected paths, from the descriptors that were looked at. */
static void protected_paths(struct writer *w)
{
	const struct protect *pr = &w->p->protect;

	for (size_t i = 0; i < pr->n; i++) {
		const struct protect_entry *e = &pr->v[i];
		if (e->kind != PROTECT_RO && e->kind != PROTECT_PIN)
			continue;
		cleanup_free char *dst = str_fmt("%s/%s", w->p->spec->workspace.dst, e->path);
		if (!dst)
			w->failed = -ENOMEM;
		else
			bind_fd(w, e->fd, dst, e->kind == PROTECT_RO);
	}
}

static bool is_dev(const char *dst)
{
	return path_is_under(dst, "/dev") && !streq(dst, "/dev/shm");
}

static int tree(struct writer *w, struct brig_error *err)
{
	const struct plan *p = w->p;
	bool marked = false;

	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];
		int r = 0;
		if (is_dev(op->dst)) {
			/* bubblewrap's own /dev: the same devices, its own devpts */
			if (streq(op->dst, "/dev") && op->kind == OP_DIR)
				words(w, "--dev", "/dev");
			continue;
		}
		switch (op->kind) {
		case OP_DIR:
			perms(w, op->mode);
			words(w, "--dir", op->dst);
			break;
		case OP_SYMLINK:
			words(w, "--symlink", op->text, op->dst);
			break;
		case OP_FILE:
			op_file(w, op);
			break;
		case OP_BIND:
			op_bind(w, op);
			break;
		case OP_SCRATCH:
			op_scratch(w, op);
			break;
		case OP_PROC:
			words(w, "--proc", op->dst);
			break;
		case OP_MASK:
			/* masks of the caller's come after what is protected */
			if (op->flags & OPF_USER && !marked) {
				protected_paths(w);
				marked = true;
			}
			r = op_mask(w, op, err);
			break;
		case OP_RO:
			/* The host's view of the same thing: what is in /proc/sys is
			 * shown by the reader's namespaces, whoever mounted it. */
			if (!(op->flags & OPF_IDENTITY) && access(op->dst, F_OK) == 0)
				words(w, "--ro-bind", op->dst, op->dst);
			break;
		case OP_DEVPTS:
		case OP_PIN: /* protected paths follow */
			break;
		}
		if (r < 0)
			return r;
	}
	if (!marked)
		protected_paths(w);
	/* What bubblewrap makes is writable and without limit; nobody needs that. */
	words(w, "--remount-ro", "/dev", "--remount-ro", "/");
	return 0;
}

static bool is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return !strncmp(path, top, n) && path[n] == '/';
}

bool bwrap_locks(const struct plan *p)
{
	const struct spec *s = p->spec;
	bool covers = (s->masks && *s->masks) || (s->key_masks && *s->key_masks);

	for (size_t i = 0; !covers && i < p->protect.n; i++)
		covers = p->protect.v[i].kind == PROTECT_RO || p->protect.v[i].kind == PROTECT_PIN;
	for (size_t i = 0; !covers && i < s->n_binds; i++) {
		covers = is_below(s->binds[i].dst, s->workspace.dst);
		for (size_t k = 0; !covers && k < s->n_binds; k++)
			covers = is_below(s->binds[i].dst, s->binds[k].dst);
	}
	return covers && !s->seccomp;
}

static void namespaces(struct writer *w)
{
	const struct spec *s = w->p->spec;

	/* not --unshare-all, which goes on without what it cannot have */
	words(w, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts",
	      "--unshare-cgroup");
	if (s->net != NET_HOST)
		word(w, "--unshare-net");
	/* the gate needs one to lock the mounts; afterwards it is the filter that refuses */
	if (w->f->disable_userns && !bwrap_locks(w->p))
		word(w, "--disable-userns");
	word(w, "--uid");
	number(w, s->in_uid);
	word(w, "--gid");
	number(w, s->in_gid);
	words(w, "--hostname", w->p->hostname, "--die-with-parent", "--cap-drop", "ALL");
	/* the gate is pid 1, and becomes brig's own init */
	word(w, "--as-pid-1");
	if (!s->pty)
		word(w, "--new-session");
}

/* A caller's profile, and the floor below it.  Without one it is the gate that
 * loads the filter, since it can hand out the listener for what is refused. */
static int filters(struct writer *w, struct brig_error *err)
{
	const struct spec *s = w->p->spec;
	const struct seccomp_prog *progs[] = { seccomp_floor(), s->seccomp };

	if (!s->seccomp)
		return 0;
	if (!w->f->add_seccomp_fd) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "seccomp",
			"this bubblewrap takes one filter only, and --seccomp needs two");
		err_fix(err, "install bubblewrap 0.6 or later, or use --backend native");
		return -EOPNOTSUPP;
	}
	for (size_t i = 0; i < ARRAY_LEN(progs); i++) {
		int fd = bwrap_data_fd(w->fds, "brig-filter", progs[i]->insns,
				       progs[i]->len * sizeof *progs[i]->insns);
		if (fd < 0) {
			w->failed = fd;
			break;
		}
		word(w, "--add-seccomp-fd");
		number(w, (uint64_t)fd);
	}
	return 0;
}

static void environment(struct writer *w)
{
	for (char **e = w->p->spec->env; e && *e; e++) {
		size_t n = strcspn(*e, "=");
		word(w, "--setenv");
		buf_add(w->out, *e, n);
		buf_addc(w->out, '\0');
		word(w, *e + n + ((*e)[n] == '='));
	}
}

int bwrap_args(struct buf *out, struct bwrap_fds *fds, const struct plan *p,
	       const struct bwrap_features *f, struct brig_error *err)
{
	struct writer w = { .out = out, .fds = fds, .p = p, .f = f };

	if (!f->size && p->spec->tmp_asked) {
		err_set(err, BRIG_E_UNSUPPORTED, 0, "backend",
			"this bubblewrap cannot limit the size of temporary files");
		err_fix(err, "install a later bubblewrap, leave --tmp-size out, or use "
			     "--backend native");
		return -EOPNOTSUPP;
	}
	namespaces(&w);
	int r = tree(&w, err);
	if (r == 0)
		r = filters(&w, err);
	if (r < 0)
		return r;
	environment(&w);
	words(&w, "--chdir", p->cwd);
	if (w.failed || !buf_ok(out))
		return err_set(err, BRIG_E_NO_MEMORY, w.failed ? -w.failed : ENOMEM,
			       "prepare", "bubblewrap's arguments");
	return 0;
}
