/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving half: what a request may do to this queue pair and its memory. Everything runs under the queue pair's
 * rq_lock. */
#include "../fault/fault.h"
#include "../object.h"
#include "counter.h"
#include "efa.h"

/* A receive that was looked at. */
struct receive {
    uint16_t req_id;
    uint16_t ndesc; /* ring entries that it takes */
    uint64_t room;
    struct efa_rx_desc desc[EFA_MAX_RX_SGE];
};

/* The head of the receive queue; false when it is empty. What stands there without an end is nothing yet. */
static bool peek(struct region *r, const struct qp *qp, struct receive *rx)
{
    struct efa_qp *own = efa_qp_of(r, qp);
    const struct efa_rx_desc *ring;
    uint16_t posted;

    rx->ndesc = 0;
    rx->room = 0;
    if (!own->rq_entries)
        return false;
    posted = (uint16_t)__atomic_load_n((uint32_t *)region_at(r, own->rq_doorbell, 4), __ATOMIC_ACQUIRE);
    ring = region_at(r, qp->rq.offset, qp->rq.size);
    if ((uint16_t)(posted - own->rq_taken) > own->rq_entries)
        return false;
    for (uint16_t i = own->rq_taken; i != posted && rx->ndesc < EFA_MAX_RX_SGE; i++) {
        struct efa_rx_desc d;

        memcpy(&d, &ring[i & (own->rq_entries - 1)], sizeof(d));
        if (!rx->ndesc)
            rx->req_id = d.req_id;
        rx->desc[rx->ndesc++] = d;
        rx->room += d.length;
        if (d.lkey_ctrl & EFA_RX_LAST)
            return true;
    }
    return false;
}

static void take(struct region *r, const struct qp *qp, const struct receive *rx)
{
    efa_qp_of(r, qp)->rq_taken += rx->ndesc;
}

void efa_flush_receives(struct region *r, struct qp *qp)
{
    struct receive rx;

    while (peek(r, qp, &rx)) {
        struct efa_cqe e = {.req_id = rx.req_id, .status = EFA_FLUSHED, .qp_num = (uint16_t)qp->qpn};

        take(r, qp, &rx);
        counter_note(r, efa_qp_of(r, qp), COUNT_RECV, false);
        efa_complete(r, qp->recv_cq, &e, EFA_RECV_QUEUE, 0, 0);
    }
}

/* Reports a receive, or an RDMA write that wanted to be reported. rx: NULL for one without a receive. */
static void report(struct region *r, struct qp *qp, const struct efa_request *q, const struct receive *rx, int status)
{
    const struct efa_cq *cq = efa_cq_of(r, &r->cq[qp->recv_cq]);
    bool has_imm = q->wqe->meta.ctrl1 & EFA_TX_HAS_IMM;
    struct efa_cqe e = {
        .req_id = rx ? rx->req_id : 0,
        .status = (uint8_t)status,
        .qp_num = (uint16_t)qp->qpn,
        .length = (uint16_t)q->length,
        .ah = efa_find_ahn(r, qp->pd, q->sgid),
        .src_qp = (uint16_t)q->qp->qpn,
        .imm = has_imm ? q->wqe->meta.imm : 0,
    };

    if (e.ah == EFA_NO_AH && cq->with_sgid)
        memcpy(e.src_addr, q->sgid, sizeof(e.src_addr));
    if (q->opcode == EFA_WRITE)
        e.length_hi = (uint16_t)(q->length >> 16);
    if (rx)
        counter_note(r, efa_qp_of(r, qp), COUNT_RECV, status == EFA_OK);
    efa_complete(r, qp->recv_cq, &e, EFA_RECV_QUEUE, q->opcode,
                 (has_imm ? EFA_CQE_HAS_IMM : 0) | (rx ? 0 : EFA_CQE_UNSOLICITED));
}

/* Segments for that many bytes of a receive; -1 when a key does not cover its part. */
static int segments(struct region *r, const struct qp *qp, const struct receive *rx, uint64_t length,
                    struct segment *out)
{
    int n = 0;

    for (uint32_t i = 0; i < rx->ndesc && length; i++) {
        const struct efa_rx_desc *d = &rx->desc[i];
        uint64_t addr = (uint64_t)d->addr_hi << 32 | d->addr_lo, part = min_u64(d->length, length);
        struct mr *m;

        if (!part)
            continue;
        m = mr_find(r, qp->pd, d->lkey_ctrl & EFA_RX_LKEY, EFA_KEY_SHIFT);
        if (!m || !(m->access & IB_UVERBS_ACCESS_LOCAL_WRITE) || !mr_covers(m, addr, part))
            return -1;
        out[n++] = mr_segment(r, m, addr, part);
        length -= part;
    }
    return n;
}

/* A datagram's receive begins with room for a header, which stays zero. */
static void put_header(struct efa_request *q)
{
    static uint8_t zeros[EFA_GRH];

    memmove(q->local + 1, q->local, q->nlocal * sizeof(q->local[0]));
    q->local[0] = (struct segment){(uintptr_t)zeros, EFA_GRH, NULL};
    q->nlocal++;
    q->length += EFA_GRH;
}

static int fail_receive(struct region *r, struct qp *qp, const struct efa_request *q, const struct receive *rx,
                        int status, int told)
{
    take(r, qp, rx);
    report(r, qp, q, rx, status);
    return told;
}

static int respond_send(struct region *r, struct qp *qp, struct efa_request *q)
{
    enum copy_result copied = COPY_DONE;
    struct segment target[EFA_MAX_RX_SGE];
    struct receive rx;

    if (!peek(r, qp, &rx))
        return EFA_WAIT_RNR;
    if (qp->type == IB_UVERBS_QPT_UD)
        put_header(q);
    if (rx.room < q->length)
        return fail_receive(r, qp, q, &rx, EFA_BAD_LENGTH, EFA_REMOTE_BAD_LENGTH);
    if (segments(r, qp, &rx, q->length, target) < 0)
        return fail_receive(r, qp, q, &rx, EFA_INVALID_LKEY, EFA_REMOTE_BAD_STATUS);
    if (q->length)
        copied = copy_segments(target, q->local, q->length);
    if (copied == COPY_SOURCE_FAULT)
        return EFA_INVALID_LKEY;
    if (copied == COPY_GONE)
        return EFA_WAIT_ANSWER;
    if (copied == COPY_TARGET_FAULT)
        return fail_receive(r, qp, q, &rx, EFA_INVALID_LKEY, EFA_REMOTE_BAD_STATUS);
    if (fault_armed(r, FAULT_AT_REQUEST)) {
        int instead = efa_receive_status(r, qp);

        if (instead != EFA_OK)
            return fail_receive(r, qp, q, &rx, instead, EFA_REMOTE_BAD_STATUS);
    }
    take(r, qp, &rx);
    report(r, qp, q, &rx, EFA_OK);
    return EFA_OK;
}

static int status_of_copy(enum copy_result copied, enum copy_result local_fault)
{
    if (copied == COPY_DONE)
        return EFA_OK;
    if (copied == COPY_GONE)
        return EFA_WAIT_ANSWER;
    return copied == local_fault ? EFA_INVALID_LKEY : EFA_REMOTE_BAD_ADDRESS;
}

/* The memory that the remote key names; false if it may not be touched so. */
static bool remote_segment(struct region *r, const struct qp *qp, const struct efa_request *q, uint32_t access,
                           struct segment *out)
{
    const struct efa_tx_buf *b = &q->wqe->rdma.remote;
    struct mr *m = mr_find(r, qp->pd, b->key, EFA_KEY_SHIFT);

    if (!m || (m->access & access) != access || !mr_covers(m, efa_addr(b), q->length))
        return false;
    *out = mr_segment(r, m, efa_addr(b), q->length);
    return true;
}

static int respond_read(struct region *r, struct qp *qp, struct efa_request *q)
{
    struct segment source;

    if (!q->length)
        return EFA_OK;
    if (!remote_segment(r, qp, q, IB_UVERBS_ACCESS_REMOTE_READ, &source))
        return EFA_REMOTE_BAD_ADDRESS;
    return status_of_copy(copy_segments(q->local, &source, q->length), COPY_TARGET_FAULT);
}

static int respond_write(struct region *r, struct qp *qp, struct efa_request *q)
{
    bool has_imm = q->wqe->meta.ctrl1 & EFA_TX_HAS_IMM;
    bool takes = has_imm && !(efa_qp_of(r, qp)->flags & EFA_QP_UNSOLICITED_WRITE_RECV);
    int status = EFA_OK;
    struct segment target;
    struct receive rx;

    if (takes && !peek(r, qp, &rx))
        return EFA_WAIT_RNR;
    if (q->length && !remote_segment(r, qp, q, IB_UVERBS_ACCESS_REMOTE_WRITE, &target))
        return EFA_REMOTE_BAD_ADDRESS;
    if (q->length)
        status = status_of_copy(copy_segments(&target, q->local, q->length), COPY_SOURCE_FAULT);
    if (status != EFA_OK)
        return status;
    if (takes)
        take(r, qp, &rx);
    if (has_imm)
        report(r, qp, q, takes ? &rx : NULL, EFA_OK);
    return EFA_OK;
}

int efa_respond(struct region *r, uint32_t index, struct efa_request *q)
{
    struct qp *qp = &r->qp[index];
    int status;

    if (q->opcode == EFA_SEND)
        return respond_send(r, qp, q);
    if (efa_find_ahn(r, qp->pd, q->sgid) == EFA_NO_AH)
        return EFA_UNKNOWN_PEER;
    status = q->opcode == EFA_READ ? respond_read(r, qp, q) : respond_write(r, qp, q);
    if (status == EFA_OK)
        counter_note(r, efa_qp_of(r, qp), q->opcode == EFA_READ ? COUNT_REMOTE_READ : COUNT_REMOTE_WRITE, true);
    return status;
}
