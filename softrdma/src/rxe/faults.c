/* SPDX-License-Identifier: BSD-3-Clause */
/* What this NIC makes of faults that somebody asked for. A message that is lost, or found no receive, is
 * retried by the queue pair's own timers; one that is late keeps those behind it waiting. On a reliable
 * connection sequence numbers make duplicates and wrong order harmless, and the responder's check of them is
 * what these faults go through; a datagram is really delivered twice, or after the next. */
#include "../fabric/peer.h"
#include "../fault/fault.h"
#include "rxe.h"

/* In qp.fault_state: what rules have had their say about the head request. */
enum {
    JUDGED = 1,  /* as a request */
    SENT = 2,    /* as a message that is about to be sent */
    ARRIVED = 4, /* as one that has arrived */
    HELD = 8,    /* it waits for another to change places with */
    LOST = 32,   /* the receiver's rules lost it, or the answer */
    SWAPPED = 16 /* the next one went first: qp.fault_answer is the answer to that */
};

static enum fault_op op_of(uint32_t opcode)
{
    static const uint8_t map[16] = {
        [RXE_WRITE] = FAULT_OP_WRITE,         [RXE_WRITE_IMM] = FAULT_OP_WRITE_IMM,
        [RXE_SEND] = FAULT_OP_SEND,           [RXE_SEND_IMM] = FAULT_OP_SEND_IMM,
        [RXE_READ] = FAULT_OP_READ,           [RXE_CMP_SWAP] = FAULT_OP_CMP_SWAP,
        [RXE_FETCH_ADD] = FAULT_OP_FETCH_ADD, [RXE_LOCAL_INV] = FAULT_OP_LOCAL_INV,
        [RXE_BIND_MW] = FAULT_OP_BIND_MW,     [RXE_SEND_INV] = FAULT_OP_SEND_INV,
        [RXE_FLUSH] = FAULT_OP_FLUSH,         [RXE_ATOMIC_WRITE] = FAULT_OP_ATOMIC_WRITE,
    };

    return map[opcode & 15];
}

static bool has_address(enum fault_op op)
{
    return op != FAULT_OP_SEND && op != FAULT_OP_SEND_IMM && op != FAULT_OP_SEND_INV &&
           op != FAULT_OP_LOCAL_INV && op != FAULT_OP_BIND_MW;
}

static bool is_local(uint32_t opcode)
{
    return opcode == RXE_LOCAL_INV || opcode == RXE_BIND_MW;
}

static struct fault_site site_of(const struct qp *qp, const struct rxe_send_wqe *w)
{
    struct fault_site site = {
        .device = qp->device, .qpn = qp->qpn, .op = op_of(w->wr.opcode), .wr_id = w->wr.wr_id};

    if (has_address(site.op))
        site.addr = w->wr.wr.rdma.remote_addr;
    return site;
}

/* Nobody tells the sender of an unreliable message that it did not arrive. */
static struct rxe_answer lost(const struct qp *qp)
{
    return (struct rxe_answer){.status = qp->type == IB_UVERBS_QPT_RC ? RXE_NO_ANSWER : WC_SUCCESS};
}

static bool is_final(enum rxe_status status)
{
    return status < RXE_NOT_READY;
}

/* The message has been dealt with; what the responder says about it will be heard with the next try. */
struct rxe_answer rxe_lose_answer(struct qp *qp, struct rxe_answer answer)
{
    if (qp->type != IB_UVERBS_QPT_RC || !is_final(answer.status))
        return answer;
    qp->fault_answer = answer.status + 1;
    qp->fault_state |= JUDGED; /* the sender's region may have no rules of its own */
    return lost(qp);
}

/* The same message again, with its old number, or before its turn, with a number that is not due. */
static struct rxe_answer send_stray(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                                    struct rxe_send_wqe *slot, uint32_t psn)
{
    struct rxe_loose_end end = {0};
    struct rxe_answer answer;
    uint32_t due = qp->sq_psn;

    qp->sq_psn = psn & RXE_PSN_MASK;
    answer = rxe_execute(r, qp, w, slot, &end);
    qp->sq_psn = due;
    peer_put(end.r);
    return answer;
}

static struct rxe_answer send_twice(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                                    struct rxe_send_wqe *slot, struct rxe_loose_end *end)
{
    uint32_t psn = qp->sq_psn;
    struct rxe_answer answer = rxe_execute(r, qp, w, slot, end);

    if (answer.status == WC_SUCCESS && !end->r)
        send_stray(r, qp, w, slot, psn);
    return answer;
}

/* The next request first, if there is one yet; otherwise wait for it, once. */
static struct rxe_answer swap(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                              struct rxe_send_wqe *slot, uint64_t patience, struct rxe_loose_end *end)
{
    uint32_t next = (rxe_consumer(r, &qp->sq) + 1) & qp->sq.mask;
    struct rxe_loose_end second = {0};
    struct rxe_send_wqe *next_slot = rxe_slot(r, &qp->sq, next), other;
    struct rxe_answer answer;

    if (next == rxe_producer(r, &qp->sq)) {
        if (!patience)
            return rxe_execute(r, qp, w, slot, end);
        qp->fault_state |= HELD;
        return (struct rxe_answer){.status = RXE_LATE, .delay_ns = patience};
    }
    rxe_copy_request(&other, next_slot, qp->type);
    answer = rxe_execute(r, qp, &other, next_slot, end);
    if (!is_final(answer.status))
        answer.status = WC_SUCCESS; /* late on arrival: once is enough */
    qp->fault_answer = answer.status + 1;
    qp->fault_state |= SWAPPED;
    answer = rxe_execute(r, qp, w, slot, end->r ? &second : end);
    peer_put(second.r); /* the same as end's: a connection has one peer */
    return is_final(answer.status) ? answer : lost(qp);
}

static struct rxe_answer send_in_disorder(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                                          struct rxe_send_wqe *slot, uint64_t patience,
                                          struct rxe_loose_end *end)
{
    if (qp->type != IB_UVERBS_QPT_RC)
        return swap(r, qp, w, slot, patience, end);
    send_stray(r, qp, w, slot, qp->sq_psn + 1);
    return rxe_execute(r, qp, w, slot, end);
}

/* A try after the one whose answer was lost: the responder knows the message already, and says again what it
 * said. */
static struct rxe_answer deliver_again(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                                       struct rxe_send_wqe *slot)
{
    struct rxe_answer answer, before = {.status = qp->fault_answer - 1};

    if (qp->type != IB_UVERBS_QPT_RC)
        return before;
    qp->fault_state &= ~(uint32_t)LOST;
    answer = send_stray(r, qp, w, slot, qp->sq_psn - 1);
    if (answer.status == RXE_LATE)
        return answer;
    return qp->fault_state & LOST ? lost(qp) : before;
}

/* The responder's own answer, now or from an earlier try. */
static struct rxe_answer deliver(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                                 struct rxe_send_wqe *slot, struct rxe_loose_end *end)
{
    struct rxe_answer answer;

    qp->fault_state &= ~(uint32_t)SENT;
    answer = qp->fault_answer ? deliver_again(r, qp, w, slot) : rxe_execute(r, qp, w, slot, end);
    if (answer.status == RXE_LATE) /* on arrival: it has been sent */
        qp->fault_state |= SENT;
    return answer;
}

static struct rxe_answer send_message(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                                      struct rxe_send_wqe *slot, const struct fault_site *site,
                                      struct rxe_loose_end *end)
{
    struct fault_verdict v = fault_at(r, FAULT_AT_MESSAGE, site);

    switch (v.kind) {
    case FAULT_RNR:
        if (qp->type != IB_UVERBS_QPT_RC)
            return lost(qp);
        return (struct rxe_answer){.status = RXE_NOT_READY, .rnr_timer = qp->attr.min_rnr_timer};
    case FAULT_DROP:
        return v.answer && !qp->fault_answer ? rxe_lose_answer(qp, deliver(r, qp, w, slot, end)) : lost(qp);
    case FAULT_DELAY:
        qp->fault_state |= SENT;
        return (struct rxe_answer){.status = RXE_LATE, .delay_ns = v.delay_ns};
    case FAULT_DUPLICATE:
        return qp->fault_answer ? deliver(r, qp, w, slot, end) : send_twice(r, qp, w, slot, end);
    case FAULT_REORDER:
        if (qp->fault_answer)
            return deliver(r, qp, w, slot, end);
        return send_in_disorder(r, qp, w, slot, v.delay_ns, end);
    default:
        return deliver(r, qp, w, slot, end);
    }
}

struct rxe_answer rxe_execute_faulty(struct region *r, struct qp *qp, const struct rxe_send_wqe *w,
                                     struct rxe_send_wqe *slot, struct rxe_loose_end *end)
{
    struct fault_site site = site_of(qp, w);

    if (!(qp->fault_state & JUDGED)) {
        struct fault_verdict v = fault_at(r, FAULT_AT_REQUEST, &site);

        qp->fault_state |= JUDGED;
        if (v.kind == FAULT_COMPLETION) {
            if (v.moved)
                rxe_execute(r, qp, w, slot, end);
            return (struct rxe_answer){.status = v.status, .vendor_err = v.vendor_err};
        }
    }
    if (is_local(w->wr.opcode))
        return rxe_execute(r, qp, w, slot, end);
    if (qp->fault_state & HELD) {
        qp->fault_state &= ~(uint32_t)HELD;
        return swap(r, qp, w, slot, 0, end);
    }
    if (qp->fault_state & SENT)
        return deliver(r, qp, w, slot, end);
    return send_message(r, qp, w, slot, &site, end);
}

void rxe_faults_next(struct qp *qp)
{
    if (qp->fault_state & SWAPPED) {
        qp->fault_state = SENT; /* and fault_answer is the next one's */
    } else {
        qp->fault_state = 0;
        qp->fault_answer = 0;
    }
}

bool rxe_arrives(struct region *r, struct qp *peer, struct rxe_request *q, struct rxe_answer *ret_answer)
{
    struct fault_site site = {.device = peer->device, .qpn = peer->qpn, .op = op_of(q->opcode)};
    struct fault_verdict v;

    if (q->qp->fault_state & ARRIVED) {
        q->qp->fault_state &= ~(uint32_t)ARRIVED;
        return true;
    }
    if (has_address(site.op))
        site.addr = q->remote_addr;
    v = fault_at(r, FAULT_AT_ARRIVAL, &site);
    if (v.kind == FAULT_DROP)
        q->qp->fault_state |= LOST;
    if (v.kind == FAULT_DROP && v.answer) {
        q->lose_answer = true;
        return true;
    }
    if (v.kind == FAULT_DELAY && gid_is_multicast(q->dgid)) /* nobody to wait for it */
        return true;
    if (v.kind == FAULT_DROP)
        *ret_answer = (struct rxe_answer){.status = RXE_NO_ANSWER};
    else if (v.kind == FAULT_RNR)
        *ret_answer = (struct rxe_answer){.status = RXE_NOT_READY, .rnr_timer = peer->attr.min_rnr_timer};
    else if (v.kind == FAULT_DELAY)
        *ret_answer = (struct rxe_answer){.status = RXE_LATE, .delay_ns = v.delay_ns};
    if (v.kind == FAULT_DELAY)
        q->qp->fault_state |= ARRIVED;
    return v.kind == FAULT_NONE;
}
