/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A do-nothing libefa.so.1 beside the do-nothing libibverbs.so.1, which keeps its objects: efadv_* as of the release
 * that is built, with the checks of lengths, masks and reserved bytes that libefa makes.
 */
#include "stub.h"
#include <stdlib.h>

/* The sizes that the structures have in this release. */
#define AVAILABLE(type, member) (offsetof(struct type, member) + sizeof ((struct type *)0)->member)
#define DEVICE_ATTR_SIZE AVAILABLE(stub_efadv_device_attr, max_rdma_size)
#define QP_ATTR_SIZE \
    (STUB_RELEASE >= 64 ? sizeof(struct stub_efadv_qp_init_attr) : offsetof(struct stub_efadv_qp_init_attr, wr_flags))
#define CQ_ATTR_SIZE \
    (STUB_RELEASE >= 59 ? sizeof(struct stub_efadv_cq_init_attr) : offsetof(struct stub_efadv_cq_init_attr, flags))

static bool zero(const void *from, size_t start, size_t end)
{
    for (size_t i = start; i < end; i++)
        if (((const uint8_t *)from)[i])
            return false;
    return true;
}

/* An input structure: long enough for its first version, nothing in what this release does not know. */
static bool good_input(const void *attr, size_t length, size_t first, size_t known)
{
    uint64_t comp_mask;

    if (length <= first)
        return false;
    memcpy(&comp_mask, attr, sizeof comp_mask);
    return !comp_mask && (length <= known || zero(attr, known, length));
}

static int give(void *ret_attr, size_t room, const void *attr, size_t size)
{
    memset(ret_attr, 0, room);
    memcpy(ret_attr, attr, room < size ? room : size);
    return 0;
}

static int enter_on(struct ibv_context *context, enum stub_verb verb)
{
    struct stub_context *ctx = stub_context_of(context);
    int err;

    stub_check(&ctx->object, KIND_context, verb);
    if ((err = stub_enter(verb, &ctx->object)))
        return err;
    stub_leave(verb, &ctx->object);
    return stub_efa_limits(context) ? 0 : EOPNOTSUPP;
}

STUB_EXPORT int efadv_query_device(struct ibv_context *context, struct stub_efadv_device_attr *attr, uint32_t length)
{
    const struct stub_efa_limits *limits;
    struct stub_efadv_device_attr full;
    int err = enter_on(context, VERB_efadv_query_device);

    if (err)
        return stub_positive(err);
    if (length <= offsetof(struct stub_efadv_device_attr, inline_buf_size_ex))
        return EINVAL;
    limits = stub_efa_limits(context);
    full = (struct stub_efadv_device_attr){
        .max_sq_wr = limits->max_sq_wr, .max_rq_wr = limits->max_rq_wr, .max_sq_sge = limits->max_sq_sge,
        .max_rq_sge = limits->max_rq_sge, .inline_buf_size = limits->inline_buf_size,
        .inline_buf_size_ex = limits->inline_buf_size_ex, .device_caps = limits->caps & STUB_EFA_CAPS,
        .max_rdma_size = limits->max_rdma_size,
    };
    return give(attr, length, &full, DEVICE_ATTR_SIZE);
}

STUB_EXPORT int efadv_query_ah(struct ibv_ah *ah, struct stub_efadv_ah_attr *attr, uint32_t length)
{
    struct stub_efadv_ah_attr full = {.ahn = (uint16_t)ah->handle};
    int err;

    stub_check(&((struct stub_ah *)ah)->object, KIND_ah, VERB_efadv_query_ah);
    if ((err = enter_on(ah->context, VERB_efadv_query_ah)))
        return stub_positive(err);
    return length <= 8 ? EINVAL : give(attr, length, &full, sizeof full);
}

STUB_EXPORT struct ibv_qp *efadv_create_driver_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint32_t type)
{
    (void)pd, (void)attr, (void)type;
    return stub_null(EOPNOTSUPP);
}

STUB_EXPORT struct ibv_qp *efadv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                                              struct stub_efadv_qp_init_attr *efa, uint32_t length)
{
    if (!stub_efa_limits(context))
        return stub_null(EOPNOTSUPP);
    if (attr->qp_type != IBV_QPT_DRIVER || !good_input(efa, length, 8, QP_ATTR_SIZE) || efa->reserved)
        return stub_null(EINVAL);
    if (STUB_RELEASE < 52 && (efa->flags || efa->sl))
        return stub_null(EINVAL);
    if (efa->driver_qp_type || (STUB_RELEASE >= 64 && length > 16 && efa->wr_flags & ~1ull))
        return stub_null(EOPNOTSUPP);
    return stub_make_qp_ex(context, attr, efa->sl, efa->flags, VERB_efadv_create_qp_ex);
}

#if STUB_RELEASE >= 43
STUB_EXPORT struct ibv_cq_ex *efadv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
                                              struct stub_efadv_cq_init_attr *efa, uint32_t length)
{
    const struct stub_efa_limits *limits = stub_efa_limits(context);
    uint64_t wanted, known = STUB_RELEASE >= 52 ? 3 : 1;
    struct stub_cq *cq;

    if (!limits)
        return stub_null(EOPNOTSUPP);
    if (!good_input(efa, length, 8, CQ_ATTR_SIZE))
        return stub_null(EINVAL);
    wanted = efa->wc_flags;
    if (wanted & ~known || attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS || attr->comp_mask & ~3u || attr->flags ||
        (STUB_RELEASE >= 59 && length > 16 && efa->flags & ~1ull))
        return stub_null(EOPNOTSUPP);
    if ((wanted & STUB_EFA_WC_SGID && !(limits->caps & STUB_EFA_CAP_CQ_WITH_SGID)) ||
        (wanted & STUB_EFA_WC_UNSOLICITED && !(limits->caps & STUB_EFA_CAP_UNSOLICITED_WRITE_RECV)))
        return stub_null(EOPNOTSUPP);
    cq = stub_make_cq(context, (int)attr->cqe, attr->channel, (int)attr->comp_vector, VERB_efadv_create_cq);
    if (!cq)
        return NULL;
    cq->extras = calloc(cq->mask + 1, sizeof *cq->extras);
    if (!cq->extras)
        stub_die("no memory for a queue");
    stub_poll_ops(cq, attr->wc_flags, wanted);
    /* Neither cq_context nor channel is set, and the channel does not learn of its queue. */
    if (cq->channel)
        stub_quiet_channel(cq->channel);
    attr->cqe = cq->mask + 1;
    return &cq->ex;
}

STUB_EXPORT struct stub_efadv_cq *efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *cq)
{
    return &((struct stub_cq *)cq)->efadv;
}
#endif

#if STUB_RELEASE >= 50
STUB_EXPORT int efadv_query_mr(struct ibv_mr *mr, struct stub_efadv_mr_attr *attr, uint32_t length)
{
    struct stub_efadv_mr_attr full = {
        .ic_id_validity = 5, .recv_ic_id = (uint16_t)mr->handle, .rdma_read_ic_id = 0, .rdma_recv_ic_id = 3};
    int err;

    stub_check(&((struct stub_mr *)mr)->object, KIND_mr, VERB_efadv_query_mr);
    if ((err = enter_on(mr->context, VERB_efadv_query_mr)))
        return stub_positive(err);
    return length <= 14 ? EINVAL : give(attr, length, &full, sizeof full);
}
#endif

#if STUB_RELEASE >= 59
static uint32_t doorbell;

/* These two leave what they do not set as it was. */
STUB_EXPORT int efadv_query_cq(struct ibv_cq *ibcq, struct stub_efadv_cq_attr *attr, uint32_t length)
{
    struct stub_cq *cq = (struct stub_cq *)ibcq;
    int err;

    stub_check(&cq->object, KIND_cq, VERB_efadv_query_cq);
    if ((err = enter_on(ibcq->context, VERB_efadv_query_cq)))
        return stub_positive(err);
    if (length <= 20)
        return EINVAL;
    attr->comp_mask = 0;
    attr->buffer = (uint8_t *)cq->ring;
    attr->entry_size = cq->extras ? 32 : 16;
    attr->num_entries = cq->mask + 1;
    if (STUB_RELEASE >= 60 && length >= sizeof *attr)
        attr->doorbell = cq->channel ? &doorbell : NULL;
    return 0;
}

STUB_EXPORT int efadv_query_qp_wqs(struct ibv_qp *ibqp, struct stub_efadv_wq_attr *sq, struct stub_efadv_wq_attr *rq,
                                   uint32_t length)
{
    struct stub_qp *qp = (struct stub_qp *)ibqp;
    int err;

    stub_check(&qp->object, KIND_qp, VERB_efadv_query_qp_wqs);
    if ((err = enter_on(ibqp->context, VERB_efadv_query_qp_wqs)))
        return stub_positive(err);
    if (length <= 32)
        return EINVAL;
    *sq = (struct stub_efadv_wq_attr){.buffer = (uint8_t *)qp, .entry_size = 64, .num_entries = qp->cap.max_send_wr,
                                      .doorbell = &doorbell, .max_batch = 16};
    *rq = (struct stub_efadv_wq_attr){.buffer = (uint8_t *)qp + 64, .entry_size = 16,
                                      .num_entries = qp->cap.max_recv_wr, .doorbell = &doorbell, .max_batch = 8};
    return 0;
}
#endif

#if STUB_RELEASE >= 63
STUB_EXPORT int efadv_get_max_sq_depth(struct ibv_context *context, struct stub_efadv_sq_depth_attr *attr,
                                       uint32_t length)
{
    const struct stub_efa_limits *limits;
    int err = enter_on(context, VERB_efadv_get_max_sq_depth);

    if (err)
        return -err;
    limits = stub_efa_limits(context);
    if (!good_input(attr, length, 8, sizeof *attr) || attr->max_send_sge > limits->max_sq_sge ||
        attr->max_rdma_sge > 1 || attr->max_inline_data > limits->inline_buf_size_ex)
        return -EINVAL;
    return (int)(attr->max_inline_data > limits->inline_buf_size ? limits->max_sq_wr / 2 : limits->max_sq_wr);
}

STUB_EXPORT int efadv_get_max_rq_depth(struct ibv_context *context, struct stub_efadv_rq_depth_attr *attr,
                                       uint32_t length)
{
    const struct stub_efa_limits *limits;
    int err = enter_on(context, VERB_efadv_get_max_rq_depth);

    if (err)
        return -err;
    limits = stub_efa_limits(context);
    if (!good_input(attr, length, 8, sizeof *attr) || attr->max_recv_sge > limits->max_rq_sge)
        return -EINVAL;
    if (!attr->max_recv_sge)
        stub_die("efadv_get_max_rq_depth of no SGEs divides by zero");
    return (int)(limits->max_rq_wr / attr->max_recv_sge);
}
#endif

#if STUB_RELEASE >= 64
STUB_EXPORT struct stub_efadv_qp *efadv_qp_from_ibv_qp_ex(struct ibv_qp_ex *qp)
{
    return &((struct stub_qp *)qp)->efadv;
}
#endif

#if STUB_RELEASE >= 65
/* Where a value lies: an address; of a dma-buf, which nobody here can map, the counter's own memory stands in. */
static uint64_t *location(const struct stub_efadv_memory_location *memory)
{
    return memory->type == 0 ? (uint64_t *)memory->ptr : NULL;
}

STUB_EXPORT struct stub_comp_cntr *efadv_create_comp_cntr(struct ibv_context *context, struct stub_comp_cntr_attr *attr,
                                                          struct stub_efadv_comp_cntr_init_attr *efa, uint32_t length)
{
    int err = enter_on(context, VERB_efadv_create_comp_cntr);

    if (err)
        return stub_null(err);
    if (!good_input(efa, length, 48, sizeof *efa))
        return stub_null(EINVAL);
    if (attr->comp_mask || attr->type || attr->flags || efa->flags & ~3u) /* as libefa: no bytes */
        return stub_null(EOPNOTSUPP);
    return stub_comp_cntr_new(context, efa->flags & 1 ? location(&efa->comp) : NULL,
                              efa->flags & 2 ? location(&efa->err) : NULL);
}
#endif
