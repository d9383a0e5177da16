/* SPDX-License-Identifier: BSD-3-Clause */
/* Changing and asking a queue pair's state: the transitions that the efa driver allows, and what each needs. */
#include "../lock.h"
#include "../object.h"
#include "../timer.h"
#include "efa.h"

enum { /* ib_qp_attr_mask */
       M_STATE = 1 << 0,
       M_CUR_STATE = 1 << 1,
       M_SQD_NOTIFY = 1 << 2,
       M_PKEY = 1 << 4,
       M_PORT = 1 << 5,
       M_QKEY = 1 << 6,
       M_RNR_RETRY = 1 << 11,
       M_SQ_PSN = 1 << 16,
       M_CAP = 1 << 19,
       M_MODIFY = M_STATE | M_CUR_STATE | M_SQD_NOTIFY | M_PKEY | M_PORT | M_QKEY | M_SQ_PSN | M_RNR_RETRY,
       M_QUERY = M_STATE | M_PKEY | M_PORT | M_QKEY | M_SQ_PSN | M_CAP | M_RNR_RETRY,
};

struct transition {
    bool allowed;
    uint32_t required, optional;
};

#define ANYWHERE_TO_RESET_OR_ERR [QPS_RESET] = {true, 0, 0}, [QPS_ERR] = {true, 0, 0}

static const struct transition transitions[QPS_ERR + 1][QPS_ERR + 1] = {
    [QPS_RESET] = {[QPS_RESET] = {true, 0, 0}, [QPS_INIT] = {true, M_PKEY | M_PORT | M_QKEY, 0}},
    [QPS_INIT] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_INIT] = {true, 0, M_PKEY | M_PORT | M_QKEY},
                  [QPS_RTR] = {true, 0, M_PKEY | M_QKEY}},
    [QPS_RTR] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_RTS] = {true, M_SQ_PSN, M_CUR_STATE | M_QKEY | M_RNR_RETRY}},
    [QPS_RTS] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_RTS] = {true, 0, M_CUR_STATE | M_QKEY},
                 [QPS_SQD] = {true, 0, M_SQD_NOTIFY}},
    [QPS_SQD] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_RTS] = {true, 0, M_CUR_STATE | M_QKEY},
                 [QPS_SQD] = {true, 0, M_PKEY | M_QKEY}},
    [QPS_SQE] = {ANYWHERE_TO_RESET_OR_ERR, [QPS_RTS] = {true, 0, M_CUR_STATE | M_QKEY}},
    [QPS_ERR] = {ANYWHERE_TO_RESET_OR_ERR},
};

/* In the order of the kernel: ib_uverbs, then the driver. */
static int check(const struct qp *qp, const struct ib_uverbs_modify_qp *in, uint32_t cur, uint32_t next)
{
    const struct efa_make *m = efa_make_of(device_at((int)qp->device));
    uint32_t mask = in->attr_mask, optional;
    const struct transition *t;

    if (((mask & M_PORT) && in->port_num != 1) || cur > QPS_ERR || next > QPS_ERR)
        return EINVAL;
    if (mask & ~(uint32_t)M_MODIFY)
        return EOPNOTSUPP;
    t = &transitions[cur][next];
    optional = t->optional & (qp->type == EFA_QPT_SRD ? ~0u : ~(uint32_t)M_RNR_RETRY);
    if (!t->allowed || (mask & t->required) != t->required || (mask & ~(t->required | optional | M_STATE)))
        return EINVAL;
    if ((mask & M_PKEY) && in->pkey_index != 0)
        return EOPNOTSUPP;
    if ((mask & M_RNR_RETRY) && !(m->caps & EFA_CAP_RNR_RETRY))
        return EOPNOTSUPP;
    return (mask & M_RNR_RETRY) && in->rnr_retry > EFA_RNR_FOREVER ? EINVAL : 0;
}

static void store(struct qp *qp, const struct ib_uverbs_modify_qp *in)
{
    struct ib_uverbs_modify_qp *a = &qp->attr;

    if (in->attr_mask & M_PORT)
        a->port_num = in->port_num;
    if (in->attr_mask & M_QKEY)
        a->qkey = in->qkey;
    if (in->attr_mask & M_SQ_PSN)
        a->sq_psn = in->sq_psn;
    if (in->attr_mask & M_RNR_RETRY)
        a->rnr_retry = in->rnr_retry;
}

/* Both rings start again at their beginnings, as the provider's indices do. */
static void reset(struct region *r, struct qp *qp)
{
    struct efa_qp *own = efa_qp_of(r, qp);

    own->npending = 0;
    own->sq_taken = own->sq_rung = own->rq_taken = 0;
    if (own->rq_entries)
        __atomic_store_n((uint32_t *)region_at(r, own->rq_doorbell, 4), 0, __ATOMIC_RELEASE);
    timer_set(r, qp, 0);
}

/* Under both locks. */
static void enter(struct region *r, struct qp *qp, uint32_t next)
{
    atomic_store(&qp->state, next);
    if (next == QPS_ERR) {
        efa_flush_receives(r, qp);
        efa_flush_sends(r, qp);
    } else if (next == QPS_RESET) {
        reset(r, qp);
    }
}

int efa_modify_qp(struct region *r, struct qp *qp, const struct ib_uverbs_modify_qp *in)
{
    uint32_t was, cur, next;
    int err = EINVAL;

    qp_lock_both(qp);
    was = atomic_load(&qp->state);
    cur = in->attr_mask & M_CUR_STATE ? in->cur_qp_state : was;
    next = in->attr_mask & M_STATE ? in->qp_state : cur;
    if (was != QPS_DEAD)
        err = check(qp, in, cur, next);
    if (!err) {
        store(qp, in);
        if (in->attr_mask & M_STATE)
            enter(r, qp, next);
    }
    qp_unlock_both(qp);
    if (!err && (in->attr_mask & M_STATE) && next == QPS_RTS) /* what was posted while it was drained */
        efa_run(r, qp);
    return err;
}

void efa_break_qp(struct region *r, struct qp *qp)
{
    qp_lock_both(qp);
    if (atomic_load(&qp->state) != QPS_DEAD && atomic_load(&qp->state) != QPS_ERR)
        enter(r, qp, QPS_ERR);
    qp_unlock_both(qp);
}

int efa_query_qp(struct region *r, struct qp *qp, uint32_t mask, struct ib_uverbs_query_qp_resp *out)
{
    const struct ib_uverbs_modify_qp *a = &qp->attr;

    (void)r;
    if (mask & ~(uint32_t)M_QUERY)
        return EOPNOTSUPP;
    qp_lock_both(qp);
    *out = (struct ib_uverbs_query_qp_resp){
        .max_send_wr = qp->cap.max_send_wr,
        .max_recv_wr = qp->cap.max_recv_wr,
        .max_send_sge = qp->cap.max_send_sge,
        .max_recv_sge = qp->cap.max_recv_sge,
        .max_inline_data = qp->cap.max_inline_data,
        .qkey = a->qkey,
        .sq_psn = a->sq_psn,
        .qp_state = (uint8_t)atomic_load(&qp->state),
        .port_num = 1,
        .rnr_retry = a->rnr_retry,
        .sq_sig_all = (uint8_t)qp->sq_sig_all,
    };
    qp_unlock_both(qp);
    return 0;
}
