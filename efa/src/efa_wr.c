/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of a send request on EFA, and its way through the builders. See efa_wr.h. */
#include "efa_wr.h"

#include <arpa/inet.h>

/* The IBV_QP_EX_WITH_ bit of an opcode; 0 for one that EFA does not have. */
static uint64_t op_of(uint32_t opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
        return IBV_QP_EX_WITH_RDMA_WRITE;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    case IBV_WR_SEND:
        return IBV_QP_EX_WITH_SEND;
    case IBV_WR_SEND_WITH_IMM:
        return IBV_QP_EX_WITH_SEND_WITH_IMM;
    case IBV_WR_RDMA_READ:
        return IBV_QP_EX_WITH_RDMA_READ;
    default:
        return 0;
    }
}

static bool is_send(uint32_t opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

static enum efa_wr_fault check_inline(const struct efa_wr *wr, const struct efa_wr_limits *limits)
{
    if (wr->fields.opcode == IBV_WR_RDMA_READ)
        return EFA_WR_INLINE_READ;
    if (!is_send(wr->fields.opcode) && !limits->inline_write)
        return EFA_WR_INLINE_WRITE;
    if (wr->num_sge > EFA_INLINE_SGE)
        return EFA_WR_TOO_MANY_SGE;
    if (wr_total_length(wr->sge, wr->num_sge) > limits->max_inline_data)
        return EFA_WR_INLINE_TOO_LONG;
    return EFA_WR_OK;
}

enum efa_wr_fault efa_wr_check(const struct efa_wr *wr, const struct efa_wr_limits *limits)
{
    const struct wr_send *fields = &wr->fields;
    uint64_t op = op_of(fields->opcode);

    if (!op)
        return EFA_WR_BAD_OPCODE;
    if (!(limits->ops & op))
        return EFA_WR_NOT_ENABLED;
    if (!wr->ah)
        return EFA_WR_NO_DESTINATION;
    if (fields->send_flags & ~(uint32_t)(IBV_SEND_SIGNALED | IBV_SEND_INLINE))
        return EFA_WR_BAD_FLAGS;
    if (!(fields->send_flags & IBV_SEND_SIGNALED) && !limits->sq_sig_all)
        return EFA_WR_UNSIGNALED;
    if (wr->num_sge > limits->max_send_sge)
        return EFA_WR_TOO_MANY_SGE;
    if (!is_send(fields->opcode)) {
        if (wr->num_sge > EFA_RDMA_SGE && !(fields->send_flags & IBV_SEND_INLINE))
            return EFA_WR_TOO_MANY_RDMA_SGE;
        if (limits->max_rdma_size && wr_total_length(wr->sge, wr->num_sge) > limits->max_rdma_size)
            return EFA_WR_RDMA_TOO_LONG;
    }
    if (wr->hints && !limits->hints)
        return EFA_WR_NO_HINTS;
    return fields->send_flags & IBV_SEND_INLINE ? check_inline(wr, limits) : EFA_WR_OK;
}

/* ---- the batch ------------------------------------------------------------------------------------------------------ */

static inline void begin(struct ibv_qp_ex *qp, const struct wr_send *fields)
{
    qp->wr_id = fields->wr_id;
    qp->wr_flags = fields->send_flags;
    switch (fields->opcode) {
    case IBV_WR_RDMA_WRITE:
        qp->wr_rdma_write(qp, fields->rkey, fields->remote_addr);
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        qp->wr_rdma_write_imm(qp, fields->rkey, fields->remote_addr, htonl(fields->imm_data));
        break;
    case IBV_WR_SEND:
        qp->wr_send(qp);
        break;
    case IBV_WR_SEND_WITH_IMM:
        qp->wr_send_imm(qp, htonl(fields->imm_data));
        break;
    default:
        qp->wr_rdma_read(qp, fields->rkey, fields->remote_addr);
    }
}

/* Data that is copied into the request. */
static void put_inline(struct ibv_qp_ex *qp, const struct ibv_sge *sge, uint32_t num_sge)
{
    struct ibv_data_buf buffers[EFA_INLINE_SGE];

    if (num_sge == 1) {
        qp->wr_set_inline_data(qp, (void *)(uintptr_t)sge->addr, sge->length);
        return;
    }
    for (uint32_t i = 0; i < num_sge; i++)
        buffers[i] = (struct ibv_data_buf){(void *)(uintptr_t)sge[i].addr, sge[i].length};
    qp->wr_set_inline_data_list(qp, num_sge, buffers);
}

int efa_wr_submit(struct ibv_qp_ex *qp, struct dv_qp *dv, const struct efa_wr *wr, size_t count)
{
    const struct efa_wr *end = wr + count;

    /* The builder comes before the setters, which write to where it points. From here to the end the queue is locked. */
    qp->wr_start(qp);
    for (; wr < end; wr++) {
        begin(qp, &wr->fields);
        if (wr->fields.send_flags & IBV_SEND_INLINE)
            put_inline(qp, wr->sge, wr->num_sge);
        else if (wr->num_sge == 1)
            qp->wr_set_sge(qp, wr->sge->lkey, wr->sge->addr, wr->sge->length);
        else
            qp->wr_set_sge_list(qp, wr->num_sge, wr->sge);
        qp->wr_set_ud_addr(qp, wr->ah, wr->fields.remote_qpn, wr->fields.remote_qkey);
        if (wr->hints)
            dv->wr_set_processing_hints(dv, wr->hints);
    }
    return qp->wr_complete(qp);
}
