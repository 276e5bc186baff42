/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc for the brig executable: a process that lives for one command.  Small
 * blocks are cut from a static area, and from further ones when it is full (a
 * long configuration); what is freed is used again for the same size.  Large
 * ones (a captured megabyte) are mapped and unmapped.  A general allocator
 * spends more time in mmap and page faults here than the whole plan takes.
 *
 * Not linked into libbrig, whose callers have an allocator of their own.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	ARENA = 192 * 1024,
	FURTHER = 512 * 1024, /* each area after the first */
	ALIGN = 16,
	LARGE = 32 * 1024,
	KEPT = 128 * 1024, /* see give_back() */
	REUSED = 512, /* the largest size that is kept for the next one */
};

/* In front of every block; 16 bytes, so that what follows stays aligned. */
struct head {
	size_t size;   /* usable bytes */
	size_t mapped; /* length of the mapping, 0 in the arena */
};
_Static_assert(sizeof(struct head) == ALIGN, "blocks must stay aligned");

static _Alignas(ALIGN) unsigned char first[ARENA];
static unsigned char *arena = first;
static size_t room = ARENA, used;
static bool kept;

/* What was freed, by size; the block itself holds the way to the next. */
struct spare {
	struct spare *next;
};
static struct spare *spares[REUSED / ALIGN + 1];

static struct head *head_of(void *p)
{
	return (struct head *)((unsigned char *)p - sizeof(struct head));
}

/* Another area; what is left of the last one is not worth looking for. */
static int more(void)
{
	void *p = mmap(NULL, FURTHER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (p == MAP_FAILED)
		return 0;
	arena = p;
	room = FURTHER;
	used = 0;
	return 1;
}

/* The work; under a name the compiler has no opinion about. */
static void *take(size_t n)
{
	if (n > PTRDIFF_MAX - 2L * ALIGN) {
		errno = ENOMEM;
		return NULL;
	}
	size_t need = sizeof(struct head) + ((n + ALIGN - 1) & ~(size_t)(ALIGN - 1));
	size_t size = need - sizeof(struct head);
	struct head *h;
	if (size <= REUSED && spares[size / ALIGN]) {
		struct spare *s = spares[size / ALIGN];
		spares[size / ALIGN] = s->next;
		return s;
	}
	if (need <= LARGE && (need <= room - used || more())) {
		h = (struct head *)(arena + used);
		used += need;
		*h = (struct head){ size, 0 };
		return h + 1;
	}
	h = mmap(NULL, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (h == MAP_FAILED)
		return NULL;
	*h = (struct head){ need - sizeof *h, need };
	return h + 1;
}

static void give_back(void *p)
{
	struct head *h = head_of(p);
	if (h->mapped && h->mapped < KEPT && !kept) {
		/* The first one, usually the only one, is left mapped: the end of
		 * the process, which is near, does it for less. */
		kept = true;
	} else if (h->mapped) {
		int saved = errno;
		munmap(h, h->mapped);
		errno = saved;
	} else if ((unsigned char *)p + h->size == arena + used) {
		used -= sizeof *h + h->size; /* the last block comes back */
	} else if (h->size >= sizeof(struct spare) && h->size <= REUSED) {
		struct spare *s = p;
		s->next = spares[h->size / ALIGN];
		spares[h->size / ALIGN] = s;
	}
}

void *malloc(size_t n)
{
	return take(n);
}

void free(void *p)
{
	if (p)
		give_back(p);
}

void *calloc(size_t n, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(n, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	void *p = take(total);
	if (p && !head_of(p)->mapped)
		memset(p, 0, total);
	return p;
}

void *realloc(void *p, size_t n)
{
	if (!p)
		return take(n);
	struct head *h = head_of(p);
	if (n <= h->size)
		return p;
	void *q = take(n);
	if (!q)
		return NULL;
	memcpy(q, p, h->size);
	give_back(p);
	return q;
}

void *aligned_alloc(size_t align, size_t n)
{
	if (align <= ALIGN)
		return take(n);
	errno = ENOMEM; /* nothing in brig asks for more */
	return NULL;
}
