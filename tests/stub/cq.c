/* SPDX-License-Identifier: BSD-3-Clause */
/* The stub's completion queues: a ring of finished ibv_wc for each. */
#include "stub.h"
#include <stdlib.h>

static _Atomic uint32_t next_handle;

static uint32_t ring_length(int cqe)
{
    uint32_t length = 1;

    while (length < (uint32_t)cqe)
        length *= 2;
    return length;
}

struct stub_cq *stub_make_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel, int comp_vector,
                             enum stub_verb verb)
{
    struct stub_context *ctx = stub_context_of(context);
    struct stub_cq *cq = NULL;
    int err;

    stub_check(&ctx->object, KIND_context, verb);
    if (channel)
        stub_check(&((struct stub_channel *)channel)->object, KIND_channel, verb);
    if ((err = stub_enter(verb, &ctx->object)))
        return stub_null(err);
    if (cqe < 1 || cqe > stub_limits(context)->max_cqe || comp_vector < 0 ||
        comp_vector >= context->num_comp_vectors)
        err = EINVAL;
    else if (!(cq = stub_new(KIND_cq, sizeof *cq, offsetof(struct stub_cq, object), &ctx->object)))
        err = ENOMEM;
    stub_leave(verb, &ctx->object);
    if (err)
        return stub_null(err);
    cq->mask = ring_length(cqe) - 1;
    cq->ring = calloc(cq->mask + 1, sizeof *cq->ring);
    if (!cq->ring) {
        stub_delete(&cq->object);
        return stub_null(ENOMEM);
    }
    cq->cq.context = context;
    cq->cq.handle = ++next_handle;
    cq->cq.cqe = (int)cq->mask + 1;
    cq->channel = (struct stub_channel *)channel;
    pthread_mutex_init(&cq->cq.mutex, NULL);
    pthread_cond_init(&cq->cq.cond, NULL);
    return cq;
}

STUB_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                         struct ibv_comp_channel *channel, int comp_vector)
{
    struct stub_cq *cq = stub_make_cq(context, cqe, channel, comp_vector, VERB_create_cq);

    if (!cq)
        return NULL;
    cq->cq.channel = channel;
    cq->cq.cq_context = cq_context;
    if (channel) {
        stub_adopt(&cq->channel->object, 1);
        pthread_mutex_lock(&stub_mutex);
        channel->refcnt++;
        pthread_mutex_unlock(&stub_mutex);
    }
    return &cq->cq;
}

STUB_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    (void)cq, (void)cqe;
    return EOPNOTSUPP;
}

STUB_EXPORT int ibv_destroy_cq(struct ibv_cq *ibcq)
{
    struct stub_cq *cq = (struct stub_cq *)ibcq;
    struct stub_channel *channel = cq->channel;
    int err;

    stub_check(&cq->object, KIND_cq, VERB_destroy_cq);
    if ((err = stub_enter(VERB_destroy_cq, &cq->object)))
        return stub_positive(err);
    stub_leave(VERB_destroy_cq, &cq->object);
    pthread_mutex_lock(&stub_mutex);
    err = cq->object.children ? EBUSY : 0;
    pthread_mutex_unlock(&stub_mutex);
    if (err)
        return err;
    stub_wait_polled(cq, "CQ");
    if (channel && !ibcq->channel)
        stub_check(&channel->object, KIND_channel, VERB_destroy_cq);
    if (channel)
        stub_queue_purge(&channel->events, ibcq);
    stub_queue_purge(&stub_context_of(ibcq->context)->events, ibcq);
    stub_wait_acked(&ibcq->comp_events_completed, &cq->comp_reported, "CQ", &ibcq->mutex);
    stub_wait_acked(&ibcq->async_events_completed, &cq->async_reported, "CQ", &ibcq->mutex);
    if (channel && ibcq->channel)
        stub_adopt(&channel->object, -1);
    if (channel) {
        pthread_mutex_lock(&stub_mutex);
        *(ibcq->channel ? &channel->channel.refcnt : &channel->quiet) -= 1;
        pthread_mutex_unlock(&stub_mutex);
    }
    if ((err = stub_delete(&cq->object)))
        return err;
    free(cq->ring);
    free(cq->extras);
    cq->ring = NULL;
    cq->extras = NULL;
    return 0;
}

static int lying_poll(struct stub_cq *cq, int num_entries, struct ibv_wc *wc)
{
    int value;

    (void)cq;
    if (!stub_poll_lies(&value))
        return 0;
    for (int i = 0; i < num_entries && i < value; i++)
        wc[i] = (struct ibv_wc){.wr_id = 0x11e5, .qp_num = 0x11e5};
    return value;
}

static int take(struct stub_cq *cq, int num_entries, struct ibv_wc *wc)
{
    uint32_t head = atomic_load_explicit(&cq->head, memory_order_acquire);
    uint32_t tail;
    int n = 0;

    if (head == atomic_load_explicit(&cq->tail, memory_order_relaxed))
        return 0;
    stub_lock_take(&cq->lock);
    tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    while (n < num_entries && tail != head)
        wc[n++] = cq->ring[tail++ & cq->mask];
    atomic_store_explicit(&cq->tail, tail, memory_order_relaxed);
    stub_lock_give(&cq->lock);
    return n;
}

bool stub_take_one(struct stub_cq *cq, struct ibv_wc *ret_wc, struct stub_extra *ret_extra)
{
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

    if (tail == atomic_load_explicit(&cq->head, memory_order_acquire))
        return false;
    *ret_wc = cq->ring[tail & cq->mask];
    if (cq->extras)
        *ret_extra = cq->extras[tail & cq->mask];
    atomic_store_explicit(&cq->tail, tail + 1, memory_order_relaxed);
    return true;
}

static __attribute__((noinline)) int slow_poll(struct stub_cq *cq, int num_entries, struct ibv_wc *wc)
{
    int n, err = stub_enter(VERB_poll_cq, &cq->object);

    if (err)
        return -err;
    n = lying_poll(cq, num_entries, wc);
    if (!n)
        n = take(cq, num_entries, wc);
    stub_leave(VERB_poll_cq, &cq->object);
    return n;
}

int stub_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
    struct stub_cq *cq = (struct stub_cq *)ibcq;
    int n;

    stub_check(&cq->object, KIND_cq, VERB_poll_cq);
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed)))
        n = slow_poll(cq, num_entries, wc);
    else {
        stub_count(VERB_poll_cq);
        n = take(cq, num_entries, wc);
    }
    stub_check(&cq->object, KIND_cq, VERB_poll_cq);
    return n;
}

int stub_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
    struct stub_cq *cq = (struct stub_cq *)ibcq;
    int want = solicited_only ? 1 : 2;

    stub_check(&cq->object, KIND_cq, VERB_req_notify_cq);
    if (STUB_UNLIKELY(atomic_load_explicit(&stub_hot, memory_order_relaxed))) {
        int err = stub_enter(VERB_req_notify_cq, &cq->object);

        if (err)
            return stub_positive(err);
        stub_leave(VERB_req_notify_cq, &cq->object);
    } else
        stub_count(VERB_req_notify_cq);
    if (stub_efa_limits(ibcq->context)) {
        if (solicited_only)
            return EOPNOTSUPP;
        if (!cq->channel)
            stub_die("req_notify_cq on a queue without a channel, whose doorbell libefa finds at NULL");
    }
    stub_lock_take(&cq->lock);
    if (cq->armed < want)
        cq->armed = want;
    stub_lock_give(&cq->lock);
    return 0;
}

STUB_EXPORT int stub_push_wc_ex(struct ibv_cq *ibcq, const struct ibv_wc *wc, int solicited, const uint8_t *sgid,
                               int unsolicited)
{
    struct stub_cq *cq = (struct stub_cq *)ibcq;
    struct stub_extra extra = {.has_sgid = sgid, .unsolicited = unsolicited};
    bool signal = false;
    uint32_t head;

    stub_check(&cq->object, KIND_cq, VERB_poll_cq);
    if (sgid)
        memcpy(extra.sgid.raw, sgid, sizeof extra.sgid.raw);
    stub_lock_take(&cq->lock);
    head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    if (head - atomic_load_explicit(&cq->tail, memory_order_relaxed) > cq->mask) {
        stub_lock_give(&cq->lock);
        return ENOMEM;
    }
    cq->ring[head & cq->mask] = *wc;
    if (cq->extras)
        cq->extras[head & cq->mask] = extra;
    atomic_store_explicit(&cq->head, head + 1, memory_order_release);
    if (cq->armed == 2 || (cq->armed && (solicited || wc->status))) {
        cq->armed = 0;
        signal = cq->channel;
    }
    stub_lock_give(&cq->lock);
    if (signal)
        stub_signal(cq);
    return 0;
}

STUB_EXPORT int stub_push_wc(struct ibv_cq *cq, const struct ibv_wc *wc, int solicited)
{
    return stub_push_wc_ex(cq, wc, solicited, NULL, 0);
}
