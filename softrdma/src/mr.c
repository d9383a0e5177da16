/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: checks at registration, keys, and the wait for the data path before memory is given back.
 * A key is index + 1 and, below it, some bits that change with each registration; how many is the model's matter. */
#include <unistd.h>

#include "context.h"
#include "dmabuf.h"
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

/* What is asked to be registered. */
struct request {
    uint32_t pd; /* its handle */
    uint32_t access;
    uint64_t start, length, iova;
    uint64_t mapping, mapped; /* of a dma-buf: what was mapped for it; else 0 */
};

static bool is_writable(uint32_t access)
{
    return access & (IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
                     IB_UVERBS_ACCESS_MW_BIND);
}

static int check(const struct call *c, const struct request *q)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t access = q->access & ~IB_UVERBS_ACCESS_OPTIONAL_RANGE;
    int err;

    if ((q->start & (page - 1)) != (q->iova & (page - 1)))
        return EINVAL;
    if ((access & (IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC)) &&
        !(access & IB_UVERBS_ACCESS_LOCAL_WRITE))
        return EINVAL;
    err = c->device->model->check_access(c->device, access);
    if (err)
        return err;
    if (pd_find(c, q->pd) == NONE)
        return EINVAL;
    if (!q->length || q->length > MAX_LENGTH || q->start + q->length < q->start || q->iova + q->length < q->iova)
        return EINVAL;
    return 0;
}

static uint32_t make_key(const struct call *c, uint32_t index)
{
    uint32_t low = (uint32_t)(c->r->instance >> 8) + c->r->mrs.next * 167 + (uint32_t)now_ns();
    uint32_t shift = c->device->model->key_shift;

    return (index + 1) << shift | (low & ((1u << shift) - 1));
}

/* Tells the caller the handle and the keys, in the words of the call that it made. */
typedef int answer_mr(struct call *c, uint32_t handle, uint32_t key);

static int make(struct call *c, const struct request *q, answer_mr *answer)
{
    struct region *r = c->r;
    uint32_t i, pd, key, h = NONE;
    int err = fault_pin(r, process.proc, pages_of(q->start, q->length));

    if (err)
        return err;
    lock_take(&r->lock);
    err = ENOMEM;
    pd = pd_find(c, q->pd);
    i = table_take(&r->mrs, r->mr_bits, MAX_MRS - 64, 0);
    if (i != NONE && pd != NONE)
        h = handle_new(r, c->context, OBJ_MR, i);
    if (h != NONE) {
        struct mr *m = &r->mr[i];

        m->pd = pd;
        m->context = c->context;
        m->proc = process.proc;
        m->access = q->access;
        m->windows = 0;
        m->start = q->start;
        m->length = q->length;
        m->iova = q->iova;
        m->mapping = q->mapping;
        m->mapped = q->mapped;
        key = make_key(c, i);
        err = answer(c, h, key);
        if (!err) {
            r->pd[pd].refs++;
            atomic_store_explicit(&m->key, key, memory_order_release);
        }
    }
    if (err && i != NONE) {
        if (h != NONE)
            handle_free(r, c->context, h);
        table_release(&r->mrs, r->mr_bits, i);
    }
    if (err)
        fault_unpin(r, process.proc, pages_of(q->start, q->length));
    lock_give(&r->lock);
    return err;
}

/* ---- memory of the process --------------------------------------------------------------------------------------- */

static int answer_command(struct call *c, uint32_t handle, uint32_t key)
{
    struct ib_uverbs_reg_mr_resp out = {.mr_handle = handle, .lkey = key, .rkey = key};

    return call_respond(c, &out, sizeof(out));
}

int mr_reg(struct call *c)
{
    const struct ib_uverbs_reg_mr *in = c->in;
    struct request q = {in->pd_handle, in->access_flags, in->start, in->length, in->hca_va, 0, 0};
    int err = check(c, &q);

    if (!err)
        err = guard_populate(q.start, q.length, is_writable(q.access & ~IB_UVERBS_ACCESS_OPTIONAL_RANGE));
    return err ? err : make(c, &q, answer_command);
}

/* ---- a dma-buf --------------------------------------------------------------------------------------------------- */

static int answer_attributes(struct call *c, uint32_t handle, uint32_t key)
{
    int err = call_out(c, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &key, sizeof(key));

    if (!err)
        err = call_out(c, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &key, sizeof(key));
    return err ? err : call_new_handle(c, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, handle);
}

int mr_reg_dmabuf(struct call *c)
{
    uint64_t offset = call_u64(c, UVERBS_ATTR_REG_DMABUF_MR_OFFSET);
    struct request q = {
        .access = call_u32(c, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS),
        .length = call_u64(c, UVERBS_ATTR_REG_DMABUF_MR_LENGTH),
        .iova = call_u64(c, UVERBS_ATTR_REG_DMABUF_MR_IOVA),
        .pd = call_u32(c, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE),
        .start = offset, /* until it is mapped: what has to agree with the address */
    };
    struct dmabuf buffer;
    int err;

    if (!c->device->model->has_dmabuf)
        return EOPNOTSUPP;
    err = check(c, &q);
    if (!err)
        err = dmabuf_map((int)call_u32(c, UVERBS_ATTR_REG_DMABUF_MR_FD), offset, q.length, &buffer);
    if (err)
        return err;
    q.mapping = buffer.mapping;
    q.mapped = buffer.mapped;
    q.start = buffer.start;
    err = make(c, &q, answer_attributes);
    if (err)
        dmabuf_unmap(q.mapping, q.mapped);
    return err;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void mr_free(struct region *r, uint32_t index)
{
    struct mr *m = &r->mr[index];

    atomic_store(&m->key, 0);
    pd_quiesce(r, m->pd);
    fault_unpin(r, m->proc, pages_of(m->start, m->length));
    if (m->proc == process.proc)
        dmabuf_unmap(m->mapping, m->mapped);
    m->mapping = 0;
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
