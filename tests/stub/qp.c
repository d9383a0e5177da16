/* SPDX-License-Identifier: BSD-3-Clause */
/* The stub's queue pairs and shared receive queues: making, changing of state, asking, destroying. */
#include "stub.h"
#include <stdlib.h>

#define MAX_INLINE 512

static _Atomic uint32_t next_handle, next_qp_num = 0x100;
static struct ibv_qp_attr last_modify;
static struct ibv_qp_init_attr last_init;
static struct ibv_srq_attr last_srq_modify;
static int last_mask, last_srq_mask;

void stub_reset_last(void)
{
    pthread_mutex_lock(&stub_mutex);
    memset(&last_modify, 0, sizeof last_modify);
    memset(&last_init, 0, sizeof last_init);
    memset(&last_srq_modify, 0, sizeof last_srq_modify);
    last_mask = last_srq_mask = 0;
    pthread_mutex_unlock(&stub_mutex);
}

static int check_limits(const struct ibv_device_attr *limits, const struct ibv_qp_init_attr *attr)
{
    const struct ibv_qp_cap *cap = &attr->cap;

    if (attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC && attr->qp_type != IBV_QPT_UD)
        return EOPNOTSUPP;
    if (!attr->send_cq || !attr->recv_cq)
        return EINVAL;
    if (cap->max_send_wr > (uint32_t)limits->max_qp_wr || cap->max_send_sge > (uint32_t)limits->max_sge ||
        cap->max_inline_data > MAX_INLINE)
        return EINVAL;
    if (!attr->srq &&
        (cap->max_recv_wr > (uint32_t)limits->max_qp_wr || cap->max_recv_sge > (uint32_t)limits->max_sge))
        return EINVAL;
    return 0;
}

/* What a device grants is often more than was asked for: here the depths are even, and inline comes in steps. */
static void grant(struct ibv_qp_init_attr *attr)
{
    attr->cap.max_send_wr += attr->cap.max_send_wr % 2;
    if (attr->srq)
        attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
    else
        attr->cap.max_recv_wr += attr->cap.max_recv_wr % 2;
    attr->cap.max_inline_data = (attr->cap.max_inline_data + 15) / 16 * 16;
}

static void link_queues(struct stub_qp *qp, int by)
{
    stub_adopt(&qp->send_cq->object, by);
    stub_adopt(&qp->recv_cq->object, by);
    if (qp->qp.srq)
        stub_adopt(&((struct stub_srq *)qp->qp.srq)->object, by);
}

#ifdef STUB_BROKEN
#define ibv_create_qp missing_create_qp
__attribute__((visibility("hidden")))
#else
STUB_EXPORT
#endif
struct ibv_qp *ibv_create_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr)
{
    struct stub_pd *pd = (struct stub_pd *)ibpd;
    struct stub_qp *qp = NULL;
    int err;

    stub_check(&pd->object, KIND_pd, VERB_create_qp);
    if ((err = stub_enter(VERB_create_qp, &pd->object)))
        return stub_null(err);
    err = check_limits(stub_limits(ibpd->context), attr);
    if (!err) {
        stub_check(&((struct stub_cq *)attr->send_cq)->object, KIND_cq, VERB_create_qp);
        stub_check(&((struct stub_cq *)attr->recv_cq)->object, KIND_cq, VERB_create_qp);
        if (attr->srq)
            stub_check(&((struct stub_srq *)attr->srq)->object, KIND_srq, VERB_create_qp);
        qp = stub_new(KIND_qp, sizeof *qp, offsetof(struct stub_qp, object), &pd->object);
        err = qp ? 0 : ENOMEM;
    }
    stub_leave(VERB_create_qp, &pd->object);
    if (err)
        return stub_null(err);
    pthread_mutex_lock(&stub_mutex);
    last_init = *attr;
    pthread_mutex_unlock(&stub_mutex);
    grant(attr);
    qp->qp = (struct ibv_qp){
        .context = ibpd->context, .qp_context = attr->qp_context, .pd = ibpd, .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq, .srq = attr->srq, .handle = ++next_handle,
        .qp_num = ++next_qp_num & 0xffffff, .state = IBV_QPS_RESET, .qp_type = attr->qp_type,
    };
    pthread_mutex_init(&qp->qp.mutex, NULL);
    pthread_cond_init(&qp->qp.cond, NULL);
    qp->send_cq = (struct stub_cq *)attr->send_cq;
    qp->recv_cq = (struct stub_cq *)attr->recv_cq;
    qp->cap = attr->cap;
    qp->sig_all = attr->sq_sig_all ? IBV_SEND_SIGNALED : 0;
    link_queues(qp, 1);
    if (attr->srq) {
        stub_lock_take(&((struct stub_srq *)attr->srq)->lock);
        ((struct stub_srq *)attr->srq)->user = qp;
        stub_lock_give(&((struct stub_srq *)attr->srq)->lock);
    }
    return &qp->qp;
}

STUB_EXPORT int ibv_destroy_qp(struct ibv_qp *ibqp)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    struct stub_srq *srq = (struct stub_srq *)ibqp->srq;
    int err;

    stub_check(&qp->object, KIND_qp, VERB_destroy_qp);
    if ((err = stub_enter(VERB_destroy_qp, &qp->object)))
        return stub_positive(err);
    stub_leave(VERB_destroy_qp, &qp->object);
    stub_queue_purge(&stub_context_of(ibqp->context)->events, ibqp);
    stub_wait_acked(&ibqp->events_completed, &qp->reported, "QP", &ibqp->mutex);
    if (srq) {
        stub_lock_take(&srq->lock);
        if (srq->user == qp)
            srq->user = NULL;
        stub_lock_give(&srq->lock);
    }
    link_queues(qp, -1);
    free(qp->sends.ring);
    free(qp->receives.ring);
    qp->sends.ring = qp->receives.ring = NULL;
    return stub_delete(&qp->object);
}

#define AV_MASK (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RC_RTR (AV_MASK | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RC_RTS (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)
#define INIT_OPT (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define MOVING (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)

/* What each move between states needs and allows beside IBV_QP_STATE; by type RC, UC, UD. */
static const struct move {
    int from, to;
    int need[3], allow[3];
} moves[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT,
     {INIT_OPT | IBV_QP_ACCESS_FLAGS, INIT_OPT | IBV_QP_ACCESS_FLAGS, INIT_OPT | IBV_QP_QKEY}, {0, 0, 0}},
    {IBV_QPS_INIT, IBV_QPS_INIT, {0, 0, 0},
     {INIT_OPT | IBV_QP_ACCESS_FLAGS, INIT_OPT | IBV_QP_ACCESS_FLAGS, INIT_OPT | IBV_QP_QKEY}},
    {IBV_QPS_INIT, IBV_QPS_RTR, {RC_RTR, AV_MASK, 0},
     {IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
      IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_RTR, IBV_QPS_RTS, {RC_RTS, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN},
     {MOVING | IBV_QP_MIN_RNR_TIMER, MOVING, IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    {IBV_QPS_RTS, IBV_QPS_RTS, {0, 0, 0},
     {MOVING | IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT, MOVING, IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    {IBV_QPS_RTS, IBV_QPS_SQD, {0, 0, 0},
     {IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    {IBV_QPS_SQD, IBV_QPS_RTS, {0, 0, 0},
     {MOVING | IBV_QP_MIN_RNR_TIMER, MOVING, IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    {IBV_QPS_SQE, IBV_QPS_RTS, {0, 0, 0}, {0, MOVING, IBV_QP_CUR_STATE | IBV_QP_QKEY}},
};

static int check_move(const struct stub_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    int from = (int)qp->qp.state, to = mask & IBV_QP_STATE ? (int)attr->qp_state : from;
    int type = (int)qp->qp.qp_type - IBV_QPT_RC, rest = mask & ~IBV_QP_STATE;

    if (mask & IBV_QP_CUR_STATE && (int)attr->cur_qp_state != from)
        return EINVAL;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return rest & ~IBV_QP_CUR_STATE ? EINVAL : 0;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (moves[i].from == from && moves[i].to == to) {
            int need = moves[i].need[type];

            return (rest & need) != need || rest & ~(need | moves[i].allow[type]) ? EINVAL : 0;
        }
    return EINVAL;
}

static int check_values(const struct stub_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct ibv_device_attr *limits = stub_limits(qp->qp.context);

    if (mask & IBV_QP_PORT && (attr->port_num < 1 || attr->port_num > stub_port_count(qp->qp.context)))
        return EINVAL;
    if (mask & IBV_QP_PKEY_INDEX && attr->pkey_index >= limits->max_pkeys)
        return EINVAL;
    if (mask & IBV_QP_AV && attr->ah_attr.is_global && attr->ah_attr.grh.sgid_index >= stub_gid_count())
        return EINVAL;
    if (mask & IBV_QP_PATH_MTU && (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096))
        return EINVAL;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > limits->max_qp_init_rd_atom)
        return EINVAL;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > limits->max_qp_rd_atom)
        return EINVAL;
    if ((mask & IBV_QP_TIMEOUT && attr->timeout > 31) || (mask & IBV_QP_RETRY_CNT && attr->retry_cnt > 7) ||
        (mask & IBV_QP_RNR_RETRY && attr->rnr_retry > 7) || (mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31))
        return EINVAL;
    return 0;
}

#define TAKE(bit, field) do { if (mask & (bit)) qp->attr.field = attr->field; } while (0)

static void apply(struct stub_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
    TAKE(IBV_QP_PKEY_INDEX, pkey_index);
    TAKE(IBV_QP_PORT, port_num);
    TAKE(IBV_QP_QKEY, qkey);
    TAKE(IBV_QP_AV, ah_attr);
    TAKE(IBV_QP_PATH_MTU, path_mtu);
    TAKE(IBV_QP_TIMEOUT, timeout);
    TAKE(IBV_QP_RETRY_CNT, retry_cnt);
    TAKE(IBV_QP_RNR_RETRY, rnr_retry);
    TAKE(IBV_QP_RQ_PSN, rq_psn);
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
    TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
    TAKE(IBV_QP_SQ_PSN, sq_psn);
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    TAKE(IBV_QP_PATH_MIG_STATE, path_mig_state);
    TAKE(IBV_QP_DEST_QPN, dest_qp_num);
    TAKE(IBV_QP_RATE_LIMIT, rate_limit);
    TAKE(IBV_QP_ALT_PATH, alt_ah_attr);
    TAKE(IBV_QP_ALT_PATH, alt_port_num);
    TAKE(IBV_QP_ALT_PATH, alt_pkey_index);
    TAKE(IBV_QP_ALT_PATH, alt_timeout);
    if (mask & IBV_QP_STATE)
        qp->qp.state = attr->qp_state;
    if (qp->qp.state == IBV_QPS_RESET)
        memset(&qp->attr, 0, sizeof qp->attr);
}

STUB_EXPORT int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    bool lenient = atomic_load(&stub_lenient);
    int err;

    stub_check(&qp->object, KIND_qp, VERB_modify_qp);
    if ((err = stub_enter(VERB_modify_qp, &qp->object)))
        return stub_positive(err);
    if (!lenient) {
        err = check_move(qp, attr, mask);
        err = err ? err : check_values(qp, attr, mask);
    }
    if (!err) {
        pthread_mutex_lock(&stub_mutex);
        last_modify = *attr;
        last_mask = mask;
        pthread_mutex_unlock(&stub_mutex);
        apply(qp, attr, mask);
        if (mask & IBV_QP_STATE && (attr->qp_state == IBV_QPS_ERR || attr->qp_state == IBV_QPS_RESET))
            stub_flush(qp);
    }
    stub_leave(VERB_modify_qp, &qp->object);
    return err;
}

STUB_EXPORT int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    int err;

    (void)mask;
    stub_check(&qp->object, KIND_qp, VERB_query_qp);
    if ((err = stub_enter(VERB_query_qp, &qp->object)))
        return stub_positive(err);
    *attr = qp->attr;
    attr->qp_state = attr->cur_qp_state = qp->qp.state;
    attr->cap = qp->cap;
    *init = (struct ibv_qp_init_attr){
        .qp_context = ibqp->qp_context, .send_cq = ibqp->send_cq, .recv_cq = ibqp->recv_cq, .srq = ibqp->srq,
        .cap = qp->cap, .qp_type = ibqp->qp_type, .sq_sig_all = qp->sig_all != 0,
    };
    stub_leave(VERB_query_qp, &qp->object);
    return 0;
}

STUB_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

STUB_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

static int check_srq(const struct ibv_context *context, const struct ibv_srq_attr *attr)
{
    const struct ibv_device_attr *limits = stub_limits(context);

    return attr->max_wr < 1 || attr->max_wr > (uint32_t)limits->max_srq_wr || attr->max_sge < 1 ||
           attr->max_sge > (uint32_t)limits->max_srq_sge || attr->srq_limit > attr->max_wr ? EINVAL : 0;
}

STUB_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *ibpd, struct ibv_srq_init_attr *attr)
{
    struct stub_pd *pd = (struct stub_pd *)ibpd;
    struct stub_srq *srq = NULL;
    int err;

    stub_check(&pd->object, KIND_pd, VERB_create_srq);
    if ((err = stub_enter(VERB_create_srq, &pd->object)))
        return stub_null(err);
    err = check_srq(ibpd->context, &attr->attr);
    if (!err) {
        srq = stub_new(KIND_srq, sizeof *srq, offsetof(struct stub_srq, object), &pd->object);
        err = srq ? 0 : ENOMEM;
    }
    stub_leave(VERB_create_srq, &pd->object);
    if (err)
        return stub_null(err);
    attr->attr.max_wr += attr->attr.max_wr % 2;
    srq->srq.context = ibpd->context;
    srq->srq.srq_context = attr->srq_context;
    srq->srq.pd = ibpd;
    srq->srq.handle = ++next_handle;
    pthread_mutex_init(&srq->srq.mutex, NULL);
    pthread_cond_init(&srq->srq.cond, NULL);
    /* ibv_create_srq(3) calls the limit given here irrelevant: only modify_srq arms it. */
    srq->attr = attr->attr;
    srq->attr.srq_limit = 0;
    return &srq->srq;
}

STUB_EXPORT int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
    struct stub_srq *srq = (struct stub_srq *)ibsrq;
    struct ibv_srq_attr wanted;
    int err;

    stub_check(&srq->object, KIND_srq, VERB_modify_srq);
    if ((err = stub_enter(VERB_modify_srq, &srq->object)))
        return stub_positive(err);
    wanted = srq->attr;
    if (mask & IBV_SRQ_MAX_WR)
        wanted.max_wr = attr->max_wr;
    if (mask & IBV_SRQ_LIMIT)
        wanted.srq_limit = attr->srq_limit;
    err = mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) ? EINVAL : check_srq(ibsrq->context, &wanted);
    if (!err) {
        pthread_mutex_lock(&stub_mutex);
        last_srq_modify = *attr;
        last_srq_mask = mask;
        pthread_mutex_unlock(&stub_mutex);
        srq->attr = wanted;
    }
    stub_leave(VERB_modify_srq, &srq->object);
    return err;
}

STUB_EXPORT int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
    struct stub_srq *srq = (struct stub_srq *)ibsrq;
    int err;

    stub_check(&srq->object, KIND_srq, VERB_query_srq);
    if ((err = stub_enter(VERB_query_srq, &srq->object)))
        return stub_positive(err);
    *attr = srq->attr;
    stub_leave(VERB_query_srq, &srq->object);
    return 0;
}

STUB_EXPORT int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
    struct stub_srq *srq = (struct stub_srq *)ibsrq;
    int err;

    stub_check(&srq->object, KIND_srq, VERB_destroy_srq);
    if ((err = stub_enter(VERB_destroy_srq, &srq->object)))
        return stub_positive(err);
    stub_leave(VERB_destroy_srq, &srq->object);
    pthread_mutex_lock(&stub_mutex);
    err = srq->object.children ? EBUSY : 0;
    pthread_mutex_unlock(&stub_mutex);
    if (err)
        return err;
    stub_queue_purge(&stub_context_of(ibsrq->context)->events, ibsrq);
    stub_wait_acked(&ibsrq->events_completed, &srq->reported, "SRQ", &ibsrq->mutex);
    return stub_delete(&srq->object);
}

STUB_EXPORT int stub_last_modify(struct ibv_qp_attr *ret_attr)
{
    int mask;

    pthread_mutex_lock(&stub_mutex);
    *ret_attr = last_modify;
    mask = last_mask;
    pthread_mutex_unlock(&stub_mutex);
    return mask;
}

STUB_EXPORT void stub_last_qp_init(struct ibv_qp_init_attr *ret_attr)
{
    pthread_mutex_lock(&stub_mutex);
    *ret_attr = last_init;
    pthread_mutex_unlock(&stub_mutex);
}

STUB_EXPORT int stub_last_srq_modify(struct ibv_srq_attr *ret_attr)
{
    int mask;

    pthread_mutex_lock(&stub_mutex);
    *ret_attr = last_srq_modify;
    mask = last_srq_mask;
    pthread_mutex_unlock(&stub_mutex);
    return mask;
}
