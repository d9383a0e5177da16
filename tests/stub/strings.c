/* SPDX-License-Identifier: BSD-3-Clause */
/* The stub's words for statuses, states and events, its rates, fork protection, and verbs that it refuses. */
#include "stub.h"
#include <stdlib.h>

static atomic_int fork_asked;

#define WORD(table, index) \
    ((unsigned int)(index) < sizeof table / sizeof *table && table[index] ? table[index] : "unknown")

STUB_EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    static const char *const words[] = {
        "success", "local length error", "local QP operation error", "local EE context operation error",
        "local protection error", "Work Request Flushed Error", "memory window bind error", "bad response error",
        "local access error", "remote invalid request error", "remote access error", "remote operation error",
        "transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
        "remote invalid RD request", "aborted error", "invalid EE context number", "invalid EE context state",
        "fatal error", "response timeout error", "general error", "TM error", "TM software rendezvous",
    };

    return WORD(words, status);
}

STUB_EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
    static const char *const words[] = {"nop", "down", "init", "armed", "active", "active deferred"};

    return WORD(words, state);
}

STUB_EXPORT const char *ibv_node_type_str(enum ibv_node_type type)
{
    static const char *const words[] = {NULL, "CA", "switch", "router", "RNIC", "usNIC", "usNIC UDP", "unspecified"};

    return WORD(words, type);
}

STUB_EXPORT const char *ibv_event_type_str(enum ibv_event_type type)
{
    static const char *const words[] = {
        "CQ error", "QP fatal", "QP request error", "QP access error", "communication established",
        "send queue drained", "path migrated", "path migration error", "device fatal", "port active", "port error",
        "LID change", "P_Key change", "SM change", "SRQ error", "SRQ limit reached", "last WQE reached",
        "client reregister", "GID change", "WQ fatal",
    };

    return WORD(words, type);
}

STUB_EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
    return rate == IBV_RATE_2_5_GBPS ? 1 : rate == IBV_RATE_5_GBPS ? 2 : rate == IBV_RATE_10_GBPS ? 4 : -1;
}

STUB_EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
    return mult == 1 ? IBV_RATE_2_5_GBPS : mult == 2 ? IBV_RATE_5_GBPS : mult == 4 ? IBV_RATE_10_GBPS : IBV_RATE_MAX;
}

STUB_EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
    int mult = ibv_rate_to_mult(rate);

    return mult < 0 ? -1 : mult * 2500;
}

STUB_EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
    return mult_to_ibv_rate(mbps / 2500);
}

STUB_EXPORT int ibv_fork_init(void)
{
    int err = stub_enter(VERB_fork_init, NULL);

    if (err)
        return stub_positive(err);
    stub_leave(VERB_fork_init, NULL);
    if (atomic_load(&fork_asked))
        return 0;
    if (stub_live("mr"))
        return EINVAL;
    atomic_store(&fork_asked, 1);
    return 0;
}

STUB_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6],
                                            uint16_t *vid)
{
    (void)context, (void)attr, (void)mac, (void)vid;
    errno = EOPNOTSUPP;
    return -1;
}

#if STUB_RELEASE >= 35
STUB_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return atomic_load(&fork_asked) ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}
#endif

#if STUB_RELEASE >= 31
STUB_EXPORT struct ibv_context *ibv_import_device(int fd)
{
    (void)fd;
    return stub_null(EOPNOTSUPP);
}

STUB_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    (void)context, (void)handle;
    return stub_null(EOPNOTSUPP);
}

STUB_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    (void)pd, (void)handle;
    return stub_null(EOPNOTSUPP);
}

STUB_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
    (void)context, (void)handle;
    return stub_null(EOPNOTSUPP);
}

STUB_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
    (void)pd;
}

STUB_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    (void)mr;
}

STUB_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
    (void)dm;
}

STUB_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

STUB_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

STUB_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp, (void)op, (void)flags;
    return 0;
}
#endif
