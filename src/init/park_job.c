/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job: waits in the container, confined, until brig has seen the evidence
 * and sends the command; then it becomes the command.
 */
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/utsname.h>

#include "init/freestanding.h"
#include "init/park_internal.h"

enum { NOENT = 2, NOEXEC = 8, DENIED = 13, NOTDIR = 20 };

/* Untouched pages cost nothing. */
static _Alignas(16) char blob[PARK_GO_MAX];
static char *args[PARK_GO_MAX / 32 + 2];
static char *vars[PARK_GO_MAX / 32 + 1];
static struct park_path seen[PARK_PATHS_MAX];

static void fail(const struct job_ends *ends, enum park_step step, long errnum)
	__attribute__((noreturn));
static void fail(const struct job_ends *ends, enum park_step step, long errnum)
{
	const struct job_word w = {
		.fail = { step, (int32_t)(errnum < 0 ? -errnum : errnum) }
	};

	park_send_fd(ends->parent, &w, sizeof w, -1);
	die(127);
}

static size_t length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static bool contains(const char *text, size_t len, const char *word)
{
	size_t n = length(word);

	for (size_t i = 0; i + n <= len; i++) {
		size_t k = 0;
		while (k < n && text[i + k] == word[k])
			k++;
		if (k == n)
			return true;
	}
	return false;
}

/* Interfaces besides loopback, as the kernel in here lists them. */
static int foreign_links(void)
{
	int fd = (int)SYS4(SYS_openat, AT_FDCWD_, "/proc/net/dev", O_CLOEXEC_, 0);
	int count = 0;

	if (fd < 0)
		return -1;
	size_t len = 0;
	long n;
	while (len < sizeof blob && (n = SYS3(SYS_read, fd, blob + len, sizeof blob - len)) > 0)
		len += (size_t)n;
	SYS1(SYS_close, fd);
	/* "  name: numbers": every line with a colon names one */
	for (size_t i = 0, start = 0; i < len; i++) {
		if (blob[i] == '\n')
			start = i + 1;
		if (blob[i] != ':')
			continue;
		while (start < i && blob[start] == ' ')
			start++;
		if (i - start != 2 || blob[start] != 'l' || blob[start + 1] != 'o')
			count++;
		while (i + 1 < len && blob[i + 1] != '\n')
			i++;
	}
	return count;
}

/* The log of a gVisor kernel begins with its name; the host's is refused. */
static bool is_gvisor(void)
{
	long n = SYS3(SYS_syslog, 3 /* read all */, blob, 64 * 1024);

	return n > 0 && contains(blob, (size_t)n, "gVisor");
}

static void read_self(struct park_report *r)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = { { 0 } };
	struct new_utsname u;

	*r = (struct park_report){ .magic = PARK_MAGIC, .version = PARK_VERSION,
				   .foreign_links = -1 };
	r->pid = (uint32_t)SYS0(SYS_getpid);
	r->parent = (uint32_t)SYS0(SYS_getppid);
	r->uid = (uint32_t)SYS0(SYS_geteuid);
	r->gid = (uint32_t)SYS0(SYS_getegid);
	r->cap_eff = r->cap_prm = r->cap_inh = UINT64_MAX; /* unknown is not none */
	if (SYS2(SYS_capget, &h, d) == 0) {
		r->cap_eff = d[0].effective | (uint64_t)d[1].effective << 32;
		r->cap_prm = d[0].permitted | (uint64_t)d[1].permitted << 32;
		r->cap_inh = d[0].inheritable | (uint64_t)d[1].inheritable << 32;
	}
	for (unsigned cap = 0; cap < 64; cap++) {
		if (SYS5(SYS_prctl, PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			r->cap_bnd |= 1ull << cap;
		if (SYS5(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
			r->cap_amb |= 1ull << cap;
	}
	if (SYS1(SYS_uname, &u) == 0) {
		memcpy(r->release, u.release, sizeof r->release);
		memcpy(r->nodename, u.nodename, sizeof r->nodename);
	}
	r->foreign_links = foreign_links();
	r->gvisor = is_gvisor();
}

static void look_at(const char *path, struct park_path *p)
{
	struct {
		uint64_t dev, ino, nlink;
		uint32_t mode, uid, gid, pad;
		char rest[128];
	} st = { 0 }; /* x86_64; on aarch64 mode comes before nlink */
	long fs[16] = { 0 };

	*p = (struct park_path){ 0 };
	long r = SYS4(SYS_newfstatat, AT_FDCWD_, path, &st, AT_SYMLINK_NOFOLLOW_);
	if (r < 0) {
		p->errnum = (int32_t)-r;
		return;
	}
	p->dev = st.dev;
	p->ino = st.ino;
#if defined(__aarch64__)
	p->mode = (uint32_t)st.nlink;
#else
	p->mode = st.mode;
#endif
	/* f_flags is the eleventh word on both */
	if (SYS2(SYS_statfs, path, fs) == 0)
		p->read_only = (uint32_t)(fs[10] & 1);
}

/* Everything that can be done before the command is known. */
static void get_ready(const struct channel *ch, const struct job_ends *ends)
{
	struct park_head head;
	struct park_report rep;
	struct park_hello h;

	if (!park_read(ch->in, &head, sizeof head))
		die(0); /* brig is gone, or wants nothing */
	if (head.type != PARK_HELLO || head.len < sizeof h || head.len > PARK_HELLO_MAX)
		fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
	read_self(&rep); /* uses the blob */
	if (!park_read(ch->in, blob, head.len))
		die(0);
	memcpy(&h, blob, sizeof h);
	size_t at = sizeof h + (size_t)h.n_filter * sizeof(struct sock_filter);
	if (h.magic != PARK_MAGIC || h.version != PARK_VERSION ||
	    h.n_filter > PARK_FILTER_MAX || h.n_paths > PARK_PATHS_MAX || at > head.len)
		fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
	struct job_word w = { .has_key = 1 };
	memcpy(w.key, h.key, sizeof w.key);
	if (!park_send_fd(ends->parent, &w, sizeof w, -1))
		die(0);
	for (uint32_t i = 0; i < h.n_paths; i++) {
		size_t end = at;
		while (end < head.len && blob[end])
			end++;
		if (end == head.len)
			fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
		look_at(blob + at, &seen[i]);
		at = end + 1;
	}
	const struct sock_fprog prog = { (unsigned short)h.n_filter,
					 (struct sock_filter *)(blob + sizeof h) };
	long r = SYS5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (r == 0 && h.n_filter)
		r = SYS3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
	if (r < 0)
		fail(ends, PARK_STEP_FILTER, r);
	rep.no_new_privs = (int32_t)SYS5(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	rep.seccomp = (int32_t)SYS5(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0);
	rep.n_paths = h.n_paths;
	const size_t list = h.n_paths * sizeof seen[0];
	const struct park_head out = { PARK_REPORT, (uint32_t)(sizeof rep + list) };
	if (!park_write(ch->out, &out, sizeof out) || !park_write(ch->out, &rep, sizeof rep) ||
	    (list && !park_write(ch->out, seen, list)))
		die(0);
}

static long make_socket(const struct park_place *p)
{
	const struct {
		uint16_t family;
		uint8_t port[2], addr[4], zero[8];
	} a = { 2, { (uint8_t)(p->port >> 8), (uint8_t)p->port },
		{ p->addr[0], p->addr[1], p->addr[2], p->addr[3] }, { 0 } };
	const int on = 1;

	long fd = SYS3(SYS_socket, 2, (p->stream ? 1 : 2) | O_CLOEXEC_ | O_NONBLOCK_, 0);
	if (fd < 0)
		return fd;
	/* two datagram sockets with it could share the resolver's address */
	if (p->stream)
		SYS5(SYS_setsockopt, fd, 1 /* SOL_SOCKET */, 2 /* REUSEADDR */, &on,
		     sizeof on);
	if (p->stream)
		SYS5(SYS_setsockopt, fd, 6 /* TCP */, 1 /* NODELAY */, &on, sizeof on);
	long r = SYS3(SYS_bind, fd, &a, sizeof a);
	if (r == 0 && p->stream)
		r = SYS2(SYS_listen, fd, 256);
	if (r == 0)
		return fd;
	SYS1(SYS_close, fd);
	return r;
}

/* The listeners of an allow-list, where brig cannot make them from outside. */
static void make_sockets(const struct channel *ch, const struct job_ends *ends, size_t len)
{
	struct {
		struct park_head head;
		struct park_socket s;
	} answer = { { PARK_SOCKET, sizeof answer.s }, { 0 } };
	struct park_net net;

	memcpy(&net, blob, sizeof net);
	if (net.count > PARK_PLACES_MAX ||
	    len != sizeof net + net.count * sizeof(struct park_place))
		fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
	for (uint32_t i = 0; i < net.count; i++) {
		struct park_place p;
		memcpy(&p, blob + sizeof net + i * sizeof p, sizeof p);
		long fd = make_socket(&p);
		answer.s.errnum = fd < 0 ? (int32_t)-fd : 0;
		if (!park_send_fd(ch->out, &answer, sizeof answer, fd < 0 ? -1 : (int)fd))
			die(0);
		/* what stayed open here could be accepted from inside */
		if (fd >= 0)
			SYS1(SYS_close, fd);
	}
}

/* Reads the command's frame into the blob; descriptors come with its head. */
static struct park_go read_go(const struct channel *ch, const struct job_ends *ends,
			      int fds[3], int *nfds, size_t *len)
{
	struct park_head head;
	struct park_go go;
	long n = sizeof head;

	for (;;) {
		*nfds = 0;
		if (ch->stream) {
			if (!park_read(ch->in, &head, sizeof head))
				die(0);
		} else {
			*nfds = 3;
			n = park_recv_fds(ch->in, &head, sizeof head, fds, nfds);
			if (n <= 0)
				die(0);
		}
		if (n != (long)sizeof head || head.type != PARK_NET || ch->stream)
			break;
		if (head.len < sizeof(struct park_net) || head.len > 4096 || *nfds)
			fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
		if (!park_read(ch->in, blob, head.len))
			die(0);
		make_sockets(ch, ends, head.len);
	}
	if (n != (long)sizeof head || head.type != PARK_GO || head.len < sizeof go ||
	    head.len >= PARK_GO_MAX)
		fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
	if (!park_read(ch->in, blob, head.len))
		die(0);
	blob[head.len] = '\0';
	memcpy(&go, blob, sizeof go);
	*len = head.len;
	return go;
}

/* Cuts count texts out of the blob. */
static size_t cut(const struct job_ends *ends, char **to, uint32_t count, size_t room,
		  size_t at, size_t len)
{
	if (count >= room)
		fail(ends, PARK_STEP_EXEC, 7 /* E2BIG */);
	for (uint32_t i = 0; i < count; i++) {
		if (at >= len)
			fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
		to[i] = blob + at;
		at += length(blob + at) + 1;
	}
	to[count] = 0;
	return at;
}

/* A terminal of the container's own; its master goes to whoever copies. */
static void open_terminal(const struct channel *ch, const struct job_ends *ends,
			  const struct park_go *go, int fds[3])
{
	const struct park_head head = { PARK_PTY, 0 };
	const struct job_word none = { .fail = { 0, 0 } };
	const uint16_t size[4] = { go->rows, go->cols, 0, 0 };
	int unlock = 0;

	long master = SYS4(SYS_openat, AT_FDCWD_, "/dev/ptmx",
			   O_RDWR_ | O_NOCTTY_ | O_CLOEXEC_, 0);
	if (master < 0)
		fail(ends, PARK_STEP_PTY, master);
	SYS3(SYS_ioctl, master, 0x40045431 /* TIOCSPTLCK */, &unlock);
	SYS3(SYS_ioctl, master, 0x5414 /* TIOCSWINSZ */, size);
	long slave = SYS3(SYS_ioctl, master, 0x5441 /* TIOCGPTPEER */,
			  O_RDWR_ | O_NOCTTY_ | O_CLOEXEC_);
	if (slave < 0) {
		/* gVisor of some ages: by name */
		unsigned number = 0;
		char path[24] = "/dev/pts/";
		SYS3(SYS_ioctl, master, 0x80045430 /* TIOCGPTN */, &number);
		size_t at = 9, digits = 1;
		for (unsigned v = number; v >= 10; v /= 10)
			digits++;
		for (size_t i = digits; i--; number /= 10)
			path[at + i] = (char)('0' + number % 10);
		slave = SYS4(SYS_openat, AT_FDCWD_, path,
			     O_RDWR_ | O_NOCTTY_ | O_CLOEXEC_, 0);
	}
	if (slave < 0)
		fail(ends, PARK_STEP_PTY, slave);
	bool sent = ch->stream ?
			    park_send_fd(ends->parent, &none, sizeof none, (int)master) :
			    park_send_fd(ch->out, &head, sizeof head, (int)master);
	if (!sent)
		die(0);
	SYS1(SYS_close, master);
	SYS3(SYS_ioctl, slave, 0x540e /* TIOCSCTTY */, 0);
	fds[0] = fds[1] = fds[2] = (int)slave;
}

static const char *variable(const char *name)
{
	size_t n = length(name);

	for (char **v = vars; *v; v++) {
		size_t k = 0;
		while (k < n && (*v)[k] == name[k])
			k++;
		if (k == n && (*v)[n] == '=')
			return *v + n + 1;
	}
	return 0;
}

/* One file; a script without an interpreter line goes to the shell, as every
 * shell has it.  Returns the errno. */
static long try_exec(char *path)
{
	static char sh[] = "/bin/sh";

	long r = SYS3(SYS_execve, path, args + 1, vars);
	if (r == -NOEXEC) {
		args[0] = sh;
		args[1] = path;
		SYS3(SYS_execve, sh, args, vars);
	}
	return r;
}

static long execute(void)
{
	static char path[4096];
	const char *name = args[1], *dirs = variable("PATH");
	bool refused = false;

	for (const char *c = name; *c; c++)
		if (*c == '/')
			return try_exec(args[1]);
	size_t n = length(name);
	for (const char *p = dirs ? dirs : "/usr/bin:/bin"; *name;) {
		size_t d = 0;
		while (p[d] && p[d] != ':')
			d++;
		if (d + n + 2 <= sizeof path && d) {
			memcpy(path, p, d);
			path[d] = '/';
			memcpy(path + d + 1, name, n + 1);
			long r = try_exec(path);
			if (r == -DENIED)
				refused = true;
			else if (r != -NOENT && r != -NOTDIR)
				return r;
		}
		if (!p[d])
			break;
		p += d + 1;
	}
	return refused ? -DENIED : -NOENT;
}

void park_job(const struct channel *ch, const struct job_ends *ends)
{
	int fds[3] = { -1, -1, -1 }, nfds;
	uint64_t none = 0;
	size_t len;

	get_ready(ch, ends);
	struct park_go go = read_go(ch, ends, fds, &nfds, &len);
	size_t at = sizeof go;
	const char *dir = blob + at;
	at += length(dir) + 1;
	/* args[0] is room for a shell's name */
	at = cut(ends, args + 1, go.argc, sizeof args / sizeof args[0] - 2, at, len);
	cut(ends, vars, go.envc, sizeof vars / sizeof vars[0] - 1, at, len);
	if (!go.argc)
		fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
	SYS0(SYS_setsid);
	if (go.flags & PARK_GO_PTY) {
		open_terminal(ch, ends, &go, fds);
	} else if (ch->stream) {
		for (int i = 0; i < 3; i++)
			fds[i] = ends->stdio[i];
	} else if (nfds != 3) {
		fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
	}
	for (int i = 0; i < 3; i++)
		if (SYS3(SYS_dup3, fds[i], i, 0) < 0 && fds[i] != i)
			fail(ends, PARK_STEP_PROTOCOL, E_PROTO);
	long r = SYS1(SYS_chdir, dir);
	if (r < 0)
		fail(ends, PARK_STEP_CWD, r);
	SYS4(SYS_rt_sigprocmask, 2 /* SETMASK */, &none, 0, sizeof none);
	/* from here on an end without a word means that the command runs */
	const struct job_word trying = { .fail = { PARK_STEP_EXEC, 0 } };
	if (!park_send_fd(ends->parent, &trying, sizeof trying, -1))
		die(127);
	fail(ends, PARK_STEP_EXEC, execute());
}
