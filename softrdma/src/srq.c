/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include "context.h"
#include "event.h"
#include "lock.h"
#include "object.h"

static int make(struct call *c, uint32_t i, uint32_t pd)
{
    struct region *r = c->r;
    struct srq *s = &r->srq[i];
    uint32_t h, wr = call_u32(c, UVERBS_ATTR_CREATE_SRQ_MAX_WR),
                sge = call_u32(c, UVERBS_ATTR_CREATE_SRQ_MAX_SGE);
    int err;

    s->context = c->context;
    s->device = (uint32_t)c->device->index;
    s->pd = pd;
    s->refs = s->async_events = 0;
    s->limit = call_u32(c, UVERBS_ATTR_CREATE_SRQ_LIMIT);
    s->user = call_u64(c, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE);
    h = handle_new(r, c->context, OBJ_SRQ, i);
    if (h == NONE)
        return ENOMEM;
    err = c->device->model->create_srq(c, s, &wr, &sge);
    if (err)
        goto err_handle;
    err = call_out(c, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &wr, sizeof(wr));
    if (!err)
        err = call_out(c, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &sge, sizeof(sge));
    if (!err)
        err = call_new_handle(c, UVERBS_ATTR_CREATE_SRQ_HANDLE, h);
    if (err)
        goto err_queue;
    s->used = 1;
    r->pd[pd].refs++;
    return 0;

err_queue:
    c->device->model->destroy_srq(r, s);
err_handle:
    handle_free(r, c->context, h);
    return err;
}

int srq_create(struct call *c)
{
    struct region *r = c->r;
    uint32_t i, pd;
    int err = 0;

    if (!c->device->model->create_srq)
        return EOPNOTSUPP;
    if (call_u32(c, UVERBS_ATTR_CREATE_SRQ_TYPE) != IB_UVERBS_SRQT_BASIC)
        return EOPNOTSUPP;
    lock_take(&r->lock);
    pd = call_object(c, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, OBJ_PD);
    i = pd == NONE ? NONE : table_take(&r->srqs, r->srq_bits, MAX_SRQS, 0);
    if (i == NONE) {
        err = pd == NONE ? ENOENT : ENOMEM;
    } else {
        if (!r->srq[i].born)
            lock_init(&r->srq[i].lock);
        r->srq[i].born = 1;
        err = make(c, i, pd);
        if (err)
            table_release(&r->srqs, r->srq_bits, i);
    }
    lock_give(&r->lock);
    return err;
}

void srq_free(struct region *r, uint32_t index)
{
    struct srq *s = &r->srq[index];

    lock_take(&s->lock);
    s->used = 0;
    device_at((int)s->device)->model->destroy_srq(r, s);
    lock_give(&s->lock);
    r->pd[s->pd].refs--;
    table_release(&r->srqs, r->srq_bits, index);
}

int srq_destroy(struct call *c)
{
    struct region *r = c->r;
    struct ib_uverbs_destroy_srq_resp out = {0};
    uint32_t i;
    int err = 0;

    lock_take(&r->lock);
    i = call_object(c, UVERBS_ATTR_DESTROY_SRQ_HANDLE, OBJ_SRQ);
    if (i == NONE) {
        err = ENOENT;
    } else if (r->srq[i].refs) {
        err = EBUSY;
    } else {
        struct srq *s = &r->srq[i];

        out.events_reported = event_forget_async(r, c->context, OBJ_SRQ << 24 | i, s->user, &s->async_events);
        handle_free(r, c->context, call_u32(c, UVERBS_ATTR_DESTROY_SRQ_HANDLE));
        srq_free(r, i);
        err = call_out(c, UVERBS_ATTR_DESTROY_SRQ_RESP, &out, sizeof(out));
    }
    lock_give(&r->lock);
    return err;
}

int srq_modify(struct call *c)
{
    const struct ib_uverbs_modify_srq *in = c->in;
    struct region *r = c->r;
    uint32_t i;
    int err;

    lock_take(&r->lock);
    i = handle_find(r, c->context, in->srq_handle, OBJ_SRQ);
    err = i == NONE ? EINVAL : c->device->model->modify_srq(c, &r->srq[i], in);
    lock_give(&r->lock);
    return err;
}

int srq_query(struct call *c)
{
    const struct ib_uverbs_query_srq *in = c->in;
    struct ib_uverbs_query_srq_resp out = {0};
    struct region *r = c->r;
    uint32_t i;
    int err = EINVAL;

    lock_take(&r->lock);
    i = handle_find(r, c->context, in->srq_handle, OBJ_SRQ);
    if (i != NONE) {
        c->device->model->query_srq(r, &r->srq[i], &out);
        err = call_respond(c, &out, sizeof(out));
    }
    lock_give(&r->lock);
    return err;
}
