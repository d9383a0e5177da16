/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to QUERY and QUERY_ROUTE. */
#include "query.h"

#include "../device.h"
#include "address.h"
#include "attr.h"
#include "id.h"

enum {
    PATH_FLAGS = 0x2b, /* GMP PRIMARY BIDIRECTIONAL */
    EXACTLY = 2,       /* of the selectors beside mtu, rate and life time; in the wire's record in the upper two bits */
    MTU_4096 = 5,
    HOP_LIMIT = 64,
};

static void put_be64(uint8_t *p, uint64_t value)
{
    for (int k = 0; k < 8; k++)
        p[k] = (uint8_t)(value >> (56 - 8 * k));
}

static uint64_t service_id(const struct cm_id *id, const union cm_addr *a)
{
    return (uint64_t)id->ps << 16 | cm_addr_port(a);
}

void cm_query_addr(struct region *r, const struct cm_id *id, struct rdma_ucm_query_addr_resp *ret)
{
    (void)r;
    if (id->device >= 0) {
        memcpy(&ret->node_guid, device_at(id->device)->guid, sizeof(ret->node_guid));
        ret->port_num = 1;
    }
    ret->src_size = (uint16_t)cm_addr_size(&id->src);
    ret->dst_size = (uint16_t)cm_addr_size(&id->dst);
    memcpy(&ret->src_addr, &id->src, sizeof(id->src));
    memcpy(&ret->dst_addr, &id->dst, sizeof(id->dst));
    if (ret->src_size && !ret->dst_size) { /* an empty address of its family */
        ret->dst_size = ret->src_size;
        memcpy(&ret->dst_addr, &id->src.sa.sa_family, sizeof(id->src.sa.sa_family));
    }
}

/* As a struct sockaddr_ib. */
static void put_sockaddr_ib(const struct cm_id *id, const union cm_addr *a, void *ret)
{
    uint8_t *p = ret;

    if (a->sa.sa_family == CM_AF_IB) {
        memcpy(p, a, sizeof(*a));
        return;
    }
    p[0] = CM_AF_IB;
    if (!a->sa.sa_family)
        return;
    cm_addr_gid(a, p + 8);
    put_be64(p + 24, service_id(id, a));
}

void cm_query_gid(struct region *r, const struct cm_id *id, struct rdma_ucm_query_addr_resp *ret)
{
    cm_query_addr(r, id, ret);
    memset(&ret->src_addr, 0, sizeof(ret->src_addr));
    memset(&ret->dst_addr, 0, sizeof(ret->dst_addr));
    if (!id->src.sa.sa_family)
        return;
    ret->src_size = ret->dst_size = sizeof(union cm_addr);
    put_sockaddr_ib(id, &id->src, &ret->src_addr);
    put_sockaddr_ib(id, &id->dst, &ret->dst_addr);
}

/* A path record as it goes over the wire. */
static void put_path_record(struct region *r, const struct cm_id *id, uint8_t *p)
{
    uint32_t flow = cm_attr_flow(id);

    if (id->link == LINK_REQ_RCVD)
        put_be64(p, service_id(id, &id->src));
    cm_addr_wire_gid(r, &id->dst, id->device, p + 8);
    cm_addr_wire_gid(r, &id->src, id->device, p + 24);
    p[44] = (uint8_t)(flow >> 16);
    p[45] = (uint8_t)(flow >> 8);
    p[46] = (uint8_t)flow;
    p[47] = HOP_LIMIT;
    p[48] = id->tos;
    p[49] = 0x80; /* reversible */
    p[50] = p[51] = 0xff;
    p[54] = EXACTLY << 6 | MTU_4096;
    p[55] = EXACTLY << 6;
    p[56] = (uint8_t)(EXACTLY << 6 | id->life);
}

void cm_query_path(struct region *r, const struct cm_id *id, struct cm_path_answer *ret, size_t *ret_size)
{
    *ret_size = offsetof(struct cm_path_answer, path);
    if (!id->has_route || id->device < 0)
        return;
    ret->count = 1;
    ret->path.flags = PATH_FLAGS;
    put_path_record(r, id, (uint8_t *)ret->path.path_rec);
    *ret_size = sizeof(*ret);
}

void cm_query_route(struct region *r, const struct cm_id *id, struct rdma_ucm_query_route_resp *ret)
{
    struct ib_user_path_rec *p = &ret->ib_route[0];

    memcpy(&ret->src_addr, &id->src, sizeof(ret->src_addr));
    memcpy(&ret->dst_addr, &id->dst, sizeof(ret->dst_addr));
    if (id->device < 0)
        return;
    memcpy(&ret->node_guid, device_at(id->device)->guid, sizeof(ret->node_guid));
    ret->port_num = 1;
    p->pkey = 0xffff;
    cm_addr_wire_gid(r, &id->src, id->device, p->sgid);
    if (id->dst.sa.sa_family)
        cm_addr_wire_gid(r, &id->dst, id->device, p->dgid);
    if (!id->has_route)
        return;
    ret->num_paths = 1;
    p->mtu = MTU_4096;
    p->mtu_selector = p->rate_selector = p->packet_life_time_selector = EXACTLY;
    p->packet_life_time = id->life;
    p->hop_limit = HOP_LIMIT;
    p->traffic_class = id->tos;
    p->reversible = 1;
    p->flow_label = htonl(cm_attr_flow(id));
}
