/* SPDX-License-Identifier: BSD-3-Clause */
/* What this NIC makes of faults that somebody asked for. A lost SRD message is sent again until the device
 * gives up; one that is late is overtaken by those behind it, which is all that wrong order is here; a
 * duplicate is recognised and changes nothing. Datagrams are lost, late and doubled without anybody being
 * told. */
#include "../fault/fault.h"
#include "efa.h"

/* In efa_pending.fault_state: what rules have had their say about the request. */
enum {
    JUDGED = 1, /* as a request */
    SENT = 2,   /* as a message that is about to be sent */
    ARRIVED = 4 /* as one that has arrived */
};

static enum fault_op op_of(const struct efa_tx_wqe *w)
{
    bool has_imm = w->meta.ctrl1 & EFA_TX_HAS_IMM;

    switch (w->meta.ctrl1 & EFA_TX_OPCODE) {
    case EFA_READ:
        return FAULT_OP_READ;
    case EFA_WRITE:
        return has_imm ? FAULT_OP_WRITE_IMM : FAULT_OP_WRITE;
    default:
        return has_imm ? FAULT_OP_SEND_IMM : FAULT_OP_SEND;
    }
}

static struct fault_site site_of(const struct qp *qp, const struct efa_tx_wqe *w)
{
    struct fault_site site = {.device = qp->device, .qpn = qp->qpn, .op = op_of(w)};

    if ((w->meta.ctrl1 & EFA_TX_OPCODE) != EFA_SEND)
        site.addr = efa_addr(&w->rdma.remote);
    return site;
}

/* The vendor's number behind a status of verbs, as the provider translates; what it has none for is
 * GENERAL_ERR. */
static int efa_status_of(const struct fault_verdict *v)
{
    static const uint8_t numbers[22] = {
        [1] = EFA_BAD_LENGTH,          [2] = EFA_QP_INTERNAL_ERROR,
        [4] = EFA_INVALID_LKEY,        [5] = EFA_FLUSHED,
        [7] = EFA_REMOTE_BAD_STATUS,   [9] = EFA_REMOTE_BAD_LENGTH,
        [10] = EFA_REMOTE_BAD_ADDRESS, [11] = EFA_UNKNOWN_PEER,
        [12] = EFA_UNRESPONSIVE,       [13] = EFA_REMOTE_RNR,
        [15] = EFA_REMOTE_BAD_QPN,     [16] = EFA_REMOTE_ABORT,
        [20] = EFA_UNRESPONSIVE,
    };

    if (v->vendor_err)
        return v->vendor_err < EFA_STATUS_MOST ? (int)v->vendor_err : EFA_STATUS_MOST;
    return v->status < NELEM(numbers) && numbers[v->status] ? numbers[v->status] : EFA_STATUS_MOST;
}

static bool is_final(int status)
{
    return status <= EFA_STATUS_MOST;
}

static int late(struct efa_pending *p, uint64_t delay_ns)
{
    p->due = now_ns() + delay_ns;
    return EFA_WAIT_LATE;
}

/* Nobody tells the sender of a datagram that it did not arrive. */
static int lost(const struct qp *qp)
{
    return qp->type == IB_UVERBS_QPT_UD ? EFA_OK : EFA_WAIT_ANSWER;
}

static int deliver(struct region *r, struct qp *qp, struct efa_pending *p)
{
    bool lose = false;
    int status;

    p->fault_state &= ~(uint32_t)SENT;
    if (p->fault_answer)
        return (int)p->fault_answer - 1;
    status = efa_execute(r, qp, p, &lose);
    if (status == EFA_WAIT_LATE)
        p->fault_state |= SENT;
    if (lose && is_final(status) && qp->type != IB_UVERBS_QPT_UD) {
        p->fault_answer = (uint32_t)status + 1;
        return EFA_WAIT_ANSWER;
    }
    return status;
}

static int send_message(struct region *r, struct qp *qp, struct efa_pending *p, const struct fault_site *site)
{
    struct fault_verdict v = fault_at(r, FAULT_AT_MESSAGE, site);
    int status;

    switch (v.kind) {
    case FAULT_RNR:
        return qp->type == IB_UVERBS_QPT_UD ? EFA_OK : EFA_WAIT_RNR;
    case FAULT_DROP:
        if (!v.answer || qp->type == IB_UVERBS_QPT_UD)
            return v.answer ? deliver(r, qp, p) : lost(qp);
        status = deliver(r, qp, p);
        if (!is_final(status))
            return status;
        p->fault_answer = (uint32_t)status + 1;
        return EFA_WAIT_ANSWER;
    case FAULT_DELAY:
    case FAULT_REORDER:
        p->fault_state |= SENT;
        return late(p, v.delay_ns);
    case FAULT_DUPLICATE:
        if (qp->type == IB_UVERBS_QPT_UD)
            deliver(r, qp, p);
        return deliver(r, qp, p);
    default:
        return deliver(r, qp, p);
    }
}

int efa_execute_faulty(struct region *r, struct qp *qp, struct efa_pending *p)
{
    struct fault_site site = site_of(qp, &p->wqe);

    if (!(p->fault_state & JUDGED)) {
        struct fault_verdict v = fault_at(r, FAULT_AT_REQUEST, &site);
        bool lose;

        p->fault_state |= JUDGED;
        if (v.kind == FAULT_COMPLETION) {
            if (v.moved)
                efa_execute(r, qp, p, &lose);
            return efa_status_of(&v);
        }
    }
    return p->fault_state & SENT ? deliver(r, qp, p) : send_message(r, qp, p, &site);
}

int efa_arrives(struct region *r, struct qp *peer, struct efa_pending *p, bool *ret_lose)
{
    struct fault_site site = site_of(peer, &p->wqe);
    struct fault_verdict v;

    if (p->fault_state & ARRIVED) {
        p->fault_state &= ~(uint32_t)ARRIVED;
        return EFA_OK;
    }
    v = fault_at(r, FAULT_AT_ARRIVAL, &site);
    switch (v.kind) {
    case FAULT_DROP:
        *ret_lose = v.answer;
        return v.answer ? EFA_OK : EFA_WAIT_ANSWER;
    case FAULT_RNR:
        return EFA_WAIT_RNR;
    case FAULT_DELAY:
        p->fault_state |= ARRIVED;
        return late(p, v.delay_ns);
    default:
        return EFA_OK;
    }
}

int efa_receive_status(struct region *r, const struct qp *qp)
{
    struct fault_site site = {.device = qp->device, .qpn = qp->qpn, .op = FAULT_OP_RECV};
    struct fault_verdict v = fault_at(r, FAULT_AT_REQUEST, &site);

    return v.kind == FAULT_COMPLETION ? efa_status_of(&v) : EFA_OK;
}

bool efa_overruns(struct region *r, struct cq *cq, const struct efa_cqe *e, bool *ret_tell)
{
    bool is_receive = (e->flags >> EFA_CQE_QUEUE_SHIFT & 3) == EFA_RECV_QUEUE;
    struct fault_site site = {
        .device = cq->device, .qpn = e->qp_num, .op = is_receive ? FAULT_OP_RECV : FAULT_OP_SEND};

    *ret_tell = false;
    if (!cq->overrun && !fault_armed(r, FAULT_AT_COMPLETION))
        return false;
    return fault_overruns(r, cq, &site, ret_tell);
}
