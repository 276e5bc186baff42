/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct probe *const groups[] = {
	probes_files, probes_proc, probes_process,
	probes_calls, probes_net, probes_resources,
};

__attribute__((format(printf, 2, 0))) static void
line(const char *verdict, const char *fmt, va_list ap)
{
	char text[1024];
	int n = vsnprintf(text, sizeof text, fmt, ap);

	/* one line whatever names the sandbox put into it */
	for (int i = 0; i < n && i < (int)sizeof text - 1; i++)
		if ((unsigned char)text[i] < 0x20)
			text[i] = '?';
	printf("%s: %s\n", verdict, text);
	fflush(stdout);
}

#define VERDICT(name, word, code)           \
	int name(const char *fmt, ...)      \
	{                                   \
		va_list ap;                 \
		va_start(ap, fmt);          \
		line(word, fmt, ap);        \
		va_end(ap);                 \
		return code;                \
	}
VERDICT(held, "held", 0)
VERDICT(escaped, "ESCAPED", 1)
VERDICT(unusable, "unusable", 2)

const char *why(void)
{
	static char text[128];
	const char *name = strerrorname_np(errno);

	snprintf(text, sizeof text, "%s (%s)", name ? name : "?", strerror(errno));
	return text;
}

long number(int argc, char **argv, int at, long fallback)
{
	if (at >= argc)
		return fallback;
	char *end;
	long v = strtol(argv[at], &end, 0);
	if (*end || end == argv[at] || v < 0)
		exit(unusable("\"%s\" is no number", argv[at]));
	return v;
}

/*
 * Some checks would succeed, and do damage, where nothing confines them.
 * no_new_privs without a filter is not enough: any sandbox under test has a
 * filter, and no ordinary shell does.
 */
static bool looks_confined(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 &&
	       prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
}

static int run_one(const struct probe *p, int argc, char **argv)
{
	if (argc < p->min_args)
		return unusable("usage: probe %s %s", p->name, p->args);
	if (p->dangerous && !looks_confined() && !getenv("PROBE_UNCONFINED"))
		return unusable("%s is not for use outside a sandbox", p->name);
	return p->run(argc, argv);
}

static int list(void)
{
	for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
		for (const struct probe *p = groups[g]; p->name; p++)
			printf("%-18s %-24s %s%s\n", p->name, p->args, p->what,
			       p->when == ALWAYS ? " [all]" : "");
	return 0;
}

/* Every check that needs no argument, each in a process of its own. */
static int all(void)
{
	int worst = 0;

	for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
		for (const struct probe *p = groups[g]; p->name; p++) {
			if (p->when != ALWAYS)
				continue;
			printf("%-18s ", p->name);
			fflush(stdout);
			pid_t pid = fork();
			int st = 2 << 8;
			if (pid == 0)
				exit(run_one(p, 0, NULL));
			if (pid < 0 || waitpid(pid, &st, 0) != pid)
				unusable("fork: %s", why());
			int code = WIFEXITED(st) ? WEXITSTATUS(st) : 2;
			if (WIFSIGNALED(st))
				unusable("died of signal %d", WTERMSIG(st));
			if (code == 1 || (code && !worst))
				worst = code;
		}
	}
	return worst;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return unusable("usage: probe NAME [ARGS] | list | all");
	if (!strcmp(argv[1], "list"))
		return list();
	if (!strcmp(argv[1], "all"))
		return all();
	for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
		for (const struct probe *p = groups[g]; p->name; p++)
			if (!strcmp(p->name, argv[1]))
				return run_one(p, argc - 2, argv + 2);
	return unusable("no check named \"%s\"", argv[1]);
}
