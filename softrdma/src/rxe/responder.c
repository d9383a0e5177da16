/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving half: what a request may do to this queue pair and its memory. Checks come in the kernel's
 * order: PSN, rights of the queue pair, read depth, receive, key and range, data. Everything runs under the
 * queue pair's rq_lock. */
#include "../event.h"
#include "../fault/fault.h"
#include "../guard.h"
#include "../lock.h"
#include "../process.h"
#include "rxe.h"

/* A receive that was looked at, and where it came from. */
struct receive {
    uint64_t wr_id;
    uint32_t num_sge;
    uint64_t room;
    uint32_t vendor_err; /* of an error that somebody asked for */
    struct rxe_sge sge[RXE_MAX_SGE];
};

static bool is_send(const struct rxe_request *q)
{
    return q->opcode == RXE_SEND || q->opcode == RXE_SEND_IMM || q->opcode == RXE_SEND_INV;
}

static bool is_write(const struct rxe_request *q)
{
    return q->opcode == RXE_WRITE || q->opcode == RXE_WRITE_IMM || q->opcode == RXE_ATOMIC_WRITE;
}

static bool is_atomic(const struct rxe_request *q)
{
    return q->opcode == RXE_CMP_SWAP || q->opcode == RXE_FETCH_ADD;
}

static uint32_t needed_access(const struct rxe_request *q)
{
    if (is_write(q))
        return IB_UVERBS_ACCESS_REMOTE_WRITE;
    if (q->opcode == RXE_READ)
        return IB_UVERBS_ACCESS_REMOTE_READ;
    if (is_atomic(q))
        return IB_UVERBS_ACCESS_REMOTE_ATOMIC;
    if (q->opcode == RXE_FLUSH)
        return (q->flush_type & 1 ? ACCESS_FLUSH_GLOBAL : 0) |
               (q->flush_type & 2 ? ACCESS_FLUSH_PERSISTENT : 0);
    return 0;
}

/* Copies the head of a receive queue; false when it is empty. */
static bool read_receive(struct region *r, const struct queue *queue, uint32_t max_sge, struct receive *rx)
{
    struct rxe_recv_wqe *w;
    uint32_t i;

    if (!queue->offset)
        return false;
    i = rxe_consumer(r, queue);
    if (i == rxe_producer(r, queue))
        return false;
    w = rxe_slot(r, queue, i);
    rx->wr_id = w->wr_id;
    rx->vendor_err = 0;
    rx->num_sge = __atomic_load_n(&w->dma.num_sge, __ATOMIC_RELAXED);
    if (rx->num_sge > max_sge)
        rx->num_sge = max_sge;
    memcpy(rx->sge, w->dma.sge, rx->num_sge * sizeof(rx->sge[0]));
    rx->room = 0;
    for (uint32_t k = 0; k < rx->num_sge; k++)
        rx->room += rx->sge[k].length;
    return true;
}

/* From a shared queue a receive is taken at once, so that its lock is not held over the copy. */
static bool claim_shared(struct region *r, uint32_t index, uint64_t need, bool datagram, struct receive *rx)
{
    struct srq *srq = &r->srq[index];
    bool low = false, got;

    lock_take(&srq->lock);
    got = read_receive(r, &srq->queue, srq->max_sge, rx) && (!datagram || rx->room >= need);
    if (got) {
        rxe_set_consumer(r, &srq->queue, rxe_consumer(r, &srq->queue) + 1);
        low = srq->limit && rxe_queue_used(r, &srq->queue) < srq->limit;
        if (low)
            srq->limit = 0;
    }
    lock_give(&srq->lock);
    if (low)
        event_async(r, srq->context, OBJ_SRQ << 24 | index, srq->user, ASYNC_SRQ_LIMIT, &srq->async_events);
    return got;
}

/* The receive for a message of that many bytes; false when there is none. A datagram that does not fit is
 * dropped, and the receive stays for one that does. */
static bool peek_receive(struct region *r, struct qp *qp, uint64_t need, struct receive *rx)
{
    bool datagram = qp->type == IB_UVERBS_QPT_UD;

    if (qp->srq != NONE)
        return claim_shared(r, qp->srq, need, datagram, rx);
    return read_receive(r, &qp->rq, qp->cap.max_recv_sge, rx) && (!datagram || rx->room >= need);
}

static void take_receive(struct region *r, struct qp *qp)
{
    if (qp->srq == NONE)
        rxe_set_consumer(r, &qp->rq, rxe_consumer(r, &qp->rq) + 1);
}

/* The message failed for a reason that is not the receive's: it stays at the head, or comes back flushed if
 * it was taken from a shared queue. */
static void drop_receive(struct region *r, struct qp *qp, const struct receive *rx)
{
    struct ib_uverbs_wc wc = {.wr_id = rx->wr_id, .status = WC_WR_FLUSH_ERR, .qp_num = qp->qpn};

    if (qp->srq != NONE)
        rxe_complete(r, qp->recv_cq, &wc, true);
}

void rxe_flush_receives(struct region *r, struct qp *qp)
{
    if (qp->srq != NONE || !qp->rq.offset)
        return;
    for (uint32_t i; (i = rxe_consumer(r, &qp->rq)) != rxe_producer(r, &qp->rq);) {
        const struct rxe_recv_wqe *w = rxe_slot(r, &qp->rq, i);
        struct ib_uverbs_wc wc = {.wr_id = w->wr_id, .status = WC_WR_FLUSH_ERR, .qp_num = qp->qpn};

        rxe_set_consumer(r, &qp->rq, i + 1);
        rxe_complete(r, qp->recv_cq, &wc, true);
    }
}

static void qp_event(struct region *r, struct qp *qp, uint32_t type)
{
    event_async(r, qp->context, OBJ_QP << 24 | rxe_qp_index(r, qp), qp->user, type, &qp->async_events);
}

void rxe_break_responder(struct region *r, struct qp *qp)
{
    bool was = atomic_load(&qp->state) == QPS_ERR;

    rxe_set_state(r, qp, QPS_ERR);
    rxe_flush_receives(r, qp);
    if (!was && qp->srq != NONE && !qp->last_wqe_event) {
        qp->last_wqe_event = 1;
        qp_event(r, qp, ASYNC_LAST_WQE);
    }
}

/* Reports a receive as finished. Only the status means anything when it failed. */
static bool complete_receive(struct region *r, struct qp *qp, const struct receive *rx,
                             const struct rxe_request *q, enum rxe_status status, uint32_t length)
{
    struct ib_uverbs_wc wc = {
        .wr_id = rx->wr_id, .status = status, .vendor_err = rx->vendor_err, .qp_num = qp->qpn};

    if (status == WC_SUCCESS) {
        wc.opcode = q->opcode == RXE_WRITE_IMM ? WC_OP_RECV_RDMA_WITH_IMM : WC_OP_RECV;
        wc.byte_len = length;
        wc.wc_flags = WC_FLAG_GRH; /* on RC too, as the kernel's rxe has it */
        wc.port_num = 1;
        if (q->opcode == RXE_WRITE_IMM || q->opcode == RXE_SEND_IMM)
            wc.wc_flags |= WC_FLAG_WITH_IMM;
        if (q->opcode == RXE_SEND_INV)
            wc.wc_flags |= WC_FLAG_WITH_INV;
        wc.ex.invalidate_rkey = wc.wc_flags & (WC_FLAG_WITH_IMM | WC_FLAG_WITH_INV) ? q->imm : 0;
        if (qp->type == IB_UVERBS_QPT_UD)
            wc.src_qp = q->qp->qpn;
    }
    return rxe_complete(r, qp->recv_cq, &wc, status != WC_SUCCESS || (q->flags & RXE_FLAG_SOLICITED));
}

/* The request is refused and, on a connected queue pair that has to tell, the connection with it. */
static struct rxe_answer refuse(struct region *r, struct qp *qp, enum rxe_status status)
{
    struct rxe_answer answer = {.status = status};

    if (qp->type == IB_UVERBS_QPT_RC) {
        rxe_break_responder(r, qp);
        answer.broke_responder = true;
    }
    return answer;
}

/* As refuse, for a key: there is no receive that could tell the responder's side, so an event does. */
static struct rxe_answer refuse_access(struct region *r, struct qp *qp)
{
    struct rxe_answer answer = refuse(r, qp, WC_REM_ACCESS_ERR);

    if (qp->type == IB_UVERBS_QPT_RC)
        qp_event(r, qp, ASYNC_QP_ACCESS_ERR);
    return answer;
}

/* A receive turned out to be at fault: it carries the error, and the queue pair stops. */
static struct rxe_answer fail_receive(struct region *r, struct qp *qp, const struct receive *rx,
                                      const struct rxe_request *q, enum rxe_status status,
                                      enum rxe_status told)
{
    struct rxe_answer answer = {.status = told, .broke_responder = true};

    take_receive(r, qp);
    complete_receive(r, qp, rx, q, status, 0);
    rxe_break_responder(r, qp);
    return answer;
}

static struct rxe_answer accept_request(struct qp *qp, const struct rxe_request *q)
{
    struct rxe_answer answer = {.status = WC_SUCCESS};

    if (qp->type != IB_UVERBS_QPT_UD)
        qp->rq_psn = (qp->rq_psn + q->npsn) & RXE_PSN_MASK;
    return answer;
}

/* Does somebody want this receive to fail? */
static bool must_fail(struct region *r, const struct qp *qp, struct receive *rx, enum rxe_status *ret_status)
{
    struct fault_site site = {.device = qp->device, .qpn = qp->qpn, .op = FAULT_OP_RECV, .wr_id = rx->wr_id};
    struct fault_verdict v = fault_at(r, FAULT_AT_REQUEST, &site);

    rx->vendor_err = v.vendor_err;
    *ret_status = v.status;
    return v.kind == FAULT_COMPLETION;
}

/* The receive queue's answer to success: a full CQ loses the message and the queue pair. */
static struct rxe_answer accept_receive(struct region *r, struct qp *qp, struct receive *rx,
                                        const struct rxe_request *q, uint32_t length)
{
    enum rxe_status instead;

    if (fault_armed(r, FAULT_AT_REQUEST) && must_fail(r, qp, rx, &instead)) {
        if (qp->type == IB_UVERBS_QPT_RC)
            return fail_receive(r, qp, rx, q, instead, WC_REM_OP_ERR);
        take_receive(r, qp);
        complete_receive(r, qp, rx, q, instead, 0);
        return accept_request(qp, q);
    }
    take_receive(r, qp);
    if (!complete_receive(r, qp, rx, q, WC_SUCCESS, length) && qp->type == IB_UVERBS_QPT_RC) {
        struct rxe_answer answer = {.status = RXE_NO_ANSWER, .broke_responder = true};

        rxe_break_responder(r, qp);
        return answer;
    }
    return accept_request(qp, q);
}

static struct rxe_answer local_fault(void)
{
    return (struct rxe_answer){.status = WC_LOC_PROT_ERR};
}

static struct rxe_answer respond_send(struct region *r, struct qp *qp, struct rxe_request *q)
{
    uint32_t extra = qp->type == IB_UVERBS_QPT_UD ? RXE_GRH : 0;
    uint64_t length = (uint64_t)q->length + extra, total = 0;
    struct rxe_answer none = {.status = RXE_NOT_READY, .rnr_timer = qp->attr.min_rnr_timer};
    struct segment target[RXE_MAX_SGE];
    enum copy_result copied = COPY_DONE;
    uint8_t grh[RXE_GRH];
    struct receive rx;
    int n;

    if (!peek_receive(r, qp, length, &rx))
        return none;
    if (rx.room < length)
        return fail_receive(r, qp, &rx, q, WC_LOC_QP_OP_ERR, WC_REM_OP_ERR);
    n = rxe_local_segments(r, qp->pd, rx.sge, rx.num_sge, true, length, target, &total);
    if (n < 0) {
        if (qp->type == IB_UVERBS_QPT_UD) {
            take_receive(r, qp);
            complete_receive(r, qp, &rx, q, WC_LOC_QP_OP_ERR, 0);
            return none;
        }
        return fail_receive(r, qp, &rx, q, WC_LOC_QP_OP_ERR, WC_REM_OP_ERR);
    }
    if (extra) {
        rxe_make_grh(grh, q);
        memmove(q->local + 1, q->local, (size_t)q->nlocal * sizeof(q->local[0]));
        q->local[0] = (struct segment){(uintptr_t)grh, RXE_GRH, NULL};
        q->nlocal++;
    }
    if (length)
        copied = copy_segments(target, q->local, length);
    if (copied == COPY_SOURCE_FAULT) {
        drop_receive(r, qp, &rx);
        return local_fault();
    }
    if (copied == COPY_GONE) {
        drop_receive(r, qp, &rx);
        return (struct rxe_answer){.status = RXE_NO_ANSWER};
    }
    if (copied == COPY_TARGET_FAULT && qp->type != IB_UVERBS_QPT_UD)
        return fail_receive(r, qp, &rx, q, WC_LOC_PROT_ERR, WC_REM_OP_ERR);
    if (copied == COPY_TARGET_FAULT) {
        take_receive(r, qp);
        complete_receive(r, qp, &rx, q, WC_LOC_PROT_ERR, 0);
        return none;
    }
    if (q->opcode == RXE_SEND_INV && !rxe_invalidate(r, qp->pd, q->imm))
        return fail_receive(r, qp, &rx, q, WC_REM_INV_REQ_ERR, WC_SUCCESS);
    return accept_receive(r, qp, &rx, q, (uint32_t)length);
}

static struct rxe_answer respond_write(struct region *r, struct qp *qp, struct rxe_request *q)
{
    struct rxe_answer none = {.status = RXE_NOT_READY, .rnr_timer = qp->attr.min_rnr_timer};
    bool with_receive = q->opcode == RXE_WRITE_IMM;
    enum copy_result copied = COPY_DONE;
    struct segment target;
    struct receive rx;

    if (with_receive && !peek_receive(r, qp, 0, &rx))
        return none;
    if (q->length && !rxe_remote_segment(r, rxe_qp_index(r, qp), q->rkey, q->remote_addr, q->length,
                                         IB_UVERBS_ACCESS_REMOTE_WRITE, false, &target)) {
        if (!with_receive)
            return refuse_access(r, qp);
        if (qp->type == IB_UVERBS_QPT_RC) { /* the receive carries the error */
            take_receive(r, qp);
            complete_receive(r, qp, &rx, q, WC_REM_ACCESS_ERR, 0);
        } else {
            drop_receive(r, qp, &rx);
        }
        return refuse(r, qp, WC_REM_ACCESS_ERR);
    }
    if (q->opcode == RXE_ATOMIC_WRITE && (q->remote_addr & 7))
        return refuse(r, qp, WC_REM_INV_REQ_ERR);
    if (q->length)
        copied = copy_segments(&target, q->local, q->length);
    if (copied != COPY_DONE && with_receive)
        drop_receive(r, qp, &rx);
    if (copied == COPY_SOURCE_FAULT)
        return local_fault();
    if (copied == COPY_TARGET_FAULT)
        return refuse_access(r, qp);
    if (copied == COPY_GONE)
        return (struct rxe_answer){.status = RXE_NO_ANSWER};
    return with_receive ? accept_receive(r, qp, &rx, q, q->length) : accept_request(qp, q);
}

static struct rxe_answer respond_read(struct region *r, struct qp *qp, struct rxe_request *q)
{
    enum copy_result copied = COPY_DONE;
    struct segment source;

    if (q->length && !rxe_remote_segment(r, rxe_qp_index(r, qp), q->rkey, q->remote_addr, q->length,
                                         IB_UVERBS_ACCESS_REMOTE_READ, false, &source))
        return refuse_access(r, qp);
    if (q->length)
        copied = copy_segments(q->local, &source, q->length);
    if (copied == COPY_TARGET_FAULT)
        return local_fault();
    if (copied == COPY_SOURCE_FAULT)
        return refuse_access(r, qp);
    if (copied == COPY_GONE)
        return (struct rxe_answer){.status = RXE_NO_ANSWER};
    return accept_request(qp, q);
}

static uint64_t new_value(const struct rxe_request *q, uint64_t old)
{
    if (q->opcode == RXE_FETCH_ADD)
        return old + q->compare_add;
    return old == q->compare_add ? q->swap : old;
}

/* Atomic towards every other verbs atomic on that memory, whoever executes it; towards the owner's threads
 * too when the memory is this process's. */
static enum copy_result exchange(struct region *r, const struct segment *target, const struct rxe_request *q,
                                 uint64_t *ret_old)
{
    pthread_mutex_t *lock = &r->atomic_lock[target->addr / 8 % ATOMIC_LOCKS];
    struct segment here = {(uintptr_t)ret_old, 8, NULL}, new_here;
    enum copy_result result = COPY_DONE;
    uint64_t new;

    lock_take(lock);
    if (!target->proc) {
        int err = q->opcode == RXE_FETCH_ADD
                      ? guard_fetch_add(target->addr, q->compare_add, ret_old)
                      : guard_compare_swap(target->addr, q->compare_add, q->swap, ret_old);

        result = err ? COPY_TARGET_FAULT : COPY_DONE;
    } else {
        result = copy_segments(&here, target, 8);
        new = new_value(q, *ret_old);
        new_here = (struct segment){(uintptr_t) & new, 8, NULL};
        if (result == COPY_DONE)
            result = copy_segments(target, &new_here, 8);
        else if (result == COPY_SOURCE_FAULT)
            result = COPY_TARGET_FAULT;
    }
    lock_give(lock);
    return result;
}

static struct rxe_answer respond_atomic(struct region *r, struct qp *qp, struct rxe_request *q)
{
    struct segment target, old_here;
    enum copy_result result;
    uint64_t old = 0;

    if (!rxe_remote_segment(r, rxe_qp_index(r, qp), q->rkey, q->remote_addr, 8,
                            IB_UVERBS_ACCESS_REMOTE_ATOMIC, false, &target))
        return refuse_access(r, qp);
    if (q->remote_addr & 7 || target.addr & 7)
        return refuse(r, qp, WC_REM_INV_REQ_ERR);
    result = exchange(r, &target, q, &old);
    if (result == COPY_TARGET_FAULT)
        return refuse_access(r, qp);
    if (result == COPY_GONE)
        return (struct rxe_answer){.status = RXE_NO_ANSWER};
    old_here = (struct segment){(uintptr_t)&old, 8, NULL};
    if (copy_segments(q->local, &old_here, 8) != COPY_DONE)
        return local_fault();
    return accept_request(qp, q);
}

/* Memory is memory here: once the key is good, what was written before is as durable as it will be. */
static struct rxe_answer respond_flush(struct region *r, struct qp *qp, struct rxe_request *q)
{
    struct segment unused;
    bool whole = q->flush_level == 1;

    if ((whole || q->length) && !rxe_remote_segment(r, rxe_qp_index(r, qp), q->rkey, q->remote_addr,
                                                    q->length, needed_access(q), whole, &unused))
        return refuse_access(r, qp);
    return accept_request(qp, q);
}

struct rxe_answer rxe_respond(struct region *r, uint32_t index, struct rxe_request *q)
{
    struct qp *qp = &r->qp[index];
    uint32_t access = needed_access(q);

    if (qp->type == IB_UVERBS_QPT_RC &&
        qp->rq_psn != q->psn) /* ahead: out of sequence; behind: an old duplicate */
        return (struct rxe_answer){.status = RXE_NO_ANSWER};
    if (qp->type == IB_UVERBS_QPT_UC)
        qp->rq_psn = q->psn; /* an unreliable receiver starts again with any first packet */
    if ((qp->attr.qp_access_flags & access) != access)
        return refuse(r, qp, WC_REM_INV_REQ_ERR);
    if ((q->opcode == RXE_READ || is_atomic(q)) && !qp->attr.max_dest_rd_atomic)
        return refuse(r, qp, WC_REM_INV_REQ_ERR);
    if (is_send(q))
        return respond_send(r, qp, q);
    if (is_write(q))
        return respond_write(r, qp, q);
    if (q->opcode == RXE_READ)
        return respond_read(r, qp, q);
    if (is_atomic(q))
        return respond_atomic(r, qp, q);
    return respond_flush(r, qp, q);
}
