/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/raw.h"
#include "engine/diagnose.h"

enum {
	ROOM = 256 * 1024, /* pages that are never touched cost nothing */
	FIRST = 4,
	BLOCK = 256,       /* holds musl's struct pthread, with room to spare */
};

/* For the first who asks: to take memory from the kernel and to give it back costs
 * more than all that is done with it. */
static _Alignas(64) char first[FIRST * ROOM];
static bool taken;

int spawn_rooms_make(struct spawn_rooms *r, unsigned n)
{
	size_t size = (size_t)n * ROOM;

	if (n <= FIRST && !__atomic_exchange_n(&taken, true, __ATOMIC_ACQUIRE)) {
		*r = (struct spawn_rooms){ .at = first, .size = size };
		return 0;
	}
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	*r = (struct spawn_rooms){ .at = at, .size = size };
	return 0;
}

void spawn_show(struct spawn_rooms *r)
{
	if (r->hidden)
		prctl(PR_SET_DUMPABLE, r->was_open, 0, 0, 0);
	r->hidden = false;
}

void spawn_rooms_free(struct spawn_rooms *r)
{
	spawn_show(r);
	if (r->at == first)
		__atomic_store_n(&taken, false, __ATOMIC_RELEASE);
	else if (r->at)
		munmap(r->at, r->size);
	*r = (struct spawn_rooms){ 0 };
}

bool spawn_may_share(unsigned long long memory_limit)
{
	return SPAWN_OWN_ERRNO && kernel_at_least(5, 16) &&
	       (!memory_limit || memory_limit >= SPAWN_SHARE_MEMORY);
}

static bool may_look(void)
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct caps[2] = { 0 };

	return syscall(SYS_capget, &hdr, caps) == 0 &&
	       (caps[0].effective & 1u << CAP_SYS_PTRACE);
}

bool spawn_hide(struct spawn_rooms *r, bool movable)
{
	char kept[8];

	if (r->at != first || movable || !may_look())
		return false;
	/* what it becomes when an id changes; what cannot be read is not trusted */
	if (fd_read_at(AT_FDCWD, "/proc/sys/fs/suid_dumpable", kept, sizeof kept) <= 0 ||
	    (kept[0] != '0' && kept[0] != '2') || kept[1] != '\n')
		return false;
	r->was_open = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
	r->hidden = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
	return r->hidden;
}

void spawn_forget(void)
{
	/* Only when a table of pages ends does every processor hear of it, and one table is
	 * for this much. */
	const size_t span = 2u << 20;
	char *at = mmap(NULL, 2 * span, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return;
	/* one small page, where others would be made large */
	madvise(at, 2 * span, MADV_NOHUGEPAGE);
	*(volatile char *)(at + span) = 1;
	munmap(at, 2 * span);
}

void word_set(uint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	SYS6(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

bool word_is_set(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0;
}

void word_await(const uint32_t *word)
{
	const struct timespec a_while = { .tv_nsec = 50000000 };

	SYS6(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &a_while, 0, 0);
}

#if SPAWN_OWN_ERRNO

/* A thread's block begins with a pointer to itself, which is what the thread
 * register holds.  The copy at the top of the room has its own errno; the rest of
 * it is the caller's, like the stack protector's secret. */
static uintptr_t own_block(char *room)
{
	char *block = room + ROOM - BLOCK, *mine;
	uintptr_t self = (uintptr_t)block;

	__asm__("mov %%fs:0, %0" : "=r"(mine));
	memcpy(block, mine, BLOCK);
	memcpy(block, &self, sizeof self);
	return self;
}

/* The kernel puts the child on its stack; all it has from here are registers. */
static long clone3_call(struct clone_args *args, int (*entry)(void *), void *arg)
{
	register int (*fn)(void *) __asm__("r12") = entry;
	register void *data __asm__("r13") = arg;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[leave], %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "a"(SYS_clone3), "D"(args), "S"(sizeof *args), "r"(fn),
			   "r"(data), [leave] "i"(SYS_exit_group)
			 : "rcx", "r11", "memory");
	return ret;
}

pid_t spawn(struct clone_args *args, const struct spawn_rooms *r, unsigned i,
	    int (*entry)(void *), void *arg)
{
	char *room = r->at + (size_t)i * ROOM;

	args->stack = (uintptr_t)room;
	args->stack_size = ROOM - BLOCK;
	args->tls = own_block(room);
	/* a handler of the caller's would run on the caller's memory, and in there */
	args->flags |= CLONE_SETTLS |
		       (args->flags & CLONE_SIGHAND ? 0 : CLONE_CLEAR_SIGHAND);
	return (pid_t)clone3_call(args, entry, arg);
}

#else

pid_t spawn(struct clone_args *args, const struct spawn_rooms *r, unsigned i,
	    int (*entry)(void *), void *arg)
{
	char *end = r->at + (size_t)(i + 1) * ROOM;
	pid_t pid;

	if (args->flags & CLONE_VM)
		pid = clone(entry, end, (int)(args->flags | args->exit_signal), arg);
	else
		pid = sys_clone3(args);
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(entry(arg));
	return pid;
}

#endif
