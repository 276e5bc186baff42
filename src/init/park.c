/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brig-park: pid 1 of a container that brig made.  A program of its own with no
 * C library, shown to the container read-only.  It waits, with the job that will
 * become the command, until brig sends one; then it reaps, copies streams where
 * the container has no socket to brig, forwards signals, and reports how the
 * command ended.  When brig is gone, so is everything inside.
 *
 * argv: brig-park SOCKET-PATH, or brig-park - for standard input and output
 */
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#define INIT_ENTRY
#include "init/freestanding.h"
#include "init/park_internal.h"

enum { KILL = 9, NO_HANG = 1, POLL_IN = 1, POLL_OUT = 4, SIGPIPE_ = 13, SIGCHLD_ = 17, SIG_MAX = 64 };
#define WALL 0x40000000

struct poll {
	int fd;
	short events, revents;
};

struct park {
	struct channel ch;
	int sigfd;
	int job_pid;
	int job;              /* our end of the pair with the job */
	int in, out[2];       /* stream: our ends of the command's pipes */
	int pty;
	bool trying, running, status_known;
	int status;
	uint8_t key[PARK_KEY]; /* proves that the last word is ours */
	/* input that the command has not taken yet */
	char pending[PARK_DATA_MAX];
	size_t pending_at, pending_len;
	bool pending_eof;
	/* a frame from brig, as far as it has come */
	struct park_head head;
	size_t head_len, body_len;
	char body[PARK_DATA_MAX];
};

static struct park p;
static char data[PARK_DATA_MAX];

static void close_fd(int *fd)
{
	if (*fd >= 0)
		SYS1(SYS_close, *fd);
	*fd = -1;
}

/* What pid 1 may still do.  If the command ever makes it run code, that is all
 * it gets. */
static bool confine(void)
{
#define ALLOW(nr)                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(nr), 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_wait4), ALLOW(SYS_ppoll), ALLOW(SYS_read), ALLOW(SYS_write),
		ALLOW(SYS_recvmsg), /* a terminal's master, from the job */
		ALLOW(SYS_close),
		ALLOW(SYS_ioctl),   /* a terminal's size */
		ALLOW(SYS_fcntl),   /* its master must not block */
		ALLOW(SYS_kill),    /* reaches only what is inside */
		ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_restart_syscall),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog prog = { sizeof code / sizeof code[0],
					 (struct sock_filter *)code };

	return SYS5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       SYS3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0;
}

static int connect_to(const char *path)
{
	struct {
		unsigned short family;
		char path[108];
	} a = { .family = 1 };
	size_t n = 0;

	while (n < sizeof a.path - 1 && path[n]) {
		a.path[n] = path[n];
		n++;
	}
	long fd = SYS3(SYS_socket, 1, 1 | O_CLOEXEC_, 0);
	if (fd < 0 || path[n] || SYS3(SYS_connect, fd, &a, sizeof a) < 0)
		die(125);
	return (int)fd;
}

static void nonblocking(int fd)
{
	long flags = SYS3(SYS_fcntl, fd, 3 /* F_GETFL */, 0);

	SYS3(SYS_fcntl, fd, 4 /* F_SETFL */, flags | O_NONBLOCK_);
}

/* Forks the job with its ends of everything. */
static void start_job(void)
{
	struct job_ends ends = { .stdio = { -1, -1, -1 } };
	int pair[2] = { -1, -1 }, pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };

	if (SYS4(SYS_socketpair, 1, 5 /* SEQPACKET */ | O_CLOEXEC_, 0, pair) < 0)
		die(125);
	for (int i = 0; p.ch.stream && i < 3; i++)
		if (SYS2(SYS_pipe2, pipes[i], O_CLOEXEC_) < 0)
			die(125);
	long pid = SYS5(SYS_clone, SIGCHLD_, 0, 0, 0, 0); /* fork */
	if (pid < 0)
		die(125);
	if (pid == 0) {
		SYS1(SYS_close, pair[0]);
		ends.parent = pair[1];
		if (p.ch.stream) {
			ends.stdio[0] = pipes[0][0];
			ends.stdio[1] = pipes[1][1];
			ends.stdio[2] = pipes[2][1];
			SYS1(SYS_close, pipes[0][1]);
			SYS1(SYS_close, pipes[1][0]);
			SYS1(SYS_close, pipes[2][0]);
		}
		park_job(&p.ch, &ends);
	}
	SYS1(SYS_close, pair[1]);
	p.job = pair[0];
	p.job_pid = (int)pid;
	if (!p.ch.stream)
		return;
	SYS1(SYS_close, pipes[0][0]);
	SYS1(SYS_close, pipes[1][1]);
	SYS1(SYS_close, pipes[2][1]);
	p.in = pipes[0][1];
	p.out[0] = pipes[1][0];
	p.out[1] = pipes[2][0];
	nonblocking(p.in);
	/* the command can open these, too, and take what ppoll() saw */
	nonblocking(p.out[0]);
	nonblocking(p.out[1]);
}

/* brig reads whatever we say, or is gone. */
static void tell(uint32_t type, const void *payload, size_t len)
{
	if (!park_frame(p.ch.out, type, payload, len))
		die(125);
}

static void copy_out(int *fd, uint32_t type)
{
	long n = SYS3(SYS_read, *fd, data, sizeof data);

	if (n > 0)
		tell(type, data, (size_t)n);
	else if (n != -E_INTR && n != -E_AGAIN)
		close_fd(fd); /* a terminal says EIO when its last slave is closed */
}

/* All that is there. */
static void copy_rest(int *fd, uint32_t type)
{
	struct poll w = { *fd, POLL_IN, 0 };
	static const long at_once[2] = { 0, 0 };

	while (*fd >= 0 && SYS5(SYS_ppoll, &w, 1, at_once, 0, 8) > 0)
		copy_out(fd, type);
}

/* Passes on what the command takes now. */
static void feed(void)
{
	int *to = p.pty >= 0 ? &p.pty : &p.in;

	if (p.pending_len) {
		long n = SYS3(SYS_write, *to, p.pending + p.pending_at, p.pending_len);
		if (n == -E_INTR || n == -E_AGAIN)
			return;
		p.pending_at += n > 0 ? (size_t)n : 0;
		p.pending_len = n > 0 ? p.pending_len - (size_t)n : 0;
	}
	if (p.pending_len)
		return;
	if (p.pending_eof && p.pty < 0)
		close_fd(&p.in);
	tell(PARK_TAKEN, 0, 0);
}

/* Times and peak of one child that was reaped. */
struct usage {
	struct {
		long sec, usec;
	} user, system;
	long max_rss, rest[13];
};
static uint64_t total_us;
static uint32_t peak_kb;

/* Reaps; with NO_HANG what has ended already, without it everything. */
static void reap(int options)
{
	struct usage u = { 0 };
	int st = 0;
	long pid;

	while ((pid = SYS4(SYS_wait4, -1, &st, options | WALL, &u)) > 0 ||
	       (pid == -E_INTR && !options)) {
		if (pid < 0)
			continue;
		total_us += (uint64_t)(u.user.sec + u.system.sec) * 1000000u +
			    (uint64_t)(u.user.usec + u.system.usec);
		if (u.max_rss > (long)peak_kb)
			peak_kb = (uint32_t)u.max_rss;
		if (pid == p.job_pid) {
			p.status = st;
			p.status_known = true;
		}
	}
}

/* The last word: what is in the pipes, the status; then wait to be dismissed. */
static void finish(void) __attribute__((noreturn));
static void finish(void)
{
	/* kill and reap all there is: then nothing inside runs any more */
	SYS2(SYS_kill, -1, KILL);
	reap(0);
	copy_rest(&p.out[0], PARK_OUT);
	copy_rest(&p.out[1], PARK_ERR);
	if (p.ch.stream)
		copy_rest(&p.pty, PARK_OUT);
	struct park_status s = { p.status_known ? p.status : -1, peak_kb, total_us, { 0 } };
	memcpy(s.key, p.key, sizeof s.key);
	tell(PARK_STATUS, &s, sizeof s);
	/* what was on its way does not matter any more */
	for (;;) {
		if (!park_read(p.ch.in, (char *)&p.head + p.head_len,
			       sizeof p.head - p.head_len) ||
		    p.head.type == PARK_BYE || p.head.len > sizeof p.body ||
		    p.head.len < p.body_len ||
		    !park_read(p.ch.in, p.body, p.head.len - p.body_len))
			die(0);
		p.head_len = p.body_len = 0;
	}
}

static void on_frame(void)
{
	struct park_signal sig;
	struct park_size size;

	switch (p.head.type) {
	case PARK_STDIN:
		if (p.pending_len)
			die(125);
		if (!p.head.len) {
			p.pending_eof = true;
			if (p.pty >= 0) {
				p.pending[0] = 4; /* what a terminal calls the end */
				p.pending_at = 0;
				p.pending_len = 1;
			}
		} else {
			memcpy(p.pending, p.body, p.head.len);
			p.pending_at = 0;
			p.pending_len = p.head.len;
		}
		feed();
		return;
	case PARK_SIGNAL:
		memcpy(&sig, p.body, sizeof sig);
		if (p.head.len == sizeof sig && sig.sig > 0 && sig.sig <= SIG_MAX &&
		    SYS2(SYS_kill, -p.job_pid, sig.sig) < 0)
			SYS2(SYS_kill, p.job_pid, sig.sig);
		return;
	case PARK_SIZE:
		memcpy(&size, p.body, sizeof size);
		if (p.head.len == sizeof size && p.pty >= 0) {
			const uint16_t ws[4] = { size.rows, size.cols, 0, 0 };
			SYS3(SYS_ioctl, p.pty, 0x5414 /* TIOCSWINSZ */, ws);
		}
		return;
	case PARK_END:
		finish();
	default:
		die(125); /* dismissed, or nonsense */
	}
}

/* One read; frames may come in pieces. */
static void on_brig(void)
{
	bool in_head = p.head_len < sizeof p.head;
	char *to = in_head ? (char *)&p.head + p.head_len : p.body + p.body_len;
	size_t want = in_head ? sizeof p.head - p.head_len : p.head.len - p.body_len;
	long n = want ? SYS3(SYS_read, p.ch.in, to, want) : 0;

	if (n == -E_INTR || n == -E_AGAIN)
		return;
	if (want && n <= 0)
		die(125); /* brig is gone: so is everything */
	if (in_head)
		p.head_len += (size_t)n;
	else
		p.body_len += (size_t)n;
	if (p.head_len < sizeof p.head)
		return;
	if (p.head.len > sizeof p.body)
		die(125);
	if (p.body_len < p.head.len)
		return;
	on_frame();
	p.head_len = p.body_len = 0;
}

/* From the job: a terminal's master, a failure, or, closed, a command that runs. */
static void on_job(void)
{
	struct job_word w;
	int fd = -1, n = 1;
	long got = park_recv_fds(p.job, &w, sizeof w, &fd, &n);
	struct park_fail f = w.fail;

	if (got == (long)sizeof w && w.has_key) {
		memcpy(p.key, w.key, sizeof p.key);
		return;
	}
	if (got == (long)sizeof w && n == 1) {
		p.pty = fd;
		nonblocking(fd);
		return;
	}
	if (got == (long)sizeof w && !f.errnum) {
		p.trying = true;
		return;
	}
	if (got != (long)sizeof w && !p.trying)
		f = (struct park_fail){ PARK_STEP_PROTOCOL, E_PROTO }; /* it died */
	if (got == (long)sizeof w || !p.trying) {
		tell(PARK_FAIL, &f, sizeof f);
		finish();
	}
	close_fd(&p.job); /* by execve */
	p.running = true;
	tell(PARK_STARTED, 0, 0);
}

static void watch(void)
{
	bool to_feed = p.pending_len > 0;
	struct poll w[6] = {
		{ p.sigfd, POLL_IN, 0 },
		{ p.running ? -1 : p.job, POLL_IN, 0 },
		/* until GO the job reads */
		{ p.running ? p.ch.in : -1, POLL_IN, 0 },
		{ p.out[0], POLL_IN, 0 },
		{ p.out[1], POLL_IN, 0 },
		{ p.pty >= 0 ? p.pty : (to_feed ? p.in : -1),
		  (short)((p.pty >= 0 ? POLL_IN : 0) | (to_feed ? POLL_OUT : 0)), 0 },
	};

	long r = SYS5(SYS_ppoll, w, 6, 0, 0, 8);
	if (r == -E_INTR)
		return;
	if (r < 0)
		die(125);
	if (w[0].revents)
		SYS3(SYS_read, p.sigfd, data, 128);
	if (w[1].revents)
		on_job();
	if (w[5].revents && to_feed)
		feed();
	if (p.pty >= 0 && (w[5].revents & ~POLL_OUT))
		copy_out(&p.pty, PARK_OUT);
	if (w[2].revents)
		on_brig();
	for (int i = 0; i < 2; i++)
		if (w[3 + i].revents)
			copy_out(&p.out[i], i ? PARK_ERR : PARK_OUT);
	reap(NO_HANG);
	if (p.status_known && p.running)
		finish();
}

void init_main(long *stack)
{
	char **argv = (char **)(stack + 1);
	uint64_t chld = 1ull << (SIGCHLD_ - 1);
	uint64_t blocked = chld | 1ull << (SIGPIPE_ - 1);

	if (stack[0] != 2)
		die(125);
	p = (struct park){ .sigfd = -1, .job = -1, .in = -1, .out = { -1, -1 }, .pty = -1 };
	SYS5(SYS_prctl, PR_SET_NAME, "brig-park", 0, 0, 0);
	SYS1(SYS_chdir, "/");
	p.ch.stream = argv[1][0] == '-' && !argv[1][1];
	p.ch.in = p.ch.stream ? 0 : connect_to(argv[1]);
	p.ch.out = p.ch.stream ? 1 : p.ch.in;
	SYS4(SYS_rt_sigprocmask, 0 /* BLOCK */, &blocked, 0, sizeof blocked);
	p.sigfd = (int)SYS4(SYS_signalfd4, -1, &chld, sizeof chld, O_CLOEXEC_ | O_NONBLOCK_);
	if (p.sigfd < 0)
		die(125);
	start_job();
	/* Nobody inside may trace pid 1 or open its /proc files: it cannot be
	 * frozen, and what the deadline asks of it cannot be delayed. */
	if (SYS5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		die(125);
	if (!confine())
		die(125);
	for (;;)
		watch();
}
