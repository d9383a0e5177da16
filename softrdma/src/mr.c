/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: checks at registration, keys, and the wait for the data path before memory is given back.
 * A key is index + 1 and, below it, some bits that change with each registration; how many is the model's matter. */
#include <unistd.h>

#include "context.h"
#include "fault/fault.h"
#include "guard.h"
#include "lock.h"
#include "object.h"
#include "process.h"

#define MAX_LENGTH (UINT64_C(1) << 47)

struct mr *mr_find(struct region *r, uint32_t pd, uint32_t key, uint32_t shift)
{
    uint32_t i = (key >> shift) - 1;
    struct mr *m;

    if (i >= MAX_MRS)
        return NULL;
    m = &r->mr[i];
    return atomic_load_explicit(&m->key, memory_order_acquire) == key && m->pd == pd ? m : NULL;
}

struct segment mr_segment(struct region *r, const struct mr *m, uint64_t addr, uint64_t length)
{
    return (struct segment){m->start + (addr - m->iova), length,
                            copy_proc(r, m->proc, process.region, process.proc)};
}

static uint64_t pages_of(uint64_t start, uint64_t length)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (start % page + length + page - 1) / page;
}

static int check(const struct call *c, const struct ib_uverbs_reg_mr *in)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t access = in->access_flags & ~IB_UVERBS_ACCESS_OPTIONAL_RANGE;
    bool writable;
    int err;

    if ((in->start & (page - 1)) != (in->hca_va & (page - 1)))
        return EINVAL;
    if ((access & (IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC)) &&
        !(access & IB_UVERBS_ACCESS_LOCAL_WRITE))
        return EINVAL;
    err = c->device->model->check_access(c->device, access);
    if (err)
        return err;
    if (pd_find(c, in->pd_handle) == NONE)
        return EINVAL;
    if (!in->length || in->length > MAX_LENGTH || in->start + in->length < in->start ||
        in->hca_va + in->length < in->hca_va)
        return EINVAL;
    writable = access & (IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                         IB_UVERBS_ACCESS_REMOTE_ATOMIC | IB_UVERBS_ACCESS_MW_BIND);
    return guard_populate(in->start, in->length, writable);
}

static uint32_t make_key(const struct call *c, uint32_t index)
{
    uint32_t low = (uint32_t)(c->r->instance >> 8) + c->r->mrs.next * 167 + (uint32_t)now_ns();
    uint32_t shift = c->device->model->key_shift;

    return (index + 1) << shift | (low & ((1u << shift) - 1));
}

int mr_reg(struct call *c)
{
    const struct ib_uverbs_reg_mr *in = c->in;
    struct ib_uverbs_reg_mr_resp out = {0};
    struct region *r = c->r;
    uint32_t i, pd, h = NONE;
    int err = check(c, in);

    if (!err)
        err = fault_pin(r, process.proc, pages_of(in->start, in->length));
    if (err)
        return err;
    lock_take(&r->lock);
    err = ENOMEM;
    pd = pd_find(c, in->pd_handle);
    i = table_take(&r->mrs, r->mr_bits, MAX_MRS - 64, 0);
    if (i != NONE && pd != NONE)
        h = handle_new(r, c->context, OBJ_MR, i);
    if (h != NONE) {
        struct mr *m = &r->mr[i];

        m->pd = pd;
        m->context = c->context;
        m->proc = process.proc;
        m->access = in->access_flags;
        m->windows = 0;
        m->start = in->start;
        m->length = in->length;
        m->iova = in->hca_va;
        out.mr_handle = h;
        out.lkey = out.rkey = make_key(c, i);
        err = call_respond(c, &out, sizeof(out));
        if (!err) {
            r->pd[pd].refs++;
            atomic_store_explicit(&m->key, out.lkey, memory_order_release);
        }
    }
    if (err && i != NONE) {
        if (h != NONE)
            handle_free(r, c->context, h);
        table_release(&r->mrs, r->mr_bits, i);
    }
    if (err)
        fault_unpin(r, process.proc, pages_of(in->start, in->length));
    lock_give(&r->lock);
    return err;
}

void mr_free(struct region *r, uint32_t index)
{
    struct mr *m = &r->mr[index];

    atomic_store(&m->key, 0);
    pd_quiesce(r, m->pd);
    fault_unpin(r, m->proc, pages_of(m->start, m->length));
    r->pd[m->pd].refs--;
    table_release(&r->mrs, r->mr_bits, index);
}

int mr_destroy(struct call *c)
{
    struct region *r = c->r;
    uint32_t i;
    int err = 0;

    lock_take(&r->lock);
    i = call_object(c, UVERBS_ATTR_DESTROY_MR_HANDLE, OBJ_MR);
    lock_take(&r->mw_lock);
    if (i == NONE)
        err = ENOENT;
    else if (r->mr[i].windows)
        err = EINVAL;
    else
        atomic_store(&r->mr[i].key, 0); /* no window can be bound to it from here on */
    lock_give(&r->mw_lock);
    if (!err) {
        handle_free(r, c->context, call_u32(c, UVERBS_ATTR_DESTROY_MR_HANDLE));
        mr_free(r, i);
    }
    lock_give(&r->lock);
    return err;
}
