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
static struct { uint64_t operations; uint16_t efa_flags; uint8_t sl; } last_init_ex;

void stub_reset_last(void)
{
    pthread_mutex_lock(&stub_mutex);
    memset(&last_modify, 0, sizeof last_modify);
    memset(&last_init, 0, sizeof last_init);
    memset(&last_srq_modify, 0, sizeof last_srq_modify);
    memset(&last_init_ex, 0, sizeof last_init_ex);
    last_mask = last_srq_mask = 0;
    pthread_mutex_unlock(&stub_mutex);
}

static int check_efa_limits(const struct stub_efa_limits *limits, const struct ibv_qp_init_attr *attr)
{
    const struct ibv_qp_cap *cap = &attr->cap;

    if (attr->qp_type != IBV_QPT_UD && attr->qp_type != IBV_QPT_DRIVER)
        return EOPNOTSUPP;
    if (!attr->send_cq || !attr->recv_cq || attr->srq)
        return EINVAL;
    if (!cap->max_recv_sge)
        stub_die("a queue pair of EFA with max_recv_sge 0 divides by zero");
    if (cap->max_inline_data > limits->inline_buf_size) {
        if (cap->max_inline_data > limits->inline_buf_size_ex || cap->max_send_wr > limits->max_sq_wr / 2)
            return EINVAL;
    }
    return cap->max_send_wr > limits->max_sq_wr || cap->max_send_sge > limits->max_sq_sge ||
                   cap->max_recv_sge > limits->max_rq_sge || cap->max_recv_wr > limits->max_rq_wr / cap->max_recv_sge
               ? EINVAL
               : 0;
}

static int check_limits(const struct ibv_context *context, const struct ibv_qp_init_attr *attr)
{
    const struct ibv_device_attr *limits = stub_limits(context);
    const struct ibv_qp_cap *cap = &attr->cap;

    if (stub_efa_limits(context))
        return check_efa_limits(stub_efa_limits(context), attr);
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

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t n = 1;

    while (n < at_least)
        n *= 2;
    return at_least ? n : 0;
}

/* What a device grants is often more than was asked for: here the depths are even, and inline comes in steps.
 * An EFA device has powers of two. */
static void grant(const struct ibv_context *context, struct ibv_qp_init_attr *attr)
{
    if (stub_efa_limits(context)) {
        attr->cap.max_send_wr = power_of_two(attr->cap.max_send_wr);
        attr->cap.max_recv_wr = power_of_two(attr->cap.max_recv_wr);
        return;
    }
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

static struct stub_qp *make_qp(struct ibv_pd *ibpd, struct ibv_qp_init_attr *attr, enum stub_verb verb)
{
    struct stub_pd *pd = (struct stub_pd *)ibpd;
    struct stub_qp *qp = NULL;
    int err;

    stub_check(&pd->object, KIND_pd, verb);
    if ((err = stub_enter(verb, &pd->object)))
        return stub_null(err);
    err = check_limits(ibpd->context, attr);
    if (!err) {
        stub_check(&((struct stub_cq *)attr->send_cq)->object, KIND_cq, verb);
        stub_check(&((struct stub_cq *)attr->recv_cq)->object, KIND_cq, verb);
        if (attr->srq)
            stub_check(&((struct stub_srq *)attr->srq)->object, KIND_srq, verb);
        qp = stub_new(KIND_qp, sizeof *qp, offsetof(struct stub_qp, object), &pd->object);
        err = qp ? 0 : ENOMEM;
    }
    stub_leave(verb, &pd->object);
    if (err)
        return stub_null(err);
    pthread_mutex_lock(&stub_mutex);
    last_init = *attr;
    pthread_mutex_unlock(&stub_mutex);
    grant(ibpd->context, attr);
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
    return qp;
}

#ifdef STUB_BROKEN
#define ibv_create_qp missing_create_qp
__attribute__((visibility("hidden")))
#else
STUB_EXPORT
#endif
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct stub_qp *qp = make_qp(pd, attr, VERB_create_qp);

    return qp ? &qp->qp : NULL;
}

#define UD_OPERATIONS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WRITES (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)

static int check_extended(const struct stub_efa_limits *limits, const struct ibv_qp_init_attr_ex *attr,
                          uint16_t efa_flags)
{
    uint64_t operations = UD_OPERATIONS;

    if (!limits || attr->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
        return EOPNOTSUPP;
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
        return EINVAL;
    if (attr->qp_type == IBV_QPT_DRIVER) {
        operations |= limits->caps & STUB_EFA_CAP_RDMA_READ ? IBV_QP_EX_WITH_RDMA_READ : 0;
        operations |= limits->caps & STUB_EFA_CAPS & STUB_EFA_CAP_RDMA_WRITE ? (uint64_t)WRITES : 0;
    }
    if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags & ~operations)
        return EOPNOTSUPP;
    if (efa_flags & ~(STUB_EFA_QP_UNSOLICITED_WRITE_RECV | (STUB_RELEASE >= 63 ? STUB_EFA_QP_INLINE_WRITE : 0)))
        return EOPNOTSUPP;
    if (efa_flags & STUB_EFA_QP_UNSOLICITED_WRITE_RECV &&
        !(limits->caps & STUB_EFA_CAPS & STUB_EFA_CAP_UNSOLICITED_WRITE_RECV))
        return EOPNOTSUPP;
    return 0;
}

struct ibv_qp *stub_make_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr, uint8_t sl,
                               uint16_t efa_flags, enum stub_verb verb)
{
    /* The first members of both structures are the same. */
    struct ibv_qp_init_attr basic;
    struct stub_qp *qp;
    int err = check_extended(stub_efa_limits(context), attr, efa_flags);

    if (err)
        return stub_null(err);
    memcpy(&basic, attr, offsetof(struct ibv_qp_init_attr, sq_sig_all) + sizeof basic.sq_sig_all);
    if (!(qp = make_qp(attr->pd, &basic, verb)))
        return NULL;
    attr->cap = basic.cap;
    if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
        stub_session_make(qp, attr->send_ops_flags, efa_flags & STUB_EFA_QP_INLINE_WRITE))
        stub_die("no memory for a queue pair");
    pthread_mutex_lock(&stub_mutex);
    last_init_ex.operations = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;
    last_init_ex.efa_flags = efa_flags;
    last_init_ex.sl = sl;
    pthread_mutex_unlock(&stub_mutex);
    return &qp->qp;
}

struct ibv_qp *stub_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    if (attr->qp_type != IBV_QPT_UD)
        return stub_null(EOPNOTSUPP);
    return stub_make_qp_ex(context, attr, 0, 0, VERB_create_qp_ex);
}

#if STUB_RELEASE >= 24
STUB_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return ((struct stub_qp *)qp)->session ? &((struct stub_qp *)qp)->ex : NULL;
}
#endif

STUB_EXPORT int ibv_destroy_qp(struct ibv_qp *ibqp)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    struct stub_srq *srq = (struct stub_srq *)ibqp->srq;
    int err;

    stub_check(&qp->object, KIND_qp, VERB_destroy_qp);
    if ((err = stub_enter(VERB_destroy_qp, &qp->object)))
        return stub_positive(err);
    stub_leave(VERB_destroy_qp, &qp->object);
    stub_wait_polled(qp->send_cq, "QP");
    stub_wait_polled(qp->recv_cq, "QP");
    stub_queue_purge(&stub_context_of(ibqp->context)->events, ibqp);
    stub_wait_acked(&ibqp->events_completed, &qp->reported, "QP", &ibqp->mutex);
    if (srq) {
        stub_lock_take(&srq->lock);
        if (srq->user == qp)
            srq->user = NULL;
        stub_lock_give(&srq->lock);
    }
    link_queues(qp, -1);
    stub_session_free(qp);
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
    bool srd = qp->qp.qp_type == IBV_QPT_DRIVER;
    int type = (int)(srd ? IBV_QPT_UD : qp->qp.qp_type) - IBV_QPT_RC, rest = mask & ~IBV_QP_STATE;

    if (mask & IBV_QP_CUR_STATE && (int)attr->cur_qp_state != from)
        return EINVAL;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return rest & ~IBV_QP_CUR_STATE ? EINVAL : 0;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (moves[i].from == from && moves[i].to == to) {
            int need = moves[i].need[type], allow = moves[i].allow[type];

            if (srd && from == IBV_QPS_RTR)
                allow |= IBV_QP_RNR_RETRY;
            return (rest & need) != need || rest & ~(need | allow) ? EINVAL : 0;
        }
    return EINVAL;
}

#define EFA_MODIFY (IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_PKEY_INDEX | IBV_QP_PORT | \
                    IBV_QP_QKEY | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY)

static int check_values(const struct stub_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct ibv_device_attr *limits = stub_limits(qp->qp.context);

    if (stub_efa_limits(qp->qp.context) && mask & ~EFA_MODIFY)
        return EOPNOTSUPP;
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

#define EFA_QUERY (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_SQ_PSN | IBV_QP_CAP | \
                   IBV_QP_RNR_RETRY)

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
        err = check_values(qp, attr, mask);
        err = err ? err : check_move(qp, attr, mask);
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

    stub_check(&qp->object, KIND_qp, VERB_query_qp);
    if ((err = stub_enter(VERB_query_qp, &qp->object)))
        return stub_positive(err);
    if (stub_efa_limits(ibqp->context) && mask & ~EFA_QUERY) {
        stub_leave(VERB_query_qp, &qp->object);
        return EOPNOTSUPP;
    }
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

STUB_EXPORT uint64_t stub_last_qp_init_ex(uint16_t *ret_efa_flags, uint8_t *ret_sl)
{
    uint64_t operations;

    pthread_mutex_lock(&stub_mutex);
    operations = last_init_ex.operations;
    *ret_efa_flags = last_init_ex.efa_flags;
    *ret_sl = last_init_ex.sl;
    pthread_mutex_unlock(&stub_mutex);
    return operations;
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
