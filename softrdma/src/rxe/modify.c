/* SPDX-License-Identifier: BSD-3-Clause */
/* Changing and asking a queue pair's state: the transitions that ib_core allows, the attributes that each
 * needs, and what the rxe driver checks itself. */
#include "../event.h"
#include "../fabric/discovery.h"
#include "../fabric/peer.h"
#include "../lock.h"
#include "../nic.h"
#include "../object.h"
#include "../process.h"
#include "../timer.h"
#include "rxe.h"

enum { /* ib_qp_attr_mask */
       M_STATE = 1 << 0,
       M_CUR_STATE = 1 << 1,
       M_SQD_NOTIFY = 1 << 2,
       M_ACCESS = 1 << 3,
       M_PKEY = 1 << 4,
       M_PORT = 1 << 5,
       M_QKEY = 1 << 6,
       M_AV = 1 << 7,
       M_MTU = 1 << 8,
       M_TIMEOUT = 1 << 9,
       M_RETRY = 1 << 10,
       M_RNR_RETRY = 1 << 11,
       M_RQ_PSN = 1 << 12,
       M_MAX_RD = 1 << 13,
       M_ALT_PATH = 1 << 14, /* refused everywhere: RoCE has no alternate paths */
       M_MIN_RNR = 1 << 15,
       M_SQ_PSN = 1 << 16,
       M_MAX_DEST_RD = 1 << 17,
       M_MIG_STATE = 1 << 18,
       M_DEST_QPN = 1 << 20,
       M_ALL = 0x1fffff,
};

enum { RC, UC, UD, NTYPES };

struct transition {
    bool allowed;
    uint32_t required[NTYPES], optional[NTYPES];
};

#define RTS_OPTIONS                                                                                          \
    {                                                                                                        \
        M_CUR_STATE | M_ACCESS | M_MIN_RNR | M_MIG_STATE, M_CUR_STATE | M_ACCESS | M_MIG_STATE,              \
            M_CUR_STATE | M_QKEY                                                                             \
    }
#define ANYWHERE_TO_RESET_OR_ERR [QPS_RESET] = {true, {0}, {0}}, [QPS_ERR] = {true, {0}, {0}}

static const struct transition transitions[7][7] = {
    [QPS_RESET] = {[QPS_RESET] = {true, {0}, {0}},
                   [QPS_INIT] = {true,
                                 {M_PKEY | M_PORT | M_ACCESS, M_PKEY | M_PORT | M_ACCESS,
                                  M_PKEY | M_PORT | M_QKEY},
                                 {0}}},
    [QPS_INIT] = {ANYWHERE_TO_RESET_OR_ERR,
                  [QPS_INIT] = {true,
                                {0},
                                {M_PKEY | M_PORT | M_ACCESS, M_PKEY | M_PORT | M_ACCESS,
                                 M_PKEY | M_PORT | M_QKEY}},
                  [QPS_RTR] = {true,
                               {M_AV | M_MTU | M_DEST_QPN | M_RQ_PSN | M_MAX_DEST_RD | M_MIN_RNR,
                                M_AV | M_MTU | M_DEST_QPN | M_RQ_PSN, 0},
                               {M_ACCESS | M_PKEY, M_ACCESS | M_PKEY, M_PKEY | M_QKEY}}},
    [QPS_RTR] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_RTS] = {true,
                                                        {M_TIMEOUT | M_RETRY | M_RNR_RETRY | M_SQ_PSN |
                                                             M_MAX_RD,
                                                         M_SQ_PSN, M_SQ_PSN},
                                                        RTS_OPTIONS}},
    [QPS_RTS] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_RTS] = {true, {0}, RTS_OPTIONS},
                 [QPS_SQD] = {true, {0}, {M_SQD_NOTIFY, M_SQD_NOTIFY, M_SQD_NOTIFY}}},
    [QPS_SQD] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_RTS] = {true, {0}, RTS_OPTIONS},
                 [QPS_SQD] = {true,
                              {0},
                              {M_ACCESS | M_PKEY | M_PORT | M_AV | M_TIMEOUT | M_RETRY | M_RNR_RETRY |
                                   M_MAX_RD | M_MIN_RNR | M_MAX_DEST_RD | M_MIG_STATE,
                               M_ACCESS | M_PKEY | M_MIG_STATE, M_PKEY | M_QKEY}}},
    [QPS_SQE] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_RTS] = {true,
                                                        {0},
                                                        {0, M_CUR_STATE | M_ACCESS, M_CUR_STATE | M_QKEY}}},
    [QPS_ERR] = {ANYWHERE_TO_RESET_OR_ERR},
};

static int check_transition(uint32_t type, uint32_t cur, uint32_t next, uint32_t mask)
{
    const struct transition *t = &transitions[cur][next];
    uint32_t k = type == IB_UVERBS_QPT_RC ? RC : type == IB_UVERBS_QPT_UC ? UC : UD;

    if (!t->allowed || (mask & t->required[k]) != t->required[k])
        return EINVAL;
    return mask & ~(t->required[k] | t->optional[k] | M_STATE) ? EINVAL : 0;
}

/* In the order of the kernel: ib_uverbs, address resolution, ib_core's table, rxe. */
static int check(struct region *r, const struct qp *qp, const struct ib_uverbs_modify_qp *in, uint32_t cur,
                 uint32_t next, uint8_t *ret_sgid)
{
    uint32_t mask = in->attr_mask;
    int err;

    if ((mask & M_PORT) && in->port_num != 1)
        return EINVAL;
    if ((mask & M_AV) && (in->dest.port_num != 1 || !in->dest.is_global))
        return EINVAL;
    if (cur > QPS_ERR || next > QPS_ERR)
        return EINVAL;
    if (mask & M_AV) {
        err = nic_resolve(r, qp->device, in->dest.sgid_index, in->dest.dgid, ret_sgid);
        if (err)
            return err;
    }
    if (mask & ~(uint32_t)M_ALL)
        return EOPNOTSUPP;
    if ((mask & M_CUR_STATE) && (cur < QPS_RTR || cur > QPS_SQE))
        return EINVAL;
    err = check_transition(qp->type, cur, next, mask);
    if (err)
        return err;
    if (((mask & M_MTU) && in->path_mtu > 5) ||
        ((mask & M_MAX_RD) && in->max_rd_atomic > RXE_MAX_RD_ATOMIC) ||
        ((mask & M_TIMEOUT) && in->timeout > 31))
        return EINVAL;
    return 0;
}

/* 129 and more round up to 256, which the driver's byte cannot hold: 0, and reads are refused, as on the
 * kernel. */
static uint8_t round_depth(uint8_t depth)
{
    return depth ? (uint8_t)pow2_at_least(depth) : 0;
}

static void store(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *in, const uint8_t *sgid)
{
    struct ib_uverbs_modify_qp *a = &qp->attr;
    uint32_t mask = in->attr_mask;

    if (mask & M_ACCESS)
        a->qp_access_flags = in->qp_access_flags;
    if (mask & M_PKEY)
        a->pkey_index = in->pkey_index;
    if (mask & M_PORT)
        a->port_num = in->port_num;
    if (mask & M_QKEY)
        a->qkey = in->qkey;
    if (mask & M_AV) {
        a->dest = in->dest;
        memcpy(qp->sgid, sgid, sizeof(qp->sgid));
        qp->dest_device = (uint32_t)nic_by_gid(r, in->dest.dgid);
        qp->peer_instance = 0;
    }
    if (mask & M_MTU)
        a->path_mtu = in->path_mtu;
    if (mask & M_TIMEOUT)
        a->timeout = in->timeout;
    if (mask & M_RETRY)
        qp->retries_left = a->retry_cnt = in->retry_cnt;
    if (mask & M_RNR_RETRY)
        qp->rnr_left = a->rnr_retry = in->rnr_retry;
    if (mask & M_RQ_PSN)
        qp->rq_psn = a->rq_psn = in->rq_psn & RXE_PSN_MASK;
    if (mask & M_SQ_PSN)
        qp->sq_psn = a->sq_psn = in->sq_psn & RXE_PSN_MASK;
    if (mask & M_MAX_RD)
        a->max_rd_atomic = round_depth(in->max_rd_atomic);
    if (mask & M_MAX_DEST_RD)
        a->max_dest_rd_atomic = round_depth(in->max_dest_rd_atomic);
    if (mask & M_MIN_RNR)
        a->min_rnr_timer = in->min_rnr_timer;
    if (mask & M_MIG_STATE)
        a->path_mig_state = in->path_mig_state;
    if (mask & M_DEST_QPN)
        a->dest_qp_num = in->dest_qp_num;
}

void rxe_set_state(struct region *r, struct qp *qp, enum qp_state state)
{
    uint32_t was = atomic_exchange(&qp->state, state);
    bool watched = qp->srq == NONE; /* receives may still be posted, and must come back flushed */

    if (state == QPS_ERR || state == QPS_RESET || state == QPS_DEAD)
        timer_set(r, qp, 0);
    if (watched && was != QPS_ERR && state == QPS_ERR) {
        atomic_fetch_add(&r->nerror, 1);
        fabric_wake(&r->proc[qp->proc]);
    } else if (watched && was == QPS_ERR && state != QPS_ERR) {
        atomic_fetch_sub(&r->nerror, 1);
    }
}

static void reset(struct region *r, struct qp *qp)
{
    if (qp->sq.offset)
        rxe_set_consumer(r, &qp->sq, rxe_producer(r, &qp->sq));
    if (qp->rq.offset)
        rxe_set_consumer(r, &qp->rq, rxe_producer(r, &qp->rq));
    qp->last_wqe_event = 0;
    qp->drained = 0;
    qp->fault_state = qp->fault_answer = 0;
}

/* Under both locks. */
static void enter(struct region *r, struct qp *qp, uint32_t next)
{
    if (next == QPS_ERR) {
        rxe_break_responder(r, qp);
        rxe_flush_sends(r, qp);
        return;
    }
    rxe_set_state(r, qp, next);
    if (next == QPS_RESET)
        reset(r, qp);
    else if (next == QPS_SQD)
        qp->drained = 0;
}

/* What an error of the device does. A queue pair that is in no state to have requests is left alone. */
void rxe_break_qp(struct region *r, struct qp *qp)
{
    qp_lock_both(qp);
    if (atomic_load(&qp->state) != QPS_DEAD && atomic_load(&qp->state) != QPS_RESET)
        enter(r, qp, QPS_ERR);
    qp_unlock_both(qp);
}

int rxe_modify_qp(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *in)
{
    uint32_t was, cur, next;
    uint8_t sgid[16];
    int err = EINVAL;

    qp_lock_both(qp);
    was = atomic_load(&qp->state);
    cur = in->attr_mask & M_CUR_STATE ? in->cur_qp_state : was;
    next = in->attr_mask & M_STATE ? in->qp_state : cur;
    if (was != QPS_DEAD)
        err = check(r, qp, in, cur, next, sgid);
    if (!err) {
        store(r, qp, in, sgid);
        if (in->attr_mask & M_STATE)
            enter(r, qp, next);
    }
    qp_unlock_both(qp);
    if (!err && (in->attr_mask &
                 M_DEST_QPN)) /* now rather than with the first request: its process may be stopped by then */
        peer_put(peer_get(in->dest_qp_num >> 16 & 0xff));
    /* Draining ends, and sending resumes, without a doorbell. */
    if (!err && (in->attr_mask & M_STATE) && (next == QPS_SQD || (next == QPS_RTS && was == QPS_SQD)))
        rxe_run(r, qp);
    return err;
}

int rxe_modify_qp_iwarp(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *in)
{
    struct ib_uverbs_modify_qp m = *in;

    if (!(in->attr_mask & M_STATE))
        return 0;
    if (in->qp_state == QPS_RTR || (in->qp_state == QPS_RTS && atomic_load(&qp->state) != QPS_SQD))
        return in->attr_mask & M_AV ? EINVAL : 0;
    if (in->qp_state == QPS_SQD && atomic_load(&qp->state) != QPS_RTS) /* librdmacm's disconnect: it is closed */
        return 0;
    if (in->qp_state == QPS_INIT)
        m.attr_mask |= M_PKEY; /* iWARP has no partitions */
    return rxe_modify_qp(r, qp, &m);
}

int rxe_query_qp(struct region *r, struct qp *qp, uint32_t mask, struct ib_uverbs_query_qp_resp *out)
{
    const struct ib_uverbs_modify_qp *a = &qp->attr;
    uint32_t state;

    (void)r;
    (void)mask; /* the driver tells everything, whatever was asked */
    qp_lock_both(qp);
    state = atomic_load(&qp->state);
    *out = (struct ib_uverbs_query_qp_resp){
        .dest = a->dest,
        .max_send_wr = qp->sq.mask,
        .max_recv_wr = qp->rq.mask,
        .max_send_sge = qp->cap.max_send_sge,
        .max_recv_sge = qp->cap.max_recv_sge,
        .max_inline_data = qp->cap.max_inline_data,
        .qkey = a->qkey,
        .rq_psn = qp->rq_psn,
        .sq_psn = qp->sq_psn,
        .dest_qp_num = a->dest_qp_num,
        .qp_access_flags = a->qp_access_flags,
        .pkey_index = a->pkey_index,
        .qp_state = (uint8_t)state,
        .cur_qp_state = (uint8_t)state,
        .path_mig_state = a->path_mig_state,
        .path_mtu = a->path_mtu ? a->path_mtu : 1,
        .sq_draining = state == QPS_SQD && !qp->drained,
        .max_rd_atomic = a->max_rd_atomic,
        .max_dest_rd_atomic = a->max_dest_rd_atomic,
        .min_rnr_timer = a->min_rnr_timer,
        .port_num = a->port_num,
        .timeout = a->timeout,
        .retry_cnt = a->retry_cnt,
        .rnr_retry = a->rnr_retry,
        .sq_sig_all = (uint8_t)qp->sq_sig_all,
    };
    out->dest.is_global = out->alt_dest.is_global = 1;
    qp_unlock_both(qp);
    return 0;
}
