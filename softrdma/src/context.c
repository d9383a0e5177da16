/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and their handles. */
#include "context.h"

#include <fcntl.h>

#include "config.h"
#include "event.h"
#include "fault/fault.h"
#include "fd.h"
#include "libc.h"
#include "lock.h"
#include "nic.h"
#include "object.h"
#include "process.h"

/* Descriptors of this process for each context; a forked child starts with its parent's copies. */
static _Atomic uint32_t open_fds[MAX_CONTEXTS];

static void set_holder(struct context *c, uint32_t proc, bool holds)
{
    uint64_t bit = UINT64_C(1) << proc % 64;

    if (holds)
        atomic_fetch_or(&c->holders[proc / 64], bit);
    else
        atomic_fetch_and(&c->holders[proc / 64], ~bit);
}

static uint32_t take_context(struct region *r, int device)
{
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        struct context *c = &r->context[i];

        if (c->used)
            continue;
        if (c->generation == 0)
            lock_init(&c->events_lock);
        c->generation = ++r->generation;
        c->device = (uint32_t)device;
        atomic_store(&c->dead, CONTEXT_ALIVE);
        c->lowest_free = c->highest = 0;
        for (size_t k = 0; k < HANDLE_CHUNKS; k++)
            atomic_store(&c->handles[k], 0);
        c->async_head = c->async_tail = 0;
        atomic_store(&c->async_pending, 0);
        for (size_t k = 0; k < NELEM(c->holders); k++)
            atomic_store(&c->holders[k], 0);
        c->used = 1;
        return i;
    }
    return NONE;
}

int context_open(int device, int flags)
{
    int fd, err = process_join();
    struct region *r = process.region;
    uint32_t i;

    if (err)
        return -err;
    if (nic_is_removed(r, (uint32_t)device))
        return -ENODEV;
    err = fault_call(r, (uint32_t)device, "OPEN");
    if (err)
        return -err;
    fd = libc_get()->fcntl(process.region_fd, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
    if (fd < 0)
        return -errno;
    if (fd >= FD_LIMIT) {
        libc_get()->close(fd);
        return -EMFILE;
    }
    lock_take(&r->lock);
    process_reap(r);
    i = take_context(r, device);
    if (i != NONE)
        set_holder(&r->context[i], process.proc, true);
    lock_give(&r->lock);
    if (i == NONE) {
        libc_get()->close(fd);
        return -EMFILE;
    }
    event_context_opened(i);
    atomic_store(&open_fds[i], 1);
    fd_set_kind(fd, FD_COMMAND, i);
    TRACE("open device %d: fd %d context %u", device, fd, i);
    return fd;
}

void context_add_fd(uint32_t context, int fd)
{
    atomic_fetch_add(&open_fds[context], 1);
    fd_set_kind(fd, FD_COMMAND, context);
}

/* Where the entry of a handle is, or NULL if there is no room for it. */
static uint32_t *entry_of(struct region *r, uint32_t context, uint32_t handle)
{
    uint64_t chunk =
        atomic_load_explicit(&r->context[context].handles[handle / HANDLE_CHUNK], memory_order_acquire);
    uint32_t *entries;

    if (!chunk)
        return NULL;
    entries = region_at(r, chunk, HANDLE_CHUNK * sizeof(uint32_t));
    return &entries[handle % HANDLE_CHUNK];
}

/* Everything the program has not destroyed itself, children before parents. */
static void destroy(struct region *r, uint32_t context)
{
    static const enum object_type order[] = {OBJ_QP, OBJ_COUNTER, OBJ_MW, OBJ_AH, OBJ_SRQ, OBJ_CQ, OBJ_MR, OBJ_PD};
    struct context *c = &r->context[context];

    for (size_t k = 0; k < NELEM(order); k++) {
        for (uint32_t h = 0; h < c->highest; h++) {
            uint32_t *entry = entry_of(r, context, h);

            if (entry && *entry >> 24 == order[k]) {
                object_free(r, order[k], *entry & 0xffffff);
                *entry = 0;
            }
        }
    }
    for (size_t k = 0; k < HANDLE_CHUNKS; k++) {
        if (atomic_load(&c->handles[k]))
            heap_free(r, atomic_load(&c->handles[k]), HANDLE_CHUNK * sizeof(uint32_t));
        atomic_store(&c->handles[k], 0);
    }
    c->used = 0;
    TRACE("context %u destroyed", context);
}

static void drop(struct region *r, uint32_t context, uint32_t proc)
{
    struct context *c = &r->context[context];
    uint64_t left = 0;

    set_holder(c, proc, false);
    for (size_t k = 0; k < NELEM(c->holders); k++)
        left |= atomic_load(&c->holders[k]);
    if (!left)
        destroy(r, context);
}

void context_fd_closed(uint32_t context)
{
    struct region *r = process.region;

    if (atomic_fetch_sub(&open_fds[context], 1) != 1)
        return;
    lock_take(&r->lock);
    process_reap(r);
    drop(r, context, process.proc);
    lock_give(&r->lock);
}

void context_drop_holder(struct region *r, uint32_t proc)
{
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        struct context *c = &r->context[i];

        if (c->used && atomic_load(&c->holders[proc / 64]) >> proc % 64 & 1)
            drop(r, i, proc);
    }
}

void context_inherit(struct region *r, uint32_t child)
{
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        if (atomic_load(&open_fds[i]))
            set_holder(&r->context[i], child, true);
    }
}

bool context_is_held(struct region *r, uint32_t context)
{
    for (uint32_t k = 0; k < NELEM(r->context[context].holders); k++) {
        uint64_t bits = atomic_load(&r->context[context].holders[k]);

        for (; bits; bits &= bits - 1) {
            if (process_alive(&r->proc[k * 64 + (uint32_t)__builtin_ctzll(bits)]))
                return true;
        }
    }
    return false;
}

uint32_t handle_new(struct region *r, uint32_t context, enum object_type type, uint32_t index)
{
    struct context *c = &r->context[context];
    uint32_t h = c->lowest_free, *entry = NULL;

    for (; h < MAX_HANDLES; h++) {
        if (!atomic_load(&c->handles[h / HANDLE_CHUNK]))
            atomic_store(&c->handles[h / HANDLE_CHUNK], heap_alloc(r, HANDLE_CHUNK * sizeof(uint32_t)));
        entry = entry_of(r, context, h);
        if (!entry)
            return NONE;
        if (!*entry)
            break;
    }
    if (h == MAX_HANDLES)
        return NONE;
    __atomic_store_n(entry, (uint32_t)type << 24 | index, __ATOMIC_RELEASE);
    c->lowest_free = h + 1;
    if (h >= c->highest)
        c->highest = h + 1;
    return h;
}

void handle_free(struct region *r, uint32_t context, uint32_t handle)
{
    struct context *c = &r->context[context];

    *entry_of(r, context, handle) = 0;
    if (handle < c->lowest_free)
        c->lowest_free = handle;
}

uint32_t handle_find(struct region *r, uint32_t context, uint64_t handle, enum object_type type)
{
    uint32_t *at, entry;

    at = handle < MAX_HANDLES ? entry_of(r, context, (uint32_t)handle) : NULL;
    if (!at)
        return NONE;
    entry = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    return entry >> 24 == type ? entry & 0xffffff : NONE;
}
