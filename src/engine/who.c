/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/who.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "confine/netlink.h"
#include "engine/run_internal.h"

#define SAVED_NS 100000000ull /* most that is saved up */
#define SCAN_NS 5000000ull    /* longest look at all processes */
#define SHARE 10              /* one part in so many */
enum { LOOK_EVERY = 64 };     /* descriptors between two looks at the clock */

void who_init(struct who *w, int diag, pid_t init)
{
	*w = (struct who){ .diag = diag, .proc = -1, .init = init, .left_ns = SAVED_NS,
			   .filled_at = now_ns() };
}

void who_end(struct who *w)
{
	fd_close(&w->diag);
	fd_close(&w->proc);
	w->init = 0;
}

static bool may_look(struct who *w)
{
	uint64_t now = now_ns();

	w->left_ns += (now - w->filled_at) / SHARE;
	w->filled_at = now;
	if (w->left_ns > SAVED_NS)
		w->left_ns = SAVED_NS;
	return w->left_ns >= SCAN_NS;
}

static void spend(struct who *w, uint64_t since)
{
	uint64_t took = now_ns() - since;

	w->left_ns -= took < w->left_ns ? took : w->left_ns;
}

/* The sandbox's /proc, which shows its processes by the numbers they have inside.
 * It is part of the tree that brig built; nobody inside can mount another. */
static bool open_proc(struct who *w)
{
	char path[64];
	struct statfs fs;
	struct stat ours, theirs;

	if (w->proc >= 0)
		return true;
	if (w->init <= 0)
		return false;
	snprintf(path, sizeof path, "/proc/%d/root/proc", (int)w->init);
	w->proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)w->init);
	if (w->proc >= 0 && fstatfs(w->proc, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
	    stat(path, &ours) == 0 && fstatat(w->proc, "1/ns/pid", &theirs, 0) == 0 &&
	    ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino)
		return true;
	fd_close(&w->proc);
	w->init = 0; /* it will not be better the next time */
	return false;
}

/* 0 when there is no such socket, or not any more. */
static uint64_t inode_of(int diag, const struct who_ask *a)
{
	struct inet_diag_req_v2 rq = {
		.sdiag_family = a->family, .sdiag_protocol = IPPROTO_TCP,
		.idiag_states = ~0u,
		.id = { .idiag_sport = htons(a->from_port), .idiag_dport = htons(a->to_port),
			.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } },
	};
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	_Alignas(8) char reply[1024];
	struct nl n;

	memcpy(rq.id.idiag_src, a->from, sizeof rq.id.idiag_src);
	memcpy(rq.id.idiag_dst, a->to, sizeof rq.id.idiag_dst);
	nl_init(&n);
	nl_begin(&n, SOCK_DIAG_BY_FAMILY, 0, &rq, sizeof rq);
	nl_end(&n);
	if (sendto(diag, n.data, n.len, MSG_DONTWAIT, (const struct sockaddr *)&kernel,
		   sizeof kernel) != (ssize_t)n.len)
		return 0;
	ssize_t got = recv(diag, reply, sizeof reply, MSG_DONTWAIT);
	const struct nlmsghdr *h = (const void *)reply;
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
	    h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return 0;
	const struct inet_diag_msg *m = NLMSG_DATA(h);
	/* a listener at the same port would be an answer as well, but not to this */
	return m->id.idiag_sport == rq.id.idiag_sport &&
	       m->id.idiag_dport == rq.id.idiag_dport ? m->idiag_inode : 0;
}

/* What a program calls itself: cut, and nothing in it but plain ASCII. */
static void read_text(int dir, const char *name, char *out, size_t cap)
{
	cleanup_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : read(fd, out, cap - 1);

	if (n < 0)
		n = 0;
	while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\0'))
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (out[i] == '\0')
			out[i] = ' ';
		else if (out[i] < ' ' || out[i] > '~')
			out[i] = '?';
	memset(out + n, 0, cap - (size_t)n);
}

static void found(struct who_ask *a, int dir, const char *pid)
{
	uint64_t n;

	if (++a->holders > 1 || parse_uint(pid, INT32_MAX, &n) < 0) {
		a->pid = 0; /* any of them */
		return;
	}
	a->pid = (uint32_t)n;
	read_text(dir, "comm", a->comm, sizeof a->comm);
	read_text(dir, "cmdline", a->command, sizeof a->command);
}

/* The descriptors of one process.  False when the time is over. */
static bool look_at(int proc, const char *pid, struct who_ask *ask, unsigned n,
		    uint64_t until)
{
	/* all that is read comes from this process, even if its number is given away */
	cleanup_close int dir = openat(proc, pid, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fds = openat(dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fds < 0 ? NULL : fdopendir(fds);
	bool seen[WHO_BATCH] = { false };
	const struct dirent *e;
	unsigned count = 0;

	if (fds < 0 && errno == EACCES)
		for (unsigned i = 0; i < n; i++)
			ask[i].unseen++; /* it may be one of the holders */
	if (!d && fds >= 0)
		close(fds);
	while (d && (e = readdir(d))) {
		char link[64], *end;
		ssize_t len = readlinkat(dirfd(d), e->d_name, link, sizeof link - 1);
		if (++count % LOOK_EVERY == 0 && now_ns() > until) {
			closedir(d);
			return false;
		}
		if (len <= 8 || memcmp(link, "socket:[", 8) != 0)
			continue;
		link[len] = '\0';
		uint64_t inode = strtoull(link + 8, &end, 10);
		for (unsigned i = 0; i < n; i++)
			if (ask[i].inode == inode && !seen[i]) {
				seen[i] = true; /* twice in one process is once */
				found(&ask[i], dir, pid);
			}
	}
	if (d)
		closedir(d);
	return true;
}

static bool look_at_all(int proc, struct who_ask *ask, unsigned n)
{
	uint64_t until = now_ns() + SCAN_NS;
	int again = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	const struct dirent *e;
	bool whole = d != NULL;

	if (!d && again >= 0)
		close(again);
	while (whole && (e = readdir(d)))
		/* pid 1 is brig's own, and has no socket */
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && !streq(e->d_name, "1"))
			whole = look_at(proc, e->d_name, ask, n, until) && now_ns() < until;
	if (d)
		closedir(d);
	return whole;
}

void who_find(struct who *w, struct who_ask *ask, unsigned n)
{
	uint64_t start = now_ns();
	bool any = false;

	if (n > WHO_BATCH)
		n = WHO_BATCH;
	for (unsigned i = 0; i < n; i++) {
		ask[i].inode = 0;
		ask[i].pid = ask[i].holders = ask[i].unseen = 0;
	}
	if (w->diag < 0 || w->init <= 0 || !may_look(w) || !open_proc(w))
		return;
	for (unsigned i = 0; i < n; i++) {
		ask[i].inode = inode_of(w->diag, &ask[i]);
		any = any || ask[i].inode;
	}
	for (unsigned i = 0; i < n; i++)
		if (!ask[i].inode)
			ask[i].inode = UINT64_MAX; /* no socket has it */
	/* not all were seen: a second holder may be among the others */
	if (any && !look_at_all(w->proc, ask, n))
		for (unsigned i = 0; i < n; i++)
			ask[i].pid = ask[i].holders = ask[i].unseen = 0;
	spend(w, start);
}
