/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs for the EFA device share: an SRD or UD end made with libefa, its addresses, posting. */
#ifndef TESTS_SRD_H
#define TESTS_SRD_H

#include <infiniband/efadv.h>

#include "pair.h"

#define SRD_QKEY 0x11111111u

/* Statuses of the device, which libefa hands on as vendor_err. */
enum {
    EFA_OK = 0,
    EFA_FLUSHED = 1,
    EFA_INVALID_AH = 4,
    EFA_INVALID_LKEY = 5,
    EFA_BAD_LENGTH = 6,
    EFA_BAD_RKEY = 7,
    EFA_BAD_QPN = 9,
    EFA_RNR = 10,
    EFA_SHORT_RECEIVE = 11,
    EFA_BAD_STATUS = 12,
    EFA_UNRESPONSIVE = 13,
    EFA_UNKNOWN_PEER = 14,
    EFA_UNREACHABLE = 15,
};

struct srd {
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq_ex *cqx;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_qp_ex *qpx;
    struct ibv_mr *mr;
    uint8_t *buf;
    size_t size;
    struct address self;
};

/* A completion as it was read. */
struct seen {
    uint64_t wr_id;
    int status; /* -1: none came */
    uint32_t vendor_err, byte_len, src_qp, slid, imm;
    enum ibv_wc_opcode opcode;
    unsigned flags;
    bool has_sgid;
    union ibv_gid sgid;
};

/* The n-th EFA device. */
struct ibv_context *efa_open(int n);
/* Made, not yet connected; depth of both queues. */
struct srd srd_make(struct ibv_context *ctx, enum ibv_qp_type type, size_t size, int depth);
void srd_start(struct srd *e, int rnr_retry); /* RESET to RTS; rnr_retry -1: as the device has it */
void srd_free(struct srd *e);
struct ibv_ah *srd_ah(struct srd *e, const union ibv_gid *gid);

void srd_recv(struct srd *e, uint64_t id, size_t offset, uint32_t length);
/* Each starts and completes a batch of one. */
void srd_send(struct srd *e, struct ibv_ah *ah, uint32_t qpn, uint64_t id, size_t offset, uint32_t length);
void srd_read(struct srd *e, struct ibv_ah *ah, const struct address *peer, uint64_t id, size_t offset, uint32_t length);
struct seen srd_wait(struct srd *e, int limit_ms);

#endif
