/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual environments are small: their interpreter is a link into the Python
 * they were made from, which pyvenv.cfg names.  That file can lie in the
 * workspace, so a sandbox may have written it, to be shown something of HOME
 * the next time.  Therefore what it names must be a Python installation, with
 * its standard library, before anything of it is shown; and for a file in the
 * workspace only the parts that make Python run are.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/str.h"
#include "policy/toolchain_internal.h"

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* "3.12.1" → "3.12".  Nothing but digits gets into a path this way. */
static bool parse_version(const char *s, size_t len, char out[8])
{
	size_t n = 0, dots = 0;

	for (; n < len; n++) {
		if (s[n] == '.' && ++dots == 2)
			break;
		if (s[n] != '.' && (s[n] < '0' || s[n] > '9'))
			break;
		if (n >= 7)
			return false;
		out[n] = s[n];
	}
	if (dots == 0 || n < 3 || out[0] == '.' || out[n - 1] == '.')
		return false;
	out[n] = '\0';
	return true;
}

static bool parse_home(const char *s, size_t len, char out[PATH_MAX])
{
	if (len == 0 || len >= PATH_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return false;
	cleanup_free char *text = strndup(s, len);
	cleanup_free char *norm = NULL;
	if (!text || path_normalise(text, &norm) < 0)
		return false;
	strcpy(out, norm); /* not longer than what it was made of */
	return true;
}

/* "key = value", blanks around both, as Python's site.py reads it. */
static void parse_line(const char *p, const char *end, struct pyvenv *out,
		       bool *home, bool *version)
{
	const char *eq = memchr(p, '=', (size_t)(end - p));

	if (!eq)
		return;
	const char *key_end = eq, *value = eq + 1;
	while (p < key_end && blank(*p))
		p++;
	while (key_end > p && blank(key_end[-1]))
		key_end--;
	while (value < end && blank(*value))
		value++;
	while (end > value && blank(end[-1]))
		end--;
	size_t klen = (size_t)(key_end - p), vlen = (size_t)(end - value);
	if (klen == 4 && strncasecmp(p, "home", 4) == 0)
		*home = parse_home(value, vlen, out->home);
	else if ((klen == 7 && strncasecmp(p, "version", 7) == 0) ||
		 (klen == 12 && strncasecmp(p, "version_info", 12) == 0))
		*version = parse_version(value, vlen, out->version);
}

bool pyvenv_parse(const char *text, size_t len, struct pyvenv *out)
{
	const char *p = text, *end = text + len;
	bool home = false, version = false;

	if (memchr(text, '\0', len))
		return false;
	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		if (!eol)
			eol = end;
		parse_line(p, eol, out, &home, &version);
		p = eol + (eol < end);
	}
	return home && version;
}

static bool is_python(const struct place *bin, const char *version)
{
	char name[64];
	struct stat st;

	snprintf(name, sizeof name, "../lib/python%s/os.py", version);
	if (fstatat(bin->fd, name, &st, 0) < 0 || !S_ISREG(st.st_mode))
		return false;
	snprintf(name, sizeof name, "python%s", version);
	return fstatat(bin->fd, name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_mode & S_IXUSR);
}

/* Shows one neighbour of the interpreter's directory, under both its names. */
static bool show_beside(struct finder *f, const struct place *bin,
			const char *home, const char *name)
{
	big_buffer char path[PATH_MAX];
	scoped_place p;

	p.fd = -1;
	snprintf(path, sizeof path, "../%s", name);
	if (!place_open(f, bin->fd, path, &p))
		return true;
	if (place_refused(f, &p))
		return false;
	strcpy(path, home);
	if (!path_cut(path, 1) || strlen(path) + strlen(name) + 2 > sizeof path)
		return false;
	strcat(strcat(path, "/"), name);
	place_show(f, &p, path, 0, TOOLCHAIN_VENV, true);
	return true;
}

static void show_base(struct finder *f, const struct pyvenv *cfg, bool trusted)
{
	scoped_place bin;

	bin.fd = -1;
	if (place_is_visible(f, cfg->home) ||
	    !place_open(f, AT_FDCWD, cfg->home, &bin) || place_is_system(bin.real))
		return;
	const char *why = place_refused(f, &bin);
	if (!why && !is_python(&bin, cfg->version))
		why = "no Python of that version is there";
	if (why) {
		note(f, TOOLCHAIN_VENV, "the base %s is not shown: %s", cfg->home, why);
		return;
	}
	note(f, TOOLCHAIN_VENV, "python %s from %s", cfg->version, bin.spelt);
	if (trusted && is_prefix(f, &bin)) {
		place_show(f, &bin, cfg->home, 1, TOOLCHAIN_VENV, false);
		return;
	}
	char lib[32];
	snprintf(lib, sizeof lib, "lib/python%s", cfg->version);
	place_show(f, &bin, cfg->home, 0, TOOLCHAIN_VENV, false);
	if (!show_beside(f, &bin, cfg->home, "lib"))
		show_beside(f, &bin, cfg->home, lib);
	show_beside(f, &bin, cfg->home, "include");
}

bool venv_base_of(struct finder *f, const struct place *bin)
{
	cleanup_free char *text = NULL;
	big_buffer struct pyvenv cfg;
	ssize_t n = read_small(bin->fd, "../pyvenv.cfg", false, &text);

	if (n < 0)
		return false;
	if (pyvenv_parse(text, (size_t)n, &cfg))
		show_base(f, &cfg, true);
	else
		note(f, TOOLCHAIN_VENV, "the pyvenv.cfg beside %s cannot be used",
		     bin->spelt);
	return true;
}

void venv_in_workspace(struct finder *f, const char *rel)
{
	cleanup_free char *text = NULL;
	big_buffer struct pyvenv cfg;
	char path[NAME_MAX + 16];

	if (!wanted(f, TOOLCHAIN_VENV) || !f->in->workspace_src ||
	    snprintf(path, sizeof path, "%s/pyvenv.cfg", rel) >= (int)sizeof path)
		return;
	ssize_t n = read_small(f->in->workspace_fd, path, true, &text);
	if (n < 0)
		return;
	f->seen |= TOOLCHAIN_BIT(TOOLCHAIN_VENV);
	if (pyvenv_parse(text, (size_t)n, &cfg))
		show_base(f, &cfg, false);
	else
		note(f, TOOLCHAIN_VENV, "%s in the workspace cannot be used", path);
}

/* pip install --user: importable by the system's Python, wherever PATH goes. */
void python_user_site(struct finder *f)
{
	const struct toolchain_input *in = f->in;
	cleanup_free char *lib = NULL;

	if (!wanted(f, TOOLCHAIN_LOCAL) || !in->home || !in->home_inside)
		return;
	lib = str_fmt("%s/.local/lib", in->home);
	int fd = lib ? openat(AT_FDCWD, lib, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		if (fd >= 0)
			close(fd);
		f->failed |= !lib;
		return;
	}
	unsigned seen = 0;
	for (struct dirent *e; (e = readdir(d)) && ++seen <= LINKS_MAX;) {
		if (strncmp(e->d_name, "python3.", 8) != 0)
			continue;
		cleanup_free char *src =
			str_fmt("%s/%s/site-packages", lib, e->d_name);
		cleanup_free char *dst =
			str_fmt("%s/.local/lib/%s/site-packages", in->home_inside,
				e->d_name);
		if (src && dst)
			place_show_at(f, src, dst, TOOLCHAIN_LOCAL);
		else
			f->failed = true;
	}
	closedir(d);
}
