/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains. */
#include "context.h"
#include "lock.h"
#include "object.h"

uint32_t pd_find(const struct call *c, uint64_t handle)
{
    return handle_find(c->r, c->context, handle, OBJ_PD);
}

int pd_alloc(struct call *c)
{
    struct region *r = c->r;
    struct ib_uverbs_alloc_pd_resp out = {0};
    uint32_t i, h = NONE;
    int err = ENOMEM;

    lock_take(&r->lock);
    i = table_take(&r->pds, r->pd_bits, MAX_PDS, 0);
    if (i != NONE)
        h = handle_new(r, c->context, OBJ_PD, i);
    if (h != NONE) {
        r->pd[i] = (struct pd){.used = 1, .context = c->context};
        out.pd_handle = h;
        err = c->device->model->alloc_pd ? c->device->model->alloc_pd(c, i) : 0;
        if (!err)
            err = call_respond(c, &out, sizeof(out));
    }
    if (err && i != NONE) {
        if (h != NONE)
            handle_free(r, c->context, h);
        table_release(&r->pds, r->pd_bits, i);
    }
    lock_give(&r->lock);
    return err;
}

void pd_free(struct region *r, uint32_t index)
{
    r->pd[index].used = 0;
    table_release(&r->pds, r->pd_bits, index);
}

int pd_destroy(struct call *c)
{
    struct region *r = c->r;
    uint32_t i;
    int err = 0;

    lock_take(&r->lock);
    i = call_object(c, UVERBS_ATTR_DESTROY_PD_HANDLE, OBJ_PD);
    if (i == NONE) {
        err = ENOENT;
    } else if (r->pd[i].refs) {
        err = EBUSY;
    } else {
        handle_free(r, c->context, call_u32(c, UVERBS_ATTR_DESTROY_PD_HANDLE));
        pd_free(r, i);
    }
    lock_give(&r->lock);
    return err;
}

/* A key is only looked at under a lock of a QP of its PD, so passing through each of them once is enough. */
void pd_quiesce(struct region *r, uint32_t pd)
{
    for (uint32_t w = 0; w < TABLE_BITS(MAX_QPS); w++) {
        for (uint64_t bits = atomic_load(&r->qp_bits[w]); bits; bits &= bits - 1) {
            struct qp *qp = &r->qp[w * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (qp->pd != pd)
                continue;
            lock_take(&qp->sq_lock);
            lock_give(&qp->sq_lock);
            lock_take(&qp->rq_lock);
            lock_give(&qp->rq_lock);
        }
    }
}
