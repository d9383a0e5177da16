/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's face towards the front: limits, grants, and the driver's private answers. */
#include "rxe.h"

#include "../event.h"
#include "../guard.h"
#include "../lock.h"
#include "../nic.h"
#include "../process.h"
#include "../uverbs.h"

#define DRIVER_ID_RXE 14
#define CQE_SIZE 128
#define GID_TABLE 1024

static void describe(struct device *d)
{
    uint8_t n = (uint8_t)(d->index + 1), eui[8] = {0x00, 0, 0, 0xff, 0xfe, 0, 0, n};
    const uint8_t ip[4] = {10, 99, 0, n};

    snprintf(d->name, sizeof(d->name), "rxe%d", d->number);
    snprintf(d->netdev, sizeof(d->netdev), "veth%d", d->index);
    memcpy(d->mac, (const uint8_t[]){2, 0, 0, 0, 0, n}, 6);
    memcpy(d->guid, eui, 8);
    memcpy(d->gid[0], (const uint8_t[8]){0xfe, 0x80}, 8);
    memcpy(d->gid[0] + 8, eui, 8);
    memset(d->gid[1] + 10, 0xff, 2);
    memcpy(d->gid[1] + 12, ip, 4);
}

/* librdmacm tells iWARP by the type of node, libibverbs finds the driver by the beginning of the name. */
static void describe_iwarp(struct device *d)
{
    describe(d);
    snprintf(d->name, sizeof(d->name), "rxe_iw%d", d->number);
    d->gid[1][14] = 1; /* 10.99.1.x */
    d->gid[1][15] = (uint8_t)(d->number + 1);
}

static void query_device(const struct device *d, struct ib_uverbs_ex_query_device_resp *out)
{
    struct ib_uverbs_query_device_resp *b = &out->base;

    *b = (struct ib_uverbs_query_device_resp){
        .max_mr_size = UINT64_MAX,
        .page_size_cap = 0xfffff000,
        .vendor_id = 0xffffff,
        .max_qp = 1048560,
        .max_qp_wr = RXE_MAX_WR,
        .device_cap_flags = 0x01223c76,
        .max_sge = RXE_MAX_SGE,
        .max_sge_rd = RXE_MAX_SGE,
        .max_cq = 1 << 20,
        .max_cqe = RXE_MAX_CQE,
        .max_mr = 524287,
        .max_pd = 1 << 20,
        .max_qp_rd_atom = RXE_MAX_RD_ATOMIC,
        .max_res_rd_atom = 258048,
        .max_qp_init_rd_atom = RXE_MAX_RD_ATOMIC,
        .atomic_cap = 1, /* among the NIC's own */
        .max_mw = 524287,
        .max_mcast_grp = 8192,
        .max_mcast_qp_attach = 56,
        .max_total_mcast_qp_attach = 458752,
        .max_ah = 32767,
        .max_srq = 917503,
        .max_srq_wr = RXE_MAX_WR,
        .max_srq_sge = RXE_MAX_SRQ_SGE,
        .max_pkeys = 64,
        .local_ca_ack_delay = 15,
        .phys_port_cnt = 1,
    };
    memcpy(&b->node_guid, d->guid, 8);
    memcpy(&b->sys_image_guid, d->guid, 8);
    out->device_cap_flags_ex = UINT64_C(0x1c001223c76); /* with FLUSH and ATOMIC_WRITE */
}

static void query_port(const struct device *d, struct ib_uverbs_query_port_resp_ex *out)
{
    (void)d;
    out->legacy_resp = (struct ib_uverbs_query_port_resp){
        .port_cap_flags = 0x10000,
        .max_msg_sz = RXE_MAX_MESSAGE,
        .gid_tbl_len = GID_TABLE,
        .pkey_tbl_len = 1,
        .state = 4, /* ACTIVE */
        .max_mtu = 5,
        .active_mtu = 5,
        .max_vl_num = 1,
        .active_width = 1,
        .active_speed = 8,
        .phys_state = 5, /* LinkUp */
        .link_layer = 2, /* Ethernet */
        .flags = IB_UVERBS_QPF_GRH_REQUIRED,
    };
}

/* Zero-based regions and paging on demand are what rxe lacks in one kernel or the other. */
static int check_access(const struct device *d, uint32_t access)
{
    const uint32_t known = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE |
                           IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC |
                           IB_UVERBS_ACCESS_MW_BIND | IB_UVERBS_ACCESS_HUGETLB | ACCESS_FLUSH_GLOBAL |
                           ACCESS_FLUSH_PERSISTENT;

    (void)d;
    if (access & IB_UVERBS_ACCESS_ZERO_BASED)
        return EOPNOTSUPP;
    return access & ~known ? EINVAL : 0;
}

static int create_cq(struct call *c, struct cq *cq, uint32_t *cqe)
{
    struct rxe_create_cq_resp out;
    int err;

    if ((int32_t)*cqe <= 0 || *cqe > RXE_MAX_CQE)
        return EINVAL;
    if (call_size(c, UVERBS_ATTR_UHW_OUT) < sizeof(out))
        return EINVAL;
    err = rxe_queue_create(c->r, &cq->queue, *cqe, CQE_SIZE);
    if (err)
        return err;
    *cqe = cq->queue.mask;
    out.mi = rxe_queue_info(&cq->queue);
    err = call_respond_driver(c, &out, sizeof(out));
    if (err)
        rxe_queue_destroy(c->r, &cq->queue);
    return err;
}

static int resize_cq(struct call *c, struct cq *cq, uint32_t *cqe)
{
    struct rxe_resize_cq_resp out;
    int err;

    if ((int32_t)*cqe <= 0 || *cqe > RXE_MAX_CQE)
        return EINVAL;
    if (call_size(c, UVERBS_ATTR_UHW_OUT) < sizeof(out))
        return EINVAL;
    lock_take(&cq->lock);
    err = rxe_queue_resize(c->r, &cq->queue, *cqe);
    *cqe = cq->queue.mask;
    out.mi = rxe_queue_info(&cq->queue);
    lock_give(&cq->lock);
    return err ? err : call_respond_driver(c, &out, sizeof(out));
}

static void destroy_cq(struct region *r, struct cq *cq)
{
    rxe_queue_destroy(r, &cq->queue);
}

static bool has_qp_type(uint32_t type)
{
    return type == IB_UVERBS_QPT_RC || type == IB_UVERBS_QPT_UC || type == IB_UVERBS_QPT_UD;
}

static bool is_rc(uint32_t type)
{
    return type == IB_UVERBS_QPT_RC;
}

static int check_cap(const struct qp *qp, const struct ib_uverbs_qp_cap *cap)
{
    if (cap->max_send_wr > RXE_MAX_WR || cap->max_send_sge > RXE_MAX_SGE ||
        cap->max_inline_data > RXE_MAX_INLINE)
        return EINVAL;
    if (qp->srq == NONE && (cap->max_recv_wr > RXE_MAX_WR || cap->max_recv_sge > RXE_MAX_SGE))
        return EINVAL;
    return 0;
}

static void destroy_qp(struct region *r, struct qp *qp)
{
    rxe_set_state(r, qp, QPS_DEAD);
    rxe_queue_destroy(r, &qp->sq);
    rxe_queue_destroy(r, &qp->rq);
}

static int make_queues(struct region *r, struct qp *qp, struct ib_uverbs_qp_cap *cap)
{
    uint32_t room = cap->max_send_sge * (uint32_t)sizeof(struct rxe_sge);
    int err;

    if (room < cap->max_inline_data)
        room = cap->max_inline_data;
    cap->max_send_sge = room / (uint32_t)sizeof(struct rxe_sge);
    cap->max_inline_data = room;
    err = rxe_queue_create(r, &qp->sq, cap->max_send_wr, sizeof(struct rxe_send_wqe) + room);
    if (!err && qp->srq == NONE)
        err = rxe_queue_create(r, &qp->rq, cap->max_recv_wr,
                               sizeof(struct rxe_recv_wqe) + cap->max_recv_sge * sizeof(struct rxe_sge));
    if (qp->srq != NONE)
        cap->max_recv_wr = cap->max_recv_sge = 0;
    cap->max_send_wr = qp->sq.mask;
    if (qp->srq == NONE)
        cap->max_recv_wr = qp->rq.mask;
    return err;
}

static int create_qp(struct call *c, struct qp *qp, struct ib_uverbs_qp_cap *cap)
{
    struct rxe_create_qp_resp out = {0};
    int err;

    if (call_size(c, UVERBS_ATTR_UHW_OUT) < sizeof(out))
        return EINVAL;
    err = check_cap(qp, cap);
    if (err)
        return err;
    err = make_queues(c->r, qp, cap);
    qp->cap = *cap;
    out.sq_mi = rxe_queue_info(&qp->sq);
    if (qp->srq == NONE)
        out.rq_mi = rxe_queue_info(&qp->rq);
    if (!err)
        err = call_respond_driver(c, &out, sizeof(out));
    if (err)
        destroy_qp(c->r, qp);
    return err;
}

static int create_srq(struct call *c, struct srq *srq, uint32_t *max_wr, uint32_t *max_sge)
{
    struct rxe_create_srq_resp out = {0};
    int err;

    if (!*max_wr || *max_wr > RXE_MAX_WR || *max_sge > RXE_MAX_SRQ_SGE)
        return EINVAL;
    if (call_size(c, UVERBS_ATTR_UHW_OUT) < sizeof(out))
        return EINVAL;
    if (!*max_sge)
        *max_sge = 1;
    err = rxe_queue_create(c->r, &srq->queue, *max_wr,
                           sizeof(struct rxe_recv_wqe) + *max_sge * sizeof(struct rxe_sge));
    if (err)
        return err;
    srq->max_sge = *max_sge;
    *max_wr = srq->queue.mask;
    out.mi = rxe_queue_info(&srq->queue);
    out.srq_num = 0x20001 + (uint32_t)(srq - c->r->srq);
    err = call_respond_driver(c, &out, sizeof(out));
    if (err)
        rxe_queue_destroy(c->r, &srq->queue);
    return err;
}

enum { SRQ_MAX_WR = 1, SRQ_LIMIT = 2 };

static int grow_srq(struct call *c, struct srq *srq, uint32_t max_wr)
{
    struct rxe_modify_srq_cmd in;
    struct mminfo info;
    int err;

    if (!max_wr || max_wr > RXE_MAX_WR || (srq->limit && max_wr < srq->limit))
        return EINVAL;
    if (call_in(c, UVERBS_ATTR_UHW_IN, &in, sizeof(in)) || !in.mmap_info_addr)
        return EINVAL;
    err = rxe_queue_resize(c->r, &srq->queue, max_wr);
    if (err)
        return err;
    info = rxe_queue_info(&srq->queue);
    return guard_copy((void *)(uintptr_t)in.mmap_info_addr, &info, sizeof(info));
}

static int modify_srq(struct call *c, struct srq *srq, const struct ib_uverbs_modify_srq *in)
{
    int err = 0;

    lock_take(&srq->lock);
    if ((in->attr_mask & SRQ_LIMIT) && in->srq_limit > srq->queue.mask)
        err = EINVAL;
    if (!err && (in->attr_mask & SRQ_MAX_WR))
        err = grow_srq(c, srq, in->max_wr);
    if (!err && (in->attr_mask & SRQ_LIMIT))
        srq->limit = in->srq_limit;
    lock_give(&srq->lock);
    return err;
}

static void query_srq(struct region *r, struct srq *srq, struct ib_uverbs_query_srq_resp *out)
{
    (void)r;
    lock_take(&srq->lock);
    out->max_wr = srq->queue.mask;
    out->max_sge = srq->max_sge;
    out->srq_limit = srq->limit;
    lock_give(&srq->lock);
}

static void destroy_srq(struct region *r, struct srq *srq)
{
    rxe_queue_destroy(r, &srq->queue);
}

static int check_ah(const struct call *c, const struct ib_uverbs_ah_attr *a, uint8_t ret_sgid[16])
{
    if (a->port_num != 1 || !a->is_global)
        return EINVAL;
    return nic_resolve(c->r, (uint32_t)c->device->index, a->grh.sgid_index, a->grh.dgid, ret_sgid);
}

/* Providers before rdma-core 39 have no room for the number: they write addresses into each request. */
static int create_ah(struct call *c, struct ah *ah, uint32_t index)
{
    struct rxe_create_ah_resp out = {.ah_num = index};

    (void)ah;
    return call_respond_driver(c, &out, sizeof(out));
}

/* Flushes what was posted to a queue pair in error since; true if there was something. */
static bool look(struct region *r, struct qp *qp)
{
    bool found = false;

    lock_take(&qp->rq_lock); /* it may be on its way out, with its queue */
    if (atomic_load(&qp->state) == QPS_ERR && qp->srq == NONE && qp->rq.offset &&
        rxe_consumer(r, &qp->rq) != rxe_producer(r, &qp->rq)) {
        rxe_flush_receives(r, qp);
        found = true;
    }
    lock_give(&qp->rq_lock);
    return found;
}

/* What both models are made of. */
#define DRIVER                                                                                               \
    .driver_id = DRIVER_ID_RXE,                                                                              \
    .abi_version = 2,                                                                                        \
    .link_layer = "Ethernet",                                                                                \
    .gid_type_name = "RoCE v2",                                                                              \
    .rate = "10 Gb/sec (1X FDR10)",                                                                          \
    .gid_type = IB_UVERBS_GID_TYPE_ROCE_V2,                                                                  \
    .gid_table = GID_TABLE,                                                                                  \
    .key_shift = RXE_KEY_SHIFT,                                                                              \
    .has_windows = true,                                                                                     \
    .has_cm = true,                                                                                          \
    .arms_by_call = true,                                                                                    \
    .core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS,                                               \
    .query_device = query_device,                                                                            \
    .query_port = query_port,                                                                                \
    .check_access = check_access,                                                                            \
    .create_cq = create_cq,                                                                                  \
    .resize_cq = resize_cq,                                                                                  \
    .destroy_cq = destroy_cq,                                                                                \
    .create_qp = create_qp,                                                                                  \
    .destroy_qp = destroy_qp,                                                                                \
    .break_qp = rxe_break_qp,                                                                                \
    .query_qp = rxe_query_qp,                                                                                \
    .create_srq = create_srq,                                                                                \
    .modify_srq = modify_srq,                                                                                \
    .query_srq = query_srq,                                                                                  \
    .destroy_srq = destroy_srq,                                                                              \
    .check_ah = check_ah,                                                                                    \
    .create_ah = create_ah,                                                                                  \
    .doorbell = rxe_doorbell,                                                                                \
    .run = rxe_run,                                                                                          \
    .look = look

const struct device_model rxe_model = {
    DRIVER,
    .name = "rxe",
    .node_type = "1: CA",
    .has_multicast = true,
    .describe = describe,
    .has_qp_type = has_qp_type,
    .modify_qp = rxe_modify_qp,
};

/* The same NIC with the manners of iWARP towards the connection manager, the only way to connect it. */
const struct device_model iwarp_model = {
    DRIVER,
    .name = "iwarp",
    .node_type = "4: RNIC",
    .is_iwarp = true,
    .describe = describe_iwarp,
    .has_qp_type = is_rc,
    .modify_qp = rxe_modify_qp_iwarp,
};
