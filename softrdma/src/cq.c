/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: creation, arming, resizing, and the event counts that a destroy answers. */
#include <unistd.h>

#include "context.h"
#include "event.h"
#include "fd.h"
#include "lock.h"
#include "object.h"

/* The channel whose reading end that descriptor is; NONE without one. */
static int find_channel(struct call *c, uint32_t *ret_channel)
{
    uint32_t index;
    int fd;

    *ret_channel = NONE;
    if (!call_has(c, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL))
        return 0;
    fd = (int)call_u64(c, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
    if (fd_kind(fd, &index) != FD_CHANNEL || c->r->channel[index].context != c->context)
        return EBADF;
    *ret_channel = index;
    return 0;
}

bool cq_has_memory(const struct call *c)
{
    return call_has(c, ATTR_CREATE_CQ_BUFFER_VA) || call_has(c, ATTR_CREATE_CQ_BUFFER_FD);
}

static int check(struct call *c)
{
    if (call_u32(c, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR) >= (uint32_t)sysconf(_SC_NPROCESSORS_CONF))
        return EINVAL;
    if (call_u32(c, UVERBS_ATTR_CREATE_CQ_FLAGS))
        return EOPNOTSUPP;
    if (cq_has_memory(c) && !c->device->model->has_cq_memory)
        return EOPNOTSUPP;
    return 0;
}

/* Makes it in slot i; the caller undoes the slot. */
static int make(struct call *c, uint32_t i, uint32_t channel)
{
    struct region *r = c->r;
    struct cq *cq = &r->cq[i];
    uint32_t h, cqe = call_u32(c, UVERBS_ATTR_CREATE_CQ_CQE);
    int err;

    cq->context = c->context;
    cq->device = (uint32_t)c->device->index;
    cq->refs = 0;
    cq->channel = channel;
    cq->channel_generation = channel == NONE ? 0 : r->channel[channel].generation;
    cq->armed = CQ_IDLE;
    cq->overrun = CQ_WHOLE;
    atomic_store(&cq->comp_events, 0);
    cq->async_events = 0;
    cq->own = (struct queue){0};
    cq->user = call_u64(c, UVERBS_ATTR_CREATE_CQ_USER_HANDLE);
    h = handle_new(r, c->context, OBJ_CQ, i);
    if (h == NONE)
        return ENOMEM;
    err = c->device->model->create_cq(c, cq, &cqe);
    if (err)
        goto err_handle;
    err = call_out(c, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &cqe, sizeof(cqe));
    if (!err)
        err = call_new_handle(c, UVERBS_ATTR_CREATE_CQ_HANDLE, h);
    if (err)
        goto err_queue;
    cq->used = 1;
    if (channel != NONE)
        r->channel[channel].refs++;
    return 0;

err_queue:
    c->device->model->destroy_cq(r, cq);
err_handle:
    handle_free(r, c->context, h);
    return err;
}

int cq_create(struct call *c)
{
    struct region *r = c->r;
    uint32_t i, channel;
    int err = check(c);

    if (err)
        return err;
    lock_take(&r->lock);
    err = find_channel(c, &channel);
    i = err ? NONE : table_take(&r->cqs, r->cq_bits, MAX_CQS, 0);
    if (!err && i == NONE)
        err = ENOMEM;
    if (!err) {
        if (!r->cq[i].born)
            lock_init(&r->cq[i].lock);
        r->cq[i].born = 1;
        err = make(c, i, channel);
        if (err)
            table_release(&r->cqs, r->cq_bits, i);
    }
    lock_give(&r->lock);
    return err;
}

void cq_free(struct region *r, uint32_t index)
{
    struct cq *cq = &r->cq[index];

    lock_take(&cq->lock);
    cq->used = 0;
    cq->armed = CQ_IDLE;
    device_at((int)cq->device)->model->destroy_cq(r, cq);
    atomic_fetch_sub(&r->events_pending, atomic_exchange(&cq->pending, 0));
    lock_give(&cq->lock);
    if (cq->channel != NONE)
        event_channel_put(r, cq->channel);
    table_release(&r->cqs, r->cq_bits, index);
}

int cq_destroy(struct call *c)
{
    struct region *r = c->r;
    struct ib_uverbs_destroy_cq_resp out = {0};
    uint32_t i;
    int err = 0;

    lock_take(&r->lock);
    i = call_object(c, UVERBS_ATTR_DESTROY_CQ_HANDLE, OBJ_CQ);
    if (i == NONE) {
        err = ENOENT;
    } else if (r->cq[i].refs) {
        err = EBUSY;
    } else {
        struct cq *cq = &r->cq[i];

        out.comp_events_reported = event_forget_completions(r, cq);
        out.async_events_reported =
            event_forget_async(r, c->context, OBJ_CQ << 24 | i, cq->user, &cq->async_events);
        handle_free(r, c->context, call_u32(c, UVERBS_ATTR_DESTROY_CQ_HANDLE));
        cq_free(r, i);
        err = call_out(c, UVERBS_ATTR_DESTROY_CQ_RESP, &out, sizeof(out));
    }
    lock_give(&r->lock);
    return err;
}

int cq_resize(struct call *c)
{
    const struct ib_uverbs_resize_cq *in = c->in;
    struct region *r = c->r;
    struct {
        uint32_t cqe, reserved;
    } out = {in->cqe, 0};
    uint32_t i;
    int err;

    if (!c->device->model->resize_cq)
        return EOPNOTSUPP;
    lock_take(&r->lock);
    i = handle_find(r, c->context, in->cq_handle, OBJ_CQ);
    err = i == NONE ? EINVAL : c->device->model->resize_cq(c, &r->cq[i], &out.cqe);
    if (!err)
        err = call_respond(c, &out, sizeof(out));
    lock_give(&r->lock);
    return err;
}

int cq_req_notify(struct call *c)
{
    const struct ib_uverbs_req_notify_cq *in = c->in;
    uint32_t i = handle_find(c->r, c->context, in->cq_handle, OBJ_CQ);
    struct cq *cq;

    if (!c->device->model->arms_by_call)
        return EOPNOTSUPP;
    if (i == NONE)
        return EINVAL;
    cq = &c->r->cq[i];
    lock_take(&cq->lock);
    if (cq->armed != CQ_ARMED) /* "any" is not weakened to "solicited" by a later call */
        cq->armed = in->solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED;
    lock_give(&cq->lock);
    return 0;
}
