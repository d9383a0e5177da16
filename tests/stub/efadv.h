/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The structures of libefa as of rdma-core 65, restated for the stub from nothing but their layout: the stub is built
 * where older headers are installed, and judges what the package under test declares for itself.
 * tests/c/efadv_layout.c compares both with the real header where there is one.
 */
#ifndef STUB_EFADV_H
#define STUB_EFADV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

enum {
    STUB_EFA_CAP_RDMA_READ = 1,
    STUB_EFA_CAP_RNR_RETRY = 2,
    STUB_EFA_CAP_CQ_WITH_SGID = 4,
    STUB_EFA_CAP_RDMA_WRITE = 8,
    STUB_EFA_CAP_UNSOLICITED_WRITE_RECV = 16,
    STUB_EFA_CAP_EXT_MEM_DMABUF = 32,
};

struct stub_efadv_device_attr {
    uint64_t comp_mask;
    uint32_t max_sq_wr, max_rq_wr;
    uint16_t max_sq_sge, max_rq_sge, inline_buf_size, inline_buf_size_ex;
    uint32_t device_caps, max_rdma_size;
};

struct stub_efadv_ah_attr {
    uint64_t comp_mask;
    uint16_t ahn;
    uint8_t reserved[6];
};

enum { STUB_EFA_QP_UNSOLICITED_WRITE_RECV = 1, STUB_EFA_QP_INLINE_WRITE = 2 };

struct stub_efadv_qp_init_attr {
    uint64_t comp_mask;
    uint32_t driver_qp_type;
    uint16_t flags;
    uint8_t sl, reserved;
    uint64_t wr_flags;
};

enum { STUB_EFA_WC_SGID = 1, STUB_EFA_WC_UNSOLICITED = 2, STUB_EFA_CQ_EXT_MEM_DMABUF = 1 };

struct stub_efadv_cq_init_attr {
    uint64_t comp_mask, wc_flags, flags;
    struct {
        uint8_t *buffer;
        uint64_t length, offset;
        int32_t fd;
        uint8_t reserved[4];
    } ext_mem_dmabuf;
};

struct stub_efadv_cq {
    uint64_t comp_mask;
    int (*wc_read_sgid)(struct stub_efadv_cq *cq, union ibv_gid *ret_sgid);
    bool (*wc_is_unsolicited)(struct stub_efadv_cq *cq);
};

struct stub_efadv_qp {
    uint64_t comp_mask;
    void (*wr_set_processing_hints)(struct stub_efadv_qp *qp, uint32_t hints);
};

struct stub_efadv_mr_attr {
    uint64_t comp_mask;
    uint16_t ic_id_validity, recv_ic_id, rdma_read_ic_id, rdma_recv_ic_id;
};

struct stub_efadv_wq_attr {
    uint64_t comp_mask;
    uint8_t *buffer;
    uint32_t entry_size, num_entries;
    uint32_t *doorbell;
    uint32_t max_batch;
    uint16_t caps;
    uint8_t reserved[2];
};

struct stub_efadv_cq_attr {
    uint64_t comp_mask;
    uint8_t *buffer;
    uint32_t entry_size, num_entries;
    uint32_t *doorbell;
};

struct stub_efadv_sq_depth_attr {
    uint64_t comp_mask;
    uint32_t flags, max_send_sge, max_rdma_sge, max_inline_data;
};

struct stub_efadv_rq_depth_attr {
    uint64_t comp_mask;
    uint32_t max_recv_sge;
};

struct stub_comp_cntr_attr {
    uint32_t comp_mask, type, flags;
};

struct stub_efadv_memory_location {
    uint8_t *ptr;
    struct {
        uint64_t offset;
        int32_t fd;
        uint32_t reserved;
    } dmabuf;
    uint8_t type, reserved[7];
};

struct stub_efadv_comp_cntr_init_attr {
    uint64_t comp_mask;
    uint32_t flags, reserved;
    struct stub_efadv_memory_location comp, err;
};

#endif
