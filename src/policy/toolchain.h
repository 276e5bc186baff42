/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Toolchain presets: what the caller's PATH resolves to works inside, read-only,
 * without showing the rest of HOME.  Detection only looks: it creates nothing,
 * runs nothing and never waits.
 */
#ifndef POLICY_TOOLCHAIN_H
#define POLICY_TOOLCHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "brig.h"
#include "policy/credentials.h"

#define TOOLCHAIN_PRESETS(X) \
	X(NVM, "nvm", "the node version of nvm that is on PATH") \
	X(FNM, "fnm", "the node version of fnm that is on PATH") \
	X(VOLTA, "volta", "volta's shims and the tools behind them") \
	X(PYENV, "pyenv", "pyenv's shims and versions, or the version on PATH") \
	X(UV, "uv", "uv with the Pythons and tools it manages") \
	X(VENV, "venv", "virtual environments and the Python they are based on") \
	X(CONDA, "conda", "the conda installation or environment on PATH") \
	X(RUST, "rust", "cargo's programs and rustup's toolchains") \
	X(GO, "go", "the Go installation on PATH and GOPATH/bin") \
	X(SDKMAN, "sdkman", "the candidates of SDKMAN! on PATH") \
	X(BUN, "bun", "bun and its global packages") \
	X(DENO, "deno", "deno and its installed programs") \
	X(LOCAL, "local", "~/.local/bin, what its links lead to, pip --user") \
	X(GIT, "git", "user.name, user.email and safe.directory") \
	X(SSH, "ssh", "known_hosts") \
	X(PATH, "path", "any other directory on PATH")

enum toolchain_preset {
#define X(sym, name, text) TOOLCHAIN_##sym,
	TOOLCHAIN_PRESETS(X)
#undef X
	TOOLCHAIN__COUNT
};
#define TOOLCHAIN_BIT(p) (1u << (p))
#define TOOLCHAIN_AUTO ((1u << TOOLCHAIN__COUNT) - 1)

/* One word of the option ("nvm", an alias such as "cargo", "auto", "none") as
 * bits.  False, with *bits untouched, when it is none of them. */
bool toolchain_parse(const char *word, unsigned *bits);
/* All words, for an error's fix line: "auto, none, nvm, …".  Static text. */
const char *toolchain_words(void);
/* Name and one line about a preset; NULL when there is no such preset. */
const char *toolchain_name(unsigned preset);
const char *toolchain_about(unsigned preset);

/* A read-only bind. */
struct toolchain_mount {
	char *src;          /* canonical path on the host; no component is a link */
	char *dst;          /* normalised path inside */
	const char *preset; /* its name; static text */
	bool optional;      /* nothing depends on it: skip it if it is gone by now */
	int fd;             /* O_PATH, of src, and what it is; -1: not looked at itself */
	struct stat st;
};

struct toolchain {
	/* Sorted, parents first; none lies in another, in the workspace or in a
	 * tree that is shown already, and no two have one dst. */
	struct toolchain_mount *mounts;
	size_t n_mounts;
	/* PATH inside, in the caller's order.  System directories stay where they
	 * come before one that is not; those after the last are left out, the
	 * caller appends the system's PATH anyway.  NULL when there is none. */
	char **path;
	char **env;      /* NAME=VALUE; values name only what can be seen inside */
	char *gitconfig; /* text for a system-wide gitconfig inside, or NULL */
	char *hooks;     /* toolchain_hooks(), where the preset git is wanted */
	char **notes;    /* what was found and what was left out, printable */
};

struct toolchain_input {
	const char *home;        /* the caller's HOME, normalised, or NULL */
	const char *home_real;   /* and canonical, or NULL */
	const char *home_inside; /* HOME inside, normalised, or NULL */
	const char *path;        /* the caller's PATH, or NULL */
	const char *workspace_src; /* canonical */
	const char *workspace_dst;
	int workspace_fd;          /* a descriptor of it */
	const struct credentials_shown *shown; /* other trees the caller shows */
	size_t n_shown;
	unsigned presets;        /* TOOLCHAIN_BIT set */
	bool share_caches;       /* package caches, read-only, too */
	const char *(*env)(const char *name); /* getenv */
};

/*
 * Fills *out, which is freed with toolchain_free() also after a failure.
 * Whatever is wrong with a toolchain becomes a note, not an error: -errno with
 * err is for memory only.
 */
int toolchain_detect(const struct toolchain_input *in, struct toolchain *out,
		     struct brig_error *err);
void toolchain_free(struct toolchain *t);

/* core.hooksPath of the caller's own git configuration, as it stands there: git executes what it
 * finds in that place; in every work tree, where it is relative.  Fresh memory, NULL when there
 * is none. */
char *toolchain_hooks(const struct toolchain_input *in);

#endif
