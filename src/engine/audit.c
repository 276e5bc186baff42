/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

enum { WORD_MAX = 4096, WORDS_MAX = 256 };

/* The directory that holds "brig", or NULL with errno. */
static char *state_dir(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		return strdup("/var/log");
	if (state && state[0] == '/')
		return strdup(state);
	errno = ENOENT;
	return home && home[0] == '/' ? str_fmt("%s/.local/state", home) : NULL;
}

/* Opens an absolute directory, making what is missing of it. */
static int open_made(const char *path)
{
	cleanup_free char *copy = strdup(path);
	int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (!copy || dir < 0) {
		fd_close(&dir);
		return -ENOMEM;
	}
	char *save = NULL;
	for (char *name = strtok_r(copy, "/", &save); name;
	     name = strtok_r(NULL, "/", &save)) {
		if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST && errno != EROFS &&
		    errno != EACCES) {
			int e = errno;
			close(dir);
			return -e;
		}
		int next = openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		int e = errno;
		close(dir);
		if (next < 0)
			return -e;
		dir = next;
	}
	return dir;
}

/* The log of this user, and nobody else's file. */
int audit_open(void)
{
	cleanup_free char *state = state_dir();
	struct stat st;

	if (!state)
		return -errno;
	cleanup_close int top = open_made(state);
	if (top < 0)
		return top;
	if (mkdirat(top, "brig", 0700) < 0 && errno != EEXIST)
		return -errno;
	cleanup_close int dir = openat(top, "brig",
				       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	if (fstat(dir, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
		return -EPERM; /* somebody else could replace the log */
	/* O_NONBLOCK: a FIFO in its place must not hang us */
	int fd = openat(dir, "audit.log", O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW |
						  O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

static void add_words(struct json *j, char *const *argv)
{
	bool cut = false;
	size_t i = 0;

	jw_key(j, "argv");
	jw_array(j);
	for (; i < WORDS_MAX && argv[i]; i++) {
		size_t n = strlen(argv[i]);
		cut = cut || n > WORD_MAX;
		jw_bytes(j, argv[i], n > WORD_MAX ? WORD_MAX : n);
	}
	jw_end_array(j);
	if (cut || argv[i]) {
		jw_key(j, "argv_cut");
		jw_bool(j, true);
	}
}

static void add_line(struct buf *b, const struct audit_entry *e)
{
	struct timespec now;
	struct tm tm;
	char text[40], day[24];
	struct json j;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof text, "%s.%03ldZ", day, now.tv_nsec / 1000000);
	jw_init(&j, b);
	jw_object(&j);
	jw_key(&j, "v");
	jw_int(&j, 1);
	jw_key(&j, "time");
	jw_string(&j, text);
	jw_key(&j, "event");
	jw_string(&j, e->event);
	jw_key(&j, "id");
	jw_string(&j, e->id);
	jw_key(&j, "uid");
	jw_uint(&j, getuid());
	jw_key(&j, "backend");
	jw_string(&j, e->backend);
	add_words(&j, e->argv);
	jw_key(&j, "cwd");
	jw_bytes(&j, e->cwd, strlen(e->cwd));
	jw_end_object(&j);
	buf_addc(b, '\n');
}

int audit_failed(int r, struct brig_error *err)
{
	err_set(err, BRIG_E_IO_FAILED, -r, "audit", "the audit log cannot be written");
	err_fix(err, "%s", geteuid() == 0 ?
		"make /var/log/brig/audit.log writable for root alone" :
		"make ~/.local/state/brig/audit.log (or below XDG_STATE_HOME) "
		"writable for you alone");
	return r;
}

int audit_append(const struct audit_entry *e, struct brig_error *err)
{
	cleanup_buf struct buf b = { 0 };
	cleanup_close int fd = audit_open();
	int r = fd < 0 ? fd : 0;

	if (r == 0) {
		add_line(&b, e);
		r = buf_ok(&b) ? 0 : -ENOMEM;
	}
	/* one write: lines of two runs never mix */
	if (r == 0) {
		ssize_t n = write(fd, b.data, b.len);
		r = n < 0 ? -errno : (size_t)n == b.len ? 0 : -ENOSPC;
	}
	return r < 0 ? audit_failed(r, err) : 0;
}
