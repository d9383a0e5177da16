/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending half: reads descriptors off the ring when the doorbell has been rung, finds the target, lets it respond,
 * completes. A request that has to wait steps aside and is tried again by the service thread. Nothing in a descriptor
 * is believed. */
#include "../config.h"
#include "../fabric/peer.h"
#include "../fault/fault.h"
#include "../lock.h"
#include "../nic.h"
#include "../object.h"
#include "../process.h"
#include "../timer.h"
#include "counter.h"
#include "efa.h"

#define RNR_NS UINT64_C(2000000)       /* between two tries while there is no receive */
#define RETRY_NS UINT64_C(10000000)    /* between two tries while nobody answers */
#define ANSWER_NS UINT64_C(250000000)  /* after which nobody will */
#define REORDER_STEP_NS 20000u         /* reordering holds a request back by 0 to 7 of these */

static bool is_srd(const struct qp *qp)
{
    return qp->type == EFA_QPT_SRD;
}

static uint32_t counted_as(uint32_t opcode)
{
    return opcode == EFA_READ ? COUNT_READ : opcode == EFA_WRITE ? COUNT_WRITE : COUNT_SEND;
}

static void finish(struct region *r, struct qp *qp, const struct efa_tx_wqe *w, int status)
{
    struct efa_cqe e = {.req_id = w->meta.req_id, .status = (uint8_t)status, .qp_num = (uint16_t)qp->qpn};

    TRACE("qp %#x opcode %u: status %d", qp->qpn, w->meta.ctrl1 & EFA_TX_OPCODE, status);
    if (efa_qp_of(r, qp)->flags & EFA_QP_64_BIT_REQ_ID)
        memcpy(e.req_id_ex, w->meta.req_id_ex, sizeof(e.req_id_ex));
    counter_note(r, efa_qp_of(r, qp), counted_as(w->meta.ctrl1 & EFA_TX_OPCODE), status == EFA_OK);
    if (w->meta.ctrl2 & EFA_TX_COMP_REQ)
        efa_complete(r, qp->send_cq, &e, EFA_SEND_QUEUE, w->meta.ctrl1 & EFA_TX_OPCODE, 0);
}

/* ---- what is to be sent, or where what comes back goes ---- */

static int add_local(struct efa_request *q, const struct efa_tx_buf *b, uint64_t length, uint32_t access)
{
    struct mr *m;

    if (!length)
        return EFA_OK;
    m = mr_find(q->r, q->qp->pd, b->key, EFA_KEY_SHIFT);
    if (!m || (m->access & access) != access || !mr_covers(m, efa_addr(b), length))
        return EFA_INVALID_LKEY;
    q->local[q->nlocal++] = mr_segment(q->r, m, efa_addr(b), length);
    return EFA_OK;
}

static int add_inline(struct efa_request *q, const uint8_t *data, uint32_t room)
{
    q->length = q->wqe->meta.length;
    if (q->length > room)
        return EFA_QP_INTERNAL_ERROR;
    if (q->length)
        q->local[q->nlocal++] = (struct segment){(uintptr_t)data, q->length, NULL};
    return EFA_OK;
}

static int local_of_send(struct efa_request *q, const struct efa_make *m)
{
    const struct efa_tx_wqe *w = q->wqe;
    int status = EFA_OK;

    if (w->meta.ctrl1 & EFA_TX_INLINE)
        return add_inline(q, w->inline_data, efa_qp_of(q->r, q->qp)->sq_stride - sizeof(w->meta));
    if (w->meta.length > EFA_TX_BUFS || w->meta.length > q->qp->cap.max_send_sge)
        return EFA_QP_INTERNAL_ERROR;
    for (uint32_t i = 0; i < w->meta.length; i++)
        q->length += w->list[i].length;
    if (q->length > m->mtu)
        return EFA_BAD_LENGTH;
    for (uint32_t i = 0; i < w->meta.length && status == EFA_OK; i++)
        status = add_local(q, &w->list[i], w->list[i].length, 0);
    return status;
}

static int local_of_rdma(struct efa_request *q, const struct efa_make *m)
{
    const struct efa_tx_wqe *w = q->wqe;
    uint32_t room = efa_qp_of(q->r, q->qp)->sq_stride - (uint32_t)offsetof(struct efa_tx_wqe, rdma.inline_data);
    int status;

    if ((w->meta.ctrl1 & EFA_TX_INLINE) && (q->opcode == EFA_READ || room < EFA_INLINE_128))
        return EFA_UNSUPPORTED_OP;
    if (w->meta.ctrl1 & EFA_TX_INLINE) {
        status = add_inline(q, w->rdma.inline_data, room);
        return status == EFA_OK && q->length != w->rdma.remote.length ? EFA_BAD_LENGTH : status;
    }
    q->length = w->rdma.remote.length;
    if (q->length > m->max_rdma_size || (w->meta.length && w->rdma.local.length < q->length) ||
        (!w->meta.length && q->length))
        return EFA_BAD_LENGTH;
    return add_local(q, &w->rdma.local, q->length, q->opcode == EFA_READ ? IB_UVERBS_ACCESS_LOCAL_WRITE : 0);
}

static bool is_offered(const struct qp *qp, const struct efa_make *m, uint32_t opcode)
{
    switch (opcode) {
    case EFA_SEND:
        return true;
    case EFA_READ:
        return is_srd(qp) && (m->caps & EFA_CAP_RDMA_READ);
    case EFA_WRITE:
        return is_srd(qp) && (m->caps & EFA_CAP_RDMA_WRITE);
    default:
        return false;
    }
}

/* ---- the target ---- */

/* Its region (to be given back) and index; NULL: no such queue pair, or nobody who has it any more. */
static struct region *find_target(const struct qp *qp, int device, uint32_t qpn, uint32_t *ret_index)
{
    struct region *r = qpn >> 8 == process.slot ? process.region : peer_get(qpn >> 8);
    struct qp *peer;
    uint32_t i;

    if (!r)
        return NULL;
    i = efa_find_qp(r, (uint32_t)device, qpn);
    if (i == NONE)
        goto none;
    peer = &r->qp[i];
    if (peer->qpn != qpn || (int)peer->device != device || peer->type != qp->type)
        goto none;
    if (!qp_is_served(r, peer))
        goto none;
    *ret_index = i;
    return r;

none:
    peer_put(r);
    return NULL;
}

static int deliver(struct efa_request *q, int device, const uint8_t *dgid)
{
    uint32_t index;
    struct region *r = find_target(q->qp, device, q->wqe->meta.dest_qp_num, &index);
    int instead, status = EFA_REMOTE_BAD_QPN;
    struct qp *peer;

    if (!r)
        return status;
    peer = &r->qp[index];
    lock_take(&peer->rq_lock);
    if (!nic_carries(r, peer->device, dgid))
        status = EFA_WAIT_ANSWER;
    else if ((fault_armed(r, FAULT_AT_ARRIVAL) || q->pending->fault_state) &&
             (instead = efa_arrives(r, peer, q->pending, &q->lose_answer)) != EFA_OK)
        status = instead;
    else if (qp_listens(peer) && peer->attr.qkey == q->wqe->meta.qkey)
        status = efa_respond(r, index, q);
    lock_give(&peer->rq_lock);
    peer_put(r);
    return status;
}

static bool is_on_fabric(int device)
{
    return device >= 0 && device_at(device)->model == &efa_model;
}

int efa_execute(struct region *r, struct qp *qp, struct efa_pending *p, bool *ret_lose_answer)
{
    const struct efa_make *m = efa_make_of(device_at((int)qp->device));
    const struct efa_tx_wqe *w = &p->wqe;
    struct efa_request q = {.r = r, .qp = qp, .wqe = w, .pending = p, .opcode = w->meta.ctrl1 & EFA_TX_OPCODE};
    uint8_t gid[16];
    int device, status;

    nic_gid(r, qp->device, 0, q.sgid);
    if (!is_offered(qp, m, q.opcode))
        return EFA_UNSUPPORTED_OP;
    if (!efa_find_gid(r, qp->pd, w->meta.ah, gid))
        return EFA_INVALID_AH;
    status = q.opcode == EFA_SEND ? local_of_send(&q, m) : local_of_rdma(&q, m);
    if (status != EFA_OK)
        return status;
    device = nic_by_gid(r, gid);
    status = is_on_fabric(device) && nic_carries(r, qp->device, q.sgid) ? deliver(&q, device, gid) : EFA_WAIT_ANSWER;
    *ret_lose_answer = q.lose_answer;
    if (status != EFA_WAIT_ANSWER && device >= 0)
        efa_qp_of(r, qp)->met |= UINT64_C(1) << device;
    if (!is_srd(qp) && status != EFA_INVALID_LKEY && status != EFA_WAIT_LATE)
        return EFA_OK; /* a datagram has left; what became of it nobody tells */
    return status;
}

/* ---- requests that wait ---- */

/* When to try again, or the status with which the request fails. */
static int wait_or_fail(struct region *r, struct qp *qp, struct efa_pending *p, int status)
{
    uint64_t now = now_ns();

    if (status == EFA_WAIT_RNR) {
        if (qp->attr.rnr_retry != EFA_RNR_FOREVER && p->tries >= qp->attr.rnr_retry)
            return EFA_REMOTE_RNR;
        p->tries++;
        p->due = now + RNR_NS;
        return status;
    }
    if (now - p->since >= ANSWER_NS) {
        uint8_t gid[16];
        int device = efa_find_gid(r, qp->pd, p->wqe.meta.ah, gid) ? nic_by_gid(r, gid) : -1;

        return device >= 0 && (efa_qp_of(r, qp)->met >> device & 1) ? EFA_UNRESPONSIVE : EFA_UNREACHABLE;
    }
    p->due = now + RETRY_NS;
    return status;
}

/* One try; true if it is over. */
static bool try(struct region *r, struct qp *qp, struct efa_pending *p)
{
    bool lose;
    int status;

    if (fault_armed(r, FAULT_AT_REQUEST | FAULT_AT_MESSAGE) || p->fault_state)
        status = efa_execute_faulty(r, qp, p);
    else
        status = efa_execute(r, qp, p, &lose);
    if (status == EFA_WAIT_LATE)
        return false;
    if (status == EFA_WAIT_RNR || status == EFA_WAIT_ANSWER)
        status = wait_or_fail(r, qp, p, status);
    if (status == EFA_WAIT_RNR || status == EFA_WAIT_ANSWER)
        return false;
    finish(r, qp, &p->wqe, status);
    return true;
}

static uint32_t next_due(const struct efa_qp *own)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < own->npending; i++) {
        if (own->pending[i].due < own->pending[best].due)
            best = i;
    }
    return best;
}

static void remove_pending(struct efa_qp *own, uint32_t i)
{
    own->npending--;
    memmove(&own->pending[i], &own->pending[i + 1], (own->npending - i) * sizeof(own->pending[0]));
}

static void run_pending(struct region *r, struct qp *qp, struct efa_qp *own)
{
    while (own->npending) {
        uint32_t i = next_due(own);

        if (own->pending[i].due > now_ns())
            break;
        if (try(r, qp, &own->pending[i]))
            remove_pending(own, i);
    }
    timer_set(r, qp, own->npending ? own->pending[next_due(own)].due : 0);
}

/* ---- the ring ---- */

/* A number that depends on the seed, the queue pair and how many were drawn before. */
static uint32_t draw(const struct qp *qp, struct efa_qp *own)
{
    uint64_t x = ((uint64_t)config.reorder_seed << 32 | qp->qpn) + UINT64_C(0x9e3779b97f4a7c15) * ++own->drawn;

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 32);
}

static bool is_well_formed(const struct efa_qp *own, const struct efa_tx_wqe *w)
{
    uint32_t lap = own->sq_taken / own->sq_entries & 1;
    const uint8_t ends = EFA_TX_FIRST | EFA_TX_LAST;

    return (w->meta.ctrl2 & EFA_TX_PHASE) == lap && (w->meta.ctrl1 & EFA_TX_META) && (w->meta.ctrl2 & ends) == ends;
}

static void fetch(struct region *r, const struct efa_qp *own, struct efa_tx_wqe *w)
{
    uint64_t at = own->sq_start + (uint64_t)(own->sq_taken & (own->sq_entries - 1)) * own->sq_stride;

    memset(w, 0, sizeof(*w));
    memcpy(w, region_at(r, at, own->sq_stride), own->sq_stride);
}

static bool has_more(const struct efa_qp *own)
{
    return own->sq_entries && own->sq_taken != own->sq_rung;
}

/* Takes the next descriptor off the ring; it is done, or waits. */
static void take_one(struct region *r, struct qp *qp, struct efa_qp *own)
{
    struct efa_pending p = {.since = now_ns()};
    bool good, later = config.reorder && is_srd(qp);

    fetch(r, own, &p.wqe);
    good = is_well_formed(own, &p.wqe);
    own->sq_taken++;
    if (!good) {
        finish(r, qp, &p.wqe, EFA_QP_INTERNAL_ERROR);
        return;
    }
    if (later)
        p.due = p.since + draw(qp, own) % 8 * REORDER_STEP_NS;
    if (later || !try(r, qp, &p))
        own->pending[own->npending++] = p;
}

static void run_locked(struct region *r, struct qp *qp)
{
    struct efa_qp *own = efa_qp_of(r, qp);
    uint32_t state = atomic_load(&qp->state);

    if (state == QPS_ERR) {
        efa_flush_sends(r, qp);
        return;
    }
    /* more can wait than the ring holds only if the program rings for requests that it did not make */
    while (state == QPS_RTS && has_more(own) && own->npending < own->sq_entries)
        take_one(r, qp, own);
    if (state == QPS_RTS || state == QPS_SQD) /* what has begun goes on */
        run_pending(r, qp, own);
    else
        timer_set(r, qp, 0);
}

void efa_run(struct region *r, struct qp *qp)
{
    lock_take(&qp->sq_lock);
    if (qp->own.offset)
        run_locked(r, qp);
    lock_give(&qp->sq_lock);
}

void efa_ring_qp(struct region *r, struct qp *qp, uint32_t value, bool later)
{
    lock_take(&qp->sq_lock);
    if (qp->own.offset) {
        struct efa_qp *own = efa_qp_of(r, qp);

        if (qp->timer_proc != process.proc)
            qp->timer_proc = process.proc;
        if ((uint16_t)(value - own->sq_taken) <= own->sq_entries) {
            own->sq_rung = (uint16_t)value;
            if (later)
                timer_set(r, qp, now_ns());
            else
                run_locked(r, qp);
        }
    }
    lock_give(&qp->sq_lock);
}

void efa_flush_sends(struct region *r, struct qp *qp)
{
    struct efa_qp *own = efa_qp_of(r, qp);

    for (uint32_t i = 0; i < own->npending; i++)
        finish(r, qp, &own->pending[i].wqe, EFA_FLUSHED);
    own->npending = 0;
    while (has_more(own)) {
        struct efa_tx_wqe w;

        fetch(r, own, &w);
        own->sq_taken++;
        finish(r, qp, &w, EFA_FLUSHED);
    }
    timer_set(r, qp, 0);
}
