/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libstarve.so: loaded before a program starts, it lets the n-th allocation of chosen libraries fail, and counts the
 * blocks that they have and have not given back. Others' allocations are not touched: a caller is known by the address
 * that malloc returns to. Needs the C library of GNU, whose own allocator is still there by another name.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_RANGES = 128, MAX_BLOCKS = 1 << 16 };

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

struct range {
    uintptr_t start, end;
    int owner;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[MAX_RANGES];
static int range_count;
static long seen, first = -1, last; /* allocations `first` to `last` fail, counted from 1 */
static struct {
    void *block;
    int owner;
} blocks[MAX_BLOCKS];
static long live[MAX_RANGES];

static size_t slot_of(const void *block)
{
    return (size_t)(((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15u >> 32) % MAX_BLOCKS;
}

/* Entries are looked for over a whole window, so that one that was taken out ends no search. */
static void note(void *block, int owner)
{
    for (size_t i = slot_of(block), n = 0; n < 256; n++, i = (i + 1) % MAX_BLOCKS)
        if (!blocks[i].block) {
            blocks[i].block = block;
            blocks[i].owner = owner;
            live[owner]++;
            return;
        }
    abort();
}

static int forget(void *block)
{
    for (size_t i = slot_of(block), n = 0; n < 256; n++, i = (i + 1) % MAX_BLOCKS)
        if (blocks[i].block == block) {
            blocks[i].block = NULL;
            live[blocks[i].owner]--;
            return blocks[i].owner;
        }
    return -1;
}

static int owner_of(void *caller)
{
    for (int i = 0; i < range_count; i++)
        if ((uintptr_t)caller >= ranges[i].start && (uintptr_t)caller < ranges[i].end)
            return ranges[i].owner;
    return -1;
}

static bool is_refused(int owner)
{
    bool refused;

    if (owner < 0)
        return false;
    pthread_mutex_lock(&lock);
    seen++;
    refused = first >= 0 && seen >= first && seen <= last;
    pthread_mutex_unlock(&lock);
    if (refused)
        errno = ENOMEM;
    return refused;
}

static void *noted(void *block, int owner)
{
    if (owner >= 0 && block) {
        pthread_mutex_lock(&lock);
        note(block, owner);
        pthread_mutex_unlock(&lock);
    }
    return block;
}

EXPORT void *malloc(size_t size)
{
    int owner = owner_of(__builtin_return_address(0));

    return is_refused(owner) ? NULL : noted(__libc_malloc(size), owner);
}

EXPORT void *calloc(size_t count, size_t size)
{
    int owner = owner_of(__builtin_return_address(0));

    return is_refused(owner) ? NULL : noted(__libc_calloc(count, size), owner);
}

EXPORT void free(void *block)
{
    if (block && range_count) {
        pthread_mutex_lock(&lock);
        forget(block);
        pthread_mutex_unlock(&lock);
    }
    __libc_free(block);
}

EXPORT void *realloc(void *block, size_t size)
{
    int owner = owner_of(__builtin_return_address(0)), before = -1;
    void *moved;

    if (is_refused(owner))
        return NULL;
    if (block && range_count) {
        pthread_mutex_lock(&lock);
        before = forget(block);
        pthread_mutex_unlock(&lock);
    }
    moved = __libc_realloc(block, size);
    return moved ? noted(moved, owner) : (noted(size ? block : NULL, before), NULL);
}

struct search {
    const char *part;
    int owner, found;
};

static int look_at(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct search *search = argument;
    (void)size;

    if (!object->dlpi_name || !strstr(object->dlpi_name, search->part))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X) || range_count == MAX_RANGES)
            continue;
        ranges[range_count].start = object->dlpi_addr + part->p_vaddr;
        ranges[range_count].end = ranges[range_count].start + part->p_memsz;
        ranges[range_count++].owner = search->owner;
        search->found++;
    }
    return 0;
}

/* From now on the loaded libraries with this in their path are watched, under that number; returns how many there are. */
EXPORT int starve_watch(const char *part, int owner)
{
    struct search search = {part, owner, 0};

    dl_iterate_phdr(look_at, &search);
    return search.found;
}

/* Counts anew, and lets the allocations from the n-th on fail, so many of them. 0: none. */
EXPORT void starve(long nth, long count)
{
    pthread_mutex_lock(&lock);
    seen = 0;
    first = nth > 0 ? nth : -1;
    last = nth + count - 1;
    pthread_mutex_unlock(&lock);
}

/* How many allocations there were since. */
EXPORT long starve_seen(void)
{
    return seen;
}

/* How many blocks that were allocated under this number were not given back. */
EXPORT long starve_live(int owner)
{
    return live[owner];
}
