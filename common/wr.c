/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of a request and its way into the C structure. See wr.h. */
#include "wr.h"

#include <arpa/inet.h>
#include <string.h>

bool wr_has_imm(uint32_t opcode)
{
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool has_payload(uint32_t opcode)
{
    return opcode <= IBV_WR_SEND_WITH_IMM;
}

uint64_t wr_total_length(const struct ibv_sge *sge, uint32_t num_sge)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < num_sge; i++)
        total += sge[i].length;
    return total;
}

static enum wr_fault check_send(const struct wr_send *fields, const struct wr_limits *limits,
                                const struct ibv_sge *sge, uint32_t num_sge, const struct ibv_ah *ah)
{
    if (fields->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD)
        return WR_BAD_OPCODE;
    if (limits->qp_type == IBV_QPT_UD) {
        if (fields->opcode != IBV_WR_SEND && fields->opcode != IBV_WR_SEND_WITH_IMM)
            return WR_NOT_FOR_UD;
        if (!ah)
            return WR_NEEDS_AH;
    } else if (ah) {
        return WR_AH_NOT_FOR_QP;
    }
    if (num_sge > limits->max_send_sge)
        return WR_TOO_MANY_SGE;
    if (fields->send_flags & IBV_SEND_INLINE) {
        if (!has_payload(fields->opcode))
            return WR_INLINE_OPCODE;
        if (wr_total_length(sge, num_sge) > limits->max_inline_data)
            return WR_INLINE_TOO_LONG;
    }
    return WR_OK;
}

enum wr_fault wr_fill_send(struct ibv_send_wr *wr, const struct wr_send *fields, const struct wr_limits *limits,
                           struct ibv_sge *sge, uint32_t num_sge, struct ibv_ah *ah)
{
    enum wr_fault fault = check_send(fields, limits, sge, num_sge, ah);

    if (fault != WR_OK)
        return fault;

    memset(wr, 0, sizeof *wr);
    wr->wr_id = fields->wr_id;
    wr->sg_list = sge;
    wr->num_sge = (int)num_sge;
    wr->opcode = (enum ibv_wr_opcode)fields->opcode;
    wr->send_flags = fields->send_flags;
    if (wr_has_imm(fields->opcode))
        wr->imm_data = htonl(fields->imm_data);

    if (limits->qp_type == IBV_QPT_UD) {
        wr->wr.ud.ah = ah;
        wr->wr.ud.remote_qpn = fields->remote_qpn;
        wr->wr.ud.remote_qkey = fields->remote_qkey;
        return WR_OK;
    }

    switch (fields->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
        wr->wr.rdma.remote_addr = fields->remote_addr;
        wr->wr.rdma.rkey = fields->rkey;
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        wr->wr.atomic.remote_addr = fields->remote_addr;
        wr->wr.atomic.compare_add = fields->compare_add;
        wr->wr.atomic.swap = fields->swap;
        wr->wr.atomic.rkey = fields->rkey;
        break;
    default:
        break;
    }
    return WR_OK;
}

enum wr_fault wr_fill_recv(struct ibv_recv_wr *wr, uint64_t wr_id, uint32_t max_sge, struct ibv_sge *sge,
                           uint32_t num_sge)
{
    if (num_sge > max_sge)
        return WR_TOO_MANY_SGE;
    wr->wr_id = wr_id;
    wr->next = NULL;
    wr->sg_list = sge;
    wr->num_sge = (int)num_sge;
    return WR_OK;
}
