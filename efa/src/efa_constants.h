/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one list of the constants that only this package has: those of libefa, whose values efadv.h gives under names of
 * ours, and those of verbs.h for its types of queue pairs and for extended queues. X(name as C has it, value).
 */
#ifndef EFA_EFA_CONSTANTS_H
#define EFA_EFA_CONSTANTS_H

#include "constants.h"
#include "efadv.h"

/* clang-format off */
#define EFA_VERBS_CONSTANTS(X)                                                                                         \
    X(IBV_QPT_UD, 4)                                                                                                   \
    X(IBV_QPT_DRIVER, 255)                                                                                             \
    /* enum ibv_qp_create_send_ops_flags */                                                                            \
    X(IBV_QP_EX_WITH_RDMA_WRITE, 1 << 0)                                                                               \
    X(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, 1 << 1)                                                                      \
    X(IBV_QP_EX_WITH_SEND, 1 << 2)                                                                                     \
    X(IBV_QP_EX_WITH_SEND_WITH_IMM, 1 << 3)                                                                            \
    X(IBV_QP_EX_WITH_RDMA_READ, 1 << 4)                                                                                \
    /* enum ibv_create_cq_wc_flags */                                                                                  \
    X(IBV_WC_EX_WITH_BYTE_LEN, 1 << 0)                                                                                 \
    X(IBV_WC_EX_WITH_IMM, 1 << 1)                                                                                      \
    X(IBV_WC_EX_WITH_QP_NUM, 1 << 2)                                                                                   \
    X(IBV_WC_EX_WITH_SRC_QP, 1 << 3)                                                                                   \
    X(IBV_WC_EX_WITH_SLID, 1 << 4)                                                                                     \
    X(IBV_WC_EX_WITH_SL, 1 << 5)                                                                                       \
    X(IBV_WC_EX_WITH_DLID_PATH_BITS, 1 << 6)                                                                           \
    X(IBV_WC_STANDARD_FLAGS, 0x7f)

/* Of verbs.h too, but of rdma-core 65: older headers lack them. */
#define EFA_CONSTANTS(X)                                                                                               \
    X(EFADV_DEVICE_ATTR_CAPS_RDMA_READ, DV_CAP_RDMA_READ)                                                              \
    X(EFADV_DEVICE_ATTR_CAPS_RNR_RETRY, DV_CAP_RNR_RETRY)                                                              \
    X(EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID, DV_CAP_CQ_WITH_SGID)                                                        \
    X(EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE, DV_CAP_RDMA_WRITE)                                                            \
    X(EFADV_DEVICE_ATTR_CAPS_UNSOLICITED_WRITE_RECV, DV_CAP_UNSOLICITED_WRITE_RECV)                                    \
    X(EFADV_DEVICE_ATTR_CAPS_CQ_WITH_EXT_MEM_DMABUF, DV_CAP_CQ_WITH_EXT_MEM_DMABUF)                                    \
    X(EFADV_DEVICE_ATTR_CAPS_COMP_CNTR, DV_CAP_COMP_CNTR)                                                              \
    X(IBV_QP_ATTACH_COMP_CNTR_OP_SEND, 1 << 0)                                                                         \
    X(IBV_QP_ATTACH_COMP_CNTR_OP_RECV, 1 << 1)                                                                         \
    X(IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ, 1 << 2)                                                                    \
    X(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, 1 << 3)                                                             \
    X(IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE, 1 << 4)                                                                   \
    X(IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, 1 << 5)                                                            \
    X(EFADV_WR_PROCESSING_HINT_BURST_PPS_SENSITIVE, 1 << 0)
/* clang-format on */

extern const struct core_constant efa_constants[];
extern const size_t efa_constant_count;

#endif
