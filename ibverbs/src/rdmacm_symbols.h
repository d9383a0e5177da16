/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one list of the functions of librdmacm that are called. REQ: every supported library has it. OPT: the pointer may
 * be NULL. The second argument is the first rdma-core release that has it.
 */
#ifndef IBVERBS_RDMACM_SYMBOLS_H
#define IBVERBS_RDMACM_SYMBOLS_H

#define RDMACM_SYMBOLS(REQ, OPT)                                                                                       \
    REQ(create_event_channel, "13")                                                                                    \
    REQ(destroy_event_channel, "13")                                                                                   \
    REQ(create_id, "13")                                                                                               \
    REQ(destroy_id, "13")                                                                                              \
    REQ(bind_addr, "13")                                                                                               \
    REQ(resolve_addr, "13")                                                                                            \
    REQ(resolve_route, "13")                                                                                           \
    REQ(listen, "13")                                                                                                  \
    REQ(connect, "13")                                                                                                 \
    REQ(accept, "13")                                                                                                  \
    REQ(reject, "13")                                                                                                  \
    REQ(disconnect, "13")                                                                                              \
    REQ(migrate_id, "13")                                                                                              \
    REQ(get_cm_event, "13")                                                                                            \
    REQ(ack_cm_event, "13")                                                                                            \
    REQ(leave_multicast, "13")                                                                                         \
    OPT(join_multicast_ex, "16")                                                                                       \
    OPT(init_qp_attr, "23")                                                                                            \
    OPT(establish, "23")

#endif
