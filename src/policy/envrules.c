/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/envrules.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"

/*
 * A trailing '*' stands for any rest.  The list is what loaders, shells,
 * interpreters, git and the like run or load before they do what they were told.
 * Inside the sandbox none of them gives more access; but they change what a
 * command does without showing in it, and output that reaches an agent's next
 * decision is worth lying about.
 */
static const struct {
	const char *name, *why;
} injecting[] = {
	{ "LD_*", "the dynamic loader obeys it" },
	{ "DYLD_*", "the dynamic loader obeys it" },
	{ "GCONV_PATH", "the C library loads code from it" },
	{ "GLIBC_TUNABLES", "the C library obeys it" },
	{ "LOCPATH", "the C library reads files from it" },
	{ "NLSPATH", "the C library reads files from it" },
	{ "HOSTALIASES", "the resolver obeys it" },
	{ "RES_OPTIONS", "the resolver obeys it" },
	{ "OPENSSL_CONF", "OpenSSL loads engines from it" },
	{ "OPENSSL_ENGINES", "OpenSSL loads code from it" },
	{ "OPENSSL_MODULES", "OpenSSL loads code from it" },
	{ "BASH_ENV", "bash runs it at start" },
	{ "BASH_FUNC_*", "bash takes functions from it" },
	{ "BASH_XTRACEFD", "bash obeys it" },
	{ "ENV", "sh runs it at start" },
	{ "ZDOTDIR", "zsh runs files from it" },
	{ "SHELLOPTS", "bash obeys it" },
	{ "BASHOPTS", "bash obeys it" },
	{ "PS4", "bash expands it" },
	{ "PROMPT_COMMAND", "bash runs it" },
	{ "IFS", "shells split words by it" },
	{ "CDPATH", "shells change directory by it" },
	{ "PYTHONSTARTUP", "python runs it" },
	{ "PYTHONPATH", "python imports from it" },
	{ "PYTHONHOME", "python imports from it" },
	{ "PYTHONUSERBASE", "python imports from it" },
	{ "PYTHONINSPECT", "python obeys it" },
	{ "PYTHONBREAKPOINT", "python calls it" },
	{ "PYTHONWARNINGS", "python imports what it names" },
	{ "NODE_OPTIONS", "node loads what it names" },
	{ "NODE_PATH", "node loads from it" },
	{ "PERL5OPT", "perl obeys it" },
	{ "PERL5LIB", "perl loads from it" },
	{ "PERLLIB", "perl loads from it" },
	{ "PERL5DB", "perl runs it" },
	{ "RUBYOPT", "ruby obeys it" },
	{ "RUBYLIB", "ruby loads from it" },
	{ "LUA_INIT*", "lua runs it" },
	{ "LUA_PATH*", "lua loads from it" },
	{ "LUA_CPATH*", "lua loads from it" },
	{ "PHPRC", "php reads its configuration from it" },
	{ "PHP_INI_SCAN_DIR", "php reads its configuration from it" },
	{ "R_PROFILE*", "R runs it" },
	{ "JAVA_TOOL_OPTIONS", "java loads agents from it" },
	{ "_JAVA_OPTIONS", "java loads agents from it" },
	{ "JDK_JAVA_OPTIONS", "java loads agents from it" },
	{ "DOTNET_STARTUP_HOOKS", "dotnet loads code from it" },
	{ "CORECLR_*", "dotnet loads code from it" },
	{ "GIT_*", "git runs or reads what it names" },
	{ "SSH_ASKPASS", "ssh runs it" },
	{ "SUDO_ASKPASS", "sudo runs it" },
	{ "LESSOPEN", "less runs it" },
	{ "LESSCLOSE", "less runs it" },
	{ "MAKEFLAGS", "make obeys it" },
	{ "MFLAGS", "make obeys it" },
	{ "MAKEFILES", "make reads them" },
	{ "RUSTC", "cargo runs it" },
	{ "RUSTC_WRAPPER", "cargo runs it" },
	{ "RUSTC_WORKSPACE_WRAPPER", "cargo runs it" },
	{ "GCC_EXEC_PREFIX", "gcc runs programs from it" },
	{ "COMPILER_PATH", "gcc runs programs from it" },
};

/* What git needs from a caller and what cannot run anything. */
static const char *const harmless[] = {
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE",
	"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
	"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS",
};

const char *env_injects(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
		if (strlen(harmless[i]) == n && memcmp(harmless[i], name, n) == 0)
			return NULL;
	for (size_t i = 0; i < ARRAY_LEN(injecting); i++) {
		const char *pat = injecting[i].name;
		size_t len = strlen(pat);
		bool star = pat[len - 1] == '*';
		len -= star;
		if ((star ? n >= len : n == len) && memcmp(pat, name, len) == 0)
			return injecting[i].why;
	}
	return NULL;
}

/* Word by word: KEY is a secret's name, KEYBOARD is not. */
static bool has_word(const char *name, size_t n, const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i + len <= n; i++)
		if (strncasecmp(name + i, word, len) == 0 &&
		    (i == 0 || name[i - 1] == '_' || name[i - 1] == '-') &&
		    (i + len == n || name[i + len] == '_' || name[i + len] == '-' ||
		     (name[i + len] == 'S' && i + len + 1 == n)))
			return true;
	return false;
}

bool env_looks_secret(const char *entry)
{
	static const char *const words[] = {
		"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "KEY",
		"APIKEY", "CREDENTIAL", "AUTH", "COOKIE", "SESSION", "PRIVATE", "PAT",
		"DSN",
	};
	static const char *const starts[] = {
		"sk-", "sk_", "pk_live", "rk_live", "ghp_", "gho_", "ghs_", "github_pat_",
		"glpat-", "xoxb-", "xoxp-", "xapp-", "AKIA", "ASIA", "AIza", "ya29.",
		"eyJ", "-----BEGIN", "npm_", "pypi-", "hf_", "dop_v1_", "Bearer ",
		"Basic ", "brig_",
	};
	size_t n = strcspn(entry, "=");
	const char *value = entry[n] ? entry + n + 1 : "";

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (has_word(entry, n, words[i]))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(starts); i++)
		if (strncmp(value, starts[i], strlen(starts[i])) == 0)
			return true;
	/* a password inside an address: scheme://user:password@host */
	const char *at = strstr(value, "://");
	const char *sign = at ? strchr(at, '@') : NULL;
	const char *slash = at ? strchr(at + 3, '/') : NULL;
	return sign && (!slash || sign < slash) && memchr(at + 3, ':', (size_t)(sign - at) - 3);
}
