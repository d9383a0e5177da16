/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending half: takes requests off the send queue in order, finds the peer, lets it respond, completes or
 * waits. Nothing in a request is believed; sizes come from the queue pair and every index is masked. */
#include "../config.h"
#include "../context.h"
#include "../event.h"
#include "../fabric/discovery.h"
#include "../fabric/peer.h"
#include "../fault/fault.h"
#include "../lock.h"
#include "../nic.h"
#include "../object.h"
#include "../process.h"
#include "../timer.h"
#include "rxe.h"

/* Which opcodes each type of queue pair has. */
static bool is_offered(uint32_t type, uint32_t opcode)
{
    static const uint32_t rc = 1u << RXE_WRITE | 1u << RXE_WRITE_IMM | 1u << RXE_SEND | 1u << RXE_SEND_IMM |
                               1u << RXE_READ | 1u << RXE_CMP_SWAP | 1u << RXE_FETCH_ADD |
                               1u << RXE_LOCAL_INV | 1u << RXE_BIND_MW | 1u << RXE_SEND_INV |
                               1u << RXE_FLUSH | 1u << RXE_ATOMIC_WRITE;
    static const uint32_t uc = 1u << RXE_WRITE | 1u << RXE_WRITE_IMM | 1u << RXE_SEND | 1u << RXE_SEND_IMM |
                               1u << RXE_BIND_MW | 1u << RXE_SEND_INV;
    static const uint32_t ud = 1u << RXE_SEND | 1u << RXE_SEND_IMM;
    uint32_t set = type == IB_UVERBS_QPT_RC ? rc : type == IB_UVERBS_QPT_UC ? uc : ud;

    return opcode < 32 && (set >> opcode & 1);
}

static uint32_t completion_opcode(uint32_t opcode)
{
    static const uint8_t map[16] = {
        [RXE_WRITE] = IB_UVERBS_WC_RDMA_WRITE,
        [RXE_WRITE_IMM] = IB_UVERBS_WC_RDMA_WRITE,
        [RXE_SEND] = IB_UVERBS_WC_SEND,
        [RXE_SEND_IMM] = IB_UVERBS_WC_SEND,
        [RXE_SEND_INV] = IB_UVERBS_WC_SEND,
        [RXE_READ] = IB_UVERBS_WC_RDMA_READ,
        [RXE_CMP_SWAP] = IB_UVERBS_WC_COMP_SWAP,
        [RXE_FETCH_ADD] = IB_UVERBS_WC_FETCH_ADD,
        [RXE_LOCAL_INV] = IB_UVERBS_WC_LOCAL_INV,
        [RXE_BIND_MW] = IB_UVERBS_WC_BIND_MW,
        [RXE_FLUSH] = 8,
        [RXE_ATOMIC_WRITE] = 9, /* newer than some headers */
    };

    return map[opcode & 15];
}

/* The head request is finished: free its slot, complete it if asked for or if it failed. */
static void finish(struct region *r, struct qp *qp, const struct rxe_send_wqe *w, enum rxe_status status,
                   uint32_t vendor_err)
{
    struct ib_uverbs_wc wc = {
        .wr_id = w->wr.wr_id, .status = status, .vendor_err = vendor_err, .qp_num = qp->qpn};
    bool report = status != WC_SUCCESS || qp->sq_sig_all || (w->wr.send_flags & RXE_FLAG_SIGNALED);

    if (status == WC_SUCCESS) {
        wc.opcode = completion_opcode(w->wr.opcode);
        wc.byte_len = w->dma.length;
        if (w->wr.opcode == RXE_WRITE_IMM || w->wr.opcode == RXE_SEND_IMM)
            wc.wc_flags = WC_FLAG_WITH_IMM;
    }
    rxe_set_consumer(r, &qp->sq, rxe_consumer(r, &qp->sq) + 1);
    if (report)
        rxe_complete(r, qp->send_cq, &wc, false);
}

void rxe_flush_sends(struct region *r, struct qp *qp)
{
    uint32_t i;

    while ((i = rxe_consumer(r, &qp->sq)) != rxe_producer(r, &qp->sq)) {
        struct rxe_send_wqe *slot = rxe_slot(r, &qp->sq, i), w;

        memcpy(&w, slot, sizeof(w));
        finish(r, qp, &w, WC_WR_FLUSH_ERR, 0);
    }
}

/* What is to be sent, or where what comes back goes. */
static enum rxe_status local_side(struct rxe_request *q, const struct rxe_send_wqe *w,
                                  struct rxe_send_wqe *slot)
{
    bool comes_back = q->opcode == RXE_READ || q->opcode == RXE_CMP_SWAP || q->opcode == RXE_FETCH_ADD;
    uint64_t total = 0, want = q->opcode == RXE_CMP_SWAP || q->opcode == RXE_FETCH_ADD ? 8 : q->length;

    q->nlocal = 0;
    if (q->opcode == RXE_FLUSH)
        return WC_SUCCESS;
    if (q->opcode == RXE_ATOMIC_WRITE || ((w->wr.send_flags & RXE_FLAG_INLINE) && !comes_back)) {
        if (q->opcode == RXE_ATOMIC_WRITE)
            q->length = 8;
        else if (q->length > q->qp->cap.max_inline_data)
            return WC_LOC_QP_OP_ERR;
        if (q->length)
            q->local[q->nlocal++] = (struct segment){(uintptr_t)slot->dma.inline_data, q->length, NULL};
        return WC_SUCCESS;
    }
    if (comes_back && (w->wr.send_flags & RXE_FLAG_INLINE)) /* inline bytes stand where the list should be */
        return WC_LOC_PROT_ERR;
    if (w->dma.num_sge > q->qp->cap.max_send_sge)
        return WC_LOC_QP_OP_ERR;
    q->nlocal = rxe_local_segments(q->r, q->qp->pd, slot->dma.sge, w->dma.num_sge, comes_back, want, q->local,
                                   &total);
    if (q->nlocal < 0)
        return WC_LOC_PROT_ERR;
    return total < want ? WC_LOC_QP_OP_ERR : WC_SUCCESS; /* the list holds less than the request says */
}

/* The responder's region (to be given back) and index, for a connected queue pair or a datagram's address. */
static struct region *find_peer(struct qp *qp, int device, uint32_t qpn, uint32_t *ret_index)
{
    struct region *r;
    struct qp *peer;

    r = qpn >> 16 == process.slot ? process.region : peer_get(qpn >> 16 & 0xff);
    if (!r)
        return NULL;
    *ret_index = qpn & 0xffff;
    if (*ret_index >= MAX_QPS)
        goto none;
    peer = &r->qp[*ret_index];
    if (peer->qpn != qpn || (int)peer->device != device || peer->type != qp->type)
        goto none;
    if (qp->type !=
        IB_UVERBS_QPT_UD) { /* a region that came later to the same slot is not the one we connected to */
        if (!qp->peer_instance)
            qp->peer_instance = r->instance;
        if (qp->peer_instance != r->instance)
            goto none;
    }
    if (!qp_is_served(r, peer))
        goto none;
    return r;

none:
    peer_put(r);
    return NULL;
}

/* Do the two ends of a connection name each other? The caller holds the peer's rq_lock. */
static bool is_connected(const struct rxe_request *q, const struct qp *peer)
{
    return peer->attr.dest_qp_num == q->qp->qpn && memcmp(peer->attr.dest.dgid, q->sgid, 16) == 0 &&
           memcmp(peer->sgid, q->dgid, 16) == 0;
}

/* One message to one queue pair. */
static struct rxe_answer deliver(struct region *r, uint32_t index, struct rxe_request *q)
{
    struct qp *peer = &r->qp[index];
    struct rxe_answer answer = {.status = RXE_NO_ANSWER};
    struct rxe_answer instead;

    if (!nic_carries(q->r, q->qp->device, q->sgid))
        return answer;
    if ((fault_armed(r, FAULT_AT_ARRIVAL) || q->qp->fault_state) && !rxe_arrives(r, peer, q, &instead))
        return instead;
    lock_take(&peer->rq_lock);
    if (qp_listens(peer) && (gid_is_multicast(q->dgid) || nic_carries(r, peer->device, q->dgid)) &&
        (q->qp->type == IB_UVERBS_QPT_UD ? peer->attr.qkey == q->qkey : is_connected(q, peer)))
        answer = rxe_respond(r, index, q);
    lock_give(&peer->rq_lock);
    return answer;
}

/* A copy for every member of the group that has a receive for it, the sender too if it is one. */
static void multicast(struct rxe_request *q)
{
    peer_attach_all();
    for (uint32_t slot = 0; slot < FABRIC_SLOTS; slot++) {
        struct region *r = peer_get_known(slot);
        uint32_t index;

        for (int i = -1; r && (i = mcast_next(r, q->dgid, i, &index)) >= 0;) {
            struct rxe_request copy = *q;

            deliver(r, index, &copy);
        }
        peer_put(r);
    }
}

static struct rxe_answer send_datagram(struct rxe_request *q, const struct rxe_send_wqe *w)
{
    struct rxe_answer answer = {.status = WC_SUCCESS};
    uint32_t ah = w->wr.wr.ud.ah_num, index;
    struct ib_uverbs_global_route grh;
    uint8_t sgid[16];
    bool routed = true;
    struct region *r;
    int device;

    if (ah) {
        if (ah >= MAX_AHS || !atomic_load_explicit(&q->r->ah[ah].used, memory_order_acquire) ||
            q->r->ah[ah].pd != q->qp->pd) {
            answer.status = WC_LOC_QP_OP_ERR;
            return answer;
        }
        grh = q->r->ah[ah].attr.grh;
        memcpy(sgid, q->r->ah[ah].sgid, sizeof(sgid));
    } else { /* a provider older than rdma-core 39 puts the address into the request */
        memcpy(grh.dgid, w->wr.wr.ud.av.grh.dgid.raw, 16);
        grh.traffic_class = w->wr.wr.ud.av.grh.traffic_class;
        routed = nic_gid(q->r, q->qp->device, w->wr.wr.ud.av.grh.sgid_index, sgid);
    }
    if (q->length > RXE_UD_MTU || !routed) /* never leaves the NIC, and nobody is told */
        return answer;
    q->sgid = sgid;
    q->dgid = grh.dgid;
    q->traffic_class = grh.traffic_class;
    q->qkey = w->wr.wr.ud.remote_qkey;
    if (gid_is_multicast(grh.dgid)) {
        multicast(q);
        return answer;
    }
    device = nic_by_gid(q->r, grh.dgid);
    r = device < 0 ? NULL : find_peer(q->qp, device, w->wr.wr.ud.remote_qpn, &index);
    if (r) {
        struct rxe_answer told = deliver(r, index, q);

        if (told.status == WC_LOC_PROT_ERR || told.status == RXE_LATE)
            answer = told;
    }
    peer_put(r);
    return answer;
}

static struct rxe_answer send_connected(struct rxe_request *q, struct rxe_loose_end *end)
{
    struct qp *qp = q->qp;
    struct rxe_answer answer = {.status = RXE_NO_ANSWER};
    uint32_t index;
    struct region *r = NULL;

    if (qp->dest_device != NONE)
        r = find_peer(qp, (int)qp->dest_device, qp->attr.dest_qp_num, &index);
    q->sgid = qp->sgid;
    q->dgid = qp->attr.dest.dgid;
    if (r)
        answer = deliver(r, index, q);
    if (answer.broke_responder && !(r == q->r && &r->qp[index] == qp))
        *end = (struct rxe_loose_end){r, index}; /* with the reference */
    else
        peer_put(r);
    if (q->lose_answer)
        answer = rxe_lose_answer(qp, answer);
    if (qp->type == IB_UVERBS_QPT_UC && answer.status != WC_LOC_PROT_ERR &&
        answer.status != RXE_LATE) /* nobody tells an unreliable sender */
        answer.status = WC_SUCCESS;
    return answer;
}

struct rxe_answer rxe_execute(struct region *r, struct qp *qp, const struct rxe_send_wqe *w, struct rxe_send_wqe *slot,
                              struct rxe_loose_end *end)
{
    struct rxe_answer answer = {.status = WC_LOC_QP_OP_ERR};
    struct rxe_request q;

    if (!is_offered(qp->type, w->wr.opcode))
        return answer;
    if (w->wr.opcode == RXE_LOCAL_INV || w->wr.opcode == RXE_BIND_MW) {
        if (w->wr.opcode == RXE_LOCAL_INV)
            answer.status =
                rxe_invalidate(r, qp->pd, w->wr.ex.invalidate_rkey) ? WC_SUCCESS : WC_LOC_QP_OP_ERR;
        else
            answer.status = rxe_bind(r, rxe_qp_index(r, qp), &w->wr) ? WC_SUCCESS : WC_MW_BIND_ERR;
        return answer;
    }
    q.r = r;
    q.qp = qp;
    q.opcode = w->wr.opcode;
    q.flags = w->wr.send_flags;
    q.length = w->dma.length;
    q.imm = w->wr.ex.invalidate_rkey;
    q.remote_addr = w->wr.wr.rdma.remote_addr; /* at one place in all forms */
    q.rkey = w->wr.wr.rdma.rkey;
    if (q.opcode == RXE_CMP_SWAP || q.opcode == RXE_FETCH_ADD) {
        q.rkey = w->wr.wr.atomic.rkey;
        q.compare_add = w->wr.wr.atomic.compare_add;
        q.swap = w->wr.wr.atomic.swap;
    } else if (q.opcode == RXE_FLUSH) { /* {remote_addr, length, rkey, type, level}, in no header yet */
        q.rkey = w->wr.wr.rdma.reserved;
        q.flush_type = ((const uint8_t *)&w->wr.wr)[16];
        q.flush_level = ((const uint8_t *)&w->wr.wr)[17];
    }
    if (q.length > RXE_MAX_MESSAGE) {
        answer.status = WC_LOC_LEN_ERR;
        return answer;
    }
    answer.status = local_side(&q, w, slot);
    if (answer.status != WC_SUCCESS)
        return answer;
    q.lose_answer = false;
    q.psn = qp->sq_psn;
    q.npsn = 1;
    if (q.length && q.opcode != RXE_CMP_SWAP && q.opcode != RXE_FETCH_ADD && q.opcode != RXE_FLUSH)
        q.npsn = (q.length + rxe_mtu(qp) - 1) / rxe_mtu(qp);
    answer = qp->type == IB_UVERBS_QPT_UD ? send_datagram(&q, w) : send_connected(&q, end);
    if (answer.status == WC_SUCCESS || (q.lose_answer && qp->fault_answer == WC_SUCCESS + 1))
        qp->sq_psn = (qp->sq_psn + q.npsn) & RXE_PSN_MASK;
    return answer;
}

static const uint32_t rnr_delay_us[32] = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,    320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

/* One more expiry of the ack timer; false when there was one too many. 7 is endless here, as in the kernel's
 * rxe. */
static bool count_timeout(struct qp *qp)
{
    if (!qp->retries_left)
        return false;
    if (qp->retries_left != 7)
        qp->retries_left--;
    return true;
}

/* The receiver was not ready. The kernel's ack timer runs on meanwhile, so that a long wait ends in retry
 * exceeded. */
static enum rxe_status wait_for_receive(struct region *r, struct qp *qp, uint32_t rnr_timer)
{
    uint64_t now = now_ns(), timeout = qp->attr.timeout ? UINT64_C(4096) << (qp->attr.timeout & 31) : 0;

    if (!qp->rnr_left)
        return WC_RNR_RETRY_EXC_ERR;
    if (qp->rnr_left != 7)
        qp->rnr_left--;
    if (!qp->ack_deadline) {
        qp->ack_deadline = now + timeout;
    } else if (timeout && now >= qp->ack_deadline) {
        if (!count_timeout(qp))
            return WC_RETRY_EXC_ERR;
        qp->ack_deadline = now + timeout;
    }
    timer_set(r, qp, now + rnr_delay_us[rnr_timer & 31] * UINT64_C(1000));
    return RXE_NO_ANSWER;
}

/* The request was not taken: try again later (RXE_NO_ANSWER), or give up with the status returned. */
static enum rxe_status retry_later(struct region *r, struct qp *qp, const struct rxe_answer *answer)
{
    if (answer->status == RXE_NOT_READY)
        return wait_for_receive(r, qp, answer->rnr_timer);
    if (!qp->attr.timeout) { /* no timer, no end */
        timer_set(r, qp, UINT64_MAX);
        return RXE_NO_ANSWER;
    }
    if (!count_timeout(qp))
        return WC_RETRY_EXC_ERR;
    timer_set(r, qp, now_ns() + (UINT64_C(4096) << (qp->attr.timeout & 31)));
    return RXE_NO_ANSWER;
}

static void drain_if_empty(struct region *r, struct qp *qp)
{
    if (atomic_load(&qp->state) != QPS_SQD || qp->drained || atomic_load(&qp->wait_until))
        return;
    qp->drained = 1;
    event_async(r, qp->context, OBJ_QP << 24 | rxe_qp_index(r, qp), qp->user, ASYNC_SQ_DRAINED,
                &qp->async_events);
}

/* May the head request be started (or started again)? */
static bool may_run(struct qp *qp)
{
    uint32_t state = atomic_load_explicit(&qp->state, memory_order_relaxed);
    uint64_t until = atomic_load_explicit(&qp->wait_until, memory_order_relaxed);

    if (until && now_ns() < until)
        return false;
    if (state == QPS_SQD) /* only what had begun before */
        return until != 0;
    return state == QPS_RTS;
}

void rxe_copy_request(struct rxe_send_wqe *w, const struct rxe_send_wqe *slot, uint32_t type)
{
    memcpy(&w->wr, &slot->wr, offsetof(struct rxe_send_wr, wr.ud.av));
    if (type == IB_UVERBS_QPT_UD)
        memcpy(&w->wr.wr.ud.av, &slot->wr.wr.ud.av, sizeof(w->wr.wr.ud.av));
    memcpy(&w->dma, &slot->dma, sizeof(w->dma));
}

struct rxe_loose_end rxe_run_locked(struct region *r, struct qp *qp)
{
    struct rxe_loose_end end = {0};
    uint32_t i;

    while (!end.r && (i = rxe_consumer(r, &qp->sq)) != rxe_producer(r, &qp->sq)) {
        struct rxe_send_wqe *slot = rxe_slot(r, &qp->sq, i), w;
        struct rxe_answer answer;
        enum rxe_status status;

        if (atomic_load_explicit(&qp->state, memory_order_relaxed) == QPS_ERR) {
            rxe_flush_sends(r, qp);
            break;
        }
        if (!may_run(qp))
            break;
        timer_set(r, qp, 0);
        rxe_copy_request(&w, slot, qp->type);
        if (fault_armed(r, FAULT_AT_REQUEST | FAULT_AT_MESSAGE) || qp->fault_state)
            answer = rxe_execute_faulty(r, qp, &w, slot, &end);
        else
            answer = rxe_execute(r, qp, &w, slot, &end);
        status = answer.status;
        TRACE("qp %#x opcode %u length %u: status %d", qp->qpn, w.wr.opcode, w.dma.length, (int)status);
        if (status == RXE_LATE) {
            timer_set(r, qp, now_ns() + answer.delay_ns);
            break;
        }
        if (status == RXE_NOT_READY || status == RXE_NO_ANSWER) {
            status = retry_later(r, qp, &answer);
            if (status == RXE_NO_ANSWER)
                break;
        }
        qp->retries_left = qp->attr.retry_cnt;
        qp->rnr_left = qp->attr.rnr_retry;
        qp->ack_deadline = 0;
        if (qp->fault_state)
            rxe_faults_next(qp);
        finish(r, qp, &w, status, answer.vendor_err);
        if (status != WC_SUCCESS) {
            lock_take(&qp->rq_lock);
            rxe_break_responder(r, qp);
            lock_give(&qp->rq_lock);
            rxe_flush_sends(r, qp);
        }
    }
    drain_if_empty(r, qp);
    return end;
}

void rxe_flush_other(struct rxe_loose_end end)
{
    struct qp *qp;

    if (!end.r)
        return;
    qp = &end.r->qp[end.qp];
    lock_take(&qp->sq_lock);
    if (atomic_load(&qp->state) == QPS_ERR)
        rxe_flush_sends(end.r, qp);
    lock_give(&qp->sq_lock);
    peer_put(end.r);
}

/* A broken responder is cleaned up between two requests, when none of our locks is held; then the rest goes
 * on. */
void rxe_run(struct region *r, struct qp *qp)
{
    struct rxe_loose_end end;

    do {
        lock_take(&qp->sq_lock);
        end = qp->sq.offset ? rxe_run_locked(r, qp) : (struct rxe_loose_end){0};
        lock_give(&qp->sq_lock);
        rxe_flush_other(end);
    } while (end.r);
}

int rxe_doorbell(struct region *r, struct qp *qp)
{
    uint32_t state = atomic_load(&qp->state);

    /* Refused before RTS, but the requests stay in the queue: the provider has moved its index already. */
    if (state < QPS_RTS || state == QPS_DEAD)
        return EINVAL;
    if (qp->timer_proc != process.proc)
        qp->timer_proc = process.proc;
    rxe_run(r, qp);
    if (state == QPS_ERR) { /* the one occasion to look at receives that is sure to come in time */
        lock_take(&qp->rq_lock);
        if (atomic_load(&qp->state) == QPS_ERR)
            rxe_flush_receives(r, qp);
        lock_give(&qp->rq_lock);
    }
    return 0;
}
