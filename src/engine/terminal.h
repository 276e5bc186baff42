/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of a terminal: raw mode of the caller's own, window
 * size, copying both ways, restoring.  Knows nothing of what made the other
 * side: the engine and the backends that run ordinary process trees use it.
 */
#ifndef ENGINE_TERMINAL_H
#define ENGINE_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "engine/capture.h"

/* What was read on one side of the terminal and waits for the other.  As long
 * as it is not empty, nothing more is read: a stuck reader stops the command,
 * never the supervisor, whose deadline must fire whatever happens. */
struct term_buf {
	char data[4096];
	size_t at, len;
};

/* The caller's own terminal.  Without one of its own the command has it, and may leave it in
 * any state. */
struct caller_tty {
	unsigned streams;   /* bits of the standard streams that may be one, from who looked */
	bool saved;
	int fd, flags;      /* whose settings were saved: standard input, or else output */
	struct termios was;
};
/* May it be a terminal?  What is surely none costs nothing. */
bool caller_tty_maybe(mode_t mode, dev_t rdev);
void caller_tty_save(struct caller_tty *c);
/* Before anything is said: its output may have been stopped. */
void caller_tty_restore(struct caller_tty *c);
/* For who cleans up after a supervisor that was killed: nobody could type any more.  Nothing
 * when somebody has changed it meanwhile, as a shell does whose job has ended. */
void caller_tty_rescue(const struct caller_tty *c);

struct terminal {
	int pty;                /* terminal master, -1: the command has none */
	int pty_slave;          /* held so that the terminal never hangs up */
	struct capture *capture; /* output goes here instead of stdout, or NULL */
	bool stdin_open;        /* the caller's input still feeds the terminal */
	char last;              /* of what was typed */
	unsigned end_gap;       /* it has ended, and that is typed again after so many ms; 0 not */
	uint64_t t_end;         /* when it was typed last, in ms */
	struct term_buf to_user, to_pty; /* read, not yet written on */
	size_t rest;            /* bytes read after the command's end */
	struct caller_tty caller;
	bool two_way;           /* what is written to the caller's input comes out of his output */
};

/* Three descriptors to poll: the terminal, the caller's input and output. */
enum { TERM_POLLS = 3 };

/* Remembers the caller's terminal and, with a pty, makes it raw: in the background we are
 * stopped for that.  The size is the caller's only with terminal_resize(). */
void terminal_start(struct terminal *t);
void terminal_resize(struct terminal *t);
/* What to poll for now; unused entries have the descriptor -1. */
void terminal_poll(const struct terminal *t, struct pollfd p[TERM_POLLS]);
/* How long to poll at most, of what the caller would have (-1: for ever). */
int terminal_timeout(const struct terminal *t, int timeout);
/* Acts on what poll() said, and on the time. */
void terminal_dispatch(struct terminal *t, const struct pollfd p[TERM_POLLS]);
/* After the command's end: a piece of the rest of its output, when the reader takes it within
 * ms.  1 when some went, 0 when none did, -1 when none is left. */
int terminal_drain(struct terminal *t, int ms);
/* Puts the caller's terminal back as it was; its settings not in the background. */
void terminal_end(struct terminal *t);

#endif
