/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/options.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/layers.h"
#include "egress/allow.h"
#include "policy/toolchain.h"

#define BACKEND_WORDS "native|landlock|bwrap|docker|wrapper|seatbelt|none"

const struct opt_def opt_table[OPT__COUNT] = {
	[OPT_BACKEND] = { .name = "backend", .metavar = "B", .kind = OK_CHOICE,
		.key = "mode", .def = "native", .words = BACKEND_WORDS,
		.help = "what makes the sandbox (alias: --sandbox); none: no sandbox at all" },
	[OPT_FALLBACK] = { .name = "fallback", .metavar = "B,...", .kind = OK_WORDS,
		.key = "fallback", .tight = TIGHT_SUBSET, .example = "[landlock]",
		.help = "backends to try when the first cannot run here; none unless listed" },
	[OPT_REQUIRE] = { .name = "require", .metavar = "L,...", .kind = OK_WORDS,
		.key = "require", .merge = MERGE_ADD, .tight = TIGHT_MORE,
		.example = "[user, mount, pid, net, seccomp, caps]",
		.help = "layers that must hold or nothing runs" },

	[OPT_WORKSPACE] = { .name = "workspace", .metavar = "DIR", .kind = OK_TEXT,
		.key = "workspace.path", .flags = OPTF_PATH, .tight = TIGHT_SUBSET,
		.example = "~/project",
		.help = "the one writable tree; default: the current directory" },
	[OPT_ROOT] = { .kind = OK_TEXT, .metavar = "DIR", .key = "workspace.root",
		.flags = OPTF_PATH, .example = "~/.brig/workspaces",
		.help = "every workspace must lie below this directory" },
	[OPT_AT] = { .name = "at", .metavar = "PATH|same", .kind = OK_TEXT,
		.key = "workspace.at", .def = "same",
		.help = "where the workspace appears inside" },
	[OPT_ACCESS] = { .name = "access", .metavar = "ro|rw", .kind = OK_CHOICE,
		.key = "workspace.access", .def = "rw", .words = "ro|rw",
		.tight = TIGHT_FIRST,
		.help = "the workspace read-only or read-write" },
	[OPT_CWD] = { .name = "cwd", .metavar = "DIR", .kind = OK_TEXT,
		.help = "working directory; must lie inside the workspace" },
	[OPT_PROTECT] = { .name = "protect", .metavar = "PATH|none", .kind = OK_LIST,
		.key = "workspace.protect", .merge = MERGE_ADD, .tight = TIGHT_MORE,
		.example = "[Makefile]",
		.help = "one more protected path in the workspace; 'none' drops the list so far" },
	[OPT_ALLOW_HOME] = { .name = "allow-home", .kind = OK_FLAG,
		.key = "workspace.allow_home", .words = "false|true", .tight = TIGHT_FIRST,
		.help = "let the workspace be the home directory itself" },

	[OPT_RO] = { .name = "ro", .metavar = "SRC[:DST]", .kind = OK_LIST,
		.key = "filesystem.read", .flags = OPTF_BIND, .tight = TIGHT_SUBSET,
		.example = "[/opt/tools]",
		.help = "show a file or tree read-only; repeatable" },
	[OPT_RW] = { .name = "rw", .metavar = "SRC[:DST]", .kind = OK_LIST,
		.key = "filesystem.write", .flags = OPTF_BIND, .tight = TIGHT_SUBSET,
		.example = "[/srv/shared]",
		.help = "show a file or tree writable; repeatable" },
	[OPT_MASK] = { .name = "mask", .metavar = "PATH", .kind = OK_LIST,
		.key = "filesystem.mask", .flags = OPTF_PATH, .merge = MERGE_ADD,
		.tight = TIGHT_MORE, .example = "[/usr/share/secrets]",
		.help = "hide what is at this path inside; repeatable" },
	[OPT_TMP_SIZE] = { .name = "tmp-size", .metavar = "SIZE", .kind = OK_SIZE,
		.key = "filesystem.tmp_size", .def = "256M", .least = "64K",
		.tight = TIGHT_LESS,
		.help = "size of /tmp, /dev/shm and HOME together" },

	[OPT_NET] = { .name = "net", .metavar = "none|host|allow", .kind = OK_CHOICE,
		.key = "network.mode", .def = "none", .words = "none|allow|host",
		.tight = TIGHT_FIRST,
		.help = "network: none, an allow-list, or the host's own (no isolation)" },
	[OPT_ALLOW] = { .name = "allow", .metavar = "HOST[:PORT]", .kind = OK_LIST,
		.key = "network.allow", .tight = TIGHT_SUBSET,
		.example = "[]", /* one that fits the default mode beside it */
		.help = "a host the command may connect to; repeatable" },
	[OPT_LEARN] = { .name = "learn", .kind = OK_FLAG, .key = "network.learn",
		.def = "false", .words = "false|true", .tight = TIGHT_FIRST,
		.help = "let every public host name through, and print the allow-list that was used" },
	[OPT_PROXY_ENV] = { .name = "proxy-env", .kind = OK_FLAG, .key = "network.proxy_env",
		.def = "false", .words = "false|true", .tight = TIGHT_FIRST,
		.help = "proxies for the allow-list inside, and HTTP_PROXY and the like set for them" },
	[OPT_LOOPBACK] = { .name = "loopback", .metavar = "on|off", .kind = OK_CHOICE,
		.key = "network.loopback", .def = "on", .words = "off|on",
		.tight = TIGHT_FIRST,
		.help = "private loopback interface for the command's own servers" },

	[OPT_ENV] = { .name = "env", .metavar = "NAME[=VALUE]", .kind = OK_PAIRS,
		.key = "env.set", .merge = MERGE_BY_NAME, .example = "{CI: \"1\"}",
		.help = "set a variable, or pass the caller's; repeatable" },
	[OPT_ENV_FD] = { .name = "env-fd", .metavar = "N", .kind = OK_FD,
		.help = "read NAME=VALUE\\0... from a descriptor" },
	[OPT_ENV_PASS] = { .kind = OK_LIST, .metavar = "NAME", .key = "env.pass",
		.def = "LANG,LC_ALL,TERM,TZ", .tight = TIGHT_SUBSET,
		.help = "variables passed on from the caller when they are set" },
	[OPT_PATH_PREPEND] = { .kind = OK_LIST, .metavar = "DIR",
		.key = "env.path_prepend", .flags = OPTF_PATH, .tight = TIGHT_SUBSET,
		.example = "[/opt/tools/bin]",
		.help = "directories put in front of PATH inside" },
	[OPT_TOOLCHAINS] = { .name = "toolchains", .metavar = "NAME,...", .kind = OK_WORDS,
		.key = "toolchains", .def = "auto", .tight = TIGHT_SUBSET,
		.help = "tools of the caller's PATH shown read-only: auto, none, or names" },
	[OPT_CACHES] = { .name = "caches", .metavar = "private|shared", .kind = OK_CHOICE,
		.key = "caches", .def = "private", .words = "private|shared",
		.tight = TIGHT_FIRST,
		.help = "package caches: none of the caller's, or his read-only" },

	[OPT_TIMEOUT] = { .name = "timeout", .metavar = "SECONDS", .kind = OK_MILLI,
		.key = "limits.timeout", .def = "60", .tight = TIGHT_LESS,
		.help = "wall clock for the whole process tree; 0 = none" },
	[OPT_MEMORY] = { .name = "memory", .metavar = "SIZE", .kind = OK_SIZE,
		.key = "limits.memory", .def = "1G", .least = "1M", .tight = TIGHT_LESS,
		.help = "memory of the whole tree; 0 = no limit" },
	[OPT_CPUS] = { .name = "cpus", .metavar = "F", .kind = OK_MILLI,
		.key = "limits.cpus", .def = "1.0", .least = "0.01", .tight = TIGHT_LESS,
		.help = "processors' worth of time; 0 = no limit" },
	[OPT_PIDS] = { .name = "pids", .metavar = "N", .kind = OK_COUNT,
		.key = "limits.pids", .def = "256", .least = "2", .tight = TIGHT_LESS,
		.help = "processes and threads; 0 = no limit" },
	[OPT_FILE_SIZE] = { .name = "file-size", .metavar = "SIZE", .kind = OK_SIZE,
		.key = "limits.file_size", .def = "1G", .tight = TIGHT_LESS,
		.help = "largest file the command may write; 0 = no limit" },
	[OPT_MAX_OUTPUT] = { .name = "max-output", .metavar = "BYTES", .kind = OK_SIZE,
		.key = "limits.output", .def = "1M", .tight = TIGHT_LESS,
		.help = "captured bytes per stream; head and tail are kept" },
	[OPT_DISK] = { .kind = OK_SIZE, .metavar = "SIZE", .key = "limits.disk",
		.tight = TIGHT_LESS, .example = "2G",
		.help = "growth of the workspace; no backend can enforce it yet: refused" },

	[OPT_SECCOMP] = { .name = "seccomp", .metavar = "FILE", .kind = OK_TEXT,
		.key = "seccomp_profile", .flags = OPTF_PATH, .def = "default",
		.help = "system-call profile in Docker's JSON format; 'default' is brig's own" },
	[OPT_IMAGE] = { .name = "image", .metavar = "I", .kind = OK_TEXT, .key = "image",
		.example = "agent-tools:latest",
		.help = "image of the docker backend" },
	[OPT_RUNTIME] = { .name = "runtime", .metavar = "R", .kind = OK_TEXT,
		.key = "runtime", .example = "runsc",
		.help = "runtime of the docker backend: runc, runsc or any registered one" },
	[OPT_READ_ONLY] = { .kind = OK_FLAG, .key = "read_only", .def = "true",
		.words = "true|false", .tight = TIGHT_FIRST,
		.help = "root file system read-only; native and bwrap know nothing else" },
	[OPT_DROP_CAPS] = { .kind = OK_LIST, .metavar = "CAP", .key = "drop_caps",
		.def = "ALL", .merge = MERGE_ADD, .tight = TIGHT_MORE,
		.help = "capabilities taken away; ALL unless add_caps gives one back" },
	[OPT_ADD_CAPS] = { .kind = OK_LIST, .metavar = "CAP", .key = "add_caps",
		.tight = TIGHT_SUBSET, .example = "[]",
		.help = "capabilities given back (docker backend only)" },
	[OPT_DOCKER_SOCKET] = { .name = "docker-socket", .kind = OK_TEXT, .metavar = "PATH", .key = "docker.socket",
		.flags = OPTF_PATH, .example = "/run/user/1000/docker.sock",
		.help = "the engine's unix socket; default: the usual places" },
	[OPT_DOCKER_POOL] = { .name = "pool", .kind = OK_COUNT, .metavar = "N", .key = "docker.pool",
		.def = "0", .help = "containers kept ready per image and policy" },
	[OPT_DOCKER_IDLE] = { .name = "pool-idle", .kind = OK_MILLI, .metavar = "SECONDS", .key = "docker.idle",
		.def = "300", .help = "how long an unused one is kept" },
	[OPT_WRAPPER] = { .name = "wrapper", .metavar = "TEMPLATE", .kind = OK_ARGV,
		.key = "wrapper", .example = "[firejail, --quiet, --, sh, -c, \"{command}\"]",
		.help = "template of the wrapper backend, with {command} and {cwd}" },

	[OPT_CONFIG] = { .name = "config", .metavar = "F", .kind = OK_TEXT,
		.help = "policy file, in place of the user's own" },
	[OPT_PROFILE] = { .name = "profile", .metavar = "NAME", .kind = OK_TEXT,
		.help = "policy profile: strict, default, dev, offline-build, or one of the files'" },
	[OPT_TENANT] = { .name = "tenant", .metavar = "T", .kind = OK_TEXT,
		.help = "policy layer of a tenant" },
	[OPT_TOOL] = { .name = "tool", .metavar = "NAME", .kind = OK_TEXT,
		.help = "policy layer of a tool" },

	[OPT_JSON] = { .name = "json", .kind = OK_FLAG,
		.help = "capture output and print one result object" },
	[OPT_STATUS_FD] = { .name = "status-fd", .metavar = "N", .kind = OK_FD,
		.help = "write the result object to this descriptor" },
	[OPT_PTY] = { .name = "pty", .kind = OK_FLAG,
		.help = "give the command a terminal of its own" },
	[OPT_NAME] = { .name = "name", .metavar = "NAME", .kind = OK_TEXT,
		.help = "a label, which the result object carries" },
	[OPT_HOLD] = { .name = "hold", .kind = OK_LATER,
		.help = "hold back workspace changes" },
};

enum opt opt_by_name(const char *name)
{
	if (streq(name, "sandbox"))
		return OPT_BACKEND;
	for (unsigned i = 0; i < OPT__COUNT; i++)
		if (opt_table[i].name && streq(opt_table[i].name, name))
			return (enum opt)i;
	return OPT__COUNT;
}

enum opt opt_by_key(const char *key)
{
	for (unsigned i = 0; i < OPT__COUNT; i++)
		if (opt_table[i].key && streq(opt_table[i].key, key))
			return (enum opt)i;
	return OPT__COUNT;
}

bool opt_key_covers(const char *key, enum opt o)
{
	const char *own = opt_table[o].key;
	size_t n = strlen(key);

	return own && strncmp(own, key, n) == 0 && (own[n] == '\0' || own[n] == '.');
}

unsigned word_distance(const char *a, const char *b)
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
		if (!opt_table[i].name || opt_table[i].kind == OK_LATER)
			continue;
		unsigned d = word_distance(name, opt_table[i].name);
		if (d < least) {
			least = d;
			best = opt_table[i].name;
		}
	}
	return best;
}

bool word_one_of(const char *words, const char *value)
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

const char *opt_expects(enum opt o)
{
	const struct opt_def *d = &opt_table[o];

	switch (d->kind) {
	case OK_FLAG:
		return "true or false";
	case OK_LIST:
	case OK_WORDS:
		return "a list of words";
	case OK_PAIRS:
		return "a mapping of names to values";
	case OK_ARGV:
		return "a text, or a list of words";
	case OK_SIZE:
		return "a size such as 4096, 512M or 1.5G";
	case OK_COUNT:
		return "a whole number from 0 to 4194304";
	case OK_MILLI:
		return "a decimal number such as 1 or 0.5";
	case OK_FD:
		return "the number of an open descriptor";
	case OK_CHOICE:
		return d->words;
	default:
		return "a text";
	}
}

static int bad(struct brig_error *err, const char *label, const char *value,
	       const char *what)
{
	char shown[80];

	str_clean(value, shown, sizeof shown);
	return err_set(err, BRIG_E_BAD_VALUE, 0, "options", "%s: '%s' %s", label,
		       shown, what);
}

int opt_number(enum opt o, const char *value, uint64_t *n)
{
	switch (opt_table[o].kind) {
	case OK_SIZE:
		return parse_size(value, n);
	case OK_COUNT:
		return parse_uint(value, 4194304, n);
	case OK_MILLI:
		return parse_milli(value, 1000ull * 1000 * 1000 * 10, n);
	default:
		return parse_uint(value, 1 << 20, n);
	}
}

static int check_number(enum opt o, const char *label, const char *value,
			struct brig_error *err)
{
	const struct opt_def *d = &opt_table[o];
	uint64_t n, least = 0;
	int r = opt_number(o, value, &n);

	if (r < 0) {
		r = bad(err, label, value, r == -ERANGE ? "is too large" :
							  "is not a valid value");
		err_fix(err, "give %s", opt_expects(o));
		return r;
	}
	if (!d->least)
		return 0;
	opt_number(o, d->least, &least);
	/* 0 means "no limit" where there can be none */
	bool zero_ok = d->tight == TIGHT_LESS && o != OPT_TMP_SIZE;
	if (n >= least || (n == 0 && zero_ok))
		return 0;
	/* below this nothing starts, and the failure would look like a crash */
	r = bad(err, label, value, "is too small");
	err_fix(err, "give at least %s%s", d->least, zero_ok ? ", or 0 for no limit" : "");
	return r;
}

static int check_layer(const char *label, const char *value, struct brig_error *err)
{
	if (layer_by_name(value, strlen(value)) != LAYER__COUNT)
		return 0;
	int r = bad(err, label, value, "is not a layer");
	err_fix(err, "layers are user, mount, pid, net, ipc, uts, cgroup, caps, "
		     "no_new_privs, seccomp, landlock, memory, pids, cpu, net-names");
	return r;
}

static int check_fallback(const char *label, const char *value,
			  struct brig_error *err)
{
	if (word_one_of(BACKEND_WORDS, value) && !streq(value, "none"))
		return 0;
	/* "run it without a sandbox if all else fails" is not a policy */
	int r = bad(err, label, value, streq(value, "none") ?
		    "is never a fallback" : "is not a backend");
	err_fix(err, "list backends that confine: native, landlock, bwrap, docker, "
		     "wrapper, seatbelt");
	return r;
}

static int check_toolchain(const char *label, const char *value,
			   struct brig_error *err)
{
	unsigned bits;

	if (toolchain_parse(value, &bits))
		return 0;
	int r = bad(err, label, value, "is not a toolchain");
	err_fix(err, "there are %s", toolchain_words());
	return r;
}

static int check_cap(const char *label, const char *value, struct brig_error *err)
{
	const char *p = strncmp(value, "CAP_", 4) == 0 ? value + 4 : value;
	size_t n = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

	if (n > 2 && !p[n])
		return 0;
	int r = bad(err, label, value, "is not a capability");
	err_fix(err, "write it as NET_BIND_SERVICE or ALL");
	return r;
}

/* "FOO=bar" in a list of names would pass nothing on, without a word. */
static int check_variable(const char *label, const char *value,
			  struct brig_error *err)
{
	for (const char *p = value; *p; p++) {
		if ((unsigned char)*p > ' ' && *p != '=' && *p != 0x7f)
			continue;
		int r = err_set(err, BRIG_E_BAD_VALUE, 0, "options",
				"%s: not the name of a variable", label);
		err_fix(err, "list names; values go to env.set");
		return r;
	}
	return 0;
}

static int check_item(enum opt o, const char *label, const char *value,
		      struct brig_error *err)
{
	char why[120];

	if (!*value) {
		const char *meta = opt_table[o].metavar;
		err_set(err, BRIG_E_BAD_VALUE, 0, "options", "%s: an empty value", label);
		err_fix(err, "give %s", meta ? meta : "a value");
		return -EINVAL;
	}
	switch (o) {
	case OPT_REQUIRE:
		return check_layer(label, value, err);
	case OPT_FALLBACK:
		return check_fallback(label, value, err);
	case OPT_TOOLCHAINS:
		return check_toolchain(label, value, err);
	case OPT_DROP_CAPS:
	case OPT_ADD_CAPS:
		return check_cap(label, value, err);
	case OPT_ENV_PASS:
		return check_variable(label, value, err);
	case OPT_ALLOW:
		if (allow_check(value, why, sizeof why) == 0)
			return 0;
		bad(err, label, value, why);
		err_fix(err, "write HOST[:PORT[,PORT...]], *.example.com:443, or an "
			     "address as ADDRESS[/BITS][:PORT]");
		return -EINVAL;
	default:
		return 0;
	}
}

int opt_check(enum opt o, const char *label, const char *value,
	      struct brig_error *err)
{
	const struct opt_def *d = &opt_table[o];
	char what[120];
	int r;

	switch (d->kind) {
	case OK_LATER:
		err_set(err, BRIG_E_UNSUPPORTED, 0, "options",
			"%s (%s) is not available in this version", label, d->help);
		err_fix(err, "leave %s out", label);
		return -EOPNOTSUPP;
	case OK_FLAG:
		if (streq(value, "true") || streq(value, "false"))
			return 0;
		r = bad(err, label, value, "is not a value for a switch");
		err_fix(err, "set it to true or false");
		return r;
	case OK_SIZE:
	case OK_COUNT:
	case OK_MILLI:
	case OK_FD:
		return check_number(o, label, value, err);
	case OK_CHOICE:
		if (word_one_of(d->words, value))
			return 0;
		snprintf(what, sizeof what, "is not one of %s", d->words);
		r = bad(err, label, value, what);
		err_fix(err, "choose one of %s", d->words);
		return r;
	default:
		return check_item(o, label, value, err);
	}
}
