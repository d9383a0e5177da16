/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions, and the doorbell by which a program asks for an event. Nobody tells the device how far a queue has been
 * read unless it has a channel, so a program that lets one overflow loses the oldest. */
#include "../event.h"
#include "../lock.h"
#include "../process.h"
#include "efa.h"

/* Everything but the word with the phase comes first, while that still has the phase of the lap before. */
static void store(uint8_t *slot, const struct efa_cqe *e, uint32_t size)
{
    uint32_t first;

    memcpy(slot + sizeof(first), (const uint8_t *)e + sizeof(first), size - sizeof(first));
    memcpy(&first, e, sizeof(first));
    __atomic_store_n((uint32_t *)(void *)slot, first, __ATOMIC_RELEASE);
}

/* The same into the program's memory, in two steps. When that has gone, so has the completion. */
static void store_outside(struct region *r, const struct efa_cq *own, uint64_t at, const struct efa_cqe *e)
{
    struct proc *owner = copy_proc(r, own->proc, process.region, process.proc);
    const uint32_t first = 4;
    struct segment to = {own->start + at + first, own->entry_size - first, owner};
    struct segment from = {(uintptr_t)e + first, own->entry_size - first, NULL};

    if (copy_segments(&to, &from, from.length) != COPY_DONE)
        return;
    to = (struct segment){own->start + at, first, owner};
    from = (struct segment){(uintptr_t)e, first, NULL};
    copy_segments(&to, &from, first);
}

void efa_complete(struct region *r, uint32_t index, struct efa_cqe *e, enum efa_queue queue, uint32_t opcode,
                  uint32_t flags)
{
    uint32_t sub = queue == EFA_SEND_QUEUE ? EFA_SEND_SUB_CQ : EFA_RECV_SUB_CQ, p;
    struct cq *cq = &r->cq[index];
    struct efa_cq *own;
    bool fire, tell;
    uint64_t at;

    lock_take(&cq->lock);
    if (!cq->used) {
        lock_give(&cq->lock);
        return;
    }
    own = efa_cq_of(r, cq);
    p = own->produced[sub];
    e->flags = (uint8_t)(flags | (uint32_t)queue << EFA_CQE_QUEUE_SHIFT | (opcode & 7) << EFA_CQE_OPCODE_SHIFT);
    if (efa_overruns(r, cq, e, &tell)) {
        lock_give(&cq->lock);
        if (tell)
            event_async(r, cq->context, OBJ_CQ << 24 | index, cq->user, ASYNC_CQ_ERR, &cq->async_events);
        return;
    }
    if (!(p & own->entries))
        e->flags |= EFA_CQE_PHASE; /* 1 in the first lap, then in turn */
    at = ((uint64_t)sub * own->entries + (p & (own->entries - 1))) * own->entry_size;
    if (own->external)
        store_outside(r, own, at, e);
    else
        store((uint8_t *)region_at(r, cq->queue.offset, cq->queue.size) + at, e, own->entry_size);
    own->produced[sub] = p + 1;
    fire = cq->armed == CQ_ARMED;
    if (fire) {
        cq->armed = CQ_IDLE;
        own->sn++;
    }
    lock_give(&cq->lock);
    if (fire)
        event_completion(r, cq);
}

/* An arming counts once for each event that the program has read: the sequence number tells. When something has come
 * that the program had not seen when it armed, the event comes at once. */
void efa_ring_cq(struct region *r, struct cq *cq, uint32_t value)
{
    bool fire = false;

    if (!(value & EFA_CQ_DB_ARM))
        return;
    lock_take(&r->lock); /* so that the queue stays while its event is written */
    lock_take(&cq->lock);
    if (cq->used && cq->own.offset) {
        struct efa_cq *own = efa_cq_of(r, cq);
        uint32_t produced = own->produced[0] + own->produced[1];

        if (EFA_CQ_DB_SN(value) == (own->sn & 3)) {
            fire = ((produced ^ value) & EFA_CQ_DB_INDEX) != 0;
            cq->armed = fire ? CQ_IDLE : CQ_ARMED;
            own->sn += fire;
        }
    }
    lock_give(&cq->lock);
    if (fire)
        event_completion(r, cq);
    lock_give(&r->lock);
}
