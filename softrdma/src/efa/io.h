/* SPDX-License-Identifier: BSD-3-Clause */
/* What passes between libefa and the device: descriptors in the rings, completions, the bits of the CQ doorbell, and
 * what the driver's private structures have that older headers lack. All of it is little-endian, as the hosts are. */
#ifndef SOFTRDMA_EFA_IO_H
#define SOFTRDMA_EFA_IO_H

#include "../base.h"

enum efa_queue { EFA_SEND_QUEUE = 1, EFA_RECV_QUEUE = 2 };
enum efa_opcode { EFA_SEND = 0, EFA_READ = 1, EFA_WRITE = 2 };

/* What a completion says; libefa hands it on as vendor_err. */
enum efa_status {
    EFA_OK = 0,
    EFA_FLUSHED = 1,
    EFA_QP_INTERNAL_ERROR = 2,
    EFA_UNSUPPORTED_OP = 3,
    EFA_INVALID_AH = 4,
    EFA_INVALID_LKEY = 5,
    EFA_BAD_LENGTH = 6,         /* of the message, found by the sender's device */
    EFA_REMOTE_BAD_ADDRESS = 7, /* key or range */
    EFA_REMOTE_ABORT = 8,
    EFA_REMOTE_BAD_QPN = 9,
    EFA_REMOTE_RNR = 10,
    EFA_REMOTE_BAD_LENGTH = 11, /* the receive is too short */
    EFA_REMOTE_BAD_STATUS = 12,
    EFA_UNRESPONSIVE = 13, /* it did answer once */
    EFA_UNKNOWN_PEER = 14, /* the target has no address handle for us */
    EFA_UNREACHABLE = 15,  /* it never answered */
};

/* First half of a send descriptor. */
struct efa_tx_meta {
    uint16_t req_id;
    uint8_t ctrl1, ctrl2;
    uint16_t dest_qp_num;
    uint16_t length; /* of inline data in bytes, or of the list in entries */
    uint32_t imm;
    uint16_t ah;
    uint8_t ctrl3, reserved;
    uint32_t qkey;
    uint8_t reserved2[6];
    uint16_t req_id_ex[3]; /* upper parts of a 64-bit request id */
};

enum {
    EFA_TX_OPCODE = 0x0f, /* ctrl1 */
    EFA_TX_HAS_IMM = 0x10,
    EFA_TX_INLINE = 0x20,
    EFA_TX_META = 0x80,
    EFA_TX_PHASE = 0x01, /* ctrl2 */
    EFA_TX_FIRST = 0x04,
    EFA_TX_LAST = 0x08,
    EFA_TX_COMP_REQ = 0x10,
};

struct efa_tx_buf { /* the remote side of an RDMA request has the same form */
    uint32_t length, key, addr_lo, addr_hi;
};

#define EFA_TX_BUFS 2
#define EFA_INLINE_64 32 /* bytes that fit into a descriptor of 64 and of 128 bytes; a write has 16 fewer */
#define EFA_INLINE_128 80

struct efa_tx_wqe {
    struct efa_tx_meta meta;
    union {
        struct efa_tx_buf list[EFA_TX_BUFS];
        uint8_t inline_data[96];
        struct {
            struct efa_tx_buf remote;
            union {
                struct efa_tx_buf local;
                uint8_t inline_data[80];
            };
        } rdma;
    };
};

struct efa_rx_desc {
    uint32_t addr_lo, addr_hi;
    uint16_t req_id, length;
    uint32_t lkey_ctrl;
};
#define EFA_RX_LKEY 0xffffffu
#define EFA_RX_LAST (1u << 31)

/* The word that holds the phase is stored last. */
struct efa_cqe {
    uint16_t req_id;
    uint8_t status, flags;
    uint16_t qp_num;
    union {
        uint16_t req_id_ex[3]; /* of a send */
        struct {
            uint16_t length, ah, src_qp;
        };
    };
    uint32_t imm;
    union { /* only where completions have 32 bytes */
        uint16_t length_hi;
        uint8_t src_addr[16]; /* where no address handle is known */
    };
};

enum {
    EFA_CQE_PHASE = 0x01,
    EFA_CQE_QUEUE_SHIFT = 1,
    EFA_CQE_HAS_IMM = 0x08,
    EFA_CQE_OPCODE_SHIFT = 4,
    EFA_CQE_UNSOLICITED = 0x80,
};
#define EFA_CQE_SIZE 16u
#define EFA_CQE_SIZE_EX 32u
#define EFA_NO_AH 0xffff

_Static_assert(sizeof(struct efa_tx_meta) == 32 && sizeof(struct efa_tx_wqe) == 128, "send descriptors");
_Static_assert(sizeof(struct efa_rx_desc) == 16, "receive descriptors");
_Static_assert(sizeof(struct efa_cqe) == 32 && offsetof(struct efa_cqe, length_hi) == 16, "completions");

#define EFA_CQ_DB_INDEX 0xffffu
#define EFA_CQ_DB_SN(value) ((value) >> 29 & 3)
#define EFA_CQ_DB_ARM (1u << 31)

/* ---- the driver's structures, as of rdma-core 65 ---- */

enum {
    EFA_CAP_RDMA_READ = 1 << 0,
    EFA_CAP_RNR_RETRY = 1 << 1,
    EFA_CAP_CQ_NOTIFICATIONS = 1 << 2,
    EFA_CAP_CQ_WITH_SGID = 1 << 3,
    EFA_CAP_DATA_POLLING_128 = 1 << 4,
    EFA_CAP_RDMA_WRITE = 1 << 5,
    EFA_CAP_UNSOLICITED_WRITE_RECV = 1 << 6,
    EFA_CAP_CQ_WITH_EXT_MEM = 1 << 7,
    EFA_CAP_COMP_CNTR = 1 << 8,
    EFA_CAP_SQ_64_BIT_REQ_ID = 1 << 9,
};

enum { EFA_UDATA_QUERY_DEVICE = 1, EFA_UDATA_CREATE_AH = 2 };

struct efa_context_out {
    uint32_t comp_mask, udata_mask;
    uint16_t sub_cqs_per_cq, inline_buf_size;
    uint32_t max_llq_size;
    uint16_t max_tx_batch, min_sq_wr, inline_buf_size_ex;
    uint8_t reserved[2];
};

struct efa_device_out {
    uint32_t comp_mask, max_sq_wr, max_rq_wr;
    uint16_t max_sq_sge, max_rq_sge;
    uint32_t max_rdma_size, device_caps;
};

struct efa_pd_out {
    uint32_t comp_mask;
    uint16_t pdn;
    uint8_t reserved[2];
};

enum { EFA_CQ_WITH_CHANNEL = 1, EFA_CQ_WITH_SGID = 2, EFA_CQ_WITH_64_BIT_REQ_ID = 4 };

struct efa_cq_in {
    uint32_t comp_mask, entry_size;
    uint16_t num_sub_cqs;
    uint8_t flags, reserved[5];
};

enum { EFA_CQ_OUT_DB_OFF = 1 };

struct efa_cq_out {
    uint32_t comp_mask;
    uint8_t reserved[4];
    uint64_t q_key, q_size;
    uint16_t cq_idx;
    uint8_t reserved2[2];
    uint32_t db_off;
    uint64_t db_key;
};

enum { EFA_QP_UNSOLICITED_WRITE_RECV = 1, EFA_QP_64_BIT_REQ_ID = 2 };
#define EFA_DRIVER_QP_SRD 0

struct efa_qp_in { /* up to rdma-core 51 it ended before flags */
    uint32_t comp_mask, rq_ring_size, sq_ring_size, driver_qp_type;
    uint16_t flags;
    uint8_t sl, reserved[5];
};
#define EFA_QP_IN_FIRST 16

struct efa_qp_out {
    uint32_t comp_mask, rq_db_off, sq_db_off, llq_desc_off;
    uint64_t rq_key, rq_size, rq_db_key, sq_db_key, llq_key;
    uint16_t send_sub_cq, recv_sub_cq;
    uint8_t reserved[4];
};

struct efa_ah_out {
    uint32_t comp_mask;
    uint16_t ahn;
    uint8_t reserved[2];
};

#endif
