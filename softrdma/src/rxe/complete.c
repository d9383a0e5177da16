/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a completion. */
#include "../event.h"
#include "../fault/fault.h"
#include "../lock.h"
#include "rxe.h"

/* Is the completion lost because somebody wants the queue to overrun? */
static bool overruns(struct region *r, struct cq *cq, const struct ib_uverbs_wc *wc, bool *ret_tell)
{
    struct fault_site site = {.device = cq->device, .qpn = wc->qp_num, .wr_id = wc->wr_id};

    *ret_tell = false;
    if (!cq->overrun && !fault_armed(r, FAULT_AT_COMPLETION))
        return false;
    site.op = wc->opcode >= WC_OP_RECV ? FAULT_OP_RECV : FAULT_OP_SEND;
    return fault_overruns(r, cq, &site, ret_tell);
}

bool rxe_complete(struct region *r, uint32_t index, const struct ib_uverbs_wc *wc, bool solicited)
{
    struct cq *cq = &r->cq[index];
    bool fire, lost, tell;
    uint32_t p;

    lock_take(&cq->lock);
    if (!cq->used) {
        lock_give(&cq->lock);
        return true;
    }
    p = rxe_producer(r, &cq->queue);
    lost = overruns(r, cq, wc, &tell);
    if (!lost && ((p + 1) & cq->queue.mask) == rxe_consumer(r, &cq->queue))
        lost = tell = true;
    if (lost) {
        lock_give(&cq->lock);
        if (tell)
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
