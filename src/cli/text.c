/* SPDX-License-Identifier: Apache-2.0 */
/* Text for a person: lines that fit the terminal they are on, and output that did not get there. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/timed.h"
#include "cli/cli.h"

enum { LEAST_COLUMNS = 30 };

/* Columns for a text that begins at this one; 0: as many as it takes. */
static size_t columns_from(size_t at)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col < at + LEAST_COLUMNS)
		return 0;
	return w.ws_col - at;
}

static void wrap(struct buf *b, const char *text, size_t len, size_t at)
{
	const size_t columns = columns_from(at);

	while (columns && len > columns) {
		const char *space = memrchr(text, ' ', columns + 1);
		if (!space)
			space = memchr(text, ' ', len);
		if (!space)
			break;
		buf_add(b, text, (size_t)(space - text));
		buf_addf(b, "\n%*s", (int)at, "");
		len -= (size_t)(space + 1 - text);
		text = space + 1;
	}
	buf_add(b, text, len);
	buf_addc(b, '\n');
}

void cli_wrap(const char *text, size_t at)
{
	struct buf b = { 0 };

	wrap(&b, text, strlen(text), at);
	cleanup_free char *out = buf_take(&b, NULL);
	printf("%s", out ? out : "?\n");
}

char *cli_fit(const char *text)
{
	struct buf b = { 0 };

	while (*text) {
		size_t at = strspn(text, " "), len = strcspn(text + at, "\n");
		buf_add(&b, text, at);
		wrap(&b, text + at, len, at);
		text += at + len;
		text += *text == '\n';
	}
	return buf_take(&b, NULL);
}

#define NO_MEMORY "brig: NO_MEMORY: a message\n"

static bool brief;

void cli_say_briefly(void)
{
	brief = true;
}

static void say_briefly(const char *text, size_t len)
{
	enum { SAID_MS = 500 }; /* for the wait and again for the write */
	static bool blocked;

	while (len && !blocked) {
		ssize_t n = timed_write(STDERR_FILENO, text, len, SAID_MS);
		blocked = n <= 0;
		text += blocked ? 0 : n;
		len -= blocked ? 0 : (size_t)n;
	}
}

void cli_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (brief) {
		char *text;
		int n = vasprintf(&text, fmt, ap);
		cleanup_free char *own = n < 0 ? NULL : text;
		if (own)
			say_briefly(own, (size_t)n);
		else
			say_briefly(NO_MEMORY, sizeof NO_MEMORY - 1);
	} else {
		vfprintf(stderr, fmt, ap);
	}
	va_end(ap);
}

static int not_written(int e)
{
	fprintf(stderr, "brig: IO_FAILED: standard output: %s (not all of the answer is there: "
			"write it to somewhere else)\n", e ? strerror(e) : "cannot be written to");
	return EXIT_REFUSED;
}

int cli_print(const char *text, size_t len)
{
	fflush(stdout);
	int r = fd_write_waiting(STDOUT_FILENO, text, len);

	return r < 0 ? not_written(-r) : 0;
}

int cli_printed(int code)
{
	errno = 0;
	if (fflush(stdout) < 0 || ferror(stdout)) {
		int r = not_written(errno);
		return code ? code : r;
	}
	return code;
}
