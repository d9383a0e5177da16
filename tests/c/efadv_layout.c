/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: the structures and values of libefa that the package and the stub declare for themselves are those of
 * the real header. It is compared with one of rdma-core 65 or newer, where the compiler finds one (another folder than
 * the system's is given by -Dc_args=-I...); otherwise the test is skipped. All of it happens while this file is compiled.
 */
#include "../../efa/src/efadv.h"
#include "../stub/efadv.h"

#ifdef HAVE_EFADV_65
#include <infiniband/efadv.h>

#define SIZE_OF(theirs, ours) _Static_assert(sizeof(struct theirs) == sizeof(struct ours), "size of " #ours)
#define PLACE_OF(theirs, ours, member) \
    _Static_assert(offsetof(struct theirs, member) == offsetof(struct ours, member) && \
                       sizeof(((struct theirs *)0)->member) == sizeof(((struct ours *)0)->member), #ours "." #member)

/* struct efadv_NAME with its members, as struct dv_NAME and struct stub_efadv_NAME have it. */
#define BOTH_SIZES(name) \
    SIZE_OF(efadv_##name, dv_##name); \
    SIZE_OF(efadv_##name, stub_efadv_##name)
#define BOTH(name, member) \
    PLACE_OF(efadv_##name, dv_##name, member); \
    PLACE_OF(efadv_##name, stub_efadv_##name, member)

BOTH_SIZES(device_attr);
BOTH(device_attr, comp_mask);
BOTH(device_attr, max_sq_wr);
BOTH(device_attr, max_rq_wr);
BOTH(device_attr, max_sq_sge);
BOTH(device_attr, max_rq_sge);
BOTH(device_attr, inline_buf_size);
BOTH(device_attr, inline_buf_size_ex);
BOTH(device_attr, device_caps);
BOTH(device_attr, max_rdma_size);
BOTH_SIZES(ah_attr);
BOTH(ah_attr, ahn);
BOTH_SIZES(qp_init_attr);
BOTH(qp_init_attr, comp_mask);
BOTH(qp_init_attr, driver_qp_type);
BOTH(qp_init_attr, flags);
BOTH(qp_init_attr, sl);
BOTH(qp_init_attr, reserved);
BOTH(qp_init_attr, wr_flags);
BOTH_SIZES(cq_init_attr);
BOTH(cq_init_attr, comp_mask);
BOTH(cq_init_attr, wc_flags);
BOTH(cq_init_attr, flags);
BOTH(cq_init_attr, ext_mem_dmabuf.buffer);
BOTH(cq_init_attr, ext_mem_dmabuf.length);
BOTH(cq_init_attr, ext_mem_dmabuf.offset);
BOTH(cq_init_attr, ext_mem_dmabuf.fd);
BOTH(cq_init_attr, ext_mem_dmabuf.reserved);
BOTH_SIZES(cq);
BOTH(cq, wc_read_sgid);
BOTH(cq, wc_is_unsolicited);
BOTH_SIZES(qp);
BOTH(qp, wr_set_processing_hints);
BOTH_SIZES(mr_attr);
BOTH(mr_attr, ic_id_validity);
BOTH(mr_attr, recv_ic_id);
BOTH(mr_attr, rdma_read_ic_id);
BOTH(mr_attr, rdma_recv_ic_id);
BOTH_SIZES(wq_attr);
BOTH(wq_attr, buffer);
BOTH(wq_attr, entry_size);
BOTH(wq_attr, num_entries);
BOTH(wq_attr, doorbell);
BOTH(wq_attr, max_batch);
BOTH(wq_attr, caps);
BOTH_SIZES(cq_attr);
BOTH(cq_attr, buffer);
BOTH(cq_attr, entry_size);
BOTH(cq_attr, num_entries);
BOTH(cq_attr, doorbell);
BOTH_SIZES(sq_depth_attr);
BOTH(sq_depth_attr, flags);
BOTH(sq_depth_attr, max_send_sge);
BOTH(sq_depth_attr, max_rdma_sge);
BOTH(sq_depth_attr, max_inline_data);
BOTH_SIZES(rq_depth_attr);
BOTH(rq_depth_attr, max_recv_sge);

/* What the package alone declares. */
#define OURS_SIZE(name) SIZE_OF(efadv_##name, dv_##name)
#define OURS(name, member) PLACE_OF(efadv_##name, dv_##name, member)

OURS_SIZE(memory_location);
OURS(memory_location, ptr);
OURS(memory_location, dmabuf.offset);
OURS(memory_location, dmabuf.fd);
OURS(memory_location, type);
OURS_SIZE(comp_cntr_init_attr);
OURS(comp_cntr_init_attr, comp_mask);
OURS(comp_cntr_init_attr, flags);
OURS(comp_cntr_init_attr, comp_cntr_ext_mem);
OURS(comp_cntr_init_attr, err_cntr_ext_mem);
SIZE_OF(ibv_comp_cntr, dv_comp_cntr);
PLACE_OF(ibv_comp_cntr, dv_comp_cntr, context);
PLACE_OF(ibv_comp_cntr, dv_comp_cntr, handle);
SIZE_OF(ibv_comp_cntr_init_attr, dv_comp_cntr_attr);
PLACE_OF(ibv_comp_cntr_init_attr, dv_comp_cntr_attr, comp_mask);
PLACE_OF(ibv_comp_cntr_init_attr, dv_comp_cntr_attr, type);
PLACE_OF(ibv_comp_cntr_init_attr, dv_comp_cntr_attr, flags);
SIZE_OF(ibv_qp_attach_comp_cntr_attr, dv_attach_comp_cntr_attr);
PLACE_OF(ibv_qp_attach_comp_cntr_attr, dv_attach_comp_cntr_attr, op_mask);

#define VALUE(theirs, ours) _Static_assert((long)(theirs) == (long)(ours), #ours)

VALUE(EFADV_QP_DRIVER_TYPE_SRD, DV_QP_SRD);
VALUE(EFADV_DEVICE_ATTR_CAPS_RDMA_READ, DV_CAP_RDMA_READ);
VALUE(EFADV_DEVICE_ATTR_CAPS_RNR_RETRY, DV_CAP_RNR_RETRY);
VALUE(EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID, DV_CAP_CQ_WITH_SGID);
VALUE(EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE, DV_CAP_RDMA_WRITE);
VALUE(EFADV_DEVICE_ATTR_CAPS_UNSOLICITED_WRITE_RECV, DV_CAP_UNSOLICITED_WRITE_RECV);
VALUE(EFADV_DEVICE_ATTR_CAPS_CQ_WITH_EXT_MEM_DMABUF, DV_CAP_CQ_WITH_EXT_MEM_DMABUF);
VALUE(EFADV_DEVICE_ATTR_CAPS_COMP_CNTR, DV_CAP_COMP_CNTR);
VALUE(EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV, DV_QP_UNSOLICITED_WRITE_RECV);
VALUE(EFADV_QP_FLAGS_INLINE_WRITE, DV_QP_INLINE_WRITE);
VALUE(EFADV_WR_EX_WITH_PROCESSING_HINTS, DV_WR_WITH_PROCESSING_HINTS);
VALUE(EFADV_WC_EX_WITH_SGID, DV_WC_WITH_SGID);
VALUE(EFADV_WC_EX_WITH_IS_UNSOLICITED, DV_WC_WITH_IS_UNSOLICITED);
VALUE(EFADV_CQ_INIT_FLAGS_EXT_MEM_DMABUF, DV_CQ_EXT_MEM_DMABUF);
VALUE(EFADV_SQ_DEPTH_ATTR_INLINE_WRITE, DV_SQ_DEPTH_INLINE_WRITE);
VALUE(EFADV_MEMORY_LOCATION_DMABUF, DV_MEMORY_DMABUF);
VALUE(EFADV_COMP_CNTR_INIT_WITH_COMP_EXTERNAL_MEM, DV_COMP_CNTR_COMP_MEMORY);
VALUE(EFADV_COMP_CNTR_INIT_WITH_ERR_EXTERNAL_MEM, DV_COMP_CNTR_ERR_MEMORY);
VALUE(EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE, STUB_EFA_CAP_RDMA_WRITE);
VALUE(EFADV_QP_FLAGS_INLINE_WRITE, STUB_EFA_QP_INLINE_WRITE);
VALUE(EFADV_WC_EX_WITH_IS_UNSOLICITED, STUB_EFA_WC_UNSOLICITED);

/* Prototypes: each of ours is called as the header says. */
#define RETURNS(name, type) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), type), #name " is another function")

RETURNS(efadv_get_max_sq_depth, int(struct ibv_context *, struct efadv_sq_depth_attr *, uint32_t));
RETURNS(efadv_query_qp_wqs, int(struct ibv_qp *, struct efadv_wq_attr *, struct efadv_wq_attr *, uint32_t));
RETURNS(efadv_create_cq, struct ibv_cq_ex *(struct ibv_context *, struct ibv_cq_init_attr_ex *,
                                            struct efadv_cq_init_attr *, uint32_t));
RETURNS(efadv_create_qp_ex, struct ibv_qp *(struct ibv_context *, struct ibv_qp_init_attr_ex *,
                                            struct efadv_qp_init_attr *, uint32_t));

int main(void)
{
    return 0;
}

#else

int main(void)
{
    return 77;
}

#endif
