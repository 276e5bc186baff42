/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/layers.h"

#define LATER(n, m, h) { .name = (n), .metavar = (m), .kind = OK_LATER, .help = (h) }

const struct opt_def opt_table[OPT__COUNT] = {
	[OPT_WORKSPACE] = { "workspace", "DIR", OK_TEXT, "workspace.root", NULL, NULL,
		"the one writable tree; default: the current directory" },
	[OPT_AT] = { "at", "PATH|same", OK_TEXT, "workspace.at", "same", NULL,
		"where the workspace appears inside" },
	[OPT_CWD] = { "cwd", "DIR", OK_TEXT, NULL, NULL, NULL,
		"working directory; must lie inside the workspace" },
	[OPT_RO] = { "ro", "SRC[:DST]", OK_LIST, "filesystem.read", NULL, NULL,
		"show a file or tree read-only; repeatable" },
	[OPT_RW] = { "rw", "SRC[:DST]", OK_LIST, "filesystem.write", NULL, NULL,
		"show a file or tree writable; repeatable" },
	[OPT_MASK] = { "mask", "PATH", OK_LIST, "filesystem.mask", NULL, NULL,
		"hide what is at this path inside; repeatable" },
	[OPT_PROTECT] = { "protect", "PATH|none", OK_LIST, "workspace.protect", NULL, NULL,
		"one more protected path in the workspace; 'none' drops the list so far" },
	[OPT_ALLOW_HOME] = { "allow-home", NULL, OK_FLAG, "workspace.allow_home", NULL, NULL,
		"let the workspace be the home directory itself" },
	[OPT_NET] = { "net", "none|host|allow", OK_CHOICE, "network.mode", "none", "none|host|allow",
		"network: none, or the host's own (no isolation)" },
	[OPT_LOOPBACK] = { "loopback", "on|off", OK_CHOICE, "network.loopback", "on", "on|off",
		"private loopback interface for the command's own servers" },
	[OPT_ENV] = { "env", "NAME[=VALUE]", OK_LIST, "env.set", NULL, NULL,
		"set a variable, or pass the caller's; repeatable" },
	[OPT_ENV_FD] = { "env-fd", "N", OK_FD, NULL, NULL, NULL,
		"read NAME=VALUE\\0... from a descriptor" },
	[OPT_TIMEOUT] = { "timeout", "SECONDS", OK_MILLI, "limits.timeout", "60", NULL,
		"wall clock for the whole process tree; 0 = none" },
	[OPT_MEMORY] = { "memory", "SIZE", OK_SIZE, "limits.memory", "1G", NULL,
		"memory of the whole tree; 0 = no limit" },
	[OPT_CPUS] = { "cpus", "F", OK_MILLI, "limits.cpus", "1.0", NULL,
		"processors' worth of time; 0 = no limit" },
	[OPT_PIDS] = { "pids", "N", OK_COUNT, "limits.pids", "256", NULL,
		"processes and threads; 0 = no limit" },
	[OPT_TMP_SIZE] = { "tmp-size", "SIZE", OK_SIZE, "filesystem.tmp_size", "256M", NULL,
		"size of /tmp, /dev/shm and HOME together" },
	[OPT_FILE_SIZE] = { "file-size", "SIZE", OK_SIZE, "limits.file_size", "1G", NULL,
		"largest file the command may write; 0 = no limit" },
	[OPT_MAX_OUTPUT] = { "max-output", "BYTES", OK_SIZE, "limits.output", "1M", NULL,
		"captured bytes per stream; head and tail are kept" },
	[OPT_BACKEND] = { "backend", "B", OK_CHOICE, "mode", "native",
		"native|landlock|bwrap|docker|wrapper|seatbelt",
		"what makes the sandbox (alias: --sandbox)" },
	[OPT_REQUIRE] = { "require", "L,...", OK_LAYERS, "require", NULL, NULL,
		"layers that must hold or nothing runs" },
	[OPT_SECCOMP] = { "seccomp", "FILE", OK_TEXT, "seccomp_profile", NULL, NULL,
		"system-call profile in Docker's JSON format" },
	[OPT_JSON] = { "json", NULL, OK_FLAG, NULL, NULL, NULL,
		"capture output and print one result object" },
	[OPT_STATUS_FD] = { "status-fd", "N", OK_FD, NULL, NULL, NULL,
		"write the result object to this descriptor" },
	[OPT_PTY] = { "pty", NULL, OK_FLAG, NULL, NULL, NULL,
		"give the command a terminal of its own" },
	[OPT_NAME] = { "name", "NAME", OK_TEXT, NULL, NULL, NULL,
		"label for ps, logs and audit" },
	[OPT_IMAGE] = { "image", "I", OK_TEXT, "image", NULL, NULL,
		"docker backend: the image, which must be on this machine" },
	[OPT_RUNTIME] = { "runtime", "R", OK_TEXT, "runtime", NULL, NULL,
		"docker backend: runc, runsc or any that the engine has" },
	[OPT_DOCKER_SOCKET] = { "docker-socket", "PATH", OK_TEXT, "docker.socket", NULL, NULL,
		"docker backend: the engine's socket" },
	[OPT_POOL] = { "pool", "N", OK_COUNT, "docker.pool", "0", NULL,
		"docker backend: containers kept waiting for the next calls" },
	[OPT_POOL_IDLE] = { "pool-idle", "SECONDS", OK_MILLI, "docker.pool_idle", "300", NULL,
		"docker backend: how long they wait when nobody calls" },
	[OPT_HOLD] = LATER("hold", NULL, "hold back workspace changes"),
	[OPT_ALLOW] = LATER("allow", "HOST[:PORT]", "network allow-list"),
	[OPT_TENANT] = LATER("tenant", "T", "policy layer of a tenant"),
	[OPT_TOOL] = LATER("tool", "NAME", "policy layer of a tool"),
	[OPT_CONFIG] = LATER("config", "F", "policy file"),
	[OPT_PROFILE] = LATER("profile", "NAME", "policy profile"),
};

enum opt opt_by_name(const char *name)
{
	if (streq(name, "sandbox"))
		return OPT_BACKEND;
	for (unsigned i = 0; i < OPT__COUNT; i++)
		if (streq(opt_table[i].name, name))
			return (enum opt)i;
	return OPT__COUNT;
}

/* Edit distance, small inputs only (names are under 32 bytes). */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[33];
	size_t lb = strlen(b);

	if (lb > 32 || strlen(a) > 32)
		return 99;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diag = row[0];
		row[0] = i;
		for (unsigned j = 1; j <= lb; j++) {
			unsigned up = row[j];
			unsigned best = diag + (a[i - 1] != b[j - 1]);
			if (up + 1 < best)
				best = up + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
			diag = up;
		}
	}
	return row[lb];
}

const char *opt_suggest(const char *name)
{
	const char *best = NULL;
	unsigned least = 3; /* further away than two edits is a guess */

	for (unsigned i = 0; i < OPT__COUNT; i++) {
		unsigned d = distance(name, opt_table[i].name);
		if (d < least && opt_table[i].kind != OK_LATER) {
			least = d;
			best = opt_table[i].name;
		}
	}
	return best;
}

static bool one_of(const char *words, const char *value)
{
	size_t n = strlen(value);

	if (strchr(value, '|'))
		return false; /* two words at once are not one of them */
	for (const char *w = words; w; w = strchr(w, '|')) {
		if (*w == '|')
			w++;
		if (strncmp(w, value, n) == 0 && (w[n] == '|' || w[n] == '\0'))
			return n > 0;
	}
	return false;
}

static int check_layers(const char *value, struct brig_error *err)
{
	const char *p = value;

	for (;;) {
		size_t n = strcspn(p, ",");
		if (layer_by_name(p, n) == LAYER__COUNT) {
			err_set(err, BRIG_E_BAD_VALUE, 0, "options",
				"--require: '%.*s' is not a layer",
				(int)(n > 40 ? 40 : n), p);
			err_fix(err, "layers are user, mount, pid, net, ipc, uts, "
				     "cgroup, caps, no_new_privs, seccomp, "
				     "landlock, memory, pids, cpu");
			return -EINVAL;
		}
		if (!p[n])
			return 0;
		p += n + 1;
	}
}

/* What each kind of number looks like, for the fix line. */
static int check_number(const struct opt_def *d, const char *value,
			struct brig_error *err)
{
	uint64_t n;
	int r;
	const char *form;

	switch (d->kind) {
	case OK_SIZE:
		r = parse_size(value, &n);
		form = "a size such as 4096, 512M or 1.5G";
		break;
	case OK_COUNT:
		r = parse_uint(value, 4194304, &n);
		form = "a whole number from 0 to 4194304";
		break;
	case OK_MILLI:
		r = parse_milli(value, 1000ull * 1000 * 1000 * 10, &n);
		form = "a decimal number such as 1 or 0.5";
		break;
	default:
		r = parse_uint(value, 1 << 20, &n);
		form = "the number of an open descriptor";
		break;
	}
	if (r == 0)
		return 0;
	err_set(err, BRIG_E_BAD_VALUE, 0, "options", "--%s: '%.60s' is %s",
		d->name, value, r == -ERANGE ? "too large" : "not a valid value");
	err_fix(err, "give %s", form);
	return -EINVAL;
}

int request_set(struct brig_spec *rq, enum opt o, const char *value,
		const char *origin, struct brig_error *err)
{
	const struct opt_def *d = &opt_table[o];
	struct req_value *rv = &rq->o[o];
	int r = 0;

	switch (d->kind) {
	case OK_LATER:
		err_set(err, BRIG_E_UNSUPPORTED, 0, "options",
			"--%s (%s) is not available in this version", d->name,
			d->help);
		err_fix(err, "leave --%s out", d->name);
		return -EOPNOTSUPP;
	case OK_FLAG:
		/* from the API: "false" must not switch it on */
		if (*value && !streq(value, "true")) {
			r = err_set(err, BRIG_E_BAD_VALUE, 0, "options",
				    "--%s: '%.60s' is not a value for a switch", d->name,
				    value);
			err_fix(err, "set it to \"true\", or do not set it");
		}
		value = "";
		break;
	case OK_SIZE:
	case OK_COUNT:
	case OK_MILLI:
	case OK_FD:
		r = check_number(d, value, err);
		break;
	case OK_CHOICE:
		if (!one_of(d->words, value)) {
			r = err_set(err, BRIG_E_BAD_VALUE, 0, "options",
				    "--%s: '%.60s' is not one of %s", d->name,
				    value, d->words);
			err_fix(err, "choose one of %s", d->words);
		}
		break;
	case OK_LAYERS:
		r = check_layers(value, err);
		break;
	case OK_TEXT:
	case OK_LIST:
		if (!*value) {
			r = err_set(err, BRIG_E_BAD_VALUE, 0, "options",
				    "--%s: an empty value", d->name);
			err_fix(err, "give --%s %s", d->name, d->metavar);
		}
		break;
	}
	if (r < 0)
		return r;
	if (d->kind != OK_LIST) {
		strv_free(rv->v);
		rv->v = NULL;
	}
	rv->origin = origin;
	if (strv_add(&rv->v, value) < 0)
		return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "options",
			       "--%s", d->name);
	return 0;
}

const char *request_text(const struct brig_spec *rq, enum opt o)
{
	return rq->o[o].v ? rq->o[o].v[0] : opt_table[o].def;
}

bool request_has(const struct brig_spec *rq, enum opt o)
{
	return rq->o[o].v != NULL;
}

struct brig_spec *brig_spec_new(void)
{
	return calloc(1, sizeof(struct brig_spec));
}

void brig_spec_free(struct brig_spec *rq)
{
	if (!rq)
		return;
	for (unsigned i = 0; i < OPT__COUNT; i++)
		strv_free(rq->o[i].v);
	strv_free(rq->argv);
	free(rq);
}

int brig_spec_set(struct brig_spec *rq, const char *key, const char *value,
		  struct brig_error *err)
{
	enum opt o = opt_by_name(key);

	if (o == OPT__COUNT)
		return err_set(err, BRIG_E_BAD_OPTION, 0, "options",
			       "'%.60s' is not a setting", key);
	return request_set(rq, o, value ? value : "", "api", err);
}

int brig_spec_set_argv(struct brig_spec *rq, const char *const *argv,
		       struct brig_error *err)
{
	strv_free(rq->argv);
	rq->argv = NULL;
	for (size_t i = 0; argv[i]; i++)
		if (strv_add(&rq->argv, argv[i]) < 0)
			return err_set(err, BRIG_E_NO_MEMORY, ENOMEM, "options",
				       "the command");
	return 0;
}
