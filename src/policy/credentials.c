/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/credentials.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/sys.h"

/* No location lies below another. */
static const struct {
	/* Relative to HOME; a file or a directory.  Texts, not pointers, which would all
	 * be adjusted at every start. */
	char path[40];
	char why[48];
} locations[] = {
	/* logging in elsewhere */
	{ ".ssh", "private keys" },
	{ ".gnupg", "private keys" },
	{ ".pki", "certificates with their keys" },
	{ ".putty", "private keys" },
	{ ".netrc", "passwords of hosts" },
	{ "._netrc", "passwords of hosts" },
	{ ".authinfo", "passwords of hosts" },
	{ ".authinfo.gpg", "passwords of hosts" },
	{ ".krb5cc", "Kerberos tickets" },
	{ ".rhosts", "who may log in" },
	{ ".vnc", "VNC passwords" },
	/* clouds and clusters */
	{ ".aws", "AWS keys" },
	{ ".azure", "Azure tokens" },
	{ ".oci", "Oracle Cloud keys" },
	{ ".aliyun", "Alibaba Cloud keys" },
	{ ".bluemix", "IBM Cloud tokens" },
	{ ".kube", "Kubernetes credentials" },
	{ ".minikube", "Kubernetes credentials" },
	{ ".boto", "cloud storage keys" },
	{ ".s3cfg", "S3 keys" },
	{ ".fly", "Fly tokens" },
	{ ".databrickscfg", "Databricks tokens" },
	{ ".vault-token", "Vault token" },
	{ ".terraformrc", "Terraform tokens" },
	/* version control and packages */
	{ ".git-credentials", "git passwords" },
	{ ".npmrc", "npm tokens" },
	{ ".yarnrc", "registry tokens" },
	{ ".yarnrc.yml", "registry tokens" },
	{ ".bunfig.toml", "registry tokens" },
	{ ".pypirc", "PyPI tokens" },
	{ ".condarc", "channel tokens" },
	{ ".continuum", "Anaconda tokens" },
	/* databases */
	{ ".pgpass", "PostgreSQL passwords" },
	{ ".my.cnf", "MySQL passwords" },
	{ ".mylogin.cnf", "MySQL passwords" },
	{ ".dbshell", "database history" },
	/* password managers and mail */
	{ ".password-store", "passwords" },
	{ ".msmtprc", "mail passwords" },
	{ ".mbsyncrc", "mail passwords" },
	{ ".fetchmailrc", "mail passwords" },
	{ ".thunderbird", "mail and its passwords" },
	/* browsers */
	{ ".mozilla", "browser profile" },
	{ ".librewolf", "browser profile" },
	{ ".zen", "browser profile" },
	{ ".tor-browser", "browser profile" },
	/* agents and editors */
	{ ".claude", "agent tokens and transcripts" },
	{ ".claude.json", "agent tokens" },
	{ ".codex", "agent tokens and transcripts" },
	{ ".gemini", "agent tokens and transcripts" },
	{ ".copilot", "agent tokens" },
	{ ".nanobot", "agent tokens and memory" },
	{ ".openclaw", "agent tokens and memory" },
	{ ".clawdbot", "agent tokens and memory" },
	{ ".aider.conf.yml", "agent keys" },
	{ ".continue", "agent keys" },
	{ ".brig", "brig's own tokens and tenants" },
	{ ".huggingface", "model hub token" },
	/* what was typed and done */
	{ ".bash_history", "typed secrets" },
	{ ".zsh_history", "typed secrets" },
	{ ".zhistory", "typed secrets" },
	{ ".histfile", "typed secrets" },
	{ ".python_history", "typed secrets" },
	{ ".node_repl_history", "typed secrets" },
	{ ".psql_history", "typed secrets" },
	{ ".mysql_history", "typed secrets" },
	{ ".sqlite_history", "typed secrets" },
	{ ".rediscli_history", "typed secrets" },
	{ ".lesshst", "search history" },
	{ ".viminfo", "registers and history" },
	/* one directory each */
	{ ".docker/config.json", "registry passwords" },
	{ ".docker/contexts", "keys of Docker hosts" },
	{ ".cargo/credentials", "registry tokens" },
	{ ".cargo/credentials.toml", "registry tokens" },
	{ ".cargo/config", "may hold registry tokens" },
	{ ".cargo/config.toml", "may hold registry tokens" },
	{ ".gem/credentials", "gem tokens" },
	{ ".bundle/config", "gem server passwords" },
	{ ".m2/settings.xml", "Maven passwords" },
	{ ".m2/settings-security.xml", "Maven passwords" },
	{ ".gradle/gradle.properties", "Gradle passwords" },
	{ ".ivy2/.credentials", "repository passwords" },
	{ ".sbt/.credentials", "repository passwords" },
	{ ".nuget/NuGet", "NuGet keys" },
	{ ".hex/hex.config", "Hex keys" },
	{ ".terraform.d/credentials.tfrc.json", "Terraform tokens" },
	{ ".composer/auth.json", "Composer tokens" },
	{ ".cache/huggingface/token", "model hub token" },
	{ ".cache/huggingface/stored_tokens", "model hub tokens" },
	{ ".cache/mozilla", "browser cache" },
	{ ".cache/google-chrome", "browser cache" },
	{ ".cache/chromium", "browser cache" },
	{ ".jupyter/jupyter_server_config.json", "notebook passwords" },
	{ ".kaggle/kaggle.json", "Kaggle key" },
	{ ".ngrok2/ngrok.yml", "ngrok token" },
	{ ".subversion/auth", "Subversion passwords" },
	{ ".electrum/wallets", "wallet keys" },
	{ ".bitcoin/wallet.dat", "wallet keys" },
	{ ".ethereum/keystore", "wallet keys" },
	{ ".var/app", "Flatpak programs' data, browsers among them" },
	{ "snap/firefox", "browser profile" },
	{ "snap/chromium", "browser profile" },
	{ "snap/thunderbird", "mail and its passwords" },
	/* .config */
	{ ".config/gcloud", "Google Cloud keys" },
	{ ".config/gh", "GitHub token" },
	{ ".config/hub", "GitHub token" },
	{ ".config/glab-cli", "GitLab token" },
	{ ".config/tea", "Gitea token" },
	{ ".config/doctl", "DigitalOcean token" },
	{ ".config/hcloud", "Hetzner token" },
	{ ".config/scw", "Scaleway keys" },
	{ ".config/heroku", "Heroku token" },
	{ ".config/netlify", "Netlify token" },
	{ ".config/configstore", "tokens of npm programs" },
	{ ".config/containers", "registry passwords" },
	{ ".config/helm", "registry passwords" },
	{ ".config/rclone", "storage keys" },
	{ ".config/op", "1Password session" },
	{ ".config/1Password", "1Password data" },
	{ ".config/Bitwarden", "passwords" },
	{ ".config/Bitwarden CLI", "passwords" },
	{ ".config/keepassxc", "passwords" },
	{ ".config/sops", "age keys" },
	{ ".config/age", "age keys" },
	{ ".config/pip", "may hold index passwords" },
	{ ".config/uv", "may hold index passwords" },
	{ ".config/pypoetry", "repository passwords" },
	{ ".config/composer", "Composer tokens" },
	{ ".config/nuget", "NuGet keys" },
	{ ".config/anthropic", "agent keys" },
	{ ".config/claude", "agent tokens" },
	{ ".config/Claude", "agent tokens" },
	{ ".config/codex", "agent tokens" },
	{ ".config/openai", "agent keys" },
	{ ".config/opencode", "agent tokens" },
	{ ".config/goose", "agent keys" },
	{ ".config/github-copilot", "agent tokens" },
	{ ".config/io.datasette.llm", "model keys" },
	{ ".config/brig", "brig's own policy" },
	{ ".config/Code", "editor's tokens and sessions" },
	{ ".config/Code - Insiders", "editor's tokens and sessions" },
	{ ".config/VSCodium", "editor's tokens and sessions" },
	{ ".config/Cursor", "editor's tokens and sessions" },
	{ ".config/JetBrains", "editor's tokens" },
	{ ".config/google-chrome", "browser profile" },
	{ ".config/google-chrome-beta", "browser profile" },
	{ ".config/google-chrome-unstable", "browser profile" },
	{ ".config/chromium", "browser profile" },
	{ ".config/BraveSoftware", "browser profile" },
	{ ".config/microsoft-edge", "browser profile" },
	{ ".config/microsoft-edge-beta", "browser profile" },
	{ ".config/vivaldi", "browser profile" },
	{ ".config/opera", "browser profile" },
	{ ".config/mozilla", "browser profile" },
	{ ".config/Slack", "chat session" },
	{ ".config/discord", "chat session" },
	{ ".config/Signal", "messages and keys" },
	{ ".config/git/credentials", "git passwords" },
	{ ".config/filezilla/sitemanager.xml", "FTP passwords" },
	/* .local */
	{ ".local/share/keyrings", "passwords" },
	{ ".local/share/kwalletd", "passwords" },
	{ ".local/share/gnupg", "private keys" },
	{ ".local/share/pass", "passwords" },
	{ ".local/share/opencode", "agent tokens and transcripts" },
	{ ".local/share/python_keyring", "passwords" },
	{ ".local/share/TelegramDesktop", "chat session" },
	{ ".local/share/brig", "brig's own records" },
	{ ".local/share/uv/credentials", "index passwords" },
	{ ".local/share/fish/fish_history", "typed secrets" },
	{ ".local/state/brig", "brig's own records" },
	{ ".local/state/bash", "typed secrets" },
	{ ".local/state/zsh", "typed secrets" },
};

const char *credentials_location(size_t i, const char **why)
{
	if (i >= ARRAY_LEN(locations))
		return NULL;
	if (why)
		*why = locations[i].why;
	return locations[i].path;
}

const char *credentials_reason(const char *rel)
{
	for (size_t i = 0; i < ARRAY_LEN(locations); i++)
		if (path_is_under(rel, locations[i].path))
			return locations[i].why;
	return NULL;
}

bool credentials_below(const char *rel)
{
	for (size_t i = 0; i < ARRAY_LEN(locations); i++)
		if (!streq(rel, locations[i].path) &&
		    path_is_under(locations[i].path, rel))
			return true;
	return false;
}

/* One call's state. */
struct sweep {
	const struct credentials_shown *shown;
	size_t n;
	char ***masks;
};

static int add_mask(struct sweep *s, const char *path)
{
	for (char **m = *s->masks; m && *m; m++)
		if (streq(*m, path))
			return 0;
	return strv_add(s->masks, path);
}

/* How much of it the caller asked to see, by showing something at or below. */
enum choice { NOTHING, A_PART, ALL };
static enum choice chosen(const struct sweep *s, const char *inside)
{
	enum choice c = NOTHING;

	for (size_t i = 0; i < s->n; i++) {
		if (streq(s->shown[i].dst, inside))
			return ALL;
		if (path_is_under(s->shown[i].dst, inside))
			c = A_PART;
	}
	return c;
}

enum { AROUND_MAX = 512, DEPTH_MAX = 16 };

/* The caller asked for something below this directory: a mask would hide that
 * too, so everything beside it is masked, entry by entry. */
static int mask_around(struct sweep *s, const char *real, const char *inside,
		       int depth)
{
	int fd = openat(AT_FDCWD, real, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	int r = 0, seen = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0; /* whoever cannot list it here cannot list it inside */
	}
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		if (streq(e->d_name, ".") || streq(e->d_name, "..") ||
		    e->d_type == DT_LNK)
			continue; /* what a link leads to is masked or not shown */
		if (++seen > AROUND_MAX) {
			r = add_mask(s, inside); /* too much to tell apart */
			break;
		}
		cleanup_free char *in = str_fmt("%s/%s", inside, e->d_name);
		cleanup_free char *at = str_fmt("%s/%s", real, e->d_name);
		if (!in || !at) {
			r = -ENOMEM;
			break;
		}
		enum choice c = chosen(s, in);
		if (c == NOTHING || (c == A_PART && depth >= DEPTH_MAX))
			r = add_mask(s, in);
		else if (c == A_PART)
			r = mask_around(s, at, in, depth + 1);
	}
	closedir(d);
	return r;
}

/* Masks a canonical path wherever it is shown. */
static int mask_images(struct sweep *s, const char *real)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n; i++) {
		const struct credentials_shown *t = &s->shown[i];
		if (streq(real, t->src) || !path_is_under(real, t->src))
			continue;
		const char *rest = real + strlen(t->src);
		cleanup_free char *inside =
			str_fmt("%s%s%s", streq(t->dst, "/") ? "" : t->dst,
				*rest == '/' ? "" : "/", rest);
		if (!inside)
			return -ENOMEM;
		enum choice c = chosen(s, inside);
		if (c == NOTHING)
			r = add_mask(s, inside);
		else if (c == A_PART)
			r = mask_around(s, real, inside, 0);
	}
	return r;
}

bool credentials_absent(int e)
{
	return e == ENOENT || e == ENOTDIR || e == ELOOP || e == EACCES;
}

static int mask_location(struct sweep *s, int home_fd, const char *home, const char *path)
{
	big_buffer char real[PATH_MAX];
	char c;

	/* EINVAL: there, and no link */
	if (readlinkat(home_fd, path, &c, 1) < 0 && errno != EINVAL)
		return credentials_absent(errno) ? 0 : -errno;
	cleanup_close int fd = sys_openat2(home_fd, path, O_PATH | O_CLOEXEC,
					   RESOLVE_NO_SYMLINKS);
	if (fd >= 0) {
		int n = snprintf(real, sizeof real, "%s/%s", home, path);
		return n < PATH_MAX ? mask_images(s, real) : 0;
	}
	/* The link itself shows nothing; a mask goes on what it leads to. */
	if (errno == ELOOP)
		fd = openat(home_fd, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return credentials_absent(errno) ? 0 : -errno;
	int r = fd_real_path(fd, real, sizeof real);
	return r == 0 ? mask_images(s, real) : r == -ENOENT ? 0 : r;
}

static bool any_in_home(const char *home, const struct credentials_shown *shown,
			size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (path_is_under(home, shown[i].src) ||
		    path_is_under(shown[i].src, home))
			return true;
	return false;
}

int credentials_masks(const char *home, const struct credentials_shown *shown,
		      size_t n, char ***masks)
{
	if (!home || streq(home, "/") || !any_in_home(home, shown, n))
		return 0;
	struct sweep s = { shown, n, masks };
	cleanup_close int fd = openat(AT_FDCWD, home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return credentials_absent(errno) ? 0 : -errno;
	int r = 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(locations); i++)
		r = mask_location(&s, fd, home, locations[i].path);
	return r;
}
