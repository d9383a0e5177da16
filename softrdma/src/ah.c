/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles. */
#include "context.h"
#include "lock.h"
#include "object.h"

int ah_create(struct call *c)
{
    const struct ib_uverbs_create_ah *in = c->in;
    struct ib_uverbs_create_ah_resp out = {0};
    struct region *r = c->r;
    uint32_t i, pd, h = NONE;
    uint8_t sgid[16];
    int err = c->device->model->check_ah(c, &in->attr, sgid);

    if (err)
        return err;
    lock_take(&r->lock);
    err = ENOMEM;
    pd = pd_find(c, in->pd_handle);
    i = pd == NONE ? NONE : table_take(&r->ahs, r->ah_bits, MAX_AHS, 1);
    if (i != NONE)
        h = handle_new(r, c->context, OBJ_AH, i);
    if (h != NONE) {
        struct ah *ah = &r->ah[i];

        ah->context = c->context;
        ah->pd = pd;
        ah->device = (uint32_t)c->device->index;
        ah->attr = in->attr;
        memcpy(ah->sgid, sgid, sizeof(ah->sgid));
        out.ah_handle = h;
        err = c->device->model->create_ah(c, ah, i);
        if (!err)
            err = call_respond(c, &out, sizeof(out));
        if (!err) {
            r->pd[pd].refs++;
            atomic_store_explicit(&ah->used, 1, memory_order_release);
        }
    }
    if (pd == NONE)
        err = EINVAL;
    if (err && i != NONE) {
        if (h != NONE)
            handle_free(r, c->context, h);
        table_release(&r->ahs, r->ah_bits, i);
    }
    lock_give(&r->lock);
    return err;
}

void ah_free(struct region *r, uint32_t index)
{
    struct ah *ah = &r->ah[index];

    const struct device_model *m = device_at((int)ah->device)->model;

    atomic_store(&ah->used, 0);
    if (m->destroy_ah)
        m->destroy_ah(r, ah);
    pd_quiesce(r, ah->pd);
    r->pd[ah->pd].refs--;
    table_release(&r->ahs, r->ah_bits, index);
}

int ah_destroy(struct call *c)
{
    struct region *r = c->r;
    uint32_t i;

    lock_take(&r->lock);
    i = call_object(c, UVERBS_ATTR_DESTROY_AH_HANDLE, OBJ_AH);
    if (i != NONE) {
        handle_free(r, c->context, call_u32(c, UVERBS_ATTR_DESTROY_AH_HANDLE));
        ah_free(r, i);
    }
    lock_give(&r->lock);
    return i == NONE ? ENOENT : 0;
}
