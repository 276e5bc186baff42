/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject [-o FILE] [-l] [-t SECONDS] [-f ROLE:CALL:N:ERRNO|KILL] -- BRIG run ...
 *
 * Traces every process brig makes and fails the Nth CALL of the process with
 * this ROLE; with KILL the process is held there for a moment, in which the
 * others get as far as they can without it, and killed.  strace can fail a call too, but counts in each process alone, so
 * one number hits several of them at once, and the command as well; here one
 * call of one process is hit and nothing else.
 *
 * Roles: supervisor, custodian (the janitor, or a keeper), builder, netmaker, job, idholder, egress, other; the
 * builder is called init once it has executed that.  The job is let go when it
 * has executed the command: what the command does is not our business.
 *
 * The report (FILE, default standard error), one line each:
 *   call ROLE NAME N            with -l, every call in order, as it is entered
 *   hit ROLE NAME N             the call was failed, or the process held
 *   started                     the job's execve succeeded
 *   end exit|signal NUMBER      how the supervisor ended
 *   left ROLE PID [WHERE]       alive 5 s after the supervisor's end (killed then), and
 *                               what it does: state, place in the kernel, system call
 *   hang                        the supervisor did not end in time (all killed)
 *
 * Exit: 0 when the report is complete, 99 for a failure of its own.
 */
#include <elf.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "callnames.h"

enum { PROCS = 64, CALLS = 512, EXIT_SELF = 99, LINGER_MS = 5000, HOLD_MS = 30 };

enum role { SUPERVISOR, CUSTODIAN, BUILDER, INIT, NETMAKER, JOB, IDHOLDER, EGRESS, OTHER,
	    ROLES };
static const char *const role_names[ROLES] = {
	"supervisor", "custodian", "builder", "init", "netmaker", "job",
	"idholder", "egress", "other",
};

struct proc {
	pid_t pid; /* 0: free */
	enum role role;
	bool known;   /* its parent's event has been seen */
	bool stopped; /* its first stop came before that */
	bool failing; /* between the entry and the exit of the call */
	long nr;
	uint64_t saved;
	unsigned n;
	unsigned count[CALLS];
};

static struct proc procs[PROCS];
static FILE *report;
static bool list, started, begun;
static bool hit; /* the call has been found */
static bool built; /* there is a builder */
static enum role want_role = ROLES;
static long want_call = -1;
static unsigned want_n;
static int want_errno;
static bool want_kill;
static pid_t held; /* stopped until held_until, then killed */
static uint64_t held_until;
static pid_t supervisor;
static int job_pidfd = -1;
static pid_t job_pid;
static volatile sig_atomic_t tick;

static void on_alarm(int sig)
{
	(void)sig;
	tick = 1;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static _Noreturn void die(const char *what)
{
	perror(what);
	_exit(EXIT_SELF); /* PTRACE_O_EXITKILL ends the rest */
}

static struct proc *find(pid_t pid)
{
	for (size_t i = 0; i < PROCS; i++)
		if (procs[i].pid == pid)
			return &procs[i];
	return NULL;
}

static struct proc *enter(pid_t pid)
{
	struct proc *p = find(pid);

	if (p)
		return p;
	p = find(0);
	if (!p) {
		errno = ENOSPC;
		die("inject: processes");
	}
	memset(p, 0, sizeof *p);
	p->pid = pid;
	p->role = OTHER;
	return p;
}

/* Whether it has to be stopped at its calls: two stops for each take longer than most calls. */
static bool watched(const struct proc *p)
{
	return list || p->failing || (!hit && p->role == want_role);
}

static void resume(struct proc *p, int sig)
{
	/* a process that was killed meanwhile says so in its own time */
	if (ptrace(watched(p) ? PTRACE_SYSCALL : PTRACE_CONT, p->pid, NULL, (void *)(uintptr_t)sig) < 0 &&
	    errno != ESRCH)
		die("inject: resume");
}

/*
 * At entry the call becomes write(-1), which every filter inside lets through
 * (the number -1 would be killed by one) and which does nothing; at exit its
 * result becomes the error.  The registers are given back as they were.
 */
#if defined(__x86_64__)
#define NUMBER(r) ((r).orig_rax)
#define ARG0(r) ((r).rdi)
#define RESULT(r) ((r).rax)
#else
#define NUMBER(r) ((r).regs[8])
#define ARG0(r) ((r).regs[0])
#define RESULT(r) ((r).regs[0])
#endif

static void replace_call(struct proc *p)
{
	struct user_regs_struct regs;
	struct iovec iov = { &regs, sizeof regs };

	if (ptrace(PTRACE_GETREGSET, p->pid, NT_PRSTATUS, &iov) < 0)
		return;
	p->saved = ARG0(regs);
	ARG0(regs) = ~0ull;
#if defined(__x86_64__)
	regs.orig_rax = SYS_write;
#else
	int nr = SYS_write;
	struct iovec call = { &nr, sizeof nr };
	ptrace(PTRACE_SETREGSET, p->pid, NT_ARM_SYSTEM_CALL, &call);
#endif
	ptrace(PTRACE_SETREGSET, p->pid, NT_PRSTATUS, &iov);
}

static void replace_result(struct proc *p)
{
	struct user_regs_struct regs;
	struct iovec iov = { &regs, sizeof regs };

	if (ptrace(PTRACE_GETREGSET, p->pid, NT_PRSTATUS, &iov) < 0)
		return;
	ARG0(regs) = p->saved;
	RESULT(regs) = (unsigned long long)(long long)-want_errno;
	ptrace(PTRACE_SETREGSET, p->pid, NT_PRSTATUS, &iov);
}

static const char *shown(long nr)
{
	static char number[24];
	const char *name = call_name(nr);

	if (name)
		return name;
	snprintf(number, sizeof number, "%ld", nr);
	return number;
}

static void on_syscall(struct proc *p)
{
	struct __ptrace_syscall_info si;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, p->pid, (void *)sizeof si, &si) < 0)
		return;
	if (si.op == PTRACE_SYSCALL_INFO_ENTRY) {
		p->nr = (long)si.entry.nr;
		if (!begun || p->nr < 0 || p->nr >= CALLS)
			return;
		p->n = ++p->count[p->nr];
		/* here, not at its exit: some never return */
		if (list)
			fprintf(report, "call %s %s %u\n", role_names[p->role],
				shown(p->nr), p->n);
		if (p->role == want_role && p->nr == want_call && p->n == want_n) {
			if (want_kill) {
				held = p->pid;
				held_until = now_ms() + HOLD_MS;
			} else {
				p->failing = true;
				replace_call(p);
			}
			hit = true;
			fprintf(report, "hit %s %s %u\n", role_names[p->role],
				shown(p->nr), p->n);
		}
	} else if (si.op == PTRACE_SYSCALL_INFO_EXIT) {
		if (p->failing) {
			p->failing = false;
			replace_result(p);
		}
	}
}

/* The flags of the clone it is in: the first argument, or the first word behind it. */
static uint64_t clone_flags(const struct proc *parent)
{
	struct user_regs_struct regs;
	struct iovec iov = { &regs, sizeof regs };

	if (ptrace(PTRACE_GETREGSET, parent->pid, NT_PRSTATUS, &iov) < 0)
		return 0;
	if (NUMBER(regs) == SYS_clone)
		return ARG0(regs);
	return NUMBER(regs) == SYS_clone3 ?
		       (uint64_t)ptrace(PTRACE_PEEKDATA, parent->pid, ARG0(regs), NULL) : 0;
}

/* What a new process is for shows in who made it, and how. */
static enum role role_of(const struct proc *parent)
{
	uint64_t flags = clone_flags(parent);

	if (parent->role == SUPERVISOR) {
		if (flags & CLONE_NEWPID)
			return BUILDER;
		if (flags & CLONE_NEWUSER)
			return IDHOLDER;
		/* the one program that it executes, by posix_spawn() */
		if (flags & CLONE_VFORK)
			return EGRESS;
		/* visits the job's network namespace; after the release another one seals mounts */
		if (built)
			return started ? OTHER : NETMAKER;
		return CUSTODIAN;
	}
	/* no custodian of native has children: this one is a tree's keeper */
	if (parent->role == CUSTODIAN || parent->role == BUILDER)
		return JOB;
	return OTHER;
}

static void on_child(struct proc *p)
{
	unsigned long pid;

	if (ptrace(PTRACE_GETEVENTMSG, p->pid, NULL, &pid) < 0)
		return;
	struct proc *c = enter((pid_t)pid);
	c->role = begun ? role_of(p) : OTHER;
	built = built || c->role == BUILDER;
	c->known = true;
	if (c->role == JOB) {
		job_pid = c->pid;
		job_pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	}
	if (c->stopped) {
		c->stopped = false;
		resume(c, 0);
	}
}

/* True when the process was let go. */
static bool on_exec(struct proc *p)
{
	if (p->role == SUPERVISOR) {
		begun = true;
		memset(p->count, 0, sizeof p->count);
	} else if (p->role == BUILDER) {
		p->role = INIT;
		memset(p->count, 0, sizeof p->count);
		p->n = 0;
	} else if (p->role == JOB) {
		fprintf(report, "started\n");
		started = true;
		ptrace(PTRACE_DETACH, p->pid, NULL, NULL);
		p->pid = 0;
		return true;
	}
	return false;
}

static void on_stop(struct proc *p, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;

	if (sig == (SIGTRAP | 0x80)) {
		on_syscall(p);
		if (p->pid != held)
			resume(p, 0);
		return;
	}
	switch (event) {
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		on_child(p);
		resume(p, 0);
		return;
	case PTRACE_EVENT_EXEC:
		if (!on_exec(p))
			resume(p, 0);
		return;
	case PTRACE_EVENT_STOP:
		if (sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU)
			ptrace(PTRACE_LISTEN, p->pid, NULL, NULL);
		else if (!p->known)
			p->stopped = true; /* until we know who it is */
		else
			resume(p, 0);
		return;
	default:
		resume(p, event ? 0 : sig);
	}
}

/* One line of a file below /proc/PID, or "-". */
static void proc_line(pid_t pid, const char *name, char out[160])
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	FILE *f = fopen(path, "re");
	if (!f || !fgets(out, 160, f))
		snprintf(out, 160, "-");
	out[strcspn(out, "\n")] = '\0';
	if (f)
		fclose(f);
}

static void tell_where(pid_t pid)
{
	char stat[160], wchan[160], call[160];

	proc_line(pid, "stat", stat);
	proc_line(pid, "wchan", wchan);
	proc_line(pid, "syscall", call);
	const char *state = strrchr(stat, ')');
	fprintf(report, " [%.2s %s %s]", state && state[1] ? state + 2 : "-", wchan, call);
}

static void kill_all(const char *word)
{
	for (size_t i = 0; i < PROCS; i++)
		if (procs[i].pid) {
			if (word) {
				fprintf(report, "%s %s %d", word,
					role_names[procs[i].role], (int)procs[i].pid);
				tell_where(procs[i].pid);
				fputc('\n', report);
			}
			kill(procs[i].pid, SIGKILL);
		}
	if (job_pidfd >= 0 && started) {
		struct pollfd f = { .fd = job_pidfd, .events = POLLIN };
		if (poll(&f, 1, 0) == 0) {
			if (word)
				fprintf(report, "%s job %d\n", word, (int)job_pid);
			syscall(SYS_pidfd_send_signal, job_pidfd, SIGKILL, NULL, 0);
		}
	}
}

static void start(char **argv)
{
	int gate[2];
	char byte;

	if (pipe2(gate, O_CLOEXEC) < 0)
		die("inject: pipe");
	pid_t pid = fork();
	if (pid < 0)
		die("inject: fork");
	if (pid == 0) {
		close(gate[1]);
		(void)!read(gate[0], &byte, 1);
		execvp(argv[0], argv);
		_exit(EXIT_SELF);
	}
	const unsigned long options =
		PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK |
		PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)options) < 0)
		die("inject: PTRACE_SEIZE");
	/* a stop to start from: PTRACE_SYSCALL needs one */
	if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
		die("inject: PTRACE_INTERRUPT");
	struct proc *p = enter(pid);
	p->role = SUPERVISOR;
	p->known = true;
	supervisor = pid;
	close(gate[0]);
	close(gate[1]);
}

static bool job_left(void)
{
	struct pollfd f = { .fd = job_pidfd, .events = POLLIN };

	return started && job_pidfd >= 0 && poll(&f, 1, 0) == 0;
}

static int loop(unsigned seconds)
{
	uint64_t deadline = now_ms() + seconds * 1000u;
	bool ended = false, hang = false;

	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, __WALL);
		if (pid < 0 && errno == ECHILD && !job_left())
			return 0;
		if (pid < 0 && errno == ECHILD)
			usleep(2000);
		if (held && tick && now_ms() >= held_until) {
			kill(held, SIGKILL);
			held = 0;
		}
		if ((pid < 0 || tick) && now_ms() > deadline) {
			tick = 0;
			if (hang)
				return 0;
			if (!ended)
				fprintf(report, "hang\n");
			kill_all("left");
			hang = true;
			deadline = now_ms() + 1000;
		}
		if (pid <= 0)
			continue;
		struct proc *p = enter(pid);
		if (WIFSTOPPED(status)) {
			on_stop(p, status);
			continue;
		}
		if (pid == supervisor && !hang) {
			fprintf(report, "end %s %d\n", WIFEXITED(status) ? "exit" : "signal",
				WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
			ended = true;
			deadline = now_ms() + LINGER_MS;
		}
		p->pid = 0;
	}
}

static void parse_fault(char *spec)
{
	char *part[4], *save = NULL;
	int n = 0;

	for (char *s = strtok_r(spec, ":", &save); s && n < 4; s = strtok_r(NULL, ":", &save))
		part[n++] = s;
	if (n == 4) {
		for (int i = 0; i < ROLES; i++)
			if (strcmp(role_names[i], part[0]) == 0)
				want_role = (enum role)i;
		want_call = call_number(part[1]);
		want_n = (unsigned)atoi(part[2]);
		want_kill = strcmp(part[3], "KILL") == 0;
		want_errno = want_kill ? 0 : errno_number(part[3]);
	}
	if (n != 4 || want_role == ROLES || want_call < 0 || !want_n || want_errno < 0) {
		fprintf(stderr, "inject: -f ROLE:CALL:N:ERRNO|KILL\n");
		_exit(EXIT_SELF);
	}
}

int main(int argc, char **argv)
{
	unsigned seconds = 20;
	int c;

	report = stderr;
	while ((c = getopt(argc, argv, "+o:lt:f:")) != -1) {
		if (c == 'o')
			report = fopen(optarg, "we");
		else if (c == 'l')
			list = true;
		else if (c == 't')
			seconds = (unsigned)atoi(optarg);
		else if (c == 'f')
			parse_fault(optarg);
		else
			return EXIT_SELF;
	}
	if (optind >= argc || !report) {
		fprintf(stderr, "usage: inject [-o FILE] [-e] [-l] [-t S] [-f ROLE:CALL:N:ERRNO|KILL] -- COMMAND...\n");
		return EXIT_SELF;
	}
	struct sigaction sa = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &sa, NULL);
	struct itimerval it = { { 0, want_kill ? 5000 : 100000 }, { 0, 5000 } };
	start(argv + optind);
	setitimer(ITIMER_REAL, &it, NULL);
	int r = loop(seconds);
	fclose(report);
	return r;
}
