/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe: a static program that run tests execute inside a sandbox.  One
 * invocation, one check, one line.  0 means containment held, 1 that it did
 * not, 2 that the check could not be made (never a pass).
 */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>

enum probe_when {
	BY_NAME, /* needs arguments, or disturbs what is around it */
	ALWAYS,  /* `probe all` includes it */
};

struct probe {
	const char *name, *args, *what;
	enum probe_when when;
	/* refuses to run outside a sandbox: would do harm if nothing stopped it */
	bool dangerous;
	int min_args;
	int (*run)(int argc, char **argv);
};

/* Each ends with an entry without a name. */
extern const struct probe probes_files[];
extern const struct probe probes_proc[];
extern const struct probe probes_process[];
extern const struct probe probes_calls[];
extern const struct probe probes_net[];
extern const struct probe probes_resources[];

/* Print the one line and return what main exits with. */
int held(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int escaped(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int unusable(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "EPERM (Operation not permitted)" of the present errno. */
const char *why(void);

/* A number argument, or fallback when absent; exits 2 when malformed. */
long number(int argc, char **argv, int at, long fallback);

#endif
