/* SPDX-License-Identifier: BSD-3-Clause */
/* What is written into which pipe, what is counted, and what waits for a service thread. */
#include "event.h"

#include "config.h"
#include "fabric/borrow.h"
#include "fabric/discovery.h"
#include "fd.h"
#include "libc.h"
#include "lock.h"
#include "pipe.h"
#include "process.h"
#include "service.h"

static struct pipe_ends async_pipe[MAX_CONTEXTS];
static struct pipe_ends channel_pipe[MAX_CHANNELS];

void event_in_child(void)
{
    for (size_t i = 0; i < NELEM(async_pipe); i++)
        atomic_store(&async_pipe[i].users, 0);
    for (size_t i = 0; i < NELEM(channel_pipe); i++) {
        if (atomic_load(&channel_pipe[i].users))
            atomic_store(&channel_pipe[i].users, 0);
    }
}

void event_context_opened(uint32_t context)
{
    /* libibverbs closes the command descriptor first: another thread may take the place before the pipe of
     * the one that had it is closed. */
    pipe_close(&async_pipe[context], async_pipe[context].read_fd);
}

int event_open_async(struct region *r, uint32_t context)
{
    int fd;

    if (async_pipe[context].generation == r->context[context].generation)
        return -EBUSY;
    fd = pipe_open(&async_pipe[context], r->context[context].generation);
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
        fd = pipe_open(&channel_pipe[i], r->generation + 1);
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

void event_async_fd_closed(uint32_t context, int fd)
{
    pipe_close_reader(&async_pipe[context], fd);
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

/* Events that nobody has read go with the descriptor, and nobody will wait for them to be acknowledged. */
static void discard_unread(struct region *r, uint32_t channel, int read_fd)
{
    struct ib_uverbs_comp_event_desc event;
    int fd = pipe_open_again(read_fd);

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
    pipe_close_reader(&channel_pipe[channel], fd);
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

/* The count is raised first: a process that is killed while it writes has written, and would not count any more. A count
 * that differs from what the program has read keeps the program in ibv_destroy_cq for ever. */
static void write_completion(const struct pipe_ends *ends, struct cq *cq)
{
    struct ib_uverbs_comp_event_desc event = {cq->user};

    atomic_fetch_add(&cq->comp_events, 1);
    if (!pipe_write(ends, &event, sizeof(event)))
        atomic_fetch_sub(&cq->comp_events, 1);
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
        write_completion(&channel_pipe[cq->channel], cq);
        pipe_put(&channel_pipe[cq->channel]);
        return;
    }
    pipe = (struct borrow_pipe){cq->channel, c->proc, c->write_fd, &c->generation, &c->closed};
    if (borrow_write(r, &pipe, &event, sizeof(event), &cq->comp_events))
        return;
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

            if (!atomic_load(&cq->pending) || cq->channel == NONE ||
                !pipe_get(r, &channel_pipe[cq->channel], cq->channel_generation))
                continue;
            lock_take(&cq->lock);
            for (uint32_t n = atomic_exchange(&cq->pending, 0); n; n--) {
                atomic_fetch_sub(&r->events_pending, 1);
                if (cq->used)
                    write_completion(&channel_pipe[cq->channel], cq);
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
        if (counter)
            (*counter)++;
        queued = pipe_write(&async_pipe[context], &event, sizeof(event));
        if (!queued && counter)
            (*counter)--;
        pipe_put(&async_pipe[context]);
    } else {
        queued = c->async_tail - c->async_head < MAX_PENDING_ASYNC;
        if (queued) {
            c->pending[c->async_tail++ % MAX_PENDING_ASYNC] = (struct pending_async){element, type, object};
            atomic_store(&c->async_pending, 1);
            if (counter)
                (*counter)++;
        }
    }
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

            if (!pipe_write(&async_pipe[i], &event, sizeof(event)))
                break;
        }
        atomic_store(&c->async_pending, c->async_head != c->async_tail);
        lock_give(&c->events_lock);
        pipe_put(&async_pipe[i]);
    }
}

void event_end_dead(struct region *r)
{
    for (uint32_t i = 0; i < MAX_CONTEXTS; i++) {
        struct context *c = &r->context[i];

        if (c->used && atomic_load(&c->dead) == CONTEXT_DISASSOCIATED &&
            async_pipe[i].generation == c->generation && !atomic_load(&c->async_pending))
            pipe_end(&async_pipe[i]);
    }
    for (uint32_t i = 0; i < MAX_CHANNELS; i++) {
        struct channel *c = &r->channel[i];

        if (c->used && atomic_load(&r->context[c->context].dead) == CONTEXT_DISASSOCIATED && c->generation &&
            channel_pipe[i].generation == c->generation) {
            if (c->proc == process.proc)
                c->write_fd = -1; /* nobody is to borrow it */
            pipe_end(&channel_pipe[i]);
        }
    }
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
        gone = pipe_take_back(&channel_pipe[cq->channel], cq->user, sizeof(struct ib_uverbs_comp_event_desc));
        lock_give(&c->lock);
        pipe_put(&channel_pipe[cq->channel]);
    } else {
        gone = pipe_count_unread(&channel_pipe[cq->channel], cq->channel_generation, cq->user,
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
        gone += pipe_take_back(&async_pipe[context], element, sizeof(struct ib_uverbs_async_event_desc));
        pipe_put(&async_pipe[context]);
    } else if (*counter) {
        gone += pipe_count_unread(&async_pipe[context], c->generation, element,
                             sizeof(struct ib_uverbs_async_event_desc));
    }
    reported = *counter - gone;
    lock_give(&c->events_lock);
    return reported;
}
