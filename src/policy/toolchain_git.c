/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's git identity and known hosts.  Of the caller's git configuration
 * two values are shown inside and nothing else: it may name credential helpers,
 * signing keys and programs to run.  A third one says what to protect.  [include] is
 * not followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/str.h"
#include "policy/toolchain_internal.h"
#include "workspace/gitconf.h"

/* The next character as git sees it: "\r\n" is a newline.  -1 at the end. */
static int next_char(struct gitconf_text *t)
{
	if (t->p >= t->end)
		return -1;
	if (*t->p == '\r' && t->p + 1 < t->end && t->p[1] == '\n')
		t->p++;
	return (unsigned char)*t->p++;
}

static int unescape(int c)
{
	switch (c) {
	case 't':
		return '\t';
	case 'b':
		return '\b';
	case 'n':
		return '\n';
	case '\\':
	case '"':
		return c;
	default:
		return -1;
	}
}

struct value {
	char text[IDENTITY_MAX];
	size_t len;
	bool unfit; /* too long, or with a control character */
};

static void value_add(struct value *v, int c)
{
	if (v->len + 1 >= sizeof v->text || c < ' ' || c == 0x7f)
		v->unfit = true;
	else
		v->text[v->len++] = (char)c;
}

/*
 * What follows a '=', to the end of the line, by git's rules: quotes, escapes,
 * continued lines, comments, blanks cut at both ends.  False where git would
 * stop with an error.
 */
static bool read_value(struct gitconf_text *t, struct value *v)
{
	bool quote = false, comment = false;
	size_t keep = 0; /* length without the blanks at the end */

	*v = (struct value){ .len = 0 };
	for (;;) {
		int c = next_char(t);
		if (c < 0 || c == '\n') {
			v->text[keep] = '\0';
			v->len = keep;
			return !quote;
		}
		if (comment)
			continue;
		if (!quote && (c == ' ' || c == '\t' || c == '\r')) {
			/* a tab between words is no control character to drop */
			if (v->len)
				value_add(v, ' ');
			continue;
		}
		if (!quote && (c == ';' || c == '#')) {
			comment = true;
			continue;
		}
		if (c == '"') {
			quote = !quote;
			keep = v->len;
			continue;
		}
		if (c == '\\') {
			c = next_char(t);
			if (c == '\n')
				continue; /* the value goes on in the next line */
			c = unescape(c);
			if (c < 0)
				return false;
		}
		value_add(v, c);
		keep = v->len;
	}
}

/* Old or unusual section names: nothing of ours is in them. */
static bool skip_section(struct gitconf_text *t)
{
	for (; t->p < t->end && *t->p != '\n'; t->p++) {
		if (*t->p == ']') {
			t->p++;
			return true;
		}
		if (*t->p == '"' || *t->p == '\\')
			return false;
	}
	return false;
}

static bool read_section(struct gitconf_text *t, struct gitconf_section *s)
{
	const char *start = t->p;

	if (gitconf_section(t, s))
		return true;
	t->p = start;
	s->name[0] = '\0';
	return skip_section(t);
}

/* "key" or "key = value"; what is ours goes to *id. */
static bool read_setting(struct gitconf_text *t, const struct gitconf_section *s,
			 struct git_identity *id)
{
	char key[64];
	struct value v = { .unfit = true };

	if (!gitconf_word(t, key, sizeof key))
		return false;
	gitconf_skip_blank(t);
	if (t->p < t->end && *t->p == '=') {
		t->p++;
		if (!read_value(t, &v))
			return false;
	} else {
		/* no value: only a comment may follow */
		int c = next_char(t);
		if (c == '#' || c == ';')
			gitconf_skip_line(t);
		else if (c >= 0 && c != '\n')
			return false;
	}
	const struct {
		const char *section, *key;
		char *to;
	} ours[] = { { "user", "name", id->name },
		     { "user", "email", id->email },
		     { "core", "hooksPath", id->hooks } };

	for (size_t i = 0; i < ARRAY_LEN(ours) && !s->sub && !v.unfit; i++)
		if (strcasecmp(s->name, ours[i].section) == 0 &&
		    strcasecmp(key, ours[i].key) == 0)
			memcpy(ours[i].to, v.text, v.len + 1);
	return true;
}

bool git_identity_parse(const char *text, size_t len, struct git_identity *id)
{
	static const char bom[] = "\xef\xbb\xbf";
	struct gitconf_text t = { text, text + len };
	struct gitconf_section s = { .name = "" };
	struct git_identity got = *id;

	if (memchr(text, '\0', len))
		return false;
	if (len >= 3 && memcmp(text, bom, 3) == 0)
		t.p += 3;
	for (enum gitconf_what next; (next = gitconf_next(&t)) != GITCONF_END;)
		if (next == GITCONF_SECTION ? !read_section(&t, &s) : !read_setting(&t, &s, &got))
			return false;
	*id = got;
	return true;
}

static void add_quoted(struct buf *b, const char *key, const char *value,
		       const char *tail)
{
	buf_addf(b, "\t%s = \"", key);
	for (;;) {
		size_t n = strcspn(value, "\"\\\n\t");
		buf_add(b, value, n);
		value += n;
		if (!*value)
			break;
		/* a directory's name may have a newline or a tab */
		buf_addc(b, '\\');
		buf_addc(b, *value == '\n' ? 'n' : *value == '\t' ? 't' : *value);
		value++;
	}
	buf_addf(b, "%s\"\n", tail);
}

char *git_config_write(const struct git_identity *id, const char *safe)
{
	struct buf b = { 0 };

	buf_adds(&b, "# made by brig\n");
	if (id->name[0] || id->email[0])
		buf_adds(&b, "[user]\n");
	if (id->name[0])
		add_quoted(&b, "name", id->name, "");
	if (id->email[0])
		add_quoted(&b, "email", id->email, "");
	if (safe) {
		/* git compares owners, and ids inside are mapped; the second
		 * form is for repositories below the workspace */
		buf_adds(&b, "[safe]\n");
		add_quoted(&b, "directory", safe, "");
		add_quoted(&b, "directory", safe, "/*");
	}
	return buf_take(&b, NULL);
}

static void read_identity(struct finder *f, const char *path,
			  struct git_identity *id)
{
	cleanup_free char *text = NULL;
	ssize_t n = read_small(AT_FDCWD, path, false, &text);

	if (n == -ENOENT || n == -ENOTDIR || n == -EACCES)
		return;
	if (n < 0 || !git_identity_parse(text, (size_t)n, id))
		note(f, TOOLCHAIN_GIT, "%s is not used: it is not a config file git "
		     "would read, or too large", path);
}

/* The caller's files in git's order; later ones win. */
static void read_identities(struct finder *f, struct git_identity *id)
{
	const struct toolchain_input *in = f->in;
	const char *only = in->env("GIT_CONFIG_GLOBAL");
	const char *xdg = in->env("XDG_CONFIG_HOME");
	big_buffer char path[PATH_MAX];
	int n;

	if (only && *only) {
		if (*only == '/')
			read_identity(f, only, id);
		return;
	}
	if (!in->home)
		return;
	if (xdg && *xdg == '/')
		n = snprintf(path, sizeof path, "%s/git/config", xdg);
	else
		n = snprintf(path, sizeof path, "%s/.config/git/config", in->home);
	if (n < PATH_MAX)
		read_identity(f, path, id);
	if (snprintf(path, sizeof path, "%s/.gitconfig", in->home) < PATH_MAX)
		read_identity(f, path, id);
}

static char *hooks_of(const struct git_identity *id)
{
	return id->hooks[0] ? strdup(id->hooks) : NULL;
}

char *toolchain_hooks(const struct toolchain_input *in)
{
	struct toolchain notes = { 0 };
	struct finder f = { .in = in, .out = &notes };
	struct git_identity id = { .name = "" };

	read_identities(&f, &id);
	toolchain_free(&notes);
	return hooks_of(&id);
}

void find_git(struct finder *f)
{
	struct git_identity id = { .name = "" };

	if (!wanted(f, TOOLCHAIN_GIT))
		return;
	read_identities(f, &id);
	f->out->hooks = hooks_of(&id);
	f->out->gitconfig = git_config_write(&id, f->in->workspace_dst);
	if (!f->out->gitconfig)
		f->failed = true;
	if (id.name[0] || id.email[0])
		note(f, TOOLCHAIN_GIT, "user.name and user.email, nothing else of the "
		     "configuration");
	f->seen |= TOOLCHAIN_BIT(TOOLCHAIN_GIT);
}

void find_known_hosts(struct finder *f)
{
	static const char *const names[] = { ".ssh/known_hosts", ".ssh/known_hosts2" };
	const struct toolchain_input *in = f->in;

	if (!wanted(f, TOOLCHAIN_SSH) || !in->home || !in->home_inside)
		return;
	big_buffer char src[PATH_MAX], dst[PATH_MAX];
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (snprintf(src, sizeof src, "%s/%s", in->home, names[i]) < PATH_MAX &&
		    snprintf(dst, sizeof dst, "%s/%s", in->home_inside, names[i]) <
			    PATH_MAX)
			file_show_at(f, src, dst, TOOLCHAIN_SSH);
	if (f->seen & TOOLCHAIN_BIT(TOOLCHAIN_SSH))
		note(f, TOOLCHAIN_SSH, "known_hosts, no keys");
}
