/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipes, counts, and what waits for a service thread. */
#include "event.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config.h"
#include "fabric/borrow.h"
#include "fabric/discovery.h"
#include "fd.h"
#include "libc.h"
#include "lock.h"
#include "process.h"
#include "service.h"

/* This process's ends of a pipe; valid while the generation is that of the shared object. Children inherit
 * both. Neither number is given back to the system while somebody uses it: it may be another file's the next
 * moment. */
struct pipe_ends {
    _Atomic uint32_t generation; /* set when the rest is there, and whoever clears it closes the write end */
    _Atomic uint32_t ended;      /* the generation whose write end was closed, and which can still be read */
    _Atomic uint32_t users;      /* threads between pipe_get and pipe_put */
    _Atomic int read_fd, write_fd;
};

static struct pipe_ends async_pipe[MAX_CONTEXTS];
static struct pipe_ends channel_pipe[MAX_CHANNELS];

static int open_pipe(struct pipe_ends *ends, uint32_t generation)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return -errno;
    if (fds[0] >= FD_LIMIT) {
        libc_get()->close(fds[0]);
        libc_get()->close(fds[1]);
        return -EMFILE;
    }
    libc_get()->fcntl(fds[1], F_SETFL, O_NONBLOCK);
    ends->read_fd = fds[0];
    ends->write_fd = fd_make_internal(fds[1]);
    ends->generation = generation;
    return fds[0];
}

static void close_pipe(struct pipe_ends *ends, int fd)
{
    uint32_t generation = ends->generation;
    int write_fd = ends->write_fd;

    if (!generation || ends->read_fd != fd ||
        !atomic_compare_exchange_strong(&ends->generation, &generation, 0))
        return;
    while (atomic_load(&ends->users)) /* none of them waits for anything */
        sched_yield();
    fd_close_internal(write_fd);
}

/* Is the pipe this process's, and still open? Then it stays so until pipe_put. */
static bool pipe_get(struct region *r, struct pipe_ends *ends, uint32_t generation)
{
    if (r != process.region || !generation || ends->generation != generation)
        return false;
    atomic_fetch_add(&ends->users, 1);
    if (ends->generation == generation)
        return true;
    atomic_fetch_sub(&ends->users, 1);
    return false;
}

static void pipe_put(struct pipe_ends *ends)
{
    atomic_fetch_sub(&ends->users, 1);
}

void event_in_child(void)
{
    for (size_t i = 0; i < NELEM(async_pipe); i++)
        atomic_store(&async_pipe[i].users, 0);
    for (size_t i = 0; i < NELEM(channel_pipe); i++) {
        if (atomic_load(&channel_pipe[i].users))
            atomic_store(&channel_pipe[i].users, 0);
    }
}

static bool write_event(const struct pipe_ends *ends, const void *event, size_t size)
{
    return libc_get()->write(ends->write_fd, event, size) == (ssize_t)size;
}

void event_context_opened(uint32_t context)
{
    /* libibverbs closes the command descriptor first: another thread may take the place before the pipe of
     * the one that had it is closed. */
    close_pipe(&async_pipe[context], async_pipe[context].read_fd);
}

int event_open_async(struct region *r, uint32_t context)
{
    int fd;

    if (async_pipe[context].generation == r->context[context].generation)
        return -EBUSY;
    fd = open_pipe(&async_pipe[context], r->context[context].generation);
    if (fd >= 0)
        fd_set_kind(fd, FD_ASYNC, context);
    return fd;
}

int event_open_channel(struct region *r, uint32_t context, uint32_t *ret_channel)
{
    for (uint32_t i = 0; i < MAX_CHANNELS; i++) {
        struct channel *c = &r->channel[i];
        int fd;

        if (c->used)
            continue;
        fd = open_pipe(&channel_pipe[i], r->generation + 1);
        if (fd < 0)
            return fd;
        if (c->generation == 0)
            lock_init(&c->lock);
        c->generation = ++r->generation;
        c->context = context;
        c->proc = process.proc;
        c->write_fd = channel_pipe[i].write_fd;
        c->refs = 0;
        c->closed = 0;
        c->used = 1;
        fd_set_kind(fd, FD_CHANNEL, i);
        *ret_channel = i;
        return fd;
    }
    return -EMFILE;
}

/* The reading end goes, whether or not the other has gone before. */
static void close_reader(struct pipe_ends *ends, int fd)
{
    if (ends->read_fd == fd)
        atomic_store(&ends->ended, 0);
    close_pipe(ends, fd);
}

void event_async_fd_closed(uint32_t context, int fd)
{
    close_reader(&async_pipe[context], fd);
}

/* One of the channel's queues has an event less to acknowledge; the caller holds region.lock. */
static void uncount(struct region *r, uint32_t channel, uint64_t user)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_CQS); w++) {
        for (uint64_t bits = r->cq_bits[w]; bits; bits &= bits - 1) {
            struct cq *cq = &r->cq[w * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (cq->channel == channel && cq->user == user) {
                atomic_fetch_sub(&cq->comp_events, 1);
                return;
            }
        }
    }
}

/* A pipe's reading end once more, in a description of our own that does not block while another thread reads
 * too. */
static int open_again(int read_fd)
{
    char path[40];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", read_fd);
    return libc_get()->open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Events that nobody has read go with the descriptor, and nobody will wait for them to be acknowledged. */
static void discard_unread(struct region *r, uint32_t channel, int read_fd)
{
    struct ib_uverbs_comp_event_desc event;
    int fd = open_again(read_fd);

    if (fd < 0)
        return;
    while (libc_get()->read(fd, &event, sizeof(event)) == (ssize_t)sizeof(event))
        uncount(r, channel, event.cq_handle);
    libc_get()->close(fd);
}

void event_channel_fd_closed(uint32_t channel, int fd)
{
    struct region *r = process.region;
    struct channel *c = &r->channel[channel];
    bool mine;

    lock_take(&r->lock);
    mine = c->proc == process.proc;
    if (mine)
        atomic_store(&c->closed, 1); /* before the number is given back: see borrow.c */
    lock_give(&r->lock);
    close_reader(&channel_pipe[channel], fd);
    lock_take(&r->lock);
    if (mine) {
        discard_unread(r, channel, fd);
        if (c->refs == 0)
            c->used = 0;
    }
    lock_give(&r->lock);
}

void event_channel_put(struct region *r, uint32_t channel)
{
    struct channel *c = &r->channel[channel];

    if (--c->refs == 0 && c->closed)
        c->used = 0;
}

void event_completion(struct region *r, struct cq *cq)
{
    struct ib_uverbs_comp_event_desc event = {cq->user};
    struct borrow_pipe pipe;
    struct channel *c;

    if (cq->channel == NONE)
        return;
    c = &r->channel[cq->channel];
    if (pipe_get(r, &channel_pipe[cq->channel], cq->channel_generation)) {
        if (write_event(&channel_pipe[cq->channel], &event, sizeof(event)))
            atomic_fetch_add(&cq->comp_events, 1);
        pipe_put(&channel_pipe[cq->channel]);
        return;
    }
    pipe = (struct borrow_pipe){cq->channel, c->proc, c->write_fd, &c->generation, &c->closed};
    if (borrow_write(r, &pipe, &event, sizeof(event))) {
        atomic_fetch_add(&cq->comp_events, 1);
        return;
    }
    atomic_fetch_add(&cq->pending, 1);
    atomic_fetch_add(&r->events_pending, 1);
    if (process_alive(&r->proc[c->proc]))
        fabric_wake(&r->proc[c->proc]);
    else
        service_wake_all(r);
}

void event_write_pending(struct region *r)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_CQS); w++) {
        for (uint64_t bits = r->cq_bits[w]; bits; bits &= bits - 1) {
            struct cq *cq = &r->cq[w * 64 + (uint32_t)__builtin_ctzll(bits)];
            struct ib_uverbs_comp_event_desc event;

            if (!atomic_load(&cq->pending) || cq->channel == NONE ||
                !pipe_get(r, &channel_pipe[cq->channel], cq->channel_generation))
                continue;
            lock_take(&cq->lock);
            event.cq_handle = cq->user;
            for (uint32_t n = atomic_exchange(&cq->pending, 0); n; n--) {
                atomic_fetch_sub(&r->events_pending, 1);
                if (cq->used && write_event(&channel_pipe[cq->channel], &event, sizeof(event)))
                    atomic_fetch_add(&cq->comp_events, 1);
            }
            lock_give(&cq->lock);
            pipe_put(&channel_pipe[cq->channel]);
        }
    }
}

void event_async(struct region *r, uint32_t context, uint32_t object, uint64_t element, uint32_t type,
                 uint32_t *counter)
{
    struct context *c = &r->context[context];
    struct ib_uverbs_async_event_desc event = {.element = element, .event_type = type};
    bool queued, here = pipe_get(r, &async_pipe[context], c->generation);

    TRACE("async event %u", type);
    lock_take(&c->events_lock);
    if (here) {
        queued = write_event(&async_pipe[context], &event, sizeof(event));
        pipe_put(&async_pipe[context]);
    } else {
        queued = c->async_tail - c->async_head < MAX_PENDING_ASYNC;
        if (queued) {
            c->pending[c->async_tail++ % MAX_PENDING_ASYNC] = (struct pending_async){element, type, object};
            atomic_store(&c->async_pending, 1);
        }
    }
    if (queued && counter)
        (*counter)++;
    lock_give(&c->events_lock);
    if (!here)
        service_wake_all(r);
}

void event_write_pending_async(struct region *r)
{
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        struct context *c = &r->context[i];

        if (!c->used || !atomic_load(&c->async_pending) || !pipe_get(r, &async_pipe[i], c->generation))
            continue;
        lock_take(&c->events_lock);
        for (; c->async_head != c->async_tail; c->async_head++) {
            struct pending_async *p = &c->pending[c->async_head % MAX_PENDING_ASYNC];
            struct ib_uverbs_async_event_desc event = {.element = p->element, .event_type = p->event_type};

            if (!write_event(&async_pipe[i], &event, sizeof(event)))
                break;
        }
        atomic_store(&c->async_pending, c->async_head != c->async_tail);
        lock_give(&c->events_lock);
        pipe_put(&async_pipe[i]);
    }
}

/* The write end alone goes: what was written before can still be read, and then comes the end. */
static void end_pipe(struct pipe_ends *ends)
{
    uint32_t generation = ends->generation;

    atomic_store(&ends->ended, generation);
    close_pipe(ends, ends->read_fd);
}

/* Events of that element in a pipe that has ended: nothing can be written back to it, so they stay. */
static uint32_t count_unread(struct pipe_ends *ends, uint32_t generation, uint64_t element, size_t size)
{
    uint64_t event[2];
    uint32_t unread = 0;
    int copy[2];

    if (!generation || atomic_load(&ends->ended) != generation || pipe2(copy, O_CLOEXEC | O_NONBLOCK) != 0)
        return 0;
    if (tee(ends->read_fd, copy[1], 1 << 20, SPLICE_F_NONBLOCK) > 0) {
        while (libc_get()->read(copy[0], event, size) == (ssize_t)size)
            unread += event[0] == element;
    }
    libc_get()->close(copy[0]);
    libc_get()->close(copy[1]);
    return unread;
}

void event_end_dead(struct region *r)
{
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        struct context *c = &r->context[i];

        if (c->used && atomic_load(&c->dead) == CONTEXT_DISASSOCIATED &&
            async_pipe[i].generation == c->generation && !atomic_load(&c->async_pending))
            end_pipe(&async_pipe[i]);
    }
    for (uint32_t i = 0; i < MAX_CHANNELS; i++) {
        struct channel *c = &r->channel[i];

        if (c->used && atomic_load(&r->context[c->context].dead) == CONTEXT_DISASSOCIATED && c->generation &&
            channel_pipe[i].generation == c->generation) {
            if (c->proc == process.proc)
                c->write_fd = -1; /* nobody is to borrow it */
            end_pipe(&channel_pipe[i]);
        }
    }
}

/* Reads the pipe dry and writes the other objects' events back. Both kinds of event begin with the element.
 */
static uint32_t take_back(const struct pipe_ends *ends, uint64_t element, size_t size)
{
    uint64_t event[2];
    uint32_t gone = 0;
    int n = 0, fd = open_again(ends->read_fd);

    if (fd < 0)
        return 0;
    if (libc_get()->ioctl(fd, FIONREAD, &n) != 0)
        n = 0;
    for (n /= (int)size; n > 0 && libc_get()->read(fd, event, size) == (ssize_t)size; n--) {
        if (event[0] == element)
            gone++;
        else
            write_event(ends, event, size);
    }
    libc_get()->close(fd);
    return gone;
}

uint32_t event_forget_completions(struct region *r, struct cq *cq)
{
    uint32_t gone = 0;

    if (cq->channel == NONE)
        return 0;
    lock_take(&cq->lock);
    cq->armed = CQ_IDLE;
    atomic_fetch_sub(&r->events_pending, atomic_exchange(&cq->pending, 0));
    lock_give(&cq->lock);
    if (pipe_get(r, &channel_pipe[cq->channel], cq->channel_generation)) {
        struct channel *c = &r->channel[cq->channel];

        lock_take(&c->lock);
        gone = take_back(&channel_pipe[cq->channel], cq->user, sizeof(struct ib_uverbs_comp_event_desc));
        lock_give(&c->lock);
        pipe_put(&channel_pipe[cq->channel]);
    } else {
        gone = count_unread(&channel_pipe[cq->channel], cq->channel_generation, cq->user,
                            sizeof(struct ib_uverbs_comp_event_desc));
    }
    return atomic_load(&cq->comp_events) - gone;
}

uint32_t event_forget_async(struct region *r, uint32_t context, uint32_t object, uint64_t element,
                            uint32_t *counter)
{
    struct context *c = &r->context[context];
    uint32_t gone = 0, kept, reported;

    lock_take(&c->events_lock);
    kept = c->async_head;
    for (uint32_t i = c->async_head; i != c->async_tail; i++) {
        struct pending_async p = c->pending[i % MAX_PENDING_ASYNC];

        if (p.object == object)
            gone++;
        else
            c->pending[kept++ % MAX_PENDING_ASYNC] = p;
    }
    c->async_tail = kept;
    if (*counter && pipe_get(r, &async_pipe[context], c->generation)) {
        gone += take_back(&async_pipe[context], element, sizeof(struct ib_uverbs_async_event_desc));
        pipe_put(&async_pipe[context]);
    } else if (*counter) {
        gone += count_unread(&async_pipe[context], c->generation, element,
                             sizeof(struct ib_uverbs_async_event_desc));
    }
    reported = *counter - gone;
    lock_give(&c->events_lock);
    return reported;
}
