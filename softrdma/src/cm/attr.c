/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of queue pairs, as measured on kernel 6.1 with rxe. */
#include "attr.h"

#include "../nic.h"
#include "address.h"
#include "datagram.h"
#include "id.h"
#include "iwarp.h"

/* enum ib_qp_state and ib_qp_attr_mask of the kernel. */
enum { STATE_INIT = 1, STATE_RTR = 2, STATE_RTS = 3, STATE_ERR = 6 };
enum {
    MASK_INIT = 0x39,     /* STATE ACCESS_FLAGS PKEY_INDEX PORT */
    MASK_UD = 0x71,       /* STATE PKEY_INDEX PORT QKEY */
    MASK_RTR = 0x129181,  /* STATE AV PATH_MTU RQ_PSN MIN_RNR_TIMER MAX_DEST_RD_ATOMIC DEST_QPN */
    MASK_RTS = 0x12e01,   /* STATE TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC SQ_PSN */
    MASK_IWARP = 0x29,    /* STATE ACCESS_FLAGS PORT */
    MASK_IWARP_RTS = 0x20,
    ACCESS_IWARP = 0x6,   /* REMOTE_WRITE and REMOTE_READ */
    ACCESS_WRITE = 0x2,   /* REMOTE_WRITE */
    ACCESS_ALL = 0xe,     /* REMOTE_READ and REMOTE_ATOMIC too */
    MTU_4096 = 5,
    HOP_LIMIT = 64,
    CA_DELAY = 15, /* local_ca_ack_delay of rxe */
};

uint32_t cm_attr_flow(const struct cm_id *id)
{
    uint32_t a = id->qpn < id->peer_qpn ? id->qpn : id->peer_qpn;
    uint32_t b = id->qpn < id->peer_qpn ? id->peer_qpn : id->qpn;

    return ((a * 0x9e3779b1u) ^ (b * 0x85ebca6bu)) >> 12 & 0xfffff;
}

static uint8_t source_index(struct region *r, const struct cm_id *id)
{
    uint8_t wanted[16], mine[16];

    cm_addr_wire_gid(r, &id->src, id->device, wanted);
    for (uint32_t i = 0; i < NIC_GIDS; i++) {
        if (nic_gid(r, (uint32_t)id->device, i, mine) && memcmp(mine, wanted, 16) == 0)
            return (uint8_t)i;
    }
    return 1;
}

void cm_attr_path(struct region *r, const struct cm_id *id, struct ib_uverbs_ah_attr *ret)
{
    cm_addr_wire_gid(r, &id->dst, id->device, ret->grh.dgid);
    ret->grh.flow_label = cm_attr_flow(id);
    ret->grh.sgid_index = source_index(r, id);
    ret->grh.hop_limit = HOP_LIMIT;
    ret->grh.traffic_class = id->tos;
    ret->is_global = 1;
    ret->port_num = 1;
}

/* The packet's life time there and back, and what the peer's NIC takes to answer: all powers of two. */
static uint8_t ack_timeout(const struct cm_id *id)
{
    int there_and_back = id->life + 1;

    if (id->has_timeout)
        return id->timeout;
    if (there_and_back >= CA_DELAY)
        return (uint8_t)(there_and_back + (CA_DELAY >= there_and_back - 1));
    return (uint8_t)(CA_DELAY + (there_and_back >= CA_DELAY - 1));
}

static bool has_answer(const struct cm_id *id)
{
    return id->link > LINK_REQ_SENT && id->link <= LINK_ESTABLISHED;
}

int cm_attr_connected(struct region *r, const struct cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *a)
{
    switch (qp_state) {
    case STATE_INIT:
        if (!has_answer(id) && id->link != LINK_REQ_SENT)
            return EINVAL;
        a->qp_attr_mask = MASK_INIT;
        a->qp_access_flags = id->rr ? ACCESS_ALL : ACCESS_WRITE;
        a->port_num = 1;
        return 0;
    case STATE_RTR:
        if (!has_answer(id))
            return EINVAL;
        a->qp_attr_mask = MASK_RTR;
        a->path_mtu = MTU_4096;
        a->dest_qp_num = id->peer_qpn;
        a->max_dest_rd_atomic = id->rr;
        cm_attr_path(r, id, &a->ah_attr);
        return 0;
    case STATE_RTS:
        if (!has_answer(id))
            return EINVAL;
        a->qp_attr_mask = MASK_RTS;
        a->timeout = ack_timeout(id);
        a->retry_cnt = id->retry;
        a->rnr_retry = id->rnr;
        a->max_rd_atomic = id->idp;
        a->sq_psn = id->peer_psn;
        return 0;
    }
    return EINVAL;
}

/* siw: the kernel moves the queue pair, and says next to nothing. */
static int init_iwarp(const struct cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *a)
{
    if (id->state == CM_LISTEN || id->state == CM_IDLE || id->state == CM_BOUND)
        return EINVAL;
    a->port_num = 1;
    a->qp_attr_mask = qp_state == STATE_RTS ? MASK_IWARP_RTS : MASK_IWARP;
    if (id->state != CM_ADDR_RESOLVED && id->state != CM_ROUTE_RESOLVED)
        a->qp_access_flags = ACCESS_IWARP;
    return 0;
}

int cm_attr_init(struct region *r, const struct cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *ret)
{
    if (qp_state > STATE_ERR || id->device < 0)
        return EINVAL;
    ret->qp_state = (uint8_t)qp_state;
    if (qp_state == STATE_RTR)
        ret->rq_psn = id->psn; /* in every state, whether or not the mask says so */
    if (id->qp_type == IB_UVERBS_QPT_UD) {
        ret->qp_attr_mask = MASK_UD;
        ret->qkey = CM_QKEY;
        ret->port_num = 1;
        return 0;
    }
    if (cm_is_iwarp(id))
        return init_iwarp(id, qp_state, ret);
    if (id->link == LINK_NONE) {
        ret->qp_attr_mask = MASK_INIT;
        ret->port_num = 1;
        return 0;
    }
    return cm_attr_connected(r, id, qp_state, ret);
}
