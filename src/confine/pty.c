/* SPDX-License-Identifier: Apache-2.0 */
#include "confine/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "base/fd.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

int pty_open(int dirfd, const char *ptmx, int *master, int *slave)
{
	int unlock = 0;
	cleanup_close int m = openat(dirfd, ptmx, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (m < 0 || ioctl(m, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	int s = ioctl(m, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s < 0)
		return -errno;
	*master = take_fd(&m);
	*slave = s;
	return 0;
}
