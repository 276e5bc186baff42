/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding our own group: the text of /proc/self/mountinfo and
 * /proc/self/cgroup in, paths out.  No system calls, so that the odd machines
 * and containers we know of are samples in a unit test.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"

#include "confine/cgroup_internal.h"

enum { ID_MAX = 64 };

const struct cg_controller cg_controllers[3] = {
	{ CG_MEMORY, "memory" },
	{ CG_PIDS, "pids" },
	{ CG_CPU, "cpu" },
};

/* True when word is an item of the list, whose items end at sep, a space, a
 * newline or end. */
static bool list_has(const char *list, const char *end, char sep, const char *word)
{
	size_t n = strlen(word);

	while (list < end) {
		const char *p = list;
		while (p < end && *p != sep && *p != ' ' && *p != '\n')
			p++;
		if ((size_t)(p - list) == n && memcmp(list, word, n) == 0)
			return true;
		list = p + 1;
	}
	return false;
}

bool cg_line_find(const char *groups, const char *controller, const char **path,
		  size_t *len)
{
	/* hierarchy-ID:controller-list:path, and the path may hold colons */
	for (const char *line = groups; *line;) {
		const char *end = strchrnul(line, '\n');
		const char *a = memchr(line, ':', (size_t)(end - line));
		const char *b = a ? memchr(a + 1, ':', (size_t)(end - a - 1)) : NULL;

		if (b && b + 1 < end && b[1] == '/') {
			bool v2 = b == a + 1 && a == line + 1 && *line == '0';
			if (controller ? list_has(a + 1, b, ',', controller) : v2) {
				*path = b + 1;
				*len = (size_t)(end - b - 1);
				return true;
			}
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

/* Copies one space-separated field, undoing the kernel's \ooo escapes. */
static int field_copy(const char *p, const char *end, char *out, size_t cap)
{
	size_t n = 0;

	while (p < end) {
		char c = *p++;
		if (c == '\\' && end - p >= 3 && p[0] >= '0' && p[0] <= '3' &&
		    p[1] >= '0' && p[1] <= '7' && p[2] >= '0' && p[2] <= '7') {
			c = (char)((p[0] - '0') << 6 | (p[1] - '0') << 3 | (p[2] - '0'));
			p += 3;
		}
		if (n + 1 >= cap || c == '\0')
			return -ENAMETOOLONG;
		out[n++] = c;
	}
	out[n] = '\0';
	return 0;
}

struct mount_line {
	const char *root, *root_end;
	const char *point, *point_end;
	const char *opts, *opts_end; /* of the mount */
	const char *type, *type_end;
	const char *super, *super_end; /* of the file system */
};

/* id parent major:minor root point opts [tags…] - type source super-opts */
static bool mount_parse(const char *line, const char *end, struct mount_line *m)
{
	const char *f[6], *fe[6], *p = line;

	for (int i = 0; i < 6; i++) {
		f[i] = p;
		p = memchr(p, ' ', (size_t)(end - p));
		if (!p)
			return false;
		fe[i] = p++;
	}
	/* optional fields, however many, until a lone dash */
	while (p < end && !(*p == '-' && p + 1 < end && p[1] == ' ')) {
		p = memchr(p, ' ', (size_t)(end - p));
		if (!p)
			return false;
		p++;
	}
	if (end - p < 2)
		return false;
	m->type = p + 2;
	m->type_end = memchr(m->type, ' ', (size_t)(end - m->type));
	if (!m->type_end)
		return false;
	p = memchr(m->type_end + 1, ' ', (size_t)(end - m->type_end - 1));
	m->super = p ? p + 1 : end;
	m->super_end = end;
	m->root = f[3], m->root_end = fe[3];
	m->point = f[4], m->point_end = fe[4];
	m->opts = f[5], m->opts_end = fe[5];
	return *m->root == '/' && *m->point == '/';
}

/* A path with a ".." step leads out of what our cgroup namespace may name. */
static bool has_dotdot(const char *path, size_t len)
{
	for (size_t i = 0; i + 2 < len; i++)
		if (path[i] == '/' && path[i + 1] == '.' && path[i + 2] == '.' &&
		    (i + 3 == len || path[i + 3] == '/'))
			return true;
	return false;
}

/* Our group's directory under one mount, which shows what follows in our path. */
static int place_at(const struct mount_line *m, const char *path, size_t len, size_t skip,
		    struct cg_place *place)
{
	int r = field_copy(m->point, m->point_end, place->dir, sizeof place->dir);
	if (r < 0)
		return r;
	place->top = strlen(place->dir);
	const char *rest = path + skip;
	size_t n = len - skip;
	if (n == 1)
		n = 0; /* "/" alone */
	if (place->top + n >= sizeof place->dir || len >= sizeof place->group)
		return -ENAMETOOLONG;
	memcpy(place->dir + place->top, rest, n);
	place->dir[place->top + n] = '\0';
	memcpy(place->group, path, len);
	place->group[len] = '\0';
	return 0;
}

/* The mount shows the hierarchy from `root` down, so only what follows root in our path
 * is below the point. */
static int place_under(const struct mount_line *m, const char *path, size_t len,
		       struct cg_place *place)
{
	big_buffer char root[PATH_MAX];
	int r = field_copy(m->root, m->root_end, root, sizeof root);
	if (r < 0)
		return r;
	size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (skip > len || memcmp(path, root, skip) != 0 ||
	    (skip && skip < len && path[skip] != '/'))
		return -EXDEV;
	return place_at(m, path, len, skip, place);
}

int cg_place_find(const char *mountinfo, const char *groups,
		  const char *controller, struct cg_place *place)
{
	const char *path, *type = controller ? "cgroup" : "cgroup2";
	size_t len;
	int result = -ENOENT;
	bool writable = false;

	if (!cg_line_find(groups, controller, &path, &len))
		return -ENOENT;
	bool outside = has_dotdot(path, len);

	for (const char *line = mountinfo; *line;) {
		const char *end = strchrnul(line, '\n');
		struct mount_line m;
		bool fits = mount_parse(line, end, &m) &&
			    (size_t)(m.type_end - m.type) == strlen(type) &&
			    memcmp(m.type, type, strlen(type)) == 0 &&
			    (!controller ||
			     list_has(m.super, m.super_end, ',', controller));
		line = *end ? end + 1 : end;
		if (!fits)
			continue;
		bool rw = !list_has(m.opts, m.opts_end, ',', "ro") &&
			  !list_has(m.super, m.super_end, ',', "ro");
		/* several mounts of one hierarchy: a writable one is worth more */
		if (result == 0 && (writable || !rw))
			continue;
		struct cg_place found;
		int r = outside ? -EXDEV : place_under(&m, path, len, &found);
		if (r == 0) {
			*place = found;
			writable = rw;
			result = 0;
		} else if (result < 0) {
			result = r;
		}
	}
	return result;
}

int cg_place_set(const char *point, const char *path, size_t len,
		 struct cg_place *place)
{
	const struct mount_line m = { .point = point, .point_end = point + strlen(point) };

	return has_dotdot(path, len) ? -EXDEV : place_at(&m, path, len, 0, place);
}

bool cg_place_up(struct cg_place *place)
{
	size_t n = strlen(place->dir);

	if (n <= place->top)
		return false;
	while (n > place->top && place->dir[n - 1] != '/')
		n--;
	place->dir[n > place->top ? n - 1 : n] = '\0';

	char *slash = strrchr(place->group, '/');
	if (slash == place->group)
		slash++;
	*slash = '\0';
	return true;
}

unsigned cg_bits_parse(const char *list)
{
	unsigned bits = 0;

	for (size_t i = 0; i < 3; i++)
		if (list_has(list, list + strlen(list), ' ', cg_controllers[i].name))
			bits |= cg_controllers[i].bit;
	return bits;
}

uint64_t cg_key_value(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *line = text; *line;) {
		if (strncmp(line, key, n) == 0 && line[n] == ' ')
			return strtoull(line + n + 1, NULL, 10);
		line = strchrnul(line, '\n');
		if (*line)
			line++;
	}
	return 0;
}

bool cg_id_ok(const char *id)
{
	size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			      "0123456789._-");
	return n > 0 && n <= ID_MAX && id[n] == '\0';
}

const char *cg_bits_text(unsigned bits, char *text, size_t cap)
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < 3; i++)
		if ((bits & cg_controllers[i].bit) && n < cap)
			n += (size_t)snprintf(text + n, cap - n, "%s%s",
					      n ? ", " : "", cg_controllers[i].name);
	return text;
}
