/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows. Their keys begin above those of regions. What a bind or an invalidation may do is the
 * model's matter. */
#include "context.h"
#include "lock.h"
#include "object.h"

struct mw *mw_find(struct region *r, uint32_t pd, uint32_t key)
{
    uint32_t i = (key >> 8) - MW_FIRST_INDEX;

    if (i >= MAX_MWS || r->mw[i].key != key || r->mw[i].pd != pd)
        return NULL;
    return &r->mw[i];
}

void mw_unbind(struct region *r, struct mw *w)
{
    if (w->mr != NONE)
        r->mr[w->mr].windows--;
    w->mr = w->qp = NONE;
    w->bound = 0;
    w->addr = w->length = 0;
}

void mw_unbind_qp(struct region *r, uint32_t qp)
{
    if (!r->mws.count)
        return;
    lock_take(&r->mw_lock);
    for (uint32_t w = 0; w < TABLE_BITS(MAX_MWS); w++) {
        for (uint64_t bits = r->mw_bits[w]; bits; bits &= bits - 1) {
            struct mw *mw = &r->mw[w * 64 + (uint32_t)__builtin_ctzll(bits)];

            if (mw->qp == qp)
                mw_unbind(r, mw);
        }
    }
    lock_give(&r->mw_lock);
}

int mw_alloc(struct call *c)
{
    const struct ib_uverbs_alloc_mw *in = c->in;
    struct ib_uverbs_alloc_mw_resp out = {0};
    struct region *r = c->r;
    uint32_t i, pd, h = NONE;
    int err = ENOMEM;

    if (!c->device->model->has_windows)
        return EOPNOTSUPP;
    if (in->mw_type != 1 && in->mw_type != 2)
        return EINVAL;
    lock_take(&r->lock);
    pd = pd_find(c, in->pd_handle);
    i = pd == NONE ? NONE : table_take(&r->mws, r->mw_bits, MAX_MWS, 0);
    if (i != NONE)
        h = handle_new(r, c->context, OBJ_MW, i);
    if (h != NONE) {
        out.mw_handle = h;
        out.rkey = (MW_FIRST_INDEX + i) << 8 | 1;
        err = call_respond(c, &out, sizeof(out));
        if (!err) {
            lock_take(&r->mw_lock);
            r->mw[i] = (struct mw){.key = out.rkey,
                                   .pd = pd,
                                   .context = c->context,
                                   .type = in->mw_type,
                                   .mr = NONE,
                                   .qp = NONE};
            lock_give(&r->mw_lock);
            r->pd[pd].refs++;
        }
    }
    if (pd == NONE)
        err = EINVAL;
    if (err && i != NONE) {
        if (h != NONE)
            handle_free(r, c->context, h);
        table_release(&r->mws, r->mw_bits, i);
    }
    lock_give(&r->lock);
    return err;
}

void mw_free(struct region *r, uint32_t index)
{
    struct mw *w = &r->mw[index];

    lock_take(&r->mw_lock);
    mw_unbind(r, w);
    w->key = 0;
    lock_give(&r->mw_lock);
    pd_quiesce(r, w->pd);
    r->pd[w->pd].refs--;
    table_release(&r->mws, r->mw_bits, index);
}

int mw_destroy(struct call *c)
{
    struct region *r = c->r;
    uint32_t i;

    lock_take(&r->lock);
    i = call_object(c, UVERBS_ATTR_DESTROY_MW_HANDLE, OBJ_MW);
    if (i != NONE) {
        handle_free(r, c->context, call_u32(c, UVERBS_ATTR_DESTROY_MW_HANDLE));
        mw_free(r, i);
    }
    lock_give(&r->lock);
    return i == NONE ? ENOENT : 0;
}
