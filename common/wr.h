/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests: what a request holds side by side, the rules it must keep for its queue, and the union member of
 * ibv_send_wr that it goes into. Knows no Python.
 */
#ifndef CORE_WR_H
#define CORE_WR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* Queue pair numbers and packet sequence numbers have 24 bits. */
#define WR_QPN_MOST 0xffffff
#define WR_PSN_MOST 0xffffff

/* Every field that a send request may have; ibv_send_wr overlays some of them in unions. */
struct wr_send {
    uint64_t wr_id;
    uint64_t remote_addr;
    uint64_t compare_add;
    uint64_t swap;
    uint32_t opcode;
    uint32_t send_flags;
    uint32_t rkey;
    uint32_t imm_data; /* host byte order */
    uint32_t remote_qpn;
    uint32_t remote_qkey;
};

/* What a queue was granted when it was made, as far as requests must keep to it. */
struct wr_limits {
    uint32_t qp_type;
    uint32_t max_send_wr;
    uint32_t max_recv_wr;
    uint32_t max_send_sge;
    uint32_t max_recv_sge;
    uint32_t max_inline_data;
};

/* Why a request may not be posted. */
enum wr_fault {
    WR_OK,
    WR_BAD_OPCODE,      /* an opcode that this binding has no fields for */
    WR_NOT_FOR_UD,      /* an opcode that a UD queue pair does not have */
    WR_NEEDS_AH,        /* a UD send without an address handle */
    WR_AH_NOT_FOR_QP,   /* an address handle on a connected queue pair */
    WR_TOO_MANY_SGE,    /* more entries than the queue takes */
    WR_INLINE_TOO_LONG, /* more inline bytes than the queue takes */
    WR_INLINE_OPCODE,   /* inline data on a request that sends none */
};

/* How many bytes a request's entries name. */
uint64_t wr_total_length(const struct ibv_sge *sge, uint32_t num_sge);

/* Whether an opcode carries immediate data. */
bool wr_has_imm(uint32_t opcode);

/*
 * Checks a send request against its queue and writes it to `wr`, every byte of it, with no next request. `sge` and
 * `ah` are referred to, not copied. On a fault `wr` is untouched.
 */
enum wr_fault wr_fill_send(struct ibv_send_wr *wr, const struct wr_send *fields, const struct wr_limits *limits,
                           struct ibv_sge *sge, uint32_t num_sge, struct ibv_ah *ah);

/* The same for a receive request, for a queue that takes `max_sge` entries. */
enum wr_fault wr_fill_recv(struct ibv_recv_wr *wr, uint64_t wr_id, uint32_t max_sge, struct ibv_sge *sge,
                           uint32_t num_sge);

#endif
