/* SPDX-License-Identifier: Apache-2.0 */
/* What the root tree holds besides the caller's own binds: tables. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "confine/netns_allow.h"
#include "plan/plan_internal.h"

/*
 * Top-level names of the system.  On merged-/usr systems all but /usr are
 * links, which are copied; elsewhere they are trees, which are bound.
 */
static const char *const system_names[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/nix/store", /* systems whose /usr is nearly empty */
};

void plan_system(struct planner *pl)
{
	for (size_t i = 0; i < ARRAY_LEN(system_names); i++) {
		const char *name = system_names[i];
		big_buffer char target[PATH_MAX];
		struct stat st;

		ssize_t n = readlink(name, target, sizeof target - 1);
		if (n < 0 && errno == EINVAL && stat(name, &st) == 0 &&
		    S_ISDIR(st.st_mode)) {
			plan_bind(pl, name, name, OPF_RO | OPF_DIR);
		} else if (n > 0) {
			target[n] = '\0';
			struct plan_op *op = plan_add(pl, OP_SYMLINK, name, 0);
			if (op && !(op->text = strdup(target)))
				pl->failed = true;
		}
	}
}

/*
 * The files of /etc that programs read and that hold nothing of this machine's
 * secrets.  passwd, group, hosts and the like are written by brig instead: the
 * real ones name people and other machines.
 */
static const char *const etc_shared[] = {
	"/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs",
	"/etc/ssl/openssl.cnf", "/etc/pki", "/etc/crypto-policies", "/etc/localtime",
	"/etc/os-release", "/etc/services", "/etc/protocols", "/etc/fonts",
	"/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk",
};
/* Only of use with a network. */
static const char *const etc_network[] = { "/etc/resolv.conf", "/etc/gai.conf" };

static void etc_one(struct planner *pl, const char *path)
{
	big_buffer char target[PATH_MAX];
	struct stat st;

	if (lstat(path, &st) < 0)
		return;
	if (!S_ISLNK(st.st_mode)) {
		plan_bind(pl, path, path,
			  OPF_RO | OPF_NOEXEC | (S_ISDIR(st.st_mode) ? OPF_DIR : 0));
		return;
	}
	/* A link into /usr works inside as it is; what a link elsewhere points
	 * at (resolv.conf into /run) is bound under its own name. */
	ssize_t n = readlink(path, target, sizeof target - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	if (path_is_under(target, "/usr") || path_is_under(target, "../usr")) {
		plan_parents(pl, path);
		struct plan_op *op = plan_add(pl, OP_SYMLINK, path, 0);
		if (op && !(op->text = strdup(target)))
			pl->failed = true;
		return;
	}
	big_buffer char real[PATH_MAX];
	if (realpath(path, real) && stat(real, &st) == 0)
		plan_bind(pl, real, path,
			  OPF_RO | OPF_NOEXEC | (S_ISDIR(st.st_mode) ? OPF_DIR : 0));
}

void plan_etc(struct planner *pl)
{
	const struct spec *s = pl->p->spec;

	plan_file(pl, "/etc/passwd",
		  str_fmt("root:x:0:0:root:/root:/usr/sbin/nologin\n"
			  "sandbox:x:%u:%u:sandbox:%s:/bin/sh\n"
			  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
			  s->in_uid, s->in_gid, s->home), 0444);
	plan_file(pl, "/etc/group",
		  str_fmt("root:x:0:\nsandbox:x:%u:\nnogroup:x:65534:\n",
			  s->in_gid), 0444);
	plan_file(pl, "/etc/hosts",
		  str_fmt("127.0.0.1 localhost %s\n::1 localhost\n",
			  pl->p->hostname), 0444);
	plan_file(pl, "/etc/nsswitch.conf",
		  strdup("passwd: files\ngroup: files\nshadow: files\n"
			 "hosts: files dns\nnetworks: files\nservices: files\n"
			 "protocols: files\n"), 0444);
	if (s->gitconfig)
		plan_file(pl, "/etc/gitconfig", strdup(s->gitconfig), 0444);
	for (size_t i = 0; i < ARRAY_LEN(etc_shared); i++)
		etc_one(pl, etc_shared[i]);
	if (s->net == NET_ALLOW)
		plan_file(pl, "/etc/resolv.conf",
			  strdup("nameserver " ALLOW_DNS_ADDRESS "\n"
				 "options timeout:5 attempts:1\n"), 0444);
	if (s->net == NET_HOST)
		for (size_t i = 0; i < ARRAY_LEN(etc_network); i++)
			etc_one(pl, etc_network[i]);
}

static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full",
				       "/dev/random", "/dev/urandom" };

void plan_dev(struct planner *pl)
{
	static const struct {
		const char *name, *target;
	} links[] = {
		{ "/dev/fd", "/proc/self/fd" },
		{ "/dev/stdin", "/proc/self/fd/0" },
		{ "/dev/stdout", "/proc/self/fd/1" },
		{ "/dev/stderr", "/proc/self/fd/2" },
		{ "/dev/ptmx", "pts/ptmx" },
	};

	plan_add(pl, OP_DIR, "/dev", 0);
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		plan_bind(pl, devices[i], devices[i], OPF_DEVICE | OPF_NOEXEC);
	/* /dev/tty means "my controlling terminal": it exists only when the
	 * command has one that is brig's own. */
	if (pl->p->spec->pty) {
		plan_bind(pl, "/dev/tty", "/dev/tty", OPF_DEVICE | OPF_NOEXEC);
	}
	plan_add(pl, OP_DIR, "/dev/pts", 0);
	plan_add(pl, OP_DEVPTS, "/dev/pts", OPF_DEVICE | OPF_NOEXEC | OPF_DIR);
	/* one rule for all: there is nothing in /dev but what is named here */
	plan_rule(pl, LL_DEVICE, "/dev", true);
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		struct plan_op *op = plan_add(pl, OP_SYMLINK, links[i].name, 0);
		if (op && !(op->text = strdup(links[i].target)))
			pl->failed = true;
	}
}

/*
 * The lists other container runtimes settled on after CVE-2016-9962 and its
 * successors.  The command has no privilege to use these files anyway; this
 * keeps a kernel bug in one of them out of reach (CVE-2025-31133, -52565,
 * -52881 were about masks that could be diverted: here each is mounted by
 * descriptor on a procfs nobody else can see yet).
 */
static const struct {
	const char *path;
	bool dir;
} proc_masked[] = {
	{ "/proc/acpi", true },		 { "/proc/asound", true },
	{ "/proc/interrupts", false },	 { "/proc/kcore", false },
	{ "/proc/keys", false },	 { "/proc/latency_stats", false },
	{ "/proc/sched_debug", false },	 { "/proc/scsi", true },
	{ "/proc/sysrq-trigger", false }, { "/proc/timer_list", false },
	{ "/proc/timer_stats", false },
};
static const char *const proc_read_only[] = {
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
};

void plan_proc(struct planner *pl)
{
	plan_add(pl, OP_DIR, "/proc", 0);
	plan_add(pl, OP_PROC, "/proc", OPF_NOEXEC | OPF_DIR);
	plan_rule(pl, LL_PROC, "/proc", true);
	for (size_t i = 0; i < ARRAY_LEN(proc_masked); i++)
		plan_add(pl, OP_MASK, proc_masked[i].path,
			 OPF_OPTIONAL | (proc_masked[i].dir ? OPF_DIR : 0));
	for (size_t i = 0; i < ARRAY_LEN(proc_read_only); i++)
		plan_add(pl, OP_RO, proc_read_only[i], OPF_OPTIONAL | OPF_DIR);
	plan_add(pl, OP_DIR, "/run", 0);
	plan_add(pl, OP_DIR, "/var", 0);
	plan_add(pl, OP_DIR, "/home", 0);
}
