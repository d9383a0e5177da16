/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one list of the constants of verbs.h that Python sees, with their values, which are ABI. X: every supported header
 * has it, and constants.c holds the value against it. NEWER: the installed header may be too old for it, and the build
 * defines HAVE_<name> where it is not.
 */
#ifndef CORE_CONSTANTS_H
#define CORE_CONSTANTS_H

#include "pyapi.h"

/* clang-format off */
#define CORE_CONSTANTS(X, NEWER) \
    /* enum ibv_access_flags */                                                                                        \
    X(IBV_ACCESS_LOCAL_WRITE, 1 << 0)                                                                                  \
    X(IBV_ACCESS_REMOTE_WRITE, 1 << 1)                                                                                 \
    X(IBV_ACCESS_REMOTE_READ, 1 << 2)                                                                                  \
    X(IBV_ACCESS_REMOTE_ATOMIC, 1 << 3)                                                                                \
    X(IBV_ACCESS_MW_BIND, 1 << 4)                                                                                      \
    X(IBV_ACCESS_ZERO_BASED, 1 << 5)                                                                                   \
    X(IBV_ACCESS_ON_DEMAND, 1 << 6)                                                                                    \
    X(IBV_ACCESS_HUGETLB, 1 << 7)                                                                                      \
    NEWER(IBV_ACCESS_FLUSH_GLOBAL, 1 << 8)                                                                             \
    NEWER(IBV_ACCESS_FLUSH_PERSISTENT, 1 << 9)                                                                         \
    X(IBV_ACCESS_RELAXED_ORDERING, 1 << 20)                                                                            \
    /* enum ibv_qp_state */                                                                                            \
    X(IBV_QPS_RESET, 0)                                                                                                \
    X(IBV_QPS_INIT, 1)                                                                                                 \
    X(IBV_QPS_RTR, 2)                                                                                                  \
    X(IBV_QPS_RTS, 3)                                                                                                  \
    X(IBV_QPS_SQD, 4)                                                                                                  \
    X(IBV_QPS_SQE, 5)                                                                                                  \
    X(IBV_QPS_ERR, 6)                                                                                                  \
    X(IBV_QPS_UNKNOWN, 7)                                                                                              \
    /* enum ibv_qp_attr_mask */                                                                                        \
    X(IBV_QP_STATE, 1 << 0)                                                                                            \
    X(IBV_QP_CUR_STATE, 1 << 1)                                                                                        \
    X(IBV_QP_EN_SQD_ASYNC_NOTIFY, 1 << 2)                                                                              \
    X(IBV_QP_ACCESS_FLAGS, 1 << 3)                                                                                     \
    X(IBV_QP_PKEY_INDEX, 1 << 4)                                                                                       \
    X(IBV_QP_PORT, 1 << 5)                                                                                             \
    X(IBV_QP_QKEY, 1 << 6)                                                                                             \
    X(IBV_QP_AV, 1 << 7)                                                                                               \
    X(IBV_QP_PATH_MTU, 1 << 8)                                                                                         \
    X(IBV_QP_TIMEOUT, 1 << 9)                                                                                          \
    X(IBV_QP_RETRY_CNT, 1 << 10)                                                                                       \
    X(IBV_QP_RNR_RETRY, 1 << 11)                                                                                       \
    X(IBV_QP_RQ_PSN, 1 << 12)                                                                                          \
    X(IBV_QP_MAX_QP_RD_ATOMIC, 1 << 13)                                                                                \
    X(IBV_QP_ALT_PATH, 1 << 14)                                                                                        \
    X(IBV_QP_MIN_RNR_TIMER, 1 << 15)                                                                                   \
    X(IBV_QP_SQ_PSN, 1 << 16)                                                                                          \
    X(IBV_QP_MAX_DEST_RD_ATOMIC, 1 << 17)                                                                              \
    X(IBV_QP_PATH_MIG_STATE, 1 << 18)                                                                                  \
    X(IBV_QP_CAP, 1 << 19)                                                                                             \
    X(IBV_QP_DEST_QPN, 1 << 20)                                                                                        \
    X(IBV_QP_RATE_LIMIT, 1 << 25)                                                                                      \
    /* enum ibv_wr_opcode */                                                                                           \
    X(IBV_WR_RDMA_WRITE, 0)                                                                                            \
    X(IBV_WR_RDMA_WRITE_WITH_IMM, 1)                                                                                   \
    X(IBV_WR_SEND, 2)                                                                                                  \
    X(IBV_WR_SEND_WITH_IMM, 3)                                                                                         \
    X(IBV_WR_RDMA_READ, 4)                                                                                             \
    X(IBV_WR_ATOMIC_CMP_AND_SWP, 5)                                                                                    \
    X(IBV_WR_ATOMIC_FETCH_AND_ADD, 6)                                                                                  \
    X(IBV_WR_LOCAL_INV, 7)                                                                                             \
    X(IBV_WR_BIND_MW, 8)                                                                                               \
    X(IBV_WR_SEND_WITH_INV, 9)                                                                                         \
    X(IBV_WR_TSO, 10)                                                                                                  \
    /* enum ibv_send_flags */                                                                                          \
    X(IBV_SEND_FENCE, 1 << 0)                                                                                          \
    X(IBV_SEND_SIGNALED, 1 << 1)                                                                                       \
    X(IBV_SEND_SOLICITED, 1 << 2)                                                                                      \
    X(IBV_SEND_INLINE, 1 << 3)                                                                                         \
    X(IBV_SEND_IP_CSUM, 1 << 4)                                                                                        \
    /* enum ibv_wc_status */                                                                                           \
    X(IBV_WC_SUCCESS, 0)                                                                                               \
    X(IBV_WC_LOC_LEN_ERR, 1)                                                                                           \
    X(IBV_WC_LOC_QP_OP_ERR, 2)                                                                                         \
    X(IBV_WC_LOC_EEC_OP_ERR, 3)                                                                                        \
    X(IBV_WC_LOC_PROT_ERR, 4)                                                                                          \
    X(IBV_WC_WR_FLUSH_ERR, 5)                                                                                          \
    X(IBV_WC_MW_BIND_ERR, 6)                                                                                           \
    X(IBV_WC_BAD_RESP_ERR, 7)                                                                                          \
    X(IBV_WC_LOC_ACCESS_ERR, 8)                                                                                        \
    X(IBV_WC_REM_INV_REQ_ERR, 9)                                                                                       \
    X(IBV_WC_REM_ACCESS_ERR, 10)                                                                                       \
    X(IBV_WC_REM_OP_ERR, 11)                                                                                           \
    X(IBV_WC_RETRY_EXC_ERR, 12)                                                                                        \
    X(IBV_WC_RNR_RETRY_EXC_ERR, 13)                                                                                    \
    X(IBV_WC_LOC_RDD_VIOL_ERR, 14)                                                                                     \
    X(IBV_WC_REM_INV_RD_REQ_ERR, 15)                                                                                   \
    X(IBV_WC_REM_ABORT_ERR, 16)                                                                                        \
    X(IBV_WC_INV_EECN_ERR, 17)                                                                                         \
    X(IBV_WC_INV_EEC_STATE_ERR, 18)                                                                                    \
    X(IBV_WC_FATAL_ERR, 19)                                                                                            \
    X(IBV_WC_RESP_TIMEOUT_ERR, 20)                                                                                     \
    X(IBV_WC_GENERAL_ERR, 21)                                                                                          \
    X(IBV_WC_TM_ERR, 22)                                                                                               \
    X(IBV_WC_TM_RNDV_INCOMPLETE, 23)                                                                                   \
    /* enum ibv_wc_opcode */                                                                                           \
    X(IBV_WC_SEND, 0)                                                                                                  \
    X(IBV_WC_RDMA_WRITE, 1)                                                                                            \
    X(IBV_WC_RDMA_READ, 2)                                                                                             \
    X(IBV_WC_COMP_SWAP, 3)                                                                                             \
    X(IBV_WC_FETCH_ADD, 4)                                                                                             \
    X(IBV_WC_BIND_MW, 5)                                                                                               \
    X(IBV_WC_LOCAL_INV, 6)                                                                                             \
    X(IBV_WC_TSO, 7)                                                                                                   \
    X(IBV_WC_RECV, 128)                                                                                                \
    X(IBV_WC_RECV_RDMA_WITH_IMM, 129)                                                                                  \
    /* enum ibv_wc_flags */                                                                                            \
    X(IBV_WC_GRH, 1 << 0)                                                                                              \
    X(IBV_WC_WITH_IMM, 1 << 1)                                                                                         \
    X(IBV_WC_IP_CSUM_OK, 1 << 2)                                                                                       \
    X(IBV_WC_WITH_INV, 1 << 3)                                                                                         \
    X(IBV_WC_TM_SYNC_REQ, 1 << 4)                                                                                      \
    X(IBV_WC_TM_MATCH, 1 << 5)                                                                                         \
    X(IBV_WC_TM_DATA_VALID, 1 << 6)                                                                                    \
    /* enum ibv_mtu */                                                                                                 \
    X(IBV_MTU_256, 1)                                                                                                  \
    X(IBV_MTU_512, 2)                                                                                                  \
    X(IBV_MTU_1024, 3)                                                                                                 \
    X(IBV_MTU_2048, 4)                                                                                                 \
    X(IBV_MTU_4096, 5)                                                                                                 \
    /* enum ibv_port_state */                                                                                          \
    X(IBV_PORT_NOP, 0)                                                                                                 \
    X(IBV_PORT_DOWN, 1)                                                                                                \
    X(IBV_PORT_INIT, 2)                                                                                                \
    X(IBV_PORT_ARMED, 3)                                                                                               \
    X(IBV_PORT_ACTIVE, 4)                                                                                              \
    X(IBV_PORT_ACTIVE_DEFER, 5)                                                                                        \
    /* enum ibv_node_type */                                                                                           \
    X(IBV_NODE_UNKNOWN, -1)                                                                                            \
    X(IBV_NODE_CA, 1)                                                                                                  \
    X(IBV_NODE_SWITCH, 2)                                                                                              \
    X(IBV_NODE_ROUTER, 3)                                                                                              \
    X(IBV_NODE_RNIC, 4)                                                                                                \
    X(IBV_NODE_USNIC, 5)                                                                                               \
    X(IBV_NODE_USNIC_UDP, 6)                                                                                           \
    X(IBV_NODE_UNSPECIFIED, 7)                                                                                         \
    /* enum ibv_transport_type */                                                                                      \
    X(IBV_TRANSPORT_UNKNOWN, -1)                                                                                       \
    X(IBV_TRANSPORT_IB, 0)                                                                                             \
    X(IBV_TRANSPORT_IWARP, 1)                                                                                          \
    X(IBV_TRANSPORT_USNIC, 2)                                                                                          \
    X(IBV_TRANSPORT_USNIC_UDP, 3)                                                                                      \
    X(IBV_TRANSPORT_UNSPECIFIED, 4)                                                                                    \
    /* enum ibv_gid_type */                                                                                            \
    X(IBV_GID_TYPE_IB, 0)                                                                                              \
    X(IBV_GID_TYPE_ROCE_V1, 1)                                                                                         \
    X(IBV_GID_TYPE_ROCE_V2, 2)                                                                                         \
    /* enum ibv_event_type */                                                                                          \
    X(IBV_EVENT_CQ_ERR, 0)                                                                                             \
    X(IBV_EVENT_QP_FATAL, 1)                                                                                           \
    X(IBV_EVENT_QP_REQ_ERR, 2)                                                                                         \
    X(IBV_EVENT_QP_ACCESS_ERR, 3)                                                                                      \
    X(IBV_EVENT_COMM_EST, 4)                                                                                           \
    X(IBV_EVENT_SQ_DRAINED, 5)                                                                                         \
    X(IBV_EVENT_PATH_MIG, 6)                                                                                           \
    X(IBV_EVENT_PATH_MIG_ERR, 7)                                                                                       \
    X(IBV_EVENT_DEVICE_FATAL, 8)                                                                                       \
    X(IBV_EVENT_PORT_ACTIVE, 9)                                                                                        \
    X(IBV_EVENT_PORT_ERR, 10)                                                                                          \
    X(IBV_EVENT_LID_CHANGE, 11)                                                                                        \
    X(IBV_EVENT_PKEY_CHANGE, 12)                                                                                       \
    X(IBV_EVENT_SM_CHANGE, 13)                                                                                         \
    X(IBV_EVENT_SRQ_ERR, 14)                                                                                           \
    X(IBV_EVENT_SRQ_LIMIT_REACHED, 15)                                                                                 \
    X(IBV_EVENT_QP_LAST_WQE_REACHED, 16)                                                                               \
    X(IBV_EVENT_CLIENT_REREGISTER, 17)                                                                                 \
    X(IBV_EVENT_GID_CHANGE, 18)                                                                                        \
    X(IBV_EVENT_WQ_FATAL, 19)                                                                                          \
    /* enum ibv_fork_status */                                                                                         \
    X(IBV_FORK_DISABLED, 0)                                                                                            \
    X(IBV_FORK_ENABLED, 1)                                                                                             \
    X(IBV_FORK_UNNEEDED, 2)

/* enum ibv_qp_type, of which a module takes those that it can make. */
#define CORE_QP_TYPES(X) \
    X(IBV_QPT_RC, 2) \
    X(IBV_QPT_UC, 3) \
    X(IBV_QPT_UD, 4) \
    X(IBV_QPT_RAW_PACKET, 8) \
    X(IBV_QPT_XRC_SEND, 9) \
    X(IBV_QPT_XRC_RECV, 10) \
    X(IBV_QPT_DRIVER, 255)
/* clang-format on */

struct core_constant {
    const char *name; /* as C has it */
    long value;
};

/* The list above. */
extern const struct core_constant core_verbs_constants[];
extern const size_t core_verbs_constant_count;

/* Adds constants to a module, under their C names. Returns 0, or -1 with an exception. */
int core_add_constants(PyObject *module, const struct core_constant *constants, size_t count);

#endif
