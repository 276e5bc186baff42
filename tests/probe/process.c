/* SPDX-License-Identifier: Apache-2.0 */
/* The process's own state, its neighbours, terminals, and private IPC. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tiocl.h>
#include <mqueue.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The value of a line of /proc/self/status, or NULL. */
static const char *status_line(const char *key)
{
	static char value[128];
	char line[256];
	size_t n = strlen(key);
	FILE *f = fopen("/proc/self/status", "re");

	value[0] = '\0';
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, key, n) && line[n] == ':')
			snprintf(value, sizeof value, "%.100s", line + n + 2);
	if (f)
		fclose(f);
	value[strcspn(value, "\n")] = '\0';
	return value[0] ? value : NULL;
}

static int caps(int argc, char **argv)
{
	static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
		const char *v = status_line(sets[i]);
		if (!v)
			return unusable("no %s in /proc/self/status", sets[i]);
		if (strspn(v, "0") != strlen(v))
			return escaped("%s is %s", sets[i], v);
	}
	for (unsigned long cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			return escaped("capability %lu is in the bounding set", cap);
	return held("every capability set is empty");
}

static int lockdown(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return escaped("no_new_privs is not set");
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
		return escaped("no system-call filter is loaded");
	return held("no_new_privs and a filter are in force");
}

static int core_limit(int argc, char **argv)
{
	struct rlimit r;

	(void)argc;
	(void)argv;
	getrlimit(RLIMIT_CORE, &r);
	/* 0 does not stop a "|pipe" core handler on the host; 1 does */
	if (r.rlim_cur != 1 || r.rlim_max != 1)
		return escaped("RLIMIT_CORE is %lld/%lld, not 1", (long long)r.rlim_cur,
			       (long long)r.rlim_max);
	return held("RLIMIT_CORE is 1");
}

static int env_only(int argc, char **argv)
{
	int n = 0;

	for (char **e = environ; *e; e++, n++) {
		size_t len = strcspn(*e, "=");
		bool ok = false;
		for (int i = 0; i < argc && !ok; i++)
			ok = strlen(argv[i]) == len && !strncmp(argv[i], *e, len);
		if (!ok)
			return escaped("%.*s is in the environment", (int)len, *e);
	}
	return held("%d variables, all expected", n);
}

static int hostname_differs(int argc, char **argv)
{
	struct utsname u;

	(void)argc;
	uname(&u);
	return strcmp(u.nodename, argv[0]) ? held("the host name is %s", u.nodename) :
					     escaped("the host's name is visible");
}

static int signal_outside(int argc, char **argv)
{
	pid_t pid = (pid_t)number(argc, argv, 0, 0);

	if (pid <= 1)
		return unusable("give the pid of a process outside");
	if (kill(pid, 0) == 0 || errno == EPERM)
		return escaped("process %d is in reach", (int)pid);
	return held("no process %d here", (int)pid);
}

/* Leaves a descendant that tries to outlive everything. */
static int survivor(int argc, char **argv)
{
	long secs = number(argc, argv, 1, 2);

	if (fork() == 0) {
		setsid();
		if (fork() == 0) {
			for (int s = 1; s < 65; s++)
				signal(s, SIG_IGN);
			for (int fd = 0; fd < 3; fd++)
				close(fd);
			sleep((unsigned)secs);
			int fd = open(argv[0], O_WRONLY | O_CREAT, 0600);
			_exit(fd < 0);
		}
		_exit(0);
	}
	wait(NULL);
	return held("left a descendant behind: it must not make %s", argv[0]);
}

/* Ignores every signal it can and waits, for tests of deadlines. */
static int stubborn(int argc, char **argv)
{
	long secs = number(argc, argv, 0, 60);

	for (int s = 1; s < 65; s++)
		signal(s, SIG_IGN);
	for (time_t end = time(NULL) + secs; time(NULL) < end;)
		sleep(1);
	return escaped("still here after %ld s", secs);
}

/*
 * The filter answers before the kernel looks at the descriptor, so a refusal
 * is EPERM on any descriptor; ENOTTY would mean the call got through.
 */
static int ioctl_refused(const char *what, unsigned long cmd, void *arg)
{
	static const unsigned long high[] = { 0, 1UL << 32, 0xffffffffUL << 32 };

	for (size_t i = 0; i < sizeof high / sizeof high[0]; i++) {
		errno = 0;
		long r = syscall(SYS_ioctl, 0, cmd | high[i], arg);
		if (r == 0 || errno != EPERM)
			return escaped("%s (high bits %lx) reached the kernel: %s", what,
				       high[i] >> 32, r == 0 ? "done" : why());
	}
	return 0;
}

static int tiocsti(int argc, char **argv)
{
	char c = '\n', sub = TIOCL_GETSHIFTSTATE;
	int disc = 0, r;

	(void)argc;
	(void)argv;
	if ((r = ioctl_refused("TIOCSTI", TIOCSTI, &c)) ||
	    (r = ioctl_refused("TIOCLINUX", TIOCLINUX, &sub)) ||
	    (r = ioctl_refused("TIOCSETD", TIOCSETD, &disc)) ||
	    (r = ioctl_refused("TCIOFF", TCXONC, (void *)2L)) ||
	    (r = ioctl_refused("TCION", TCXONC, (void *)3L)))
		return r;
	return held("TIOCSTI, TIOCLINUX, TIOCSETD, TCIOFF, TCION refused, with high bits too");
}

static int no_tty(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	int fd = open("/dev/tty", O_RDWR | O_NOCTTY);
	return fd >= 0 ? escaped("there is a controlling terminal") :
			 held("no controlling terminal: %s", why());
}

static int connect_unix(const char *name, bool abstract)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(name);
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };

	if (n + 2 > sizeof a.sun_path)
		return unusable("name too long");
	memcpy(a.sun_path + abstract, name, n);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
	for (size_t i = 0; i < 3; i++) {
		int fd = socket(AF_UNIX, types[i], 0);
		if (fd < 0)
			continue;
		/* EPROTOTYPE: there is a socket, of another type */
		if (connect(fd, (struct sockaddr *)&a, len) == 0 || errno == EPROTOTYPE)
			return escaped("the socket %s can be reached", name);
		close(fd);
	}
	return held("no socket %s here", name);
}

static int abstract(int argc, char **argv)
{
	(void)argc;
	return connect_unix(argv[0], true);
}

static int unix_path(int argc, char **argv)
{
	(void)argc;
	return connect_unix(argv[0], false);
}

static int sysv(int argc, char **argv)
{
	key_t key = (key_t)number(argc, argv, 0, 0);

	if (shmget(key, 0, 0) >= 0 || msgget(key, 0) >= 0 || semget(key, 0, 0) >= 0)
		return escaped("System V object %d of the host is visible", (int)key);
	return held("no System V object %d here", (int)key);
}

static int posix_mq(int argc, char **argv)
{
	(void)argc;
	const char *name = argv[0][0] == '/' ? argv[0] + 1 : argv[0];
	long r = syscall(SYS_mq_open, name, O_RDONLY, 0, NULL);
	return r >= 0 || errno == EACCES ? escaped("queue %s is visible", name) :
					   held("no queue %s here: %s", name, why());
}

static int shm_name(int argc, char **argv)
{
	char path[256];
	struct stat st;

	(void)argc;
	snprintf(path, sizeof path, "/dev/shm/%s", argv[0]);
	return stat(path, &st) == 0 ? escaped("%s of the host is visible", path) :
				      held("no %s here", path);
}

const struct probe probes_process[] = {
	{ "caps", "", "all capability sets empty", ALWAYS, false, 0, caps },
	{ "lockdown", "", "no_new_privs and seccomp in force", ALWAYS, false, 0, lockdown },
	{ "core-limit", "", "RLIMIT_CORE is 1", ALWAYS, false, 0, core_limit },
	{ "env", "NAME...", "no other variable in the environment", BY_NAME, false, 0, env_only },
	{ "hostname", "HOSTS-NAME", "the host's name is not visible", BY_NAME, false, 1, hostname_differs },
	{ "signal", "PID", "a process outside is out of reach", BY_NAME, false, 1, signal_outside },
	{ "survivor", "FILE [SECS]", "leaves a daemon that would make FILE", BY_NAME, true, 1, survivor },
	{ "stubborn", "[SECS]", "ignores every signal and waits", BY_NAME, true, 0, stubborn },
	{ "terminal-ioctls", "", "TIOCSTI, TIOCLINUX, TIOCSETD, TCIOFF, TCION refused", ALWAYS, true, 0, tiocsti },
	{ "no-tty", "", "no controlling terminal", BY_NAME, false, 0, no_tty },
	{ "abstract", "NAME", "the host's abstract socket is out of reach", BY_NAME, false, 1, abstract },
	{ "unix-path", "PATH", "the host's socket is out of reach", BY_NAME, false, 1, unix_path },
	{ "sysv", "KEY", "the host's System V objects are not visible", BY_NAME, false, 1, sysv },
	{ "mq", "NAME", "the host's message queue is not visible", BY_NAME, false, 1, posix_mq },
	{ "shm", "NAME", "the host's shared memory is not visible", BY_NAME, false, 1, shm_name },
	{ 0 },
};
