/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libefa as this package calls it: the structures and values of its direct verbs, up to EFA_1.7 (rdma-core 65), and
 * the table of what the installed library exports. Declared here under names of our own, because the headers that
 * distributions ship are older than the libraries that programs meet. Knows no Python.
 *
 * Structures that go in are passed zeroed and at their full size: every release takes that, and one that is too old
 * for a field refuses it unless it is zero. The layouts are those of 64-bit machines, held in efadv.c.
 */
#ifndef EFA_EFADV_H
#define EFA_EFADV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "loader.h"

/* ---- what goes in and comes out ----------------------------------------------------------------------------------- */

struct dv_device_attr {
    uint64_t comp_mask;
    uint32_t max_sq_wr;
    uint32_t max_rq_wr;
    uint16_t max_sq_sge;
    uint16_t max_rq_sge;
    uint16_t inline_buf_size;
    uint16_t inline_buf_size_ex; /* rdma-core 63; 0 before: as inline_buf_size */
    uint32_t device_caps;        /* 27 */
    uint32_t max_rdma_size;      /* 27 */
};

struct dv_ah_attr {
    uint64_t comp_mask;
    uint16_t ahn;
    uint8_t reserved[6];
};

struct dv_mr_attr {
    uint64_t comp_mask;
    uint16_t ic_id_validity;
    uint16_t recv_ic_id;
    uint16_t rdma_read_ic_id;
    uint16_t rdma_recv_ic_id;
};

struct dv_cq_attr {
    uint64_t comp_mask;
    uint8_t *buffer;
    uint32_t entry_size;
    uint32_t num_entries;
    uint32_t *doorbell; /* 60 */
};

struct dv_wq_attr {
    uint64_t comp_mask;
    uint8_t *buffer;
    uint32_t entry_size;
    uint32_t num_entries;
    uint32_t *doorbell;
    uint32_t max_batch;
    uint16_t caps; /* 65 */
    uint8_t reserved[2];
};

struct dv_sq_depth_attr {
    uint64_t comp_mask;
    uint32_t flags;
    uint32_t max_send_sge;
    uint32_t max_rdma_sge;
    uint32_t max_inline_data;
};

struct dv_rq_depth_attr {
    uint64_t comp_mask;
    uint32_t max_recv_sge; /* not 0: the library divides by it */
};

struct dv_qp_init_attr {
    uint64_t comp_mask;
    uint32_t driver_qp_type;
    uint16_t flags; /* 52 */
    uint8_t sl;     /* 55 */
    uint8_t reserved;
    uint64_t wr_flags; /* 64 */
};

struct dv_cq_init_attr {
    uint64_t comp_mask;
    uint64_t wc_flags;
    uint64_t flags; /* 59 */
    struct {
        uint8_t *buffer;
        uint64_t length;
        uint64_t offset;
        int32_t fd;
        uint8_t reserved[4];
    } ext_mem_dmabuf; /* 59 */
};

struct dv_memory_location {
    uint8_t *ptr;
    struct {
        uint64_t offset;
        int32_t fd;
        uint32_t reserved;
    } dmabuf;
    uint8_t type;
    uint8_t reserved[7];
};

struct dv_comp_cntr_init_attr {
    uint64_t comp_mask;
    uint32_t flags;
    uint32_t reserved;
    struct dv_memory_location comp_cntr_ext_mem;
    struct dv_memory_location err_cntr_ext_mem;
};

/*
 * The library's own, behind a CQ and a QP. Neither says how long it is: a pointer in it may be called only if what it
 * belongs to was asked for, and granted, when the queue was made.
 */
struct dv_cq {
    uint64_t comp_mask;
    int (*wc_read_sgid)(struct dv_cq *cq, union ibv_gid *sgid); /* 0, or -ENOENT where an address handle covers it */
    bool (*wc_is_unsolicited)(struct dv_cq *cq);                /* 52 */
};

struct dv_qp {
    uint64_t comp_mask;
    void (*wr_set_processing_hints)(struct dv_qp *qp, uint32_t hints); /* 64 */
};

/* ---- values ------------------------------------------------------------------------------------------------------- */

enum dv_driver_qp_type { DV_QP_SRD = 0 };

enum dv_device_cap {
    DV_CAP_RDMA_READ = 1 << 0,
    DV_CAP_RNR_RETRY = 1 << 1,
    DV_CAP_CQ_WITH_SGID = 1 << 2,
    DV_CAP_RDMA_WRITE = 1 << 3,
    DV_CAP_UNSOLICITED_WRITE_RECV = 1 << 4,
    DV_CAP_CQ_WITH_EXT_MEM_DMABUF = 1 << 5,
    DV_CAP_COMP_CNTR = 1 << 6,
};

enum dv_qp_flag { DV_QP_UNSOLICITED_WRITE_RECV = 1 << 0, DV_QP_INLINE_WRITE = 1 << 1 };
enum dv_wr_flag { DV_WR_WITH_PROCESSING_HINTS = 1 << 0 };
enum dv_wc_flag { DV_WC_WITH_SGID = 1 << 0, DV_WC_WITH_IS_UNSOLICITED = 1 << 1 };
enum dv_cq_flag { DV_CQ_EXT_MEM_DMABUF = 1 << 0 };
enum dv_sq_depth_flag { DV_SQ_DEPTH_INLINE_WRITE = 1 << 0 };
enum dv_memory_type { DV_MEMORY_VA, DV_MEMORY_DMABUF };
enum dv_comp_cntr_flag { DV_COMP_CNTR_COMP_MEMORY = 1 << 0, DV_COMP_CNTR_ERR_MEMORY = 1 << 1 };

/* ---- completion counters of libibverbs, which headers before rdma-core 65 lack ------------------------------------- */

struct dv_comp_cntr {
    struct ibv_context *context;
    uint32_t handle;
};

struct dv_comp_cntr_attr {
    uint32_t comp_mask;
    uint32_t type; /* of what it counts: 0 requests, 1 bytes */
    uint32_t flags;
};

struct dv_attach_comp_cntr_attr {
    uint32_t comp_mask;
    uint32_t op_mask;
};

/* ---- the table ------------------------------------------------------------------------------------------------------ */

#include "efadv_symbols.h"

struct efadv {
#define MEMBER(name, since, type, parameters) type(*name) parameters;
    EFADV_SYMBOLS(MEMBER, MEMBER)
    COMP_CNTR_SYMBOLS(MEMBER)
#undef MEMBER
};

extern struct efadv efadv;

/*
 * What the library is, beyond what it exports. Its version stands in its file's name only, if anywhere; what is not
 * known is taken for the worse.
 */
struct efadv_release {
    char path[256];     /* of the file that was loaded */
    unsigned release;   /* of rdma-core, 44; 0 where the file does not say */
    bool cuts_receives; /* takes a receive's length modulo 65536: before 57 (and 56.1) */
    bool skips_stale;   /* next_poll may go on after a completion of a destroyed queue pair: from 59 on */
};

extern struct efadv_release efadv_release;

/* libefa.so.1; and loader_load of it, after libibverbs, which has the table's functions of counters. */
extern struct loader_library efadv_library;
int efadv_load(char *reason, size_t reason_size);

/* Whether the library is of that rdma-core release, or newer: 1 or 0; -1 where neither its name nor what it has tells. */
int efadv_is_of(unsigned release);

/* Calls `each` for every function of the table, in its order. Stops at the first that does not return 0 and returns that. */
int efadv_each(int (*each)(void *arg, const char *name, const char *since, bool present), void *arg);

#endif
