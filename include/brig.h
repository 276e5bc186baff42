/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brig.h: the public C API of libbrig.
 *
 * A spec goes in, a result comes out.  Both are opaque; they grow without
 * breaking callers.  The library never prints and never exits.  A function
 * that can fail returns a negative errno and fills *err, which the caller
 * owns and may leave NULL where it does not care why.
 */
#ifndef BRIG_H
#define BRIG_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRIG_API_VERSION 1

/*
 * The closed set of error codes.  The names are part of the contract (they
 * appear in the result object and in JSON-RPC errors); docs/errors.md
 * documents each one and a unit test keeps the two in step.
 */
#define BRIG_ERROR_CODES(X)                                                    \
	X(OK, "no error")                                                      \
	X(BAD_OPTION, "the command line or a setting is wrong")                \
	X(BAD_VALUE, "a value is out of range or malformed")                   \
	X(BAD_WORKSPACE, "the workspace cannot be used")                       \
	X(BAD_CWD, "the working directory lies outside the workspace")         \
	X(BAD_MOUNT, "a bind source or target cannot be used")                 \
	X(BAD_FD, "a descriptor that was named is not open")                   \
	X(BAD_CONFIG, "a configuration file is wrong")                         \
	X(UNTRUSTED_CONFIG, "somebody else can write a configuration file")    \
	X(LOCKED, "a setting is looser than the operator allows")              \
	X(BAD_SECCOMP_PROFILE, "the system-call profile cannot be used")       \
	X(UNSUPPORTED, "this build or backend does not offer that")            \
	X(KERNEL_TOO_OLD, "the kernel lacks what brig needs")                  \
	X(USERNS_DENIED, "a user namespace could not be made")                 \
	X(NAMESPACE_DENIED, "another namespace could not be made")             \
	X(IDMAP_DENIED, "ids could not be mapped")                             \
	X(MOUNT_FAILED, "the root tree could not be built")                    \
	X(PROC_DENIED, "a fresh /proc could not be mounted")                   \
	X(SECCOMP_FAILED, "the system-call filter could not be loaded")        \
	X(LANDLOCK_UNAVAILABLE, "Landlock is not available")                   \
	X(CAPS_FAILED, "capabilities could not be dropped")                    \
	X(LIMIT_UNENFORCEABLE, "a limit that was asked for cannot be enforced") \
	X(CGROUP_FAILED, "the control group could not be set up")              \
	X(REQUIRE_UNMET, "a required layer has no evidence")                   \
	X(SOURCE_CHANGED, "a path changed while the sandbox was being built")  \
	X(EXEC_FAILED, "the command could not be executed inside")             \
	X(NOT_FOUND, "the command was not found inside")                       \
	X(SETUP_FAILED, "a step of the set-up failed")                         \
	X(NO_MEMORY, "brig itself ran out of memory or descriptors")           \
	X(IO_FAILED, "brig's own input or output failed")                      \
	X(INTERNAL, "a bug in brig")

enum brig_code {
#define X(name, text) BRIG_E_##name,
	BRIG_ERROR_CODES(X)
#undef X
	BRIG_E__COUNT
};

/* Why something failed, for a program (code, phase) and a person (the rest). */
struct brig_error {
	enum brig_code code;
	int errnum;        /* positive errno behind it, or 0 */
	char phase[24];    /* where: "options", "policy", "clone", "mount", … */
	char message[512]; /* what went wrong, one line, no newline */
	char fix[512];     /* what to do about it, one line, may be empty */
};

/* The name of a code as it appears in JSON, e.g. "USERNS_DENIED". */
const char *brig_code_name(enum brig_code code);

struct brig_spec;
struct brig_result;

/* "0.1.0" and so on. */
const char *brig_version(void);

/* A spec with the built-in defaults; NULL when out of memory. */
struct brig_spec *brig_spec_new(void);
void brig_spec_free(struct brig_spec *spec);

/*
 * Sets one value by the name its command-line option has ("workspace",
 * "memory", "net", …) or by its key in a configuration file
 * ("limits.memory"), from text.  List values ("ro", "env", "require") are
 * appended to.  The text is copied.
 */
int brig_spec_set(struct brig_spec *spec, const char *key, const char *value,
		  struct brig_error *err);

/* The command: a NULL-terminated vector, copied. */
int brig_spec_set_argv(struct brig_spec *spec, const char *const *argv,
		       struct brig_error *err);

/*
 * Runs the command in a fresh sandbox and waits for it.  The configuration
 * files of this machine and user apply as they do to `brig run`.  Returns 0 when a
 * result exists, which includes "refused": look at the result.  *result is
 * the caller's to free.  A negative return means not even a result could
 * be made (no memory).  stdio is the caller's own unless "json" is set, in
 * which case standard output and standard error are captured.
 */
int brig_run(const struct brig_spec *spec, struct brig_result **result,
	     struct brig_error *err);

/* A result that says "refused" for a reason found before brig_run() could be
 * called (a value that brig_spec_set() did not take, say).  NULL: no memory. */
struct brig_result *brig_result_refused(const struct brig_error *why);

/* Calls back for every denial that concerns the workspace itself (a protected
 * path that was created or replaced): target, and what was done about it. */
void brig_result_warn(const struct brig_result *result,
		      void (*warn)(void *arg, const char *target, const char *text),
		      void *arg);

/* The exit code `brig run` would end with (see the exit code table). */
int brig_result_exit_code(const struct brig_result *result);

/* The v1 result object as JSON text; *len excludes the final NUL.  The
 * caller frees it.  NULL when out of memory. */
char *brig_result_json(const struct brig_result *result, size_t *len);

/* The resolved policy and plan as JSON text; runs nothing. */
char *brig_explain_json(const struct brig_spec *spec, size_t *len,
			struct brig_error *err);

void brig_result_free(struct brig_result *result);

#ifdef __cplusplus
}
#endif
#endif
