/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one list of the functions that this package finds by name: those of libefa, and those of libibverbs that only
 * it calls and older headers lack. X(name, the first rdma-core release that has it, what it returns, its parameters).
 * REQ: every supported library has it. OPT: the pointer may be NULL.
 */
#ifndef EFA_EFADV_SYMBOLS_H
#define EFA_EFADV_SYMBOLS_H

#define EFADV_SYMBOLS(REQ, OPT)                                                                                        \
    REQ(query_device, "26", int, (struct ibv_context *, struct dv_device_attr *, uint32_t))                            \
    REQ(query_ah, "26", int, (struct ibv_ah *, struct dv_ah_attr *, uint32_t))                                         \
    REQ(create_qp_ex, "26", struct ibv_qp *,                                                                           \
        (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct dv_qp_init_attr *, uint32_t))                      \
    OPT(create_cq, "43", struct ibv_cq_ex *,                                                                           \
        (struct ibv_context *, struct ibv_cq_init_attr_ex *, struct dv_cq_init_attr *, uint32_t))                      \
    OPT(cq_from_ibv_cq_ex, "43", struct dv_cq *, (struct ibv_cq_ex *))                                                 \
    OPT(query_mr, "50", int, (struct ibv_mr *, struct dv_mr_attr *, uint32_t))                                         \
    OPT(query_qp_wqs, "59", int, (struct ibv_qp *, struct dv_wq_attr *, struct dv_wq_attr *, uint32_t))                \
    OPT(query_cq, "59", int, (struct ibv_cq *, struct dv_cq_attr *, uint32_t))                                         \
    OPT(get_max_sq_depth, "63", int, (struct ibv_context *, struct dv_sq_depth_attr *, uint32_t))                      \
    OPT(get_max_rq_depth, "63", int, (struct ibv_context *, struct dv_rq_depth_attr *, uint32_t))                      \
    OPT(qp_from_ibv_qp_ex, "64", struct dv_qp *, (struct ibv_qp_ex *))                                                 \
    OPT(create_comp_cntr, "65", struct dv_comp_cntr *,                                                                 \
        (struct ibv_context *, struct dv_comp_cntr_attr *, struct dv_comp_cntr_init_attr *, uint32_t))

/* Of libibverbs; all of them optional. */
#define COMP_CNTR_SYMBOLS(OPT)                                                                                         \
    OPT(destroy_comp_cntr, "65", int, (struct dv_comp_cntr *))                                                         \
    OPT(read_comp_cntr, "65", int, (struct dv_comp_cntr *, uint64_t *))                                                \
    OPT(read_err_comp_cntr, "65", int, (struct dv_comp_cntr *, uint64_t *))                                            \
    OPT(set_comp_cntr, "65", int, (struct dv_comp_cntr *, uint64_t))                                                   \
    OPT(set_err_comp_cntr, "65", int, (struct dv_comp_cntr *, uint64_t))                                               \
    OPT(inc_comp_cntr, "65", int, (struct dv_comp_cntr *, uint64_t))                                                   \
    OPT(inc_err_comp_cntr, "65", int, (struct dv_comp_cntr *, uint64_t))                                               \
    OPT(qp_attach_comp_cntr, "65", int, (struct ibv_qp *, struct dv_comp_cntr *, struct dv_attach_comp_cntr_attr *))

#endif
