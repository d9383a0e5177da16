/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends on the EFA device. */
#include "srd.h"

struct ibv_context *efa_open(int n)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *ctx = NULL;
    struct efadv_device_attr attr;

    CHECK(list);
    for (int i = 0; list[i] && !ctx; i++) {
        struct ibv_context *c = ibv_open_device(list[i]);

        CHECK(c);
        if (efadv_query_device(c, &attr, sizeof(attr)) == 0 && n-- == 0)
            ctx = c;
        else
            ibv_close_device(c);
    }
    ibv_free_device_list(list);
    CHECK(ctx);
    return ctx;
}

static struct ibv_qp *make_qp(struct srd *e, enum ibv_qp_type type, int depth)
{
    struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
    struct ibv_qp_init_attr_ex init = {
        .send_cq = e->cq,
        .recv_cq = e->cq,
        .cap = {.max_send_wr = (uint32_t)depth,
                .max_recv_wr = (uint32_t)depth,
                .max_send_sge = 2,
                .max_recv_sge = 1,
                .max_inline_data = 32},
        .qp_type = type,
        .sq_sig_all = 1,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = e->pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
    };

    if (type == IBV_QPT_UD)
        return ibv_create_qp_ex(e->ctx, &init);
    init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ;
    return efadv_create_qp_ex(e->ctx, &init, &efa, sizeof(efa));
}

struct srd srd_make(struct ibv_context *ctx, enum ibv_qp_type type, size_t size, int depth)
{
    struct efadv_cq_init_attr efa = {.wc_flags = EFADV_WC_EX_WITH_SGID};
    struct srd e = {.ctx = ctx, .size = size};
    struct ibv_cq_init_attr_ex init = {.cqe = 4 * (uint32_t)depth, .wc_flags = IBV_WC_STANDARD_FLAGS};

    e.pd = ibv_alloc_pd(ctx);
    CHECK(e.pd);
    e.channel = ibv_create_comp_channel(ctx);
    CHECK(e.channel);
    init.channel = e.channel;
    e.cqx = efadv_create_cq(ctx, &init, &efa, sizeof(efa));
    CHECK(e.cqx);
    e.cq = ibv_cq_ex_to_cq(e.cqx);
    e.qp = make_qp(&e, type, depth);
    CHECK(e.qp);
    e.qpx = ibv_qp_to_qp_ex(e.qp);
    e.buf = aligned_alloc(4096, size);
    CHECK(e.buf);
    memset(e.buf, 0, size);
    e.mr = ibv_reg_mr(e.pd, e.buf, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(e.mr);
    CHECK(ibv_query_gid(ctx, 1, 0, &e.self.gid) == 0);
    e.self.qpn = e.qp->qp_num;
    e.self.rkey = e.mr->rkey;
    e.self.addr = (uintptr_t)e.buf;
    return e;
}

void srd_start(struct srd *e, int rnr_retry)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = SRD_QKEY};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    CHECK(ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    a.qp_state = IBV_QPS_RTR;
    CHECK(ibv_modify_qp(e->qp, &a, IBV_QP_STATE) == 0);
    a.qp_state = IBV_QPS_RTS;
    if (rnr_retry >= 0) {
        a.rnr_retry = (uint8_t)rnr_retry;
        mask |= IBV_QP_RNR_RETRY;
    }
    CHECK(ibv_modify_qp(e->qp, &a, mask) == 0);
}

void srd_free(struct srd *e)
{
    CHECK(ibv_destroy_qp(e->qp) == 0);
    CHECK(ibv_destroy_cq(e->cq) == 0);
    CHECK(ibv_destroy_comp_channel(e->channel) == 0);
    CHECK(ibv_dereg_mr(e->mr) == 0);
    CHECK(ibv_dealloc_pd(e->pd) == 0);
    free(e->buf);
}

struct ibv_ah *srd_ah(struct srd *e, const union ibv_gid *gid)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    struct ibv_ah *ah;

    attr.grh.dgid = *gid;
    ah = ibv_create_ah(e->pd, &attr);
    CHECK(ah);
    return ah;
}

void srd_recv(struct srd *e, uint64_t id, size_t offset, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)e->buf + offset, length, e->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

    CHECK(ibv_post_recv(e->qp, &wr, &bad) == 0);
}

void srd_send(struct srd *e, struct ibv_ah *ah, uint32_t qpn, uint64_t id, size_t offset, uint32_t length)
{
    ibv_wr_start(e->qpx);
    e->qpx->wr_id = id;
    ibv_wr_send(e->qpx);
    ibv_wr_set_sge(e->qpx, e->mr->lkey, (uintptr_t)e->buf + offset, length);
    ibv_wr_set_ud_addr(e->qpx, ah, qpn, SRD_QKEY);
    CHECK(ibv_wr_complete(e->qpx) == 0);
}

void srd_read(struct srd *e, struct ibv_ah *ah, const struct address *peer, uint64_t id, size_t offset, uint32_t length)
{
    ibv_wr_start(e->qpx);
    e->qpx->wr_id = id;
    ibv_wr_rdma_read(e->qpx, peer->rkey, peer->addr);
    ibv_wr_set_sge(e->qpx, e->mr->lkey, (uintptr_t)e->buf + offset, length);
    ibv_wr_set_ud_addr(e->qpx, ah, peer->qpn, SRD_QKEY);
    CHECK(ibv_wr_complete(e->qpx) == 0);
}

struct seen srd_wait(struct srd *e, int limit_ms)
{
    struct ibv_poll_cq_attr attr = {0};
    double limit = now_s() + limit_ms / 1000.0;
    struct seen s = {.status = -1};

    while (ibv_start_poll(e->cqx, &attr) != 0) {
        if (now_s() > limit)
            return s;
        usleep(50);
    }
    s.wr_id = e->cqx->wr_id;
    s.status = e->cqx->status;
    s.vendor_err = ibv_wc_read_vendor_err(e->cqx);
    s.opcode = ibv_wc_read_opcode(e->cqx);
    if (s.opcode & IBV_WC_RECV) {
        s.byte_len = ibv_wc_read_byte_len(e->cqx);
        s.src_qp = ibv_wc_read_src_qp(e->cqx);
        s.slid = ibv_wc_read_slid(e->cqx);
        s.flags = ibv_wc_read_wc_flags(e->cqx);
        s.imm = be32toh(ibv_wc_read_imm_data(e->cqx));
        s.has_sgid = efadv_wc_read_sgid(efadv_cq_from_ibv_cq_ex(e->cqx), &s.sgid) == 0;
    }
    ibv_end_poll(e->cqx);
    return s;
}
