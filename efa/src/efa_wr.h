/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send request as `wr_*` builders take it: destination and remote memory side by side, which struct ibv_send_wr cannot
 * hold. The rules that it must keep before a builder is called (a provider runs into NULL for what it was not made
 * for), and the way of a batch to the provider. Knows no Python.
 */
#ifndef EFA_EFA_WR_H
#define EFA_EFA_WR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "efadv.h"
#include "wr.h"

struct efa_wr {
    struct wr_send fields;
    struct ibv_sge *sge; /* referred to, as is the address handle */
    struct ibv_ah *ah;
    uint32_t num_sge;
    uint32_t hints; /* DV processing hints */
};

/* What a queue pair was made for, as far as sends must keep to it. */
struct efa_wr_limits {
    uint64_t ops; /* IBV_QP_EX_WITH_ bits */
    uint32_t max_send_sge;
    uint32_t max_inline_data;
    uint32_t max_rdma_size; /* 0 where the library does not say */
    bool sq_sig_all;
    bool inline_write;
    bool hints;
};

enum efa_wr_fault {
    EFA_WR_OK,
    EFA_WR_BAD_OPCODE,     /* none that EFA has */
    EFA_WR_NOT_ENABLED,    /* one that the queue pair was not made for */
    EFA_WR_NO_DESTINATION, /* no address handle */
    EFA_WR_BAD_FLAGS,      /* flags that EFA does not have */
    EFA_WR_UNSIGNALED,     /* without a completion, which EFA does not have */
    EFA_WR_TOO_MANY_SGE,
    EFA_WR_TOO_MANY_RDMA_SGE, /* an RDMA request takes one */
    EFA_WR_RDMA_TOO_LONG,
    EFA_WR_INLINE_READ,
    EFA_WR_INLINE_WRITE, /* on a queue pair that was not made for it */
    EFA_WR_INLINE_TOO_LONG,
    EFA_WR_NO_HINTS, /* hints on a queue pair that was not made for them */
};

/* How many entries an RDMA request may have, and one with inline data. */
#define EFA_RDMA_SGE 1
#define EFA_INLINE_SGE 8

enum efa_wr_fault efa_wr_check(const struct efa_wr *wr, const struct efa_wr_limits *limits);

/*
 * Hands over a batch of checked requests: between wr_start and wr_complete, all or none of them. `dv` is NULL where no
 * request has hints. Returns what wr_complete does.
 */
int efa_wr_submit(struct ibv_qp_ex *qp, struct dv_qp *dv, const struct efa_wr *wr, size_t count);

#endif
