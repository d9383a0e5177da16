/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one list of the functions that libibverbs exports and this core calls. REQ: every supported library has it.
 * OPT: the pointer may be NULL. The second argument is the first rdma-core release that has it.
 *
 * Verbs that verbs.h dispatches through the context, the QP or the CQ (post, poll, ...) need no entry here.
 */
#ifndef CORE_VERBS_SYMBOLS_H
#define CORE_VERBS_SYMBOLS_H

#define VERBS_SYMBOLS(REQ, OPT)                                                                                        \
    REQ(get_device_list, "13")                                                                                         \
    REQ(free_device_list, "13")                                                                                        \
    REQ(get_device_name, "13")                                                                                         \
    REQ(get_device_guid, "13")                                                                                         \
    OPT(get_device_index, "30")                                                                                        \
    REQ(open_device, "13")                                                                                             \
    REQ(close_device, "13")                                                                                            \
    REQ(query_device, "13")                                                                                            \
    REQ(query_port, "13")                                                                                              \
    REQ(query_gid, "13")                                                                                               \
    REQ(fork_init, "13")                                                                                               \
    OPT(is_fork_initialized, "35")                                                                                     \
    REQ(get_async_event, "13")                                                                                         \
    REQ(ack_async_event, "13")                                                                                         \
    REQ(event_type_str, "13")                                                                                          \
    REQ(alloc_pd, "13")                                                                                                \
    REQ(dealloc_pd, "13")                                                                                              \
    REQ(reg_mr, "13")                                                                                                  \
    OPT(reg_mr_iova2, "28")                                                                                            \
    OPT(reg_dmabuf_mr, "34")                                                                                           \
    REQ(dereg_mr, "13")                                                                                                \
    REQ(create_comp_channel, "13")                                                                                     \
    REQ(destroy_comp_channel, "13")                                                                                    \
    REQ(create_cq, "13")                                                                                               \
    REQ(destroy_cq, "13")                                                                                              \
    REQ(get_cq_event, "13")                                                                                            \
    REQ(ack_cq_events, "13")                                                                                           \
    REQ(create_srq, "13")                                                                                              \
    REQ(modify_srq, "13")                                                                                              \
    REQ(query_srq, "13")                                                                                               \
    REQ(destroy_srq, "13")                                                                                             \
    OPT(attach_mcast, "13")                                                                                            \
    OPT(detach_mcast, "13")                                                                                            \
    REQ(create_qp, "13")                                                                                               \
    REQ(modify_qp, "13")                                                                                               \
    REQ(query_qp, "13")                                                                                                \
    OPT(qp_to_qp_ex, "24")                                                                                             \
    REQ(destroy_qp, "13")                                                                                              \
    REQ(create_ah, "13")                                                                                               \
    REQ(destroy_ah, "13")                                                                                              \
    REQ(wc_status_str, "13")

#endif
