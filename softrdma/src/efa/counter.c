/* SPDX-License-Identifier: BSD-3-Clause */
/* Making, attaching and moving completion counters. */
#include "counter.h"

#include "../context.h"
#include "../dmabuf.h"
#include "../guard.h"
#include "../lock.h"
#include "../object.h"
#include "../process.h"

enum { BUFFER_DMABUF, BUFFER_VA };
enum { OP_SET, OP_INC };

/* The program's copy of a value; memory that has gone is not told. The caller holds the lock. */
static void publish(struct region *r, const struct counter *n, uint32_t entry)
{
    struct segment to = {n->memory[entry].addr, 8, copy_proc(r, n->proc, process.region, process.proc)};
    struct segment from = {(uintptr_t)&n->value[entry], 8, NULL};

    copy_segments(&to, &from, 8);
}

void counter_note(struct region *r, const struct efa_qp *own, uint32_t kind, bool completed)
{
    uint32_t entry = completed ? COUNTER_COMPLETED : COUNTER_FAILED;
    struct counter *n;

    if (!own->counter[kind] || own->counter[kind] > MAX_COUNTERS)
        return;
    n = &r->counter[own->counter[kind] - 1];
    lock_take(&n->lock);
    n->value[entry]++;
    publish(r, n, entry);
    lock_give(&n->lock);
}

void counter_detach(struct region *r, struct efa_qp *own)
{
    for (uint32_t k = 0; k < COUNT_KINDS; k++) {
        if (own->counter[k])
            r->counter[own->counter[k] - 1].refs--;
        own->counter[k] = 0;
    }
}

static bool is_offered(const struct call *c)
{
    return efa_make_of(c->device)->caps & EFA_CAP_COMP_CNTR;
}

int counter_query_caps(struct call *c)
{
    uint64_t most = UINT64_MAX;
    uint32_t count = MAX_COUNTERS, kinds = (1u << COUNT_KINDS) - 1;
    int err;

    if (!is_offered(c))
        return EOPNOTSUPP;
    err = call_out(c, CAPS_MAX_COUNTERS, &count, sizeof(count));
    if (!err)
        err = call_out(c, CAPS_MAX_VALUE, &most, sizeof(most));
    return err ? err : call_out(c, CAPS_OPS, &kinds, sizeof(kinds));
}

static void drop_memory(struct counter *n)
{
    for (uint32_t e = 0; e < 2 && n->proc == process.proc; e++)
        dmabuf_unmap(n->memory[e].mapping, n->memory[e].mapped);
    memset(n->memory, 0, sizeof(n->memory));
}

static int take_memory(const struct call *c, struct counter *n, uint32_t entry)
{
    struct counter_buffer in;
    struct dmabuf buffer = {0};
    int err = call_in(c, entry == COUNTER_COMPLETED ? CREATE_COMPLETED : CREATE_FAILED, &in, sizeof(in));

    if (err)
        return err;
    if (in.length < 8 || in.addr % 8 || in.flags)
        return EINVAL;
    if (in.type == BUFFER_DMABUF) {
        err = dmabuf_map(in.fd, in.addr, 8, &buffer);
    } else if (in.type == BUFFER_VA) {
        buffer.start = in.addr;
        err = guard_populate(in.addr, 8, true);
    } else {
        err = EOPNOTSUPP;
    }
    n->memory[entry].addr = buffer.start;
    n->memory[entry].mapping = buffer.mapping;
    n->memory[entry].mapped = buffer.mapped;
    return err;
}

/* Makes it in slot i; the caller undoes the slot. */
static int make(struct call *c, uint32_t i)
{
    struct counter *n = &c->r->counter[i];
    uint32_t h = NONE;
    int err;

    n->context = c->context;
    n->proc = process.proc;
    n->refs = 0;
    n->value[0] = n->value[1] = 0;
    err = take_memory(c, n, COUNTER_COMPLETED);
    if (!err)
        err = take_memory(c, n, COUNTER_FAILED);
    if (!err)
        h = handle_new(c->r, c->context, OBJ_COUNTER, i);
    if (!err)
        err = h == NONE ? ENOMEM : call_new_handle(c, CREATE_HANDLE, h);
    if (err && h != NONE)
        handle_free(c->r, c->context, h);
    if (err) {
        drop_memory(n);
        return err;
    }
    n->used = 1;
    publish(c->r, n, COUNTER_COMPLETED);
    publish(c->r, n, COUNTER_FAILED);
    return 0;
}

int counter_create(struct call *c)
{
    struct region *r = c->r;
    uint32_t i;
    int err;

    if (!is_offered(c))
        return EOPNOTSUPP;
    lock_take(&r->lock);
    i = table_take(&r->counters, r->counter_bits, MAX_COUNTERS, 0);
    err = i == NONE ? ENOMEM : 0;
    if (!err) {
        if (!r->counter[i].born)
            lock_init(&r->counter[i].lock);
        r->counter[i].born = 1;
        err = make(c, i);
        if (err)
            table_release(&r->counters, r->counter_bits, i);
    }
    lock_give(&r->lock);
    return err;
}

void counter_free(struct region *r, uint32_t index)
{
    struct counter *n = &r->counter[index];

    n->used = 0;
    drop_memory(n);
    table_release(&r->counters, r->counter_bits, index);
}

int counter_destroy(struct call *c)
{
    struct region *r = c->r;
    uint32_t i;
    int err = 0;

    lock_take(&r->lock);
    i = call_object(c, 0, OBJ_COUNTER);
    if (i == NONE) {
        err = ENOENT;
    } else if (r->counter[i].refs) {
        err = EBUSY;
    } else {
        handle_free(r, c->context, call_u32(c, 0));
        counter_free(r, i);
    }
    lock_give(&r->lock);
    return err;
}

int counter_modify(struct call *c)
{
    uint32_t i, entry = call_u32(c, MODIFY_ENTRY) & 0xff, op = call_u32(c, MODIFY_OP) & 0xff;
    uint64_t value = call_u64(c, MODIFY_VALUE);
    int err = entry > COUNTER_FAILED || op > OP_INC ? EINVAL : 0;
    struct counter *n;

    if (err)
        return err;
    lock_take(&c->r->lock);
    i = call_object(c, MODIFY_HANDLE, OBJ_COUNTER);
    if (i == NONE) {
        err = ENOENT;
    } else {
        n = &c->r->counter[i];
        lock_take(&n->lock);
        n->value[entry] = op == OP_SET ? value : n->value[entry] + value;
        publish(c->r, n, entry);
        lock_give(&n->lock);
    }
    lock_give(&c->r->lock);
    return err;
}

int counter_read(struct call *c)
{
    uint32_t i, entry = call_u32(c, READ_ENTRY) & 0xff;
    uint64_t value = 0;
    int err = entry > COUNTER_FAILED ? EINVAL : 0;

    lock_take(&c->r->lock);
    i = call_object(c, READ_HANDLE, OBJ_COUNTER);
    if (i == NONE)
        err = ENOENT;
    else if (!err)
        value = c->r->counter[i].value[entry];
    lock_give(&c->r->lock);
    return err ? err : call_out(c, READ_VALUE, &value, sizeof(value));
}

/* It has to be there before the queue pair moves anything. Under both locks of the queue pair. */
static int attach(struct region *r, struct qp *qp, uint32_t counter, uint32_t kinds)
{
    struct efa_qp *own = efa_qp_of(r, qp);
    uint32_t state = atomic_load(&qp->state);

    if (state != QPS_RESET && state != QPS_INIT)
        return EINVAL;
    for (uint32_t k = 0; k < COUNT_KINDS; k++) {
        if ((kinds >> k & 1) && own->counter[k])
            return EBUSY;
    }
    for (uint32_t k = 0; k < COUNT_KINDS; k++) {
        if (kinds >> k & 1) {
            own->counter[k] = (uint16_t)(counter + 1);
            r->counter[counter].refs++;
        }
    }
    return 0;
}

int counter_attach(struct call *c)
{
    uint32_t i, q, kinds = call_u32(c, ATTACH_KINDS);
    struct region *r = c->r;
    int err = 0;

    if (!is_offered(c))
        return EOPNOTSUPP;
    if (!kinds)
        return EINVAL;
    if (kinds >> COUNT_KINDS)
        return EOPNOTSUPP;
    lock_take(&r->lock);
    i = call_object(c, ATTACH_COUNTER, OBJ_COUNTER);
    q = call_object(c, ATTACH_QP, OBJ_QP);
    if (i == NONE || q == NONE) {
        err = ENOENT;
        goto out;
    }
    qp_lock_both(&r->qp[q]);
    err = attach(r, &r->qp[q], i, kinds);
    qp_unlock_both(&r->qp[q]);
out:
    lock_give(&r->lock);
    return err;
}
