/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a completion. */
#include "../event.h"
#include "../lock.h"
#include "rxe.h"

bool rxe_complete(struct region *r, uint32_t index, const struct ib_uverbs_wc *wc, bool solicited)
{
    struct cq *cq = &r->cq[index];
    bool fire;
    uint32_t p;

    lock_take(&cq->lock);
    if (!cq->used) {
        lock_give(&cq->lock);
        return true;
    }
    p = rxe_producer(r, &cq->queue);
    if (((p + 1) & cq->queue.mask) == rxe_consumer(r, &cq->queue)) {
        lock_give(&cq->lock);
        event_async(r, cq->context, OBJ_CQ << 24 | index, cq->user, ASYNC_CQ_ERR, &cq->async_events);
        return false;
    }
    memcpy(rxe_slot(r, &cq->queue, p), wc, sizeof(*wc));
    rxe_set_producer(r, &cq->queue, p + 1);
    fire = cq->armed == CQ_ARMED || (cq->armed == CQ_ARMED_SOLICITED && solicited);
    if (fire)
        cq->armed = CQ_IDLE;
    lock_give(&cq->lock);
    if (fire)
        event_completion(r, cq);
    return true;
}
